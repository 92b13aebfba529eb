// Measures the picture in Debian's Chromium, headless: `npm run bench`, here with these after `--`.
//
//   --backend webgl2,canvas2d   --thread main   --machines 1000,10000   --flights 5000,50000   --seconds 5   --gpu swiftshader
//
// `--rounds picture`, `--rounds open` or `--rounds seek --run FOLDER` is for vink-bench: for each line of its input it
// prints the figures of one round, those of `ui_picture`, `ui_open` or `ui_seek`.
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import type { Browser } from 'playwright-core';
import { launch } from './browser.ts';
import { Daemon } from './daemon.ts';
import { measure, type Figures } from './measure.ts';
import { open, prepare } from './opening.ts';
import { openRun, scattered, seek } from './seeking.ts';
import { Stand } from './stand.ts';

/** Times that are sought in a round. */
const SEEKS = 100;

const { values } = parseArgs({
  options: {
    backend: { type: 'string', default: 'auto' },
    thread: { type: 'string', default: 'worker' },
    machines: { type: 'string', default: '1000,10000,10000' },
    flights: { type: 'string', default: '5000,50000,100000' },
    seconds: { type: 'string', default: '5' },
    gpu: { type: 'string', default: 'none' },
    rounds: { type: 'string' },
    run: { type: 'string', default: '' },
  },
});

if (values.rounds === 'open') await withDaemon(opening);
else if (values.rounds === 'seek') await withDaemon(seeking);
else {
  const stand = await Stand.make(values.gpu);
  try {
    if (values.rounds) await rounds(() => pictures(stand));
    else await table(stand);
  } finally {
    await stand.close();
  }
}

async function table(stand: Stand): Promise<void> {
  const flights = values.flights.split(',').map(Number);
  const rows: Figures[] = [];
  for (const backend of values.backend.split(',')) {
    for (const [place, machines] of values.machines.split(',').map(Number).entries()) {
      rows.push(
        await measure(
          stand,
          { backend, machines, flights: flights[place] ?? 0, thread: values.thread },
          Number(values.seconds),
        ),
      );
      console.error(`${backend}, ${machines} machines: done`);
    }
  }
  console.table(rows);
}

async function rounds(round: () => Promise<number[]>): Promise<void> {
  for await (const _ of createInterface({ input: process.stdin })) console.log((await round()).join(' '));
}

async function pictures(stand: Stand): Promise<number[]> {
  const small = await measure(stand, { backend: 'auto', machines: 1000, flights: 5000 }, 3);
  const large = await measure(stand, { backend: 'auto', machines: 10_000, flights: 50_000 }, 3);
  return [small['main p95 ms'], large['main p95 ms'], small['open ms'], large['open ms']];
}

async function withDaemon(measure: (daemon: Daemon, browser: Browser) => Promise<void>): Promise<void> {
  const daemon = await Daemon.start();
  const browser = await launch(values.gpu);
  try {
    await measure(daemon, browser);
  } finally {
    await browser.close();
    await daemon.stop();
  }
}

/** Real labs in the whole page. */
async function opening(daemon: Daemon, browser: Browser): Promise<void> {
  const labs: [string, number][] = [];
  for (const machines of [1000, 10_000]) {
    const lab = await prepare(daemon, machines);
    await open(daemon, browser, lab, machines, true);
    labs.push([lab, machines]);
  }
  await rounds(async () => {
    const figures = [];
    for (const [lab, machines] of labs) figures.push((await open(daemon, browser, lab, machines)).placed);
    return figures;
  });
}

/** Times all over a recorded run. */
async function seeking(daemon: Daemon, browser: Browser): Promise<void> {
  const { page, length } = await openRun(daemon, browser, values.run);
  let done = 0;
  await rounds(async () => {
    const took = await seek(page, scattered(length, done, SEEKS));
    done += SEEKS;
    took.sort((a, b) => a - b);
    return [took[Math.floor(took.length * 0.95)]!];
  });
}
