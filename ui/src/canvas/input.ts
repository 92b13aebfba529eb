// What the pointer does: it selects, opens, drags nodes and groups, draws wires and boxes, and moves the camera.

/** What the picture does for the pointer. Places are CSS pixels from the canvas's upper left corner. */
export interface Hands {
  /** What a drag that begins here does. */
  grip(x: number, y: number): 'node' | 'rim' | 'frame' | 'none';
  hover(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number, isMore: boolean): void;
  open(x: number, y: number): void;
  pan(dx: number, dy: number): void;
  zoom(x: number, y: number, factor: number): void;
  /** The nodes at `from` are dragged; then `drop`. */
  drag(fromX: number, fromY: number, dx: number, dy: number): void;
  drop(): void;
  /** A wire or a box is drawn; then it is done, or not. */
  link(fromX: number, fromY: number, x: number, y: number): void;
  box(fromX: number, fromY: number, x: number, y: number): void;
  done(isMore: boolean): void;
  cancel(): void;
}

type Doing = 'press' | 'pan' | 'drag' | 'link' | 'box' | 'pinch';
/** A pointer that has moved less has clicked. */
const SLACK = 4;

export class Input {
  readonly #canvas: HTMLCanvasElement;
  readonly #hands: Hands;
  readonly #stop = new AbortController();
  readonly #pointers = new Map<number, [number, number]>();
  #doing: Doing | null = null;
  #from: [number, number] = [0, 0];

  constructor(canvas: HTMLCanvasElement, hands: Hands) {
    this.#canvas = canvas;
    this.#hands = hands;
    canvas.style.touchAction = 'none';
    const on = <K extends keyof HTMLElementEventMap>(kind: K, then: (event: HTMLElementEventMap[K]) => void) =>
      canvas.addEventListener(kind, then, { signal: this.#stop.signal, passive: false });
    on('pointerdown', (event) => this.#down(event));
    on('pointermove', (event) => this.#move(event));
    on('pointerup', (event) => this.#up(event));
    on('pointercancel', (event) => this.#cancel(event));
    on('pointerleave', () => hands.leave());
    on('dblclick', (event) => hands.open(event.offsetX, event.offsetY));
    on('wheel', (event) => {
      event.preventDefault();
      const pixels = event.deltaY * [1, 16, 400][event.deltaMode]!;
      // A pinch on a touchpad is told as a wheel with Control, in small steps.
      hands.zoom(event.offsetX, event.offsetY, Math.exp(-pixels / (event.ctrlKey ? 100 : 500)));
    });
  }

  destroy(): void {
    this.#stop.abort();
  }

  #down(event: PointerEvent): void {
    if (event.button !== 0 && event.button !== 1) return;
    this.#pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.#canvas.setPointerCapture(event.pointerId);
    if (this.#pointers.size === 2) {
      this.#hands.cancel();
      this.#doing = 'pinch';
    } else if (this.#pointers.size === 1) {
      this.#from = [event.offsetX, event.offsetY];
      this.#doing = 'press';
    }
  }

  #move(event: PointerEvent): void {
    const [x, y] = [event.offsetX, event.offsetY];
    const before = this.#pointers.get(event.pointerId);
    if (!before) return this.#hands.hover(x, y);
    if (this.#doing === 'press') {
      if (Math.hypot(x - this.#from[0], y - this.#from[1]) < SLACK) return;
      this.#doing = this.#begin(event);
    }
    if (this.#doing === 'pinch') {
      const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const far = (at: [number, number]) => Math.hypot(at[0] - other[0], at[1] - other[1]);
        this.#hands.zoom((x + other[0]) / 2, (y + other[1]) / 2, far([x, y]) / Math.max(far(before), 1));
        this.#hands.pan((x - before[0]) / 2, (y - before[1]) / 2);
      }
    } else if (this.#doing === 'pan') {
      this.#hands.pan(x - before[0], y - before[1]);
    } else if (this.#doing === 'drag') {
      this.#hands.drag(...this.#from, x - before[0], y - before[1]);
    } else if (this.#doing === 'link') {
      this.#hands.link(...this.#from, x, y);
    } else if (this.#doing === 'box') {
      this.#hands.box(...this.#from, x, y);
    }
    this.#pointers.set(event.pointerId, [x, y]);
  }

  #begin(event: PointerEvent): Doing {
    const grip = this.#hands.grip(...this.#from);
    // What the pointer did before the slack was used up counts, too.
    this.#pointers.set(event.pointerId, [...this.#from]);
    if (event.buttons & 4) return 'pan';
    if (grip === 'rim' || (grip === 'node' && event.shiftKey)) return 'link';
    if (grip !== 'none') return 'drag';
    return event.shiftKey ? 'box' : 'pan';
  }

  #up(event: PointerEvent): void {
    if (!this.#pointers.delete(event.pointerId)) return;
    const doing = this.#doing;
    if (doing === 'pinch' && this.#pointers.size) return;
    this.#doing = null;
    const isMore = event.ctrlKey || event.metaKey || event.shiftKey;
    if (doing === 'press') this.#hands.click(event.offsetX, event.offsetY, isMore);
    else if (doing === 'drag') this.#hands.drop();
    else if (doing === 'link' || doing === 'box') this.#hands.done(event.ctrlKey || event.metaKey);
  }

  #cancel(event: PointerEvent): void {
    this.#pointers.delete(event.pointerId);
    this.#doing = null;
    this.#hands.cancel();
  }
}
