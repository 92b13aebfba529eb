// What is below the pointer. All is compared with it on the processor: ten thousand nodes and wires and a hundred thousand
// flights take some milliseconds at most, and both backends say the same.
import { nodeSize, toScreen, toWorld, type View } from './camera.ts';
import { LANE, NOWHERE, type Moving } from './drawing.ts';
import { WORDS } from './feed.ts';
import { place, Places, ways } from './flights.ts';
import type { Scene } from './scene.ts';

/** Flights on wires near the pointer. */
const near = new Places();
/** How far from a line or a flight the pointer may be, pixels. */
const NEAR = 6;

export type Found =
  | { kind: 'point'; point: number; /** Near its rim, where wires begin. */ isRim: boolean }
  | { kind: 'line'; line: number; /** Nearer to the line's second point. */ isSecond: boolean }
  | { kind: 'flight'; place: number }
  | { kind: 'frame'; group: number };

/** How far a point is from the way between two others, and how far along it is there, 0 to 1. */
export function distance(x: number, y: number, ax: number, ay: number, bx: number, by: number): [number, number] {
  const [dx, dy] = [bx - ax, by - ay];
  const along = Math.min(Math.max(((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1), 0), 1);
  return [Math.hypot(ax + along * dx - x, ay + along * dy - y), along];
}

export function nodeAt(scene: Scene, view: View, x: number, y: number): Found | null {
  const { points, graph } = scene;
  const size = nodeSize(view.scale);
  const firstGroup = graph.machines + graph.hubs.length;
  const [worldX, worldY] = toWorld(view, x, y);
  // Of nodes that cover each other the last is seen. Small ones are easier to hit than to see.
  for (let point = graph.shown.length - 1; point >= 0; point--) {
    const dx = Math.abs(points[2 * point]! - worldX) * view.scale;
    const dy = Math.abs(points[2 * point + 1]! - worldY) * view.scale;
    const wide = point >= firstGroup ? 1.7 * size : size;
    const reach = Math.max(wide, 5) + 2;
    if (dx > reach || dy > reach || !scene.isDrawn(point)) continue;
    return { kind: 'point', point, isRim: wide >= 12 && Math.max(dx, dy) > 0.75 * wide };
  }
  return null;
}

/** Visits the lines that are at most `reach` pixels away. */
function linesAt(
  scene: Scene,
  view: View,
  x: number,
  y: number,
  reach: number,
  visit: (line: number, far: number, along: number) => void,
): void {
  const { places } = scene;
  const [worldX, worldY] = toWorld(view, x, y);
  const near = reach / view.scale;
  for (let at = 0; at < places.length; at += 4) {
    const [ax, ay, bx, by] = [places[at]!, places[at + 1]!, places[at + 2]!, places[at + 3]!];
    if ((ax < bx ? ax : bx) > worldX + near || (ax > bx ? ax : bx) < worldX - near) continue;
    if ((ay < by ? ay : by) > worldY + near || (ay > by ? ay : by) < worldY - near) continue;
    const [far, along] = distance(worldX, worldY, ax, ay, bx, by);
    if (far <= near) visit(at / 4, far * view.scale, along);
  }
}

export function lineAt(scene: Scene, view: View, x: number, y: number): Found | null {
  let best = Infinity;
  let found: Found | null = null;
  linesAt(scene, view, x, y, NEAR, (line, far, along) => {
    if (far >= best) return;
    best = far;
    found = { kind: 'line', line, isSecond: along > 0.5 };
  });
  return found;
}

export function flightAt(
  words: Uint32Array,
  scene: Scene,
  view: View,
  moving: Moving,
  x: number,
  y: number,
): Found | null {
  // Only flights on wires that are near can be.
  const ends = new Float32Array(scene.ends.length).fill(NOWHERE);
  let isAny = false;
  linesAt(scene, view, x, y, NEAR + LANE + 1, (line) => {
    const { forth, back } = scene.graph.lines[line]!;
    for (const end of [...forth, ...back]) ends.set(scene.ends.subarray(4 * end, 4 * end + 4), 4 * end);
    isAny = true;
  });
  let best = NEAR + 1;
  let found: Found | null = null;
  if (!isAny) return found;
  const along = new Float32Array(ends.length);
  ways(ends, view, along);
  place(words, along, moving, 1, near);
  for (let at = 0; at < near.count; at++) {
    const far = Math.hypot(near.x[at]! - x, near.y[at]! - y);
    if (far >= best) continue;
    best = far;
    found = { kind: 'flight', place: near.word[at]! / WORDS };
  }
  return found;
}

/** An open group's frame: its border, or its title. */
export function frameAt(scene: Scene, view: View, x: number, y: number): Found | null {
  for (const [group, name] of scene.graph.groups.entries()) {
    const box = scene.collapsed.has(name) ? null : scene.frame(group);
    if (!box) continue;
    const [left, top] = toScreen(view, box.left, box.top);
    const [right, bottom] = toScreen(view, box.right, box.bottom);
    const isInside = x > left - 4 && x < right + 4 && y > top - 4 && y < bottom + 4;
    const isBorder = x < left + 4 || x > right - 4 || y < top + 18 || y > bottom - 4;
    if (isInside && isBorder) return { kind: 'frame', group };
  }
  return null;
}

/** The points whose middle is in a box of the canvas. */
export function within(scene: Scene, view: View, x: number, y: number, toX: number, toY: number): number[] {
  const found: number[] = [];
  scene.graph.shown.forEach((_, point) => {
    if (!scene.isDrawn(point)) return;
    const [atX, atY] = toScreen(view, scene.points[2 * point]!, scene.points[2 * point + 1]!);
    const isIn = (at: number, one: number, other: number) => at >= Math.min(one, other) && at <= Math.max(one, other);
    if (isIn(atX, x, toX) && isIn(atY, y, toY)) found.push(point);
  });
  return found;
}
