// The last minutes of a lab that goes on: what this page has seen of it, any lab, recorded or not. Nothing is asked of the
// lab for it. The packets are those of the picture's ring; numbers, machines and wires, and what has happened are kept
// beside it, no more than so much of each.
import type { Event, RunTimeline } from '../api/types.ts';
import type { Picture } from '../canvas/picture.ts';
import { ARRIVES } from '../canvas/feed.ts';
import type { Counters, Topology } from '../canvas/types.ts';
import { BEHIND_MS, LEAST_MS } from './feed.ts';
import { KeptNumbers, KeptTopologies } from './kept.ts';
import { notices } from './notice.svelte.ts';
import type { Numbers } from './numbers.ts';
import { fitting, Player } from './player.svelte.ts';

/** What can happen. */
export const KINDS = ['loss', 'breakpoint', 'request', 'line', 'program'] as const;

/** Something that happened, at a time of the kernel's clock, ns. */
export interface Mark {
  at: number;
  kind: (typeof KINDS)[number];
  text: string;
  /** `machine:interface`, where it did. */
  end?: string;
}

/** Marks that are kept. */
const MOST_MARKS = 2000;
/** A clock that is so much behind what it was is that of a lab made anew, ns. */
const BACK_NS = 1e9;
/** How often the numbers of a time that goes on are shown, ms. */
const OFTEN_MS = 250;
const FATES = ['', 'at random', 'a limit', 'the MTU', 'down', 'a breakpoint or a pod'];

/** What each kind of event is on the timeline. */
function markOf(event: Event): Omit<Mark, 'at'> | null {
  switch (event.kind) {
    case 'breakpoint':
      return {
        kind: 'breakpoint',
        text: `${event.breakpoint} met by ${event.packet.summary}`,
        end: event.packet.end,
      };
    case 'asked':
      return { kind: 'request', text: `${event.actor ?? ''} ${event.method} ${event.path}`.trim() };
    case 'timed':
      return { kind: 'line', text: event.error ? `${event.line}: ${event.error}` : event.line };
    case 'started':
      return { kind: 'program', text: `${event.name ?? `program ${event.program}`} on ${event.machine} begins` };
    case 'ended':
      return { kind: 'program', text: `${event.name ?? `program ${event.program}`} on ${event.machine} ends` };
    default:
      return null;
  }
}

export class Past {
  /** The picture shows a time before now. */
  isOn = $state(false);
  readonly player = new Player((at, rate) => this.#show(at, rate));
  /** Kinds that `[` and `]` go to. */
  stops = $state<string[]>(['loss', 'breakpoint', 'request', 'line']);
  /** What was jumped to. */
  found = $state.raw<Mark | null>(null);
  /** The machines and wires at the time shown. */
  topology = $state.raw<Topology>();
  /** What ends counted then, by their names. */
  numbers = $state.raw<Map<string, Partial<Numbers>>>(new Map());
  /** New whenever there is more to be counted. */
  version = $state(0);

  #picture: Picture | undefined;
  #numbers = new KeptNumbers();
  #topologies = new KeptTopologies();
  #marks: Mark[] = [];
  /** The lab's time now, ns of the kernel's clock, and when it was that. */
  #now = 0;
  #told = 0;
  #rate = 0;
  #asked = 0;

  /** The picture whose ring has the packets; none: no longer. */
  attach(picture: Picture | undefined): void {
    this.#picture = picture;
    if (!picture) this.leave();
  }

  close(): void {
    this.player.close();
  }

  /** The lab's clock, as it is now, and how fast it goes beside the host's. */
  clock(now: number, rate: number): void {
    if (now < this.#now - BACK_NS) this.#forget();
    this.#now = now;
    this.#told = performance.now();
    this.#rate = rate;
    if (this.isOn) this.#span();
  }

  /** The lab's time now, about, ns. */
  get now(): number {
    return this.#now + (this.#rate ? (performance.now() - this.#told) * 1e6 * this.#rate : 0);
  }

  #forget(): void {
    this.leave();
    this.#picture?.clear();
    this.#numbers.clear();
    this.#topologies.clear();
    this.#marks = [];
  }

  /** What an end has counted until `at`. */
  count(at: number, end: string, numbers: Numbers): void {
    this.#numbers.add(at, end, numbers);
  }

  /** The lab has these machines and wires from now on: from the time that is seen live, since the page hears of it late. */
  keep(topology: Topology): void {
    this.#topologies.add(this.now - BEHIND_MS * 1e6 * this.#rate, topology);
  }

  /** Something has happened. */
  happened(event: Event): void {
    const mark = markOf(event);
    if (!mark) return;
    const at = event.kind === 'breakpoint' ? event.packet.nanoseconds : Math.round(this.now);
    this.#marks = [...this.#marks.slice(1 - MOST_MARKS), { at, ...mark }];
  }

  /** The times that can be shown: those of the packets that are kept, until now. */
  #span(): void {
    const { player } = this;
    const { from, kept } = this.#picture!.stats();
    player.to = Math.max(Math.round(this.now), player.to);
    player.from = kept ? Math.min(Number(from), player.to) : Math.min(player.from, player.to);
    if (player.at < player.from) player.seek(player.from);
    this.version++;
  }

