// The small parts: clock, camera, labels, numbers, density, places of flights, distances.
import { expect, test } from 'vitest';
import { fitting, toScreen, toWorld, zoomed } from './camera.ts';
import { Clock } from './clock.ts';
import { count, dense } from './density.ts';
import { encode, records } from './feed.ts';
import { place, Places, ways } from './flights.ts';
import { chosen } from './labels.ts';
import { short } from './numbers.ts';
import { distance } from './pick.ts';
import { Ring } from './ring.ts';
import { parseColour } from './theme.ts';
import { Batch } from './batch.ts';

const view = { x: 10, y: -20, scale: 0.5, width: 800, height: 600 };

test('the_clock_runs_at_its_rate_and_small_corrections_never_go_back', () => {
  const clock = new Clock();
  clock.set(10_000_000n, 0.5, 100);
  expect(clock.at(102)).toBe(11_000_000n);
  clock.set(10_000_000n, 0.5, 102);
  let before = clock.at(102);
  expect(before).toBe(11_000_000n);
  for (let host = 103; host < 700; host += 10) {
    expect(clock.at(host) >= before).toBe(true);
    before = clock.at(host);
  }
  expect(clock.at(702)).toBe(310_000_000n);
});

test('a_clock_that_stands_still_or_is_far_off_is_set_at_once', () => {
  const clock = new Clock();
  clock.set(5_000_000_000n, 1, 0);
  clock.set(1_000_000_000n, 1, 10);
  expect(clock.at(10)).toBe(1_000_000_000n);
  clock.set(999n, 0, 20);
  expect(clock.at(5000)).toBe(999n);
});

test('places_go_to_the_canvas_and_back_and_zooming_holds_what_is_below_the_pointer', () => {
  expect(toWorld(view, ...toScreen(view, 33, 44))).toEqual([33, 44]);
  const before = toWorld(view, 100, 500);
  const after = toWorld({ ...view, ...zoomed(view, 100, 500, 3) }, 100, 500);
  expect(after[0]).toBeCloseTo(before[0]);
  expect(after[1]).toBeCloseTo(before[1]);
  const camera = fitting({ left: -1000, right: 1000, top: 0, bottom: 10 }, 800, 600);
  expect(toScreen({ ...view, ...camera }, -1000, 0)[0]).toBeGreaterThan(0);
});

test('labels_do_not_cover_each_other_the_important_ones_come_first_and_there_is_an_end', () => {
  const label = (x: number, priority: number) => ({
    x,
    y: 0,
    dx: 0,
    dy: 0,
    below: 0,
    text: 'router1',
    colour: 0,
    priority,
  });
  const all = [label(0, 9), label(10, 8), label(300, 7), label(99999, 6)];
  expect(chosen(all, view).map(({ priority }) => priority)).toEqual([9, 7]);
  expect(chosen(all, view, 1).length).toBe(1);
});

test('numbers_have_three_digits', () => {
  const texts = [0, 7, 999, 999.7, 1234, 56_789, 999_600, 2.345e6, 1e10].map(short);
  expect(texts).toEqual(['0', '7', '999', '1.00k', '1.23k', '56.8k', '1.00M', '2.35M', '10.0G']);
});

test('flights_are_counted_placed_and_thinned_out_the_same_way_along_their_whole_way', () => {
  const ring = new Ring(4096);
  const flights = Array.from({ length: 1000 }, (_, id) => ({
    end: id % 2,
    sent: 0,
    lasts: 1_000_000,
    id: Math.imul(id, 2654435761) >>> 0,
    length: 64,
    class: 0,
    fate: 0,
    aux: 0,
  }));
  ring.add(0n, records(encode({}, flights)));
  const moving = (now: bigint) => ({
    now,
    runs: ring.live(now),
    flights: 1000,
    least: 0,
    lost: 0,
    lines: new Batch(1),
    phase: 0,
    follow: null,
  });
  expect(count(ring.words, ring.live(5n), 5n, 0, 2)).toEqual({ flights: 1000, counts: Uint16Array.of(500, 500) });
  expect([...dense(Uint16Array.of(31, 25, 25, 19), new Set([1, 3]))]).toEqual([0, 1]);
  // The second end is nowhere: it is drawn as a stream.
  const along = new Float32Array(8);
  ways(Float32Array.of(10, -20, 410, -20, 1e9, 1e9, 1e9, 1e9), view, along);
  const seen = (now: bigint, oneIn: number) => {
    const found = new Places();
    place(ring.words, along, moving(now), oneIn, found);
    return new Map([...found.word.subarray(0, found.count)].map((word, at) => [word, found.x[at]!]));
  };
  expect(seen(0n, 1).size).toBe(500);
  const [early, late] = [seen(100_000_000n, 5), seen(900_000_000n, 5)];
  expect([...early.keys()]).toEqual([...late.keys()]);
  expect(early.size).toBeGreaterThan(50);
  expect(early.size).toBeLessThan(200);
  const word = [...early.keys()][0]!;
  // From rim to rim of nodes of 7.5 pixels, at 400 and 600.
  expect(early.get(word)).toBeCloseTo(407.5 + 0.1 * 185, 1);
  expect(late.get(word)).toBeCloseTo(407.5 + 0.9 * 185, 1);
});

test('the_pointer_is_as_far_from_a_line_as_from_its_nearest_point', () => {
  expect(distance(5, 3, 0, 0, 10, 0)).toEqual([3, 0.5]);
  expect(distance(13, 4, 0, 0, 10, 0)).toEqual([5, 1]);
  expect(distance(3, 4, 0, 0, 0, 0)).toEqual([5, 0]);
});

test('colours_are_words_of_bytes_red_first', () => {
  expect(parseColour('#0072b2')).toBe(0xffb27200);
  expect(parseColour(' #fff ')).toBe(0xffffffff);
  expect(parseColour('red')).toBe(null);
});
