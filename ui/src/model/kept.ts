// What the page keeps of a lab's numbers and of its machines and wires, so that the picture of a time before can have them.
// The packets are in the picture's ring.
import type { Topology } from '../canvas/types.ts';
import type { Numbers } from './numbers.ts';

/** Of one direction of a wire, as the picture has it: packets, bits and losses per second, and packets that wait. */
export type Kept = Pick<Numbers, 'packetRate' | 'bitRate' | 'lossRate' | 'queued'>;

const FIELDS = ['packetRate', 'bitRate', 'lossRate', 'queued'] as const;
/** Numbers that are kept: those of 50 busy ends for half an hour, of 2000 for a minute. */
const MOST = 2 ** 19;
/** Machines and wires in all topologies that are kept, and how many of these there are. */
const MOST_PARTS = 200_000;
const MOST_TOPOLOGIES = 500;

/** The last numbers of ends, with the times from which on they held. */
export class KeptNumbers {
  readonly #most: number;
  #at: Float64Array<ArrayBuffer>;
  #end: Uint32Array<ArrayBuffer>;
  #fields: Float32Array<ArrayBuffer>;
  #next = 0;
  #count = 0;
  #names: string[] = [];
  #numbers = new Map<string, number>();

  constructor(most = MOST) {
    this.#most = most;
    this.#at = new Float64Array(most);
    this.#end = new Uint32Array(most);
    this.#fields = new Float32Array(most * FIELDS.length);
  }

  add(at: number, end: string, numbers: Kept): void {
    // A lab that changes for days has no more names than numbers.
    if (this.#names.length >= this.#most) this.clear();
    let number = this.#numbers.get(end);
    if (number === undefined) {
      number = this.#names.push(end) - 1;
      this.#numbers.set(end, number);
    }
    const place = this.#next;
    this.#at[place] = at;
    this.#end[place] = number;
    FIELDS.forEach((field, nth) => (this.#fields[place * FIELDS.length + nth] = numbers[field]));
    this.#next = (place + 1) % this.#most;
    this.#count = Math.min(this.#count + 1, this.#most);
  }

  /** What held at this time, of the ends of which something was told until then. */
  at(time: number): Map<string, Kept> {
    const last = new Int32Array(this.#names.length).fill(-1);
    const oldest = (this.#next - this.#count + this.#most) % this.#most;
    for (let nth = 0; nth < this.#count; nth++) {
      const place = (oldest + nth) % this.#most;
      if (this.#at[place]! <= time) last[this.#end[place]!] = place;
    }
    const held = new Map<string, Kept>();
    last.forEach((place, end) => {
      if (place < 0) return;
      const [packetRate, bitRate, lossRate, queued] = this.#fields.subarray(place * FIELDS.length);
      held.set(this.#names[end]!, {
        packetRate: packetRate!,
        bitRate: bitRate!,
        lossRate: lossRate!,
        queued: queued!,
      });
    });
    return held;
  }

  clear(): void {
    this.#next = this.#count = 0;
    this.#names = [];
    this.#numbers.clear();
  }
}

/** The last topologies, with the times from which on they held, oldest first. */
export class KeptTopologies {
  #all: { at: number; topology: Topology }[] = [];
  #parts = 0;

  add(at: number, topology: Topology): void {
    this.#all.push({ at, topology });
    this.#parts += parts(topology);
    while (this.#all.length > 1 && (this.#parts > MOST_PARTS || this.#all.length > MOST_TOPOLOGIES)) {
      this.#parts -= parts(this.#all.shift()!.topology);
    }
  }

  /** The one that held at this time; of a time before all of them, the oldest. */
  at(time: number): Topology | undefined {
    return (this.#all.findLast(({ at }) => at <= time) ?? this.#all[0])?.topology;
  }

  clear(): void {
    this.#all = this.#all.slice(-1);
    this.#parts = this.#all.reduce((sum, { topology }) => sum + parts(topology), 0);
    for (const one of this.#all) one.at = 0;
  }
}

const parts = ({ machines, wires }: Topology) => machines.length + wires.length;
