// What is observed of a lab: captures with their packets' insides, time series as plots, classes of packets and what waits.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { accessibility, ask, close, LONGEST_MS, open, spot, until, vink } from './harness.ts';

const folder = mkdtempSync(join(tmpdir(), 'vobs'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const two = (name: string, more: object = {}, wire: object = {}) => ({
  name,
  machines: {
    a: { interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.1/24'] } } },
    b: { interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.2/24'] } } },
  },
  wires: { w1: wire },
  ...more,
});
const up = (spec: { name: string }) => ask('PUT', `/labs/${spec.name}`, { spec, folder, new: true });

test('a_lab_that_is_taken_down_leaves_no_error', async () => {
  await up(two('leaves'));
  const page = await open('#/lab/leaves');
  await page.getByRole('tab', { name: 'Events' }).click();
  await page.getByRole('log').waitFor();
  vink('lab', 'down', 'leaves');
  await page.getByText('no lab leaves').first().waitFor();
  // What is asked again when a connection has ended is asked by then.
  await up(two('leaves'));
  await spot(page, 'a');
  vink('lab', 'down', 'leaves');
  await page.getByText('no lab leaves').first().waitFor();
  await close(page);
});

test('packets_of_a_capture_are_seen_inside', async () => {
  await up(two('captured', {}, { delay: '2ms' }));
  const page = await open('#/lab/captured');
  await page.getByRole('row', { name: /^w1\b/ }).click();
  await page.getByRole('tab', { name: 'Captures' }).click();
  const panel = page.getByRole('tabpanel');
  await panel.getByRole('button', { name: 'Capture a:eth0, b:eth0' }).click();
  await panel.getByRole('textbox', { name: 'Filter' }).fill('icmp[icmptype] == icmp-echo');
  await panel.getByRole('button', { name: 'Begin a capture' }).click();
  await panel.getByText('0 packets').waitFor();
  vink('exec', '--lab', 'captured', 'a', '--', 'ping', '-c3', '-i', '0.2', '10.0.0.2');
  await panel.getByText('6 packets').waitFor();
  await panel.getByRole('button', { name: 'End it' }).click();
  const rows = panel.getByRole('table', { name: 'Captured packets' }).getByRole('row');
  await rows.nth(5).waitFor();
  expect(await rows.nth(0).innerText()).toMatch(
    /a:eth0[^]*departure[^]*98[^]*10\.0\.0\.1 > 10\.0\.0\.2: ICMP echo request/,
  );

  await rows.nth(3).click();
  const fields = panel.getByRole('list', { name: 'Fields of the packet' });
  const icmp = fields.getByText('Internet Control Message Protocol', { exact: true });
  await icmp.waitFor();
  await icmp.focus();
  // Its bytes are marked, the type first.
  const bytes = panel.getByRole('table', { name: 'Bytes' });
  await until(async () => (await bytes.locator('.marked').count()) === 2 * 64);
  expect(await bytes.locator('.marked').first().innerText()).toBe('08');
  await icmp.click();
  await fields.getByText(/^Type: 8 \(Echo/).waitFor();
  // The keys choose, too.
  await panel.getByRole('region', { name: 'Captured packets' }).focus();
  await page.keyboard.press('Home');
  await until(async () => (await rows.nth(0).getAttribute('aria-current')) === 'true');
  await page.keyboard.press('ArrowDown');
  await until(async () => (await rows.nth(1).getAttribute('aria-current')) === 'true');
  expect(await accessibility(page)).toEqual([]);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    panel.getByRole('button', { name: 'Save as pcapng' }).click(),
  ]);
  expect(download.suggestedFilename()).toBe('captured-1.pcapng');

  // One that may look reads the same, and begins none.
  const other = await open('#/lab/captured', { role: 'view' });
  await other.getByRole('tab', { name: 'Captures' }).click();
  await other.getByRole('tabpanel').getByText('6 packets').waitFor();
  expect(await other.getByRole('button', { name: /Capture a/ }).count()).toBe(0);
  await close(other);
  await close(page);
  vink('lab', 'down', 'captured');
});

test('a_connections_window_is_plotted', async () => {
  const spec = two('measured', { time: 'virtual', seed: 1 }, { rate: '20mbit', delay: '20ms' });
  const programs = { send: { app: 'source -t 5s 10.0.0.2', after: ['b.sink'] } };
  Object.assign(spec.machines.a, { programs });
  Object.assign(spec.machines.b, { programs: { sink: { app: 'sink' } } });
  await ask('PUT', '/labs/measured', { spec, folder, new: true, paused: true });
  vink('lab', 'pause', 'measured');
  const page = await open('#/lab/measured');
  await page.getByRole('tab', { name: 'Plots' }).click();
  const panel = page.getByRole('tabpanel');
  await panel.getByRole('button', { name: 'Time series' }).click();
  await panel.getByText('No time series yet.').waitFor();
  await panel.getByRole('combobox', { name: 'Number' }).fill('tcp MACHINE snd_cwnd 10.0.0.2');
  await panel.getByRole('textbox', { name: 'Every' }).fill('50ms');
  await panel.getByRole('button', { name: 'Record it' }).click();
  await panel.getByRole('combobox', { name: 'Series' }).waitFor();
  vink('lab', 'until', '4s', '--lab', 'measured');
  // As large as the file says it was last.
  const { rows } = await ask<{ rows: [number, number | null][] }>(
    'GET',
    '/labs/measured/series/tcp-a-snd-cwnd-10-0-0-2/rows',
  );
  const last = rows.findLast(([, window]) => window !== null)?.[1];
  expect(last).toBeGreaterThan(10);
  const plot = panel.getByRole('img', { name: `snd_cwnd 10.0.0.2 ${last}` });
  await plot.waitFor();
  await panel.getByText(`${rows.length} rows`).waitFor();
  expect(await plot.locator('canvas').count()).toBe(1);
  await close(page);
  vink('lab', 'down', 'measured');
});

test('colours_of_classes_are_set_for_all_pages', async () => {
  await up(two('coloured'));
  const [page, other] = [await open('#/lab/coloured'), await open('#/lab/coloured', { role: 'view', name: 'ben' })];
  const legend = (of: typeof page) => of.getByRole('list', { name: 'What packets look like' });
  await legend(page).getByText('ICMP').waitFor();
  await page.getByRole('tab', { name: 'Colours' }).click();
  await page.getByRole('button', { name: 'Add a class' }).click();
  await page.getByRole('textbox', { name: 'Name 7' }).fill('my web');
  await page.getByRole('textbox', { name: 'Filter 7' }).fill('tpc port 80');
  await page.getByRole('button', { name: 'Apply' }).click();
  // What is wrong is said at its place, and nothing is set.
  const wrong = page.getByRole('textbox', { name: 'Filter 7' });
  await until(async () => (await wrong.getAttribute('aria-invalid')) === 'true');
  expect(await page.locator('#class-wrong').innerText()).toContain('tpc port 80');
  expect(await accessibility(page)).toEqual([]);
  expect(await legend(page).getByText('my web').count()).toBe(0);
  await wrong.fill('tcp port 80');
  for (let up = 0; up < 6; up++) await page.getByRole('button', { name: 'Move my web up' }).click();
  await page.getByRole('button', { name: 'Apply' }).click();
  for (const of of [page, other]) await legend(of).getByText('my web').waitFor();
  expect((await legend(other).getByRole('listitem').allInnerTexts()).map((text) => text.slice(1))).toEqual([
    'other',
    'my web',
    'ARP, ND',
    'ICMP',
    'routing',
    'TCP handshake',
    'TCP',
    'UDP',
  ]);
  await other.getByRole('tab', { name: 'Colours' }).click();
  expect(await other.getByRole('textbox', { name: 'Filter 1' }).isDisabled()).toBe(true);
  expect(await other.getByRole('button', { name: 'Apply' }).count()).toBe(0);
  await page.getByRole('button', { name: 'As they were at first' }).click();
  for (const of of [page, other]) await until(async () => (await legend(of).getByText('my web').count()) === 0);
  await close(other);
  await close(page);
  vink('lab', 'down', 'coloured');
});

test(
  'what_waits_is_told_by_class_and_a_flow_is_followed',
  async () => {
    await up(two('waits', {}, { rate: '200kbit', delay: '300ms' }));
    // Nothing but the pings is to wait.
    const quiet =
      'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 600 >/proc/sys/net/ipv4/neigh/eth0/delay_first_probe_time';
    for (const machine of ['a', 'b']) vink('exec', '--lab', 'waits', machine, '--', 'sh', '-c', quiet);
    const page = await open('#/lab/waits');
    // What the page wants of the feed.
    const wanted: { flow?: number }[] = [];
    page.on('websocket', (socket) =>
      socket.on('framesent', ({ payload }) => {
        const said = typeof payload === 'string' && payload.startsWith('{"subscribe') ? JSON.parse(payload) : null;
        if (said) wanted.push(said.subscribe);
      }),
    );
    await page.reload();
    await page.getByRole('row', { name: /^w1\b/ }).click();
    const from = page.getByRole('region', { name: 'From a:eth0' });
    await from.getByRole('row', { name: /^Waiting 0/ }).waitFor();
    const program = await ask<{ id: number }>('POST', '/labs/waits/programs', {
      machine: 'a',
      words: ['ping', '-q', '-s', '1000', '-i', '0.01', '10.0.0.2'],
    });
    await from.getByRole('row', { name: /^Waiting [1-9].* 100 % ICMP/ }).waitFor();

    // A click on a packet has the feed tell all of its flow.
    await spot(page, 'a');
    await until(async () => {
      const found = await page.evaluate(() => {
        const { vink } = window as unknown as { vink: { pick(x: number, y: number): { kind: string } | null } };
        const box = document.querySelector('canvas')!.getBoundingClientRect();
        for (let x = 0; x < box.width; x += 3)
          for (let y = 0; y < box.height; y += 3)
            if (vink.pick(x, y)?.kind === 'flight') return [box.left + x, box.top + y] as [number, number];
        return null;
      });
      if (!found) return false;
      await page.mouse.click(...found);
      // It may have moved on meanwhile.
      return (await page.getByText('One flow is followed').count()) > 0;
    });
    await until(() => wanted.some(({ flow }) => flow));
    await ask('DELETE', `/labs/waits/programs/${program.id}`);
    // A change of the lab, such as this one, makes the next frames a keyframe.
    await from.getByRole('row', { name: /^Waiting 0/ }).waitFor();
    await close(page);
    vink('lab', 'down', 'waits');
  },
  2 * LONGEST_MS,
);
