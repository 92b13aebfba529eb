// A control process of one's own, and what is asked of it beside the page: by `vink`, and by the API.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const VINK = process.env.VINK_EXECUTABLE ?? join(ROOT, 'target/debug/vink');
/** How long something may take that is waited for: long enough for a busy machine. */
export const LONGEST_MS = Number(process.env.VINK_WAIT_MS ?? 60_000);

export class Daemon {
  /** Its runtime folder, where its socket is. */
  readonly folder: string;
  readonly process: ChildProcess;

  private constructor(folder: string, process: ChildProcess) {
    this.folder = folder;
    this.process = process;
  }

  static async start(): Promise<Daemon> {
    const folder = mkdtempSync(join(tmpdir(), 'vui'));
    const env = { ...process.env, VINK_RUNTIME: folder };
    const daemon = new Daemon(folder, spawn(VINK, ['daemon'], { env, stdio: ['ignore', 'ignore', 'inherit'] }));
    await until(() => existsSync(join(folder, 'control.sock')));
    return daemon;
  }

  /** Runs `vink` beside the page: what it wrote. */
  vink(...words: string[]): string {
    const env = { ...process.env, VINK_RUNTIME: this.folder };
    return execFileSync(VINK, words, { cwd: ROOT, encoding: 'utf8', env });
  }

  /** A request without the page. */
  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    return new Promise((resolve, reject) => {
      const asked = request(
        {
          socketPath: join(this.folder, 'control.sock'),
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

  /** Ends it, and its labs with it. */
  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill('SIGTERM');
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
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
