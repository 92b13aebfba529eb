// What several of the page's tests do with a lab: draw a ring of routers, have them find each other, let the clock go on, and
// compare where packets are drawn with where captures say that they are.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { nodeSize } from '../src/canvas/camera.ts';
import { ask, ROOT, stats, until } from './harness.ts';

/** How far from where the capture says it is a packet may be drawn, CSS pixels. */
const NEAR = 2;
export const ROUTERS = ['r1', 'r2', 'r3'];

export interface Spec {
  machines: Record<string, { interfaces: Record<string, { wire: string }>; programs?: object }>;
  wires?: Record<string, object>;
}

/** Draws a lab of three routers, each with a wire to the two others, from nothing: what it is as a lab file. */
export async function drawRing(page: Page, name: string, clock = 'real', folder = '/tmp'): Promise<Spec> {
  await page.getByRole('button', { name: 'Draw a new lab…' }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Clock').selectOption(clock);
  await page.getByLabel('Seed').fill('1');
  await page.getByLabel('Folder').fill(folder);
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.getByRole('heading', { name, level: 1 }).waitFor();
  for (const name of ROUTERS) {
    await page.getByRole('button', { name: '+ Router' }).click();
    await page.getByLabel('Name').fill(name);
    await page.getByRole('button', { name: 'Draw it' }).click();
    await page.getByRole('row', { name }).waitFor();
  }
  for (const [from, to] of [
    ['r1', 'r2'],
    ['r2', 'r3'],
    ['r1', 'r3'],
  ] as const) {
    await page.getByRole('button', { name: '+ Wire' }).click();
    await page.getByLabel('From', { exact: true }).selectOption(from);
    await page.getByLabel('To', { exact: true }).selectOption(to);
    await page.getByRole('button', { name: 'Draw it' }).click();
    await page.getByRole('heading', { name: `wire ${from}-${to}` }).waitFor();
  }
  return ask<Spec>('GET', `/labs/${name}/spec`);
}

/** The routers run FRR with OSPF on each of their interfaces, and say hello so often (s). */
export function runOspf(spec: Spec, hello = 1): void {
  ROUTERS.forEach((name, at) => {
    const { interfaces } = spec.machines[name]!;
    const lines = Object.keys(interfaces).map(
      (face) =>
        `interface ${face}\n ip ospf network point-to-point\n ip ospf hello-interval ${hello}\n ip ospf dead-interval ${4 * hello}\n`,
    );
    Object.assign(spec.machines[name]!, {
      forward: true,
      setup: [`ip addr add 10.255.0.${at + 1}/32 dev lo`],
      files: {
        '/etc/group': 'root:x:0:\nfrrvty:x:85:root\n',
        '/etc/vink/ospfd.conf': `${lines.join('')}router ospf\n ospf router-id 10.255.0.${at + 1}\n network 10.0.0.0/8 area 0\n`,
      },
      programs: { frr: { command: `exec ${ROOT}/labs/frr.sh ospfd` } },
    });
  });
}

/** The lab becomes what is written into its lab file. */
export async function applyFile(page: Page, spec: Spec): Promise<void> {
  await page.getByRole('tab', { name: 'Lab file' }).click();
  await page.getByRole('textbox', { name: 'Lab file' }).click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(JSON.stringify(spec));
  await page.getByRole('button', { name: 'Apply' }).and(page.locator(':enabled.first')).click();
}

/** The interface of a machine at a wire. */
export function face(spec: Spec, machine: string, wire: string): string {
  return Object.entries(spec.machines[machine]!.interfaces).find(([, { wire: at }]) => at === wire)![0];
}

/** Ends of wires, and those across the wire. */
export function ends(spec: Spec): Record<string, string> {
  const at = new Map<string, string[]>();
  for (const [machine, { interfaces }] of Object.entries(spec.machines))
    for (const [port, { wire }] of Object.entries(interfaces))
      at.set(wire, [...(at.get(wire) ?? []), `${machine}:${port}`]);
  return Object.fromEntries(
    [...at.values()].flatMap(([one, other]) => [
      [one, other],
      [other, one],
    ]),
  );
}

/** Captures each end into a file of its own. */
export async function capture(lab: string, ends: Record<string, string>, folder: string): Promise<void> {
  for (const end of Object.keys(ends)) {
    await ask('POST', `/labs/${lab}/captures`, { interfaces: [end], path: join(folder, end) });
  }
}

/** Lets a virtual clock go on until a time, ms of the lab: the kernel's time then, ns, which the picture shows. */
export async function runUntil(page: Page, lab: string, ms: number): Promise<number> {
  await page.getByRole('textbox', { name: 'Run until' }).fill(`${ms}ms`);
  await page.getByRole('button', { name: 'Run until' }).click();
  const clock = () => ask<{ nanoseconds: number; 'kernel-nanoseconds': number }>('GET', `/labs/${lab}/clock`);
  await until(async () => (await clock()).nanoseconds >= ms * 1e6);
  const now = (await clock())['kernel-nanoseconds'];
  await until(async () => (await stats(page)).now === now);
  return now;
}

interface There {
  where(name: string): [number, number];
  pick(x: number, y: number): { kind: string; end: number } | null;
  camera(): { scale: number };
}
declare const globalThis: { vink: There } & typeof window;

/** A packet that is drawn: by which end it was sent, and how much of the way from there it has gone. */
export interface Drawn {
  end: string;
  gone: number;
  /** The way's length. */
  px: number;
}

export interface Topology {
  ends: { node: number; interface: string }[];
  nodes: { name: string }[];
}

/** The first packet from each end that has some under way in the picture, which is of a lab, or of a run with this topology. */
export async function drawn(page: Page, of: string | Topology, ends: Record<string, string>): Promise<Drawn[]> {
  const topology = typeof of === 'string' ? await ask<Topology>('GET', `/labs/${of}/topology`) : of;
  const numbers = Object.fromEntries(
    topology.ends.map(({ node, interface: port }, number) => [`${topology.nodes[node]!.name}:${port}`, number]),
  );
  const found = [];
  const rim = nodeSize((await page.evaluate(() => globalThis.vink.camera())).scale);
  for (const [end, across] of Object.entries(ends)) {
    const { hits, length } = await page.evaluate(
      ([from, to, number]) => {
        const [[x, y], [toX, toY]] = [globalThis.vink.where(from), globalThis.vink.where(to)];
        const length = Math.hypot(toX - x, toY - y);
        const isThere = (px: number) => {
          const at = globalThis.vink.pick(x + ((toX - x) * px) / length, y + ((toY - y) * px) / length);
          return at?.kind === 'flight' && at.end === number;
        };
        let first = 0;
        while (first < length && !isThere(first)) first += 4;
        if (first >= length) return { hits: [], length };
        let last = first;
        while (isThere(first - 0.5)) first -= 0.5;
        while (isThere(last + 0.5)) last += 0.5;
        return { hits: [first, last], length };
      },
      [end.split(':')[0]!, across.split(':')[0]!, numbers[end]!] as const,
    );
    if (!hits.length) continue;
    // From rim to rim; the pointer finds it from both sides alike.
    const px = length - 2 * rim;
    found.push({ end, gone: ((hits[0]! + hits[1]!) / 2 - rim) / px, px });
  }
  return found;
}

/** Times of packets in a capture, ns of the lab's clock, which is 0 at midnight, by what tcpdump says of each. */
function captured(file: string): Map<string, bigint> {
  const text = execFileSync('tcpdump', ['-n', '-tt', '--time-stamp-precision=nano', '-r', file], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const lines = text.trim().split('\n').filter(Boolean);
  return new Map(
    lines.map((line) => {
      const [, seconds, fraction, what] = /^(\d+)\.(\d+) (.*)$/.exec(line)!;
      return [what!, (BigInt(seconds!) % 86_400n) * 1_000_000_000n + BigInt(fraction!)];
    }),
  );
}

/** What was drawn at times (ns) is where captures of all ends say: which packets these were, by their ends. */
export function compare(seen: ({ at: number } & Drawn)[], ends: Record<string, string>, folder: string): string[] {
  const times = Object.fromEntries(Object.keys(ends).map((end) => [end, captured(join(folder, end))]));
  const hops = new Set<string>();
  for (const { at, end, gone, px } of seen) {
    const now = BigInt(at);
    const under = [...times[end]!].flatMap(([what, sent]) => {
      const arrives = times[ends[end]!]!.get(what);
      if (arrives === undefined || sent > now || arrives <= now) return [];
      return [{ what, far: Math.abs(gone - Number(now - sent) / Number(arrives - sent)) * px }];
    });
    under.sort((one, other) => one.far - other.far);
    expect(under.length, `${end} at ${at}`).toBeGreaterThan(0);
    expect(under[0]!.far, `${under[0]!.what} from ${end} at ${at}`).toBeLessThan(NEAR);
    hops.add(`${end} ${/ARP|ICMP|OSPF/.exec(under[0]!.what)![0]}`);
  }
  return [...hops].sort();
}
