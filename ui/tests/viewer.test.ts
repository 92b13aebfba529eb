// A picture saved as a page: it plays what was kept, needs nothing else, and no name in it is HTML.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { build } from 'vite';
import { Stand } from '../bench/stand.ts';
import { encode } from '../src/canvas/feed.ts';
import type { Picture } from '../src/canvas/picture.ts';
import { page as html } from '../src/viewer/snapshot.ts';

declare const globalThis: { vink: { picture: Picture }; hurt?: boolean } & typeof window;

const NAME = '</script><script>globalThis.hurt = true</script><!-- <img src=x onerror="globalThis.hurt = true">';
let stand: Stand;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vink-viewer-'));
  await build({
    configFile: new URL('../vite.viewer.ts', import.meta.url).pathname,
    logLevel: 'error',
    build: { outDir: folder },
  });
  stand = await Stand.make('none');
  stand.put('lab', {
    topology: {
      machines: ['a', NAME].map((name) => ({ name, kind: 'machine', state: 'running' })),
      wires: [
        {
          name: 'w',
          ends: [
            [0, 'eth0'],
            [1, 'eth0'],
          ],
          state: 'up',
        },
      ],
    },
    positions: [-200, 0, 200, 0],
  });
}, 120_000);
afterAll(async () => {
  await stand?.close();
  rmSync(folder, { recursive: true });
});

test('a_saved_picture_plays_what_was_kept', async () => {
  const page = await stand.open('backend=auto&lab=lab');
  const flights = [0, 1, 2].map((nth) => ({
    end: nth % 2,
    sent: nth * 1_000_000_000,
    lasts: 500_000,
    id: nth,
    length: 64,
    class: nth,
    fate: 0,
    aux: 0,
  }));
  const bytes = [...new Uint8Array(encode({ base: 7_000_000_000n }, flights))];
  const snapshot = await page.evaluate((bytes) => {
    globalThis.vink.picture.flights(Uint8Array.from(bytes).buffer);
    return globalThis.vink.picture.snapshot('a lab');
  }, bytes);
  await page.close();

  const file = join(folder, 'saved.html');
  writeFileSync(file, html(snapshot, readFileSync(join(folder, 'viewer.js'), 'utf8')));
  const saved = await stand.browser.newPage();
  const asked: string[] = [];
  const failed: string[] = [];
  saved.on('request', (request) => asked.push(request.url()));
  saved.on('pageerror', (error) => failed.push(String(error)));
  await saved.goto(`file://${file}`);
  await saved.waitForFunction('globalThis.vink');
  const stats = () =>
    saved.evaluate(() => {
      const { now, from, to, flights, kept, nodes } = globalThis.vink.picture.stats();
      return { now: Number(now), from: Number(from), to: Number(to), flights, kept, nodes };
    });
  expect(await stats()).toMatchObject({ now: 7e9, from: 7e9, to: 9.5e9, kept: 3, nodes: 2 });
  expect(await saved.title()).toBe('a lab');
  // Any time can be chosen; then it plays to the end.
  await saved.getByRole('slider', { name: 'Time' }).fill('5000');
  expect((await stats()).now).toBe(8.25e9);
  await saved.waitForFunction(() => globalThis.vink.picture.stats().flights === 1);
  await saved.getByRole('combobox', { name: 'Speed' }).selectOption('10');
  await saved.getByRole('button', { name: 'Play' }).click();
  await saved.getByRole('button', { name: 'Play' }).waitFor();
  expect((await stats()).now).toBeGreaterThanOrEqual(9.5e9);
  expect(await saved.evaluate(() => globalThis.hurt)).toBeUndefined();
  expect(await saved.locator('img').count()).toBe(0);
  expect(failed).toEqual([]);
  expect(asked).toEqual([`file://${file}`]);
  await saved.close();
});
