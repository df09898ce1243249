// The shared work on graphile-worker, with its local queue and batched completions. It deletes finished jobs.

import { Logger, makeWorkerUtils, run as runWorker } from 'graphile-worker';
import pg from 'pg';

import { run } from './protocol.mjs';

const JOB = 'nothing';
const SLOTS = 24;
const CONNECTIONS = 20;
const logger = new Logger(() => () => {});
const preset = {
  worker: {
    localQueue: { size: 500, refetchDelay: { durationMs: 100 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

function connect(url, max) {
  const pool = new pg.Pool({ connectionString: url, max });
  const complain = error => console.error(error.message);
  pool.on('error', complain).on('connect', client => client.on('error', complain));
  return pool;
}

async function open(url, isFirst) {
  const pgPool = connect(url, CONNECTIONS);
  const utils = await makeWorkerUtils({ pgPool, logger });
  if (isFirst) await utils.migrate();
  let runner;
  return {
    enqueue: i => utils.addJob(JOB, { i }),
    enqueueAll: numbers => utils.addJobs(numbers.map(i => ({ identifier: JOB, payload: { i } }))),
    start: async note => {
      const taskList = { [JOB]: async () => note() };
      runner = await runWorker({
        pgPool: connect(url, SLOTS + 2), concurrency: SLOTS, noHandleSignals: true, logger, preset, taskList,
      });
    },
    isLeft: async () =>
      (await pgPool.query('SELECT EXISTS (SELECT 1 FROM graphile_worker._private_jobs) AS left')).rows[0].left,
    close: async () => {
      await runner?.stop();
      await utils.release();
      await pgPool.end();
    },
  };
}

await run({ name: 'graphile-worker', open });
