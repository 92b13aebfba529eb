// Flights too small for a glyph, as pixels: a picture without them is copied and each is a few words written into it. A
// hundred thousand cost less so than five thousand rectangles.

export class Dots {
  #still: Uint32Array = new Uint32Array();
  #image = new ImageData(1, 1);
  #pixels: Uint32Array = new Uint32Array();

  /** What is below the flights. */
  set(still: CanvasRenderingContext2D): void {
    const { width, height } = still.canvas;
    this.#still = new Uint32Array(still.getImageData(0, 0, width, height).data.buffer);
    if (this.#image.width === width && this.#image.height === height) return;
    this.#image = new ImageData(width, height);
    this.#pixels = new Uint32Array(this.#image.data.buffer);
  }

  begin(): void {
    this.#pixels.set(this.#still);
  }

  /** A square of `side` device pixels around a place. */
  dot(x: number, y: number, side: number, colour: number): void {
    const { width, height } = this.#image;
    const left = Math.round(x - side / 2);
    const top = Math.round(y - side / 2);
    if (left < 0 || top < 0 || left + side > width || top + side > height) return;
    const pixels = this.#pixels;
    for (let row = top * width + left, end = row + side * width; row < end; row += width) {
      for (let at = row; at < row + side; at++) pixels[at] = colour;
    }
  }

  end(context: CanvasRenderingContext2D): void {
    context.putImageData(this.#image, 0, 0);
  }
}
