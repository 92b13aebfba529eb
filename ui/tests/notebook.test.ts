// A lab in a notebook: JupyterLab, its kernel, and the picture below a cell, also while another cell runs.
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFailed, test } from 'vitest';
import { browser, failures, LONGEST_MS, ROOT, stats, until } from './harness.ts';

const TOKEN = 'of-this-test';
const CELLS = [
  `import vink
lab = vink.Lab()
lab.wire(lab.machine("a"), lab.machine("b"), delay="200ms")
lab.up()
first = lab["a"].popen("until [ -e seen ]; do ping -c 1 b; done")
view = lab.view()
view`,
  'done = lab["a"].run("until [ -e enough ]; do ping -c 1 b; done"); print("all", done.returncode)',
  `from vink.view import View
[View._answer(view, *asked)[0] for asked in [("DELETE", f"/v1/labs/{lab.name}"), ("GET", "/v1/labs"), ("GET", "/v1/events")]]`,
  'lab.down(); print("it", "is", "down")',
];
let folder: string;
let jupyter: ChildProcess;
let port = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vnb'));
  const cells = CELLS.map((source, nth) => ({
    cell_type: 'code',
    id: `cell${nth}`,
    metadata: {},
    source,
    outputs: [],
    execution_count: null,
  }));
  const kernelspec = { name: 'python3', display_name: 'Python 3', language: 'python' };
  const notebook = { cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 };
  writeFileSync(join(folder, 'lab.ipynb'), JSON.stringify(notebook));
  const [config, data, runtime] = ['config', 'data', 'runtime'].map((name) => join(folder, '.jupyter', name));
  mkdirSync(runtime!, { recursive: true });
  const options = [
    '--no-browser',
    '--allow-root',
    '--ServerApp.ip=127.0.0.1',
    '--ServerApp.port=0',
    `--ServerApp.root_dir=${folder}`,
    `--IdentityProvider.token=${TOKEN}`,
    '--LabApp.news_url=None',
    '--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate',
  ];
  jupyter = spawn(join(ROOT, '.ci/python'), ['jupyter-lab', ...options], {
    stdio: ['ignore', 'ignore', process.env.VINK_SHOW ? 'inherit' : 'ignore'],
    detached: true,
    env: {
      ...process.env,
      HOME: folder,
      JUPYTER_CONFIG_DIR: config,
      JUPYTER_DATA_DIR: data,
      JUPYTER_RUNTIME_DIR: runtime,
      VINK_CACHE: process.env.VINK_CACHE ?? join(process.env.HOME!, '.cache/vink'),
      VINK_EXECUTABLE: process.env.VINK_EXECUTABLE ?? join(ROOT, 'target/debug/vink'),
      PYTHONPATH: join(ROOT, 'python/src'),
    },
  });
  await until(() => {
    if (jupyter.exitCode !== null) throw new Error(`jupyter-lab has ended with status ${jupyter.exitCode}`);
    const told = readdirSync(runtime!).find((name) => /^jpserver-\d+\.json$/.test(name));
    port = told ? JSON.parse(readFileSync(join(runtime!, told), 'utf8') || '{"port":0}').port : 0;
    return port;
  });
}, 2 * LONGEST_MS);

afterAll(async () => {
  if (jupyter?.exitCode === null) {
    const ended = new Promise((resolve) => jupyter.once('exit', resolve));
    process.kill(-jupyter.pid!, 'SIGTERM');
    await ended;
  }
  if (folder) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}, LONGEST_MS);

test('a_lab_is_seen_below_a_cell_while_another_one_runs', async () => {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
  page.setDefaultTimeout(LONGEST_MS);
  onTestFailed(async () => console.log(await page.locator('.jp-Notebook').innerText(), failures));
  page.on('pageerror', (error) => failures.push(String(error)));
  await page.goto(`http://127.0.0.1:${port}/lab/tree/lab.ipynb?token=${TOKEN}`);
  const cell = (nth: number) => page.locator('.jp-CodeCell').nth(nth);
  const prompt = (nth: number) => cell(nth).locator('.jp-InputPrompt').textContent();
  // A key that is pressed before JupyterLab has its kernel is lost.
  const run = (nth: number) =>
    until(async () => {
      await cell(nth).locator('.cm-content').click();
      if ((await prompt(nth)) === '[ ]:') await page.keyboard.press('Control+Enter');
      return (await prompt(nth)) !== '[ ]:';
    });
  await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor();

  await run(0);
  const canvas = cell(0).locator('section.vink canvas');
  await canvas.waitFor();
  await until(async () => (await stats(page)).nodes === 2);
  expect((await stats(page)).wires).toBe(1);

  // What the picture asks at first, it asks of a kernel that has nothing else to do.
  await until(async () => Number((await stats(page)).kept) > 4);
  writeFileSync(join(folder, 'seen'), '');

  // The cell waits for the file, so that it runs while packets are looked at.
  await run(1);
  const before = Number((await stats(page)).kept);
  await until(async () => Number((await stats(page)).kept) > before + 4);
  expect(await prompt(1)).toBe('[*]:');
  writeFileSync(join(folder, 'enough'), '');
  await cell(1).getByText('all 0', { exact: true }).waitFor();

  // It shows, and changes nothing, and only this lab.
  await run(2);
  await cell(2).getByText('[403, 403, 403]').waitFor();

  await run(3);
  await cell(3).getByText('it is down', { exact: true }).waitFor();
  await cell(0)
    .getByText(/no lab|is not|there is no/)
    .waitFor();
  await page.context().close();
  expect(failures.splice(0)).toEqual([]);
});
