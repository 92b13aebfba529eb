// A lab as the page knows it: what is set (spec), what is (state), and numbers. Events of the control process say which of
// them to ask for again, so that what another user or the command line has done shows here, too.
import { api, body, follow } from '../api/client.ts';
import type {
  Applied,
  Breakpoints,
  Clock,
  Event,
  KeptTerminal,
  Lab,
  LabStatus,
  MachineSummary,
  Program,
  Wire,
} from '../api/types.ts';
import { CLASSES } from '../canvas/theme.ts';
import type { PacketClass } from '../canvas/types.ts';
import { difference, revert, type Difference } from './difference.ts';
import { Feed } from './feed.ts';
import { notices, vink } from './notice.svelte.ts';
import { Rates, type Numbers } from './numbers.ts';
import { Past } from './past.svelte.ts';
import { split } from './topology.ts';
import type { Share } from './waiting.ts';

/** An event with a number of its own, for lists. */
export interface Told {
  number: number;
  event: Event;
}

type Part = 'status' | 'spec' | 'machines' | 'wires' | 'programs' | 'terminals' | 'clock' | 'breakpoints';
const PARTS: Part[] = ['status', 'spec', 'machines', 'wires', 'programs', 'terminals', 'clock', 'breakpoints'];
/** Events that are kept. */
const KEPT = 1000;

/** What each kind of event makes out of date. */
function outdated(event: Event): Part[] {
  switch (event.kind) {
    case 'changed':
    case 'missed':
      return PARTS;
    case 'lab':
    case 'dead':
    case 'kernel':
      return ['status', 'machines', 'programs', 'terminals', 'clock'];
    case 'started':
    case 'ready':
    case 'ended':
      return ['programs', 'terminals', 'machines', 'status'];
    case 'clock':
      // What a breakpoint has stopped goes on.
      return ['clock', 'breakpoints'];
    case 'asked':
      return event.path.endsWith('/continue') ? ['clock', 'breakpoints'] : [];
    case 'terminal':
      return ['terminals'];
    case 'wire':
    case 'uplink':
      return ['wires', 'spec'];
    case 'breakpoint':
      return ['breakpoints', 'clock'];
    default:
      return [];
  }
}

export class LabModel {
  readonly name: string;
  status = $state.raw<LabStatus>();
  spec = $state.raw<Lab>({});
  machines = $state.raw<MachineSummary[]>([]);
  wires = $state.raw<Wire[]>([]);
  programs = $state.raw<Program[]>([]);
  /** Terminals that outlive their clients. */
  terminals = $state.raw<KeptTerminal[]>([]);
  clock = $state.raw<Clock>();
  breakpoints = $state.raw<Breakpoints>({ breakpoints: [], stopped: false, machines: [] });
  events = $state.raw<Told[]>([]);
  /** Ends whose numbers have changed since they were told before. */
  changed = $state.raw<string[]>([]);
  /** Where packets wait: of which classes they are, by end. */
  waiting = $state.raw<ReadonlyMap<string, Share[]>>(new Map());
  /** The classes that packets have now: their places are the numbers above. */
  classes = $state.raw<PacketClass[]>(CLASSES);
  /** The lab is not there (any more). */
  gone = $state('');
  loaded = $state(false);
  undoable = $state.raw<Difference[]>([]);
  redoable = $state.raw<Difference[]>([]);

  #stop: (() => void)[] = [];
  #due = new Set<Part>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #number = 0;
  #isClosed = false;
  #rates = new Rates();
  /** Packets, counters and queues, from when the lab is there on. */
  feed = $state.raw<Feed>();
  /** The last minutes of it. */
  readonly past = new Past();

