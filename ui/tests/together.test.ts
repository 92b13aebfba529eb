// Several users in one lab's picture: what each of them sees of the others.
import { expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { accessibility, ask, close, folder, open, spot, until, vink } from './harness.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ring = (name: string) => ({
  name,
  machines: Object.fromEntries(
    ['a', 'b', 'c'].map((machine, at) => [
      machine,
      { interfaces: { eth0: { wire: `w${at}` }, eth1: { wire: `w${(at + 1) % 3}` } } },
    ]),
  ),
  wires: { w0: {}, w1: {}, w2: {} },
});
const lab = (name: string) => ask('PUT', `/labs/${name}`, { spec: ring(name), folder: '/tmp', new: true });

/** Two places are the same, as far as they are kept. */
const same = ([ax, ay]: [number, number], [bx, by]: [number, number]) => Math.hypot(ax - bx, ay - by) < 0.5;

async function drag(page: Page, machine: string, dx: number, dy: number) {
  const { screen } = await spot(page, machine);
  await page.mouse.move(...screen);
  await page.mouse.down();
  await page.mouse.move(screen[0] + dx, screen[1] + dy, { steps: 4 });
  await page.mouse.up();
}

/** The picture has come to rest. */
async function rests(page: Page) {
  let last = '';
  await until(async () => {
    const before = last;
    last = JSON.stringify(await Promise.all(['a', 'b', 'c'].map((name) => spot(page, name))));
    return last === before;
  });
}

const people = (page: Page) => page.getByRole('tab', { name: /^People/ });

test('positions_are_the_same_for_all', async () => {
  await lab('placed');
  const [one, other] = [await open('#/lab/placed', { name: 'anna' }), await open('#/lab/placed', { name: 'ben' })];
  await people(one).getByText('(2)').waitFor();
  await rests(one);
  await drag(one, 'a', 80, -30);
  const { world } = await spot(one, 'a');
  await until(async () => same((await spot(other, 'a')).world, world));
  // Both at once, each another machine.
  await rests(other);
  await Promise.all([drag(one, 'b', -40, 20), drag(other, 'c', 50, 40)]);
  await until(async () => same((await spot(one, 'c')).world, (await spot(other, 'c')).world));
  await until(async () => same((await spot(one, 'b')).world, (await spot(other, 'b')).world));
  const joiner = await open('#/lab/placed', { name: 'cara', role: 'view' });
  for (const name of ['a', 'b', 'c']) {
    const { world } = await spot(one, name);
    await until(async () => same((await spot(joiner, name)).world, world));
  }
  // A user with the role view moves a machine in its own page alone, and nothing is refused.
  await rests(joiner);
  await drag(joiner, 'a', 30, 30);
  await drag(one, 'b', 20, 20);
  await until(async () => same((await spot(joiner, 'b')).world, (await spot(one, 'b')).world));
  expect(same((await spot(one, 'a')).world, world)).toBe(true);
  expect(await joiner.getByRole('alert').textContent()).toBe('');
  for (const page of [one, other, joiner]) await close(page);
});

test('users_see_each_other_and_one_follows_another', async () => {
  await lab('seen');
  const evil = '<b id=evil>';
  const anna = await open('#/lab/seen', { name: 'anna' });
  const ben = await open('#/lab/seen?panel=people', { name: evil, role: 'view' });
  await ben.getByRole('listitem').filter({ hasText: 'anna' }).getByText('own').waitFor();
  await people(anna).click();
  await anna.getByRole('listitem').filter({ hasText: evil }).getByText('view').waitFor();
  expect(await anna.locator('#evil').count()).toBe(0);

  // What one points at and selects.
  await rests(anna);
  const at = await spot(anna, 'b');
  await anna.mouse.move(at.screen[0] + 60, at.screen[1] + 10);
  await ben.locator('svg .pointer').getByText('anna').waitFor({ state: 'attached' });
  await ben.getByRole('button', { name: 'Follow anna' }).click();
  await anna.getByRole('row', { name: 'a', exact: true }).click();
  await until(() => ben.url().includes('sel=a'));
  await anna.getByRole('tab', { name: 'Plots' }).click();
  await until(() => ben.url().includes('panel=plots'));
  await anna.locator('canvas').first().hover();
  await anna.mouse.wheel(0, -600);
  const scale = (page: Page) =>
    page.evaluate(() => (window as unknown as { vink: { camera(): { scale: number } } }).vink.camera().scale);
  // Their canvases need not be as large.
  await until(async () => Math.abs((await scale(ben)) / (await scale(anna)) - 1) < 0.2);
  await ben.getByText('following anna').waitFor();
  await ben.getByRole('button', { name: 'Stop following' }).first().click();
  await ben.getByText('following anna').waitFor({ state: 'detached' });

  // A hand, and all go along.
  await people(ben).click();
  await ben.getByRole('button', { name: 'Raise a hand' }).click();
  await anna.getByRole('button', { name: 'Raised hands: 1' }).click();
  await anna.getByText('raises a hand').first().waitFor();
  await anna.getByRole('button', { name: 'Present: all follow' }).click();
  await ben.getByText('anna presents').waitFor();
  await anna.getByRole('tab', { name: 'Events' }).click();
  await until(() => !ben.url().includes('panel='));
  expect(await accessibility(anna)).toEqual([]);
  // A page that may view can't present.
  await people(ben).click();
  expect(await ben.getByRole('button', { name: 'Present' }).count()).toBe(0);
  await close(ben);
  await people(anna).getByText('(2)').waitFor({ state: 'detached' });
  await close(anna);
});

