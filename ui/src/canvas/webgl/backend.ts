// The picture by WebGL2. What stands still is drawn once into a buffer of its own, and copied for each frame below the
// flights: where the GPU is a program (SwiftShader), ten thousand nodes cost nothing then while only packets move.
import { nodeSize, type View } from '../camera.ts';
import type { Batch } from '../batch.ts';
import { flightSize, LANE, LINE, SHAPE, type Backend, type Drawing, type Label, type Moving } from '../drawing.ts';
import { WORDS } from '../feed.ts';
import { glyphs } from '../glyphs.ts';
import { CAPACITY } from '../ring.ts';
import { parseColour, type Theme } from '../theme.ts';
import { GLYPHS, type PacketClass } from '../types.ts';
import { Layer, Program } from './gl.ts';
import { Letters } from './letters.ts';
import * as shaders from './shaders.ts';

/** Ends in a row of their texture. */
const ROW = 1024;
/** A letter's words. */
const LETTER = 9;
/** Places of a shader's classes; the last is that of lost packets. */
const CLASSES = 32;
/** Flights smaller than this are squares. */
const PLAIN = 4.5;

export class WebGl implements Backend {
  readonly #gl: WebGL2RenderingContext;
  readonly #line: Program;
  readonly #shape: Program;
  readonly #flight: Program;
  readonly #text: Program;
  readonly #frames: Layer;
  readonly #lines: Layer;
  readonly #shapes: Layer;
  readonly #above: Layer;
  readonly #flights: Layer;
  readonly #labels: Layer;
  readonly #still: WebGLFramebuffer;
  readonly #stillColours: WebGLRenderbuffer;
  readonly #ends: WebGLTexture;
  readonly #glyphs: WebGLTexture;
  readonly #letterTexture: WebGLTexture;
  #letters = new Letters(1);
  #endRows = 0;
  #width = 0;
  #height = 0;
  #ratio = 1;
  #ground = [0, 0, 0];
  #colours = new Float32Array(4 * CLASSES);
  #kinds = new Float32Array(CLASSES);
  /** What the buffer of that which stands still shows. */
  #shown = '';
  #version = 0;

