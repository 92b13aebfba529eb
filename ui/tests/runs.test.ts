// Recorded runs in the page: any time of one is seen as it was, opened as a lab, and compared with another run.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scattered, seek } from '../bench/seeking.ts';
import { accessibility, ask, close, open, picture, stats, until, vink } from './harness.ts';

const LAB = `
name: lossy
time: virtual
seed: 5
machines:
  client:
    interfaces: { eth0: { wire: near, addresses: [10.0.1.1/24] } }
    routes: [{ to: default, via: 10.0.1.254 }]
    programs:
      host: { command: [ping, -c, "60", 10.0.2.1] }
      page: { command: [sh, -c, 'sleep 3; while :; do curl -s -o /dev/null http://10.0.2.1/60k; sleep 1; done'] }
  router:
    forward: true
    interfaces:
      eth0: { wire: near, addresses: [10.0.1.254/24] }
      eth1: { wire: far, addresses: [10.0.2.254/24] }
  server:
    interfaces: { eth0: { wire: far, addresses: [10.0.2.1/24] } }
    routes: [{ to: default, via: 10.0.2.254 }]
    programs:
      web: { app: httpserver, ready: { port: 80 } }
wires:
  near: { delay: 20ms }
  far: { delay: 100ms, loss: 4% }
`;
/** A flight as the control process tells it. */
interface Flight {
  end: number;
  sent: number;
  lasts: number;
  id: number;
  fate: number;
}
interface Seeks {
  vink: { seek(at: number): Promise<void> };
}
interface Found {
  nanoseconds: number;
  kind: string;
  end: string;
  text: string;
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vruns'));
  mkdirSync(join(folder, 'runs'));
  writeFileSync(join(folder, 'lab.yaml'), LAB);
  vink('lab', 'up', join(folder, 'lab.yaml'), '--paused', '--record', join(folder, 'runs/one'));
  vink('lab', 'until', '10s', '--lab', 'lossy');
  vink('wire', 'set', 'far', 'loss', '20%', '--lab', 'lossy');
  vink('lab', 'until', '20s', '--lab', 'lossy');
  vink('lab', 'down', 'lossy');
}, 120_000);
afterAll(() => {
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** The time that the page shows, ns. */
async function shown(page: Page): Promise<number> {
  return Number(await page.getByRole('slider', { name: 'Time' }).getAttribute('aria-valuenow'));
}

/** Packets under way at a time, as the API has them, asked for without the page. */
async function flights(page: Page, at: number): Promise<Flight[]> {
  return page.evaluate(async (at) => {
    const token = sessionStorage.getItem('vink.session') ?? '';
    const answer = await fetch(`/v1/runs/one/flights?from=${at}&to=${at}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const view = new DataView(await answer.arrayBuffer());
    const base = Number(view.getBigUint64(8, true));
    return Array.from({ length: view.getUint16(2, true) }, (_, place) => {
      const at = 24 * (1 + place);
      return {
        end: view.getUint32(at, true),
        sent: base + view.getUint32(at + 4, true),
        lasts: view.getUint32(at + 8, true) * 1000,
        id: view.getUint32(at + 12, true),
        fate: view.getUint8(at + 19),
      };
    });
  }, at);
}

/** What the picture has at this place. */
function pick(page: Page, x: number, y: number) {
  return page.evaluate(
    ([x, y]) => {
      const { vink } = window as unknown as { vink: { pick(x: number, y: number): Record<string, unknown> | null } };
      return vink.pick(x!, y!);
    },
    [x, y],
  );
}

function where(page: Page, name: string): Promise<[number, number]> {
  return page.evaluate((name) => {
    const { vink } = window as unknown as { vink: { where(name: string): [number, number] } };
    return vink.where(name);
  }, name);
}

test('a_run_is_seen_as_it_was', async () => {
  const page = await open('#/');
  await page.getByLabel('List what was recorded at').fill(join(folder, 'runs'));
  await page.getByRole('button', { name: 'List it' }).click();
  await page.getByRole('link', { name: 'one', exact: true }).click();
  await page.getByTestId('mode').getByText('RECORDED').waitFor();
  await page.getByRole('slider', { name: 'Time' }).waitFor();
  const { nanoseconds: length } = await ask<{ nanoseconds: number }>('GET', '/runs/one');
  expect(await page.getByRole('slider', { name: 'Time' }).getAttribute('aria-valuemax')).toBe(String(length));
  // The picture's layout is done.
  await until(async () => Number((await stats(page)).nodes) === 3 && (await where(page, 'router')) !== null);
  await until(async () => !(await stats(page)).isPlacing);

  // From a time on, the next loss: the same as the API says, and the picture is at its time.
  const next = async (at: number, back = false) =>
    (await ask<Found[]>('GET', `/runs/one/next?at=${at}&kinds=loss,breakpoint,request,line&back=${back}`))[0]!;
  let at = await shown(page);
  expect(at).toBe(0);
  // On to a segment of TCP that the wire has lost. Packets that no socket waited for are none of these.
  expect((await ask<Found[]>('GET', '/runs/one/next?at=0&kinds=drop')).length).toBe(1);
  let loss: Found;
  do {
    loss = await next(at);
    expect(loss.kind !== 'loss' || loss.text.includes('loses (random)'), loss.text).toBe(true);
    await page.keyboard.press(']');
    await until(async () => (await shown(page)) === loss.nanoseconds);
    at = loss.nanoseconds;
    await page.getByTestId('found').getByText(loss.text).waitFor();
  } while (!loss.text.includes('(random) IP 10.0.1.1'));
  expect((await next(at, true)).nanoseconds).toBeLessThan(at);

  // That loss is in the picture, where the API's flight says.
  const lost = (await flights(page, at)).filter(({ fate, sent, lasts }) => fate === 1 && sent + lasts >= at - 1000);
  expect(lost.length).toBeGreaterThan(0);
  const { topology } = await ask<{
    topology: { nodes: { name: string }[]; ends: { node: number; interface: string }[]; wires: { ends: number[] }[] };
  }>('GET', '/runs/one');
  await until(async () => Number((await stats(page)).now) === at);
  const name = (end: number) => topology.nodes[topology.ends[end]!.node]!.name;
  const ends = lost.map(({ end }) => `${name(end)}:${topology.ends[end]!.interface}`);
  expect(ends).toContain(loss.end);
  const speed = Number(await page.getByLabel('Speed of playing').inputValue());
  for (const { end, id, sent } of lost) {
    const other = topology.wires.flatMap(({ ends }) => (ends.includes(end) ? ends : [])).find((one) => one !== end)!;
    // It is drawn on the first part of its way, for 600 ms of the host's time at this speed.
    const done = Math.min((at - sent) / (0.6e9 * speed), 0.4);
    const pick = async () => pickFlight(page, await where(page, name(end)), await where(page, name(other)), done);
    // Its packets may come to the page after the time.
    await until(async () => (await pick()) !== null);
    expect(await pick()).toMatchObject({ kind: 'flight', id, end, fate: 1 });
  }
  await picture(page, 'run');
  expect(await accessibility(page)).toEqual([]);

  // Back, by the button; and what was counted until then.
  const before = await next(at, true);
  await page.getByRole('button', { name: 'Previous' }).click();
  await until(async () => (await shown(page)) === before.nanoseconds);
  const state = await ask<{ ends: { end: string; sent: number; lost: number }[] }>(
    'GET',
    `/runs/one/state?at=${before.nanoseconds}`,
  );
  const counted = state.ends.find(({ end }) => end === loss.end)!;
  const row = page.getByRole('row', { name: new RegExp(`^${loss.end}`) });
  const numbers = [loss.end, counted.sent, counted.lost].map(String);
  await until(async () => `${await row.getByRole('cell').allTextContents()}` === `${numbers}`);
  await close(page);
});

test('the_time_is_dragged_and_played', async () => {
  const page = await open('#/run/one?t=5.5');
  const time = page.getByRole('slider', { name: 'Time' });
  await time.waitFor();
  await until(async () => (await shown(page)) === 5_500_000_000);
  const box = (await time.boundingBox())!;
  // Through most of it, in small steps: the last place counts.
  await page.mouse.move(box.x + box.width / 4, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + (box.width * 3) / 4, box.y + 20, { steps: 60 });
  await page.mouse.up();
  await until(async () => Math.abs((await shown(page)) - 15e9) < 0.1e9);
  const at = await shown(page);
  await until(async () => Number((await stats(page)).now) === at && Number((await stats(page)).to) >= at);
  // Packets that are under way then are in the picture, and no others.
  const isThere = async () => {
    const now = await stats(page);
    return (await flights(page, at)).every(({ sent }) => sent >= Number(now.from));
  };
  await until(isThere);
  // It is in the address.
  await until(() => page.url().includes('t=15.') || page.url().includes('t=14.9'));

  // By keys: nearer, on, to its end and its beginning.
  await time.focus();
  for (let nth = 0; nth < 4; nth++) await page.keyboard.press('+');
  await page.keyboard.press('ArrowRight');
  await until(async () => (await shown(page)) > at && (await shown(page)) < at + 0.01e9);
  await page.keyboard.press('End');
  expect(await shown(page)).toBe(20_000_000_000);
  await page.keyboard.press('Home');
  expect(await shown(page)).toBe(0);

  // It plays, at its speed, until it is told to stand.
  await page.getByLabel('Speed of playing').selectOption('speed 2');
  await page.keyboard.press(' ');
  await until(async () => (await shown(page)) > 1e9);
  await page.keyboard.press(' ');
  const stands = await shown(page);
  await until(async () => Number((await stats(page)).now) === stands);
  await close(page);
});

test('a_time_that_is_sought_is_drawn_when_the_bench_says_so', async () => {
  const page = await open('#/run/one');
  await until(async () => (await page.getByRole('slider').count()) > 0 && Number((await stats(page)).nodes) === 3);
  // A frame that waits for another one is not counted beside the next: none does when a time has been sought.
  await seek(page, [0]);
  for (const at of scattered(20e9, 0, 5)) {
    const frames = Number((await stats(page)).frames);
    const [took] = await seek(page, [at]);
    expect(took).toBeGreaterThan(0);
    const drawn = await stats(page);
    expect(drawn).toMatchObject({ now: at });
    expect(Number(drawn.frames)).toBeGreaterThan(frames);
    expect(Number(drawn.flights)).toBeGreaterThanOrEqual((await flights(page, at)).length);
  }
  await close(page);
});

test('what_is_in_a_packet_of_a_run_is_seen', async () => {
  const pings = await ask<Found[]>('GET', '/runs/one/events?from=5500000000&kinds=icmp');
  const reply = pings.find(({ text }) => text.includes('echo reply'))!;
  const page = await open(`#/run/one?t=${reply.nanoseconds / 1e9}`);
  const events = page.getByRole('complementary', { name: 'What happens then' });
  await events
    .getByRole('button', { name: /ICMP echo reply/ })
    .first()
    .click();
  const inside = events.getByRole('region', { name: 'The packet' });
  await inside.getByText('Internet Control Message Protocol', { exact: true }).click();
  await inside.getByText(/^Type: 0 \(Echo/).waitFor();
  expect(await inside.getByRole('table', { name: 'Bytes' }).getByRole('row').count()).toBe(Math.ceil(98 / 16));
  expect(await accessibility(page)).toEqual([]);
  // Something else that happens has no bytes.
  await page.getByRole('checkbox', { name: 'loss' }).uncheck();
  await page.keyboard.press(']');
  await inside.waitFor({ state: 'detached' });
  await close(page);
});

test('a_moment_is_opened_and_becomes_a_branch', async () => {
  const page = await open('#/run/one?t=12.5');
  await until(async () => (await page.getByRole('slider').count()) > 0 && (await shown(page)) === 12_500_000_000);
  // A name that is taken is refused at its place.
  vink('lab', 'up', join(folder, 'lab.yaml'), '--name', 'taken', '--paused');
  await page.getByRole('button', { name: 'Open this moment' }).click();
  await page.getByLabel('Name', { exact: true }).fill('taken');
  await page.getByRole('button', { name: 'Open it' }).click();
  await page.getByRole('alert').getByText('taken runs already').waitFor();
  expect(await accessibility(page)).toEqual([]);
  await page.getByLabel('Name', { exact: true }).fill('then');
  await page.getByRole('button', { name: 'Open it' }).click();

  // The lab's own screen, at that moment; looking at it leaves nothing.
  await page.getByTestId('mode').getByText('MOMENT').waitFor();
  await page.getByRole('heading', { name: 'then', level: 1 }).waitFor();
  await page.getByRole('group', { name: 'Clock' }).getByText('12.5').waitFor();
  expect((await ask<unknown[]>('GET', '/runs')).length).toBe(1);
  vink('wire', 'set', 'far', 'loss', '0%', '--lab', 'then');
  await page.getByTestId('mode').getByText('BRANCH').waitFor();
  vink('lab', 'until', '18s', '--lab', 'then');

  // It stands below its run, and both are compared.
  await page.goto(page.url().replace(/#.*/, '#/'));
  await page.getByRole('heading', { name: 'Recorded runs' }).waitFor();
  vink('lab', 'down', 'then');
  vink('lab', 'down', 'taken');
  await page.getByText('branch of one at 12.5').waitFor();
  const runs = await ask<{ id: string; parent?: { nanoseconds: number } }[]>('GET', '/runs');
  const branch = runs.find(({ parent }) => parent)!.id;
  await page.getByLabel('compare one', { exact: true }).check();
  await page.getByLabel(`compare ${branch}`, { exact: true }).check();
  await page.getByRole('link', { name: /^Compare/ }).click();
  const { nanoseconds } = await ask<{ nanoseconds: [number, number] }>('GET', `/runs/one/difference?with=${branch}`);
  await page.getByText('They part').waitFor();
  await page.getByRole('button', { name: 'Go there' }).click();
  const parted = Math.min(...nanoseconds.filter((time) => time !== null));
  expect(parted).toBeGreaterThanOrEqual(12_500_000_000);
  const times = page.getByRole('slider');
  for (const nth of [0, 1]) {
    await until(async () => (await times.nth(nth).getAttribute('aria-valuenow')) === String(parted));
  }
  expect(await times.count()).toBe(2);
  await picture(page, 'compare');
  expect(await accessibility(page)).toEqual([]);
  await close(page);
});

test('one_page_follows_another_through_a_run', async () => {
  const anna = await open('#/run/one?t=5', { name: 'anna' });
  const ben = await open('#/run/one?t=1', { name: 'ben', role: 'view' });
  for (const [page, at] of [
    [anna, 5e9],
    [ben, 1e9],
  ] as const) {
    await page.getByRole('slider', { name: 'Time' }).waitFor();
    await until(async () => (await shown(page)) === at);
  }
  const goes = (page: Page, at: number) => page.evaluate((at) => (window as unknown as Seeks).vink.seek(at), at);
  await ben.getByRole('button', { name: 'Follow anna' }).click();
  await until(async () => (await shown(ben)) === 5e9);

  // It has her time, whichever she goes to, and what is in its picture is of then.
  await goes(anna, 9.25e9);
  await until(async () => (await shown(ben)) === 9.25e9);
  await until(async () => Number((await stats(ben)).now) === 9.25e9 && Number((await stats(ben)).to) >= 9.25e9);
  await anna.keyboard.press(']');
  await anna.getByTestId('found').waitFor();
  const found = await shown(anna);
  expect(found).toBeGreaterThan(9.25e9);
  await until(async () => (await shown(ben)) === found);
  await until(() => new URL(ben.url()).hash.includes('sel=wire'));
  // It plays with her, and stands with her.
  await anna.getByRole('button', { name: 'Play' }).click();
  await until(async () => (await shown(ben)) > found + 0.5e9);
  await anna.getByRole('button', { name: 'Stand' }).click();
  await until(async () => (await shown(ben)) === (await shown(anna)));
  expect(await accessibility(ben)).toEqual([]);

  // A time of its own ends that.
  await ben.getByRole('slider', { name: 'Time' }).focus();
  await ben.keyboard.press('Home');
  await ben.getByRole('button', { name: 'Follow anna' }).waitFor();
  await goes(anna, 12e9);
  await ben.getByText('12.000000 s').waitFor();
  expect(await shown(ben)).toBe(0);

  // When she presents, all follow.
  await anna.getByRole('button', { name: 'Present' }).click();
  await ben.getByText('anna presents').waitFor();
  await until(async () => (await shown(ben)) === 12e9);
  await close(anna);
  await ben.getByText('anna').waitFor({ state: 'detached' });
  await goes(ben, 3e9);
  expect(await shown(ben)).toBe(3e9);
  await close(ben);
});

test('what_cannot_be_opened_says_why', async () => {
  writeFileSync(join(folder, 'real.yaml'), 'name: real\nmachines: { m: {} }\n');
  vink('lab', 'up', join(folder, 'real.yaml'), '--record', join(folder, 'real'));
  // Nothing is in its journal yet: a page that asks for the list meanwhile takes nothing away.
  await ask('GET', '/runs');
  vink('lab', 'down', 'real');
  await until(async () => (await ask<{ id: string }[]>('GET', '/runs')).some(({ id }) => id === 'real'));
  const page = await open('#/run/real');
  await page.getByRole('button', { name: 'Open this moment' }).click();
  await page.getByText("it went by the host's clock").waitFor();
  await close(page);
});

const CHANGING = `
name: changing
time: virtual
seed: 3
machines:
  a: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } } }
  b: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
wires:
  w1: { delay: 10ms }
`;

test('machines_and_wires_are_those_of_then', async () => {
  writeFileSync(join(folder, 'changing.yaml'), CHANGING);
  const to = (time: string) => vink('lab', 'until', time, '--lab', 'changing');
  const labs = '/labs/changing';
  vink('lab', 'up', join(folder, 'changing.yaml'), '--paused', '--record', join(folder, 'changing'));
  to('3s');
  vink('wire', 'add', 'w2', 'delay', '200ms', '--lab', 'changing');
  const eth0 = { wire: 'w2', addresses: ['10.0.2.1/24'] };
  await ask('POST', `${labs}/machines`, { name: 'c', spec: { interfaces: { eth0 } } });
  const eth1 = { wire: 'w2', addresses: ['10.0.2.2/24'] };
  await ask('POST', `${labs}/machines/b/interfaces`, { name: 'eth1', spec: eth1 });
  vink('exec', '--lab', 'changing', '--detach', 'c', '--', 'ping', '-i', '0.1', '10.0.2.2');
  to('7s');
  vink('wire', 'set', 'w1', 'delay', '50ms', 'loss', '2%', '--lab', 'changing');
  to('9s');
  vink('machine', 'rm', 'c', '--lab', 'changing');
  to('12s');
  vink('lab', 'down', 'changing');
  const changes = await ask<Found[]>('GET', '/runs/changing/events?kinds=change');
  const times = [...new Set(changes.map(({ nanoseconds }) => nanoseconds))];
  expect(times.length).toBe(3);
  const [come, set, gone] = times as [number, number, number];

  // A time at which all of them are there is opened first.
  const page = await open(`#/run/changing?t=${set / 1e9 + 1}`);
  const list = page.getByRole('navigation', { name: 'Machines and wires' });
  const machines = (count: number, wires: number) =>
    until(async () => {
      const now = await stats(page);
      return now.nodes === count && now.wires === wires && !now.isPlacing;
    });
  const goes = (at: number) => page.evaluate((at) => (window as unknown as Seeks).vink.seek(at), at);
  await list.getByText('delay 50ms, loss 2%').waitFor();
  await list.getByText('delay 200ms').waitFor();
  await machines(3, 2);
  const [b, c] = [await where(page, 'b'), await where(page, 'c')];

  // Just before it goes its packets are under way; then there is neither it, nor a wire that they could be on.
  const isFlight = async () => {
    for (let done = 0.05; done < 1; done += 0.05) if (await pickFlight(page, b, c, done)) return true;
    return false;
  };
  await goes(gone - 1);
  expect((await stats(page)).nodes).toBe(3);
  expect(await isFlight()).toBe(true);
  const under = await page.evaluate(async (at) => {
    const token = sessionStorage.getItem('vink.session') ?? '';
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`/v1/runs/changing/flights?from=${at}&to=${at}`, { headers });
    return new DataView(await answer.arrayBuffer()).getUint16(2, true);
  }, gone);
  expect(under).toBeGreaterThan(0);
  await goes(gone);
  await machines(2, 2);
  expect(await where(page, 'c')).toBe(null);
  expect(await where(page, 'b')).toEqual(b);
  expect(await isFlight()).toBe(false);
  await list.getByRole('button', { name: 'c', exact: true }).waitFor({ state: 'detached' });

  // It comes back where it was; and before it came there was one wire, with other settings.
  await goes(come);
  await machines(3, 2);
  expect(await where(page, 'c')).toEqual(c);
  await list.getByText('delay 10ms').waitFor();
  await goes(come - 1);
  await machines(2, 1);
  await list.getByRole('button', { name: 'w2', exact: true }).waitFor({ state: 'detached' });

  // From one change to the next, and none of the other kinds.
  for (const kind of ['losses', 'breakpoints', 'requests', 'lab events']) {
    await page.getByRole('checkbox', { name: kind }).uncheck();
  }
  await page.getByRole('checkbox', { name: 'changes' }).check();
  await goes(0);
  for (const time of times) {
    await page.keyboard.press(']');
    await until(async () => (await shown(page)) === time);
  }
  await page.getByTestId('found').getByText('changed: machine c goes').waitFor();
  await page.keyboard.press('[');
  await until(async () => (await shown(page)) === set);
  await machines(3, 2);

  // While it plays, too.
  await goes(gone - 0.5e9);
  await machines(3, 2);
  await page.getByRole('button', { name: 'Play' }).click();
  await machines(2, 2);
  expect(await shown(page)).toBeGreaterThanOrEqual(gone);
  await page.getByRole('button', { name: 'Stand' }).click();
  expect(await page.getByText('drawn as it was made').count()).toBe(0);
  expect(await accessibility(page)).toEqual([]);
  await close(page);
});

/** What is near a place of the way between two machines' middles. */
async function pickFlight(page: Page, from: [number, number], to: [number, number], done: number) {
  const far = Math.hypot(to[0] - from[0], to[1] - from[1]);
  const [dx, dy] = [(to[0] - from[0]) / far, (to[1] - from[1]) / far];
  for (let beside = -8; beside <= 8; beside += 2) {
    for (let along = -12; along <= 12; along += 3) {
      // The way begins at a machine's rim.
      for (const rim of [6, 12, 18]) {
        const way = rim + (far - 2 * rim) * done + along;
        const seen = await pick(page, from[0] + dx * way - dy * beside, from[1] + dy * way + dx * beside);
        if (seen?.kind === 'flight') return seen;
      }
    }
  }
  return null;
}
