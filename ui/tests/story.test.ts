// One lab from nothing to a branch of its past, in one go: each step is taken in what the steps before have made.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { ask, close, LONGEST_MS, open, stats, until, vink } from './harness.ts';
import * as steps from './steps.ts';

interface There {
  seek(at: number): void | Promise<void>;
}
declare const globalThis: { vink: There } & typeof window;

const mode = (page: Page, kind: string) => page.getByTestId('mode').getByText(kind).waitFor();
const row = (page: Page, name: string) => page.getByRole('row', { name: new RegExp(`^${name}\\b(?!\\.)`) });
const clock = (lab: string) => ask<{ nanoseconds: number; state: string }>('GET', `/labs/${lab}/clock`);

test(
  'a_lab_from_nothing_to_a_branch_of_its_past',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vink-story-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));

    // Drawn from nothing, and FRR written into its file: with a ping after a minute and between hellos, and a download later.
    const anna = await open('#/', { name: 'anna' });
    const spec = await steps.drawRing(anna, 'story', 'virtual', folder);
    steps.runOspf(spec, 10);
    const { r1, r3 } = spec.machines;
    for (const machine of Object.values(spec.machines)) {
      Object.assign(machine, { sysctls: { 'net.ipv6.conf.all.disable_ipv6': 1 } });
    }
    Object.assign(r1!.programs!, {
      ping: { command: 'sleep 64; ping -c 1 10.255.0.3' },
      download: { command: 'sleep 80; curl -s -o /dev/null http://10.255.0.3/500k' },
    });
    Object.assign(r3!.programs!, { web: { app: 'httpserver' } });
    const delay = '450ms';
    spec.wires = { 'r1-r2': { delay }, 'r2-r3': { delay }, 'r1-r3': { delay } };
    await anna.getByRole('button', { name: 'Pause' }).click();
    await steps.applyFile(anna, spec);
    await until(() => vink('lab', 'ps', '--lab', 'story').includes('frr'));

    // Begun anew, and recorded from its beginning.
    await anna.getByRole('button', { name: 'Record from the beginning…' }).click();
    await anna.getByLabel('Folder').fill(join(folder, 'run'));
    await anna.getByRole('button', { name: 'Begin anew' }).click();
    await until(async () => (await ask<unknown[]>('GET', '/runs')).length === 1);
    await until(async () => (await clock('story')).state === 'paused');
    await anna.getByRole('group', { name: 'Clock' }).getByText('virtual · ❚❚ paused').waitFor();
    const ends = steps.ends(spec);
    await steps.capture('story', ends, folder);

    // Another browser is there, too.
    const ben = await open('#/lab/story', { name: 'ben', role: 'operate' });
    await anna
      .getByRole('tab', { name: /^People/ })
      .getByText('(2)')
      .waitFor();

    for (const page of [anna, ben]) {
      await until(async () => Number((await stats(page)).nodes) === 3 && !(await stats(page)).isPlacing);
    }

    // The routers find each other; their wire is broken, which both see.
    await steps.runUntil(anna, 'story', 45_000);
    await row(anna, 'r1-r3').click();
    await row(ben, 'r1-r3').click();
    await ben.getByRole('button', { name: 'Plug out' }).waitFor();
    await anna.getByRole('button', { name: 'Plug out' }).click();
    await ben.getByRole('button', { name: 'Plug in' }).waitFor();

    // The ping goes around, hop by hop, where the captures say, in both browsers.
    const seen: ({ at: number } & steps.Drawn)[] = [];
    for (const ms of [64_250, 64_700, 65_150, 65_600]) {
      const at = await steps.runUntil(anna, 'story', ms);
      await until(async () => (await stats(ben)).now === at);
      for (const page of [anna, ben])
        for (const one of await steps.drawn(page, 'story', ends)) seen.push({ at, ...one });
    }
    await steps.runUntil(anna, 'story', 75_000);
    const hops = steps.compare(seen, ends, folder);
    const way = ['r1', 'r2', 'r3'].flatMap((router) =>
      Object.keys(ends).filter((end) => end.startsWith(router) && !atWire(spec, end, 'r1-r3')),
    );
    expect(hops.filter((hop) => hop.endsWith('ICMP'))).toEqual(way.map((end) => `${end} ICMP`).sort());

    // A breakpoint on SYN stops the lab for both.
    await row(anna, 'r1-r2').click();
    await anna.getByRole('tab', { name: 'Breakpoints' }).click();
    await anna.getByRole('button', { name: 'SYN', exact: true }).click();
    await anna.getByLabel('Name', { exact: true }).fill('syn');
    await anna.getByRole('button', { name: 'Set it' }).click();
    await anna.getByRole('button', { name: 'Remove syn' }).waitFor();
    await anna.getByRole('textbox', { name: 'Run until' }).fill('90s');
    await anna.getByRole('button', { name: 'Run until' }).click();
    for (const page of [anna, ben]) {
      const stopped = page.getByRole('region', { name: 'Stopped' });
      await stopped.getByText('TCP [S]').waitFor();
      await stopped.getByText(`r2:${steps.face(spec, 'r2', 'r1-r2')}`).waitFor();
    }
    const stood = (await clock('story')).nanoseconds;
    expect(stood).toBeGreaterThan(80e9);

    // On it goes, a packet at a time, which the other one does.
    await anna.getByRole('button', { name: 'Disable syn' }).click();
    await ben.getByRole('region', { name: 'Stopped' }).getByRole('button', { name: 'Continue' }).click();
    await anna.getByRole('region', { name: 'Stopped' }).waitFor({ state: 'detached' });
    await ben
      .getByRole('button', { name: 'Pause' })
      .or(ben.getByRole('button', { name: 'Continue' }))
      .first()
      .waitFor();
    await ben.getByRole('button', { name: 'Step to the next packet' }).click();
    await until(async () => (await clock('story')).nanoseconds > stood);

    // The server's congestion window as a plot.
    await anna.getByRole('tab', { name: 'Plots' }).click();
    const panel = anna.getByRole('tabpanel');
    await panel.getByRole('button', { name: 'Time series' }).click();
    await panel.getByRole('combobox', { name: 'Number' }).fill('tcp MACHINE snd_cwnd'.replace('MACHINE', 'r3'));
    await panel.getByRole('textbox', { name: 'Every' }).fill('100ms');
    await panel.getByRole('button', { name: 'Record it' }).click();
    await panel.getByRole('combobox', { name: 'Series' }).waitFor();
    await steps.runUntil(anna, 'story', 95_000);
    const { rows } = await ask<{ rows: [number, number | null][] }>('GET', '/labs/story/series/tcp-r3-snd-cwnd/rows');
    const window = rows.findLast(([, window]) => window !== null)?.[1];
    expect(window).toBeGreaterThan(10);
    await panel.getByRole('img', { name: `snd_cwnd ${window}` }).waitFor();

    // Back to where the ping was under way: the same packets are where they were.
    const [then] = seen.filter(({ at }) => at === seen.at(-1)!.at);
    await anna.getByRole('button', { name: 'Earlier' }).click();
    await mode(anna, 'PAST');
    await anna.evaluate((at) => globalThis.vink.seek(at), then!.at);
    await until(async () => (await stats(anna)).now === then!.at);
    const isThere = async (of: string | steps.Topology) => {
      const find = async () => (await steps.drawn(anna, of, ends)).find(({ end }) => end === then!.end);
      // The picture has another height with the timeline, and is fitted into that.
      let again: Awaited<ReturnType<typeof find>>;
      await until(async () => (again = await find()) !== undefined);
      expect(Math.abs(again!.gone - then!.gone) * again!.px).toBeLessThan(2);
    };
    await isThere('story');
    await anna.getByRole('button', { name: '● Live' }).click();
    await mode(anna, 'LIVE');

    // It is taken down, and a moment of its run opened, before the download.
    anna.on('dialog', (dialog) => void dialog.accept());
    await anna.getByTitle('All labs').click();
    await anna.getByRole('button', { name: 'Take down story' }).click();
    await anna.getByRole('link', { name: 'run', exact: true }).click();
    await mode(anna, 'RECORDED');
    await anna.getByRole('slider', { name: 'Time' }).waitFor();
    await until(async () => !(await stats(anna)).isPlacing);
    await anna.evaluate((at) => globalThis.vink.seek(at), then!.at);
    await until(async () => (await stats(anna)).now === then!.at);
    const { topology } = await ask<{ topology: steps.Topology }>('GET', '/runs/run');
    await isThere(topology);
    await anna.getByRole('button', { name: 'Open this moment' }).click();
    await anna.getByLabel('Name', { exact: true }).fill('again');
    await anna.getByRole('button', { name: 'Open it' }).click();
    await mode(anna, 'MOMENT');
    await anna.getByRole('heading', { name: 'again', level: 1 }).waitFor();
    await ben.goto(ben.url().replace(/#.*/, '#/lab/again'));
    await mode(ben, 'MOMENT');

    // What is changed there is a branch, for both: another wire is broken.
    await row(anna, 'r2-r3').click();
    await row(ben, 'r2-r3').click();
    await ben.getByRole('button', { name: 'Plug out' }).waitFor();
    await anna.getByRole('button', { name: 'Plug out' }).click();
    for (const page of [anna, ben]) await mode(page, 'BRANCH');
    await ben.getByRole('button', { name: 'Plug in' }).waitFor();
    await steps.runUntil(anna, 'again', 75_000);
    vink('lab', 'down', 'again');
    const runs = await ask<{ parent?: { run: string; nanoseconds: number } }[]>('GET', '/runs');
    expect(runs.find(({ parent }) => parent)?.parent).toMatchObject({ run: 'run', nanoseconds: then!.at });
    for (const page of [anna, ben]) await close(page);
  },
  5 * LONGEST_MS,
);

/** Whether an end is at this wire. */
function atWire(spec: steps.Spec, end: string, wire: string): boolean {
  const [machine, port] = end.split(':') as [string, string];
  return spec.machines[machine]!.interfaces[port]!.wire === wire;
}
