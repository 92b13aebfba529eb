// A made-up feed: so many flights under way at any time, spread evenly over all ends, each for about a second.
import { HEADER_BYTES, WORDS } from '../src/canvas/feed.ts';

const MEAN_US = 1_000_000;
/** The greatest number of records that a frame's header can tell. */
const MOST = 65535;

export class Feed {
  readonly #ends: number;
  readonly #perNs: number;
  #until: bigint;
  #seq = 0;
  #state = 12345;

  constructor(ends: number, flights: number, now: bigint) {
    this.#ends = ends;
    this.#perNs = flights / (MEAN_US * 1000);
    this.#until = now;
  }

  #random(below: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * below);
  }

  /** The frames of all that departs until `now`, since the last time. */
  *until(now: bigint): Generator<ArrayBuffer> {
    const whole = Math.floor(Number(now - this.#until) * this.#perNs);
    for (let done = 0; done < whole;) {
      const count = Math.min(whole - done, MOST);
      const frame = new ArrayBuffer(HEADER_BYTES + 4 * WORDS * count);
      const view = new DataView(frame);
      view.setUint16(2, count, true);
      view.setUint32(4, this.#seq++, true);
      view.setBigUint64(8, this.#until, true);
      view.setUint32(20, 1, true);
      const words = new Uint32Array(frame, HEADER_BYTES);
      for (let at = 0; at < words.length; at += WORDS) {
        words[at] = this.#random(this.#ends);
        words[at + 1] = Math.floor((done + at / WORDS) / this.#perNs);
        words[at + 2] = MEAN_US / 2 + this.#random(MEAN_US);
        words[at + 3] = this.#random(2 ** 32);
        const isLost = this.#random(200) === 0;
        words[at + 4] = (64 + this.#random(1400)) | (this.#random(8) << 16) | (isLost ? 1 << 24 : 0);
      }
      done += count;
      yield frame;
    }
    this.#until += BigInt(Math.floor(whole / this.#perNs));
  }
}
