// A backend whose drawing is done by a worker (draw.worker.ts), so that the page's main thread is free for the rest of the
// page. One frame is drawn at a time; of those that are asked for meanwhile the newest is next.
import { WORDS } from '../feed.ts';
import type { Backend, Drawing, Label, Moving } from '../drawing.ts';
import type { View } from '../camera.ts';
import type { Theme } from '../theme.ts';
import type { PacketClass } from '../types.ts';
import type { Asked, Call, Told } from './calls.ts';

export class Apart implements Backend {
  readonly #worker: Worker;
  #drawn = 0;
  #isDrawing = false;
  #next: Call | null = null;
  /** What waits for the last frame to be shown. */
  #unshown: (() => void)[] = [];

  /** A worker that has begun, and a canvas that has no context yet. `again` asks for a frame. */
  constructor(worker: Worker, canvas: HTMLCanvasElement, again: () => void) {
    this.#worker = worker;
    const offscreen = canvas.transferControlToOffscreen();
    this.#post({ canvas: offscreen }, [offscreen]);
    worker.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data === 'begun') return;
      if (data === 'again') return again();
      if (data === 'shown') return this.#unshown.shift()?.();
      this.#drawn = data.drawn;
      this.#isDrawing = false;
      if (this.#next) this.#draw(this.#next);
    };
  }

  #post(asked: Asked, transfer: Transferable[] = []): void {
    this.#worker.postMessage(asked, transfer);
  }

  #draw(frame: Call): void {
    this.#next = null;
    this.#isDrawing = true;
    this.#post(frame);
  }

  resize(width: number, height: number, ratio: number): void {
    this.#post({ call: 'resize', args: [width, height, ratio] });
  }

  theme(theme: Theme, classes: PacketClass[]): void {
    this.#post({ call: 'theme', args: [theme, classes] });
  }

  draw(drawing: Drawing): void {
    // Which labels have room is told by label(): a copy of all of them, which nothing reads, takes longer than the rest.
    this.#post({ call: 'draw', args: [{ ...drawing, labels: [] }] });
  }

  label(labels: Label[]): void {
    this.#post({ call: 'label', args: [labels] });
  }

  ends(ends: Float32Array): void {
    this.#post({ call: 'ends', args: [ends] });
  }

  records(words: Uint32Array, start: number, count: number): void {
    const some = words.slice(start * WORDS, (start + count) * WORDS);
    this.#post({ call: 'records', args: [some, start, count] }, [some.buffer]);
  }

  /** The flights of the last frame that is drawn. */
  frame(view: View, moving: Moving): number | null {
    // A frame that waits is seen from where the camera was when it was asked for.
    const frame: Call = { call: 'frame', args: [{ ...view }, moving] };
    const isSkipping = this.#next !== null;
    if (this.#isDrawing) this.#next = frame;
    else this.#draw(frame);
    return isSkipping ? null : this.#drawn;
  }

  async shown(): Promise<void> {
    // The worker draws in order: a frame that waits for another one goes before the question.
    if (this.#next) this.#draw(this.#next);
    await new Promise<void>((resolve) => {
      this.#unshown.push(resolve);
      this.#post('shown');
    });
  }

  destroy(): void {
    this.#worker.terminate();
  }
}
