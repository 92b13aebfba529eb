// The picture in a browser, drawn by WebGL2 and by Canvas2D: what is seen where, and what the pointer does.
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stand } from '../bench/stand.ts';
import { positions } from '../src/canvas/force.ts';
import { encode, type Flight } from '../src/canvas/feed.ts';
import { network } from '../src/canvas/layout.ts';
import type { Picture } from '../src/canvas/picture.ts';
import type { Topology } from '../src/canvas/types.ts';

/** What page.ts leaves for us, and what these tests note there. */
interface There {
  vink: { picture: Picture };
  told: [string, unknown][];
}
declare const globalThis: There & typeof window;

const SECOND = 1_000_000_000;
const node = (name: string, group?: string) =>
  ({ name, kind: 'machine', state: 'running', ...(group ? { group } : {}) }) as const;

/** Two machines 400 apart, and a group of two below. */
const topology: Topology = {
  machines: [node('a'), node('b'), node('c1', 'c'), node('c2', 'c')],
  wires: [
    { name: 'ab', ends: [[0, 'eth0'], [1, 'eth0']], state: 'up' },
    { name: 'ac', ends: [[0, 'eth1'], [2, 'eth0']], state: 'up' },
    { name: 'bc', ends: [[1, 'eth1'], [3, 'eth0']], state: 'up' },
  ],
}; // prettier-ignore
const places = [-200, 0, 200, 0, -100, 250, 100, 250];

const flight = (over: Partial<Flight> = {}): Flight => ({
  end: 0,
  sent: 0,
  lasts: 1_000_000,
  id: 77,
  length: 1500,
  class: 3,
  fate: 0,
  aux: 0,
  ...over,
});

let stand: Stand;
beforeAll(async () => {
  stand = await Stand.make('swiftshader');
  stand.put('lab', { topology, positions: places });
}, 120_000);
afterAll(() => stand?.close());

/** A page whose camera is so that the world's 0, 0 is at 640, 300, and a unit is a pixel. */
async function open(backend: string, options = {}): Promise<Page> {
  const page = await stand.open(`backend=${backend}&lab=lab`, options);
  await page.evaluate(() => {
    const { picture } = globalThis.vink;
    picture.camera({ x: 0, y: 100, scale: 1 });
    picture.classes([
      { name: 'other', colour: '#808080', glyph: 'disc' },
      { name: 'one', colour: '#00ff00', glyph: 'square' },
      { name: 'two', colour: '#0000ff', glyph: 'square' },
      { name: 'three', colour: '#ff00ff', glyph: 'square' },
    ]);
    globalThis.told = [];
    for (const name of ['onselect', 'onopen', 'onmove', 'onlink', 'oncollapse', 'onfollow'] as const) {
      picture[name] = (...values: unknown[]) =>
        globalThis.told.push([name, values.map((value) => (value instanceof Float32Array ? [...value] : value))]);
    }
  });
  return page;
}

/** Shows these flights at a time, ns, that stands still. */
async function show(page: Page, flights: Flight[], at: number): Promise<void> {
  const bytes = [...new Uint8Array(encode({ base: 5n }, flights))];
  await page.evaluate(
    ([bytes, at]) => {
      globalThis.vink.picture.flights(Uint8Array.from(bytes).buffer);
      globalThis.vink.picture.clock(BigInt(at) + 5n, 0);
    },
    [bytes, at] as const,
  );
}

/** Where pixels of about this colour are: how many, and their middle. */
function seen(page: Page, red: number, green: number, blue: number): Promise<{ count: number; x: number; y: number }> {
  return page.evaluate(
    async ([red, green, blue]) => {
      const { picture } = globalThis.vink;
      const read = () => {
        const canvas = document.querySelector('canvas')!;
        const copy = new OffscreenCanvas(canvas.width, canvas.height);
        const context = copy.getContext('2d')!;
        context.drawImage(canvas, 0, 0);
        const { data } = context.getImageData(0, 0, copy.width, copy.height);
        let [count, x, y] = [0, 0, 0];
        for (let at = 0; at < data.length; at += 4) {
          const far = Math.abs(data[at]! - red) + Math.abs(data[at + 1]! - green) + Math.abs(data[at + 2]! - blue);
          if (far > 40) continue;
          count++;
          x += (at / 4) % copy.width;
          y += Math.floor(at / 4 / copy.width);
        }
        return { count, x: x / count, y: y / count };
      };
      picture.camera(picture.camera());
      await picture.shown();
      // What WebGL has drawn is there to be read until the end of the task that drew it.
      return new Promise((resolve) => {
        picture.onframe = () => {
          picture.onframe = () => {};
          resolve(read());
        };
        picture.camera(picture.camera());
      });
    },
    [red, green, blue] as const,
  );
}

