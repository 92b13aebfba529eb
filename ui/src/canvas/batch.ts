// Numbers for the GPU: instances of some words each, some of them floats, some integers, in one growing buffer.

export class Batch {
  readonly words: number;
  f: Float32Array;
  u: Uint32Array;
  count = 0;

  constructor(words: number, capacity = 256) {
    this.words = words;
    this.f = new Float32Array(words * capacity);
    this.u = new Uint32Array(this.f.buffer);
  }

  /** Makes room for one more instance: the place of its first word. */
  push(): number {
    const at = this.count++ * this.words;
    if (at + this.words > this.f.length) {
      const f = new Float32Array(this.f.length * 2);
      f.set(this.f);
      this.f = f;
      this.u = new Uint32Array(f.buffer);
    }
    return at;
  }

  clear(): void {
    this.count = 0;
  }

  /** What is filled. */
  get filled(): Uint32Array {
    return this.u.subarray(0, this.count * this.words);
  }
}
