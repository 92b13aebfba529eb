// What other clients write is looked at before it is shown; typing at once keeps both.
import { expect, test } from 'vitest';
import { edit, groups, isNear, item, kept, live, person, point, saved, tasks, type Item } from './parts.ts';

test('what_is_no_view_is_left_out', () => {
  for (const wrong of [null, 1, [1], [1, NaN], [1, 1e300], ['1', 2], [1, 2, 3]]) expect(point(wrong)).toBe(null);
  expect(point([1, -2.5])).toEqual([1, -2.5]);
  const good = { kind: 'pen', at: 'r1', points: [0, 0, 5, 5], text: '', colour: 1, by: 'ann' };
  expect(item('a', good)?.points).toEqual([
    [0, 0],
    [5, 5],
  ]);
  const wrong = [
    { ...good, kind: 'script' },
    { ...good, points: [1] },
    { ...good, points: [1, 'x'] },
    { ...good, points: 'abcd' },
    { ...good, kind: 'arrow', points: [1, 2] },
    { ...good, points: Array<number>(10_000).fill(1) },
    'pen',
  ];
  for (const one of wrong) expect(item('a', one)).toBe(null);
  expect(item('a', { ...good, at: {}, colour: -99.5, text: 'x'.repeat(9999) })).toMatchObject({ at: '', colour: 1 });
  const drawn = item('a', good)!;
  expect(item('a', kept(drawn))).toEqual(drawn);
  expect((kept({ ...drawn, points: [[1.23456, 2]] }) as { points: number[] }).points).toEqual([1.2, 2]);
});

test('what_is_no_saved_view_is_left_out', () => {
  const good = { camera: [1, 2, 0.5, 800, 600], selected: 'a', panel: 'plots', search: 'kind:router', by: 'ann' };
  expect(saved('north', good)).toEqual({ ...good, name: 'north' });
  expect(saved('north', { camera: good.camera, panel: 5 })).toMatchObject({ selected: '', panel: '', search: '' });
  for (const camera of [null, 'x', [1, 2, 3], [1, 2, 0, 800, 600], [1, NaN, 1, 800, 600]]) {
    expect(saved('north', { ...good, camera })).toBe(null);
  }
  for (const name of ['', 'x'.repeat(65)]) expect(saved(name, good)).toBe(null);
  expect(saved('north', [good])).toBe(null);
});

test('a_user_is_what_the_server_says', () => {
  expect(person(1, 2, null)).toBe(null);
  const anna = person(1, 1, { name: 'anna', role: 'own', pointer: [1, 2], camera: [0, 0, 1, 800, 600], hand: true });
  expect(anna).toMatchObject({ name: 'anna', isSelf: true, hand: true, presents: false, pointer: [1, 2] });
  expect(person(1, 2, { camera: [0, 0, -1, 8, 6], pointer: 'x', name: 5 })).toMatchObject({
    name: '?',
    camera: null,
    pointer: null,
  });
});

test('what_is_being_drawn_is_small_and_ends_where_the_pointer_is', () => {
  const points: Item['points'] = Array.from({ length: 3000 }, (_, at) => [-12345.67 - at, 98765.43 + at]);
  const told = live({ kind: 'pen', at: 'x'.repeat(200), points, text: '', colour: 6, by: 'x'.repeat(64) });
  // What the control process takes of one client.
  expect(JSON.stringify(told).length).toBeLessThan(3500);
  const seen = person(1, 2, { name: 'ann', drawing: told })!.drawing!;
  expect([seen.points[0], seen.points.at(-1)]).toEqual([
    [-12345.7, 98765.4],
    [-15344.7, 101764.4],
  ]);
  expect(person(1, 2, { drawing: { ...told, kind: 'script' } })!.drawing).toBe(null);
});

test('a_group_is_a_name', () => {
  const entries: [string, unknown][] = [
    ['a', 'left'],
    ['b', ''],
    ['c', 7],
    ['d', { evil: 1 }],
    ['e', 'x'.repeat(999)],
  ];
  expect([...groups(entries)]).toEqual([
    ['a', 'left'],
    ['b', ''],
    ['e', 'x'.repeat(64)],
  ]);
});

test('tasks_are_in_order_with_those_who_have_done_them', () => {
  const entries: [string, unknown][] = [
    ['b', { text: 'second', order: 2 }],
    ['a', { text: 'first', order: 1 }],
    ['a/zoe', true],
    ['a/an/a', true],
    ['gone/zoe', true],
    ['b/zoe', 'yes'],
    ['c', 7],
  ];
  expect(tasks(entries).map(({ text, done }) => [text, done])).toEqual([
    ['first', ['an/a', 'zoe']],
    ['second', []],
  ]);
});

test('a_change_of_a_text_is_one_place', () => {
  const applied = (before: string, after: string) => {
    const { at, gone, come } = edit(before, after);
    expect(before.slice(0, at) + come + before.slice(at + gone)).toBe(after);
    return [at, gone, come];
  };
  expect(applied('hello world', 'hello my world')).toEqual([6, 0, 'my ']);
  expect(applied('aaa', 'aa')).toEqual([2, 1, '']);
  expect(applied('', 'x')).toEqual([0, 0, 'x']);
  expect(applied('same', 'same')).toEqual([4, 0, '']);
  // Two letters that share half of what they are written as.
  expect(applied('a\u{1f600}b', 'a\u{1f601}b')).toEqual([1, 2, '\u{1f601}']);
  expect(applied('\u{1f600}', '\u{1fa00}')).toEqual([0, 2, '\u{1fa00}']);
});

test('a_stroke_is_found_where_it_is', () => {
  const line: Item['points'] = [
    [0, 0],
    [10, 0],
    [10, 10],
  ];
  expect(isNear(line, [5, 2], 3)).toBe(true);
  expect(isNear(line, [12, 5], 3)).toBe(true);
  expect(isNear(line, [5, 5], 3)).toBe(false);
  expect(isNear([[1, 1]], [2, 1], 3)).toBe(true);
});
