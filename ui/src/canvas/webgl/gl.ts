// The little of WebGL2 that more than one layer needs: programs, and instances with interleaved attributes.

export class Program {
  readonly program: WebGLProgram;
  readonly #gl: WebGL2RenderingContext;
  readonly #uniforms = new Map<string, WebGLUniformLocation | null>();

  /** Throws with the compiler's words: a driver's limit, or a mistake here. */
  constructor(gl: WebGL2RenderingContext, vertex: string, fragment: string) {
    this.#gl = gl;
    this.program = gl.createProgram()!;
    for (const [kind, text] of [
      [gl.VERTEX_SHADER, vertex],
      [gl.FRAGMENT_SHADER, fragment],
    ] as const) {
      const shader = gl.createShader(kind)!;
      gl.shaderSource(shader, `#version 300 es\nprecision highp float;\nprecision highp int;\n${text}`);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS) && !gl.isContextLost()) {
      const logs = gl.getAttachedShaders(this.program)!.map((shader) => gl.getShaderInfoLog(shader));
      throw new Error(`a shader was refused: ${[...logs, gl.getProgramInfoLog(this.program)].join(' ')}`);
    }
  }

  use(): void {
    this.#gl.useProgram(this.program);
  }

  at(name: string): WebGLUniformLocation | null {
    let place = this.#uniforms.get(name);
    if (place === undefined) {
      place = this.#gl.getUniformLocation(this.program, name);
      this.#uniforms.set(name, place);
    }
    return place;
  }
}

/** An attribute: its name in the shader, and where in an instance it is. */
export interface Field {
  name: string;
  kind: 'float' | 'uint' | 'bytes';
  size: number;
  /** Bytes from the instance's start. */
  offset: number;
}

/** A buffer of instances, and how a program reads it. */
export class Layer {
  count = 0;
  readonly #gl: WebGL2RenderingContext;
  readonly #buffer: WebGLBuffer;
  readonly #array: WebGLVertexArrayObject;
  #capacity = 0;

  constructor(gl: WebGL2RenderingContext, program: Program, stride: number, divisor: number, fields: Field[]) {
    this.#gl = gl;
    this.#buffer = gl.createBuffer()!;
    this.#array = gl.createVertexArray()!;
    gl.bindVertexArray(this.#array);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#buffer);
    for (const { name, kind, size, offset } of fields) {
      const place = gl.getAttribLocation(program.program, name);
      if (place < 0) continue;
      gl.enableVertexAttribArray(place);
      if (kind === 'float') gl.vertexAttribPointer(place, size, gl.FLOAT, false, stride, offset);
      else if (kind === 'uint') gl.vertexAttribIPointer(place, size, gl.UNSIGNED_INT, stride, offset);
      else gl.vertexAttribPointer(place, size, gl.UNSIGNED_BYTE, true, stride, offset);
      gl.vertexAttribDivisor(place, divisor);
    }
    gl.bindVertexArray(null);
  }

  /** Replaces all. */
  set(words: Uint32Array, count: number): void {
    const gl = this.#gl;
    this.count = count;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#buffer);
    if (words.byteLength > this.#capacity) {
      this.#capacity = 2 * words.byteLength;
      gl.bufferData(gl.ARRAY_BUFFER, this.#capacity, gl.DYNAMIC_DRAW);
    }
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, words);
  }

  /** Makes room for this many bytes. */
  reserve(bytes: number): void {
    this.#capacity = bytes;
    this.#gl.bindBuffer(this.#gl.ARRAY_BUFFER, this.#buffer);
    this.#gl.bufferData(this.#gl.ARRAY_BUFFER, bytes, this.#gl.DYNAMIC_DRAW);
  }

  /** Writes these words at that word. */
  write(at: number, words: Uint32Array): void {
    this.#gl.bindBuffer(this.#gl.ARRAY_BUFFER, this.#buffer);
    this.#gl.bufferSubData(this.#gl.ARRAY_BUFFER, 4 * at, words);
  }

  bind(): void {
    this.#gl.bindVertexArray(this.#array);
  }

  /** A quad for each instance. */
  quads(): void {
    if (!this.count) return;
    this.bind();
    this.#gl.drawArraysInstanced(this.#gl.TRIANGLE_STRIP, 0, 4, this.count);
  }

  delete(): void {
    this.#gl.deleteBuffer(this.#buffer);
    this.#gl.deleteVertexArray(this.#array);
  }
}
