// The shared work for libraries of Node: the same as in ../protocol.rs, with the same arguments and told in the
// same lines. Workers run in processes of their own beside the producers, except for the idle start, where one
// clock has to see both.
//
// A library is { name, open(url, isFirst, finished, rule) }. An opened queue has enqueue(i), enqueueAll(numbers), start(note),
// isLeft() (whether a job is not completed yet) and close(); and submitFlows(count, children) if jobs can wait for others, which
// submits that many parents of so many children in the way that is fastest for it. A rule is one that never binds: rate, concurrency or unique.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const BULK = 1_000;
const PRODUCERS = 64;
const BULK_PRODUCERS = 2;
const IDLE_MAX_MS = 60_000;
const WARM_UP_SAMPLES = 10;
/** A Redis server has numbers for databases: their places in this list. */
const DATABASES = ['bulk', 'whole', 'single', 'idle', 'flows'];
/** Jobs that the parent of a flow waits for. */
const CHILDREN = 10;

const options = {
  '--jobs': 20_000, '--singles': 20_000, '--samples': 300, '--processes': 1, '--server': '', '--server-pid': 0,
  '--finished': 'kept', '--rule': 'none',
};

/** Does all work and prints a line for each; or runs jobs, in a process that was started for that. */
export async function run(library) {
  if (process.argv[2] === '--worker') return work(library, ...process.argv.slice(3));
  await measure(library);
  // Libraries may leave timers behind that would hold the process.
  process.exit();
}

async function measure(library) {
  for (let at = 2; at < process.argv.length; at += 2) {
    const [name, value] = process.argv.slice(at, at + 2);
    if (!(name in options)) throw new Error(`${name} is unknown; known are ${Object.keys(options).join(', ')}`);
    options[name] = typeof options[name] === 'number' ? Number(value) : value;
  }
  const version = versionOf(library.name);
  const tell = (work, figures) => console.log(JSON.stringify({ who: library.name, version, work, ...figures }));
  const server = options['--server'].replace(/\/$/, '');
  const place = work => `${server}/${isRedis() ? DATABASES.indexOf(work) : work}`;
  const open = work => library.open(place(work), true, options['--finished'], options['--rule']);
  const jobs = options['--jobs'];

  const bulk = await open('bulk');
  tell('enqueue bulk of 1,000', await enqueueBulk(bulk));
  tell('run jobs that wait', await runAll(bulk, place('bulk'), 0));
  await bulk.close();

  const whole = await open('whole');
  tell('end to end', await runAll(whole, place('whole'), jobs));
  await whole.close();
  if (library.hasFlows && options['--rule'] === 'none') {
    const flows = await open('flows');
    tell('flows to their end', await runFlows(flows, place('flows')));
    await flows.close();
  }
  // More workers change nothing about the rest, and a rule is compared by the figures above.
  if (options['--processes'] > 1 || options['--rule'] !== 'none') return;

  const single = await open('single');
  tell('enqueue single by 64 producers', await enqueueSingle(single));
  await single.close();

  const idle = await open('idle');
  const latencies = (await idleStarts(idle)).sort((a, b) => a - b);
  const percentile = percent => latencies[Math.floor((latencies.length - 1) * percent / 100)];
  tell('idle start', { p50_ms: percentile(50), p99_ms: percentile(99), samples: latencies.length });
  await idle.close();
}

const rate = (jobs, began) => ({ jobs_per_s: jobs * 1_000 / (performance.now() - began) });

/** Fills an empty place, and tells how much heavier a Redis server is with it. */
async function enqueueBulk(queue) {
  const jobs = options['--jobs'];
  const before = isRedis() ? await usedBytes() : 0;
  const began = performance.now();
  await fill(queue, 1, jobs);
  const figures = rate(jobs, began);
  if (isRedis()) figures.memory_bytes_per_job = (await usedBytes() - before) / jobs;
  return figures;
}

/** Runs all jobs, of which the last `fresh` ones are enqueued meanwhile, until the last completion is committed. */
async function runAll(queue, place, fresh) {
  const jobs = options['--jobs'];
  const workers = await startWorkers(place);
  const before = serverCpuTicks();
  const began = performance.now();
  for (const worker of workers) worker.child.send('start');
  await fill(queue, BULK_PRODUCERS, fresh);
  await seen(workers, jobs);
  while (await queue.isLeft()) await sleep(1);
  const figures = rate(jobs, began);
  if (options['--server-pid']) figures.server_cpu_us_per_job = (serverCpuTicks() - before) * 10_000 / jobs;
  await stopWorkers(workers);
  return figures;
}

