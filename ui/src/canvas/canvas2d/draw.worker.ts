// Draws a picture by Canvas2D off the page's main thread. It has records of its own, as a GPU has.
import { WORDS } from '../feed.ts';
import { CAPACITY } from '../ring.ts';
import { Canvas2d } from './backend.ts';
import type { Asked, Call, Told } from './calls.ts';

const records = new Uint32Array(CAPACITY * WORDS);
let backend: Canvas2d;
const tell = (told: Told) => self.postMessage(told);

function run({ call, args }: Call): void {
  switch (call) {
    case 'records': {
      const [words, start] = args;
      records.set(words, start * WORDS);
      return backend.records(records);
    }
    case 'frame':
      return tell({ drawn: backend.frame(...args) });
    default:
      (backend[call] as (...args: unknown[]) => void)(...args);
  }
}

self.onmessage = ({ data }: MessageEvent<Asked>) => {
  if (data === 'shown') {
    // What is drawn is shown from the frame after it on.
    requestAnimationFrame(() => requestAnimationFrame(() => tell('shown')));
    return;
  }
  if ('call' in data) return run(data);
  const context = data.canvas.getContext('2d', { alpha: false, willReadFrequently: true });
  if (!context) throw new Error('this browser has no 2D context for a canvas in a worker');
  backend = new Canvas2d(context, () => tell('again'));
};
tell('begun');
