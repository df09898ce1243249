// The shared work on BullMQ. It keeps finished jobs or deletes them, as it is told.

import { Queue, Worker } from 'bullmq';

import { run } from './protocol.mjs';

const QUEUE = 'rivals';
const SLOTS = 256;

async function open(url, _isFirst, finished) {
  const { hostname: host, port, pathname } = new URL(url);
  const connection = { host, port: Number(port), db: Number(pathname.slice(1)), maxRetriesPerRequest: null };
  const queue = new Queue(QUEUE, { connection });
  queue.on('error', error => console.error(error.message));
  await queue.waitUntilReady();
  const removal = finished === 'deleted' ? { removeOnComplete: { count: 0 } } : {};
  const workers = [];
  return {
    enqueue: i => queue.add('nothing', { i }),
    enqueueAll: numbers => queue.addBulk(numbers.map(i => ({ name: 'nothing', data: { i } }))),
    start: async note => {
      const worker = new Worker(QUEUE, async () => note(), { connection, concurrency: SLOTS, ...removal });
      worker.on('error', error => console.error(error.message));
      workers.push(worker);
      await worker.waitUntilReady();
    },
    isLeft: async () => Object.values(await queue.getJobCounts('wait', 'active')).some(count => count > 0),
    close: () => Promise.all([...workers.map(worker => worker.close(true)), queue.close()]),
  };
}

await run({ name: 'bullmq', open });
