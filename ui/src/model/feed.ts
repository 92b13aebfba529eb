// The feed of a lab: what its ends count, what waits at them, packets under way, and the time at which the picture shows
// these (docs/api.md).
import { api, body } from '../api/client.ts';
import { Reconnecting } from '../api/reconnecting.ts';
import { transport } from '../api/transport.ts';
import type { Clock, Problem } from '../api/types.ts';
import { counters, COUNTERS, FLIGHTS, header, KEYFRAME, queues, QUEUES, records, TIME } from '../canvas/feed.ts';
import type { PacketClass, PictureOf } from '../canvas/types.ts';
import type { Count } from './numbers.ts';
import { Waiting, type Share } from './waiting.ts';

/** In labs of more ends, packets are shown one by one where so few ends are in sight that each can be asked for. */
export const MOST_ENDS = 2000;
export const MOST_IN_SIGHT = 400;
/** Packets a second that are shown, at most: of more, one of so many is. */
const BUDGET = 20_000;
/** How often ends are counted, 1/s. */
const HZ = 4;
/** Each hop is shown for at least so long, ms. */
export const LEAST_MS = 400;
/** How far the picture is behind a clock that runs with the host's, so that packets are known before they are shown, ms. */
export const BEHIND_MS = 200;
/** What a virtual clock has jumped over is shown in so many ms, but not more than so many ns of it. */
const REPLAY_MS = 1500;
const REPLAY_NS = 20e9;
/** How long to wait before a lab that has changed is asked for again, ms. */
const AGAIN_MS = 500;
/** Frames of packets that wait until it is known which ends they are of. */
const MOST_EARLY = 100;

/** What of packets is told one by one. */
export interface Detail {
  /** Names of the ends that are watched; none: all. */
  ends?: string[];
  classes: PacketClass[];
  /** A flow's number: its packets are always told. */
  flow?: number;
}

/** What hears of the lab. Ends are named as in `LabModel.numbers`. */
export interface Listener {
  /** What ends have counted, at a time of their worker, ns. */
  counted(at: number, counts: [end: string, count: Count][]): void;
  queued(queues: [end: string, count: number][]): void;
  /** Of which classes that is, where it has changed. */
  waits(queues: [end: string, shares: Share[]][]): void;
  /** All of a time has been told. */
  told(): void;
}

export class Feed {
  #lab: string;
  #listener: Listener;
  #socket: Reconnecting | undefined;
  #isClosed = false;
  /** The topology's revision in which ends have these numbers; null: not known. */
  #revision: number | null = null;
  #names: string[] = [];
  #asks = false;
  #waiting = new Waiting();
  #detail: Detail | null = null;
  #picture: PictureOf | undefined;
  /** The numbers of ends in the picture. */
  #numbers: Map<string, number> = new Map();
  /** They are those of the topology. */
  #isSame = false;
  /** Frames of packets that came before. */
  #early: ArrayBuffer[] = [];
  /** Told of how many packets one is shown, when packets are shown at all, and of what is wrong with the detail. */
  onshare: (oneIn: number) => void = () => {};
  onrefused: (problem: Problem | null) => void = () => {};
  /** The picture shows another time than the lab's now. */
  isHeld = false;
  /** The time of a virtual lab that is shown, ns, and when it was given. */
  #shown: number | null = null;
  #rate = 0;
  #given = 0;
  /** The time to which it goes. */
  #target = 0;
  #arrival: ReturnType<typeof setTimeout> | undefined;

  constructor(lab: string, listener: Listener) {
    this.#lab = lab;
    this.#listener = listener;
    void this.#ask().then(() => this.#open());
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#arrival);
    this.#socket?.close();
  }