  /** Shows the time that the picture shows now, and goes on with the lab no more; or any time, ns; null: one that is set next. */
  enter(at?: number | null): void {
    if (!this.#picture) return;
    const { player } = this;
    if (!this.isOn) {
      const { now, from, kept } = this.#picture.stats();
      player.to = Math.round(this.now);
      player.from = kept ? Math.min(Number(from), player.to) : player.to;
      player.at = Math.min(Number(now), player.to);
      // As it was seen; what a virtual clock has jumped over, slowly enough to be seen.
      player.speed = this.#rate || fitting(player.to - player.from);
      this.isOn = true;
      this.version++;
    }
    if (at !== null) player.seek(at ?? player.at);
  }

  /** Goes along with another page, which shows this time, and goes on at this pace; null: it shows the lab as it is now. */
  along(at: number | null, pace: number): void {
    if (at === null) return this.#leave();
    this.enter(null);
    if (this.isOn) this.player.along(at, pace);
  }

  /** Shows the lab as it is now again. */
  leave(): void {
    if (this.isOn) this.player.onset();
    this.#leave();
  }

  #leave(): void {
    if (!this.isOn) return;
    this.player.close();
    this.isOn = false;
    this.found = null;
    this.topology = undefined;
    this.numbers = new Map();
  }

  #show(at: number, rate: number): void {
    if (!this.isOn || !this.#picture) return;
    this.#picture.clock(BigInt(at), rate, LEAST_MS, this.player.speed);
    this.topology = this.#topologies.at(at);
    if (rate && performance.now() - this.#asked < OFTEN_MS) return;
    this.#asked = performance.now();
    this.numbers = this.#numbers.at(at);
  }

  /** What the picture is to have at an end: zeroes, if nothing is known. */
  countersOf(ends: Map<string, number>): Counters[] {
    return [...ends].map(([name, end]) => {
      const { packetRate = 0, bitRate = 0, lossRate = 0, queued = 0 } = this.numbers.get(name) ?? {};
      return { end, packets: packetRate, bytes: bitRate / 8, dropped: lossRate, queue: queued };
    });
  }

  /** How much departed, was lost and happened in a span. */
  timeline(from: number, to: number, bins: number): RunTimeline {
    const counted = this.#picture!.history(from, to, bins);
    const names = this.#picture!.kinds();
    const rows = [...counted.classes].map(([kind, counts]) => ({ kind: names[kind]?.name ?? '', counts: [...counts] }));
    rows.push({ kind: 'loss', counts: [...counted.lost] });
    for (const kind of ['breakpoint', 'request', 'line', 'program'] as const) {
      const counts = new Array<number>(counted.bins).fill(0);
      for (const mark of this.#marks) {
        const bin = Math.floor((mark.at - from) / counted.width);
        if (mark.kind === kind && bin >= 0 && bin < counted.bins) counts[bin]!++;
      }
      rows.push({ kind, counts });
    }
    return { from, width: counted.width, bins: counted.bins, rows };
  }

  /** Goes to the next of the kinds that are chosen, or to the one before. */
  jump(back: boolean): void {
    if (!this.#picture) return;
    const at = this.isOn ? this.player.at : this.now;
    const first = Number(this.#picture.stats().from);
    const marks = this.#marks.filter(
      (mark) => mark.at >= first && this.stops.includes(mark.kind) && (back ? mark.at < at : mark.at > at),
    );
    if (this.stops.includes('loss')) {
      const lost = this.#picture.nextLoss(at, back);
      if (lost) marks.push(this.#lost(lost));
    }
    const sorted = marks.sort((a, b) => a.at - b.at);
    const found = back ? sorted.at(-1) : sorted[0];
    if (!found) return notices.say(`No ${this.stops.join(', ')} ${back ? 'before' : 'behind'} this time`);
    this.player.play(false);
    this.enter(found.at);
    this.found = found;
    notices.say(`${found.kind} ${found.text}`);
  }

  #lost({ at, end, length, fate }: { at: number; end: number; length: number; fate: number }): Mark {
    const { wires = [], machines = [] } = this.#topologies.at(at) ?? {};
    const names = wires.flatMap(({ ends }) =>
      ends.map(([machine, port, number]) => [number, `${machines[machine]!.name}:${port}`] as const),
    );
    const name = names.find(([number]) => number === end)?.[1] ?? 'an end that has gone';
    const why = fate === ARRIVES ? '' : ` (${FATES[fate] ?? fate})`;
    return { at, kind: 'loss', text: `${name} loses a packet of ${length} bytes${why}`, end: name };
  }
}
