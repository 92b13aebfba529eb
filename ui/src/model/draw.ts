// What drawing does to a lab's spec: machines, switches, and wires between them with addresses of a network of their own.
import type { Lab } from '../api/types.ts';

/** The first of `stem1`, `stem2` ... that is free. */
export function free(stem: string, taken: (name: string) => boolean): string {
  for (let number = 1; ; number++) if (!taken(`${stem}${number}`)) return `${stem}${number}`;
}

export function isTaken(spec: Lab): (name: string) => boolean {
  return (name) => Boolean(spec.machines?.[name] ?? spec.switches?.[name]);
}

function usedNetworks(spec: Lab): Set<string> {
  const used = new Set<string>();
  for (const machine of Object.values(spec.machines ?? {})) {
    for (const face of Object.values(machine?.interfaces ?? {})) {
      for (const address of face?.addresses ?? []) used.add(address.split('.').slice(0, 3).join('.'));
    }
  }
  return used;
}

function freeNetwork(spec: Lab): string {
  const used = usedNetworks(spec);
  for (let number = 0; number < 65536; number++) {
    const network = `10.${number >> 8}.${number & 255}`;
    if (!used.has(network)) return network;
  }
  return '10.0.0';
}

/** The network of a switch's machines and their last bytes. */
function networkAt(spec: Lab, name: string): { network: string; hosts: Set<number> } | null {
  let network: string | null = null;
  const hosts = new Set<number>();
  for (const machine of Object.values(spec.machines ?? {})) {
    for (const face of Object.values(machine?.interfaces ?? {})) {
      const at = face?.switch;
      if ((typeof at === 'string' ? at : at?.name) !== name) continue;
      for (const address of face?.addresses ?? []) {
        const parts = address.split('/')[0]!.split('.');
        if (parts.length !== 4) continue;
        network ??= parts.slice(0, 3).join('.');
        hosts.add(Number(parts[3]));
      }
    }
  }
  return network === null ? null : { network, hosts };
}

/** What a new wire was called, and the switch box's lines that make the same. */
export interface Wired {
  wire: string;
  lines: string[];
}

/** Joins two machines or switches in `spec`, which it changes, with addresses of IPv4 if these are wanted. */
export function join(spec: Lab, from: string, to: string, addressed: boolean): Wired {
  const isSwitch = (name: string) => Boolean(spec.switches?.[name]);
  const lines: string[] = [];
  if (isSwitch(from) !== isSwitch(to)) {
    const [machine, at] = isSwitch(from) ? [to, from] : [from, to];
    const faces = facesOf(spec, machine);
    const name = freeFace(faces);
    const known = networkAt(spec, at);
    const network = known?.network ?? freeNetwork(spec);
    let host = 1;
    while (known?.hosts.has(host)) host++;
    faces[name] = { switch: at, ...(addressed ? { addresses: [`${network}.${host}/24`] } : {}) };
    return { wire: `${at}.${machine}-${name}`, lines };
  }
  const wire = freeWire(spec, `${from}-${to}`);
  lines.push(`new wire ${wire}`);
  (spec.wires ??= {})[wire] = {};
  const network = freeNetwork(spec);
  [from, to].forEach((name, place) => {
    if (isSwitch(name)) {
      const ports = (spec.switches![name]!.ports ??= {});
      ports[free('p', (port) => Boolean(ports[port]))] = { wire };
      return;
    }
    const faces = facesOf(spec, name);
    const face = freeFace(faces);
    const address = `${network}.${place + 1}/24`;
    faces[face] = { wire, ...(addressed ? { addresses: [address] } : {}) };
    lines.push(`addif ${name} ${face}`, `wireup ${name} ${face} ${wire}`);
    if (addressed) lines.push(`connect ${name}`, `ifconfig ${face} ${address}`, 'exit');
  });
  return { wire, lines };
}

type Faces = NonNullable<NonNullable<NonNullable<Lab['machines']>[string]>['interfaces']>;

function facesOf(spec: Lab, machine: string): Faces {
  const made = (spec.machines ??= {})[machine] ?? {};
  spec.machines[machine] = made;
  return (made.interfaces ??= {});
}

function freeFace(faces: Faces): string {
  for (let number = 0; ; number++) if (!faces[`eth${number}`]) return `eth${number}`;
}

function freeWire(spec: Lab, wanted: string): string {
  const taken = new Set(Object.keys(spec.wires ?? {}));
  for (const machine of Object.values(spec.machines ?? {})) {
    for (const face of Object.values(machine?.interfaces ?? {})) if (face?.wire) taken.add(face.wire);
  }
  if (!taken.has(wanted)) return wanted;
  return free(`${wanted}-`, (name) => taken.has(name));
}

/** Takes machines, switches and wires (`wire:NAME`) out of `spec`, which it changes. */
export function remove(spec: Lab, names: string[]): void {
  const wires = new Set(names.filter((name) => name.startsWith('wire:')).map((name) => name.slice(5)));
  const nodes = new Set(names.filter((name) => !name.startsWith('wire:')));
  for (const name of nodes) {
    for (const face of Object.values(spec.machines?.[name]?.interfaces ?? {})) if (face?.wire) wires.add(face.wire);
    delete spec.machines?.[name];
    delete spec.switches?.[name];
  }
  for (const wire of wires) delete spec.wires?.[wire];
  for (const machine of Object.values(spec.machines ?? {})) {
    for (const [name, face] of Object.entries(machine?.interfaces ?? {})) {
      const at = typeof face?.switch === 'string' ? face.switch : face?.switch?.name;
      const isGone = (face?.wire && wires.has(face.wire)) || (at && (nodes.has(at) || wires.has(`${at}.${name}`)));
      if (isGone) delete machine!.interfaces![name];
    }
  }
  for (const made of Object.values(spec.switches ?? {})) {
    for (const [name, port] of Object.entries(made?.ports ?? {})) {
      if (port?.wire && wires.has(port.wire)) delete made!.ports![name];
    }
  }
}
