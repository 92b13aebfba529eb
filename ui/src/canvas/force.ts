// Places a topology's nodes by forces. The same names and wires give the same picture, in whatever order they are given:
// nodes begin at places made of their order by name, and nothing else is random.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from 'd3-force';
import type { SimulationLinkDatum, SimulationNodeDatum } from 'd3-force';
import { separate } from './separate.ts';

export interface Network {
  names: string[];
  /** Pairs of places in `names`. */
  pairs: [number, number][];
  /** Places in `names`, by group. */
  groups?: number[][];
}

const DISTANCE = 90;

/**
 * Positions x, y by node. `progress` gets them now and then while they are on their way.
 *
 * A big network is made smaller first, by putting each node together with a neighbour, again and again: the smallest is
 * placed, and each bigger one begins where the smaller one ended. Few steps suffice then, and nothing is folded.
 */
export function positions(network: Network, progress: (positions: Float32Array) => void = () => {}): Float32Array {
  const order = network.names.map((_, place) => place).sort((a, b) => (network.names[a]! < network.names[b]! ? -1 : 1));
  const rank = new Int32Array(order.length);
  order.forEach((place, at) => (rank[place] = at));
  const pairs = unique(network.pairs.map(([a, b]) => [rank[a]!, rank[b]!]));
  const back = (sorted: Float32Array) => {
    const result = new Float32Array(2 * order.length);
    order.forEach((place, at) => result.set(sorted.subarray(2 * at, 2 * at + 2), 2 * place));
    return result;
  };
  const placed = back(settle(order.length, pairs, (sorted) => progress(back(sorted))));
  separate(placed, network.groups ?? []);
  return placed;
}

function unique(pairs: [number, number][]): [number, number][] {
  const seen = new Map<string, [number, number]>();
  for (const [a, b] of pairs) {
    if (a !== b) seen.set(a < b ? `${a} ${b}` : `${b} ${a}`, a < b ? [a, b] : [b, a]);
  }
  return [...seen.values()].sort(([a, b], [c, d]) => a - c || b - d);
}

function settle(count: number, pairs: [number, number][], progress: (positions: Float32Array) => void): Float32Array {
  const smaller = count > 150 ? coarser(count, pairs) : null;
  let start: Float32Array;
  let steps = 300;
  if (smaller && smaller.count < 0.9 * count) {
    const few = settle(smaller.count, smaller.pairs, (coarse) => progress(spread(coarse, smaller.into, 1)));
    // More nodes need more room.
    start = spread(few, smaller.into, Math.sqrt(count / smaller.count));
    steps = count > 4000 ? 24 : count > 1000 ? 50 : 80;
  } else {
    start = spiral(count);
  }
  const bodies: SimulationNodeDatum[] = Array.from({ length: count }, (_, place) => ({
    name: String(place),
    x: start[2 * place]!,
    y: start[2 * place + 1]!,
  }));
  const links: SimulationLinkDatum<SimulationNodeDatum>[] = pairs.map(([source, target]) => ({ source, target }));
  const of = () => Float32Array.from(bodies.flatMap(({ x, y }) => [x!, y!]));
  const simulation = forceSimulation(bodies)
    .force('charge', forceManyBody().strength(-260).theta(1.1).distanceMax(2500))
    .force('link', forceLink(links).distance(DISTANCE))
    .force('x', forceX().strength(0.02))
    .force('y', forceY().strength(0.02))
    .alpha(smaller ? 0.5 : 1)
    .alphaDecay(1 - 0.001 ** (1 / steps))
    .stop();
  if (count <= 2000) simulation.force('collide', forceCollide(34));
  for (let step = 0; step < steps; step++) {
    simulation.tick();
    if (count > 300 && step % 8 === 7) progress(of());
  }
  return of();
}

/** Each node's place when it has the place of what it was put into, and those put together lie beside each other. */
function spread(positions: Float32Array, into: Int32Array, scale: number): Float32Array {
  const result = new Float32Array(2 * into.length);
  const before = new Map<number, number>();
  into.forEach((place, node) => {
    const nth = before.get(place) ?? 0;
    before.set(place, nth + 1);
    const [angle, far] = [nth * 2.4 + place, nth ? 12 * Math.sqrt(nth) : 0];
    result[2 * node] = positions[2 * place]! * scale + far * Math.cos(angle);
    result[2 * node + 1] = positions[2 * place + 1]! * scale + far * Math.sin(angle);
  });
  return result;
}

/** The seeds of a sunflower: no two at one place, and no direction better than another. */
function spiral(count: number): Float32Array {
  return Float32Array.from({ length: 2 * count }, (_, at) => {
    const place = at >> 1;
    const angle = place * Math.PI * (3 - Math.sqrt(5));
    return 50 * Math.sqrt(place + 0.5) * (at & 1 ? Math.sin(angle) : Math.cos(angle));
  });
}

/** Puts each node with one neighbour that has few others; leaves go to the only node they know. */
function coarser(
  count: number,
  pairs: [number, number][],
): { count: number; pairs: [number, number][]; into: Int32Array } {
  const beside: number[][] = Array.from({ length: count }, () => []);
  for (const [a, b] of pairs) {
    beside[a]!.push(b);
    beside[b]!.push(a);
  }
  const into = new Int32Array(count).fill(-1);
  let made = 0;
  const order = Array.from({ length: count }, (_, node) => node).sort(
    (a, b) => beside[a]!.length - beside[b]!.length || a - b,
  );
  for (const node of order) {
    if (into[node]! >= 0) continue;
    const known = beside[node]!;
    const free = known.filter((other) => into[other]! < 0);
    if (free.length) {
      const other = free.reduce((best, one) => (beside[one]!.length < beside[best]!.length ? one : best));
      into[node] = into[other] = made++;
    } else {
      // Whatever it is beside has been put somewhere: a leaf goes there, too.
      into[node] = known.length === 1 ? into[known[0]!]! : made++;
    }
  }
  return { count: made, pairs: unique(pairs.map(([a, b]) => [into[a]!, into[b]!])), into };
}
