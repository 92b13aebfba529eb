// What a picture of a made-up lab costs: frames at rest and while the camera moves, picks, opening, memory.
import { positions } from '../src/canvas/force.ts';
import { network } from '../src/canvas/layout.ts';
import { made } from './network.ts';
import type { Stand } from './stand.ts';
import { traced } from './trace.ts';

export interface Case {
  backend: string;
  machines: number;
  /** Under way at any time. */
  flights: number;
  /** Where Canvas2D is drawn: `worker` or `main`. */
  thread?: string;
}

/** Times are ms; by the clock, of the picture itself, if nothing else is said. */
export interface Figures {
  backend: string;
  machines: number;
  flights: number;
  drawn: number;
  'frames/s': number;
  'p50 ms': number;
  'p95 ms': number;
  'max ms': number;
  /** By frame, processor time of all that the page's main thread does; of its process; of the process that draws. */
  'main p50 ms': number;
  'main p95 ms': number;
  'cpu page ms': number;
  'cpu gpu ms': number;
  'pan frames/s': number;
  'pan p95 ms': number;
  'pick p95 ms': number;
  'open ms': number;
  'heap MB': number;
}

/** What page.ts tells. */
interface Told {
  backend: string;
  frames: number;
  fps: number;
  p50: number;
  p95: number;
  most: number;
  flights: number;
  drawn: number;
}

const labs = new WeakMap<Stand, Set<number>>();

/** A lab of so many machines, with a layout: its name. */
function prepare(stand: Stand, machines: number): string {
  const there = labs.get(stand) ?? new Set();
  labs.set(stand, there);
  if (!there.has(machines)) {
    const topology = made(machines);
    const placed = positions(network(topology)).subarray(0, 2 * machines);
    stand.put(`lab-${machines}`, { topology, positions: [...placed].map(Math.round) });
    there.add(machines);
  }
  return `lab-${machines}`;
}

/** Processor time since the start, ms. It says more than the clock where others work beside. */
async function spent(stand: Stand): Promise<{ page: number; gpu: number }> {
  const session = await stand.browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  const of = (type: string) => processInfo.filter((one) => one.type === type).sort((a, b) => b.id - a.id)[0];
  return { page: 1000 * of('renderer')!.cpuTime, gpu: 1000 * (of('GPU')?.cpuTime ?? 0) };
}

export async function measure(
  stand: Stand,
  { backend, machines, flights, thread = 'worker' }: Case,
  seconds: number,
): Promise<Figures> {
  const page = await stand.open(
    `backend=${backend}&thread=${thread}&lab=${prepare(stand, machines)}&flights=${flights}`,
  );
  // Until as many are under way as there should be.
  await page.waitForTimeout(2000);
  const before = await spent(stand);
  const [rest, costs] = await traced(
    page,
    () => page.evaluate(`vink.measure(${1000 * seconds}, false)`) as Promise<Told>,
  );
  costs.sort((a, b) => a - b);
  const after = await spent(stand);
  const pan = (await page.evaluate(`vink.measure(${1000 * seconds}, true)`)) as Told;
  const pick = (await page.evaluate('vink.picks()')) as number;
  const open = (await page.evaluate('vink.open')) as number;
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  // With buffers, which Chromium counts apart.
  const { usedSize, backingStorageSize = 0 } = (await session.send('Runtime.getHeapUsage')) as {
    usedSize: number;
    backingStorageSize?: number;
  };
  await page.close();
  const per = (what: 'page' | 'gpu') => round((after[what] - before[what]) / rest.frames, 2);
  return {
    backend: rest.backend,
    machines,
    flights: rest.flights,
    drawn: rest.drawn,
    'frames/s': round(rest.fps),
    'p50 ms': round(rest.p50, 2),
    'p95 ms': round(rest.p95, 2),
    'max ms': round(rest.most),
    'main p50 ms': round(costs[Math.floor(costs.length * 0.5)]!, 2),
    'main p95 ms': round(costs[Math.floor(costs.length * 0.95)]!, 2),
    'cpu page ms': per('page'),
    'cpu gpu ms': per('gpu'),
    'pan frames/s': round(pan.fps),
    'pan p95 ms': round(pan.p95, 2),
    'pick p95 ms': round(pick, 2),
    'open ms': Math.round(open),
    'heap MB': Math.round((usedSize + backingStorageSize) / 1e6),
  };
}

function round(value: number, digits = 1): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}
