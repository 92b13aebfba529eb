// What vink explore has found, in the page: its run, the tree of other schedules, packets, and moments opened as labs.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { accessibility, ask, close, open, picture, ROOT, until, vink } from './harness.ts';

interface Run {
  violation?: { property: string; nanoseconds: number } | null;
  events: { kind: string; end?: string; number?: number; packet?: number; nanoseconds: number; text: string }[];
}

let folder: string;
let found: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vexplored'));
  for (const name of ['parcel.c', 'parcel.yaml']) copyFileSync(join(ROOT, 'labs/explore', name), join(folder, name));
  const include = join(ROOT, 'crates/vink-apps/include');
  execFileSync('cc', ['-shared', '-fPIC', '-I', include, '-o', 'parcel.so', 'parcel.c'], { cwd: folder });
  const output = join(folder, 'parcel.explored');
  expect(() => vink('explore', join(folder, 'parcel.yaml'), '--output', output)).toThrow();
  found = join(output, 'outcome');
}, 120_000);
afterAll(() => {
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const query = (schedule: string) => `/explored/parcel-outcome/run?${new URLSearchParams({ schedule })}`;

test('what_was_found_is_a_branch_of_a_tree', async () => {
  const page = await open('#/');
  await page.getByLabel('List what vink explore has written at').fill(join(folder, 'parcel.explored'));
  await page.getByRole('button', { name: 'List what was found' }).click();
  await page.getByRole('link', { name: 'parcel-outcome' }).click();
  await page.getByTestId('mode').getByText('EXPLORED').waitFor();

  // What was found: both faults, and what comes of them.
  const nav = page.getByRole('navigation', { name: 'The schedule' });
  await nav.getByText('packet 1 of alice:eth0 comes behind the next one').waitFor();
  await nav.getByText('packet 3 of alice:eth0 is lost').waitFor();
  await nav.getByText('✕ outcome').waitFor();
  await nav.getByText('receiver ended with status 1').waitFor();
  const fate = (packet: string, fate: string) => page.getByRole('link', { name: `packet ${packet} ${fate}: ` });
  expect(await fate('3 of alice:eth0', 'lost').getAttribute('aria-label')).toContain('so it is here');

  // All fates of all packets are tried, and said as the API says them.
  const run = await ask<Run>('GET', query('alice:eth0 1 behind,alice:eth0 3 drop'));
  const searched = run.events.filter(({ number }) => number);
  await until(async () => (await page.getByTestId('tried').innerText()).startsWith(`${4 * searched.length} tried`));
  await picture(page, 'explored');
  expect(await accessibility(page)).toEqual([]);

  // Without the first fault nothing is broken; it is a link of the tree, which Back leaves.
  await nav.getByRole('link', { name: 'without it' }).first().click();
  await nav.getByText('No property is broken').waitFor();
  expect(await page.evaluate(() => location.hash)).toBe('#/explored/parcel-outcome?schedule=alice%3Aeth0+3+drop');
  await page.goBack();
  await nav.getByText('✕ outcome').waitFor();

  // From the run without faults there and back again, by the fates at its packets.
  await nav.getByRole('link', { name: 'Without faults' }).click();
  await nav.getByText('None: each packet passes.').waitFor();
  await fate('1 of alice:eth0', 'behind').click();
  await nav.getByText('packet 1 of alice:eth0 comes behind the next one').waitFor();
  const lost = fate('3 of alice:eth0', 'lost');
  await until(async () => (await lost.getAttribute('aria-label'))?.endsWith('breaks outcome') ?? false);
  expect(await fate('3 of alice:eth0', 'twice').getAttribute('aria-label')).toContain('breaks nothing');
  await lost.click();
  await nav.getByText('✕ outcome').waitFor();
  await close(page);
});

test('a_packet_of_a_run_is_looked_into_and_its_moment_is_a_lab', async () => {
  // The folder by the command's own option, as a link for the page.
  const link = vink('ui', '--explored', found, '--share', 'anna', '--role', 'own').trim();
  expect(link).toMatch(/&\/explored\/parcel-outcome$/);
  const page = await open('#/explored/parcel-outcome');
  const rows = page.getByRole('region', { name: 'What happens in the run' });
  await rows.getByText('sends 3').waitFor();
  await rows.getByRole('button', { name: /alice:eth0 sends 3/ }).click();
  const inside = page.getByRole('complementary', { name: 'What is in the packet' });
  await inside.getByText('7100').first().waitFor();
  // By the keyboard, the row below.
  await rows.focus();
  await page.keyboard.press('ArrowDown');
  await rows
    .getByRole('button', { name: /alice:eth0 loses/ })
    .and(page.locator('[aria-current=true]'))
    .waitFor();

  // As a lab at the time when the property is broken: its breakpoints have had the same packets.
  const run = await ask<Run>('GET', query('alice:eth0 1 behind,alice:eth0 3 drop'));
  const packet = run.events.find(
    ({ kind, number, end }) => kind === 'departure' && number === 3 && end === 'alice:eth0',
  )!;
  await page.getByRole('button', { name: /^Open .* as a lab/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('then');
  await dialog.getByRole('button', { name: 'Open it' }).click();
  await page.getByRole('heading', { name: 'then', level: 1 }).waitFor();
  // Its clock is at 0 when the run's first programs begin.
  const { nanoseconds } = await ask<{ nanoseconds: number }>('GET', '/labs/then/clock');
  expect(nanoseconds).toBe(packet.nanoseconds - 1e9);
  const broken = () => vink('lab', 'ps', '--lab', 'then').includes('bob.receiver  ended (1)');
  const hits = () => vink('break', 'list', '--lab', 'then').match(/^fault-\d +1 /gm)?.length;
  expect([hits(), broken()]).toEqual([2, false]);
  vink('lab', 'until', '11s', '--lab', 'then');
  expect(broken()).toBe(true);
  vink('lab', 'down', 'then');
  await close(page);
});

test('a_difference_is_seen_from_both_sides', async () => {
  // In the other lab alice gives up what has no answer for half a second, before the one to her second SYN.
  const lab = readFileSync(join(ROOT, 'labs/explore/linux.yaml'), 'utf8').replace('5ms', '50ms');
  writeFileSync(join(folder, 'linux.yaml'), lab);
  const impatient = lab.replace('name: linux', 'name: impatient');
  const connects = 'steps open, set user-timeout 500, connect';
  writeFileSync(join(folder, 'impatient.yaml'), impatient.replace('steps connect', connects));
  const output = join(folder, 'linux.explored');
  const other = join(folder, 'impatient.yaml');
  expect(() => vink('explore', join(folder, 'linux.yaml'), '--against', other, '--output', output)).toThrow();
  vink('ui', '--explored', output, '--share', 'anna');
  const page = await open('#/explored/linux-difference');
  const nav = page.getByRole('navigation', { name: 'The schedule' });
  await nav.getByText('✕ difference').waitFor();
  await nav.getByText('impatient ended with status 1').waitFor();
  await nav.getByText('alice.sender: status 0').waitFor();
  const fate = page.getByRole('link', { name: /packet 1 of alice:eth0 lost: / });
  await until(async () => (await fate.getAttribute('aria-label'))?.endsWith('differs from impatient') ?? false);
  expect(await accessibility(page)).toEqual([]);

  // The same schedule on the other side, which keeps to it.
  await nav.getByRole('link', { name: 'impatient' }).click();
  await nav.getByText('alice.sender: status 1').waitFor();
  await until(async () => (await fate.getAttribute('aria-label'))?.endsWith('differs from linux') ?? false);
  await nav.getByRole('link', { name: 'Without faults' }).click();
  await nav.getByText('Both come to the same.').waitFor();
  expect(await page.evaluate(() => location.hash)).toBe('#/explored/linux-difference?schedule=&side=1');
  await page.getByRole('button', { name: /^Open .* as a lab/ }).click();
  expect(await page.getByRole('dialog').getByLabel('Name').inputValue()).toMatch(/^impatient-at-/);
  await close(page);
});

test('what_can_not_be_shown_is_said', async () => {
  const page = await open('#/');
  const path = page.getByLabel('List what vink explore has written at');
  mkdirSync(join(folder, 'nothing'));
  await path.fill(join(folder, 'nothing'));
  await page.getByRole('button', { name: 'List what was found' }).click();
  await page.getByRole('alert').getByText('vink explore has written nothing at').waitFor();
  mkdirSync(join(folder, 'broken'));
  writeFileSync(join(folder, 'broken/explore.json'), '{}');
  await path.fill(join(folder, 'broken'));
  await page.getByRole('button', { name: 'List what was found' }).click();
  await page.getByRole('alert').getByText('is no manifest of').waitFor();
  vink('ui', '--explored', found, '--share', 'anna');
  await page.evaluate(() => (location.hash = '#/explored/parcel-outcome?schedule=nonsense'));
  await page.getByText('is no packet with another fate').waitFor();
  await page.evaluate(() => (location.hash = '#/explored/no-such'));
  await page.getByText('no explored lab no-such').waitFor();
  // What could not be shown is asked for again.
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('no explored lab no-such').waitFor();
  await close(page);
});

test('a_guest_looks_and_opens_nothing', async () => {
  vink('ui', '--explored', found, '--share', 'anna');
  const page = await open('#/explored/parcel-outcome', { role: 'view' });
  await page.getByRole('link', { name: /packet 1 of alice:eth0 lost: / }).waitFor();
  expect(await page.getByRole('button', { name: /as a lab/ }).count()).toBe(0);
  await close(page);
});
