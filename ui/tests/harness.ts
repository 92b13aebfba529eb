// What the tests of the page share: a control process of their own, a browser, and labs.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import axe from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFailed } from 'vitest';
import { launch } from '../bench/browser.ts';
import { Daemon, LONGEST_MS, ROOT, until } from '../bench/daemon.ts';

export { LONGEST_MS, ROOT, until };

let daemon: Daemon;
export let browser: Browser;

/** Runs `vink` beside the page. */
export function vink(...words: string[]): string {
  return daemon.vink(...words);
}

/** A request to the control process, without the page. */
export function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  return daemon.ask(method, path, body);
}

beforeAll(async () => {
  daemon = await Daemon.start();
  browser = await launch('swiftshader');
}, LONGEST_MS);

afterAll(async () => {
  await browser?.close();
  await daemon?.stop();
}, LONGEST_MS);

/** Whose page it is, and what it may do. */
interface Guest {
  role?: string;
  name?: string;
}

/** A page in a browser of its own, with nothing of another; it fails its test by an error of a script. */
export async function open(hash = '#/', options: BrowserContextOptions & Guest = {}): Promise<Page> {
  const { role = 'own', name = 'guest', ...more } = options;
  const made = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'light', ...more });
  const page = await made.newPage();
  page.setDefaultTimeout(LONGEST_MS);
  // What was to be seen when a test failed.
  onTestFailed(async () =>
    console.log(page.isClosed() ? 'the page is closed' : await page.locator('body').ariaSnapshot()),
  );
  page.on('pageerror', (error) => failures.push(String(error)));
  page.on('console', (message) => {
    // What the server refuses is shown in the page, and Chromium tells of it, too; so it does of a WebSocket whose lab
    // is being taken down.
    const isRefused = /Failed to load resource|WebSocket handshake: Unexpected response code: 404/.test(message.text());
    if (message.type() === 'error' && !isRefused) failures.push(message.text());
  });
  // A link that is good once, and then the view.
  await page.goto(vink('ui', '--share', name, '--role', role).trim());
  await page.getByRole('heading', { name: 'Labs', exact: true }).waitFor();
  if (hash !== '#/') await page.evaluate((to) => (location.hash = to), hash);
  return page;
}

/** Errors that pages have told of. */
export const failures: string[] = [];

/** The runtime folder of the control process. */
export const folder = () => daemon.folder;

export async function close(page: Page): Promise<void> {
  await page.context().close();
  expect(failures.splice(0)).toEqual([]);
}

/** Numbers of the picture: what is drawn. */
export function stats(page: Page): Promise<Record<string, number | string>> {
  return page.evaluate(() => {
    const { vink } = window as unknown as { vink: { stats(): Record<string, number | string | bigint> } };
    return JSON.parse(JSON.stringify(vink.stats(), (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
  });
}

/** Where a machine is in the picture: in the world, and in CSS pixels of the window. */
export async function spot(
  page: Page,
  machine: string,
): Promise<{ world: [number, number]; screen: [number, number] }> {
  const look = () =>
    page.evaluate((name) => {
      const { vink } = window as unknown as {
        vink?: { where(name: string): [number, number] | null; camera(): { x: number; y: number; scale: number } };
      };
      // The picture may be made anew at any time.
      const place = vink?.where(name);
      const canvas = document.querySelector('canvas');
      if (!vink || !place || !canvas) return null;
      const [px, py] = place;
      const { x, y, scale } = vink.camera();
      const box = canvas.getBoundingClientRect();
      return {
        world: [x + (px - box.width / 2) / scale, y + (py - box.height / 2) / scale] as [number, number],
        screen: [box.left + px, box.top + py] as [number, number],
      };
    }, machine);
  let seen: Awaited<ReturnType<typeof look>> = null;
  await until(async () => (seen = await look()) !== null);
  return seen!;
}

/** What axe-core finds wrong with the page: rule by rule, and where. */
export async function accessibility(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const { axe } = window as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> };
    };
    const { violations } = await axe.run();
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
    );
  });
}

/** With VINK_GOLDEN=write: what docs/ui.md shows of the page, docs/ui-NAME.webp. */
export async function picture(page: Page, name: string): Promise<void> {
  if (process.env.VINK_GOLDEN !== 'write') return;
  await page.evaluate(() => (window as unknown as { vink?: { shown(): Promise<void> } }).vink?.shown());
  const png = (await page.screenshot()).toString('base64');
  const other = await browser.newPage();
  const webp = await other.evaluate(async (data) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext('2d')!.drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.9);
  }, png);
  await other.close();
  writeFileSync(join(ROOT, `docs/ui-${name}.webp`), Buffer.from(webp.split(',')[1]!, 'base64'));
}
