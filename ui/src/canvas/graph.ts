// What of a topology is drawn: nodes, and lines between them.
//
// Points are the machines in their order, then a hub for each wire of more than two ends, then the groups. A collapsed
// group's point stands for its members; wires inside it are hidden, and those that lead out of it to the same point are one
// line, a bundle. Parallel wires between two machines are lines side by side.
import type { Topology } from './types.ts';

/** Distance of parallel wires, in the world's units. */
const APART = 9;

export interface Line {
  a: number;
  b: number;
  /** Which links (places in `Topology.wires`) it stands for: one, or a bundle. */
  links: number[];
  /** Ends that send from a to b, and from b to a. */
  forth: number[];
  back: number[];
  /** How far to the right of the way from a to b it is shifted, in the world's units. */
  side: number;
}

export interface Graph {
  machines: number;
  /** By hub: the link that it is in the middle of. */
  hubs: number[];
  groups: string[];
  /** By group: the machines in it. */
  members: number[][];
  /** By point: the point that is drawn for it, itself or a group. */
  shown: Int32Array;
  lines: Line[];
  /** By end: its line, -1 if it is hidden; and whether it sends from b to a. */
  lineOf: Int32Array;
  isBack: Uint8Array;
  /** By end: the machine that it belongs to, and its link. */
  machineOf: Int32Array;
  linkOf: Int32Array;
}

/** All ends of a link with their numbers. */
function* numbered(topology: Topology): Generator<[link: number, ends: { machine: number; end: number }[]]> {
  let next = 0;
  // Where some ends have numbers, one without is none of the feed's, such as a bus's own side of a link.
  const isGiven = topology.wires.some(({ ends }) => ends.some(([, , end]) => end !== undefined));
  for (const [link, { ends }] of topology.wires.entries()) {
    yield [link, ends.map(([machine, , end]) => ({ machine, end: end ?? (isGiven ? -1 : next++) }))];
  }
}

export function graph(topology: Topology, collapsed: ReadonlySet<string>): Graph {
  const { machines, wires } = topology;
  const groups = [...new Set(machines.flatMap(({ group }) => (group ? [group] : [])))];
  const places = new Map(groups.map((name, place) => [name, place]));
  const members: number[][] = groups.map(() => []);
  const hubs = wires.flatMap(({ ends }, link) => (ends.length > 2 ? [link] : []));
  const hubOf = new Map(hubs.map((link, place) => [link, machines.length + place]));
  const firstGroup = machines.length + hubs.length;
  const shown = new Int32Array(firstGroup + groups.length).map((_, point) => point);
  machines.forEach(({ group }, machine) => {
    if (!group) return;
    members[places.get(group)!]!.push(machine);
    if (collapsed.has(group)) shown[machine] = firstGroup + places.get(group)!;
  });

  const ends = [...numbered(topology)];
  const count = ends.reduce((most, [, of]) => of.reduce((more, { end }) => Math.max(more, end + 1), most), 0);
  const lines: Line[] = [];
  const lineOf = new Int32Array(count).fill(-1);
  const isBack = new Uint8Array(count);
  const machineOf = new Int32Array(count).fill(-1);
  const linkOf = new Int32Array(count).fill(-1);
  const between = new Map<number, number[]>();

  const connect = (link: number, from: { machine: number; end: number }, to: { machine: number; end: number }) => {
    const [a, b] = [shown[from.machine]!, shown[to.machine]!];
    if (a === b) return;
    const key = Math.min(a, b) * shown.length + Math.max(a, b);
    const beside = between.get(key) ?? [];
    between.set(key, beside);
    let line = beside[0] ?? -1;
    if (line < 0 || (a < firstGroup && b < firstGroup)) {
      line = lines.length;
      lines.push({ a, b, links: [], forth: [], back: [], side: 0 });
      beside.push(line);
    }
    const into = lines[line]!;
    into.links.push(link);
    const isTurned = into.a !== a;
    for (const [{ end }, turned] of [
      [from, isTurned],
      [to, !isTurned],
    ] as const) {
      if (end < 0) continue;
      (turned ? into.back : into.forth).push(end);
      lineOf[end] = line;
      isBack[end] = Number(turned);
    }
  };

  for (const [link, of] of ends) {
    for (const { machine, end } of of) {
      if (end < 0) continue;
      machineOf[end] = machine;
      linkOf[end] = link;
    }
    const hub = hubOf.get(link);
    if (hub !== undefined) {
      const points = new Set(of.map(({ machine }) => shown[machine]!));
      // A bus all of whose machines are in one collapsed group is in it, too.
      if (points.size === 1 && [...points][0]! >= firstGroup) shown[hub] = [...points][0]!;
      for (const end of of) connect(link, end, { machine: hub, end: -1 });
    } else if (of.length === 2) {
      connect(link, of[0]!, of[1]!);
    }
  }
  for (const beside of between.values()) {
    beside.forEach((line, place) => {
      const one = lines[line]!;
      const side = (place - (beside.length - 1) / 2) * APART;
      // The same side for lines that were named the other way round.
      one.side = one.a < one.b ? side : -side;
    });
  }
  return { machines: machines.length, hubs, groups, members, shown, lines, lineOf, isBack, machineOf, linkOf };
}

/** Sets the points of hubs and groups to the middle of what belongs to them; machines' are given. */
export function middle(topology: Topology, of: Graph, points: Float32Array): void {
  const set = (point: number, machines: number[]) => {
    let [x, y] = [0, 0];
    for (const machine of machines) {
      x += points[2 * machine]!;
      y += points[2 * machine + 1]!;
    }
    points[2 * point] = x / Math.max(machines.length, 1);
    points[2 * point + 1] = y / Math.max(machines.length, 1);
  };
  of.hubs.forEach((link, place) => {
    set(
      of.machines + place,
      topology.wires[link]!.ends.map(([machine]) => machine),
    );
  });
  of.members.forEach((machines, place) => set(of.machines + of.hubs.length + place, machines));
}

/** A line's two points in the world, shifted to its side: written to `into` at `at` as x, y, x, y. */
export function place(line: Line, points: Float32Array, into: Float32Array, at: number): void {
  const [ax, ay] = [points[2 * line.a]!, points[2 * line.a + 1]!];
  const [bx, by] = [points[2 * line.b]!, points[2 * line.b + 1]!];
  let [sx, sy] = [0, 0];
  if (line.side) {
    const length = Math.hypot(bx - ax, by - ay) || 1;
    sx = (-(by - ay) / length) * line.side;
    sy = ((bx - ax) / length) * line.side;
  }
  into[at] = ax + sx;
  into[at + 1] = ay + sy;
  into[at + 2] = bx + sx;
  into[at + 3] = by + sy;
}
