// A run of an explored lab as rows, in the order of time: what happened, how programs have ended, what was broken.
import type { ExploredEvent, ExploredRun, ExploredViolation } from '../api/types.ts';

export interface Row {
  nanoseconds: number;
  machine: string;
  /** Something that happened; null: a program has ended, or a property was broken. */
  event: ExploredEvent | null;
  text: string;
  broken: ExploredViolation | null;
}

/** An arrow from a machine to another one: from a row to a row. A packet that was lost arrives nowhere. */
export interface Arrow {
  from: number;
  to: number;
  isLost: boolean;
  isFault: boolean;
}

/** What each fate of a packet is called where there is little room. */
export const FATES: Record<string, string> = { drop: 'lost', late: 'late', behind: 'behind', duplicate: 'twice' };

/** The deviations of a schedule. */
export function deviations(schedule: string): string[] {
  return schedule.split(',').filter((one) => one.trim());
}

/** The schedule in which a packet has this fate; if it has that already, the one in which it passes. */
export function changed(schedule: string, end: string, number: number, fate: string): string {
  const packet = `${end} ${number} `;
  const rest = deviations(schedule).filter((one) => !one.startsWith(packet));
  return (fateOf(schedule, end, number) === fate ? rest : [...rest, packet + fate]).join(',');
}

/** The fate that a schedule has for a packet. */
export function fateOf(schedule: string, end: string, number: number): string | undefined {
  const packet = `${end} ${number} `;
  const found = deviations(schedule).find((one) => one.startsWith(packet));
  return found?.slice(packet.length).replace(/^delay=.*/, 'late');
}

/** Rows, and for each of them the place of its event in the run; -1: it has none. */
export function rows(run: ExploredRun): Row[] {
  const all: Row[] = run.events.map((event) => ({
    nanoseconds: event.nanoseconds,
    machine: event.machine,
    event,
    text: event.program ? `${event.program}: ${event.text}` : event.text,
    broken: null,
  }));
  for (const { machine, name, ended } of run.programs) {
    if (!ended) continue;
    const why = ended.error ? `: ${ended.error}` : '';
    const text = `${name} ends with status ${ended.status}${why}`;
    all.push({ nanoseconds: ended.nanoseconds, machine, event: null, text, broken: null });
  }
  const { violation } = run;
  if (violation) {
    const { nanoseconds, machine, what, property } = violation;
    all.push({ nanoseconds, machine, event: null, text: `${property}: ${what}`, broken: violation });
  }
  // Of the same time, in the order in which they are here.
  return all.sort((one, other) => one.nanoseconds - other.nanoseconds);
}

/** Packets as arrows between rows. */
export function arrows(run: ExploredRun, all: Row[]): Arrow[] {
  const places = new Map(all.map(({ event }, row) => [event, row] as const));
  return all.flatMap(({ event }, to): Arrow[] => {
    if (!event || typeof event.departure !== 'number') return [];
    const departure = run.events[event.departure];
    const from = departure && places.get(departure);
    if (from === undefined) return [];
    return [{ from, to, isLost: event.kind === 'loss', isFault: Boolean(departure!.fate) }];
  });
}
