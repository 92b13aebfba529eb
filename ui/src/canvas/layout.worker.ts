// Places nodes by forces, off the page's main thread. It gets a network and answers with positions, the last of them done.
import { positions, type Network } from './force.ts';

export interface Answer {
  positions: Float32Array;
  done: boolean;
}

let told = 0;
const post = (answer: Answer) => self.postMessage(answer, { transfer: [answer.positions.buffer] });

self.onmessage = ({ data }: MessageEvent<Network>) => {
  const last = positions(data, (on) => {
    // Twice a second is enough to see that it converges.
    if (performance.now() - told < 400) return;
    told = performance.now();
    post({ positions: on, done: false });
  });
  post({ positions: last, done: true });
};
