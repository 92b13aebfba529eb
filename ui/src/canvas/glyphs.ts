// The glyphs of packets' classes, drawn once: a row of squares.
import { GLYPHS, type Glyph } from './types.ts';

/** A square's side, pixels. */
export const SIDE = 32;

function path(context: OffscreenCanvasRenderingContext2D, glyph: Glyph): void {
  const [middle, far] = [SIDE / 2, SIDE / 2 - 2];
  const polygon = (...points: [number, number][]) => {
    points.forEach(([x, y], nth) => context[nth ? 'lineTo' : 'moveTo'](middle + x * far, middle + y * far));
    context.closePath();
  };
  switch (glyph) {
    case 'disc':
      context.arc(middle, middle, far * 0.9, 0, 2 * Math.PI);
      break;
    case 'ring':
      context.arc(middle, middle, far * 0.95, 0, 2 * Math.PI);
      context.arc(middle, middle, far * 0.5, 0, 2 * Math.PI, true);
      break;
    case 'square':
      polygon([-0.8, -0.8], [0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]);
      break;
    case 'diamond':
      polygon([0, -1], [1, 0], [0, 1], [-1, 0]);
      break;
    case 'up':
      polygon([0, -0.95], [0.95, 0.75], [-0.95, 0.75]);
      break;
    case 'down':
      polygon([0, 0.95], [0.95, -0.75], [-0.95, -0.75]);
      break;
    case 'bar':
      polygon([-0.35, -1], [0.35, -1], [0.35, 1], [-0.35, 1]);
      break;
    case 'plus':
    case 'cross': {
      const [near, wide] = [0.3, 1];
      context.translate(middle, middle);
      if (glyph === 'cross') context.rotate(Math.PI / 4);
      context.translate(-middle, -middle);
      polygon([-near, -wide], [near, -wide], [near, wide], [-near, wide]);
      polygon([-wide, -near], [wide, -near], [wide, near], [-wide, near]);
      context.setTransform(1, 0, 0, 1, 0, 0);
    }
  }
}

/** One glyph in a colour (CSS), `size` pixels wide. */
export function glyph(of: Glyph, colour: string, size = SIDE): OffscreenCanvas {
  const canvas = new OffscreenCanvas(size, size);
  const context = canvas.getContext('2d')!;
  const whole = new OffscreenCanvas(SIDE, SIDE);
  const drawn = whole.getContext('2d')!;
  drawn.fillStyle = colour;
  drawn.beginPath();
  path(drawn, of);
  drawn.fill();
  context.drawImage(whole, 0, 0, size, size);
  return canvas;
}

/** All of them in white, in the order of GLYPHS. */
export function glyphs(): OffscreenCanvas {
  const canvas = new OffscreenCanvas(SIDE * GLYPHS.length, SIDE);
  const context = canvas.getContext('2d')!;
  GLYPHS.forEach((one, place) => context.drawImage(glyph(one, '#fff'), place * SIDE, 0));
  return canvas;
}
