// A recorded run at a time of it: machines and wires, packets under way, what was counted, which programs ran, and what
// happens next. Nothing is run: the control process finds each time by the run's index (docs/replay.md).
import { api, body } from '../api/client.ts';
import { refusal, transport } from '../api/transport.ts';
import type { PacketDetail, Run, RunEvent, RunState, RunTimeline, RunTopology, Settings } from '../api/types.ts';
import { header, HEADER_BYTES, WORDS } from '../canvas/feed.ts';
import { CLASSES } from '../canvas/theme.ts';
import type { End, PacketClass, PictureOf, Topology } from '../canvas/types.ts';
import { Latest } from './latest.ts';
import { notices, vink } from './notice.svelte.ts';
import { fitting, Player } from './player.svelte.ts';
import { groups } from './topology.ts';

/** Each hop is shown for at least so long, ms of the host's time; a lost packet, the longest. */
const LEAST_MS = 400;
const LONGEST_MS = 600;
/** Packets that are asked for at once. */
const MOST = 20_000;
/** What is asked for beyond the time shown while it plays, and before which the next is asked for, ms of the host's time. */
const AHEAD_MS = 3000;
const SOON_MS = 1000;
/** When the time has rested so long, or how often while it plays, what was counted is asked for, ms. */
const REST_MS = 150;
const OFTEN_MS = 500;
/** Events that are listed. */
const LISTED = 30;
/** Over which time rates are, ns. */
const RATE_NS = 1e9;

/** How packets of these kinds look; the recording's kinds have names of their own. */
const LOOKS: Record<string, string> = {
  arp: 'ARP, ND',
  icmp: 'ICMP',
  'tcp-handshake': 'TCP handshake',
  tcp: 'TCP',
  udp: 'UDP',
  routing: 'routing',
};
/** What `[` and `]` go to, unless the user chooses others. */
export const STOPS = ['loss', 'breakpoint', 'request', 'line'];

/** The looks of a recording's kinds of packets, in their order. */
export function looks(run: Run): PacketClass[] {
  return run.kinds.slice(0, run.classes).map((kind) => {
    const look = CLASSES.find(({ name }) => name === LOOKS[kind]) ?? CLASSES[0]!;
    return LOOKS[kind] ? look : { ...look, name: kind };
  });
}

/** What the picture draws of a run: the lab as it was then. */
export function topologyOf({ topology: { nodes, wires, ends } }: RunTopology): Topology {
  const grouped = groups(nodes.map(({ name }) => name));
  const machines: Topology['machines'] = nodes.map((node, at) => ({ ...node, ...grouped[at]! }));
  const links = wires.map(({ name, up, ends: own }) => ({
    name,
    state: up ? 'up' : 'down',
    ends: own.map((number): End => {
      const { node, interface: port } = ends[number]!;
      const at = node ?? machines.push({ name: `${name}:outside`, kind: 'uplink', state: 'running' }) - 1;
      return [at, port, number];
    }),
  }));
  return { machines, wires: links };
}

/** What a wire did to packets, in the words of `vink wire set`. */
export function effects(then: RunTopology, wire: string): string {
  const words = (settings: Settings) =>
    Object.entries(settings).map(([key, value]) =>
      typeof value === 'object' && value
        ? `${key} ${Object.values(value as object).join(' ')}`
        : `${key} ${String(value)}`,
    );
  const { settings = {}, from = {} } = then.settings[wire] ?? {};
  const own = Object.entries(from).map(([end, different]) => `from ${end}: ${words(different).join(', ')}`);
  return [words(settings).join(', '), ...own].filter(Boolean).join('; ');
}

/** Frames of the picture, which are one behind the other. */
export function frames(all: ArrayBuffer): ArrayBuffer[] {
  const each: ArrayBuffer[] = [];
  for (let at = 0; at + HEADER_BYTES <= all.byteLength;) {
    const { count } = header(all.slice(at, at + HEADER_BYTES));
    const end = at + HEADER_BYTES + 4 * WORDS * count;
    each.push(all.slice(at, end));
    at = end;
  }
  return each;
}

