// A picture in a browser without the rest of the page: page.ts built, served, and Debian's Chromium, headless. The bench and
// the picture's tests use it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { build, preview } from 'vite';
import { launch } from './browser.ts';

export class Stand {
  readonly browser: Browser;
  readonly #folder: string;
  readonly #url: string;
  readonly #stop: () => Promise<void>;

  private constructor(browser: Browser, folder: string, url: string, stop: () => Promise<void>) {
    this.browser = browser;
    this.#folder = folder;
    this.#url = url;
    this.#stop = stop;
  }

  /** `gpu` is as in browser.ts. */
  static async make(gpu: string): Promise<Stand> {
    const folder = mkdtempSync(join(tmpdir(), 'vink-picture-'));
    const root = import.meta.dirname;
    await build({
      root,
      base: './',
      configFile: false,
      logLevel: 'error',
      build: { outDir: folder, target: 'es2022' },
      worker: { format: 'es' },
    });
    const server = await preview({
      root,
      configFile: false,
      logLevel: 'error',
      build: { outDir: folder },
      preview: { host: '127.0.0.1', port: 0 },
    });
    const browser = await launch(gpu);
    return new Stand(browser, folder, server.resolvedUrls!.local[0]!, () => server.close());
  }

  /** A lab that pages can ask for by this name. */
  put(name: string, lab: unknown): void {
    writeFileSync(join(this.#folder, `${name}.json`), JSON.stringify(lab));
  }

  /** A page with what page.ts reads from its address. */
  async open(asked: string, options: BrowserContextOptions = {}): Promise<Page> {
    const page = await this.browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
    page.on('pageerror', (error) => console.error(`page: ${error.stack}`));
    page.on('console', (line) => line.type() === 'error' && console.error(`page: ${line.text()}`));
    await page.goto(`${this.#url}?${asked}`);
    await page.waitForFunction('globalThis.vink');
    return page;
  }

  async close(): Promise<void> {
    await this.browser.close();
    await this.#stop();
    rmSync(this.#folder, { recursive: true });
  }
}
