// Processor time of a page's main thread for each frame, from Chromium's own trace: all of its tasks, from one that draws a
// frame to the next. Other processes beside it do not count, as they do by the clock.
import type { Page } from 'playwright-core';

interface Traced {
  ph: string;
  name: string;
  pid: number;
  tid: number;
  /** µs by the clock, and its thread's processor time. */
  ts: number;
  dur: number;
  tdur?: number;
}

/** Runs `during`, and gives what it gave with ms of the main thread by frame. */
export async function traced<T>(page: Page, during: () => Promise<T>): Promise<[T, number[]]> {
  const browser = page.context().browser()!;
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline'] });
  const result = await during();
  const text = (await browser.stopTracing()).toString();
  const events = (JSON.parse(text) as { traceEvents: Traced[] }).traceEvents.filter(({ ph }) => ph === 'X');
  const frames = events.filter(({ name }) => name === 'FireAnimationFrame');
  const main = frames[0];
  if (!main) throw new Error('the trace has no frame: was the page drawn?');
  const tasks = events
    .filter(({ name, tid, pid }) => name === 'ThreadControllerImpl::RunTask' && tid === main.tid && pid === main.pid)
    .sort((a, b) => a.ts - b.ts);
  const starts = frames.filter(({ tid }) => tid === main.tid).map(({ ts }) => ts);
  starts.sort((a, b) => a - b);
  const costs: number[] = [];
  let next = 0;
  for (const { ts, dur, tdur = 0 } of tasks) {
    let isFrame = false;
    for (; next < starts.length && starts[next]! < ts + dur; next++) isFrame ||= starts[next]! >= ts;
    if (isFrame) costs.push(0);
    if (costs.length) costs[costs.length - 1]! += tdur / 1000;
  }
  // The last is cut off.
  return [result, costs.slice(0, -1)];
}
