import { expect, test } from 'vitest';
import { encode, records, type Flight } from './feed.ts';
import { counts, nextLoss } from './history.ts';
import { Ring } from './ring.ts';

const flight = (sent: number, more: Partial<Flight> = {}): Flight => ({
  end: 3,
  sent,
  lasts: 10,
  id: 0,
  length: 64,
  class: 1,
  fate: 0,
  aux: 0,
  ...more,
});

function ring(capacity: number, ...frames: [base: bigint, ...flights: Flight[]][]): Ring {
  const made = new Ring(capacity);
  for (const [base, ...flights] of frames) made.add(base, records(encode({}, flights)));
  return made;
}

test('what_departed_is_counted_by_its_time_and_class', () => {
  const kept = ring(
    16,
    [1_000_000n, flight(0), flight(500_000, { class: 2 })],
    [2_000_000n, flight(0), flight(999_999)],
  );
  const { width, classes, lost } = counts(kept, 1_000_000, 3_000_000, 2);
  expect(width).toBe(1_000_000);
  expect([...classes.get(1)!]).toEqual([1, 2]);
  expect([...classes.get(2)!]).toEqual([1, 0]);
  expect([...lost]).toEqual([0, 0]);
  // Of what is overwritten nothing is counted.
  const small = ring(2, [0n, flight(0), flight(1)], [2n, flight(0)]);
  expect([...counts(small, 0, 4, 4).classes.get(1)!]).toEqual([0, 1, 1, 0]);
});

test('losses_are_found_in_both_directions_at_the_time_of_the_loss', () => {
  // The one that departs first is lost last.
  const kept = ring(16, [1000n, flight(0, { fate: 1, lasts: 50 }), flight(5), flight(10, { fate: 2, end: 4 })]);
  const [first, last] = [11_009, 50_999];
  expect(nextLoss(kept, 0, false)).toEqual({ at: first, end: 4, length: 64, fate: 2 });
  expect(nextLoss(kept, first, false)?.at).toBe(last);
  expect(nextLoss(kept, last, false)).toBeNull();
  expect(nextLoss(kept, last + 1, true)?.at).toBe(last);
  expect(nextLoss(kept, last, true)?.at).toBe(first);
  expect(nextLoss(kept, first, true)).toBeNull();
  expect([...counts(kept, 0, 60_000, 6).lost]).toEqual([0, 1, 0, 0, 0, 1]);
});
