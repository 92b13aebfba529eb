// How fast numbers grow, of ends that are told of only when they have changed.
import { expect, test } from 'vitest';
import { Rates } from './numbers.ts';

const count = (sent: number) => ({ sent, bytes: 100 * sent, lost: 0, underWay: 0 });

test('an_end_grows_as_fast_as_its_counts_say', () => {
  const rates = new Rates();
  rates.count(0, 0, [
    ['a', count(1000)],
    ['b', count(0)],
  ]);
  // Nothing is known of the time before.
  expect(rates.all.get('a')).toMatchObject({ sent: 1000, packetRate: 0 });
  expect(rates.changed(0)).toEqual(['a', 'b']);
  rates.count(250, 250, [['a', count(1025)]]);
  expect(rates.all.get('a')).toMatchObject({ packetRate: 100, bitRate: 80_000 });
  // What was late was told of a longer time.
  rates.count(750, 1000, [['a', count(1125)]]);
  expect(rates.all.get('a')).toMatchObject({ packetRate: 200 });
  expect(rates.changed(1000)).toEqual(['a']);
  expect(rates.changed(1100)).toEqual([]);
  expect(rates.changed(2000)).toEqual(['a']);
  expect(rates.all.get('a')).toMatchObject({ sent: 1125, packetRate: 0, bitRate: 0 });
  // After a long rest all of it is of the last period.
  rates.count(9000, 9000, [['a', count(1150)]]);
  expect(rates.all.get('a')).toMatchObject({ packetRate: 100 });
});

test('a_keyframe_changes_nothing_that_stands_still', () => {
  const rates = new Rates();
  rates.count(0, 0, [['a', count(5)]]);
  rates.queue([['a', 3]]);
  rates.changed(0);
  rates.count(5000, 5000, [['a', count(5)]]);
  expect(rates.changed(5000)).toEqual([]);
  expect(rates.all.get('a')).toMatchObject({ sent: 5, queued: 3 });
  // An end whose wire was made anew begins at 0.
  rates.count(5250, 5250, [['a', { ...count(1), underWay: 1 }]]);
  expect(rates.all.get('a')).toMatchObject({ sent: 1, packetRate: 0 });
});
