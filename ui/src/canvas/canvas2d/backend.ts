// The picture by Canvas2D, where there is no WebGL2, or only a slow one. What stands still is drawn into a bitmap; while the
// camera moves, the bitmap of the last place is shifted and stretched, and drawn anew when the camera rests. Small flights
// are pixels (dots.ts); of many larger ones some are drawn, the same ones along their whole way.
//
// The canvas is one that is read often: browsers draw on these by themselves, which is many times as fast here as through a
// GPU that is a program. With a true one this backend is not used.
import { nodeSize, toScreen, type View } from '../camera.ts';
import type { Batch } from '../batch.ts';
import {
  BOX,
  CROSSED,
  DIAMOND,
  flightSize,
  HOLLOW,
  ROUND,
  WORLD,
  type Backend,
  type Drawing,
  type Label,
  type Moving,
} from '../drawing.ts';
import { isLost } from '../feed.ts';
import { place, Places, ways } from '../flights.ts';
import { glyph } from '../glyphs.ts';
import { css, parseColour, type Theme } from '../theme.ts';
import type { PacketClass } from '../types.ts';
import { Dots } from './dots.ts';

/** Flights drawn at most, if they are not dots. */
const MOST = 5000;
/** Flights smaller than this, CSS pixels, are dots. */
const DOT = 5;
/** With more shapes and lines than this, the bitmap is not drawn anew while the camera moves. */
const MANY = 400;
const REST_MS = 120;
/** The sprite of lost packets. */
const LOST = 31;

/** Of a canvas of the page, or of one that a worker draws. */
export type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

export class Canvas2d implements Backend {
  readonly #context: Context;
  readonly #still = new OffscreenCanvas(1, 1);
  readonly #stillContext = this.#still.getContext('2d', { alpha: false, willReadFrequently: true })!;
  readonly #again: () => void;
  #drawing: Drawing | null = null;
  #labels: Label[] = [];
  #ends: Float32Array = new Float32Array();
  /** By end, on the canvas as it was last drawn. */
  #ways = new Float32Array();
  #waysOf: View | null = null;
  #words: Uint32Array = new Uint32Array();
  readonly #dots = new Dots();
  #palette = new Uint32Array(LOST + 1);
  #theme: Theme | null = null;
  #classes: PacketClass[] = [];
  #ratio = 1;
  /** Where the bitmap was drawn from, and what of. */
  #seen: View | null = null;
  #isStale = true;
  /** Whether the dots' copy of it is out of date. */
  #isRead = true;
  #last: View | null = null;
  #moved = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sprites = new Map<number, OffscreenCanvas>();
  #spriteSize = 0;
  readonly #places = new Places();
  #xs: Float32Array[] = [];
  #counts = new Uint32Array(32);

  /** `again` asks for a frame. */
  constructor(context: Context, again: () => void) {
    this.#context = context;
    this.#again = again;
  }

