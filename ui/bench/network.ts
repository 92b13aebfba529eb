// A made-up lab: sites of a hundred machines at ten routers each, a router above these, and a ring of the sites.
import type { Topology } from '../src/canvas/types.ts';

export function made(machines: number): Topology {
  const topology: Topology = { machines: [], wires: [] };
  const ports: number[] = [];
  const add = (name: string, kind: 'machine' | 'router', group: string): number => {
    topology.machines.push({ name, kind, group, state: 'running' });
    return ports.push(0) - 1;
  };
  const wire = (from: number, to: number) => {
    const port = (at: number) => `eth${ports[at]!++}`;
    topology.wires.push({
      name: `w${topology.wires.length}`,
      ends: [
        [from, port(from)],
        [to, port(to)],
      ],
      state: 'up',
    });
  };
  const cores: number[] = [];
  for (let site = 0; topology.machines.length < machines; site++) {
    const group = `site${site}`;
    const core = add(`core${site}`, 'router', group);
    cores.push(core);
    for (let rack = 0; rack < 9 && topology.machines.length < machines; rack++) {
      const router = add(`r${site}-${rack}`, 'router', group);
      wire(router, core);
      for (let leaf = 0; leaf < 10 && topology.machines.length < machines; leaf++) {
        wire(add(`m${site}-${rack}-${leaf}`, 'machine', group), router);
      }
    }
  }
  cores.forEach((core, place) => {
    if (cores.length > 2 || place === 1) wire(core, cores[(place + 1) % cores.length]!);
    if (place % 5 === 0 && cores.length > 20) wire(core, cores[(place + 37) % cores.length]!);
  });
  return topology;
}
