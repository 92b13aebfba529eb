// The last 2^20 flights, as the feed's records. They are also the picture's memory: any time between the oldest and the
// newest can be shown again.
//
// A record's time is a number of ns after its chunk's base. A chunk is of at most 4 s, so that 32 bits hold it exactly;
// the shader subtracts integers before it makes a float of anything. A chunk is told in spans, of which only those that
// have flights under way at the time shown are drawn.
import { isLost, WORDS } from './feed.ts';

export const CAPACITY = 2 ** 20;
const CHUNK_NS = 4_000_000_000;
const SPAN = 2048;

interface Span {
  start: number;
  count: number;
  /** The first departure, the last one, the last one of a flight that is lost, and the last arrival: ns after the chunk's base. */
  from: number;
  last: number;
  lost: number;
  to: number;
}

export interface Chunk {
  base: bigint;
  spans: Span[];
  /** The last arrival, ns after the base. */
  to: number;
}

/** Records of one chunk that lie side by side. */
export interface Run {
  base: bigint;
  start: number;
  count: number;
}

export class Ring {
  readonly words: Uint32Array;
  readonly capacity: number;
  /** Records kept. */
  count = 0;
  /** Oldest first. */
  chunks: Chunk[] = [];
  #next = 0;

  constructor(capacity = CAPACITY) {
    this.capacity = capacity;
    this.words = new Uint32Array(capacity * WORDS);
  }

  /** Adds a frame's records and calls `wrote` for each stretch of `words` that is new (in records). */
  add(base: bigint, records: Uint32Array, wrote: (start: number, count: number) => void = () => {}): void {
    const count = records.length / WORDS;
    for (let done = 0; done < count;) {
      const some = Math.min(count - done, this.capacity - this.#next, SPAN);
      this.#write(base, records.subarray(done * WORDS, (done + some) * WORDS));
      wrote(this.#next, some);
      this.#next = (this.#next + some) % this.capacity;
      done += some;
    }
  }

  #write(base: bigint, records: Uint32Array): void {
    const start = this.#next;
    const count = records.length / WORDS;
    this.#forget(start, start + count);
    let first = Infinity;
    let last = 0;
    let lost = -Infinity;
    let to = 0;
    for (let at = 0; at < records.length; at += WORDS) {
      const sent = records[at + 1]!;
      first = Math.min(first, sent);
      last = Math.max(last, sent);
      if (isLost(records[at + 4]!)) lost = Math.max(lost, sent);
      to = Math.max(to, sent + records[at + 2]! * 1000);
    }
    let chunk = this.chunks.at(-1);
    let shift = chunk ? Number(base - chunk.base) : -1;
    if (!chunk || shift < 0 || shift + last > CHUNK_NS) {
      this.chunks.push((chunk = { base, spans: [], to: 0 }));
      shift = 0;
    }
    chunk.to = Math.max(chunk.to, to + shift);
    this.words.set(records, start * WORDS);
    if (shift) {
      for (let at = start * WORDS + 1; at < (start + count) * WORDS; at += WORDS) this.words[at]! += shift;
    }
    // Small frames make one span, so that there are few of them.
    const before = chunk.spans.at(-1);
    if (before && before.start + before.count === start && before.count + count <= SPAN) {
      before.count += count;
      before.from = Math.min(before.from, first + shift);
      before.last = Math.max(before.last, last + shift);
      before.lost = Math.max(before.lost, lost + shift);
      before.to = Math.max(before.to, to + shift);
    } else {
      chunk.spans.push({ start, count, from: first + shift, last: last + shift, lost: lost + shift, to: to + shift });
    }
    this.count += count;
  }

  /** Takes away what is overwritten: it is the oldest. */
  #forget(start: number, end: number): void {
    for (let chunk = this.chunks[0]; chunk; chunk = this.chunks[0]) {
      for (let span = chunk.spans[0]; span; span = chunk.spans[0]) {
        if (span.start >= end || span.start + span.count <= start) return;
        const over = Math.min(end, span.start + span.count) - span.start;
        this.count -= over;
        span.start += over;
        span.count -= over;
        if (span.count) return;
        chunk.spans.shift();
      }
      this.chunks.shift();
    }
  }

  /** Gives a kept flight the fate and the end that a later record of it has: its place, or null if it is not kept. */
  lose(base: bigint, record: Uint32Array): number | null {
    const chunks = [...this.chunks].reverse();
    for (const chunk of chunks) {
      const sent = Number(base - chunk.base) + record[1]!;
      for (const span of chunk.spans) {
        if (sent < span.from || sent > span.last) continue;
        for (let place = span.start; place < span.start + span.count; place++) {
          const at = place * WORDS;
          const isIt = this.words[at] === record[0] && this.words[at + 1] === sent && this.words[at + 3] === record[3];
          if (!isIt) continue;
          this.words[at + 2] = record[2]!;
          this.words[at + 4] = record[4]!;
          span.lost = Math.max(span.lost, sent);
          span.to = Math.max(span.to, sent + record[2]! * 1000);
          chunk.to = Math.max(chunk.to, span.to);
          return place;
        }
      }
    }
    return null;
  }

  clear(): void {
    this.chunks = [];
    this.count = 0;
    this.#next = 0;
  }

  /** Where flights are that are under way at `now`, each shown for at least `least` ns, and for `lost` if it is lost. */
  live(now: bigint, least = 0, lost = least): Run[] {
    const runs: Run[] = [];
    for (const { base, spans } of this.chunks) {
      const at = Number(now - base);
      let run: Run | undefined;
      for (const { start, count, from, to, ...last } of spans) {
        if (from > at || Math.max(to, last.last + least, last.lost + lost) <= at) continue;
        if (run && run.start + run.count === start) run.count += count;
        else runs.push((run = { base, start, count }));
      }
    }
    return runs;
  }

  /** The times that can be shown: about the first departure, and the last arrival, ns. */
  times(): [from: bigint, to: bigint] {
    const oldest = this.chunks[0];
    if (!oldest) return [0n, 0n];
    const from = oldest.base + BigInt(oldest.spans[0]!.from);
    let last = from;
    for (const { base, to } of this.chunks) {
      if (base + BigInt(to) > last) last = base + BigInt(to);
    }
    return [from, last];
  }
}
