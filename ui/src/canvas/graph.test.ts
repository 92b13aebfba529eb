import { expect, test } from 'vitest';
import { graph, middle, place } from './graph.ts';
import type { End, Node, Topology } from './types.ts';

const node = (name: string, group?: string): Node => ({
  name,
  kind: 'machine',
  state: 'running',
  ...(group ? { group } : {}),
});
const wire = (name: string, ...ends: End[]) => ({ name, ends, state: 'up' });

/** Two sites of two machines, two wires between them, one inside, and two parallel ones to one outside. */
const sites: Topology = {
  machines: [node('a1', 'a'), node('a2', 'a'), node('b1', 'b'), node('b2', 'b'), node('out')],
  wires: [
    wire('inside', [0, 'eth0'], [1, 'eth0']),
    wire('first', [0, 'eth1'], [2, 'eth0']),
    wire('second', [3, 'eth0'], [1, 'eth1']),
    wire('up', [2, 'eth1'], [4, 'eth0']),
    wire('spare', [4, 'eth1'], [2, 'eth2']),
  ],
};

test('parallel_wires_lie_side_by_side_whichever_way_they_are_named', () => {
  const { lines } = graph(sites, new Set());
  expect(lines.length).toBe(5);
  const points = new Float32Array(2 * 7);
  points.set([0, 0, 100, 0], 2 * 2);
  points.set([200, 0], 2 * 4);
  const at = new Float32Array(8);
  place(lines[3]!, points, at, 0);
  place(lines[4]!, points, at, 4);
  expect(at[1]).toBeCloseTo(-at[5]!);
  expect(Math.abs(at[1]! - at[5]!)).toBeGreaterThan(5);
});

test('a_collapsed_group_hides_the_wires_inside_and_bundles_those_that_lead_out_to_one_place', () => {
  const shut = graph(sites, new Set(['a', 'b']));
  const [a, b] = [5, 6];
  expect([...shut.shown]).toEqual([a, a, b, b, 4, 5, 6]);
  const between = shut.lines.find((line) => line.a === a && line.b === b)!;
  expect(between.links).toEqual([1, 2]);
  // Ends are counted in the order of the wires: of `second`, the first is at b.
  expect([between.forth, between.back]).toEqual([
    [2, 5],
    [3, 4],
  ]);
  expect(shut.lineOf[0]).toBe(-1);
  expect(shut.lines.length).toBe(2);
  const points = new Float32Array(2 * shut.shown.length);
  points.set([0, 0, 10, 20], 0);
  middle(sites, shut, points);
  expect([...points.subarray(2 * a, 2 * a + 2)]).toEqual([5, 10]);
});

test('a_wire_of_three_ends_is_a_bus_in_the_middle_of_them', () => {
  const bus: Topology = {
    machines: [node('a'), node('b'), node('c')],
    wires: [wire('lan', [0, 'eth0'], [1, 'eth0'], [2, 'eth0'])],
  };
  const of = graph(bus, new Set());
  expect(of.hubs).toEqual([0]);
  expect(of.lines.map(({ a, b, forth, back }) => [a, b, forth, back])).toEqual([
    [0, 3, [0], []],
    [1, 3, [1], []],
    [2, 3, [2], []],
  ]);
  const points = Float32Array.of(0, 0, 30, 0, 0, 60, 0, 0);
  middle(bus, of, points);
  expect([...points.subarray(6)]).toEqual([10, 20]);
});

test('where_ends_have_numbers_one_without_has_none', () => {
  const of = graph({ machines: [node('a'), node('b')], wires: [wire('w', [0, 'eth0', 4], [1, ''])] }, new Set());
  expect([...of.lineOf]).toEqual([-1, -1, -1, -1, 0]);
  expect(of.lines[0]).toMatchObject({ forth: [4], back: [] });
});