const told = (page: Page) => page.evaluate(() => globalThis.told.splice(0));
const stats = (page: Page) =>
  page.evaluate(() => {
    const { frames, flights, drawn, streams, backend } = globalThis.vink.picture.stats();
    return { frames, flights, drawn, streams, backend };
  });

for (const backend of ['webgl2', 'canvas2d', 'canvas2d&thread=main'] as const) {
  test(`${backend}_shows_a_flight_where_its_times_say`, async () => {
    const page = await open(backend);
    await show(page, [flight()], 0.25 * SECOND);
    expect((await stats(page)).backend).toBe(backend.split('&')[0]);
    // From rim to rim, of nodes of 15 pixels, in the right lane.
    const quarter = await seen(page, 255, 0, 255);
    expect(quarter.count).toBeGreaterThan(20);
    expect(quarter.x).toBeCloseTo(440 + 15 + 0.25 * 370, -0.5);
    expect(quarter.y).toBeCloseTo(300 + 3, -0.5);
    await show(page, [], 0.75 * SECOND);
    const later = await seen(page, 255, 0, 255);
    expect(later.x).toBeCloseTo(440 + 15 + 0.75 * 370, -0.5);
    const picked = await page.evaluate(([x, y]) => globalThis.vink.picture.pick(x, y), [later.x, later.y] as const);
    expect(picked).toEqual({ kind: 'flight', name: 'ab', end: 0, id: 77, class: 3, length: 1500, fate: 0, aux: 0 });
    await show(page, [], 1.01 * SECOND);
    expect((await seen(page, 255, 0, 255)).count).toBe(0);
    // Back, the other way, and at the other end.
    await show(page, [flight({ end: 1, class: 1 })], 0.25 * SECOND);
    expect((await seen(page, 0, 255, 0)).x).toBeCloseTo(840 - 15 - 0.25 * 370, -0.5);
    await page.close();
  });

  test(`${backend}_is_seen_to_the_nanosecond_after_days`, async () => {
    const page = await open(backend);
    await page.evaluate(() => {
      // A wire of 1 µs, in a lab that has run for a month.
      const base = 30n * 86_400_000_000_000n;
      const frame = new ArrayBuffer(48);
      const view = new DataView(frame);
      view.setUint16(2, 1, true);
      view.setBigUint64(8, base, true);
      view.setUint32(28, 3_999_999_000, true);
      view.setUint32(32, 1, true);
      view.setUint8(42, 3);
      globalThis.vink.picture.flights(frame);
      globalThis.vink.picture.clock(base + 3_999_999_600n, 0);
    });
    expect((await seen(page, 255, 0, 255)).x).toBeCloseTo(440 + 15 + 0.6 * 370, -0.5);
    await page.close();
  });

  test(`${backend}_makes_streams_of_many_flights`, async () => {
    const page = await open(backend);
    await show(
      page,
      Array.from({ length: 50 }, (_, id) => flight({ id, class: 2, sent: id * 1000 })),
      0.5 * SECOND,
    );
    const stream = await seen(page, 0, 0, 255);
    expect(await stats(page)).toMatchObject({ flights: 50, streams: 1 });
    // All along the wire.
    expect(stream.x).toBeGreaterThan(600);
    expect(stream.x).toBeLessThan(680);
    expect(stream.count).toBeGreaterThan(200);
    await page.close();
  });

  test(`${backend}_draws_no_frame_while_nothing_moves`, async () => {
    const page = await open(backend);
    await show(page, [flight()], 0.25 * SECOND);
    await page.evaluate(() => globalThis.vink.picture.clock(0n, 1));
    // All has arrived after a second; a lost packet could be seen for a little longer.
    await page.waitForFunction(() => globalThis.vink.picture.stats().now > 2_000_000_000n);
    const before = (await stats(page)).frames;
    expect(before).toBeGreaterThan(3);
    await page.evaluate(async () => {
      for (let nth = 0; nth < 20; nth++) await new Promise(requestAnimationFrame);
    });
    expect((await stats(page)).frames).toBe(before);
    await page.close();
  });

  test(`${backend}_moves_nothing_where_motion_is_reduced`, async () => {
    const page = await open(backend, { reducedMotion: 'reduce' });
    await show(page, [flight()], 0.25 * SECOND);
    expect((await seen(page, 255, 0, 255)).count).toBe(0);
    const labels = await page.evaluate(() => globalThis.vink.picture.stats().labels);
    await page.evaluate(() =>
      globalThis.vink.picture.counters([{ end: 0, packets: 1200, bytes: 9, dropped: 0, queue: 0 }]),
    );
    await seen(page, 255, 0, 255);
    // The number on the wire is one more.
    expect(await page.evaluate(() => globalThis.vink.picture.stats().labels)).toBe(labels + 1);
    await page.close();
  });

  test(`${backend}_bundles_wires_of_a_collapsed_group`, async () => {
    const page = await open(backend);
    await show(page, [flight({ end: 2 })], 0.5 * SECOND);
    const open_ = await seen(page, 255, 0, 255);
    await page.evaluate(() => globalThis.vink.picture.collapse('c', true));
    const shut = await seen(page, 255, 0, 255);
    // c1 is at -100, the group's middle at 0.
    expect(shut.x - open_.x).toBeGreaterThan(30);
    expect(await page.evaluate(() => globalThis.vink.picture.pick(640, 550))).toEqual({ kind: 'group', name: 'c' });
    expect(await page.evaluate(() => globalThis.vink.picture.where('c1'))).toEqual([640, 550]);
    await page.close();
  });
}

