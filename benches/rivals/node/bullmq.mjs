// The shared work on BullMQ. It keeps finished jobs or deletes them, as it is told, and has a rule that never binds if it is
// told so: its limiter, its concurrency over all workers, or its deduplication.

import { FlowProducer, Queue, Worker } from 'bullmq';

import { run } from './protocol.mjs';

const QUEUE = 'rivals';
const SLOTS = 256;
/** More than is ever reached. */
const FAR = 1_000_000;
/** Flows are submitted so many in a call, and by so many at once: of what was tried, with these they end soonest. */
const FLOWS_A_CALL = 50;
const FLOW_PRODUCERS = 2;

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
  const flows = new FlowProducer({ connection });
  flows.on('error', error => console.error(error.message));
  const nothing = (i, children) => ({ name: 'nothing', queueName: QUEUE, data: { i }, children });
  const workers = [];
  return {
    enqueue: i => queue.add('nothing', { i }),
    enqueueAll: numbers => queue.addBulk(numbers.map(job)),
    submitFlows: (count, children) => Promise.all(Array.from({ length: FLOW_PRODUCERS }, async (_, producer) => {
      const end = Math.floor(count * (producer + 1) / FLOW_PRODUCERS);
      for (let start = Math.floor(count * producer / FLOW_PRODUCERS); start < end; start += FLOWS_A_CALL) {
        const some = Array.from({ length: Math.min(FLOWS_A_CALL, end - start) }, (_, parent) =>
          nothing(start + parent, Array.from({ length: children }, (_, i) => nothing(i))));
        await flows.addBulk(some);
      }
    })),
    start: async note => {
      const settings = { connection, concurrency: SLOTS, ...removal, ...limiter };
      const worker = new Worker(QUEUE, async () => note(), settings);
      worker.on('error', error => console.error(error.message));
      workers.push(worker);
      await worker.waitUntilReady();
    },
    isLeft: async () => Object.values(await queue.getJobCounts('wait', 'active', 'waiting-children')).some(count => count > 0),
    close: () => Promise.all([...workers.map(worker => worker.close(true)), flows.close(), queue.close()]),
  };
}

await run({ name: 'bullmq', hasFlows: true, open });
