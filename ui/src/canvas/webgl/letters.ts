// Letters for labels, each drawn once into an atlas when it is first needed.

export const SIDE = 1024;
const SIZE = 12;
const HALO = 2;

export interface Letter {
  left: number;
  top: number;
  width: number;
  height: number;
  /** To the next letter, device pixels. */
  advance: number;
}

export class Letters {
  readonly canvas = new OffscreenCanvas(SIDE, SIDE);
  /** Whether the GPU's copy is out of date. */
  isNew = true;
  readonly #context = this.canvas.getContext('2d', { willReadFrequently: true })!;
  readonly #letters = new Map<string, Letter>();
  readonly #ratio: number;
  readonly #row: number;
  #x = 0;
  #y = 0;

  constructor(ratio: number) {
    this.#ratio = ratio;
    this.#row = Math.ceil(SIZE * 1.35 * ratio) + 2 * HALO;
    this.#context.font = `${SIZE * ratio}px system-ui, 'DejaVu Sans', sans-serif`;
    this.#context.textBaseline = 'middle';
    this.#context.lineJoin = 'round';
  }

  get(letter: string): Letter {
    return this.#letters.get(letter) ?? this.#make(letter);
  }

  #make(letter: string): Letter {
    const context = this.#context;
    const advance = context.measureText(letter).width;
    const width = Math.ceil(advance) + 2 * HALO * Math.ceil(this.#ratio);
    if (this.#x + width > SIDE) {
      this.#x = 0;
      this.#y += this.#row;
    }
    if (this.#y + this.#row > SIDE) {
      // Full: begin anew. Labels that are drawn already ask for their letters at the next change.
      context.clearRect(0, 0, SIDE, SIDE);
      this.#letters.clear();
      this.#x = this.#y = 0;
    }
    const made = { left: this.#x, top: this.#y, width, height: this.#row, advance };
    const [x, y] = [this.#x + HALO * Math.ceil(this.#ratio), this.#y + this.#row / 2];
    context.globalCompositeOperation = 'source-over';
    context.strokeStyle = '#f00';
    context.lineWidth = 3 * this.#ratio;
    context.strokeText(letter, x, y);
    context.globalCompositeOperation = 'lighter';
    context.fillStyle = '#0f0';
    context.fillText(letter, x, y);
    this.#letters.set(letter, made);
    this.#x += width;
    this.isNew = true;
    return made;
  }
}
