// In place of canvas/layout.ts where nothing is laid out.
import type { Running } from '../canvas/layout.ts';

export function layout(): Running {
  return { done: Promise.resolve(), cancel: () => {} };
}
