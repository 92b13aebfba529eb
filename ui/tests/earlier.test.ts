// The last minutes of a lab that is not recorded and lives by the host's clock: what was seen is seen again, while it goes on.
import { expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { accessibility, ask, close, open, picture, stats, until, vink } from './harness.ts';

const LAB = {
  name: 'goes',
  machines: {
    a: {
      interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.1/24'] } },
      programs: { ping: { command: 'ping -i 0.3 10.0.0.2' } },
    },
    b: { interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.2/24'] } } },
  },
  wires: { w1: { delay: '900ms' } },
};

interface Flight {
  kind: 'flight';
  id: number;
  end: number;
  class: number;
}
interface There {
  stats(): { now: bigint; isPlacing: boolean };
  where(name: string): [number, number] | null;
  pick(x: number, y: number): Flight | { kind: string } | null;
  seek(at: number): void;
}
declare const globalThis: { vink?: There } & typeof window;

/** A flight between two machines that the picture has now: where, and at which time of the lab. */
function seen(page: Page): Promise<{ at: number; way: number; flight: Flight } | null> {
  return page.evaluate(() => {
    const { vink } = globalThis;
    if (!vink) return null;
    const [from, to] = [vink.where('a'), vink.where('b')];
    if (!from || !to || vink.stats().isPlacing) return null;
    const far = Math.hypot(to[0] - from[0], to[1] - from[1]);
    for (let way = 0.3; way < 0.7; way += 2 / far) {
      const [x, y] = [from[0] + (to[0] - from[0]) * way, from[1] + (to[1] - from[1]) * way];
      const flight = vink.pick(x, y);
      if (flight?.kind === 'flight') return { at: Number(vink.stats().now), way, flight: flight as Flight };
    }
    return null;
  });
}

/** What is at this part of the way. */
const pick = (page: Page, way: number) =>
  page.evaluate((way) => {
    const vink = globalThis.vink!;
    const [from, to] = [vink.where('a')!, vink.where('b')!];
    return vink.pick(from[0] + (to[0] - from[0]) * way, from[1] + (to[1] - from[1]) * way);
  }, way);
const shown = async (page: Page) =>
  Number(await page.getByRole('slider', { name: 'Time' }).getAttribute('aria-valuenow'));
test('what_was_seen_is_seen_again_while_the_lab_goes_on', async () => {
  await ask('PUT', '/labs/goes', { spec: LAB, folder: '/tmp', new: true });
  const page = await open('#/lab/goes');
  await page.getByTestId('mode').getByText('LIVE').waitFor();
  let first: Awaited<ReturnType<typeof seen>> = null;
  await until(async () => (first = await seen(page)) !== null);
  const { at, way, flight } = first!;
  // Something is lost later.
  vink('wire', 'set', 'w1', 'loss', '100%', '--lab', 'goes');
  await until(async () => Number((await stats(page)).now) > at + 4e9);

  // The picture stands, and the lab goes on.
  await page.getByRole('button', { name: 'Earlier' }).click();
  await page.getByTestId('mode').getByText('PAST').waitFor();
  const stood = Number((await stats(page)).now);
  const kept = Number((await stats(page)).kept);
  expect(await shown(page)).toBe(stood);
  await until(async () => Number((await stats(page)).kept) > kept + 3);
  expect(Number((await stats(page)).now)).toBe(stood);

  // Beside the timeline the picture has room, and all of the lab is in it.
  const canvas = (await page.getByRole('img', { name: /^Picture/ }).boundingBox())!;
  expect(canvas.height).toBeGreaterThan(150);
  const isIn = ([x, y]: [number, number]) => x > 0 && y > 0 && x < canvas.width && y < canvas.height;
  await until(async () =>
    (await page.evaluate(() => ['a', 'b'].map((name) => globalThis.vink!.where(name)!))).every(isIn),
  );

  // Back by the timeline to about that time, then to exactly it: the same packet is at the same place.
  const time = page.getByRole('slider', { name: 'Time' });
  const box = (await time.boundingBox())!;
  const [from, to] = [
    Number(await time.getAttribute('aria-valuemin')),
    Number(await time.getAttribute('aria-valuemax')),
  ];
  expect(from).toBeLessThan(at);
  await page.mouse.click(box.x + (box.width * (at - from)) / (to - from), box.y + 20);
  await until(async () => Math.abs((await shown(page)) - at) < 1e9);
  await page.evaluate((at) => globalThis.vink!.seek(at), at);
  await until(async () => Number((await stats(page)).now) === at);
  expect(await pick(page, way)).toMatchObject({ kind: 'flight', id: flight.id, end: flight.end });
  await picture(page, 'earlier');
  expect(await accessibility(page)).toEqual([]);
  // A second later it is not.
  await page.evaluate((at) => globalThis.vink!.seek(at), at + 1e9);
  expect(await pick(page, way)).not.toMatchObject({ id: flight.id });

  // What was asked of the lab then, and the loss that came of it.
  await page.evaluate((at) => globalThis.vink!.seek(at), at);
  await page.keyboard.press(']');
  await page.getByTestId('found').getByText('request').waitFor();
  const asked = await shown(page);
  await page.keyboard.press(']');
  await page
    .getByTestId('found')
    .getByText(/eth0 loses a packet of \d+ bytes \(at random\)/)
    .waitFor();
  const lost = await shown(page);
  expect(lost).toBeGreaterThan(asked);
  await page.keyboard.press('[');
  await until(async () => (await shown(page)) < lost);

  // It plays.
  await page.keyboard.press(' ');
  await until(async () => (await shown(page)) > lost);
  await page.keyboard.press(' ');

  // Live again.
  await page.keyboard.press('l');
  await page.getByTestId('mode').getByText('LIVE').waitFor();
  await until(async () => Number((await stats(page)).now) > to);
  const { 'kernel-nanoseconds': now } = await ask<{ 'kernel-nanoseconds': number }>('GET', '/labs/goes/clock');
  await until(async () => Number((await stats(page)).now) >= now);
  await close(page);
});

test('machines_and_wires_are_those_of_the_time_shown', async () => {
  await ask('PUT', '/labs/grows', { spec: { ...LAB, name: 'grows' }, folder: '/tmp', new: true });
  const page = await open('#/lab/grows');
  let first: Awaited<ReturnType<typeof seen>> = null;
  await until(async () => (first = await seen(page)) !== null);
  const { at, way, flight } = first!;
  // A machine that is named before the others: ends have other numbers from then on.
  const spec = {
    ...LAB,
    name: 'grows',
    machines: { 'a-first': { interfaces: { eth0: { wire: 'a-wire' }, eth1: { wire: 'a-wire' } } }, ...LAB.machines },
    wires: { 'a-wire': {}, ...LAB.wires },
  };
  await ask('PUT', '/labs/grows', { spec, folder: '/tmp', running: true });
  await page.getByRole('row', { name: 'a-first' }).waitFor();
  await until(async () => Number((await stats(page)).nodes) === 3);
  await until(async () => (await seen(page)) !== null);
  const changed = Number((await stats(page)).now);
  await until(async () => Number((await stats(page)).now) > changed + 0.5e9);
  const later = Number((await stats(page)).now);

  await page.keyboard.press('b');
  await page.evaluate((at) => globalThis.vink!.seek(at), at);
  await until(async () => Number((await stats(page)).nodes) === 2);
  await until(async () => ((await pick(page, way)) as Flight | null)?.id === flight.id);
  await page.evaluate((at) => globalThis.vink!.seek(at), later);
  await until(async () => Number((await stats(page)).nodes) === 3);
  await until(async () => (await seen(page)) !== null);
  await page.keyboard.press('l');
  await until(async () => Number((await stats(page)).now) > later);
  expect(Number((await stats(page)).nodes)).toBe(3);
  await close(page);
});

test('one_page_follows_another_through_what_was', async () => {
  await ask('PUT', '/labs/led', { spec: { ...LAB, name: 'led' }, folder: '/tmp', new: true });
  const anna = await open('#/lab/led?panel=people', { name: 'anna' });
  const ben = await open('#/lab/led?panel=people', { name: 'ben', role: 'view' });
  const now = async (page: Page) => Number((await stats(page)).now);
  for (const page of [anna, ben]) await until(async () => (await seen(page)) !== null);
  const began = Math.max(await now(anna), await now(ben));
  await until(async () => (await now(ben)) > began + 1e9 && (await now(anna)) > began + 1e9);
  await ben.getByRole('button', { name: 'Follow anna' }).click();
  await ben.getByText('following anna').waitFor();

  // It has her moment, whichever she goes to, and is live with her.
  await anna.getByRole('button', { name: 'Earlier' }).click();
  for (const at of [began, began + 5e8]) {
    await anna.evaluate((at) => globalThis.vink!.seek(at), at);
    await until(async () => (await now(ben)) === at);
  }
  await ben.getByTestId('mode').getByText('PAST').waitFor();
  await anna.getByRole('button', { name: 'Play' }).click();
  await until(async () => (await now(ben)) > began + 7e8);
  await anna.getByRole('button', { name: 'Stand' }).click();
  await until(async () => (await now(ben)) === (await now(anna)));
  await anna.getByRole('button', { name: 'Back to live' }).click();
  await ben.getByTestId('mode').getByText('LIVE').waitFor();
  await until(async () => (await now(ben)) > began + 2e9);

  // A time of one's own ends it.
  await ben.getByRole('button', { name: 'Earlier' }).click();
  await ben.getByText('following anna').waitFor({ state: 'detached' });
  for (const page of [anna, ben]) await close(page);
});

test('an_answer_of_the_clock_that_comes_late_takes_nothing_away', async () => {
  await ask('PUT', '/labs/late', { spec: { ...LAB, name: 'late', time: 'virtual' }, folder: '/tmp', new: true });
  await ask('PATCH', '/labs/late/clock', { paused: true });
  const page = await open('#/lab/late');
  const runUntil = async (seconds: number) => {
    await page.getByRole('textbox', { name: 'Run until' }).fill(`${seconds}s`);
    await page.getByRole('button', { name: 'Run until' }).click();
    await page.getByText(`The clock is at ${seconds}`).waitFor();
  };
  const { nanoseconds } = await ask<{ nanoseconds: number }>('GET', '/labs/late/clock');
  let seconds = Math.ceil(nanoseconds / 1e9);
  // Packets are kept from when the page watches them.
  do await runUntil((seconds += 5));
  while (Number((await stats(page)).kept) <= 10);

  // What the clock was then is on its way while it goes on.
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => (release = resolve));
  let answered = 0;
  await page.route('**/v1/labs/late/clock', async (route) => {
    const response = await route.fetch();
    if (!answered++) await isReleased;
    await route.fulfill({ response });
  });
  await until(() => answered === 1);
  await runUntil(seconds + 20);
  const { kept } = await stats(page);
  expect(Number(kept)).toBeGreaterThan(60);
  release();
  await until(() => answered > 2);
  expect(Number((await stats(page)).kept)).toBeGreaterThanOrEqual(Number(kept));
  await page.unrouteAll({ behavior: 'wait' });
  vink('lab', 'down', 'late');
  await close(page);
});
