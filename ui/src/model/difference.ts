// How two specs of a lab differ, by object: machines, switches, wires, breakpoints and the like by name. Undo gives these
// objects back what they were, and touches no other.
import type { Lab } from '../api/types.ts';

const TABLES = ['machines', 'switches', 'wires', 'breakpoints', 'pods', 'paths', 'series'] as const;
type Table = (typeof TABLES)[number];

export interface Changed {
  table: Table;
  name: string;
  before: unknown;
  after: unknown;
}

export type Difference = Changed[];

export function difference(before: Lab, after: Lab): Difference {
  const changed: Difference = [];
  for (const table of TABLES) {
    const [old, now] = [before[table] ?? {}, after[table] ?? {}] as Record<string, unknown>[];
    for (const name of new Set([...Object.keys(old!), ...Object.keys(now!)])) {
      if (JSON.stringify(old![name]) !== JSON.stringify(now![name])) {
        changed.push({ table, name, before: old![name], after: now![name] });
      }
    }
  }
  return changed;
}

/** `spec` with these objects as they were before, or after. */
export function revert(spec: Lab, changed: Difference, to: 'before' | 'after'): Lab {
  const result = structuredClone(spec) as Record<Table, Record<string, unknown> | undefined>;
  for (const { table, name, ...values } of changed) {
    const objects = (result[table] ??= {});
    if (values[to] === undefined) delete objects[name];
    else objects[name] = structuredClone(values[to]);
  }
  return result as Lab;
}