test('a_view_is_saved_and_chosen_by_others', async () => {
  await lab('kept');
  const anna = await open('#/lab/kept', { name: 'anna' });
  const ben = await open('#/lab/kept', { name: 'ben', role: 'view' });
  const camera = (page: Page) =>
    page.evaluate(() => {
      const { vink } = window as unknown as { vink: { camera(): { x: number; y: number; scale: number } } };
      const { x, y, scale } = vink.camera();
      return [x, y, scale];
    });
  const menu = (page: Page) => page.getByText('Views', { exact: true });
  const list = (page: Page) => page.getByRole('list', { name: 'Saved views' });
  await rests(anna);
  await rests(ben);
  // Where she looks, what she has selected and searches for, and colours, which are another's later.
  await anna.getByRole('row', { name: 'b', exact: true }).click();
  await anna.getByRole('tab', { name: 'Colours' }).click();
  await anna.getByLabel('Name 1').fill('of anna');
  const colours = anna.getByRole('tabpanel', { name: 'Colours' });
  await colours.getByRole('button', { name: 'Apply' }).click();
  await ben.getByText('of anna').waitFor();
  await anna.locator('#search').fill('name:b');
  await anna
    .locator('canvas')
    .first()
    .hover({ position: { x: 100, y: 80 } });
  await anna.mouse.wheel(0, -900);
  const seen = await camera(anna);
  await menu(anna).click();
  expect(await accessibility(anna)).toEqual([]);
  await anna.getByLabel('Save as').fill('  around b ');
  await anna.getByRole('button', { name: 'Save what is seen' }).click();
  await list(anna).getByRole('button', { name: 'around b', exact: true }).waitFor();
  await anna.getByRole('button', { name: 'As they were at first' }).click();
  await ben.getByText('of anna').waitFor({ state: 'detached' });

  // Another user chooses it, and may not save one.
  await menu(ben).click();
  await ben.getByText('The role draw may save some.').waitFor();
  await list(ben).getByRole('button', { name: 'around b', exact: true }).click();
  await until(() => ben.url().includes('sel=b') && ben.url().includes('panel=colours'));
  const near = (one: number[], other: number[]) => one.every((value, at) => Math.abs(value - other[at]!) < 0.01);
  await until(async () => near(await camera(ben), seen));
  expect(await ben.locator('#search').inputValue()).toBe('name:b');
  // The colours are in its own picture, and no others': the panel has those of all pages.
  await ben.getByRole('list', { name: 'What packets look like' }).getByText('of anna').waitFor();
  expect(await anna.getByText('of anna').count()).toBe(0);
  await menu(ben).click();
  await ben.getByRole('button', { name: 'Colours of all pages' }).click();
  await ben.getByText('of anna').waitFor({ state: 'detached' });

  // It is there for one that comes later, and in the file; then it is taken away.
  await ask('POST', '/labs/kept/views/save');
  const file = readFileSync(join(folder(), 'labs/kept/kept.views.json'), 'utf8');
  expect(file).toContain('"around b"');
  await ben.reload();
  await menu(ben).click();
  await list(ben).getByRole('button', { name: 'around b', exact: true }).waitFor();
  await anna.getByRole('button', { name: 'Remove view around b' }).click();
  await list(ben).getByText('None is saved.').waitFor();
  await ben.keyboard.press('Escape');
  for (const page of [anna, ben]) await close(page);
});

