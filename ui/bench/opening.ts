// A lab opened in the page, by a link as `vink ui` gives it: from the address to the first picture of all of it. By the
// clock, with the control process, its worker and the browser on one computer.
import type { Browser } from 'playwright-core';
import { LONGEST_MS, type Daemon } from './daemon.ts';
import { made } from './network.ts';

/** After that time what a page keeps is there for others, ms. */
const KEPT_MS = 3000;

/** Makes the lab that is opened: the made-up network of so many machines, each wire with addresses. Its name. */
export async function prepare(daemon: Daemon, machines: number): Promise<string> {
  const name = `opened-${machines}`;
  const { machines: nodes, wires } = made(machines);
  const spec = {
    name,
    memory: machines > 1000 ? '6G' : '1G',
    machines: Object.fromEntries(
      nodes.map(({ name, kind }) => [name, { forward: kind === 'router', interfaces: {} as Record<string, object> }]),
    ),
  };
  wires.forEach(({ name, ends }, place) => {
    ends.forEach(([at, port], side) => {
      const address = `10.${place >> 14}.${(place >> 6) & 255}.${4 * (place & 63) + side + 1}/30`;
      spec.machines[nodes[at]!.name]!.interfaces[port] = { wire: name, addresses: [address] };
    });
  });
  await daemon.ask('PUT', `/labs/${name}`, { spec, folder: '/tmp', new: true });
  return name;
}

/** ms from the address on. */
export interface Opened {
  /** All of it was drawn. */
  drawn: number;
  /** All of it was drawn where it stays. */
  placed: number;
}

/**
 * Opens it in a page of its own. `keeps`: has the lab keep where its machines are, so that the next page does not have to
 * find places for them.
 */
export async function open(
  daemon: Daemon,
  browser: Browser,
  lab: string,
  machines: number,
  keeps = false,
): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.on('pageerror', (error) => console.error(`page: ${error.stack}`));
  const link = daemon.vink('ui', '--share', 'bench', '--role', 'own', lab).trim();
  await page.goto(link, { waitUntil: 'commit' });
  // Asked at each frame there: a question from here would wait for its turn behind the page's own work.
  const when = async (isPlaced: boolean): Promise<number> => {
    const frame = await page.waitForFunction(
      ([machines, isPlaced]) => {
        const { vink } = window as unknown as { vink?: { stats(): { nodes: number; isPlacing: boolean } } };
        const now = vink?.stats();
        return now?.nodes === machines && !(isPlaced && now.isPlacing) && performance.now();
      },
      [machines, isPlaced] as const,
      { polling: 'raf', timeout: 2 * LONGEST_MS },
    );
    return (await frame.jsonValue()) as number;
  };
  const drawn = await when(false);
  const placed = await when(true);
  if (keeps) {
    await page.getByRole('button', { name: 'Arrange' }).click();
    await when(true);
    // Until the control process has them all.
    await page.waitForTimeout(KEPT_MS);
  }
  await context.close();
  return { drawn, placed };
}
