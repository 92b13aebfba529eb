// Which labels are drawn: the most important that fit without covering each other, at most 400.
import { nodeSize, type View } from './camera.ts';
import type { Label } from './drawing.ts';

export const MOST = 400;
const HEIGHT = 15;
const LETTER = 7;
const CELL = 16;

/** Of `labels`, most important first, those that are on the canvas and have room. */
export function chosen(labels: Label[], view: View, most = MOST): Label[] {
  const columns = Math.ceil(view.width / CELL) + 1;
  const taken = new Uint8Array(columns * (Math.ceil(view.height / CELL) + 1));
  const result: Label[] = [];
  const size = nodeSize(view.scale);
  for (const label of labels) {
    if (result.length === most) break;
    const x = (label.x - view.x) * view.scale + view.width / 2;
    const y = (label.y - view.y) * view.scale + view.height / 2;
    const half = (label.text.length * LETTER) / 2;
    // Most are elsewhere, when the camera is near.
    if (x + half + 40 < 0 || x - half - 40 > view.width || y + 80 < 0 || y - 80 > view.height) continue;
    const [left, right] = [x + label.dx - half, x + label.dx + half];
    const dy = label.dy + label.below * size;
    const [top, bottom] = [y + dy - HEIGHT / 2, y + dy + HEIGHT / 2];
    if (right < 0 || bottom < 0 || left >= view.width || top >= view.height) continue;
    const [first, last] = [Math.max(0, Math.floor(left / CELL)), Math.min(columns - 1, Math.floor(right / CELL))];
    const rows = [Math.max(0, Math.floor(top / CELL)), Math.floor(Math.min(view.height, bottom) / CELL)] as const;
    let isFree = true;
    for (let row = rows[0]; row <= rows[1] && isFree; row++) {
      for (let column = first; column <= last; column++) {
        if (taken[row * columns + column]) isFree = false;
      }
    }
    if (!isFree) continue;
    for (let row = rows[0]; row <= rows[1]; row++) taken.fill(1, row * columns + first, row * columns + last + 1);
    result.push({ ...label, dy, below: 0 });
  }
  return result;
}
