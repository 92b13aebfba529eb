// A page that stays open on a busy lab: the memory of the page, of the control process and of the worker, minute by minute.
//
//   npm run soak -- --minutes 60
//
// It ends with status 1 if one of them has more than 5 % more in the last quarter than in the second. In the first one, what
// is kept fills up.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { launch } from './browser.ts';
import { Daemon } from './daemon.ts';

declare const globalThis: { vink: { stats(): { nodes: number; kept: number } } };

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '15' } } });
const MOST_GROWTH = 0.05;
/** Times that are measured. */
const TIMES = 60;
const MACHINES = 10;

const name = 'soaked';
const spec = {
  name,
  machines: Object.fromEntries(
    Array.from({ length: MACHINES }, (_, at) => {
      const next = (at + 1) % MACHINES;
      return [
        `m${at}`,
        {
          interfaces: {
            left: { wire: `w${at}`, addresses: [`10.0.${at}.1/24`] },
            right: { wire: `w${next}`, addresses: [`10.0.${next}.2/24`] },
          },
          programs: {
            sink: { app: 'sink' },
            // New connections again and again, and a short program: what comes and goes must leave nothing.
            load: { command: 'while :; do ping -q -c 5 -i 0.2 10.0.' + next + '.1; done' },
            stream: { app: `source -t 1000h -r 1mbit 10.0.${next}.1`, after: [`m${next}.sink`] },
          },
        },
      ];
    }),
  ),
  wires: Object.fromEntries(Array.from({ length: MACHINES }, (_, at) => [`w${at}`, { delay: '5ms', loss: '0.1%' }])),
};

/** Resident memory of a process, MB. */
function resident(pid: number): number {
  const kb = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1];
  return Number(kb) / 1000;
}

const daemon = await Daemon.start();
const browser = await launch('none');
let failed = false;
try {
  await daemon.ask('PUT', `/labs/${name}`, { spec, folder: '/tmp', new: true, env: { PATH: process.env.PATH } });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.on('pageerror', (error) => console.error(`page: ${error.stack}`));
  await page.goto(daemon.vink('ui', '--share', 'soak', '--role', 'own', name).trim());
  await page.waitForFunction((nodes) => globalThis.vink?.stats().nodes === nodes, MACHINES);
  const session = await page.context().newCDPSession(page);
  const { workers } = await daemon.ask<{ workers: { pid: number }[] }>('GET', `/labs/${name}`);
  const rows: { page: number; daemon: number; worker: number }[] = [];
  for (let time = 0; time <= TIMES; time++) {
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize, backingStorageSize = 0 } = (await session.send('Runtime.getHeapUsage')) as {
      usedSize: number;
      backingStorageSize?: number;
    };
    const row = {
      page: (usedSize + backingStorageSize) / 1e6,
      daemon: resident(daemon.process.pid!),
      worker: resident(workers[0]!.pid),
    };
    rows.push(row);
    const minute = ((time * Number(values.minutes)) / TIMES).toFixed(2);
    const figures = Object.entries(row).map(([what, mb]) => `${what} ${mb.toFixed(1)} MB`);
    const kept = await page.evaluate(() => globalThis.vink.stats().kept);
    console.log(`minute ${minute}: ${figures.join(', ')}, ${kept} flights kept`);
    if (time < TIMES) await page.waitForTimeout((Number(values.minutes) * 60_000) / TIMES);
  }
  for (const what of ['page', 'daemon', 'worker'] as const) {
    const settled = rows.slice(TIMES / 4).map((row) => row[what]);
    const mean = (part: number[]) => part.reduce((sum, mb) => sum + mb, 0) / part.length;
    const quarter = Math.floor(settled.length / 3);
    const growth = mean(settled.slice(-quarter)) / mean(settled.slice(0, quarter)) - 1;
    const isFlat = growth <= MOST_GROWTH;
    failed ||= !isFlat;
    console.log(
      `${what}: ${(100 * growth).toFixed(1)} % more in the last quarter than in the second${isFlat ? '' : ': too much'}`,
    );
  }
} finally {
  await browser.close();
  await daemon.stop();
}
process.exitCode = failed ? 1 : 0;
