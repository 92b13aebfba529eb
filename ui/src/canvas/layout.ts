// Has a worker place the nodes of a topology.
import type { Network } from './force.ts';
import { startLayout } from './start.ts';
import type { Answer } from './layout.worker.ts';
import type { Topology } from './types.ts';

export interface Running {
  /** Resolves when all is placed, or it was cancelled. */
  done: Promise<void>;
  cancel: () => void;
}

/** A wire of more than two ends pulls at them by a node of its own. */
export function network({ machines, wires }: Topology): Network {
  const names = machines.map(({ name }) => name);
  const pairs: [number, number][] = [];
  for (const { name, ends } of wires) {
    if (ends.length === 2) {
      pairs.push([ends[0]![0], ends[1]![0]]);
    } else if (ends.length > 2) {
      const hub = names.push(`wire:${name}`) - 1;
      for (const [machine] of ends) pairs.push([machine, hub]);
    }
  }
  const groups = new Map<string, number[]>();
  machines.forEach(({ group }, machine) => {
    if (group) {
      const members = groups.get(group) ?? [];
      members.push(machine);
      groups.set(group, members);
    }
  });
  return { names, pairs, groups: [...groups.values()] };
}

/** `told` gets positions of the machines, more than once. */
export function layout(topology: Topology, told: (positions: Float32Array) => void): Running {
  const worker = startLayout();
  let end = () => {};
  const done = new Promise<void>((resolve, reject) => {
    end = resolve;
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      told(data.positions.subarray(0, 2 * topology.machines.length));
      if (data.done) resolve();
    };
    worker.onerror = ({ message }) => reject(new Error(`the layout has failed: ${message}`));
  });
  worker.postMessage(network(topology));
  const cancel = () => {
    worker.terminate();
    end();
  };
  return { done: done.finally(() => worker.terminate()), cancel };
}
