// A list of recorded runs as a tree: a branch stands below the run that it has left.
import type { RunSummary } from '../api/types.ts';

export interface Branch {
  run: RunSummary;
  /** How many runs are above it. */
  depth: number;
}

/** Newest first; branches of one run by the times at which they have left it. Each run is there once. */
export function branches(runs: RunSummary[]): Branch[] {
  const known = new Set(runs.map(({ id }) => id));
  const below = new Map<string | null, RunSummary[]>();
  for (const run of runs) {
    const parent = run.parent?.run;
    const above = parent && parent !== run.id && known.has(parent) ? parent : null;
    below.set(above, [...(below.get(above) ?? []), run]);
  }
  const listed = new Set<string>();
  const rows: Branch[] = [];
  const add = (run: RunSummary, depth: number) => {
    if (listed.has(run.id)) return;
    listed.add(run.id);
    rows.push({ run, depth });
    const own = below.get(run.id) ?? [];
    own.sort((one, other) => one.parent!.nanoseconds - other.parent!.nanoseconds);
    for (const branch of own) add(branch, depth + 1);
  };
  const first = [...(below.get(null) ?? [])].sort((one, other) => other.began - one.began);
  for (const run of first) add(run, 0);
  // Runs that name each other as parents are damage: they are listed all the same.
  for (const run of runs) add(run, 0);
  return rows;
}
