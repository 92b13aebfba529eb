// A lab that is drawn from nothing, used, broken and stopped.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { close, open, stats, until, vink } from './harness.ts';

test('a_lab_is_drawn_from_nothing', async () => {
  const page = await open();
  await page.getByRole('button', { name: 'Draw a new lab…' }).click();
  await page.getByLabel('Name').fill('drawn');
  await page.getByLabel('Clock').selectOption('virtual');
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.getByRole('heading', { name: 'drawn', level: 1 }).waitFor();

  for (const name of ['alice', 'bob']) {
    await page.getByRole('button', { name: '+ Machine' }).click();
    await page.getByLabel('Name').fill(name);
    await page.getByRole('dialog').getByText(`vink machine add ${name} --lab drawn`).waitFor();
    await page.getByRole('button', { name: 'Draw it' }).click();
    await page.getByRole('row', { name }).waitFor();
  }
  await page.getByRole('button', { name: '+ Wire' }).click();
  await page.getByLabel('From').selectOption('alice');
  await page.getByLabel('To', { exact: true }).selectOption('bob');
  await page.getByRole('button', { name: 'Draw it' }).click();
  await page.getByRole('heading', { name: 'wire alice-bob' }).waitFor();
  await until(async () => (await stats(page)).wires === 1);

  await page.getByText('Click on a packet to follow its flow.').waitFor();
  // The lab is what was drawn.
  expect(vink('exec', '--lab', 'drawn', 'alice', '--', 'ping', '-c', '2', 'bob')).toContain('2 received');
  // Each hop of it has been under way in the picture: two requests, two replies, and ARP before.
  await until(async () => ((await stats(page)).kept as number) >= 6);
  // The picture can be given to others, as a page that plays them (viewer.test.ts).
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command' }).fill('save the picture');
  const [saved] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('Enter')]);
  expect(saved.suggestedFilename()).toBe('drawn.html');
  expect(readFileSync(await saved.path(), 'utf8')).toContain('"name":"alice"');

  // Its wire is broken by a button.
  await page.getByRole('button', { name: 'Plug out' }).click();
  await page.getByText('plugged out', { exact: false }).first().waitFor();
  expect(() => vink('exec', '--lab', 'drawn', 'alice', '--', 'ping', '-c', '1', '-W', '1', 'bob')).toThrow();
  await page.getByTestId('line').getByText('vink wire down alice-bob --lab drawn').waitFor();

  // Undo plugs it in.
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('● plugged in').waitFor();
  await close(page);
});
