import { expect, test } from 'vitest';
import type { ExploredRun } from '../api/types.ts';
import { arrows, changed, deviations, fateOf, rows } from './explored.ts';

test('a packet has one fate in a schedule', () => {
  expect(deviations('')).toEqual([]);
  const one = changed('', 'a:eth0', 1, 'drop');
  expect(one).toBe('a:eth0 1 drop');
  const two = changed(one, 'b:eth0', 12, 'late');
  expect(deviations(two)).toEqual(['a:eth0 1 drop', 'b:eth0 12 late']);
  expect(changed(two, 'a:eth0', 1, 'behind')).toBe('b:eth0 12 late,a:eth0 1 behind');
  // The same once more takes it away, and 1 is not 12.
  expect(changed(two, 'a:eth0', 1, 'drop')).toBe('b:eth0 12 late');
  expect(fateOf(two, 'b:eth0', 1)).toBeUndefined();
  expect(fateOf(two, 'b:eth0', 12)).toBe('late');
  // What was found names the time.
  expect(fateOf('a:eth0 1 delay=1500', 'a:eth0', 1)).toBe('late');
});

test('events, ends and what was broken are rows in the order of time', () => {
  const packet = { machine: 'a', text: 'TCP', end: 'a:eth0', packet: 0 };
  const run: ExploredRun = {
    schedule: [],
    nanoseconds: 50,
    more: 0,
    violation: { property: 'outcome', says: '', nanoseconds: 30, machine: 'a', what: 'gave up' },
    events: [
      { ...packet, nanoseconds: 10, kind: 'departure', number: 1 },
      { ...packet, nanoseconds: 10, kind: 'departure', number: 2, fate: 'is lost' },
      { ...packet, nanoseconds: 10, kind: 'loss', departure: 1 },
      { ...packet, nanoseconds: 20, kind: 'arrival', machine: 'b', departure: 0 },
      { nanoseconds: 40, kind: 'output', machine: 'b', text: 'hello', program: 'sink' },
    ],
    programs: [
      { machine: 'a', name: 'source', ended: { nanoseconds: 30, status: 1, error: 'timed out' } },
      { machine: 'b', name: 'sink', ended: null },
    ],
  };
  const all = rows(run);
  expect(all.map(({ nanoseconds, text }) => `${nanoseconds} ${text}`)).toEqual([
    '10 TCP',
    '10 TCP',
    '10 TCP',
    '20 TCP',
    '30 source ends with status 1: timed out',
    '30 outcome: gave up',
    '40 sink: hello',
  ]);
  expect(arrows(run, all)).toEqual([
    { from: 1, to: 2, isLost: true, isFault: true },
    { from: 0, to: 3, isLost: false, isFault: false },
  ]);
});
