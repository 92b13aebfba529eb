// A teacher's page: all labs at once, with the users, tasks and terminals in each, as they are now.
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { accessibility, ask, close, open, until } from './harness.ts';

const make = (name: string) =>
  ask('PUT', `/labs/${name}`, { spec: { name, machines: { alice: {} } }, folder: '/tmp', new: true });
const of = (page: Page, lab: string) => page.getByRole('region', { name: `Lab ${lab}` });

test('a_teacher_sees_what_each_student_does', async () => {
  await make('annas');
  await make('bens');
  const evil = '<b id=evil>anna</b>';
  const anna = await open('#/lab/annas?panel=notes', { name: evil, role: 'operate' });
  const ben = await open('#/lab/bens?panel=terminals', { name: 'ben', role: 'operate' });
  const teacher = await open('#/', { name: 'teacher', role: 'view' });
  await teacher.getByRole('link', { name: /^Class/ }).click();
  await of(teacher, 'annas').getByRole('link', { name: evil }).waitFor();
  await of(teacher, 'bens').getByRole('link', { name: 'ben', exact: true }).waitFor();

  // A hand, and a task.
  await anna.getByRole('tab', { name: /^People/ }).click();
  await anna.getByRole('button', { name: 'Raise a hand' }).click();
  await of(teacher, 'annas').getByText('raises a hand').waitFor();
  await teacher.getByText('raised hands: 1').waitFor();
  await anna.getByRole('tab', { name: 'Notes' }).click();
  await anna.getByLabel('New task').fill('<i id=evil>ping</i>');
  await anna.getByRole('button', { name: 'Add' }).click();
  await anna.getByRole('checkbox', { name: 'ping' }).check();
  await of(teacher, 'annas').getByText(`done by ${evil}`).waitFor();
  expect(await teacher.locator('#evil').count()).toBe(0);

  // A terminal, live; nothing that is typed here gets there.
  await ben.getByLabel('Shell on').selectOption('alice');
  const shell = of(teacher, 'bens').getByRole('article', { name: 'Terminal alice: bash of ben' });
  await shell.waitFor();
  await until(async () => /alice/.test((await shell.textContent()) ?? ''));
  const own = ben.getByRole('group', { name: 'Terminal of alice' });
  await own.click();
  await ben.keyboard.type('echo "<u id=evil>$((40 + 2))</u>"\n');
  await until(async () => ((await shell.textContent()) ?? '').includes('<u id=evil>42</u>'));
  await shell.locator('.screen').click({ force: true });
  await teacher.keyboard.type('echo "by the teacher $((1 + 1))"\n');
  await ben.keyboard.type('echo "after $((2 + 3))"\n');
  await until(async () => ((await shell.textContent()) ?? '').includes('after 5'));
  expect(await own.textContent()).not.toContain('by the teacher');
  expect(await teacher.locator('#evil').count()).toBe(0);
  expect(await accessibility(teacher)).toEqual([]);

  // It is a click away, and it is gone when it ends. A lab that is new is there, and one that ends is not.
  await make('caras');
  await of(teacher, 'caras').getByText('No page is here.').waitFor();
  await close(anna);
  await of(teacher, 'annas').getByText('No page is here.').waitFor();
  await ask('DELETE', '/labs/annas');
  await of(teacher, 'annas').waitFor({ state: 'detached' });
  await shell.getByRole('link').click();
  await until(() => /#\/lab\/bens\?sel=alice&panel=terminals/.test(teacher.url()));
  for (const page of [ben, teacher]) await close(page);
});
