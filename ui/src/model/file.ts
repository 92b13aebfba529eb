// A lab file's text: read and checked by the control process, which also expands `generate`. What it can't be asked is
// checked here as far as YAML goes, and its places of mistakes are found here.
import { transport } from '../api/transport.ts';
import type { Lab } from '../api/types.ts';

export interface Mistake {
  /** Counted from 1; 0: nowhere in particular. */
  line: number;
  column: number;
  message: string;
  /** What to do about it. */
  fix?: string;
  /** The lab can be used all the same. */
  warning?: boolean;
}

export interface Checked {
  /** None if it can't be read. */
  spec: Lab | null;
  mistakes: Mistake[];
}

export async function check(text: string, folder: string): Promise<Checked> {
  const answer = await transport.request('POST', '/v1/spec/check', { text, folder });
  if (answer.ok) {
    const checked = (await answer.json()) as Checked;
    return { spec: checked.spec ?? null, mistakes: checked.mistakes ?? [] };
  }
  return checkHere(text);
}

export async function checkHere(text: string): Promise<Checked> {
  const { LineCounter, parseDocument } = await import('yaml');
  const counter = new LineCounter();
  const document = parseDocument(text, { merge: true, lineCounter: counter });
  const mistakes = document.errors.map(({ message, pos }) => {
    const { line, col } = counter.linePos(pos[0]);
    return { line, column: col, message: message.split('\n')[0]!.replace(/ at line \d+, column \d+:?$/, '') };
  });
  if (mistakes.length) return { spec: null, mistakes };
  return { spec: (document.toJS() ?? {}) as Lab, mistakes };
}

/** Where in a text a JSON pointer leads: as far as there is something. */
export async function placeOf(text: string, pointer: string): Promise<{ line: number; column: number }> {
  const { LineCounter, isMap, isNode, parseDocument } = await import('yaml');
  const counter = new LineCounter();
  const document = parseDocument(text, { merge: true, lineCounter: counter });
  let node: unknown = document.contents;
  let at = 0;
  for (const word of pointer.split('/').slice(1)) {
    const key = word.replaceAll('~1', '/').replaceAll('~0', '~');
    if (!isMap(node)) break;
    const pair = node.items.find((item) => isNode(item.key) && String(item.key) === key);
    if (!pair) break;
    at = (isNode(pair.key) && pair.key.range?.[0]) || at;
    node = pair.value;
  }
  const { line, col } = counter.linePos(at);
  return { line, column: col };
}

export async function toYaml(value: unknown): Promise<string> {
  const { stringify } = await import('yaml');
  return stringify(value, { lineWidth: 100 });
}

/** The command lines that a lab's programs and set-up are. */
export function commands(spec: Lab): string[] {
  const lines: string[] = [];
  for (const [name, machine] of Object.entries(spec.machines ?? {})) {
    for (const line of machine?.setup ?? []) lines.push(`${name}: ${line}`);
    for (const program of Object.values(machine?.programs ?? {})) {
      const { command } = program;
      if (command) lines.push(`${name}: ${typeof command === 'string' ? command : command.join(' ')}`);
    }
  }
  for (const event of spec.events ?? []) lines.push(`at ${event.at}: ${event.do}`);
  return lines;
}

/** The environment of a new lab's programs: the page knows none of the user's. */
export function environment(folder: string): Record<string, string> {
  return {
    HOME: folder,
    LANG: 'C.UTF-8',
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  };
}
