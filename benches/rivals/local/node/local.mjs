// Work that does nothing, through fastq and p-queue: the same waves as in src/main.rs, and the same lines of JSON.
// usage: node local.mjs [--units N]

import fastq from 'fastq';
import PQueue from 'p-queue';

const WAVE = 1000;
const position = process.argv.indexOf('--units');
const units = position < 0 ? 300_000 : Number(process.argv[position + 1]);
const nothing = async (number) => number;

async function waves(total, add) {
  for (let wave = 0; wave < total / WAVE; wave++) {
    const results = [];
    for (let number = 0; number < WAVE; number++) results.push(add(wave * WAVE + number));
    await Promise.all(results);
  }
}

async function burst(total, add) {
  const results = [];
  for (let number = 0; number < total; number++) results.push(add(number));
  await Promise.all(results);
}

const promised = (shape) => async (total, concurrency) => {
  const queue = fastq.promise(nothing, concurrency);
  await shape(total, (number) => queue.push(number));
};

const pQueue = (shape) => async (total, concurrency) => {
  const queue = new PQueue({ concurrency });
  await shape(total, (number) => queue.add(() => nothing(number)));
};

// A worker with a callback ends at once, so all of it runs within push.
const callback = async (total, concurrency) => {
  const queue = fastq((number, done) => done(null, number), concurrency);
  for (let wave = 0; wave < total / WAVE; wave++) {
    await new Promise((resolve) => {
      let left = WAVE;
      const done = () => { if (--left === 0) resolve(); };
      for (let number = 0; number < WAVE; number++) queue.push(wave * WAVE + number, done);
    });
  }
};

const entrants = [
  ['fastq, promises', 'awaited', promised(waves)],
  ['p-queue', 'awaited', pQueue(waves)],
  ['fastq, promises', 'burst', promised(burst)],
  ['p-queue', 'burst', pQueue(burst)],
  ['fastq, callbacks', 'forgotten', callback],
];

for (const [who, work, run] of entrants) {
  for (const concurrency of [1, 10, 100]) {
    await run(units, concurrency); // Compiled by the time that counts.
    const cpu = process.cpuUsage();
    const begin = performance.now();
    await run(units, concurrency);
    const rate = units / ((performance.now() - begin) / 1000);
    const { user, system } = process.cpuUsage(cpu);
    console.log(JSON.stringify({ who, work, concurrency, rate, nanos: (user + system) * 1000 / units }));
  }
}