test('a_whiteboard_notes_and_tasks_are_shared', async () => {
  await lab('drawn');
  const teacher = await open('#/lab/drawn?panel=whiteboard', { name: 'teacher' });
  const student = await open('#/lab/drawn?panel=whiteboard', { name: 'student', role: 'draw' });
  await people(teacher).getByText('(2)').waitFor();
  const toolbar = (page: Page) => page.getByRole('toolbar', { name: 'Whiteboard' });
  await rests(teacher);
  // Two draw at once.
  const stroke = async (page: Page, tool: string, machine: string) => {
    await toolbar(page).getByRole('button', { name: tool, exact: true }).click();
    const { screen } = await spot(page, machine);
    await page.mouse.move(...screen);
    await page.mouse.down();
    await page.mouse.move(screen[0] + 40, screen[1] + 25, { steps: 5 });
    await page.mouse.up();
  };
  await Promise.all([stroke(teacher, 'Arrow', 'a'), stroke(student, 'Pen', 'b')]);
  const list = (page: Page) => page.getByRole('list', { name: 'On the whiteboard' });
  for (const page of [teacher, student]) {
    await list(page).getByText('arrow beside a, by teacher').waitFor();
    await list(page).getByText('stroke beside b, by student').waitFor();
    expect(await page.locator('svg .item').count()).toBe(2);
  }
  // What is beside a machine moves along.
  await teacher.keyboard.press('Escape');
  const before = await student.locator('svg .item[data-kind=arrow]').getAttribute('transform');
  await drag(teacher, 'a', 60, 30);
  const arrow = student.locator('svg .item[data-kind=arrow]');
  await until(async () => (await arrow.getAttribute('transform')) !== before);
  // By the keyboard alone: a text, which is text.
  const evil = '<img src=x onerror=alert(1)>';
  await teacher.getByLabel('Text', { exact: true }).fill(evil);
  await teacher.getByRole('combobox', { name: /^beside/ }).selectOption('c');
  await teacher.getByRole('combobox', { name: /^beside/ }).press('Tab');
  await teacher.keyboard.press('Enter');
  await list(student).getByText(evil).waitFor();
  expect(await student.locator('main img').count()).toBe(0);
  // Undo is of one's own.
  await student.getByRole('button', { name: 'Undo my drawing' }).click();
  await list(teacher).getByText('stroke beside b').waitFor({ state: 'detached' });
  expect(await student.getByRole('button', { name: 'Undo my drawing' }).isDisabled()).toBe(true);
  await list(teacher).getByText('arrow beside a').waitFor();
  await student.getByRole('button', { name: 'Redo' }).last().click();
  await list(teacher).getByText('stroke beside b').waitFor();
  await teacher.getByRole('button', { name: /^Erase stroke/ }).click();
  await list(student).getByText('stroke beside b').waitFor({ state: 'detached' });
  expect(await accessibility(teacher)).toEqual([]);

  for (const page of [teacher, student]) await page.getByRole('tab', { name: 'Notes' }).click();
  await teacher.getByLabel('New task').fill('ping b');
  await teacher.getByRole('button', { name: 'Add' }).click();
  await student.getByRole('checkbox', { name: 'ping b' }).check();
  await teacher.getByText('done by student').waitFor();
  expect(await teacher.getByRole('checkbox', { name: 'ping b' }).isChecked()).toBe(false);
  // What others write is text here, too.
  await student.getByLabel('New task').fill(evil);
  await student.getByRole('button', { name: 'Add' }).click();
  await teacher.getByRole('checkbox', { name: evil }).waitFor();
  expect(await teacher.locator('#panel img').count()).toBe(0);
  // Both write in one text.
  await teacher.getByLabel('Notes').last().fill('first line\n');
  await until(async () => (await student.getByLabel('Notes').last().inputValue()) === 'first line\n');
  await student.getByLabel('Notes').last().focus();
  await student.keyboard.press('Control+End');
  await Promise.all([
    student.keyboard.type('by the student'),
    (async () => {
      await teacher.getByLabel('Notes').last().focus();
      await teacher.keyboard.press('Control+Home');
      await teacher.keyboard.type('teacher: ');
    })(),
  ]);
  const both = 'teacher: first line\nby the student';
  for (const page of [teacher, student]) {
    await until(async () => (await page.getByLabel('Notes').last().inputValue()) === both);
  }
  expect(await accessibility(student)).toEqual([]);

  // Saved, and for git.
  const { json } = await ask<{ json: string }>('POST', '/labs/drawn/views/save');
  expect(json).toBe(`${folder()}/labs/drawn/drawn.views.json`);
  const saved = JSON.parse(readFileSync(json, 'utf8')) as Record<string, Record<string, unknown>>;
  expect(saved.notes).toBe(both);
  expect(Object.keys(saved.positions!).sort()).toEqual(['a', 'b', 'c']);
  await close(teacher);
  await close(student);
});

