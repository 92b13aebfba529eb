// Classes of packets as the pages of a lab share them: what is in the document is what any user has put there.
import { transport } from '../api/transport.ts';
import type { Problem } from '../api/types.ts';
import { CLASSES } from '../canvas/theme.ts';
import { GLYPHS, type Glyph, type PacketClass } from '../canvas/types.ts';

/** As many as a feed has, and letters of a filter there. */
export const MOST_CLASSES = 32;
export const MOST_FILTER = 1000;
const MOST_NAME = 32;

/** A class with a filter, as it is edited. */
export interface Edited {
  name: string;
  colour: string;
  glyph: Glyph;
  filter: string;
}

/** The classes that the page has of its own: those with a filter. */
export const OWN: Edited[] = CLASSES.slice(1).map(({ name, colour, glyph, filter }) => ({
  name,
  colour,
  glyph,
  filter: filter ?? '',
}));

/** Classes of the document in the order of their keys; what is none is left out. */
export function classes(entries: Iterable<[string, unknown]>): Edited[] {
  const found: [string, Edited][] = [];
  for (const [key, value] of entries) {
    if (typeof value !== 'object' || value === null) continue;
    const { name, colour, glyph, filter } = value as Record<string, unknown>;
    if (typeof name !== 'string' || typeof filter !== 'string' || filter.length > MOST_FILTER) continue;
    if (typeof colour !== 'string' || !/^#[0-9a-f]{6}$/i.test(colour)) continue;
    if (!GLYPHS.includes(glyph as Glyph)) continue;
    found.push([key, { name: name.slice(0, MOST_NAME), colour, glyph: glyph as Glyph, filter }]);
  }
  const ordered = found.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  // Two of one name could not be told apart in lists.
  return ordered.filter(({ name }, at) => ordered.findIndex((one) => one.name === name) === at).slice(0, MOST_CLASSES);
}

/** How they are kept: by their places. */
export function kept(list: Edited[]): [string, Record<string, unknown>][] {
  return list
    .slice(0, MOST_CLASSES)
    .map((one, at) => [String(at).padStart(2, '0'), { ...one, name: one.name.trim().slice(0, MOST_NAME) }]);
}

/** All classes of a picture: what fits none of them is the first one. */
export function all(list: Edited[]): PacketClass[] {
  return [CLASSES[0]!, ...list];
}

/** What is wrong with filters, as the lab's feed says it: its `paths` name the class. */
export function check(lab: string, list: Edited[]): Promise<Problem | null> {
  const socket = transport.open(`/v1/labs/${encodeURIComponent(lab)}/feed`);
  const done = new Promise<Problem | null>((resolve, reject) => {
    socket.onopen = () =>
      socket.send(JSON.stringify({ subscribe: { classes: list.map(({ filter }) => filter), overview: { hz: 1 } } }));
    socket.onmessage = ({ data }) => {
      if (typeof data !== 'string') return;
      const told = JSON.parse(data) as 'subscribed' | { refused: Problem };
      resolve(told === 'subscribed' ? null : told.refused);
    };
    socket.onclose = () => reject(new Error('the lab has not said whether these filters are right'));
  });
  return done.finally(() => socket.close());
}
