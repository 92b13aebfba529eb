// Packets under way, from events of watched interfaces: a departure, and when the wire's settings let it arrive. For labs
// of few wires; the picture draws them as it draws those of the control process's feed.
import { follow } from '../api/client.ts';
import type { Clock, Event, Packet, Settings, Wire } from '../api/types.ts';
import { ARRIVES, encode, type Flight } from '../canvas/feed.ts';
import type { PictureOf } from '../canvas/types.ts';
import { classify, flow, hash, rate, span } from './packet.ts';

/** Ends that are watched at most: each packet is a message of text. */
export const MOST_ENDS = 200;
/** Packets a second, of the whole lab, above which there are too many for that. */
export const MOST_PACKETS = 3000;
/** How often flights are given to the picture, ms. */
const BATCH_MS = 50;
const LOST = 1;
/** What a frame is of at most, ns. */
const FRAME_NS = 4e9;
/** Each hop is shown for at least so long, ms. */
const LEAST_MS = 400;
/** How far the picture is behind a clock that runs with the host's, so that packets are known before they are shown, ms. */
const BEHIND_MS = 200;
/** What a virtual clock has jumped over is shown in so many ms, but not more than so many ns of it. */
const REPLAY_MS = 1500;
const REPLAY_NS = 20e9;

interface Waiting extends Flight {
  at: number;
  key: string;
}

export class Flights {
  #picture: PictureOf;
  #numbers: Map<string, number>;
  #settings = new Map<string, Settings>();
  #waiting: Waiting[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stop: () => void;
  #seq = 0;
  #missed = 0;
  /** The time of a virtual lab that is shown, ns, and when it was given. */
  #shown: number | null = null;
  #rate = 0;
  #given = 0;

  constructor(lab: string, picture: PictureOf, numbers: Map<string, number>, wires: Wire[]) {
    this.#picture = picture;
    this.#numbers = numbers;
    this.wires(wires);
    const query = new URLSearchParams({
      lab,
      watch: [...numbers.keys()].filter((end) => !end.endsWith(':outside')).join(','),
    });
    this.#stop = follow<Event>(`/v1/events?${query}`, (event) => {
      if (event.kind === 'packet') this.#take(event);
      else if (event.kind === 'missed') this.#missed += event.events;
    });
  }

  close(): void {
    this.#stop();
    clearTimeout(this.#timer);
  }

  wires(wires: Wire[]): void {
    for (const wire of wires) {
      for (const { end } of wire.ends) this.#settings.set(end, { ...wire.settings, ...wire.from[end] });
    }
  }

  #take({ nanoseconds, end, what, length, summary }: Packet): void {
    const number = this.#numbers.get(end);
    if (number === undefined) return;
    const key = `${end} ${summary}`;
    if (what === 'departure') {
      const { delay, rate: limit } = this.#settings.get(end) ?? {};
      const bits = rate(limit);
      const lasts = span(delay) + (bits ? (8e9 * length) / bits : 0);
      this.#waiting.push({
        at: nanoseconds,
        key,
        end: number,
        sent: 0,
        lasts: Math.round(lasts / 1e3),
        id: hash(summary),
        length: Math.min(length, 65535),
        class: classify(summary),
        fate: ARRIVES,
        aux: flow(summary),
      });
    } else if (what === 'loss') {
      const lost = this.#waiting.findLast((one) => one.key === key);
      if (lost) lost.fate = LOST;
    }
    this.#timer ??= setTimeout(() => this.#give(), BATCH_MS);
  }

  #give(): void {
    this.#timer = undefined;
    const waiting = this.#waiting.splice(0).sort((a, b) => a.at - b.at);
    // A frame has 32 bits for a departure: where a virtual clock has jumped, another one begins.
    while (waiting.length) {
      const base = waiting[0]!.at;
      const end = waiting.findIndex(({ at }) => at - base > FRAME_NS);
      const list = waiting.splice(0, Math.min(end < 0 ? waiting.length : end, 65535));
      for (const one of list) one.sent = one.at - base;
      this.#picture.flights(encode({ base: BigInt(base), seq: this.#seq++, missed: this.#missed }, list));
      this.#missed = 0;
    }
  }

  /** The lab's clock as it is now. A virtual one jumps: what it has jumped over is shown slowly enough to be seen. */
  clock(clock: Clock): void {
    const now = clock['kernel-nanoseconds'];
    const runs = clock.state === 'running';
    if (clock.time === 'real' || (typeof clock.time === 'object' && 'scaled' in clock.time)) {
      const factor = typeof clock.time === 'object' && 'scaled' in clock.time ? clock.time.scaled : 1;
      const shown = runs ? now - BEHIND_MS * 1e6 * factor : now;
      this.#picture.clock(BigInt(Math.round(shown)), runs ? factor : 0, LEAST_MS);
      return;
    }
    const host = performance.now();
    let shown = this.#shown === null ? now : Math.min(this.#shown + (host - this.#given) * 1e6 * this.#rate, now);
    if (now - shown > REPLAY_NS) shown = now - REPLAY_NS;
    this.#rate = (now - shown) / (REPLAY_MS * 1e6);
    this.#shown = shown;
    this.#given = host;
    this.#picture.clock(BigInt(Math.round(shown)), this.#rate, LEAST_MS);
  }
}