test('a_stroke_is_seen_while_it_is_drawn', async () => {
  await lab('sketched');
  const teacher = await open('#/lab/sketched?panel=whiteboard', { name: 'teacher' });
  const student = await open('#/lab/sketched', { name: 'student', role: 'view' });
  await people(teacher).getByText('(2)').waitFor();
  await rests(teacher);
  await teacher.getByRole('button', { name: 'Pen', exact: true }).click();
  const { screen } = await spot(teacher, 'a');
  await teacher.mouse.move(...screen);
  await teacher.mouse.down();
  await teacher.mouse.move(screen[0] + 40, screen[1] + 10, { steps: 3 });
  const sketch = student.locator('svg .sketch path');
  await sketch.waitFor({ state: 'attached' });
  const before = await sketch.getAttribute('d');
  await teacher.mouse.move(screen[0] + 60, screen[1] + 50, { steps: 30 });
  await until(async () => (await sketch.getAttribute('d')) !== before);
  expect(await student.locator('svg .item').count()).toBe(0);
  await teacher.mouse.up();
  await student.locator('svg .item').waitFor({ state: 'attached' });
  await sketch.waitFor({ state: 'detached' });
  for (const page of [teacher, student]) await close(page);
});

test('groups_are_made_by_hand_and_shared', async () => {
  await lab('grouped');
  const teacher = await open('#/lab/grouped', { name: 'teacher' });
  const student = await open('#/lab/grouped?sel=c', { name: 'student', role: 'draw' });
  await people(teacher).getByText('(2)').waitFor();
  await rests(teacher);
  const evil = '<b id=evil>left</b>';
  // Several by the pointer. Lines above the picture may still wrap, and move it, while it is pointed at.
  await until(async () => {
    await teacher.mouse.click(...(await spot(teacher, 'a')).screen);
    return teacher.url().endsWith('sel=a');
  });
  await rests(teacher);
  await teacher.keyboard.down('Control');
  await teacher.mouse.click(...(await spot(teacher, 'b')).screen);
  await teacher.keyboard.up('Control');
  await teacher.getByText('2 machines are selected.').waitFor();
  await teacher.getByLabel('Group', { exact: true }).first().fill(evil);
  await teacher.getByRole('button', { name: 'Put them into it' }).click();
  const framed = (page: Page, group: string) =>
    page.evaluate(
      (name) => (window as unknown as { vink: { where(name: string): unknown } }).vink.where(`group:${name}`) !== null,
      group,
    );
  for (const page of [teacher, student]) await until(() => framed(page, evil));
  // One by the keyboard.
  const field = student.getByRole('complementary', { name: 'Inspector' }).getByLabel('Group', { exact: true });
  await field.fill('right');
  await field.press('Enter');
  for (const page of [teacher, student]) await until(() => framed(page, 'right'));
  await field.fill('');
  await field.press('Enter');
  for (const page of [teacher, student]) await until(async () => !(await framed(page, 'right')));
  for (const page of [teacher, student]) expect(await page.locator('#evil').count()).toBe(0);
  expect(await accessibility(student)).toEqual([]);
  for (const page of [teacher, student]) await close(page);
});

test('a_revoked_page_is_told_so', async () => {
  await lab('revoked');
  const owner = await open('#/lab/revoked?panel=people', { name: 'teacher' });
  const guest = await open('#/lab/revoked', { name: 'mallory', role: 'operate' });
  const other = await open('#/lab/revoked', { name: 'ben', role: 'view' });
  await people(owner).getByText('(3)').waitFor();
  expect(await accessibility(owner)).toEqual([]);
  await owner.getByRole('button', { name: /of mallory$/ }).click();
  await guest.getByText('ended by the owner').waitFor();
  await people(owner).getByText('(2)').waitFor();
  expect(vink('ui', '--sessions')).not.toContain('mallory');
  // The others go on.
  await owner.getByRole('button', { name: 'Raise a hand' }).click();
  await other.getByRole('button', { name: 'Raised hands: 1' }).waitFor();
  // A link that the owner makes here lets a page in.
  await owner.getByLabel('Let in').fill('dora');
  await owner.getByRole('button', { name: 'Make a link' }).click();
  const link = await owner.getByLabel('Good once, for an hour').inputValue();
  await guest.goto(link);
  await people(owner).getByText('(3)').waitFor();
  await owner.getByRole('listitem').filter({ hasText: 'dora' }).getByText('draw').waitFor();
  for (const page of [owner, guest, other]) await close(page);
});