  /** Shows packets in this picture, whose ends have these numbers; none: no longer. */
  show(picture: PictureOf | undefined, numbers: Map<string, number> = new Map()): void {
    this.#picture = picture;
    this.#numbers = numbers;
    this.#compare();
    if (picture && !this.#isSame) void this.#ask();
  }

  /** Watches these packets from now on; null: none. */
  watch(detail: Detail | null): void {
    if (JSON.stringify(detail) === JSON.stringify(this.#detail)) return;
    if (JSON.stringify(detail?.classes) !== JSON.stringify(this.#detail?.classes)) this.#waiting.forget();
    this.#detail = detail;
    this.#subscribe();
  }

  #open(): void {
    if (this.#isClosed) return;
    const path = `/v1/labs/${encodeURIComponent(this.#lab)}`;
    this.#socket = new Reconnecting({
      open: () => transport.open(`${path}/feed`),
      isThere: () => transport.isThere(path),
      onopen: () => this.#subscribe(),
      onmessage: (data) => {
        if (data instanceof ArrayBuffer) this.#take(data);
        else this.#hear(JSON.parse(data) as 'subscribed' | { refused: Problem });
      },
    });
  }

  /** The lab is there. */
  resume(): void {
    this.#socket?.resume();
  }

  #subscribe(): void {
    const { ends, classes, flow } = this.#detail ?? {};
    const subscribe = {
      overview: { hz: HZ },
      classes: classes?.slice(1).map(({ filter }) => filter ?? ''),
      ...(this.#detail ? { detail: { budget: BUDGET, ...(ends ? { ends: ends.map(outside) } : {}) } } : {}),
      ...(flow ? { flow } : {}),
    };
    this.#socket?.send(JSON.stringify({ subscribe }));
  }

  #hear(told: 'subscribed' | { refused: Problem }): void {
    if (told === 'subscribed') {
      this.onrefused(null);
      // With all packets at first.
      if (this.#detail) this.onshare(1);
    } else {
      this.onrefused(told.refused);
      // Too many follow flows of their own: what others look at is for this page, too.
      if (this.#detail?.flow && !told.refused.paths?.length) {
        this.#detail = { ...this.#detail, flow: undefined };
        return this.#subscribe();
      }
      // An end that has gone.
      if (this.#detail?.ends) void this.#ask();
    }
  }

  #take(frame: ArrayBuffer): void {
    const { kind, flags, seq, count, base } = header(frame);
    if (kind === FLIGHTS && count) this.#socket?.send(JSON.stringify({ ack: seq }));
    // By other numbers, what is told would be told of wrong wires.
    const isKnown = this.#revision !== null && flags === (this.#revision & 0xff);
    if (!isKnown) void this.#ask();
    if (kind === FLIGHTS) {
      if (isKnown) this.#waiting.take(records(frame), header(frame).oneIn);
      if (isKnown && this.#isSame) this.#fly(frame);
      else if (count && this.#detail) this.#early = [...this.#early, frame].slice(-MOST_EARLY);
      return;
    }
    if (!isKnown) return;
    const named = <T>(all: [number, T][]) =>
      all.flatMap(([end, what]): [string, T][] => (end < this.#names.length ? [[this.#names[end]!, what]] : []));
    if (kind === COUNTERS || kind === KEYFRAME) this.#listener.counted(Number(base), named(counters(frame)));
    else if (kind === QUEUES) {
      for (const [end, count] of queues(frame)) this.#waiting.queue(end, count);
      this.#listener.queued(named(queues(frame)));
    } else if (kind === TIME) {
      const changed = this.#waiting.changed();
      if (changed.length) this.#listener.waits(named(changed));
      this.#listener.told();
    }
  }

  #fly(frame: ArrayBuffer): void {
    const taken = this.#picture?.flights(frame);
    if (taken) this.onshare(taken.oneIn);
  }

  /** Finds out which ends have which numbers now. */
  async #ask(): Promise<void> {
    if (this.#asks || this.#isClosed) return;
    this.#asks = true;
    try {
      const path = { params: { path: { lab: this.#lab } } };
      const { revision, nodes, wires, ends } = await body(api.GET('/v1/labs/{lab}/topology', path));
      const wireOf = new Map(wires.flatMap(({ name, ends }) => ends.map((end) => [end, name])));
      this.#names = ends.map(({ node, interface: port }, number) =>
        typeof node === 'number' ? `${nodes[node]!.name}:${port}` : `${wireOf.get(number)}:outside`,
      );
      // By other numbers, what is known of queues is of other ends.
      if (revision !== this.#revision) this.#waiting = new Waiting();
      this.#revision = revision;
    } catch {
      // The lab is gone, or begins: it is asked again.
      this.#revision = null;
    }
    this.#compare();
    setTimeout(() => {
      this.#asks = false;
      if (this.#early.length) void this.#ask();
    }, AGAIN_MS);
  }

  /** Finds out whether the picture has the topology's numbers; what came before it had them is shown now. */
  #compare(): void {
    const isKnown = this.#revision !== null && this.#picture !== undefined;
    this.#isSame = isKnown && this.#names.every((name, number) => this.#numbers.get(name) === number);
    if (!this.#isSame) return;
    for (const frame of this.#early.splice(0)) {
      if (header(frame).flags === (this.#revision! & 0xff)) this.#fly(frame);
    }
  }

  /** The lab's clock as it is now. A virtual one jumps: what it has jumped over is shown slowly enough to be seen. */
  clock(clock: Clock): void {
    const now = clock['kernel-nanoseconds'];
    const runs = clock.state === 'running';
    if (clock.time === 'real' || (typeof clock.time === 'object' && 'scaled' in clock.time)) {
      const factor = typeof clock.time === 'object' && 'scaled' in clock.time ? clock.time.scaled : 1;
      const shown = runs ? now - BEHIND_MS * 1e6 * factor : now;
      this.#tell(shown, runs ? factor : 0);
      return;
    }
    const host = performance.now();
    clearTimeout(this.#arrival);
    let shown = this.#shown === null ? now : Math.min(this.#shown + (host - this.#given) * 1e6 * this.#rate, now);
    if (now - shown > REPLAY_NS) shown = now - REPLAY_NS;
    // Where it goes has not changed: it goes on as fast as before, so that it arrives.
    if (now !== this.#target || shown === now) this.#rate = (now - shown) / (REPLAY_MS * 1e6);
    this.#shown = shown;
    this.#given = host;
    this.#target = now;
    this.#tell(shown, this.#rate);
    // No further, whenever more is known of the lab's clock.
    if (this.#rate) this.#arrival = setTimeout(() => this.clock(clock), (now - shown) / (1e6 * this.#rate));
  }

  #tell(shown: number, rate: number): void {
    if (!this.isHeld) this.#picture?.clock(BigInt(Math.round(shown)), rate, LEAST_MS);
  }
}

/** The name of a wire's end outside, as a subscription has it. */
function outside(end: string): string {
  return end.endsWith(':outside') ? `:${end.slice(0, -':outside'.length)}` : end;
}
