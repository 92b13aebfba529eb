// How many flights are under way at each end. More than can be told apart are drawn as a stream instead.
import { WORDS } from './feed.ts';
import type { Run } from './ring.ts';

/** A direction of a wire becomes a stream above the one number, and is none any more below the other. */
export const DENSE = 30;
const SPARSE = 20;

export interface Density {
  /** Flights under way. */
  flights: number;
  /** By end. */
  counts: Uint16Array;
}

/** Counts the flights of `runs` that are under way at `now`, each for at least `least` ns. */
export function count(words: Uint32Array, runs: Run[], now: bigint, least: number, ends: number): Density {
  const counts = new Uint16Array(ends);
  let flights = 0;
  for (const { base, start, count } of runs) {
    const at = Number(now - base);
    for (let word = start * WORDS, last = (start + count) * WORDS; word < last; word += WORDS) {
      const age = at - words[word + 1]!;
      if (age < 0 || age >= Math.max(words[word + 2]! * 1000, least)) continue;
      flights++;
      const end = words[word]!;
      if (end < ends && counts[end]! < 65535) counts[end]!++;
    }
  }
  return { flights, counts };
}

/** The ends that are streams now, given those that were. */
export function dense(counts: Uint16Array, before: ReadonlySet<number>): Set<number> {
  const now = new Set<number>();
  counts.forEach((count, end) => {
    if (count > DENSE || (count > SPARSE && before.has(end))) now.add(end);
  });
  return now;
}

/** The class that most of the flights of each of these ends have. */
export function commonest(words: Uint32Array, runs: Run[], ends: ReadonlySet<number>): Map<number, number> {
  const counts = new Map([...ends].map((end) => [end, new Uint32Array(256)]));
  for (const { start, count } of runs) {
    for (let word = start * WORDS, last = (start + count) * WORDS; word < last; word += WORDS) {
      const of = counts.get(words[word]!);
      if (of) of[(words[word + 4]! >>> 16) & 0xff]!++;
    }
  }
  return new Map([...counts].map(([end, of]) => [end, of.indexOf(of.reduce((most, one) => Math.max(most, one), 0))]));
}