test('the_pointer_selects_opens_moves_and_draws', async () => {
  const page = await open('canvas2d');
  const drag = async (from: [number, number], to: [number, number], key?: string) => {
    if (key) await page.keyboard.down(key);
    await page.mouse.move(...from);
    await page.mouse.down();
    await page.mouse.move((from[0] + to[0]) / 2, (from[1] + to[1]) / 2);
    await page.mouse.move(...to);
    await page.mouse.up();
    if (key) await page.keyboard.up(key);
    return told(page);
  };
  await page.mouse.click(440, 300);
  expect(await told(page)).toEqual([['onselect', [['a']]]]);
  await page.mouse.click(640, 300);
  expect(await told(page)).toEqual([['onselect', [['wire:ab']]]]);
  await page.keyboard.down('Control');
  await page.mouse.click(840, 300);
  await page.keyboard.up('Control');
  expect(await told(page)).toEqual([['onselect', [['wire:ab', 'b']]]]);
  await page.mouse.dblclick(440, 300);
  expect((await told(page)).at(-1)).toEqual(['onopen', [{ kind: 'machine', name: 'a' }]]);
  // From its middle a machine is moved, and with Shift a wire is drawn.
  expect(await drag([440, 300], [470, 340])).toEqual([['onmove', [[-170, 40, ...places.slice(2)]]]]);
  expect(await drag([470, 340], [840, 300], 'Shift')).toEqual([['onlink', ['a', 'b']]]);
  // From its rim, without.
  expect(await drag([840 - 14, 300], [470, 340])).toEqual([['onlink', ['b', 'a']]]);
  expect(await drag([400, 200], [900, 400], 'Shift')).toEqual([['onselect', [['a', 'b']]]]);
  // What is selected is moved together.
  const moved = await drag([470, 340], [440, 300]);
  expect(moved).toEqual([['onmove', [[-200, 0, 170, -40, ...places.slice(4)]]]]);
  // The ground moves the camera, and the wheel holds what is below the pointer.
  expect(await drag([200, 600], [250, 620])).toEqual([]);
  expect(await page.evaluate(() => globalThis.vink.picture.camera())).toEqual({ x: -50, y: 80, scale: 1 });
  const at = await page.evaluate(() => globalThis.vink.picture.where('a'));
  await page.mouse.move(...at!);
  await page.mouse.wheel(0, -300);
  await page.waitForFunction(() => globalThis.vink.picture.camera().scale > 1.5);
  const zoomed = await page.evaluate(() => globalThis.vink.picture.where('a'));
  expect(zoomed![0]).toBeCloseTo(at![0], 3);
  // A group's frame opens and closes it.
  await page.evaluate(() => globalThis.vink.picture.camera({ x: 0, y: 100, scale: 1 }));
  await page.mouse.dblclick(640, 550 - 33);
  await page.mouse.dblclick(640, 550);
  expect((await told(page)).filter(([kind]) => kind === 'oncollapse')).toEqual([
    ['oncollapse', ['c', true]],
    ['oncollapse', ['c', false]],
  ]);
  await page.close();
});

