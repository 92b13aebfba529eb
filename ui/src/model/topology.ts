// What the picture draws of a lab: its machines, switches, uplinks, and the wires between them.
import type { Lab, MachineSummary, Wire } from '../api/types.ts';
import type { End, Kind, Link, Node, Topology } from '../canvas/types.ts';

export type { Topology };

/** A name's beginning before its number: `leaf` of `leaf12`. */
export function prefix(name: string): string {
  return /^(.*?)-?\d+$/.exec(name)?.[1] ?? '';
}

/** What is written before the first colon is the machine: no name of one has any. */
export function split(end: string): [string, string] {
  const at = end.indexOf(':');
  return at < 0 ? [end, ''] : [end.slice(0, at), end.slice(at + 1)];
}

export function kindOf(spec: Lab, name: string): Kind {
  if (spec.switches?.[name]) return 'switch';
  return spec.machines?.[name]?.forward ? 'router' : 'machine';
}

/** For each machine the group that it is framed in, if it is in one. `made`: machines that users have put into a group, or
 * with an empty one into none. The others are grouped by their names. */
export function groups(names: string[], made: ReadonlyMap<string, string> = new Map()): { group?: string }[] {
  const sizes = new Map<string, number>();
  for (const name of names) sizes.set(prefix(name), (sizes.get(prefix(name)) ?? 0) + 1);
  // A group of few says nothing; one of all neither.
  const isGroup = (group: string) => group !== '' && sizes.get(group)! >= 8 && sizes.get(group)! < names.length;
  return names.map((name) => {
    const group = made.get(name) ?? (isGroup(prefix(name)) ? prefix(name) : '');
    return group ? { group } : {};
  });
}

export function topology(
  spec: Lab,
  machines: MachineSummary[],
  wires: Wire[],
  made?: ReadonlyMap<string, string>,
): Topology {
  const nodes: Node[] = [];
  const places = new Map<string, number>();
  const grouped = groups(
    machines.map(({ name }) => name),
    made,
  );
  for (const [at, { name, state }] of machines.entries()) {
    places.set(name, nodes.length);
    nodes.push({ name, kind: kindOf(spec, name), state, ...grouped[at]! });
  }
  const add = (name: string, kind: Kind, state: string) => {
    places.set(name, nodes.length);
    nodes.push({ name, kind, state });
    return nodes.length - 1;
  };
  const links: Link[] = [];
  let number = 0;
  for (const wire of wires) {
    const ends: End[] = [];
    for (const { end } of wire.ends) {
      const [machine, port] = split(end);
      if (end === 'outside')
        ends.push([add(`${wire.name}:outside`, 'uplink', wire['uplink-error'] ? 'dead' : 'running'), '', number]);
      else if (places.has(machine)) ends.push([places.get(machine)!, port, number]);
      number++;
    }
    const state = wire.up ? 'up' : 'down';
    links.push({ name: wire.name, ends, state });
  }
  return { machines: nodes, wires: links };
}

/** Interfaces at these wires. */
export function interfaces(wires: Wire[]): string[] {
  return wires.flatMap((wire) => wire.ends.map(({ end }) => end)).filter((end) => end !== 'outside');
}

/** Those of what is selected: `wire:NAME`, or a machine. */
export function interfacesOf(selected: string, wires: Wire[]): string[] {
  const wire = wires.find(({ name }) => `wire:${name}` === selected);
  return wire ? interfaces([wire]) : interfaces(wires).filter((end) => split(end)[0] === selected);
}

/** The node that a wire leads to from one, or null: a bus leads to its first other end. */
export function across(wire: Wire, from: string): string | null {
  for (const { end } of wire.ends) {
    const [machine] = split(end);
    if (machine !== from && end !== 'outside') return machine;
  }
  return null;
}
