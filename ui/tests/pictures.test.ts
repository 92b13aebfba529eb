// What docs/ui.md shows: a lab used as the page says, and with VINK_GOLDEN=write its pictures made anew.
import { expect, test } from 'vitest';
import { close, open, picture, stats, until, vink } from './harness.ts';

test('a_ready_lab_in_use', async () => {
  vink('lab', 'up', 'labs/firewall/lab.yaml');
  const page = await open('#/lab/firewall?sel=gateway&panel=terminals', { viewport: { width: 1200, height: 760 } });
  await page.getByLabel('Shell on').selectOption('desk');
  const terminal = page.getByRole('group', { name: 'Terminal of desk' });
  await until(async () => /desk/.test((await terminal.textContent()) ?? ''));
  await page.keyboard.type('ping -c 60 -i 0.2 198.51.100.7\n');
  await terminal.getByText('icmp_seq=8').first().waitFor();
  await until(async () => Number((await stats(page)).flights) >= 2);
  await page.getByRole('button', { name: 'Routes' }).click();
  await page.getByRole('region', { name: 'Routes' }).getByText('10.0.2.0/24 dev lan').waitFor();
  await picture(page, 'lab');
  await page.keyboard.press('Escape');

  // The gateway's outer wire, with a delay of one direction.
  await page.getByRole('row', { name: 'internet' }).click();
  await page.getByLabel('Of', { exact: true }).selectOption('gateway:wan');
  await page.getByLabel('delay').fill('80ms');
  await page.getByRole('button', { name: 'Apply' }).click();
  await until(() => vink('wire', 'show', '--lab', 'firewall', 'internet').includes('80ms'));

  // A mistake in the lab file, at its place.
  await page.getByRole('tab', { name: 'Lab file' }).click();
  const file = page.getByRole('textbox', { name: 'Lab file' });
  await file.getByText('rate').first().click();
  await page.keyboard.press('End');
  await page.keyboard.type('ly');
  await page.getByRole('button', { name: /^✕ Line/ }).waitFor();
  await page.mouse.move(0, 0);
  await picture(page, 'file');
  expect(await page.getByRole('button', { name: /^✕ Line/ }).textContent()).toMatch(/Line \d+: /);
  await close(page);
});
