// A lab as it is drawn now: its graph, places, states and numbers, and the lists of things to draw that follow from them.
import { toWorld, type Box, type View } from './camera.ts';
import {
  BOX,
  CROSSED,
  DIAMOND,
  drawing,
  HOLLOW,
  look,
  NOWHERE,
  ROUND,
  SQUARE,
  WORLD,
  type Drawing,
  type Label,
} from './drawing.ts';
import type { Batch } from './batch.ts';
import { graph, middle, place, type Graph, type Line } from './graph.ts';
import { short } from './numbers.ts';
import { faded, parseColour, type Theme } from './theme.ts';
import type { Counters, Kind, PacketClass, Queue, States, Topology } from './types.ts';

const SHAPES: Record<Kind, [shape: number, width: number, height: number]> = {
  machine: [BOX, 1, 0.8],
  router: [ROUND, 1, 1],
  switch: [SQUARE, 1, 0.8],
  bus: [SQUARE, 1.2, 0.35],
  uplink: [DIAMOND, 1.1, 1.1],
};
/** Packets in a queue that fill its bar, and the bar's length, pixels. */
const FULL = 100;
const BAR = 64;
/** Between a group's members and its frame, in the world's units. */
const PADDING = 34;
/** How near the camera has to be for numbers on wires, pixels per unit. */
const NUMBERS = 0.9;
/** And for what waits. */
export const QUEUES = 0.5;

export class Scene {
  topology: Topology = { machines: [], wires: [] };
  graph: Graph = graph(this.topology, new Set());
  /** By point of the graph: x, y. */
  points = new Float32Array();
  collapsed = new Set<string>();
  selected = new Set<string>();
  /** Ends whose flights are drawn as a stream. */
  streams = new Set<number>();
  /** Lines that a flow which is followed went along. */
  followed = new Set<number>();
  /** By end: x, y, x, y, where its flights begin and arrive. */
  ends = new Float32Array();
  /** By line: x, y, x, y. */
  places = new Float32Array();
  /** How many of its neighbours a machine has: the more, the sooner its name is shown. */
  #degrees = new Int32Array();
  #counters = new Map<number, Counters>();
  #queues = new Map<number, Queue>();
  readonly drawing: Drawing = drawing();

  /** Takes a new topology: nodes of the same name stay where they are, others start beside a neighbour. */
  set(topology: Topology): void {
    const before = new Map(
      this.topology.machines.map(({ name }, at) => [name, [this.points[2 * at]!, this.points[2 * at + 1]!]]),
    );
    const places: (number[] | undefined)[] = topology.machines.map(({ name }) => before.get(name));
    this.topology = topology;
    this.#counters.clear();
    this.#queues.clear();
    this.streams.clear();
    this.followed.clear();
    this.#connect();
    for (let round = 0; round < 3; round++) {
      for (const { ends } of topology.wires) {
        const known = ends.find(([machine]) => places[machine]);
        if (!known) continue;
        ends.forEach(([machine], nth) => {
          const [x, y] = places[known[0]]!;
          const angle = machine * 2.4 + nth;
          places[machine] ??= [x! + 80 * Math.cos(angle), y! + 80 * Math.sin(angle)];
        });
      }
    }
    topology.machines.forEach((_, machine) => {
      const [angle, far] = [machine * 2.4, 50 * Math.sqrt(machine + 0.5)];
      const [x, y] = places[machine] ?? [far * Math.cos(angle), far * Math.sin(angle)];
      this.points[2 * machine] = x!;
      this.points[2 * machine + 1] = y!;
    });
    this.move();
  }

  collapse(group: string, collapsed: boolean): void {
    if (collapsed) this.collapsed.add(group);
    else this.collapsed.delete(group);
    const points = this.points;
    this.#connect();
    this.points.set(points.subarray(0, 2 * this.topology.machines.length));
    this.followed.clear();
    this.move();
  }

