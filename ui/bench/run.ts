// Measures the picture in Debian's Chromium, headless, without a graphics processor: `npm run bench`, or with `-- --json`
// for one object of figures.
//
//   --backend webgl2,canvas2d   --machines 1000,10000   --flights 5000,50000   --seconds 5   --shot DIR
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { network } from '../src/canvas/layout.ts';
import { positions } from '../src/canvas/force.ts';
import { made } from './network.ts';
import { Stand } from './stand.ts';

const { values } = parseArgs({
  options: {
    backend: { type: 'string', default: 'webgl2,canvas2d' },
    machines: { type: 'string', default: '1000,10000,10000' },
    flights: { type: 'string', default: '5000,50000,100000' },
    seconds: { type: 'string', default: '5' },
    // `none`: as in a virtual machine, where Chromium has no WebGL2 and draws by itself.
    gpu: { type: 'string', default: 'swiftshader' },
    shot: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const numbers = (list: string) => list.split(',').map(Number);

interface Figures {
  backend: string;
  frames: number;
  fps: number;
  p50: number;
  p95: number;
  most: number;
  flights: number;
  drawn: number;
}

const stand = await Stand.make(values.gpu);
const { browser } = stand;
try {
  for (const machines of new Set(numbers(values.machines))) {
    const topology = made(machines);
    const placed = positions(network(topology)).subarray(0, 2 * machines);
    stand.put(`lab-${machines}`, { topology, positions: [...placed].map(Math.round) });
  }
  // Processor time, which says more than the clock where others work beside: of a page's main thread, of its whole process,
  // and of the process that draws.
  const system = await browser.newBrowserCDPSession();
  const spent = async () => {
    const { processInfo } = await system.send('SystemInfo.getProcessInfo');
    const of = (type: string) => processInfo.filter((one) => one.type === type).sort((a, b) => b.id - a.id)[0]!;
    const leader = Number(readFileSync(`/proc/${of('renderer').id}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
    return { main: leader, page: 1000 * of('renderer').cpuTime, gpu: 1000 * of('GPU').cpuTime };
  };
  const rows: Record<string, number | string>[] = [];
  for (const backend of values.backend.split(',')) {
    for (const [place, machines] of numbers(values.machines).entries()) {
      const flights = numbers(values.flights)[place] ?? 0;
      const page = await stand.open(`backend=${backend}&lab=lab-${machines}&flights=${flights}`);
      // Until as many are under way as there should be.
      await page.waitForTimeout(2500);
      const ms = 1000 * Number(values.seconds);
      const before = await spent();
      const rest = (await page.evaluate(`vink.measure(${ms}, false)`)) as Figures;
      const after = await spent();
      if (values.shot) await page.screenshot({ path: join(values.shot, `${backend}-${machines}-${flights}.png`) });
      const pan = (await page.evaluate(`vink.measure(${ms}, true)`)) as Figures;
      const pick = (await page.evaluate('vink.picks()')) as number;
      const open = (await page.evaluate('vink.open')) as number;
      const session = await page.context().newCDPSession(page);
      await session.send('HeapProfiler.collectGarbage');
      const heap = (await page.evaluate('performance.memory.usedJSHeapSize')) as number;
      const buffers = (await page.evaluate('24 * 2 ** 20')) as number;
      rows.push({
        backend,
        machines,
        flights: rest.flights,
        drawn: rest.drawn,
        'frames/s': round(rest.fps),
        'p50 ms': round(rest.p50, 2),
        'p95 ms': round(rest.p95, 2),
        'max ms': round(rest.most, 1),
        'cpu main ms': round((after.main - before.main) / rest.frames, 2),
        'cpu page ms': round((after.page - before.page) / rest.frames, 2),
        'cpu gpu ms': round((after.gpu - before.gpu) / rest.frames, 2),
        'pan frames/s': round(pan.fps),
        'pan p95 ms': round(pan.p95, 2),
        'pick p95 ms': round(pick, 2),
        'open ms': Math.round(open),
        'heap MB': Math.round((heap + buffers) / 1e6),
      });
      if (!values.json) console.log(rows.at(-1));
      await page.close();
    }
  }
  if (values.json) console.log(JSON.stringify(rows));
  else console.table(rows);
} finally {
  await stand.close();
}

function round(value: number, digits = 1): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}
