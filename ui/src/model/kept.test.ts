import { expect, test } from 'vitest';
import { KeptNumbers, KeptTopologies } from './kept.ts';

const numbers = (packetRate: number) => ({ packetRate, bitRate: 0, lossRate: 0, queued: 0 });

test('numbers_hold_until_others_are_told', () => {
  const kept = new KeptNumbers(4);
  kept.add(10, 'a:eth0', numbers(1));
  kept.add(20, 'b:eth0', numbers(2));
  kept.add(30, 'a:eth0', numbers(3));
  const rates = (at: number) => [...kept.at(at)].map(([end, { packetRate }]) => `${end} ${packetRate}`);
  expect(rates(9)).toEqual([]);
  expect(rates(29)).toEqual(['a:eth0 1', 'b:eth0 2']);
  expect(rates(30)).toEqual(['a:eth0 3', 'b:eth0 2']);
  // The oldest is overwritten.
  kept.add(40, 'c:eth0', numbers(4));
  kept.add(50, 'c:eth0', numbers(5));
  expect(rates(29)).toEqual(['b:eth0 2']);
  expect(rates(50)).toEqual(['a:eth0 3', 'b:eth0 2', 'c:eth0 5']);
});

test('topologies_are_kept_until_there_are_too_many_parts', () => {
  const of = (count: number) => ({
    machines: Array.from({ length: count }, (_, at) => ({ name: `m${at}`, kind: 'machine' as const, state: '' })),
    wires: [],
  });
  const kept = new KeptTopologies();
  expect(kept.at(5)).toBeUndefined();
  kept.add(10, of(1));
  kept.add(20, of(2));
  const count = (at: number) => kept.at(at)!.machines.length;
  expect([5, 10, 19, 20, 99].map(count)).toEqual([1, 1, 1, 2, 2]);
  kept.add(30, of(199_998));
  expect([5, 20, 30].map(count)).toEqual([2, 2, 199_998]);
});
