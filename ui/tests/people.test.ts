// Several pages on one lab, and names that want to be more than text.
import { expect, test } from 'vitest';
import { ask, close, open, stats, until, vink } from './harness.ts';

const pair = (name: string, more: object = {}) => ({
  name,
  machines: {
    a: { interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.1/24'] } }, ...more },
    b: { interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.2/24'] } } },
  },
  wires: { w1: {} },
});

test('two_browsers_see_each_others_changes', async () => {
  await ask('PUT', '/labs/shared', { spec: pair('shared'), folder: '/tmp', new: true });
  const [one, other] = [await open('#/lab/shared?sel=wire%3Aw1'), await open('#/lab/shared?sel=wire%3Aw1')];
  await other.getByRole('button', { name: 'Plug out' }).waitFor();

  await one.getByRole('button', { name: 'Plug out' }).click();
  await other.getByRole('button', { name: 'Plug in' }).waitFor();
  // What the command line does, both see.
  vink('wire', 'set', '--lab', 'shared', 'w1', 'delay', '7ms');
  for (const page of [one, other]) await page.getByRole('row', { name: 'w1' }).waitFor();
  for (const page of [one, other]) await until(async () => (await page.getByLabel('delay').inputValue()) === '7ms');

  // A machine that one draws is in the other's picture.
  await one.getByRole('button', { name: '+ Router' }).click();
  await one.getByRole('button', { name: 'Draw it' }).click();
  await other.getByRole('row', { name: 'r1' }).waitFor();
  await until(async () => (await stats(other)).nodes === 3);

  // Undo takes back what one has done, and not what the other did meanwhile.
  await other.getByRole('button', { name: '+ Machine' }).click();
  await other.getByRole('button', { name: 'Draw it' }).click();
  await one.getByRole('row', { name: 'm1' }).waitFor();
  await one.getByRole('button', { name: 'Undo' }).click();
  await other.getByRole('row', { name: 'r1' }).waitFor({ state: 'detached' });
  await other.getByRole('row', { name: 'm1' }).waitFor();
  await close(one);
  await close(other);
});

test('a_refusal_shows_at_its_field', async () => {
  await ask('PUT', '/labs/refused', { spec: pair('refused'), folder: '/tmp', new: true });
  const page = await open('#/lab/refused?sel=wire%3Aw1');
  await page.getByText('More settings').click();
  await page.getByLabel('loss').fill('200%');
  await page.getByRole('button', { name: 'Apply' }).click();
  await until(async () => (await page.getByLabel('loss').getAttribute('aria-invalid')) === 'true');
  const said = await page.getByLabel('loss').getAttribute('aria-describedby');
  expect(await page.locator(`[id="${said}"]`).textContent()).toContain('200%');
  await page.getByLabel('loss').fill('2%');
  await page.getByRole('button', { name: 'Apply' }).click();
  await until(() => vink('wire', 'show', '--lab', 'refused', 'w1').includes('loss 2%'));
  await close(page);
});

test('hostile_names_and_outputs_are_text', async () => {
  const evil = '<img src=x onerror=alert(1)><b id=evil>';
  const programs = { 'x-name': { command: ['printf', '%s', evil] } };
  await ask('PUT', '/labs/hostile', { spec: pair('hostile', { programs }), folder: '/tmp', new: true });
  // A command line is in the list of programs, and its output below it.
  const page = await open('#/lab/hostile?sel=a');
  page.on('dialog', () => expect.unreachable('a script of a name has run'));
  await page.getByText(evil).first().waitFor();
  await page.getByRole('button', { name: 'Output' }).click();
  await page.getByRole('region', { name: 'x-name' }).getByText(evil).waitFor();
  // What a terminal is sent, escape sequences among it, and what a packet carries.
  await page.getByRole('tab', { name: 'Packets' }).click();
  await page.getByRole('button', { name: /^Watch a:eth0/ }).click();
  await page.getByRole('tab', { name: 'Terminals' }).click();
  await page.getByLabel('Shell on').selectOption('a');
  const terminal = page.getByRole('group', { name: 'Terminal of a' });
  await until(async () => /a/.test((await terminal.textContent()) ?? ''));
  await page.keyboard.type(`printf '%s\\033]52;c;ZXZpbA==\\a\\n' '${evil}'; echo '${evil}' > /dev/udp/10.0.0.2/53\n`);
  await terminal.getByText('onerror').first().waitFor();
  await page.getByRole('tab', { name: 'Packets' }).click();
  await page.getByText(/UDP/).first().waitFor();
  expect(await page.locator('#evil, img').count()).toBe(0);
  // And in the lab file.
  await page.getByRole('tab', { name: 'Lab file' }).click();
  await page.locator('.cm-content').getByText('onerror').waitFor();
  // A name in the address that no lab has.
  expect(await page.locator('#evil, img').count()).toBe(0);
  await page.goto(page.url().replace(/#.*/, `#/lab/${encodeURIComponent(evil)}`));
  await page.getByRole('heading', { name: evil, level: 1 }).first().waitFor();
  expect(await page.locator('#evil, img').count()).toBe(0);
  await close(page);
});

test('a_page_that_may_view_changes_nothing', async () => {
  await ask('PUT', '/labs/watched', { spec: pair('watched'), folder: '/tmp', new: true });
  const page = await open('#/lab/watched?sel=wire%3Aw1', { role: 'view' });
  await page.getByText('may view').waitFor();
  await page.getByRole('button', { name: 'Plug out' }).click();
  await page.getByRole('alert').getByText('✕').first().waitFor();
  expect(vink('wire', 'show', '--lab', 'watched', 'w1')).toMatch(/^wire w1: up,/);
  // The link that let it in is used up: a reload keeps the session of this tab, and nothing else has it.
  await page.reload();
  await page.getByText('may view').waitFor();
  await close(page);
});
