// Terminals are the lab's: they outlive a page, others look on, one types, and what they write is text.
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { accessibility, ask, close, open, until, vink } from './harness.ts';

const terminalOf = (page: Page, machine: string) => page.getByRole('group', { name: `Terminal of ${machine}` });
const sees = (page: Page, machine: string, text: string) =>
  until(async () => ((await terminalOf(page, machine).textContent()) ?? '').includes(text));

test('a_terminal_outlives_its_page_and_others_look_on', async () => {
  await ask('PUT', '/labs/kept', { spec: { name: 'kept', machines: { alice: {} } }, folder: '/tmp', new: true });
  const first = await open('#/lab/kept?panel=terminals', { role: 'operate' });
  await first.getByLabel('Shell on').selectOption('alice');
  await until(async () => /alice/.test((await terminalOf(first, 'alice').textContent()) ?? ''));
  await first.keyboard.type('x=41; echo "left $((x + 1))"\n');
  await sees(first, 'alice', 'left 42');
  await close(first);

  // The page is opened again: its user's terminal is there, with what was written, and goes on.
  const again = await open('#/lab/kept?panel=terminals', { role: 'operate' });
  await sees(again, 'alice', 'left 42');
  await until(async () => vink('attach', 'kept', '--json').includes('"keyboard": "guest"'));
  await terminalOf(again, 'alice').click();
  await again.keyboard.type('echo "back $((x + 2))"\n');
  await sees(again, 'alice', 'back 43');

  // Another browser, which may only look, sees it live, and what it types is not used.
  const other = await open('#/lab/kept?panel=terminals', { role: 'view' });
  await sees(other, 'alice', 'back 43');
  await other.getByText('guest has the keyboard.').waitFor();
  expect(await other.getByRole('button', { name: 'Take the keyboard' }).count()).toBe(0);
  await terminalOf(other, 'alice').click();
  await other.keyboard.type('echo "stolen $((1 + 1))"\n');
  await again.getByText('One other looks on').waitFor();
  await again.keyboard.type('echo "live $((x + 3))"\n');
  for (const page of [again, other]) {
    await sees(page, 'alice', 'live 44');
    expect(await terminalOf(page, 'alice').textContent()).not.toContain('stolen 2');
  }
  expect(await accessibility(other)).toEqual([]);
  await close(other);

  // One that may type takes the keyboard by a button, and the first is told.
  const taker = await open('#/lab/kept?panel=terminals', { role: 'own', viewport: { width: 900, height: 700 } });
  await taker.getByRole('button', { name: 'Take the keyboard' }).click();
  await again.getByText('guest has the keyboard.').waitFor();
  await taker.keyboard.type('echo "taken $((x + 4))"\n');
  for (const page of [again, taker]) await sees(page, 'alice', 'taken 45');

  // It ends with its tab.
  await taker.getByRole('button', { name: 'End the terminal of alice' }).click();
  await until(() => vink('attach', 'kept', '--json').trim() === '[]');
  await close(again);
  await close(taker);
});

test('what_a_terminal_writes_is_text', async () => {
  await ask('PUT', '/labs/evil', { spec: { name: 'evil', machines: { alice: {} } }, folder: '/tmp', new: true });
  const page = await open('#/lab/evil?panel=terminals');
  await page.getByLabel('Shell on').selectOption('alice');
  await until(async () => /alice/.test((await terminalOf(page, 'alice').textContent()) ?? ''));
  await page.keyboard.type(
    String.raw`printf '<b id=evil>%s</b>\033]52;c;ZXZpbA==\007\033]0;<i id=evil>\007' "$((40 + 2))"` + '\n',
  );
  await sees(page, 'alice', '<b id=evil>42</b>');
  expect(await page.locator('#evil').count()).toBe(0);
  await close(page);
});
