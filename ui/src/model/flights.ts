// Packets under way, from events of watched interfaces: a departure, and when the wire's settings let it arrive. For labs
// of few wires; the picture draws them as it draws those of the control process's feed.
import { follow } from '../api/client.ts';
import type { Clock, Event, Packet, Settings, Wire } from '../api/types.ts';
import { ARRIVES, encode, type Flight } from '../canvas/feed.ts';
import type { PictureOf } from '../canvas/types.ts';

/** Ends that are watched at most: each packet is a message of text. */
export const MOST_ENDS = 200;
/** Packets a second, of the whole lab, above which there are too many for that. */
export const MOST_PACKETS = 3000;
/** How often flights are given to the picture, ms. */
const BATCH_MS = 50;
const LOST = 1;
/** Each hop is shown for at least so long, ms. */
const LEAST_MS = 400;
/** How far the picture is behind a clock that runs with the host's, so that packets are known before they are shown, ms. */
const BEHIND_MS = 200;
/** What a virtual clock has jumped over is shown in so many ms, but not more than so many ns of it. */
const REPLAY_MS = 1500;
const REPLAY_NS = 20e9;

const UNITS: Record<string, number> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  min: 60e9,
  h: 3600e9,
  d: 86400e9,
};

/** A length of time as lab files have it, in ns. */
export function span(text: unknown): number {
  const [, value, unit] = /^([\d.]+) *(\D+)$/.exec(String(text ?? 0)) ?? [];
  return value ? Number(value) * (UNITS[unit!] ?? 0) : 0;
}

/** A rate as lab files have it, in bits per second; 0: unlimited. */
export function rate(text: unknown): number {
  const [, value, prefix = '', unit] = /^([\d.]+) *([kmgt]?)(bit|bps)(?:\/s)?$/i.exec(String(text ?? 0)) ?? [];
  const size = { '': 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 }[prefix.toLowerCase()] ?? 1;
  return value ? Number(value) * size * (unit!.toLowerCase() === 'bps' ? 8 : 1) : 0;
}

/** The place in the picture's classes of what a packet's line says. */
export function classify(summary: string): number {
  if (/\bARP\b|neighbor|router (solicit|advert)/i.test(summary)) return 1;
  if (/\bICMP/i.test(summary)) return 2;
  if (/\bOSPF|\bRIP\b|\bBGP\b|[.:]179\b/i.test(summary)) return 7;
  if (/\bTCP\b/.test(summary)) return /\[[^\]]*[SRF][^\]]*\]/.test(summary) ? 3 : 4;
  if (/\bUDP\b/.test(summary)) return 6;
  return 0;
}

/** FNV-1a. */
function hash(text: string): number {
  let sum = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  return sum >>> 0;
}

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
        aux: 0,
      });
    } else if (what === 'loss') {
      const lost = this.#waiting.findLast((one) => one.key === key);
      if (lost) lost.fate = LOST;
    }
    this.#timer ??= setTimeout(() => this.#give(), BATCH_MS);
  }

  #give(): void {
    this.#timer = undefined;
    const list = this.#waiting.splice(0, 65535);
    if (!list.length) return;
    const base = Math.min(...list.map(({ at }) => at));
    for (const one of list) one.sent = one.at - base;
    this.#picture.flights(encode({ base: BigInt(base), seq: this.#seq++, missed: this.#missed }, list));
    this.#missed = 0;
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
