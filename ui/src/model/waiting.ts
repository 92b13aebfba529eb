// What waits at ends, by class. A queue's packets are told when they leave it, not before. So its colours are those of as
// many packets as wait, which left last: what waited there until now, as far as packets are told one by one.
import { WORDS } from '../canvas/feed.ts';

/** Packets of an end that are remembered. */
const KEPT = 256;
/** A record's fate has this bit if its flight was told before. */
const TOLD = 0x80;
const ALL = 2 ** 32;

/** A class (-1: not known), and how many packets of it. */
export type Share = [kind: number, count: number];

export class Waiting {
  /** By end, how many packets wait. */
  #queued = new Map<number, number>();
  /** By end, the classes of those that have left, and how many these were. */
  #left = new Map<number, { kinds: Uint8Array; count: number }>();
  #oneIn = 1;
  /** Ends whose queues have changed. */
  #due = new Set<number>();

  queue(end: number, count: number): void {
    // A keyframe tells of all queues.
    if (!count && !this.#queued.has(end)) return;
    this.#due.add(end);
    if (count) this.#queued.set(end, count);
    else {
      this.#queued.delete(end);
      this.#left.delete(end);
    }
  }

  /** Takes the records of a frame of flights, of which one in so many is told. */
  take(words: Uint32Array, oneIn: number): void {
    if (!this.#queued.size) return;
    this.#oneIn = Math.max(oneIn, 1);
    for (let word = 0; word < words.length; word += WORDS) {
      const end = words[word]!;
      if (!this.#queued.has(end)) continue;
      const what = words[word + 4]!;
      // Those beside the share, lost or followed ones, would count too much.
      if ((what >>> 24) & TOLD || words[word + 3]! * this.#oneIn >= ALL) continue;
      let left = this.#left.get(end);
      if (!left) this.#left.set(end, (left = { kinds: new Uint8Array(KEPT), count: 0 }));
      left.kinds[left.count++ % KEPT] = (what >>> 16) & 0xff;
      this.#due.add(end);
    }
  }

  /** Forgets which packets left: classes have other numbers from now on. */
  forget(): void {
    this.#left.clear();
    for (const end of this.#queued.keys()) this.#due.add(end);
  }

  /** What waits at ends where that has changed since it was asked for last, the most of it first. */
  changed(): [end: number, shares: Share[]][] {
    const ends = [...this.#due];
    this.#due.clear();
    return ends.map((end) => [end, this.shares(end)]);
  }

  shares(end: number): Share[] {
    const queued = this.#queued.get(end) ?? 0;
    if (!queued) return [];
    const left = this.#left.get(end);
    if (!left) return [[-1, queued]];
    const many = Math.min(Math.max(Math.round(queued / this.#oneIn), 1), left.count, KEPT);
    const counts = new Map<number, number>();
    for (let back = 1; back <= many; back++) {
      const kind = left.kinds[(left.count - back) % KEPT]!;
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    const shares = [...counts].map(([kind, count]): Share => [kind, (count / many) * queued]);
    return shares.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  }
}
