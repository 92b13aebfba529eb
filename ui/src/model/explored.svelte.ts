// An explored lab: the run with a schedule, and what comes of it if one more of its packets has each of the fates. The control
// process makes runs as they are asked for (docs/explore.md).
import { SvelteMap } from 'svelte/reactivity';
import { api, body } from '../api/client.ts';
import type { Explored, ExploredChoice, ExploredRun, PacketDetail } from '../api/types.ts';
import { arrows, rows, type Row } from './explored.ts';
import { Latest } from './latest.ts';

export class ExploredModel {
  readonly id: string;
  about = $state.raw<Explored>();
  run = $state.raw<ExploredRun>();
  /** The schedule of the run that is shown. */
  schedule = $state('');
  /** Of a difference, the side that is shown. */
  side = $state(0);
  failed = $state('');
  /** What comes of the run with each fate of a packet, by the packet. */
  readonly choices = new SvelteMap<string, ExploredChoice[]>();
  /** What is in the packet that is selected. */
  detail = $state.raw<PacketDetail>();
  readonly rows = $derived(this.run ? rows(this.run) : []);
  readonly arrows = $derived(this.run ? arrows(this.run, this.rows) : []);

  #runs = new Latest<{ schedule: string; side: number }>((wanted, signal) => this.#load(wanted, signal));
  #packets = new Latest<number>((packet, signal) => this.#look(packet, signal));
  #choosing: AbortController | undefined;

  constructor(id: string) {
    this.id = id;
  }

  async open(): Promise<void> {
    try {
      this.about = await body(api.GET('/v1/explored/{explored}', { params: { path: { explored: this.id } } }));
      this.failed = '';
    } catch (error) {
      this.failed = (error as Error).message;
    }
  }

  close(): void {
    this.#runs.close();
    this.#packets.close();
    this.#choosing?.abort();
  }

  /** The schedule that was found. */
  get found(): string {
    return (this.about?.summary.schedule ?? []).map(({ words }) => words).join(',');
  }

  /** The name of the other side of a difference. */
  get other(): string | undefined {
    return this.about?.sides[1 - this.side]?.name;
  }

  show(schedule: string, side: number): void {
    this.#choosing?.abort();
    this.#runs.ask({ schedule, side });
  }

  async #load({ schedule, side }: { schedule: string; side: number }, signal: AbortSignal): Promise<void> {
    const params = { path: { explored: this.id }, query: { schedule, side } };
    try {
      const run = await body(api.GET('/v1/explored/{explored}/run', { params, signal }));
      this.choices.clear();
      [this.schedule, this.side, this.run, this.detail, this.failed] = [schedule, side, run, undefined, ''];
    } catch (error) {
      if (!signal.aborted) this.failed = (error as Error).message;
    }
  }

  /** Tries the fates of the packets of these rows, one packet after the other, unless others are wanted meanwhile. */
  async choose(wanted: Row[]): Promise<void> {
    this.#choosing?.abort();
    const abort = (this.#choosing = new AbortController());
    const { schedule } = this;
    for (const { event } of wanted) {
      if (!event?.number || !event.end) continue;
      const key = `${event.end} ${event.number}`;
      if (this.choices.has(key)) continue;
      const query = { schedule, from: event.end, packet: event.number };
      const params = { path: { explored: this.id }, query };
      try {
        const found = await body(api.GET('/v1/explored/{explored}/choices', { params, signal: abort.signal }));
        if (abort.signal.aborted) return;
        this.choices.set(key, found);
      } catch (error) {
        if (!abort.signal.aborted) this.failed = (error as Error).message;
        return;
      }
    }
  }

  /** Asks what is in a packet. */
  look(packet: number): void {
    this.#packets.ask(packet);
  }

  async #look(packet: number, signal: AbortSignal): Promise<void> {
    const { schedule, side } = this;
    const path = { explored: this.id, packet: String(packet) };
    const params = { path, query: { schedule, side } };
    const found = await body(api.GET('/v1/explored/{explored}/packets/{packet}', { params, signal }));
    if (schedule === this.schedule && side === this.side) this.detail = found;
  }
}