export class RunModel {
  readonly id: string;
  run = $state.raw<Run>();
  failed = $state('');
  /** Machines and wires at the time shown. */
  then = $state.raw<RunTopology>();
  /** What was counted at the time shown, and a second of the run before it. */
  state = $state.raw<RunState>();
  before = $state.raw<RunState>();
  /** What happens at the time shown, and then. */
  events = $state.raw<RunEvent[]>([]);
  /** What was jumped to. */
  found = $state.raw<RunEvent | null>(null);
  /** What is in it, if it is a packet. */
  detail = $state.raw<PacketDetail>();
  /** Kinds that `[` and `]` go to. */
  stops = $state<string[]>([...STOPS]);
  /** So many packets can't be shown at once; 0: all are. */
  missed = $state(0);
  readonly player = new Player((at, rate) => this.#show(at, rate));

  #picture: PictureOf | undefined;
  /** The span of which packets are in the picture, ns. */
  #has: [from: number, to: number] = [0, -1];
  /** How much of what was under way before a time is asked for: less where there is too much. */
  #reach = 1;
  #flights = new Latest<number>((at, signal) => this.#load(at, signal));
  #topologies = new Latest<number>((at, signal) => this.#look(at, signal));
  #states = new Latest<number>((at, signal) => this.#ask(at, signal));
  #jumps = new Latest<boolean>((back, signal) => this.#jump(back, signal));
  #packets = new Latest<RunEvent>((event, signal) => this.#lookInside(event, signal));
  #resting: ReturnType<typeof setTimeout> | undefined;
  #asked = 0;

  constructor(id: string, at = 0) {
    this.id = id;
    void this.#open(at);
  }

  async #open(at: number): Promise<void> {
    try {
      const [run, then] = await Promise.all([
        body(api.GET('/v1/runs/{run}', this.#path())),
        this.#topology(Math.max(Math.round(at), 0)),
      ]);
      this.then = then;
      this.player.to = run.nanoseconds;
      this.player.speed = fitting(run.nanoseconds);
      this.run = run;
      this.player.seek(at);
    } catch (error) {
      this.failed = (error as Error).message;
    }
  }

  close(): void {
    this.player.close();
    clearTimeout(this.#resting);
    for (const one of [this.#flights, this.#topologies, this.#states, this.#jumps, this.#packets]) one.close();
  }

  #path() {
    return { params: { path: { run: this.id } } };
  }

  /** The command line that shows this run. */
  line(...words: string[]): string {
    const path = this.run?.summary.path.replace(/\/manifest\.json$/, '') ?? this.id;
    return vink(...words.map((word) => (word === 'RUN' ? path : word)));
  }

  /** Shows the run in this picture. */
  attach(picture: PictureOf): void {
    this.#picture = picture;
    this.#has = [0, -1];
    picture.classes(looks(this.run!));
    this.player.seek(this.player.at);
  }

  /** Resolves when what was asked for is in the picture. */
  async settled(): Promise<void> {
    await Promise.all([this.#flights.settled(), this.#topologies.settled()]);
  }

  #show(at: number, rate: number): void {
    if (!this.run) return;
    const { speed } = this.player;
    this.#picture?.clock(BigInt(at), rate, LEAST_MS, speed);
    const ahead = rate ? SOON_MS * 1e6 * speed : 0;
    if (this.#picture && !this.#hasAll(at, Math.min(at + ahead, this.player.to))) this.#flights.ask(at);
    if (!this.#isThen(at)) this.#topologies.ask(at);
    const rest = () => {
      this.#asked = performance.now();
      this.#states.ask(this.player.at);
    };
    if (rate && performance.now() - this.#asked > OFTEN_MS) return rest();
    clearTimeout(this.#resting);
    this.#resting = setTimeout(rest, REST_MS);
  }

  /** How long before a time packets departed that are still shown then, ns. */
  #back(): number {
    return Math.round(LONGEST_MS * 1e6 * this.player.speed * this.#reach);
  }

  #hasAll(from: number, to: number): boolean {
    return this.#has[0] <= Math.max(from - this.#back(), 0) && this.#has[1] >= to;
  }

  async #load(at: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      const { plays, speed } = this.player;
      const back = this.#back();
      // A slider goes on to where it has nearly been.
      const ahead = plays ? Math.round(AHEAD_MS * 1e6 * speed) : back;
      let [from, to] = [Math.max(at - 2 * back, 0), at + ahead];
      let all = await this.#flightsOf(from, to, signal);
      let { missed } = header(all);
      if (missed) {
        [from, to] = [Math.max(at - back, 0), at];
        all = await this.#flightsOf(from, to, signal);
        ({ missed } = header(all));
      }
      // Only those that were really under way, rather than only the oldest.
      if (missed && this.#reach) {
        this.#reach = this.#reach > 1e-4 ? this.#reach / 8 : 0;
        continue;
      }
      this.missed = missed;
      this.#has = [from, to];
      this.player.limit = to;
      this.#picture?.clear();
      for (const frame of frames(all)) this.#picture?.flights(frame);
      return;
    }
  }

  async #flightsOf(from: number, to: number, signal: AbortSignal): Promise<ArrayBuffer> {
    const path = `/v1/runs/${encodeURIComponent(this.id)}/flights?from=${from}&to=${to}&count=${MOST}`;
    const answer = await transport.fetch(new Request(new URL(path, location.href), { signal }));
    if (!answer.ok) throw await refusal(answer);
    return answer.arrayBuffer();
  }

  /** Whether machines and wires were at a time as they are shown. */
  #isThen(at: number): boolean {
    const { since, until } = this.then!;
    return at >= since && (typeof until !== 'number' || at < until);
  }

  #topology(at: number, signal?: AbortSignal): Promise<RunTopology> {
    const query = { at };
    return body(
      api.GET('/v1/runs/{run}/topology', { params: { path: { run: this.id }, query }, signal: signal ?? null }),
    );
  }

  async #look(at: number, signal: AbortSignal): Promise<void> {
    if (!this.#isThen(at)) this.then = await this.#topology(at, signal);
  }

  async #ask(at: number, signal: AbortSignal): Promise<void> {
    const state = (at: number) =>
      body(api.GET('/v1/runs/{run}/state', { params: { path: { run: this.id }, query: { at } }, signal }));
    const query = { from: at, count: LISTED, kinds: 'packet,breakpoint,request,line,change,program,output' };
    const [now, before, events] = await Promise.all([
      state(at),
      state(Math.max(at - RATE_NS, 0)),
      body(api.GET('/v1/runs/{run}/events', { params: { path: { run: this.id }, query }, signal })),
    ]);
    [this.state, this.before, this.events] = [now, before, events];
  }

  timeline(from: number, to: number, bins: number, signal: AbortSignal): Promise<RunTimeline> {
    const query = { from: Math.floor(from), to: Math.ceil(to), bins };
    return body(api.GET('/v1/runs/{run}/timeline', { params: { path: { run: this.id }, query }, signal }));
  }

  /** Goes to the next of the kinds that are chosen, or to the one before. */
  jump(back: boolean): void {
    this.#jumps.ask(back);
  }

  async #jump(back: boolean, signal: AbortSignal): Promise<void> {
    const kinds = this.stops.join(',');
    if (!kinds) return notices.say('Choose what to go to: the names beside the timeline');
    const query = { at: this.player.at, kinds, back };
    try {
      const [found] = await body(api.GET('/v1/runs/{run}/next', { params: { path: { run: this.id }, query }, signal }));
      if (!found) return notices.say(`No ${this.stops.join(', ')} ${back ? 'before' : 'behind'} this time`);
      this.player.play(false);
      this.go(found);
    } catch (error) {
      if (!signal.aborted) notices.refuse(error);
    }
  }

  /** Goes to something that happens. */
  go(event: RunEvent): void {
    this.player.seek(event.nanoseconds);
    this.found = event;
    this.#packets.ask(event);
    notices.say(`${event.kind} ${event.text}`);
  }

  async #lookInside({ kind, number }: RunEvent, signal: AbortSignal): Promise<void> {
    this.detail = undefined;
    const { kinds = [], classes = 0 } = this.run ?? {};
    if (![...kinds.slice(0, classes), 'arrival', 'loss'].includes(kind)) return;
    const path = { run: this.id, packet: String(number) };
    this.detail = await body(api.GET('/v1/runs/{run}/packets/{packet}', { params: { path }, signal }));
  }
}
