// What the ring has kept of a span of time: how many packets of which class departed when, and which were lost.
import { isLost, WORDS } from './feed.ts';
import type { Ring } from './ring.ts';

/** How much departed over a span, in bins of one length. */
export interface Counts {
  /** When the first bin begins, and how long each is, ns. */
  from: number;
  width: number;
  bins: number;
  /** By class, for each bin; and those lost, at the time of their loss. */
  classes: Map<number, Uint32Array>;
  lost: Uint32Array;
}

/** A packet that was lost: when it was (ns), by which end it was sent, and its bytes. */
export interface Lost {
  at: number;
  end: number;
  length: number;
  /** As the feed has it (docs/api.md). */
  fate: number;
}

/** Visits what departed in a span (ns), chunk by chunk, in the order in which the feed told of it. */
function each(ring: Ring, from: number, to: number, visit: (sent: number, word: number) => void): void {
  for (const { base, spans } of ring.chunks) {
    const zero = Number(base);
    for (const span of spans) {
      if (zero + span.to < from || zero + span.from > to) continue;
      for (let word = span.start * WORDS, last = word + span.count * WORDS; word < last; word += WORDS) {
        visit(zero + ring.words[word + 1]!, word);
      }
    }
  }
}

/** A loss is shown at its time: what is asked for then has it still under way. */
const ends = (ring: Ring, sent: number, word: number) => sent + Math.max(ring.words[word + 2]! * 1000 - 1, 0);

export function counts(ring: Ring, from: number, to: number, bins: number): Counts {
  const width = Math.max(Math.ceil((to - from) / bins), 1);
  const classes = new Map<number, Uint32Array>();
  const lost = new Uint32Array(bins);
  each(ring, from, to, (sent, word) => {
    const bin = Math.floor((sent - from) / width);
    if (bin >= 0 && bin < bins) {
      const kind = (ring.words[word + 4]! >>> 16) & 0xff;
      let of = classes.get(kind);
      if (!of) classes.set(kind, (of = new Uint32Array(bins)));
      of[bin]!++;
    }
    if (!isLost(ring.words[word + 4]!)) return;
    const end = Math.floor((ends(ring, sent, word) - from) / width);
    if (end >= 0 && end < bins) lost[end]!++;
  });
  return { from, width, bins, classes, lost };
}

/** The first loss behind a time (ns), or (`back`) the last one before it. */
export function nextLoss(ring: Ring, at: number, back: boolean): Lost | null {
  let found: Lost | null = null;
  each(ring, back ? 0 : at - 2 ** 32 * 1000, back ? at : Infinity, (sent, word) => {
    if (!isLost(ring.words[word + 4]!)) return;
    const end = ends(ring, sent, word);
    const isNearer = back ? end < at && !(found && found.at >= end) : end > at && !(found && found.at <= end);
    const packed = ring.words[word + 4]!;
    if (isNearer) found = { at: end, end: ring.words[word]!, length: packed & 0xffff, fate: packed >>> 24 };
  });
  return found;
}
