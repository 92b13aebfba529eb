// What ends of wires have counted, and how fast that grows.

/** As it is told. */
export interface Count {
  sent: number;
  bytes: number;
  lost: number;
  underWay: number;
}

/** Of one direction of a wire: totals, and growth per second of the host's clock. */
export interface Numbers extends Count {
  /** Packets that wait to be sent. */
  queued: number;
  packetRate: number;
  bitRate: number;
  lossRate: number;
}

/** An end that is told of no more stands still: it was told of before at least so often, ms. */
const QUIET_MS = 600;
/** Between two times that something is told, ms. */
const PERIOD_MS = 250;

export class Rates {
  /** By end, `machine:interface` or `wire:outside`. */
  readonly all = new Map<string, Numbers>();
  /** Ends that count now: when they were last told of, by the clock of what is told and by the page's, ms. */
  #busy = new Map<string, { at: number; seen: number }>();
  #changed = new Set<string>();

  /** What these ends have counted until `at`, ms of any clock that runs as the host's; `seen` is now, ms. */
  count(at: number, seen: number, counts: [end: string, count: Count][]): void {
    for (const [end, count] of counts) {
      const last = this.all.get(end);
      const ms = this.#busy.has(end) ? Math.max(at - this.#busy.get(end)!.at, 1) : PERIOD_MS;
      const growth = (value: number, old: number | undefined) =>
        old === undefined || value < old ? 0 : (1000 * (value - old)) / ms;
      const rates = {
        packetRate: growth(count.sent, last?.sent),
        bitRate: 8 * growth(count.bytes, last?.bytes),
        lossRate: growth(count.lost, last?.lost),
      };
      const grows = rates.packetRate > 0 || rates.lossRate > 0;
      if (grows) this.#busy.set(end, { at, seen });
      // A keyframe tells of all.
      else if (last && !this.#busy.has(end) && last.underWay === count.underWay) continue;
      else this.#busy.delete(end);
      this.#set(end, { queued: last?.queued ?? 0, ...count, ...rates });
    }
  }

  queue(queues: [end: string, count: number][]): void {
    for (const [end, queued] of queues) {
      const last = this.all.get(end) ?? NOTHING;
      if (last.queued !== queued) this.#set(end, { ...last, queued });
    }
  }

  #set(end: string, numbers: Numbers): void {
    this.all.set(end, numbers);
    this.#changed.add(end);
  }

  /** Ends whose numbers are others than when this was asked last. */
  changed(seen: number): string[] {
    for (const [end, { seen: last }] of this.#busy) {
      if (seen - last < QUIET_MS) continue;
      this.#busy.delete(end);
      this.#set(end, { ...this.all.get(end)!, packetRate: 0, bitRate: 0, lossRate: 0 });
    }
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
  }
}

const NOTHING: Numbers = {
  sent: 0,
  bytes: 0,
  lost: 0,
  underWay: 0,
  queued: 0,
  packetRate: 0,
  bitRate: 0,
  lossRate: 0,
};
