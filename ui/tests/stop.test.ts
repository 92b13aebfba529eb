// A lab that stops at a breakpoint, and goes on step by step.
import { expect, test } from 'vitest';
import { ask, close, open, picture, until, vink } from './harness.ts';

const LAB = {
  name: 'stops',
  time: 'virtual',
  seed: 1,
  machines: {
    alice: {
      interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.1/24'] } },
      programs: { client: { app: 'source -n 100000 10.0.0.2', after: ['bob.server'] } },
    },
    bob: {
      interfaces: { eth0: { wire: 'w1', addresses: ['10.0.0.2/24'] } },
      programs: { server: { app: 'sink' } },
    },
  },
  wires: { w1: { delay: '10ms', rate: '10mbit' } },
};

test('a_syn_stops_the_lab_which_goes_on_by_steps', async () => {
  await ask('PUT', '/labs/stops', { spec: LAB, folder: '/tmp', new: true, paused: true });
  const page = await open('#/lab/stops?sel=wire%3Aw1&panel=breakpoints');

  // A click on the wire, another on SYN: the form is filled in, and says the line that it equals.
  await page.getByRole('button', { name: 'SYN', exact: true }).click();
  await page.getByLabel('Name', { exact: true }).fill('syn');
  await page.getByRole('button', { name: 'Set it' }).focus();
  await page
    .getByTestId('line')
    .getByText("vink break add w1 arrival filter 'tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn' --name syn --lab stops")
    .waitFor();
  await page.getByRole('button', { name: 'Set it' }).click();
  await page.getByRole('button', { name: 'Remove syn' }).waitFor();
  expect(vink('break', 'list', '--lab', 'stops')).toContain('syn');

  // The lab runs until the SYN arrives, and the page says what stopped it and why.
  await page.getByRole('textbox', { name: 'Run until' }).fill('10s');
  await page.getByRole('button', { name: 'Run until' }).click();
  const stopped = page.getByRole('region', { name: 'Stopped' });
  await stopped.getByText('The lab is stopped').waitFor();
  await stopped.getByText('bob:eth0').waitFor();
  await stopped.getByText('TCP [S]').waitFor();
  // Its own clock has stood since then: a delay after the SYN was sent.
  expect(vink('lab', 'clock', 'stops')).toContain('stopped');
  await page.getByRole('status').getByText('Breakpoint syn stopped the lab at bob:eth0').waitFor({ state: 'attached' });

  await picture(page, 'stop');

  // On it goes, a packet at a time: it was paused before, and is again.
  await page.getByRole('button', { name: 'Disable syn' }).click();
  await stopped.getByRole('button', { name: 'Continue' }).click();
  await stopped.waitFor({ state: 'detached' });
  const before = (await ask<{ nanoseconds: number }>('GET', '/labs/stops/clock')).nanoseconds;
  await page.getByRole('button', { name: 'Step to the next packet' }).click();
  await page.getByTestId('line').getByText('vink lab step packet --lab stops').waitFor();
  await until(async () => (await ask<{ nanoseconds: number }>('GET', '/labs/stops/clock')).nanoseconds > before);
  await close(page);
});
