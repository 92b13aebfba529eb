// The player of a picture that was saved as a page: play, speed, and any time of what was kept. Made into one script,
// viewer.js, which the page puts into what it saves.
import { Picture } from '../canvas/picture.ts';
import { fromText, type Snapshot } from './snapshot.ts';

const STEPS = 10_000;
const SPEEDS = [0.001, 0.01, 0.1, 0.25, 0.5, 1, 2, 5, 10];

const STYLE = `
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; background: #fbfcfd; color: #14202b; font: 14px/1.45 system-ui, sans-serif; }
canvas { flex: 1; min-height: 0; width: 100%; }
form { display: flex; flex-wrap: wrap; gap: 0.6rem; align-items: center; padding: 0.4rem 0.8rem; border-top: 1px solid #c9d2d9; }
input[type='range'] { flex: 1; min-width: 8rem; }
output { font-variant-numeric: tabular-nums; min-width: 9rem; }
button, select { font: inherit; }
`;

function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  set: Partial<HTMLElementTagNameMap[K]> = {},
  ...inside: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), set);
  element.append(...inside);
  return element;
}

const snapshot = JSON.parse(document.getElementById('snapshot')!.textContent!) as Snapshot;
document.title = snapshot.title;
document.head.append(make('style', {}, STYLE));

const canvas = make('canvas');
canvas.setAttribute('role', 'img');
const { machines, wires } = snapshot.topology;
canvas.setAttribute('aria-label', `${snapshot.title}: ${machines.length} machines, ${wires.length} wires`);
const button = make('button', { type: 'button' }, 'Play');
const range = make('input', { type: 'range', min: '0', max: String(STEPS), value: '0', ariaLabel: 'Time' });
const time = make('output');
const speed = make(
  'select',
  { ariaLabel: 'Speed' },
  ...SPEEDS.map((value) => make('option', { value: String(value) }, `×${value}`)),
);
const sampled = snapshot.oneIn > 1 ? `1 of ${snapshot.oneIn} packets` : '';
document.body.append(canvas, make('form', {}, button, speed, range, time, make('span', {}, sampled)));

const picture = new Picture(canvas);
picture.classes(snapshot.classes);
picture.topology(snapshot.topology);
picture.positions(Float32Array.from(snapshot.positions));
for (const group of snapshot.collapsed) picture.collapse(group, true);
picture.camera(snapshot.camera);
picture.fit();
for (const frame of snapshot.frames) picture.flights(fromText(frame));

const { from, to } = picture.stats();
const length = Number(to - from) || 1;
let plays = false;

/** So that all of it takes some ten seconds, or as long as it did. */
const fitting = SPEEDS.findLast((value) => value <= Math.max(length / 10e9, SPEEDS[0]!)) ?? 1;
speed.value = String(Math.min(fitting, 1));

function set(now: bigint): void {
  picture.clock(now, plays ? Number(speed.value) : 0, snapshot.least);
}

function shown(): bigint {
  const { now } = picture.stats();
  return now < from ? from : now > to ? to : now;
}

function play(isPlaying: boolean): void {
  plays = isPlaying;
  button.textContent = plays ? 'Pause' : 'Play';
  set(plays && shown() === to ? from : shown());
  if (plays) requestAnimationFrame(follow);
}

function tell(): void {
  const now = shown();
  range.value = String(Math.round((Number(now - from) / length) * STEPS));
  time.textContent = `${(Number(now - from) / 1e9).toFixed(6)} s`;
}

function follow(): void {
  tell();
  if (!plays) return;
  if (shown() === to) play(false);
  else requestAnimationFrame(follow);
}

button.onclick = () => play(!plays);
speed.onchange = () => set(shown());
range.oninput = () => {
  if (plays) play(false);
  set(from + BigInt(Math.round((Number(range.value) / STEPS) * length)));
  tell();
};
set(from);
tell();
Object.assign(globalThis, { vink: { picture, stats: () => picture.stats() } });