  resize(width: number, height: number, ratio: number): void {
    for (const canvas of [this.#still, this.#context.canvas]) {
      canvas.width = Math.max(1, Math.round(width * ratio));
      canvas.height = Math.max(1, Math.round(height * ratio));
    }
    this.#ratio = ratio;
    this.#isStale = true;
  }

  theme(theme: Theme, classes: PacketClass[]): void {
    this.#theme = theme;
    this.#classes = classes;
    this.#sprites.clear();
    for (let kind = 0; kind < LOST; kind++) {
      this.#palette[kind] = parseColour(this.#classOf(kind).colour) ?? theme.faint;
    }
    this.#palette[LOST] = theme.bad;
    this.#isStale = true;
  }

  draw(drawing: Drawing): void {
    this.#drawing = drawing;
    this.#isStale = true;
  }

  label(labels: Label[]): void {
    this.#labels = labels;
    this.#isStale = true;
  }

  ends(ends: Float32Array): void {
    this.#ends = ends;
    this.#waysOf = null;
  }

  records(words: Uint32Array): void {
    this.#words = words;
  }

  frame(view: View, moving: Moving): number {
    const context = this.#context;
    const now = performance.now();
    if (this.#last && !isSame(this.#last, view)) this.#moved = now;
    this.#last = { ...view };
    const many = this.#drawing ? this.#drawing.lines.count + this.#drawing.shapes.count > MANY : false;
    const isMoving = many && now - this.#moved < REST_MS && this.#seen !== null;
    const isElsewhere = !this.#seen || !isSame(this.#seen, view);
    if ((this.#isStale || isElsewhere) && !isMoving) {
      this.#drawStill(view);
    } else if (isMoving) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(this.#again, REST_MS);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    const from = this.#seen!;
    const isThere = isSame(from, view);
    const isDots = isThere && moving.flights > 0 && flightSize(view.scale) < DOT && !moving.follow;
    let drawn = 0;
    if (isDots) {
      drawn = this.#drawDots(context, view, moving);
    } else if (isThere) {
      context.drawImage(this.#still, 0, 0);
    } else {
      context.fillStyle = css(this.#theme!.ground);
      context.fillRect(0, 0, this.#still.width, this.#still.height);
      const stretch = view.scale / from.scale;
      const [x, y] = toScreen(view, from.x, from.y);
      const [left, top] = [x - (from.width / 2) * stretch, y - (from.height / 2) * stretch];
      const [width, height] = [this.#still.width * stretch, this.#still.height * stretch];
      context.drawImage(this.#still, left * this.#ratio, top * this.#ratio, width, height);
    }
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    this.#lines(context, moving.lines, view, moving.phase);
    return isDots ? drawn : this.#flights(context, view, moving);
  }

  #follow(view: View): Float32Array {
    if (this.#waysOf && isSame(this.#waysOf, view)) return this.#ways;
    if (this.#ways.length !== this.#ends.length) this.#ways = new Float32Array(this.#ends.length);
    ways(this.#ends, view, this.#ways);
    this.#waysOf = { ...view };
    return this.#ways;
  }

  #drawDots(context: Context, view: View, moving: Moving): number {
    const dots = this.#dots;
    const ratio = this.#ratio;
    const side = Math.max(2, Math.round(0.8 * flightSize(view.scale) * ratio));
    const words = this.#words;
    const palette = this.#palette;
    if (this.#isRead) {
      dots.set(this.#stillContext);
      this.#isRead = false;
    }
    dots.begin();
    const places = this.#places;
    place(words, this.#follow(view), moving, 1, places);
    for (let at = 0; at < places.count; at++) {
      const packed = words[places.word[at]! + 4]!;
      const colour = palette[isLost(packed) ? LOST : Math.min((packed >>> 16) & 255, LOST)]!;
      dots.dot(places.x[at]! * ratio, places.y[at]! * ratio, side, colour);
    }
    dots.end(context);
    return places.count;
  }

  #drawStill(view: View): void {
    const context = this.#stillContext;
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    context.fillStyle = css(this.#theme!.ground);
    context.fillRect(0, 0, view.width, view.height);
    if (this.#drawing) {
      this.#shapes(context, this.#drawing.frames, view);
      this.#lines(context, this.#drawing.lines, view, 0);
      this.#shapes(context, this.#drawing.shapes, view);
    }
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.lineWidth = 3;
    context.lineJoin = 'round';
    context.strokeStyle = css(this.#theme!.ground);
    for (const { x, y, dx, dy, text, colour } of this.#labels) {
      const [left, top] = toScreen(view, x, y);
      context.strokeText(text, left + dx, top + dy);
      context.fillStyle = css(colour);
      context.fillText(text, left + dx, top + dy);
    }
    this.#seen = { ...view };
    this.#isStale = false;
    this.#isRead = true;
  }

  #lines(context: Context, lines: Batch, view: View, seconds: number): void {
    const { f, u, words, count } = lines;
    const size = nodeSize(view.scale);
    let style = '';
    context.beginPath();
    for (let at = 0; at < count * words; at += words) {
      const [x, y] = toScreen(view, f[at]!, f[at + 1]!);
      const [toX, toY] = toScreen(view, f[at + 2]!, f[at + 3]!);
      if (Math.max(x, toX) < 0 || Math.max(y, toY) < 0) continue;
      if (Math.min(x, toX) > view.width || Math.min(y, toY) > view.height) continue;
      const far = Math.hypot(toX - x, toY - y);
      const [alongX, alongY] = [(toX - x) / far, (toY - y) / far];
      const rim = f[at + 5]! > 0 || f[at + 10]! > 0 ? size : 0;
      const begin = rim + f[at + 4]!;
      const end = f[at + 5]! > 0 ? Math.min(begin + f[at + 5]!, far - rim) : far + f[at + 5]! - rim;
      if (!(end > begin)) continue;
      const side = f[at + 6]!;
      const period = f[at + 9]!;
      const now = `${u[at + 8]} ${f[at + 7]} ${period} ${f[at + 10]}`;
      // Lines that look alike are one path: most of them do.
      if (now !== style) {
        if (style) context.stroke();
        context.beginPath();
        style = now;
        context.strokeStyle = css(u[at + 8]!);
        context.lineWidth = f[at + 7]!;
        context.setLineDash(period > 0 ? [period / 2, period / 2] : []);
        context.lineDashOffset = -seconds * f[at + 10]!;
      }
      const [fromX, fromY] = [x - alongY * side, y + alongX * side];
      context.moveTo(fromX + alongX * begin, fromY + alongY * begin);
      context.lineTo(fromX + alongX * end, fromY + alongY * end);
    }
    if (style) context.stroke();
    context.setLineDash([]);
  }

  #shapes(context: Context, shapes: Batch, view: View): void {
    const { f, u, words, count } = shapes;
    const size = nodeSize(view.scale);
    for (let at = 0; at < count * words; at += words) {
      const [x, y] = toScreen(view, f[at]!, f[at + 1]!);
      const look = u[at + 6]!;
      const unit = look & WORLD ? view.scale : size;
      const [width, height] = [f[at + 2]! * unit, f[at + 3]! * unit];
      if (x + width < 0 || y + height < 0 || x - width > view.width || y - height > view.height) continue;
      const shape = look & 255;
      context.fillStyle = css(u[at + 4]!);
      if (size < 4 && !(look & WORLD)) {
        context.fillRect(x - width, y - height, 2 * width, 2 * height);
        continue;
      }
      context.beginPath();
      if (shape === ROUND) {
        context.arc(x, y, width, 0, 2 * Math.PI);
      } else if (shape === DIAMOND) {
        context.moveTo(x, y - height);
        context.lineTo(x + width, y);
        context.lineTo(x, y + height);
        context.lineTo(x - width, y);
        context.closePath();
      } else {
        const radius = shape === BOX ? Math.min(Math.min(width, height) * 0.4, 12) : 0;
        context.roundRect(x - width, y - height, 2 * width, 2 * height, radius);
      }
      context.fill();
      context.lineWidth = Math.min(look >>> 16, Math.min(width, height));
      context.strokeStyle = css(u[at + 5]!);
      if (look >>> 16) context.stroke();
      if (look & HOLLOW) {
        context.globalAlpha = 0.8;
        context.fillStyle = css(u[at + 5]!);
        if (shape === ROUND) {
          context.beginPath();
          context.arc(x, y, 0.7 * width, 0, 2 * Math.PI);
          context.fill();
        } else {
          context.fillRect(x - 0.7 * width, y - 0.65 * height, 1.4 * width, 1.3 * height);
        }
        context.globalAlpha = 1;
      }
      if (look & CROSSED) {
        context.beginPath();
        context.moveTo(x - width, y - height);
        context.lineTo(x + width, y + height);
        context.moveTo(x - width, y + height);
        context.lineTo(x + width, y - height);
        context.stroke();
      }
    }
  }

  #flights(context: Context, view: View, moving: Moving): number {
    if (!this.#words.length) return 0;
    const size = flightSize(view.scale);
    const oneIn = Math.max(1, Math.ceil(moving.flights / MOST));
    this.#counts.fill(0);
    const words = this.#words;
    const { follow } = moving;
    const bright: [number, number, number][] = [];
    const places = this.#places;
    place(words, this.#follow(view), moving, oneIn, places);
    for (let nth = 0; nth < places.count; nth++) {
      const [word, x, y] = [places.word[nth]!, places.x[nth]!, places.y[nth]!];
      const packed = words[word + 4]!;
      const kind = isLost(packed) ? LOST : Math.min((packed >>> 16) & 255, LOST - 1);
      if (follow && ('id' in follow ? words[word + 3] === follow.id : words[word + 5] === follow.aux)) {
        bright.push([kind, x, y]);
        continue;
      }
      const at = 2 * this.#counts[kind]!++;
      let xs = (this.#xs[kind] ??= new Float32Array(256));
      if (at + 2 > xs.length) {
        xs = new Float32Array(2 * xs.length);
        xs.set(this.#xs[kind]!);
        this.#xs[kind] = xs;
      }
      xs[at] = x;
      xs[at + 1] = y;
    }
    context.globalAlpha = follow ? 0.2 : 1;
    for (let kind = 0; kind < 32; kind++) {
      const xs = this.#xs[kind]!;
      const count = this.#counts[kind]!;
      if (!count) continue;
      if (size < DOT) {
        context.fillStyle = kind === LOST ? css(this.#theme!.bad) : this.#classOf(kind).colour;
        for (let at = 0; at < 2 * count; at += 2) {
          context.fillRect(xs[at]! - size / 2, xs[at + 1]! - size / 2, size, size);
        }
      } else {
        const sprite = this.#sprite(kind, Math.round(size * this.#ratio));
        for (let at = 0; at < 2 * count; at += 2) {
          context.drawImage(sprite, xs[at]! - size / 2, xs[at + 1]! - size / 2, size, size);
        }
      }
    }
    context.globalAlpha = 1;
    for (const [kind, x, y] of bright) {
      const wide = 1.7 * Math.max(size, 6);
      context.drawImage(this.#sprite(kind, Math.round(size * this.#ratio)), x - wide / 2, y - wide / 2, wide, wide);
    }
    return places.count;
  }

  #classOf(kind: number): PacketClass {
    return this.#classes[kind] ?? this.#classes[0] ?? { name: '', colour: '#7d8b97', glyph: 'disc' };
  }

  #sprite(kind: number, size: number): OffscreenCanvas {
    if (size !== this.#spriteSize) this.#sprites.clear();
    this.#spriteSize = size;
    let sprite = this.#sprites.get(kind);
    if (!sprite) {
      const { glyph: of, colour } = this.#classOf(kind);
      sprite = kind === LOST ? glyph('cross', css(this.#theme!.bad), size) : glyph(of, colour, size);
      this.#sprites.set(kind, sprite);
    }
    return sprite;
  }

  async shown(): Promise<void> {}

  destroy(): void {
    clearTimeout(this.#timer);
  }
}

function isSame(one: View, other: View): boolean {
  return (
    one.x === other.x &&
    one.y === other.y &&
    one.scale === other.scale &&
    one.width === other.width &&
    one.height === other.height
  );
}
