import { expect, test } from 'vitest';
import { Waiting } from './waiting.ts';

/** Records of an end: a packet of each of these classes. */
function records(end: number, kinds: number[], id = 0, fate = 0): Uint32Array {
  return new Uint32Array(kinds.flatMap((kind) => [end, 0, 0, id, (fate << 24) | (kind << 16) | 98, 0]));
}

test('a queue has the classes of as many packets as wait, which left last', () => {
  const waiting = new Waiting();
  waiting.queue(7, 4);
  expect(waiting.changed()).toEqual([[7, [[-1, 4]]]]);
  waiting.take(records(7, [1, 1, 2, 2, 2, 1]), 1);
  waiting.take(records(8, [5]), 1);
  expect(waiting.changed()).toEqual([
    [
      7,
      [
        [2, 3],
        [1, 1],
      ],
    ],
  ]);
  expect(waiting.changed()).toEqual([]);
  waiting.queue(7, 0);
  expect(waiting.changed()).toEqual([[7, []]]);
  waiting.queue(7, 3);
  expect(waiting.shares(7)).toEqual([[-1, 3]]);
});

test('of a share, packets beside it do not count', () => {
  const waiting = new Waiting();
  waiting.queue(1, 40);
  waiting.take(records(1, [3, 4]), 8);
  // Told although it is none of the eighth, and told before.
  waiting.take(records(1, [6, 6, 6], 2 ** 31), 8);
  waiting.take(records(1, [6, 6, 6], 0, 0x81), 8);
  expect(waiting.shares(1)).toEqual([
    [3, 20],
    [4, 20],
  ]);
  waiting.forget();
  expect(waiting.changed()).toEqual([[1, [[-1, 40]]]]);
});
