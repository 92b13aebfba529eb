import { expect, test } from 'vitest';
import type { Lab } from '../api/types.ts';
import { difference, revert } from './difference.ts';

const machine = (wire: string) => ({ interfaces: { eth0: { wire } } });

test('undo_gives_back_the_objects_of_a_change_and_no_others', () => {
  const before: Lab = { machines: { a: machine('w1') }, wires: { w1: { delay: '5ms' } } };
  const after: Lab = { machines: { a: machine('w1'), b: machine('w1') }, wires: { w1: { delay: '9ms' } } };
  const changed = difference(before, after);
  expect(changed.map(({ table, name }) => `${table} ${name}`)).toEqual(['machines b', 'wires w1']);
  // Meanwhile another user has made a machine.
  const now: Lab = { ...after, machines: { ...after.machines, c: machine('w2') } };
  expect(revert(now, changed, 'before')).toEqual({ ...before, machines: { a: machine('w1'), c: machine('w2') } });
  expect(revert(revert(now, changed, 'before'), changed, 'after')).toEqual(now);
});
