// What the parts of a lab's views hold. Other clients write them, too: whatever is not as it must be is left out.

export type Point = [x: number, y: number];

/** Something on the whiteboard, in the world's units; beside a machine, if `at` is one, so that it moves along. */
export interface Item {
  id: string;
  kind: 'pen' | 'arrow' | 'text';
  at: string;
  points: Point[];
  text: string;
  colour: number;
  by: string;
}

export interface Task {
  id: string;
  text: string;
  order: number;
  /** Users who have done it. */
  done: string[];
}

/** What is seen: the middle, pixels per unit, and the canvas's size. */
export type Seen = [x: number, y: number, scale: number, width: number, height: number];

/** A view that a user has saved. */
export interface Saved {
  name: string;
  camera: Seen;
  selected: string;
  panel: string;
  /** What the explorer searches for. */
  search: string;
  by: string;
}

/** Where another user is. */
export interface Person {
  client: number;
  name: string;
  role: string;
  colour: string;
  isSelf: boolean;
  hand: boolean;
  presents: boolean;
  pointer: Point | null;
  selected: string;
  panel: string;
  /** What is being drawn on the whiteboard. */
  drawing: Item | null;
  camera: Seen | null;
  /** The time that is shown, ns, and how fast it goes; null: now. */
  at: number | null;
  pace: number;
}

/** Okabe's and Ito's, dark enough on white and bright enough on black; a name is always beside them. */
export const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#56b4e9', '#e69f00'];
/** A stroke has no more points, a text no more letters. */
const MOST_POINTS = 4000;
const MOST_LETTERS = 2000;
/** Letters of a saved view's name. */
export const MOST_NAME = 64;
/** A stroke that is not finished is told with no more points: presence is small. */
const MOST_LIVE_POINTS = 120;
/** Places are not farther away from the middle, so that they can be drawn. */
const FARTHEST = 1e7;

const isNumber = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < FARTHEST;
const isTime = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const text = (value: unknown, most = 200): string => (typeof value === 'string' ? value.slice(0, most) : '');

export function point(value: unknown): Point | null {
  return Array.isArray(value) && value.length === 2 && value.every(isNumber) ? (value as Point) : null;
}

export function item(id: string, value: unknown): Item | null {
  if (!isObject(value)) return null;
  const { kind, points: flat } = value;
  if (kind !== 'pen' && kind !== 'arrow' && kind !== 'text') return null;
  if (!Array.isArray(flat) || flat.length < 2 || flat.length % 2 || flat.length > 2 * MOST_POINTS) return null;
  if (!flat.every(isNumber)) return null;
  const points = Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]] as Point);
  if (kind === 'arrow' && points.length !== 2) return null;
  const colour = isNumber(value.colour) ? Math.abs(Math.trunc(value.colour)) % COLOURS.length : 0;
  return { id, kind, at: text(value.at), points, text: text(value.text, MOST_LETTERS), colour, by: text(value.by) };
}

/** How an item is kept. */
export function kept({ kind, at, points, text, colour, by }: Omit<Item, 'id'>): Record<string, unknown> {
  const round = (value: number) => Math.round(value * 10) / 10;
  return { kind, at, points: points.slice(0, MOST_POINTS).flat().map(round), text, colour, by };
}

/** How an item is told while it is drawn: of a long stroke every so many points, and the last. */
export function live(what: Omit<Item, 'id'>): Record<string, unknown> {
  const every = Math.ceil(what.points.length / MOST_LIVE_POINTS);
  const points = what.points.filter((_, at) => at % every === 0 || at === what.points.length - 1);
  return kept({ ...what, points });
}

/** Groups that users have made: machines with the group of each; an empty one: none, whatever its name says. */
export function groups(entries: Iterable<[string, unknown]>): Map<string, string> {
  return new Map([...entries].flatMap(([name, value]) => (typeof value === 'string' ? [[name, text(value, 64)]] : [])));
}

/** Tasks in their order. Keys are those of tasks, and `ID/NAME` for each user who has done one. */
export function tasks(entries: Iterable<[string, unknown]>): Task[] {
  const found = new Map<string, Task>();
  const done: [string, string][] = [];
  for (const [key, value] of entries) {
    const at = key.indexOf('/');
    if (at >= 0) {
      if (value === true) done.push([key.slice(0, at), key.slice(at + 1)]);
    } else if (isObject(value)) {
      const order = isNumber(value.order) ? value.order : 0;
      found.set(key, { id: key, text: text(value.text, MOST_LETTERS), order, done: [] });
    }
  }
  for (const [id, name] of done) found.get(id)?.done.push(name);
  for (const task of found.values()) task.done.sort();
  return [...found.values()].sort((a, b) => a.order - b.order || (a.id < b.id ? -1 : 1));
}

function seen(value: unknown): Seen | null {
  const is = Array.isArray(value) && value.length === 5 && value.every(isNumber) && (value as number[])[2]! > 0;
  return is ? (value as unknown as Seen) : null;
}

export function saved(name: string, value: unknown): Saved | null {
  const camera = isObject(value) ? seen(value.camera) : null;
  if (!isObject(value) || !camera || !name || name.length > MOST_NAME) return null;
  const { selected, panel, search, by } = value;
  return {
    name,
    camera,
    selected: text(selected),
    panel: text(panel, 40),
    search: text(search, MOST_LETTERS),
    by: text(by),
  };
}

export function person(client: number, self: number, state: unknown): Person | null {
  if (!isObject(state)) return null;
  return {
    client,
    name: text(state.name, 64) || '?',
    role: text(state.role, 20),
    colour: COLOURS[client % COLOURS.length]!,
    isSelf: client === self,
    hand: state.hand === true,
    presents: state.presents === true,
    pointer: point(state.pointer),
    selected: text(state.selected),
    panel: text(state.panel, 40),
    drawing: item(String(client), state.drawing),
    camera: seen(state.camera),
    at: isTime(state.at) ? state.at : null,
    pace: isNumber(state.pace) && state.pace > 0 ? state.pace : 0,
  };
}

/** A change of a text as one place, letters that go and letters that come, so that others' typing elsewhere stays. */
export function edit(before: string, after: string): { at: number; gone: number; come: string } {
  let at = 0;
  while (at < before.length && at < after.length && before[at] === after[at]) at++;
  // Never between the halves of one letter.
  if (/[\ud800-\udbff]$/.test(before.slice(0, at))) at--;
  let end = 0;
  while (
    end < before.length - at &&
    end < after.length - at &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  )
    end++;
  if (/^[\udc00-\udfff]/.test(before.slice(before.length - end))) end--;
  return { at, gone: before.length - at - end, come: after.slice(at, after.length - end) };
}

/** Whether a point is nearer than `far` to a line through these. */
export function isNear(points: Point[], [x, y]: Point, far: number): boolean {
  if (points.length === 1) return Math.hypot(points[0]![0] - x, points[0]![1] - y) < far;
  return points.slice(1).some(([bx, by], place) => {
    const [ax, ay] = points[place]!;
    const square = (bx - ax) ** 2 + (by - ay) ** 2;
    const along = square ? Math.min(Math.max(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / square, 0), 1) : 0;
    return Math.hypot(ax + along * (bx - ax) - x, ay + along * (by - ay) - y) < far;
  });
}