/** Submits flows and runs them at the same time, until the last is over: as many as have about so many jobs. */
async function runFlows(queue, place) {
  const count = Math.floor(options['--jobs'] / (CHILDREN + 1));
  const workers = await startWorkers(place);
  const before = serverCpuTicks();
  const began = performance.now();
  const rate = () => count * 1_000 / (performance.now() - began);
  for (const worker of workers) worker.child.send('start');
  await queue.submitFlows(count, CHILDREN);
  const submitted = rate();
  await seen(workers, count * (CHILDREN + 1));
  while (await queue.isLeft()) await sleep(1);
  const figures = { flows_per_s: rate(), submitted_per_s: submitted };
  if (options['--server-pid']) figures.server_cpu_us_per_flow = (serverCpuTicks() - before) * 10_000 / count;
  await stopWorkers(workers);
  return figures;
}

const startWorkers = place => Promise.all(Array.from({ length: options['--processes'] }, () => startWorker(place)));

/** Ends when all workers together have run so many jobs. */
async function seen(workers, jobs) {
  while (workers.reduce((sum, worker) => sum + worker.seen, 0) < jobs) {
    if (workers.some(worker => worker.child.exitCode !== null)) throw new Error('a worker ended before the last job');
    await sleep(1);
  }
}

async function stopWorkers(workers) {
  for (const { child } of workers) child.send('stop');
  await Promise.all(workers.map(({ ended }) => ended));
}

/** A process with a worker that is connected and waits for the word to start. */
async function startWorker(place) {
  const settings = ['--worker', place, options['--finished'], options['--rule']];
  const child = fork(process.argv[1], settings, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const worker = { child, seen: 0, ended: once(child, 'exit') };
  await Promise.race([once(child, 'message'), worker.ended]);
  child.on('message', seen => { worker.seen = seen; });
  return worker;
}

/** What runs in such a process. */
async function work(library, place, finished, rule) {
  const queue = await library.open(place, false, finished, rule);
  let seen = 0;
  let told = 0;
  setInterval(() => { if (seen > told) process.send(told = seen); }, 2);
  process.on('message', async word => {
    if (word === 'start') return queue.start(() => { seen += 1; });
    await Promise.race([queue.close(), sleep(5_000)]);
    process.exit();
  });
  process.send(0);
}

/** Enqueues `jobs` in bulk, by so many producers at once. */
async function fill(queue, producers, jobs) {
  await Promise.all(Array.from({ length: producers }, async (_, producer) => {
    const end = Math.floor(jobs * (producer + 1) / producers);
    for (let start = Math.floor(jobs * producer / producers); start < end; start += BULK) {
      await queue.enqueueAll(Array.from({ length: Math.min(BULK, end - start) }, (_, i) => start + i));
    }
  }));
}

async function enqueueSingle(queue) {
  const share = Math.max(1, Math.floor(options['--singles'] / PRODUCERS));
  const began = performance.now();
  await Promise.all(Array.from({ length: PRODUCERS }, async (_, producer) => {
    for (let i = 0; i < share; i += 1) await queue.enqueue(producer * share + i);
  }));
  return rate(share * PRODUCERS, began);
}

/** From the call of enqueue to the first line of the handler, on an idle worker. */
async function idleStarts(queue) {
  let note;
  await queue.start(() => note?.(performance.now()));
  const latencies = [];
  const began = performance.now();
  for (let i = 0; i < WARM_UP_SAMPLES + options['--samples']; i += 1) {
    await sleep(5 + i % 3);
    const started = new Promise(resolve => { note = resolve; });
    const called = performance.now();
    await queue.enqueue(i);
    const latency = await started - called;
    if (i >= WARM_UP_SAMPLES) latencies.push(latency);
    if (performance.now() - began > IDLE_MAX_MS && latencies.length > 0) break;
  }
  while (await queue.isLeft()) await sleep(1);
  return latencies;
}

const isRedis = () => options['--server'].startsWith('redis:');

/** Bytes of all keys. What connections and the append-only file hold for a moment is left out. */
async function usedBytes() {
  const { hostname, port } = new URL(options['--server']);
  // A server counts what each connection holds about once a second.
  await sleep(1_200);
  const socket = connect(Number(port), hostname);
  socket.write('INFO memory\r\nQUIT\r\n');
  let text = '';
  for await (const part of socket) text += part;
  const figure = name => Number(text.match(new RegExp(`^${name}:(\\d+)`, 'm'))[1]);
  return figure('used_memory') - figure('mem_clients_normal') - figure('mem_aof_buffer');
}

/** Hundredths of a second that the server has used: its first process with its dead children, and those that live. */
function serverCpuTicks() {
  const parent = options['--server-pid'];
  if (!parent) return 0;
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').split(' ').filter(Boolean);
  return children.reduce((sum, child) => sum + ticks(child, 2), ticks(parent, 4));
}

function ticks(pid, fields) {
  try {
    const rest = readFileSync(`/proc/${pid}/stat`, 'utf8').split(')').at(-1).trim().split(' ');
    return rest.slice(11, 11 + fields).reduce((sum, field) => sum + Number(field), 0);
  } catch {
    return 0; // It has just ended, and is counted with the parent's next time.
  }
}

function versionOf(name) {
  const lock = JSON.parse(readFileSync(new URL('package-lock.json', import.meta.url), 'utf8'));
  return lock.packages[`node_modules/${name}`].version;
}
