// Seeks in a recorded run: from a time that is chosen until the picture of that time is drawn, in the page, by the clock.
import type { Browser, Page } from 'playwright-core';
import { LONGEST_MS, type Daemon } from './daemon.ts';

/** How long a time is looked at before the next one, ms: what was counted until then is asked for meanwhile. */
const LOOKED_MS = 300;
/** Its multiples are all over the numbers from 0 to 1, each far from the one before. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;

interface There {
  vink?: { seek(at: number): Promise<void>; stats(): { now: bigint; from: bigint; isPlacing: boolean } };
}
declare const globalThis: There;

/** Opens a run in a page of its own; its length is in ns. */
export async function openRun(
  daemon: Daemon,
  browser: Browser,
  folder: string,
): Promise<{ page: Page; length: number }> {
  const [run] = await daemon.ask<{ id: string }[]>('POST', '/runs', { path: folder });
  // That makes its index.
  const { nanoseconds: length } = await daemon.ask<{ nanoseconds: number }>('GET', `/runs/${run!.id}`);
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.on('pageerror', (error) => console.error(`page: ${error.stack}`));
  await page.goto(daemon.vink('ui', '--share', 'bench', '--role', 'own').trim());
  await page.evaluate((hash) => (location.hash = hash), `#/run/${run!.id}`);
  await page.waitForFunction(() => globalThis.vink?.stats().isPlacing === false, null, { timeout: LONGEST_MS });
  return { page, length };
}

/** So many times of a run, from the nth on. */
export function scattered(length: number, nth: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => Math.floor(length * (((nth + at + 1) * GOLDEN) % 1)));
}

/** Seeks these times (ns) one after the other: ms for each. */
export function seek(page: Page, times: number[]): Promise<number[]> {
  return page.evaluate(
    async ([times, looked]) => {
      const vink = globalThis.vink!;
      const took: number[] = [];
      for (const at of times) {
        const start = performance.now();
        await vink.seek(at);
        took.push(performance.now() - start);
        const { now, from } = vink.stats();
        if (Number(now) !== at || from > now)
          throw new Error(`sought ${at}: the picture is at ${now}, from ${from} on`);
        await new Promise((resolve) => setTimeout(resolve, looked));
      }
      return took;
    },
    [times, LOOKED_MS] as const,
  );
}