  #connect(): void {
    this.graph = graph(this.topology, this.collapsed);
    this.points = new Float32Array(2 * this.graph.shown.length);
    this.places = new Float32Array(4 * this.graph.lines.length);
    this.ends = new Float32Array(4 * this.graph.lineOf.length);
    this.#degrees = new Int32Array(this.graph.shown.length);
    for (const { a, b } of this.graph.lines) {
      this.#degrees[a]!++;
      this.#degrees[b]!++;
    }
  }

  /** Positions of machines. */
  positions(positions: Float32Array): void {
    this.points.set(positions.subarray(0, 2 * this.topology.machines.length));
    this.move();
  }

  /** To call when points have moved, or streams have changed. */
  move(): void {
    middle(this.topology, this.graph, this.points);
    this.graph.lines.forEach((line, at) => place(line, this.points, this.places, 4 * at));
    this.graph.lineOf.forEach((line, end) => {
      const at = 4 * end;
      if (line < 0 || this.streams.has(end)) {
        this.ends.fill(NOWHERE, at, at + 4);
      } else {
        const turn = this.graph.isBack[end] ? 2 : 0;
        for (let word = 0; word < 4; word++) this.ends[at + word] = this.places[4 * line + (word ^ turn)]!;
      }
    });
  }

  states({ machines, wires }: States): void {
    if (machines) for (const node of this.topology.machines) node.state = machines[node.name] ?? node.state;
    if (wires) for (const wire of this.topology.wires) wire.state = wires[wire.name] ?? wire.state;
  }

  counters(updates: Counters[]): void {
    for (const update of updates) this.#counters.set(update.end, update);
  }

  queues(updates: Queue[]): void {
    for (const update of updates) {
      if (update.runs.length) this.#queues.set(update.end, update);
      else this.#queues.delete(update.end);
    }
  }

  /** Whether a point is drawn itself: no member of a collapsed group, no group that is open. */
  isDrawn(point: number): boolean {
    const { shown, machines, hubs, groups } = this.graph;
    if (shown[point] !== point) return false;
    const group = point - machines - hubs.length;
    return group < 0 || this.collapsed.has(groups[group]!);
  }

  /** A point's name as the page knows it. */
  nameOf(point: number): string {
    const { machines, hubs, groups } = this.graph;
    if (point < machines) return this.topology.machines[point]!.name;
    if (point < machines + hubs.length) return `wire:${this.topology.wires[hubs[point - machines]!]!.name}`;
    return `group:${groups[point - machines - hubs.length]!}`;
  }

  /** An open group's frame in the world, null for one without members. */
  frame(group: number): Box | null {
    const members = this.graph.members[group]!;
    return members.length ? this.bounds(members, PADDING) : null;
  }

  /** What these points, or all that are drawn, fill. */
  bounds(points?: number[], padding = 20): Box {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    const take = (point: number) => {
      const [x, y] = [this.points[2 * point]!, this.points[2 * point + 1]!];
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    };
    if (points) points.forEach(take);
    else this.graph.shown.forEach((_, point) => this.isDrawn(point) && take(point));
    if (left > right) return { left: -1, top: -1, right: 1, bottom: 1 };
    return { left: left - padding, top: top - padding, right: right + padding, bottom: bottom + padding };
  }

  /** Ends whose wires may be in a box: the wire's own box meets it. Null: more than `most`. */
  inSight({ left, top, right, bottom }: Box, most: number): number[] | null {
    const ends: number[] = [];
    for (const [end, line] of this.graph.lineOf.entries()) {
      if (line < 0) continue;
      const [x, toX] = [this.places[4 * line]!, this.places[4 * line + 2]!];
      const [y, toY] = [this.places[4 * line + 1]!, this.places[4 * line + 3]!];
      if (Math.max(x, toX) < left || Math.min(x, toX) > right) continue;
      if (Math.max(y, toY) < top || Math.min(y, toY) > bottom) continue;
      if (ends.length === most) return null;
      ends.push(end);
    }
    return ends;
  }

  /** Makes the lists of what stays. `scale` decides what is told at all: queues only from near. */
  build(theme: Theme, classes: PacketClass[], scale: number): Drawing {
    const { frames, lines, shapes } = this.drawing;
    frames.clear();
    lines.clear();
    shapes.clear();
    const labels = (this.drawing.labels = []) as Drawing['labels'];
    this.#frames(frames, labels, theme);
    this.graph.lines.forEach((line, at) => this.#line(line, at, lines, theme));
    if (scale > QUEUES) this.#bars(lines, theme, classes);
    this.graph.shown.forEach((_, point) => {
      if (this.isDrawn(point)) this.#node(point, shapes, labels, theme);
    });
    labels.sort((a, b) => b.priority - a.priority);
    return this.drawing;
  }

  #frames(frames: Batch, labels: Drawing['labels'], theme: Theme): void {
    this.graph.groups.forEach((name, group) => {
      const box = this.collapsed.has(name) ? null : this.frame(group);
      if (!box) return;
      const at = frames.push();
      frames.f[at] = (box.left + box.right) / 2;
      frames.f[at + 1] = (box.top + box.bottom) / 2;
      frames.f[at + 2] = (box.right - box.left) / 2;
      frames.f[at + 3] = (box.bottom - box.top) / 2;
      frames.u[at + 4] = faded(theme.frame, 0.6);
      const isSelected = this.selected.has(`group:${name}`);
      frames.u[at + 5] = isSelected ? theme.accent : faded(theme.faint, 0.5);
      frames.u[at + 6] = look(BOX, isSelected ? 3 : 1, WORLD);
      labels.push({
        x: frames.f[at]!,
        y: box.top,
        dx: 0,
        dy: 9,
        below: 0,
        text: name,
        colour: theme.faint,
        priority: 5e8,
      });
    });
  }

  #line(line: Line, at: number, lines: Batch, theme: Theme): void {
    const { wires } = this.topology;
    const isSelected = line.links.some((link) => this.selected.has(`wire:${wires[link]!.name}`));
    const isDown = line.links.every((link) => wires[link]!.state !== 'up');
    const isFollowed = this.followed.has(at);
    let bytes = 0;
    let dropped = 0;
    for (const end of [...line.forth, ...line.back]) {
      bytes += this.#counters.get(end)?.bytes ?? 0;
      dropped += this.#counters.get(end)?.dropped ?? 0;
    }
    const word = push(lines, this.places, 4 * at);
    // A little wider for each tenfold of bytes, and for the wires of a bundle.
    const load = Math.min(Math.log10(1 + bytes / 1000) * 0.6, 3.5);
    const width = 1.4 + load + Math.min(Math.log2(line.links.length), 5);
    lines.f[word + 7] = isSelected || isFollowed ? width + 2.5 : width;
    lines.u[word + 8] = isSelected || isFollowed ? theme.accent : isDown || dropped ? theme.bad : theme.wire;
    lines.f[word + 9] = isDown ? 9 : 0;
  }

  /** What waits at each end: beside the wire, from the node on. */
  #bars(lines: Batch, theme: Theme, classes: PacketClass[]): void {
    const ends = new Set([...this.#queues.keys(), ...this.#counters.keys()]);
    for (const end of ends) {
      const line = this.graph.lineOf[end] ?? -1;
      const waiting = this.#counters.get(end)?.queue ?? 0;
      const runs: Queue['runs'] = this.#queues.get(end)?.runs ?? [[-1, waiting]];
      const total = runs.reduce((sum, [, count]) => sum + count, 0);
      if (line < 0 || !total || this.graph.lines[line]!.links.length > 1) continue;
      const length = Math.min(total / FULL, 1) * BAR;
      let from = 0;
      for (const [kind, count] of runs) {
        const word = push(lines, this.ends, 4 * end);
        if (this.streams.has(end)) this.#way(end, lines.f, word);
        lines.f[word + 4] = from;
        lines.f[word + 5] = Math.max((count / total) * length, 0.5);
        lines.f[word + 6] = 13;
        lines.f[word + 7] = 8;
        lines.u[word + 8] = parseColour(classes[kind]?.colour ?? '') ?? theme.faint;
        from += (count / total) * length;
      }
    }
  }

  /** The numbers on the wires that are seen: none from afar. */
  numbers(view: View, theme: Theme, isStill: boolean): Label[] {
    const labels: Label[] = [];
    if (view.scale <= NUMBERS) return labels;
    const [left, top] = toWorld(view, 0, 0);
    const [right, bottom] = toWorld(view, view.width, view.height);
    for (const { end, packets, dropped } of this.#counters.values()) {
      const line = this.graph.lineOf[end] ?? -1;
      if (line < 0 || (!packets && !dropped)) continue;
      const turn = this.graph.isBack[end] ? 2 : 0;
      const [x, y] = [this.places[4 * line + turn]!, this.places[4 * line + 1 + turn]!];
      const [toX, toY] = [this.places[4 * line + (2 ^ turn)]!, this.places[4 * line + (3 ^ turn)]!];
      // A little nearer to the machine that sends.
      const [atX, atY] = [x + 0.3 * (toX - x), y + 0.3 * (toY - y)];
      if (atX < left || atX > right || atY < top || atY > bottom) continue;
      const angle = Math.atan2(toY - y, toX - x);
      // An arrow where nothing moves: it says which way.
      const arrow = isStill ? '→↘↓↙←↖↑↗'[(Math.round(angle / (Math.PI / 4)) + 8) % 8] : '';
      labels.push({
        x: atX,
        y: atY,
        dx: -Math.sin(angle) * 14,
        dy: Math.cos(angle) * 14,
        below: 0,
        text: `${arrow}${short(packets)}/s${dropped ? ` ✕${short(dropped)}` : ''}`,
        colour: dropped ? theme.bad : theme.faint,
        priority: Math.log10(1 + packets) + (dropped ? 100 : 0),
      });
    }
    return labels.sort((a, b) => b.priority - a.priority);
  }

  /** Where an end's packets go along, also if they are drawn as a stream: x, y, x, y. */
  #way(end: number, into: Float32Array, at: number): void {
    const line = this.graph.lineOf[end]!;
    const turn = this.graph.isBack[end] ? 2 : 0;
    for (let word = 0; word < 4; word++) into[at + word] = this.places[4 * line + (word ^ turn)]!;
  }

  #node(point: number, shapes: Batch, labels: Drawing['labels'], theme: Theme): void {
    const { machines, hubs, members } = this.graph;
    const name = this.nameOf(point);
    const group = point - machines - hubs.length;
    const kind: Kind = point < machines ? this.topology.machines[point]!.kind : 'bus';
    const states = (group >= 0 ? members[group]! : point < machines ? [point] : []).map(
      (machine) => this.topology.machines[machine]!.state,
    );
    const isSelected = this.selected.has(name);
    const isDead = states.includes('dead');
    const isRunning = states.every((state) => state === 'running' || state === 'up');
    const [shape, width, height] = group >= 0 ? [BOX, 1.7, 1.4] : SHAPES[kind];
    const [x, y] = [this.points[2 * point]!, this.points[2 * point + 1]!];
    const at = shapes.push();
    shapes.f[at] = x;
    shapes.f[at + 1] = y;
    shapes.f[at + 2] = width;
    shapes.f[at + 3] = height;
    shapes.u[at + 4] = isDead ? theme.bad : group >= 0 ? theme.faint : theme.kinds[kind];
    shapes.u[at + 5] = isSelected ? theme.accent : theme.ground;
    const flags = (isDead ? CROSSED : 0) | (isDead || isRunning ? 0 : HOLLOW);
    shapes.u[at + 6] = look(shape, isSelected ? 4 : 2, flags);
    const text = group >= 0 ? `${name.slice('group:'.length)} · ${members[group]!.length}` : name.replace(/^wire:/, '');
    const priority = (isSelected ? 1e9 : group >= 0 ? 6e8 : isDead ? 4e8 : 1e3) + this.#degrees[point]! * 10;
    labels.push({ x, y, dx: 0, dy: 10, below: height, text, colour: isSelected ? theme.accent : theme.text, priority });
  }

  /** Adds streams: lines with moving dashes. */
  addStreams(into: Batch, counts: Uint16Array, kinds: Map<number, number>, classes: PacketClass[], theme: Theme): void {
    for (const end of this.streams) {
      if ((this.graph.lineOf[end] ?? -1) < 0) continue;
      const word = push(into, this.ends, 4 * end);
      this.#way(end, into.f, word);
      into.f[word + 6] = 3;
      into.f[word + 7] = 3.5;
      into.u[word + 8] = parseColour(classes[kinds.get(end) ?? -1]?.colour ?? '') ?? theme.faint;
      // The more, the denser.
      into.f[word + 9] = Math.max(30 - 4 * Math.log2(counts[end]! / 16), 6);
      into.f[word + 10] = 60;
    }
  }
}

/** Adds a plain line between two points of the world. */
export function addLine(
  into: Batch,
  from: [number, number],
  to: [number, number],
  width: number,
  colour: number,
): void {
  const word = push(into, Float32Array.of(...from, ...to), 0);
  into.f[word + 7] = width;
  into.u[word + 8] = colour;
}

/** One more line along x, y, x, y of `from`, from node to node. */
function push(lines: Batch, from: Float32Array, at: number): number {
  const word = lines.push();
  for (let coordinate = 0; coordinate < 4; coordinate++) lines.f[word + coordinate] = from[at + coordinate]!;
  lines.f[word + 4] = 0;
  lines.f[word + 5] = 0;
  lines.f[word + 6] = 0;
  lines.f[word + 7] = 1;
  lines.u[word + 8] = 0;
  lines.f[word + 9] = 0;
  lines.f[word + 10] = 0;
  return word;
}
