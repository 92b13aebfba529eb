// What the tests of the page share: a control process of their own, a browser, and labs.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFailed } from 'vitest';

const UI = dirname(dirname(fileURLToPath(import.meta.url)));
export const ROOT = dirname(UI);
const VINK = process.env.VINK_EXECUTABLE ?? join(ROOT, 'target/debug/vink');
/** How long something may take that is waited for: long enough for a busy machine. */
export const LONGEST_MS = Number(process.env.VINK_WAIT_MS ?? 60_000);

let runtime: string;
let daemon: ChildProcess;
/** Where the page is if this vink has no `vink ui` yet. */
export let browser: Browser;

/** Runs `vink` beside the page. */
export function vink(...words: string[]): string {
  return execFileSync(VINK, words, { cwd: ROOT, encoding: 'utf8', env: environment() });
}

function environment(): NodeJS.ProcessEnv {
  return { ...process.env, VINK_RUNTIME: runtime };
}

/** A request to the control process, without the page. */
export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        socketPath: join(runtime, 'control.sock'),
        method,
        path: `/v1${path}`,
        headers: { host: 'localhost', 'content-type': 'application/json' },
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        answer.on('end', () => {
          if (answer.statusCode! >= 300) reject(new Error(text));
          else resolve((text ? JSON.parse(text) : undefined) as T);
        });
      },
    );
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

beforeAll(async () => {
  runtime = mkdtempSync(join(tmpdir(), 'vui'));
  daemon = spawn(VINK, ['daemon'], { env: environment(), stdio: ['ignore', 'ignore', 'inherit'] });
  await until(() => existsSync(join(runtime, 'control.sock')));
  browser = await chromium.launch({
    executablePath: process.env.VINK_CHROMIUM ?? '/usr/bin/chromium',
    args: [
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
      '--use-angle=swiftshader',
      '--enable-unsafe-swiftshader',
    ],
  });
}, LONGEST_MS);

afterAll(async () => {
  await browser?.close();
  if (daemon) {
    const ended = new Promise((resolve) => daemon.once('exit', resolve));
    daemon.kill('SIGTERM');
    await ended;
  }
  if (runtime) rmSync(runtime, { recursive: true, force: true });
}, LONGEST_MS);

/** A page in a browser of its own, with nothing of another; it fails its test by an error of a script. */
export async function open(hash = '#/', options: BrowserContextOptions & { role?: string } = {}): Promise<Page> {
  const { role = 'own', ...more } = options;
  const made = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'light', ...more });
  const page = await made.newPage();
  page.setDefaultTimeout(LONGEST_MS);
  // What was to be seen when a test failed.
  onTestFailed(async () =>
    console.log(page.isClosed() ? 'the page is closed' : await page.locator('body').ariaSnapshot()),
  );
  page.on('pageerror', (error) => failures.push(String(error)));
  page.on('console', (message) => {
    // What the server refuses is shown in the page, and Chromium tells of it, too.
    if (message.type() === 'error' && !message.text().includes('Failed to load resource'))
      failures.push(message.text());
  });
  // A link that is good once, and then the view.
  await page.goto(vink('ui', '--share', 'guest', '--role', role).trim());
  await page.getByRole('heading', { name: 'Labs', exact: true }).waitFor();
  if (hash !== '#/') await page.evaluate((to) => (location.hash = to), hash);
  return page;
}

/** Errors that pages have told of. */
export const failures: string[] = [];

export async function close(page: Page): Promise<void> {
  await page.context().close();
  expect(failures.splice(0)).toEqual([]);
}

/** Waits until something holds. */
export async function until(holds: () => unknown): Promise<void> {
  const end = performance.now() + LONGEST_MS;
  for (;;) {
    if (await holds()) return;
    if (performance.now() > end) throw new Error(`after ${LONGEST_MS} ms not yet: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Numbers of the picture: what is drawn. */
export function stats(page: Page): Promise<Record<string, number | string>> {
  return page.evaluate(() => {
    const { vink } = window as unknown as { vink: { stats(): Record<string, number | string | bigint> } };
    return JSON.parse(JSON.stringify(vink.stats(), (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
  });
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
