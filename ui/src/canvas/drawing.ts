// What a backend draws: lists of lines, shapes and labels, in the world's coordinates with sizes in pixels, made by
// scene.ts. All but flights and streams stays as it is until something changes.
import { Batch } from './batch.ts';
import type { Run } from './ring.ts';
import type { View } from './camera.ts';
import type { PacketClass } from './types.ts';
import type { Theme } from './theme.ts';

/**
 * A line's words: x, y, x, y; where it begins on the way from the one to the other, pixels; how long it is, pixels (0 or
 * less: to that far before the other); how far to its right it is shifted, pixels; width, pixels; colour; dashes' period,
 * pixels (0: none), and their speed, pixels per second. One with a length or a speed begins and ends at the nodes' rims.
 */
export const LINE = 11;
/** A shape's words: x, y, half width, half height, fill, stroke, and how it looks (`look`). */
export const SHAPE = 7;

export const BOX = 0;
export const ROUND = 1;
export const SQUARE = 2;
export const DIAMOND = 3;

/** What else a shape's look says. */
export const CROSSED = 1 << 8;
export const HOLLOW = 1 << 9;
/** Half width and height are in the world's units, not in half sizes of a node. */
export const WORLD = 1 << 10;
export const look = (shape: number, stroke: number, flags = 0): number => shape | flags | (stroke << 16);

export interface Label {
  x: number;
  y: number;
  /** From there, pixels, and half sizes of a node downwards; the label is centred on it. */
  dx: number;
  dy: number;
  below: number;
  text: string;
  colour: number;
  priority: number;
}

export interface Drawing {
  /** Behind nodes. */
  frames: Batch;
  lines: Batch;
  shapes: Batch;
  labels: Label[];
}

export function drawing(): Drawing {
  return { frames: new Batch(SHAPE), lines: new Batch(LINE), shapes: new Batch(SHAPE), labels: [] };
}

/** What moves. */
export interface Moving {
  now: bigint;
  runs: Run[];
  /** Flights under way in these runs, for a backend that can draw only some. */
  flights: number;
  /** Each hop is shown for at least so long, ns of the lab's time; and a lost packet for this long. */
  least: number;
  lost: number;
  /** Lines above all else: streams, whose dashes move, and what the user draws. */
  lines: Batch;
  /** Seconds, for the dashes. */
  phase: number;
  follow: { id: number } | { aux: number } | null;
}

export interface Backend {
  /** The canvas has another size: CSS pixels, and device pixels per CSS pixel. */
  resize(width: number, height: number, ratio: number): void;
  theme(theme: Theme, classes: PacketClass[]): void;
  /** Lines, shapes and labels have changed. */
  draw(drawing: Drawing): void;
  /** Only the labels have; all that is from their place is in pixels. */
  label(labels: Label[]): void;
  /** Where flights of each end begin and arrive: x, y, x, y; far away where none is drawn. */
  ends(ends: Float32Array): void;
  /** All records, and which of them are new. */
  records(words: Uint32Array, start: number, count: number): void;
  /** Draws a frame: how many flights it shows one by one. Null: one that was asked for before is left out for it. */
  frame(view: View, moving: Moving): number | null;
  /** Resolves when the canvas shows the last frame that was asked for. */
  shown(): Promise<void>;
  destroy(): void;
}

/** Where an end's flights are that are not drawn. */
export const NOWHERE = 1e9;

/** How far to the right of their wire flights are drawn, pixels: the two directions are two lanes. */
export const LANE = 3;

/** A flight's size, pixels. */
export function flightSize(scale: number): number {
  return Math.min(Math.max(9 * Math.sqrt(scale), 3), 13);
}
