// Each screen: nothing for axe-core to find, all by the keyboard, and small to load.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { accessibility, ask, close, open, ROOT, until } from './harness.ts';

const LAB = {
  name: 'seen',
  machines: {
    alice: { interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.1/24'] } } },
    router: { forward: true, interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.2/24'] }, eth1: { switch: 'sw' } } },
  },
  switches: { sw: {} },
  wires: { w1: { delay: '1ms' } },
  breakpoints: { none: { at: 'alice', filter: 'udp port 9', log: true } },
};
const PANELS = ['Events', 'Terminals', 'Breakpoints', 'Packets', 'Plots', 'Lab file', 'Commands'];

for (const colorScheme of ['light', 'dark'] as const) {
  test(`axe_finds_nothing_in_${colorScheme}`, async () => {
    await ask('PUT', '/labs/seen', { spec: LAB, folder: '/tmp' });
    const page = await open('#/', { colorScheme });
    await page.getByRole('link', { name: 'seen' }).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Draw a new lab…' }).click();
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Open a lab file…' }).click();
    await page.getByLabel('Lab file', { exact: true }).fill('machines: {a: {programs: {p: {command: sleep 1}}}}');
    await page.getByText('It runs these commands as you:').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press('Escape');

    await page.getByRole('link', { name: 'seen' }).click();
    for (const [row, heading] of [
      ['alice', 'machine alice'],
      ['sw', 'switch sw'],
      ['w1', 'wire w1'],
    ] as const) {
      await page.getByRole('row', { name: new RegExp(`^${row}\\b(?!\\.)`) }).click();
      await page.getByRole('heading', { name: heading }).waitFor();
      await page.getByRole('button', { name: 'Apply' }).waitFor();
      expect(await accessibility(page)).toEqual([]);
    }
    for (const panel of PANELS) {
      await page.getByRole('tab', { name: panel }).click();
      if (panel === 'Terminals') {
        await page.getByLabel('Shell on').selectOption('alice');
        await page.getByRole('group', { name: 'Terminal of alice' }).waitFor();
      }
      if (panel === 'Packets') await page.getByRole('button', { name: 'Watch alice:eth0, router:eth0' }).click();
      if (panel === 'Plots') await page.getByRole('button', { name: 'Plot alice:eth0, router:eth0' }).click();
      if (panel === 'Lab file') await page.locator('.cm-content').getByText('machines').waitFor();
      if (panel === 'Breakpoints') await page.getByRole('button', { name: 'Set it' }).waitFor();
      expect(await accessibility(page), panel).toEqual([]);
    }
    await page.keyboard.press('Control+k');
    expect(await accessibility(page)).toEqual([]);
    await close(page);
  });
}

test('everything_by_the_keyboard', async () => {
  await ask('PUT', '/labs/seen', { spec: LAB, folder: '/tmp' });
  const page = await open('#/lab/seen');
  await page.getByRole('row', { name: 'alice' }).waitFor();
  // The explorer is a tree of rows; the picture has the same selection.
  await page.keyboard.press('/');
  await page.keyboard.type('kind:router');
  await page.getByRole('row', { name: 'alice' }).waitFor({ state: 'detached' });
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await page.getByRole('row', { name: 'eth1' }).waitFor();
  await page.keyboard.press(' ');
  await page.getByRole('heading', { name: 'router router' }).waitFor();
  expect(await page.getByRole('row', { name: 'router' }).getAttribute('aria-selected')).toBe('true');
  // Arrows walk along wires in the picture.
  const picture = page.getByRole('img', { name: 'Picture' });
  await picture.focus();
  const [from, to] = await page.evaluate(() => {
    const { vink } = window as unknown as { vink: { where(name: string): [number, number] } };
    return [vink.where('router'), vink.where('alice')];
  });
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const across = dx > 0 ? 'ArrowRight' : 'ArrowLeft';
  await picture.press(Math.abs(dx) > Math.abs(dy) ? across : dy > 0 ? 'ArrowDown' : 'ArrowUp');
  await page.getByRole('heading', { name: 'machine alice' }).waitFor();
  // A command by name; the terminal gets what is typed.
  await page.keyboard.press('Control+k');
  await page.keyboard.type('shell on alice');
  await page.getByRole('option', { name: 'Shell on alice' }).waitFor();
  await page.keyboard.press('Enter');
  const terminal = page.getByRole('group', { name: 'Terminal of alice' });
  await terminal.waitFor();
  await until(async () => /alice/.test((await terminal.textContent()) ?? ''));
  await page.keyboard.type('echo $((40 + 2)) on $(hostname)\n');
  await terminal.getByText('42 on alice').first().waitFor();
  await close(page);
});

test('the_page_is_small', () => {
  const dist = join(ROOT, 'ui/dist');
  const assets = readdirSync(join(dist, 'assets'));
  const size = (name: string) => gzipSync(readFileSync(join(dist, 'assets', name)), { level: 9 }).length;
  // What a lab's first view loads: all but what is loaded when a panel is opened.
  const LAZY = /^(Terminals|LabFile|Packets|Plots|Commands|browser|SpecForm|editor)-/;
  const first = assets.filter((name) => !LAZY.test(name)).reduce((sum, name) => sum + size(name), 0);
  console.log(`note: ui_bundle_kb ${(first / 1000).toFixed(1)}`);
  expect(first).toBeLessThan(250_000);
  expect(assets.reduce((sum, name) => sum + readFileSync(join(dist, 'assets', name)).length, 0)).toBeLessThan(
    3_000_000,
  );
});
