// The shared work on BullMQ. It keeps finished jobs or deletes them, as it is told, and has a rule that never binds if it is
// told so: its limiter, its concurrency over all workers, or its deduplication.

import { Queue, Worker } from 'bullmq';

import { run } from './protocol.mjs';

const QUEUE = 'rivals';
const SLOTS = 256;
/** More than is ever reached. */
const FAR = 1_000_000;

async function open(url, isFirst, finished, rule) {
  const { hostname: host, port, pathname } = new URL(url);
  const connection = { host, port: Number(port), db: Number(pathname.slice(1)), maxRetriesPerRequest: null };
  const queue = new Queue(QUEUE, { connection });
  queue.on('error', error => console.error(error.message));
  await queue.waitUntilReady();
  const removal = finished === 'deleted' ? { removeOnComplete: { count: 0 } } : {};
  const limiter = rule === 'rate' ? { limiter: { max: FAR, duration: 1_000 } } : {};
  if (isFirst && rule === 'concurrency') await queue.setGlobalConcurrency(FAR);
  const job = i => ({ name: 'nothing', data: { i }, opts: rule === 'unique' ? { deduplication: { id: String(i) } } : {} });
  const workers = [];
  return {
    enqueue: i => queue.add('nothing', { i }),
    enqueueAll: numbers => queue.addBulk(numbers.map(job)),
    start: async note => {
      const settings = { connection, concurrency: SLOTS, ...removal, ...limiter };
      const worker = new Worker(QUEUE, async () => note(), settings);
      worker.on('error', error => console.error(error.message));
      workers.push(worker);
      await worker.waitUntilReady();
    },
    isLeft: async () => Object.values(await queue.getJobCounts('wait', 'active')).some(count => count > 0),
    close: () => Promise.all([...workers.map(worker => worker.close(true)), queue.close()]),
  };
}

await run({ name: 'bullmq', open });