test('another_ratio_of_pixels_is_followed', async () => {
  const page = await open('canvas2d');
  await show(page, [flight()], 0.25 * SECOND);
  const one = await seen(page, 255, 0, 255);
  const session = await page.context().newCDPSession(page);
  await session.send('Emulation.setDeviceMetricsOverride', {
    width: 1280,
    height: 800,
    deviceScaleFactor: 2,
    mobile: false,
  });
  // Chromium tells nothing of it here: the next frame sees it.
  await seen(page, 0, 0, 0);
  const two = await seen(page, 255, 0, 255);
  expect(two.x).toBeCloseTo(2 * one.x, -0.8);
  expect(two.count).toBeGreaterThan(3 * one.count);
  await page.close();
});

test('a_click_on_a_packet_follows_its_flow', async () => {
  const page = await open('canvas2d');
  // A flow from a to b and on to c2, and another packet.
  await show(
    page,
    [flight({ aux: 5 }), flight({ end: 4, aux: 5, id: 1 }), flight({ end: 2, aux: 6, id: 2, class: 1 })],
    0.5 * SECOND,
  );
  const accent = [0x00, 0x5a, 0x9c] as const;
  expect((await seen(page, ...accent)).count).toBe(0);
  await page.mouse.click(640, 303);
  const [[, values]] = (await told(page)).filter(([kind]) => kind === 'onfollow') as [[string, unknown]];
  expect(values).toMatchObject([{ kind: 'flight', aux: 5, id: 77 }]);
  // Both wires it went along, and the other packet is faint.
  expect((await seen(page, ...accent)).count).toBeGreaterThan(1500);
  expect((await seen(page, 0, 255, 0)).count).toBe(0);
  expect((await seen(page, 255, 0, 255)).count).toBeGreaterThan(100);
  await page.mouse.click(200, 700);
  expect(await told(page)).toContainEqual(['onfollow', [null]]);
  expect((await seen(page, ...accent)).count).toBe(0);
  expect((await seen(page, 0, 255, 0)).count).toBeGreaterThan(20);
  await page.close();
});

test('the_layout_of_the_worker_is_that_of_the_names', async () => {
  const page = await open('canvas2d');
  const placed = await page.evaluate(async () => [...(await globalThis.vink.picture.layout())]);
  expect(placed).toEqual([...positions(network(topology)).subarray(0, 8)]);
  await page.close();
});

test('a_lost_context_comes_back_with_all_there_was', async () => {
  const page = await open('webgl2');
  await show(page, [flight()], 0.25 * SECOND);
  const before = await seen(page, 255, 0, 255);
  await page.evaluate(async () => {
    const canvas = document.querySelector('canvas')!;
    const lose = canvas.getContext('webgl2')!.getExtension('WEBGL_lose_context')!;
    const event = (name: string) => new Promise((resolve) => canvas.addEventListener(name, resolve, { once: true }));
    const lost = event('webglcontextlost');
    lose.loseContext();
    await lost;
    const restored = event('webglcontextrestored');
    // Chromium wants it in another task.
    setTimeout(() => lose.restoreContext());
    await restored;
  });
  expect(await seen(page, 255, 0, 255)).toEqual(before);
  await page.close();
});

test('a_browser_without_a_graphics_processor_gets_canvas2d', async () => {
  const page = await open('auto');
  expect(await page.evaluate(() => globalThis.vink.picture.stats())).toMatchObject({
    backend: 'canvas2d',
    why: expect.stringContaining('graphics processor'),
  });
  await page.close();
});
