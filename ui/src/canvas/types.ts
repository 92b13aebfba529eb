// What the page and the picture of a lab say to each other. `Picture` (picture.ts) implements `PictureOf`.

/** What a node is: it decides the node's shape and colour. */
export type Kind = 'machine' | 'switch' | 'router' | 'bus' | 'uplink';

export interface Node {
  name: string;
  kind: Kind;
  /** Nodes of one group are framed, and collapse into one node. */
  group?: string;
  /** `running`, `dead`, or any other word: the first two have their own looks. */
  state: string;
}

/**
 * A node's place in `Topology.machines`, the interface there, and the number by which the feed, counters and queues name
 * this end. Without a number, ends are counted from 0 in the order in which they stand in `Topology.wires`.
 */
export type End = [machine: number, port: string, end?: number];

export interface Link {
  name: string;
  /** A wire of more than two ends is drawn as a bus in their middle. Several links may have one name: they are one wire. */
  ends: End[];
  /** `up`, or anything else. */
  state: string;
}

export interface Topology {
  machines: Node[];
  wires: Link[];
}

/** Numbers of one direction of a wire, for the end that sends. */
export interface Counters {
  end: number;
  /** Packets per second. */
  packets: number;
  /** Bytes per second. */
  bytes: number;
  /** Packets lost per second. */
  dropped: number;
  /** Packets that wait to be sent. */
  queue: number;
}

/**
 * What waits at an end: a class (its place in `classes`; -1: not known), and how many packets of it. Without any, what the
 * end's counters say is shown.
 */
export interface Queue {
  end: number;
  runs: [kind: number, count: number][];
}

/** New states, by name. */
export interface States {
  machines?: Record<string, string>;
  wires?: Record<string, string>;
}

export const GLYPHS = ['disc', 'square', 'diamond', 'up', 'down', 'ring', 'plus', 'bar', 'cross'] as const;
export type Glyph = (typeof GLYPHS)[number];

/** Packets that look alike. Its place in the list is the number that the feed's records bear. */
export interface PacketClass {
  name: string;
  /** `#rrggbb` */
  colour: string;
  glyph: Glyph;
  /** What they are, as in pcap-filter(7): the first class of the list that a packet fits is its own. */
  filter?: string;
}

/** What of the world is seen: its point in the canvas's middle, and CSS pixels per unit. */
export interface Camera {
  x: number;
  y: number;
  scale: number;
}

export type Picked =
  | { kind: 'machine'; name: string }
  | { kind: 'group'; name: string }
  /** `end` is the one that the pointer is nearer to. */
  | { kind: 'wire'; name: string; end?: number }
  | { kind: 'flight'; name: string; end: number; id: number; class: number; length: number; fate: number; aux: number };

export type BackendName = 'webgl2' | 'canvas2d';

export interface Stats {
  backend: BackendName;
  /** Why this backend, in words for a status bar; empty where it is the first choice. */
  why: string;
  nodes: number;
  wires: number;
  /** `layout` is at work: nodes are not where they will be. */
  isPlacing: boolean;
  labels: number;
  /** Frames drawn since the start. While nothing moves or changes, it stands still. */
  frames: number;
  /** Frames drawn in the last second. */
  fps: number;
  /** Milliseconds of the main thread for a frame: the 95th percentile of the last 240. */
  frameMs: number;
  /** Flights under way at the time shown; and those of them that are drawn one by one. */
  flights: number;
  drawn: number;
  /** Wires' directions that are drawn as a stream, because more packets than can be told apart are under way there. */
  streams: number;
  /** Records kept, and the lab's times (ns) between which they can be shown again. */
  kept: number;
  from: bigint;
  to: bigint;
  /** Records that the feed did not send because the page was slow; and of how many packets it sends one. */
  missed: number;
  oneIn: number;
  /** The lab's time that is shown, ns. */
  now: bigint;
}

/** What `flights` found in a frame: the page acknowledges `seq`. */
export interface Taken {
  seq: number;
  count: number;
  missed: number;
  oneIn: number;
}

export interface PictureOptions {
  backend?: BackendName | 'auto';
  /** Where Canvas2D is drawn: by a worker, if there may be one, or by the page's main thread. */
  thread?: 'worker' | 'main';
}

/** A lab's picture on a canvas. Positions are in the world's units: x, y for each of `Topology.machines`. */
export interface PictureOf {
  /** A click, a box, or null names: machines by name, wires as `wire:NAME`, groups as `group:NAME`. */
  onselect: (names: string[]) => void;
  /** Double click. */
  onopen: (picked: Picked) => void;
  /** The user has dragged nodes. */
  onmove: (positions: Float32Array) => void;
  /** The user has drawn a wire between two machines: from a node's rim, or with Shift. */
  onlink: (from: string, to: string) => void;
  /** The user has clicked on a packet, whose flow is followed now, or elsewhere: null. */
  onfollow: (packet: (Picked & { kind: 'flight' }) | null) => void;
  /** The pointer is over something else than before. */
  onhover: (picked: Picked | null) => void;
  /** The user has moved the camera. */
  oncamera: (camera: Camera) => void;
  /** The user has opened or closed a group. */
  oncollapse: (group: string, collapsed: boolean) => void;
  /** A frame was drawn: what lies above the canvas goes along. */
  onframe: () => void;

  /** Nodes that were there before stay where they are; others start beside a neighbour. */
  topology(topology: Topology): void;
  /** Where the nodes are, from now on these places. */
  positions(to?: Float32Array): Float32Array;
  /** Places the nodes, off the main thread: the same names and wires give the same picture. Shown while it converges. */
  layout(): Promise<Float32Array>;
  states(states: States): void;
  counters(updates: Counters[]): void;
  queues(updates: Queue[]): void;
  /** Takes a frame of the feed (feed.ts), which must not be changed afterwards; null if its kind is not flights. */
  flights(frame: ArrayBuffer): Taken | null;
  /** Forgets all flights. */
  clear(): void;
  /**
   * The lab's time now, ns, and how fast it runs beside the host's (0: stands still). Frames arrive late, so the page gives
   * a time some 100 ms before the lab's own. Each hop is shown for at least `least` ms of the host's time; where time
   * stands still, this is as many of the lab's as if it ran at `pace`.
   */
  clock(ns: bigint, rate: number, least?: number, pace?: number): void;
  classes(classes: PacketClass[]): void;
  /** Highlights the flights whose `id`, or `aux`, is this one, and the wires that they went along; null ends it. */
  follow(match: { id: number } | { aux: number } | null): void;
  select(names: string[]): void;
  /** What is at this place, in CSS pixels from the canvas's upper left corner. */
  pick(x: number, y: number): Picked | null;
  camera(to?: Camera): Camera;
  /** Moves the camera so that these nodes, or all, are seen. */
  fit(names?: string[]): void;
  /** Ends of wires that are in sight, by their numbers; null: more than `most`. */
  inSight(most: number): number[] | null;
  /** Where a machine, `wire:NAME` or `group:NAME` is, in CSS pixels from the canvas's upper left corner. */
  where(name: string): [number, number] | null;
  collapse(group: string, collapsed: boolean): void;
  /** Resolves when the canvas shows all that has been told by now. */
  shown(): Promise<void>;
  stats(): Stats;
  destroy(): void;
}
