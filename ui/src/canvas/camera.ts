// Where a point of the world is on the canvas, in CSS pixels, and back.
import type { Camera } from './types.ts';

export interface View extends Camera {
  /** The canvas, CSS pixels. */
  width: number;
  height: number;
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const MIN_SCALE = 0.002;
const MAX_SCALE = 20;

export function toScreen(view: View, x: number, y: number): [number, number] {
  return [(x - view.x) * view.scale + view.width / 2, (y - view.y) * view.scale + view.height / 2];
}

export function toWorld(view: View, x: number, y: number): [number, number] {
  return [(x - view.width / 2) / view.scale + view.x, (y - view.height / 2) / view.scale + view.y];
}

/** The camera that is `factor` times as near; what is at the canvas's x, y stays there. */
export function zoomed(view: View, x: number, y: number, factor: number): Camera {
  const scale = Math.min(Math.max(view.scale * factor, MIN_SCALE), MAX_SCALE);
  const [worldX, worldY] = toWorld(view, x, y);
  return { x: worldX - (x - view.width / 2) / scale, y: worldY - (y - view.height / 2) / scale, scale };
}

/** The camera that sees all of a box, but no nearer than `nearest` pixels per unit. */
export function fitting(box: Box, width: number, height: number, nearest = 1.6): Camera {
  const margin = 60;
  const scale = Math.min(
    Math.max(width - margin, 40) / Math.max(box.right - box.left, 1),
    Math.max(height - margin, 40) / Math.max(box.bottom - box.top, 1),
    nearest,
  );
  return {
    x: (box.left + box.right) / 2,
    y: (box.top + box.bottom) / 2,
    scale: Math.max(scale, MIN_SCALE),
  };
}

/** Half a node's size, pixels: small ones stay visible, near ones do not fill the canvas. */
export function nodeSize(scale: number): number {
  return Math.min(Math.max(15 * scale, 2), 28);
}
