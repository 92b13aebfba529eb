import { expect, test } from 'vitest';
import { search, type Searched } from './search.ts';

const router: Searched = {
  name: 'r1',
  kind: 'router',
  state: 'running',
  addresses: ['10.1.2.3/24', 'fd00::1/64'],
  wires: ['r1-r2'],
};

test.each([
  ['', true],
  ['r1', true],
  ['R1', true],
  ['r2', false],
  ['kind:router', true],
  ['kind:machine', false],
  ['addr:10.0.0.0/8', true],
  ['addr:10.1.3.0/24', false],
  ['addr:fd00:', true],
  ['wire:r1-*', true],
  ['name:r', true],
  ['name:*2', false],
  ['-state:dead', true],
  ['-kind:router', false],
  ['kind:router -name:r1', false],
  ['10.1.2', true],
])('%#_words_of_a_search', (text, fits) => {
  expect(search(text)(router)).toBe(fits);
});
