import { expect, test } from 'vitest';
import { encode, records, type Flight } from './feed.ts';
import { Ring } from './ring.ts';

const SECOND = 1_000_000_000;
const departing = (sent: number, lasts = 1000): Flight => ({
  end: 0,
  sent,
  lasts,
  id: 0,
  length: 64,
  class: 0,
  fate: 0,
  aux: 0,
});
const add = (ring: Ring, base: bigint, ...flights: Flight[]) => ring.add(base, records(encode({}, flights)));
/** Departures of the live flights, ns. */
const live = (ring: Ring, now: bigint, least = 0, lost = least) =>
  ring
    .live(now, least, lost)
    .flatMap(({ base, start, count }) =>
      Array.from({ length: count }, (_, nth) => base + BigInt(ring.words[6 * (start + nth) + 1]!)),
    );

test('frames_of_one_chunk_count_from_its_base_exactly', () => {
  const ring = new Ring(16);
  const base = 3_600_000_000_000_001n;
  add(ring, base, departing(5));
  add(ring, base + 3_999_999_000n, departing(7));
  expect(ring.chunks.length).toBe(1);
  expect(live(ring, base + 5n)).toContain(base + 5n);
  expect(live(ring, base + 3_999_999_007n)).toContain(base + 3_999_999_007n);
});

test('a_chunk_is_of_at_most_four_seconds_and_an_earlier_base_begins_another', () => {
  const ring = new Ring(16);
  add(ring, 0n, departing(0));
  add(ring, BigInt(3 * SECOND), departing(2 * SECOND));
  add(ring, BigInt(SECOND), departing(0));
  expect(ring.chunks.map(({ base }) => base)).toEqual([0n, BigInt(3 * SECOND), BigInt(SECOND)]);
});

test('only_what_is_under_way_is_live_or_is_shown_for_longer', () => {
  const ring = new Ring(16);
  add(ring, 0n, departing(1000, 10));
  expect(live(ring, 999n)).toEqual([]);
  expect(live(ring, 1000n)).toEqual([1000n]);
  expect(live(ring, 10_999n)).toEqual([1000n]);
  expect(live(ring, 20_000n)).toEqual([]);
  expect(live(ring, 20_000n, 250_000_000)).toEqual([1000n]);
});

test('the_newest_overwrite_the_oldest', () => {
  const ring = new Ring(4);
  for (let nth = 0; nth < 11; nth++) add(ring, BigInt(nth * 5 * SECOND), departing(0, 100 * 1_000_000));
  expect(ring.count).toBe(4);
  expect(live(ring, BigInt(50 * SECOND)).map(Number)).toEqual([7, 8, 9, 10].map((nth) => nth * 5 * SECOND));
  expect(ring.times()).toEqual([BigInt(35 * SECOND), BigInt(150 * SECOND)]);
});

test('a_frame_that_goes_over_the_end_of_the_ring_is_written_in_parts', () => {
  const ring = new Ring(5);
  const wrote: [number, number][] = [];
  const three = records(
    encode(
      {},
      [1, 2, 3].map((sent) => departing(sent)),
    ),
  );
  ring.add(0n, three, (...part) => wrote.push(part));
  ring.add(0n, three, (...part) => wrote.push(part));
  expect(wrote).toEqual([
    [0, 3],
    [3, 2],
    [0, 1],
  ]);
  expect(ring.count).toBe(5);
  expect(live(ring, 10n).map(Number).sort()).toEqual([1, 2, 2, 3, 3]);
});

test('a_lost_flight_is_shown_for_longer_than_others_and_so_is_one_that_is_lost_later', () => {
  const ring = new Ring(4096);
  // Each in a span of its own.
  for (let nth = 0; nth < 2; nth++) {
    const flights = Array.from({ length: 2048 }, () => ({ ...departing(nth), id: nth, fate: nth }));
    add(ring, 0n, ...flights);
  }
  const departures = (now: number) => new Set(live(ring, BigInt(now), 0, 600_000_000));
  expect(departures(500_000)).toEqual(new Set([0n, 1n]));
  expect(departures(500_000_000)).toEqual(new Set([1n]));
  expect(departures(700_000_000)).toEqual(new Set());
  ring.lose(0n, records(encode({}, [{ ...departing(0), fate: 1 }])));
  expect(departures(500_000_000)).toEqual(new Set([0n, 1n]));
});