  constructor(gl: WebGL2RenderingContext) {
    this.#gl = gl;
    this.#line = new Program(gl, shaders.LINE_VERTEX, shaders.LINE_FRAGMENT);
    this.#shape = new Program(gl, shaders.SHAPE_VERTEX, shaders.SHAPE_FRAGMENT);
    this.#flight = new Program(gl, shaders.FLIGHT_VERTEX, shaders.FLIGHT_FRAGMENT);
    this.#text = new Program(gl, shaders.TEXT_VERTEX, shaders.TEXT_FRAGMENT);
    const line = () =>
      new Layer(gl, this.#line, 4 * LINE, 1, [
        { name: 'a_line', kind: 'float', size: 4, offset: 0 },
        { name: 'a_extent', kind: 'float', size: 4, offset: 16 },
        { name: 'a_colour', kind: 'bytes', size: 4, offset: 32 },
        { name: 'a_dash', kind: 'float', size: 2, offset: 36 },
      ]);
    const shape = () =>
      new Layer(gl, this.#shape, 4 * SHAPE, 1, [
        { name: 'a_box', kind: 'float', size: 4, offset: 0 },
        { name: 'a_fill', kind: 'bytes', size: 4, offset: 16 },
        { name: 'a_stroke', kind: 'bytes', size: 4, offset: 20 },
        { name: 'a_look', kind: 'uint', size: 1, offset: 24 },
      ]);
    this.#frames = shape();
    this.#lines = line();
    this.#shapes = shape();
    this.#above = line();
    this.#flights = new Layer(gl, this.#flight, 4 * WORDS, 0, [
      { name: 'a_flight', kind: 'uint', size: 4, offset: 0 },
      { name: 'a_packet', kind: 'uint', size: 2, offset: 16 },
    ]);
    this.#flights.reserve(4 * WORDS * CAPACITY);
    this.#labels = new Layer(gl, this.#text, 4 * LETTER, 1, [
      { name: 'a_place', kind: 'float', size: 4, offset: 0 },
      { name: 'a_letter', kind: 'float', size: 4, offset: 16 },
      { name: 'a_colour', kind: 'bytes', size: 4, offset: 32 },
    ]);
    this.#still = gl.createFramebuffer()!;
    this.#stillColours = gl.createRenderbuffer()!;
    this.#ends = this.#texture(gl.NEAREST);
    this.#letterTexture = this.#texture(gl.NEAREST);
    this.#glyphs = this.#texture(gl.LINEAR);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, glyphs());
    gl.disable(gl.DEPTH_TEST);
    gl.enable(gl.BLEND);
    // All colours are multiplied by their alpha already.
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  #texture(filter: number): WebGLTexture {
    const gl = this.#gl;
    const texture = gl.createTexture()!;
    gl.bindTexture(gl.TEXTURE_2D, texture);
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, filter);
    for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, name, gl.CLAMP_TO_EDGE);
    return texture;
  }

  resize(width: number, height: number, ratio: number): void {
    const gl = this.#gl;
    if (ratio !== this.#ratio) this.#letters = new Letters(ratio);
    this.#ratio = ratio;
    this.#width = Math.max(1, Math.round(width * ratio));
    this.#height = Math.max(1, Math.round(height * ratio));
    gl.canvas.width = this.#width;
    gl.canvas.height = this.#height;
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.#still);
    gl.bindRenderbuffer(gl.RENDERBUFFER, this.#stillColours);
    gl.renderbufferStorage(gl.RENDERBUFFER, gl.RGBA8, this.#width, this.#height);
    gl.framebufferRenderbuffer(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.RENDERBUFFER, this.#stillColours);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    this.#version++;
  }

  theme(theme: Theme, classes: PacketClass[]): void {
    const parts = (colour: number) => [0, 8, 16].map((shift) => ((colour >>> shift) & 255) / 255);
    this.#ground = parts(theme.ground);
    for (let place = 0; place < CLASSES; place++) {
      const one = classes[place] ?? classes[0];
      const colour = place === CLASSES - 1 ? theme.bad : (parseColour(one?.colour ?? '') ?? theme.faint);
      this.#colours.set(parts(colour), 4 * place);
      this.#kinds[place] = GLYPHS.indexOf(place === CLASSES - 1 ? 'cross' : (one?.glyph ?? 'disc'));
    }
    this.#version++;
  }

  draw(drawing: Drawing): void {
    const set = (layer: Layer, batch: Batch) => layer.set(batch.filled, batch.count);
    set(this.#frames, drawing.frames);
    set(this.#lines, drawing.lines);
    set(this.#shapes, drawing.shapes);
    this.#version++;
  }

  label(labels: Label[]): void {
    const spelt = labels.map(({ text }) => [...text].map((letter) => this.#letters.get(letter)));
    const f = new Float32Array(LETTER * spelt.reduce((sum, letters) => sum + letters.length, 0));
    const u = new Uint32Array(f.buffer);
    let at = 0;
    labels.forEach(({ x, y, dx, dy, colour }, nth) => {
      const letters = spelt[nth]!;
      const width = letters.reduce((sum, { advance }) => sum + advance, 0);
      let left = dx - width / 2 / this.#ratio;
      for (const letter of letters) {
        f[at] = x;
        f[at + 1] = y;
        f[at + 2] = left - 2;
        f[at + 3] = dy - letter.height / 2 / this.#ratio;
        f[at + 4] = letter.left;
        f[at + 5] = letter.top;
        f[at + 6] = letter.width;
        f[at + 7] = letter.height;
        u[at + 8] = colour;
        left += letter.advance / this.#ratio;
        at += LETTER;
      }
    });
    this.#labels.set(u, at / LETTER);
    this.#version++;
  }

  ends(ends: Float32Array): void {
    const gl = this.#gl;
    const rows = Math.max(1, Math.ceil(ends.length / 4 / ROW));
    const padded = new Float32Array(4 * ROW * rows);
    padded.set(ends);
    gl.bindTexture(gl.TEXTURE_2D, this.#ends);
    if (rows === this.#endRows) {
      gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, ROW, rows, gl.RGBA, gl.FLOAT, padded);
    } else {
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, ROW, rows, 0, gl.RGBA, gl.FLOAT, padded);
      this.#endRows = rows;
    }
  }

  records(words: Uint32Array, start: number, count: number): void {
    this.#flights.write(start * WORDS, words.subarray(start * WORDS, (start + count) * WORDS));
  }

  frame(view: View, moving: Moving): number {
    const gl = this.#gl;
    gl.viewport(0, 0, this.#width, this.#height);
    const shown = `${this.#version} ${view.x} ${view.y} ${view.scale}`;
    if (shown !== this.#shown) {
      this.#shown = shown;
      gl.bindFramebuffer(gl.FRAMEBUFFER, this.#still);
      this.#drawStill(view);
    }
    gl.bindFramebuffer(gl.READ_FRAMEBUFFER, this.#still);
    gl.bindFramebuffer(gl.DRAW_FRAMEBUFFER, null);
    const [width, height] = [this.#width, this.#height];
    gl.blitFramebuffer(0, 0, width, height, 0, 0, width, height, gl.COLOR_BUFFER_BIT, gl.NEAREST);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    if (moving.lines.count) {
      this.#above.set(moving.lines.filled, moving.lines.count);
      this.#begin(this.#line, view);
      gl.uniform1f(this.#line.at('u_seconds'), moving.phase);
      gl.uniform1f(this.#line.at('u_rim'), nodeSize(view.scale));
      this.#above.quads();
    }
    return this.#drawFlights(view, moving);
  }

  #begin(program: Program, view: View): void {
    const gl = this.#gl;
    program.use();
    gl.uniform3f(program.at('u_camera'), view.x, view.y, view.scale);
    gl.uniform2f(program.at('u_clip'), 2 / view.width, -2 / view.height);
  }

  #drawStill(view: View): void {
    const gl = this.#gl;
    const [r, g, b] = this.#ground;
    gl.clearColor(r!, g!, b!, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const size = nodeSize(view.scale);
    this.#begin(this.#shape, view);
    gl.uniform1f(this.#shape.at('u_size'), size);
    this.#frames.quads();
    this.#begin(this.#line, view);
    gl.uniform1f(this.#line.at('u_rim'), size);
    gl.uniform1f(this.#line.at('u_seconds'), 0);
    this.#lines.quads();
    this.#shape.use();
    this.#shapes.quads();
    if (this.#labels.count) {
      this.#begin(this.#text, view);
      gl.bindTexture(gl.TEXTURE_2D, this.#letterTexture);
      if (this.#letters.isNew) {
        gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, true);
        gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, this.#letters.canvas);
        gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, false);
        this.#letters.isNew = false;
      }
      gl.uniform1i(this.#text.at('u_atlas'), 0);
      gl.uniform1f(this.#text.at('u_ratio'), this.#ratio);
      gl.uniform4f(this.#text.at('u_ground'), r!, g!, b!, 1);
      this.#labels.quads();
    }
  }

  #drawFlights(view: View, moving: Moving): number {
    const gl = this.#gl;
    const program = this.#flight;
    const { runs, now, least, lost, follow } = moving;
    if (!runs.length || !this.#endRows) return 0;
    this.#begin(program, view);
    const size = flightSize(view.scale) * this.#ratio;
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.#glyphs);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.#ends);
    gl.uniform1i(program.at('u_ends'), 0);
    gl.uniform1i(program.at('u_atlas'), 1);
    gl.uniform1f(program.at('u_count'), GLYPHS.length);
    gl.uniform1f(program.at('u_plain'), size < PLAIN ? 1 : 0);
    gl.uniform1f(program.at('u_size'), size < PLAIN ? 0.8 * size : size);
    gl.uniform1f(program.at('u_rim'), nodeSize(view.scale));
    gl.uniform1f(program.at('u_lane'), Math.min(LANE, LANE * view.scale * 2));
    gl.uniform4f(program.at('u_times'), least / 1000, lost / 1000, 0, 0);
    gl.uniform4fv(program.at('u_colours'), this.#colours);
    gl.uniform1fv(program.at('u_glyphs'), this.#kinds);
    if (!follow) gl.uniform2ui(program.at('u_follow'), 0, 0);
    else if ('id' in follow) gl.uniform2ui(program.at('u_follow'), 1, follow.id >>> 0);
    else gl.uniform2ui(program.at('u_follow'), 2, follow.aux >>> 0);
    this.#flights.bind();
    for (const { base, start, count } of runs) {
      const since = now - base;
      // Of a time too far away nothing is under way.
      const micros = since / 1000n;
      if (micros > 0x7fffffffn || micros < -0x7fffffffn) continue;
      gl.uniform2i(program.at('u_now'), Number(micros), Number(since % 1000n));
      gl.drawArrays(gl.POINTS, start, count);
    }
    gl.bindVertexArray(null);
    return moving.flights;
  }

  /** The canvas's context stays: another picture on the same canvas gets the same one. */
  async shown(): Promise<void> {}

  destroy(): void {
    const gl = this.#gl;
    for (const layer of [this.#frames, this.#lines, this.#shapes, this.#above, this.#flights, this.#labels])
      layer.delete();
    for (const texture of [this.#ends, this.#glyphs, this.#letterTexture]) gl.deleteTexture(texture);
    gl.deleteFramebuffer(this.#still);
    gl.deleteRenderbuffer(this.#stillColours);
    for (const { program } of [this.#line, this.#shape, this.#flight, this.#text]) gl.deleteProgram(program);
  }
}
