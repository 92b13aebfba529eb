import { expect, test, vi } from 'vitest';
import { CLASSES } from '../canvas/theme.ts';
import { all, classes, kept, OWN } from './classes.ts';

// Nothing is asked, and there is no browser here to keep a session.
vi.mock('../api/transport.ts', () => ({ transport: {} }));

test('classes come back as they were kept', () => {
  expect(classes(kept(OWN))).toEqual(OWN);
  expect(all(OWN)).toEqual(CLASSES);
});

test('what is no class is left out', () => {
  const good = { name: 'web', colour: '#ff0000', glyph: 'disc', filter: 'tcp port 80' };
  const entries: [string, unknown][] = [
    ['01', { ...good, name: 'second' }],
    ['00', good],
    ['02', { ...good, name: 'x', colour: 'url(evil)' }],
    ['03', { ...good, name: 'y', glyph: 'skull' }],
    ['04', { ...good, name: 'z', filter: 'a'.repeat(1001) }],
    ['05', { ...good, filter: 'another of this name' }],
    ['06', 'text'],
    ['07', null],
  ];
  expect(classes(entries).map(({ name }) => name)).toEqual(['web', 'second']);
});
