// Packets under way, from the control process's feed, and the time at which the picture shows them.
import { api, body } from '../api/client.ts';
import { transport } from '../api/transport.ts';
import type { Clock } from '../api/types.ts';
import { FLIGHTS, header } from '../canvas/feed.ts';
import { CLASSES } from '../canvas/theme.ts';
import type { PictureOf } from '../canvas/types.ts';

/** In labs of more ends, packets are not shown one by one. */
export const MOST_ENDS = 2000;
/** Packets a second that are shown, at most: of more, one of so many is. */
const BUDGET = 20_000;
/** Each hop is shown for at least so long, ms. */
const LEAST_MS = 400;
/** How far the picture is behind a clock that runs with the host's, so that packets are known before they are shown, ms. */
const BEHIND_MS = 200;
/** What a virtual clock has jumped over is shown in so many ms, but not more than so many ns of it. */
const REPLAY_MS = 1500;
const REPLAY_NS = 20e9;
/** How long to wait before a feed that has closed is opened again, and a lab that has changed is asked for, ms. */
const AGAIN_MS = 500;

export class Flights {
  #lab: string;
  #picture: PictureOf;
  #numbers: Map<string, number>;
  #share: (oneIn: number) => void;
  #socket: WebSocket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;
  /** The topology's revision in which ends have the picture's numbers; null: not known. */
  #revision: number | null = null;
  #asks = false;
  /** The time of a virtual lab that is shown, ns, and when it was given. */
  #shown: number | null = null;
  #rate = 0;
  #given = 0;

  /** `share` is told of how many packets one is shown, from when packets are shown at all. */
  constructor(lab: string, picture: PictureOf, numbers: Map<string, number>, share: (oneIn: number) => void) {
    this.#lab = lab;
    this.#picture = picture;
    this.#numbers = numbers;
    this.#share = share;
    void this.#ask().then(() => this.#open());
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#socket?.close();
  }

  #open(): void {
    if (this.#isClosed) return;
    const socket = transport.open(`/v1/labs/${encodeURIComponent(this.#lab)}/feed`);
    this.#socket = socket;
    const classes = CLASSES.slice(1).map(({ filter }) => filter);
    socket.onopen = () => socket.send(JSON.stringify({ subscribe: { classes, detail: { budget: BUDGET } } }));
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) this.#take(data);
      // The subscription is in force, with all packets at first.
      else if (data === '"subscribed"') this.#share(1);
    };
    socket.onclose = () => {
      if (!this.#isClosed) this.#timer = setTimeout(() => this.#open(), AGAIN_MS);
    };
  }

  #take(frame: ArrayBuffer): void {
    const { kind, flags, seq, count } = header(frame);
    if (kind !== FLIGHTS) return;
    if (count) this.#socket?.send(JSON.stringify({ ack: seq }));
    // By other numbers than the picture's, it would show packets on wrong wires.
    if (this.#revision === null || flags !== (this.#revision & 0xff)) {
      void this.#ask();
      return;
    }
    const taken = this.#picture.flights(frame);
    if (taken) this.#share(taken.oneIn);
  }

  /** Finds out in which revision ends have the picture's numbers, if they still do. */
  async #ask(): Promise<void> {
    if (this.#asks) return;
    this.#asks = true;
    try {
      const path = { params: { path: { lab: this.#lab } } };
      const { revision, nodes, wires, ends } = await body(api.GET('/v1/labs/{lab}/topology', path));
      const outside = new Map(wires.flatMap(({ name, ends }) => ends.map((end) => [end, name])));
      const isSame = ends.every(({ node, interface: port }, number) => {
        const at = typeof node === 'number' ? nodes[node]!.name : `${outside.get(number)}:outside`;
        return this.#numbers.get(`${at}:${port}`) === number;
      });
      this.#revision = isSame ? revision : null;
    } catch {
      // The lab is gone, or begins: it is asked again.
      this.#revision = null;
    }
    setTimeout(() => (this.#asks = false), AGAIN_MS);
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