  constructor(name: string) {
    this.name = name;
    const lab = encodeURIComponent(name);
    this.#stop.push(
      follow<Event>(
        `/v1/events?lab=${lab}`,
        (event) => this.#take(event),
        () => this.refresh(...PARTS),
      ),
    );
    // The clock has no events of its own while it runs.
    const ticks = setInterval(() => {
      if (document.visibilityState === 'visible' && !this.gone) this.refresh('clock');
    }, 500);
    this.#stop.push(() => clearInterval(ticks));
    this.refresh(...PARTS);
  }

  close(): void {
    this.#isClosed = true;
    for (const stop of this.#stop) stop();
    clearTimeout(this.#timer);
    this.past.close();
  }

  /** By end, `machine:interface` or `wire:outside`. */
  get numbers(): ReadonlyMap<string, Numbers> {
    // What was told last makes it new.
    void this.changed;
    return this.#rates.all;
  }

  /** Asks for these soon, once for several events. */
  refresh(...parts: Part[]): void {
    for (const part of parts) this.#due.add(part);
    this.#timer ??= setTimeout(() => void this.#ask(), 30);
  }

  /** A change of the clock was answered with this, which a later answer may have overtaken. */
  told(clock: Clock): void {
    if (clock['kernel-nanoseconds'] < (this.clock?.['kernel-nanoseconds'] ?? 0)) this.refresh('clock');
    else this.clock = clock;
  }

  async #ask(): Promise<void> {
    const due = [...this.#due];
    this.#due.clear();
    const path = { params: { path: { lab: this.name } } };
    const asking: Record<Part, () => Promise<void>> = {
      status: async () => void (this.status = await body(api.GET('/v1/labs/{lab}', path))),
      spec: async () => void (this.spec = await body(api.GET('/v1/labs/{lab}/spec', path))),
      machines: async () => void (this.machines = await body(api.GET('/v1/labs/{lab}/machines', path))),
      wires: async () => void (this.wires = await body(api.GET('/v1/labs/{lab}/wires', path))),
      programs: async () => void (this.programs = await body(api.GET('/v1/labs/{lab}/programs', path))),
      terminals: async () => void (this.terminals = await body(api.GET('/v1/labs/{lab}/terminals', path))),
      clock: async () => {
        const before = this.clock;
        const now = await body(api.GET('/v1/labs/{lab}/clock', path));
        // A change of it was answered meanwhile: either answer may be the older one.
        if (this.clock === before) this.clock = now;
        else this.refresh('clock');
      },
      breakpoints: async () => void (this.breakpoints = await body(api.GET('/v1/labs/{lab}/breakpoints', path))),
    };
    try {
      await Promise.all(due.map((part) => asking[part]()));
      // Its WebSocket may have asked in a moment without the lab, in which nothing was asked here.
      this.feed?.resume();
      this.gone = '';
      if (due.length === PARTS.length && !this.loaded) {
        this.loaded = true;
        if (!this.#isClosed) this.#look();
      }
    } catch (error) {
      const { status } = error as { status?: number };
      if (status === 404) this.gone = (error as Error).message;
      // One that begins, or ends, is asked again at its next event.
      else if (status !== 409) notices.refuse(error);
    } finally {
      this.#timer = undefined;
      if (this.#due.size) this.refresh();
    }
  }

  #take(event: Event): void {
    if (event.kind !== 'progress') {
      this.events = [...this.events.slice(1 - KEPT), { number: this.#number++, event }];
    }
    this.past.happened(event);
    const text = spoken(event);
    if (text) notices.say(text);
    const parts = outdated(event);
    if (parts.length) this.refresh(...parts);
  }

  /** Begins to hear of what its ends count. */
  #look(): void {
    const rates = this.#rates;
    /** The time of what was told last, ns. */
    let last = 0;
    const feed = new Feed(this.name, {
      counted: (at, counts) => {
        last = at;
        // A virtual clock says nothing of the host's.
        const now = performance.now();
        rates.count(this.clock?.time === 'real' ? at / 1e6 : now, now, counts);
      },
      queued: (queues) => rates.queue(queues),
      waits: (queues) => {
        const now = new Map([...this.waiting, ...queues]);
        for (const [end, shares] of queues) if (!shares.length) now.delete(end);
        this.waiting = now;
      },
      told: () => {
        const changed = rates.changed(performance.now());
        for (const end of changed) this.past.count(last, end, rates.all.get(end)!);
        if (changed.length) this.changed = changed;
      },
    });
    this.feed = feed;
    this.#stop.push(() => feed.close());
  }

  /** A command line about this lab: with `--lab NAME`, before the words of a program. */
  line(...words: string[]): string {
    const at = words.indexOf('--');
    const end = at < 0 ? words.length : at;
    return vink(...words.slice(0, end), '--lab', this.name, ...words.slice(end));
  }

  /** The command line that captures packets of these interfaces. */
  captureLine(ends: string[], filter: string): string {
    const [machine, port] = split(ends[0] ?? 'MACHINE:any');
    const which = ends.length > 1 ? 'any' : port;
    return this.line('capture', '-w', 'packets.pcapng', machine, which, ...(filter ? [filter] : []));
  }

  /** Makes the lab as `spec` says, and remembers how it was. */
  async put(spec: Lab, dryRun = false): Promise<Applied> {
    const before = this.spec;
    const applied = await body(
      api.PUT('/v1/labs/{lab}', {
        params: { path: { lab: this.name } },
        body: { spec, folder: this.status?.summary.folder ?? '/', running: true, 'dry-run': dryRun },
      }),
    );
    if (!dryRun) this.remember(before, spec);
    this.refresh(...PARTS);
    return applied;
  }

  /** Changes a copy of the spec and applies it. */
  async edit(change: (spec: Lab) => void): Promise<Applied> {
    const spec = structuredClone(this.spec);
    change(spec);
    return this.put(spec);
  }

  /** Does something that changes the lab by another request, and remembers how the lab was. */
  async remembering<T>(what: () => Promise<T>): Promise<T> {
    const before = this.spec;
    const result = await what();
    const after = await body(api.GET('/v1/labs/{lab}/spec', { params: { path: { lab: this.name } } }));
    this.spec = after;
    this.remember(before, after);
    this.refresh(...PARTS);
    return result;
  }

  remember(before: Lab, after: Lab): void {
    const changed = difference(before, after);
    if (changed.length) {
      this.undoable = [...this.undoable.slice(-49), changed];
      this.redoable = [];
    }
  }

  /** Gives the objects of the last change back what they were: those that others have changed meanwhile stay. */
  async undo(): Promise<void> {
    await this.#go('undoable', 'redoable', 'before');
  }

  async redo(): Promise<void> {
    await this.#go('redoable', 'undoable', 'after');
  }

  async #go(from: 'undoable' | 'redoable', to: 'undoable' | 'redoable', which: 'before' | 'after'): Promise<void> {
    const last = this[from].at(-1);
    if (!last) return;
    const spec = revert(this.spec, last, which);
    await body(
      api.PUT('/v1/labs/{lab}', {
        params: { path: { lab: this.name } },
        body: { spec, folder: this.status?.summary.folder ?? '/', running: true },
      }),
    );
    this[from] = this[from].slice(0, -1);
    this[to] = [...this[to], last];
    this.refresh(...PARTS);
  }
}

/** What the live region says about an event. */
function spoken(event: Event): string {
  switch (event.kind) {
    case 'breakpoint':
      return event.stopped
        ? `Breakpoint ${event.breakpoint} stopped ${event.stopped === 'all' ? 'the lab' : 'the machine'} at ${event.packet.end}`
        : '';
    case 'dead':
      return `The kernel of ${event.machines.length} machines has died: ${event.message}`;
    case 'ended':
      return event.code
        ? `${event.name ?? 'Program ' + event.program} on ${event.machine} ended with ${event.code}`
        : '';
    case 'lab':
      return `The lab is ${event.state}`;
    default:
      return '';
  }
}
