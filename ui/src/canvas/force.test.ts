import { expect, test } from 'vitest';
import { positions, type Network } from './force.ts';
import { separate } from './separate.ts';

function tree(count: number): Network {
  const names = Array.from({ length: count }, (_, place) => `m${place}`);
  return { names, pairs: names.slice(1).map((_, place) => [place + 1, Math.floor(place / 3)]) };
}

test('the_same_names_and_wires_give_the_same_picture_in_any_order', () => {
  for (const count of [40, 600]) {
    const { names, pairs } = tree(count);
    const placed = positions({ names, pairs });
    expect(positions({ names, pairs })).toEqual(placed);
    const turned = positions({
      names: [...names].reverse(),
      pairs: pairs.map(([a, b]): [number, number] => [count - 1 - b, count - 1 - a]).reverse(),
    });
    names.forEach((_, place) => {
      const other = count - 1 - place;
      expect([...turned.subarray(2 * other, 2 * other + 2)]).toEqual([...placed.subarray(2 * place, 2 * place + 2)]);
    });
  }
});

test('neighbours_are_near_and_no_two_nodes_at_one_place', () => {
  const network = tree(500);
  const at = positions(network);
  const far = (a: number, b: number) => Math.hypot(at[2 * a]! - at[2 * b]!, at[2 * a + 1]! - at[2 * b + 1]!);
  const wires = network.pairs.map(([a, b]) => far(a, b)).sort((a, b) => a - b);
  expect(wires[0]).toBeGreaterThan(20);
  expect(wires[Math.floor(wires.length / 2)]).toBeLessThan(200);
  expect(at.every(Number.isFinite)).toBe(true);
});

test('groups_that_cover_each_other_are_moved_apart_as_wholes', () => {
  const at = Float32Array.of(0, 0, 100, 100, 50, 40, 150, 140);
  separate(at, [
    [0, 1],
    [2, 3],
  ]);
  expect(at[2]! - at[0]!).toBe(100);
  const [apartX, apartY] = [at[4]! - at[2]!, at[5]! - at[3]!];
  expect(Math.max(apartX, apartY)).toBeGreaterThanOrEqual(99);
});

test('a_network_without_wires_or_without_nodes_is_placed', () => {
  expect(positions({ names: [], pairs: [] }).length).toBe(0);
  expect(positions({ names: ['a', 'b'], pairs: [] }).every(Number.isFinite)).toBe(true);
});
