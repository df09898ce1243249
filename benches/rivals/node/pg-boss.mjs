// The shared work on pg-boss, in batches. It keeps finished jobs.

import { PgBoss } from 'pg-boss';

import { run } from './protocol.mjs';

const QUEUE = 'rivals';
const BATCH = 500;
const FETCHERS = 4;
const CONNECTIONS = 20;

async function open(url, isFirst) {
  const boss = new PgBoss({
    connectionString: url, max: CONNECTIONS, useListenNotify: true, supervise: false, schedule: false,
  });
  boss.on('error', error => console.error(error.message));
  await boss.start();
  if (isFirst) await boss.createQueue(QUEUE, { notify: true });
  const left = `SELECT EXISTS (SELECT 1 FROM pgboss.job WHERE name = '${QUEUE}' AND state < 'completed') AS left`;
  return {
    enqueue: i => boss.send(QUEUE, { i }),
    enqueueAll: numbers => boss.insert(QUEUE, numbers.map(i => ({ data: { i } }))),
    start: note => boss.work(
      QUEUE,
      { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency: FETCHERS, pollingIntervalSeconds: 0.5 },
      async jobs => { for (const _ of jobs) note(); },
    ),
    isLeft: async () => (await boss.getDb().executeSql(left)).rows[0].left,
    close: () => boss.stop({ graceful: false }),
  };
}

await run({ name: 'pg-boss', open });
