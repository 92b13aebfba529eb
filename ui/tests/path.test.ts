// The way of packets: routers that are drawn find one, and a ping is seen on it where a capture says it is.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ask, close, open, picture, stats, until, vink } from './harness.ts';
import * as steps from './steps.ts';

test('routers_that_are_drawn_find_a_way_around_a_broken_wire', async () => {
  const page = await open();
  const spec = await steps.drawRing(page, 'ring');
  // FRR is written into the lab file, which is applied.
  steps.runOspf(spec);
  await steps.applyFile(page, spec);
  await until(() => vink('lab', 'ps', '--lab', 'ring').includes('frr'));

  // A terminal of the page: the routers have found each other.
  await page.getByRole('tab', { name: 'Terminals' }).click();
  await page.getByLabel('Shell on').selectOption('r1');
  const terminal = page.getByRole('group', { name: 'Terminal of r1' });
  await until(async () => /r1/.test((await terminal.textContent()) ?? ''));
  // The interface of the first router at a wire, to which the third one's address leads in the end.
  const face = (wire: string) => steps.face(spec, 'r1', wire);
  const leads = (wire: string) => `until ip route get 10.255.0.3 | grep -q 'dev ${face(wire)} '; do sleep 0.2; done`;
  await page.keyboard.type(`${leads('r1-r3')}; echo direct $((6 * 7))\n`);
  await terminal.getByText('direct 42').first().waitFor();

  // The wire between two of them is broken, and the third one passes on what they say.
  await page.getByRole('row', { name: 'r1-r3' }).click();
  await page.getByRole('button', { name: 'Plug out' }).click();
  await page.getByText('plugged out', { exact: false }).first().waitFor();
  await terminal.click();
  const seen = Number((await stats(page)).kept);
  await page.keyboard.type(`${leads('r1-r2')}; ping -c 3 10.255.0.3\n`);
  await terminal.getByText('3 received').first().waitFor();
  await until(async () => Number((await stats(page)).kept) > seen + 12);
  await page.getByRole('row', { name: 'r1', exact: false }).first().click();
  await page.getByRole('button', { name: 'Routes' }).click();
  await page
    .getByRole('region', { name: 'Routes' })
    .getByText(new RegExp(`10\\.255\\.0\\.3 .*dev ${face('r1-r2')}`))
    .waitFor();
  await close(page);
});

/** Nothing but what IPv4 does. */
const sysctls = { 'net.ipv6.conf.all.disable_ipv6': 1 };

const MOVES = {
  name: 'moves',
  time: 'virtual',
  seed: 1,
  machines: {
    a: {
      sysctls,
      interfaces: { eth0: { wire: 'w1', addresses: ['10.0.1.1/24'] } },
      routes: [{ to: 'default', via: '10.0.1.2' }],
      programs: { ping: { command: 'sleep 1; ping -c 1 10.0.2.1' } },
    },
    r: {
      forward: true,
      sysctls,
      interfaces: {
        eth0: { wire: 'w1', addresses: ['10.0.1.2/24'] },
        eth1: { wire: 'w2', addresses: ['10.0.2.2/24'] },
      },
    },
    b: {
      sysctls,
      interfaces: { eth0: { wire: 'w2', addresses: ['10.0.2.1/24'] } },
      routes: [{ to: 'default', via: '10.0.2.2' }],
    },
  },
  // Longer than the least time for which the page shows a hop, and shorter than the time after which ARP asks again.
  wires: { w1: { delay: '450ms' }, w2: { delay: '480ms' } },
};

test('a_ping_moves_hop_by_hop_where_the_capture_says', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'vink-moves-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  await ask('PUT', '/labs/moves', { spec: MOVES, folder: '/tmp', new: true, paused: true });
  const ends = steps.ends(MOVES);
  await steps.capture('moves', ends, folder);
  const page = await open('#/lab/moves');
  await page.getByText('Click on a packet to follow its flow.').waitFor();
  await until(async () => !(await stats(page)).isPlacing);

  // ARP and the request on either wire, and the reply: each has a time at which it is half-way, or nearly.
  const seen: ({ at: number } & steps.Drawn)[] = [];
  for (const ms of [1200, 1600, 2000, 2500, 3000, 3500, 3600, 4000, 4500]) {
    const at = await steps.runUntil(page, 'moves', ms);
    for (const one of await steps.drawn(page, 'moves', ends)) seen.push({ at, ...one });
    if (ms === 3500) await picture(page, 'moves');
  }
  // What was under way last arrives, too.
  await ask('POST', '/labs/moves/clock/run', { until: '6s' });
  // The request's two hops and the reply's, and ARP before on either wire.
  expect(steps.compare(seen, ends, folder)).toEqual(
    ['a:eth0', 'b:eth0', 'r:eth0', 'r:eth1'].flatMap((end) => [`${end} ARP`, `${end} ICMP`]),
  );
  await close(page);
});
