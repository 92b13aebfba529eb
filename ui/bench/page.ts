// The measured page: a picture of a made-up lab, a made-up feed, and what frames cost. run.ts opens it.
import { Picture } from '../src/canvas/picture.ts';
import type { Topology } from '../src/canvas/types.ts';

const asked = new URLSearchParams(location.search);
const flights = Number(asked.get('flights'));

const { topology, positions } = (await (await fetch(`${asked.get('lab')}.json`)).json()) as {
  topology: Topology;
  positions: number[];
};
const picture = new Picture(document.querySelector('canvas')!, {
  backend: asked.get('backend') as 'webgl2' | 'canvas2d' | 'auto',
  thread: asked.get('thread') === 'main' ? 'main' : 'worker',
});
picture.topology(topology);
picture.positions(Float32Array.from(positions));
picture.fit();

/** Ends of frames, and ms of the main thread for each: the picture's own, and the feed's since the frame before. */
const ends: number[] = [];
const costs: number[] = [];
let fed = 0;
let frames = 0;

function watch(): void {
  const stats = picture.stats();
  if (stats.frames !== frames) {
    frames = stats.frames;
    ends.push(performance.now());
    costs.push(picture.lastMs() + fed);
    fed = 0;
  }
  requestAnimationFrame(watch);
}
await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
const open = performance.now();
watch();

if (flights) {
  // The lab's time is that since the page began, and the feed is made elsewhere.
  const worker = new Worker(new URL('./feed.worker.ts', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
    const start = performance.now();
    picture.flights(data);
    fed += performance.now() - start;
  };
  worker.postMessage({ ends: 2 * topology.wires.length, flights, origin: performance.timeOrigin });
  picture.clock(BigInt(Math.round(performance.now() * 1e6)), 1);
}

const sorted = (values: number[]) => [...values].sort((a, b) => a - b);
const at = (values: number[], share: number) => sorted(values)[Math.floor(values.length * share)] ?? 0;

/** Watches for some ms, while the camera moves or rests. */
async function measure(ms: number, isPanning: boolean): Promise<Record<string, number | string>> {
  ends.length = costs.length = 0;
  const home = picture.camera();
  const begin = performance.now();
  while (performance.now() - begin < ms) {
    await new Promise(requestAnimationFrame);
    if (!isPanning) continue;
    const turn = (performance.now() - begin) / 500;
    const scale = home.scale * (1.5 + 0.5 * Math.sin(turn / 3));
    picture.camera({ x: home.x + 300 * Math.sin(turn), y: home.y + 300 * Math.cos(turn), scale });
  }
  const took = performance.now() - begin;
  picture.camera(home);
  const stats = picture.stats();
  return {
    backend: stats.backend,
    frames: ends.length,
    fps: (1000 * ends.length) / took,
    p50: at(costs, 0.5),
    p95: at(costs, 0.95),
    most: at(costs, 0.9999),
    flights: stats.flights,
    drawn: stats.drawn,
  };
}

/** What a pick costs, ms: the 95th percentile of a hundred over the whole canvas. */
function picks(): number {
  const costs: number[] = [];
  for (let nth = 0; nth < 100; nth++) {
    const start = performance.now();
    picture.pick((nth % 10) * 128, Math.floor(nth / 10) * 80);
    costs.push(performance.now() - start);
  }
  return at(costs, 0.95);
}

Object.assign(globalThis, { vink: { open, measure, picks, picture, stats: () => picture.stats() } });
