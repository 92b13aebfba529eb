// Where the flights under way are, as the vertex shader has it: for Canvas2D, and for the pointer.
import { nodeSize, type View } from './camera.ts';
import { LANE, NOWHERE, type Moving } from './drawing.ts';
import { isLost, WORDS } from './feed.ts';

/**
 * By end, where its flights begin on the canvas, and their whole way, pixels: x, y, x, y. NaN where none is to be seen. It
 * changes only with the camera and the nodes' places, so that a flight costs no more than some sums.
 */
export function ways(ends: Float32Array, view: View, into: Float32Array): void {
  const size = nodeSize(view.scale);
  const lane = Math.min(LANE, LANE * view.scale * 2);
  const { width, height, scale } = view;
  for (let at = 0; at < ends.length; at += 4) {
    into[at] = NaN;
    if (ends[at]! >= NOWHERE) continue;
    const x = (ends[at]! - view.x) * scale + width / 2;
    const y = (ends[at + 1]! - view.y) * scale + height / 2;
    const wayX = (ends[at + 2]! - ends[at]!) * scale;
    const wayY = (ends[at + 3]! - ends[at + 1]!) * scale;
    const isBeside = (one: number, way: number, most: number) =>
      (one < -9 && one + way < -9) || (one > most && one + way > most);
    if (isBeside(x, wayX, width + 9) || isBeside(y, wayY, height + 9)) continue;
    const far = Math.sqrt(wayX * wayX + wayY * wayY);
    if (!(far >= 1)) continue;
    const rim = Math.min(size, far * 0.4) / far;
    into[at] = x + wayX * rim - (wayY / far) * lane;
    into[at + 1] = y + wayY * rim + (wayX / far) * lane;
    into[at + 2] = wayX * (1 - 2 * rim);
    into[at + 3] = wayY * (1 - 2 * rim);
  }
}

/**
 * Flights under way: each one's first word in the ring, and where it is, pixels from the canvas's upper left corner. Arrays,
 * since a call with two fractions for each of fifty thousand flights leaves as much garbage at every frame.
 */
export class Places {
  count = 0;
  word = new Uint32Array(1024);
  x = new Float32Array(1024);
  y = new Float32Array(1024);

  /** Makes room for so many. */
  room(count: number): void {
    if (count <= this.word.length) return;
    const length = Math.max(count, 2 * this.word.length);
    this.word = new Uint32Array(length);
    this.x = new Float32Array(length);
    this.y = new Float32Array(length);
  }
}

/**
 * Places the flights under way, or one in `oneIn` of them: the same ones along their whole way, as their ids decide.
 */
export function place(words: Uint32Array, along: Float32Array, moving: Moving, oneIn: number, into: Places): void {
  const { now, runs, least, lost } = moving;
  const below = 2 ** 32 / oneIn;
  into.count = 0;
  into.room(runs.reduce((sum, run) => sum + run.count, 0));
  const { word: atWord, x: atX, y: atY } = into;
  let placed = 0;
  for (const { base, start, count } of runs) {
    const at = Number(now - base);
    for (let word = start * WORDS, last = (start + count) * WORDS; word < last; word += WORDS) {
      const age = at - words[word + 1]!;
      const never = isLost(words[word + 4]!);
      const lasts = Math.max(words[word + 2]! * 1000, never ? lost : least);
      if (age < 0 || age >= lasts) continue;
      const end = 4 * words[word]!;
      const x = along[end]!;
      // NaN, or no end that is known.
      if (!(x === x)) continue;
      if (oneIn > 1 && mixed(words[word + 3]!) >= below) continue;
      const done = never ? Math.min(age / lasts, 0.4) : age / lasts;
      atWord[placed] = word;
      atX[placed] = x + along[end + 2]! * done;
      atY[placed++] = along[end + 1]! + along[end + 3]! * done;
    }
  }
  into.count = placed;
}

/** An id's bits, mixed: ids in a row, or in steps, are spread evenly. */
function mixed(id: number): number {
  const half = Math.imul(id ^ (id >>> 16), 0x7feb352d);
  return Math.imul(half ^ (half >>> 15), 0x846ca68b) >>> 0;
}
