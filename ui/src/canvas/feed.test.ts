import { expect, test } from 'vitest';
import { encode, flight, header, HEADER_BYTES, records, WORDS } from './feed.ts';

const one = { end: 7, sent: 4_000_000_001, lasts: 0xffffffff, id: 0xdeadbeef, length: 1514, class: 3, fate: 2, aux: 9 };

test('a_frame_is_read_as_it_was_written', () => {
  const frame = encode({ seq: 5, base: 2n ** 60n + 1n, missed: 8, oneIn: 4 }, [one, { ...one, end: 8 }]);
  expect(frame.byteLength).toBe(HEADER_BYTES + 2 * 24);
  expect(header(frame)).toEqual({ kind: 0, flags: 0, count: 2, seq: 5, base: 2n ** 60n + 1n, missed: 8, oneIn: 4 });
  expect(flight(records(frame), 0)).toEqual(one);
  expect(flight(records(frame), 1).end).toBe(8);
});

test('a_frame_that_is_cut_off_has_the_records_that_are_whole', () => {
  const frame = encode({}, [one, one]);
  expect(records(frame.slice(0, frame.byteLength - 4)).length).toBe(WORDS);
  expect(() => header(frame.slice(0, 10))).toThrow(RangeError);
});
