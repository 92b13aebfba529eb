// Measures the picture in Debian's Chromium, headless: `npm run bench`, here with these after `--`.
//
//   --backend webgl2,canvas2d   --machines 1000,10000   --flights 5000,50000   --seconds 5   --gpu swiftshader
//
// `--rounds` is for vink-bench: for each line of its input it prints the figures of one round, those of `ui_picture`.
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { measure, type Figures } from './measure.ts';
import { Stand } from './stand.ts';

const { values } = parseArgs({
  options: {
    backend: { type: 'string', default: 'auto' },
    machines: { type: 'string', default: '1000,10000,10000' },
    flights: { type: 'string', default: '5000,50000,100000' },
    seconds: { type: 'string', default: '5' },
    gpu: { type: 'string', default: 'none' },
    rounds: { type: 'boolean', default: false },
  },
});

const stand = await Stand.make(values.gpu);
try {
  if (values.rounds) await rounds();
  else await table();
} finally {
  await stand.close();
}

async function table(): Promise<void> {
  const flights = values.flights.split(',').map(Number);
  const rows: Figures[] = [];
  for (const backend of values.backend.split(',')) {
    for (const [place, machines] of values.machines.split(',').map(Number).entries()) {
      rows.push(await measure(stand, { backend, machines, flights: flights[place] ?? 0 }, Number(values.seconds)));
      console.error(`${backend}, ${machines} machines: done`);
    }
  }
  console.table(rows);
}

async function rounds(): Promise<void> {
  for await (const _ of createInterface({ input: process.stdin })) {
    const small = await measure(stand, { backend: 'auto', machines: 1000, flights: 5000 }, 3);
    const large = await measure(stand, { backend: 'auto', machines: 10_000, flights: 50_000 }, 3);
    console.log(small['main p95 ms'], large['main p95 ms'], small['open ms'], large['open ms']);
  }
}
