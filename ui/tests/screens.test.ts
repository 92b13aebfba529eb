// Each screen: nothing for axe-core to find, all by the keyboard, and small to load.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { accessibility, ask, close, open, ROOT, until, vink } from './harness.ts';

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
const PANELS = [
  'Events',
  'Terminals',
  'Breakpoints',
  'Packets',
  'Captures',
  'Plots',
  'Colours',
  'Lab file',
  'Commands',
];

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
      if (panel === 'Captures') {
        await page.getByRole('button', { name: 'Capture alice:eth0, router:eth0' }).click();
        await page.getByRole('button', { name: 'Begin a capture' }).click();
        vink('exec', '--lab', 'seen', 'alice', '--', 'ping', '-c', '1', '10.0.0.2');
        await page.getByRole('table', { name: 'Captured packets' }).getByRole('row').nth(3).click();
        await page.getByRole('list', { name: 'Fields of the packet' }).waitFor();
      }
      if (panel === 'Colours') await page.getByRole('button', { name: 'Add a class' }).click();
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

/** Goes on by the Tab key until this has the focus. */
async function reach(page: Page, wanted: Locator) {
  await wanted.waitFor();
  for (let nth = 0; nth < 60; nth++) {
    if (await wanted.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press('Tab');
  }
  expect.unreachable(`the Tab key does not lead to ${wanted}`);
}

/** A command by its name. */
async function command(page: Page, name: string) {
  await page.keyboard.press('Control+k');
  await page.keyboard.type(name);
  await page.getByRole('option', { name }).first().waitFor();
  await page.keyboard.press('Enter');
}

test('captures_and_colours_by_the_keyboard', async () => {
  await ask('PUT', '/labs/seen', { spec: LAB, folder: '/tmp' });
  const page = await open('#/lab/seen');
  await page.getByRole('row', { name: 'alice' }).waitFor();
  // What is selected in the tree of rows is what is captured.
  await page.keyboard.press('/');
  await page.keyboard.type('name:alice');
  await page.getByRole('row', { name: 'router' }).waitFor({ state: 'detached' });
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press(' ');
  await page.getByRole('heading', { name: 'machine alice' }).waitFor();
  await command(page, 'Panel: captures');
  const panel = page.getByRole('tabpanel');
  await reach(page, panel.getByRole('button', { name: 'Capture alice:eth0' }));
  await page.keyboard.press('Enter');
  await reach(page, panel.getByRole('textbox', { name: 'Filter' }));
  await page.keyboard.type('icmp');
  await reach(page, panel.getByRole('button', { name: 'Begin a capture' }));
  await page.keyboard.press('Enter');
  await panel.getByText('0 packets').waitFor();
  vink('exec', '--lab', 'seen', 'alice', '--', 'ping', '-c', '2', '-i', '0.2', '10.0.0.2');
  await reach(page, panel.getByRole('region', { name: 'Captured packets' }));
  const rows = panel.getByRole('table', { name: 'Captured packets' }).getByRole('row');
  // Of each ping the request, the reply, and that no socket waited for the reply.
  await panel.getByText('6 packets').waitFor();
  await page.keyboard.press('End');
  await until(async () => (await rows.nth(5).getAttribute('aria-current')) === 'true');
  await page.keyboard.press('ArrowUp');
  await until(async () => (await rows.nth(4).getAttribute('aria-current')) === 'true');
  // On to its fields, one of which is opened.
  const fields = panel.getByRole('list', { name: 'Fields of the packet' });
  await fields.waitFor();
  const first = fields.locator('summary').first();
  await reach(page, first);
  await page.keyboard.press('Enter');
  await until(async () => (await fields.locator('details[open]').count()) === 1);

  await command(page, 'Panel: colours');
  await reach(page, panel.getByRole('button', { name: 'Add a class' }));
  await page.keyboard.press('Enter');
  const name = panel.getByRole('textbox', { name: 'Name 7' });
  await name.waitFor();
  // It stands before the buttons.
  for (let nth = 0; nth < 60 && !(await name.evaluate((it) => it === document.activeElement)); nth++) {
    await page.keyboard.press('Shift+Tab');
  }
  await page.keyboard.press('Control+a');
  await page.keyboard.type('pings');
  await reach(page, panel.getByRole('textbox', { name: 'Filter 7' }));
  await page.keyboard.type('icmp[icmptype] == icmp-echo');
  await reach(page, panel.getByRole('button', { name: 'Move pings up' }));
  await page.keyboard.press('Enter');
  await until(async () => (await panel.getByRole('textbox', { name: 'Name 6' }).inputValue()) === 'pings');
  await reach(page, panel.getByRole('button', { name: 'Apply' }));
  await page.keyboard.press('Enter');
  await page.getByRole('list', { name: 'What packets look like' }).getByText('pings').waitFor();
  await close(page);
});

test('the_page_is_small', () => {
  const dist = join(ROOT, 'ui/dist');
  const assets = readdirSync(join(dist, 'assets'));
  const size = (name: string) => gzipSync(readFileSync(join(dist, 'assets', name)), { level: 9 }).length;
  // What a lab's first view loads: all but what is loaded when a panel is opened.
  const LAZY = /^(Terminals|xterm|ClassView|LabFile|Packets|Plots|Commands|browser|SpecForm|editor)-/;
  const first = assets.filter((name) => !LAZY.test(name)).reduce((sum, name) => sum + size(name), 0);
  console.log(`note: ui_bundle_kb ${(first / 1000).toFixed(1)}`);
  expect(first).toBeLessThan(250_000);
  expect(assets.reduce((sum, name) => sum + readFileSync(join(dist, 'assets', name)).length, 0)).toBeLessThan(
    3_000_000,
  );
});
