// A picture of a lab on a canvas of two dimensions, for as long as src/canvas has none: the same interface, few machines.
import { forceCenter, forceLink, forceManyBody, forceSimulation, forceX, forceY } from 'd3-force';
import type { Camera, Topology } from './canvas/types.ts';

export interface Picked {
  kind: 'machine' | 'wire';
  name: string;
  end?: string;
}

export class Picture {
  onselect: (names: string[]) => void = () => {};
  onopen: (picked: Picked) => void = () => {};
  onmove: (positions: Float32Array) => void = () => {};
  onlink: (from: string, to: string) => void = () => {};

  #canvas: HTMLCanvasElement;
  #context: CanvasRenderingContext2D;
  #topology: Topology = { machines: [], wires: [] };
  #positions: Float32Array = new Float32Array();
  #selected = new Set<string>();
  #camera: Camera = { x: 0, y: 0, scale: 1 };
  #frame = 0;
  #frames = 0;
  #drag: { kind: 'move' | 'link' | 'pan'; node: number; x: number; y: number; moved: boolean } | null = null;
  #pointer: [number, number] = [0, 0];
  #observer: ResizeObserver;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d')!;
    this.#observer = new ResizeObserver(() => this.#draw());
    this.#observer.observe(canvas);
    canvas.addEventListener('pointerdown', this.#down);
    canvas.addEventListener('pointermove', this.#move);
    canvas.addEventListener('pointerup', this.#up);
    canvas.addEventListener('dblclick', (event) => {
      const picked = this.pick(event.offsetX, event.offsetY);
      if (picked) this.onopen(picked);
    });
    canvas.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        const by = Math.exp(-event.deltaY / 500);
        const [x, y] = this.#world(event.offsetX, event.offsetY);
        this.#camera.scale *= by;
        this.#camera.x = x - (x - this.#camera.x) / by;
        this.#camera.y = y - (y - this.#camera.y) / by;
        this.#draw();
      },
      { passive: false },
    );
  }

  topology(topology: Topology): void {
    const places = new Map(this.#topology.machines.map(({ name }, place) => [name, place]));
    const old = this.#positions;
    this.#positions = new Float32Array(2 * topology.machines.length);
    topology.machines.forEach(({ name }, place) => {
      const before = places.get(name);
      const angle = (2 * Math.PI * place) / Math.max(topology.machines.length, 1);
      const radius = 40 * Math.sqrt(topology.machines.length) + 30;
      this.#positions[2 * place] = before === undefined ? radius * Math.cos(angle) : old[2 * before]!;
      this.#positions[2 * place + 1] = before === undefined ? radius * Math.sin(angle) : old[2 * before + 1]!;
    });
    this.#topology = topology;
    this.#draw();
  }

  positions(positions: Float32Array): void {
    this.#positions = positions;
    this.#draw();
  }

  async layout(): Promise<Float32Array> {
    const nodes = this.#topology.machines.map((_, index) => ({
      index,
      x: this.#positions[2 * index]!,
      y: this.#positions[2 * index + 1]!,
    }));
    const links = this.#topology.wires
      .filter(({ ends }) => ends.length === 2)
      .map(({ ends }) => ({ source: ends[0]![0], target: ends[1]![0] }));
    forceSimulation(nodes)
      .force('charge', forceManyBody().strength(-400))
      .force('link', forceLink(links).distance(110))
      .force('x', forceX().strength(0.03))
      .force('y', forceY().strength(0.03))
      .force('center', forceCenter(0, 0))
      .stop()
      .tick(nodes.length > 500 ? 60 : 300);
    this.#positions = new Float32Array(nodes.flatMap(({ x, y }) => [x, y]));
    this.#draw();
    return this.#positions;
  }

  counters(): void {}
  states(): void {}
  flights(): void {}
  clock(): void {}
  classes(): void {}
  collapse(): void {}

  select(names: string[]): void {
    this.#selected = new Set(names);
    this.#draw();
  }

  pick(x: number, y: number): Picked | null {
    const node = this.#node(x, y);
    if (node >= 0) return { kind: 'machine', name: this.#topology.machines[node]!.name };
    const [at, down] = this.#world(x, y);
    for (const wire of this.#topology.wires) {
      const [a, b] = wire.ends.map(([place]) => this.#at(place));
      if (!a || !b) continue;
      const [dx, dy] = [b[0] - a[0], b[1] - a[1]];
      const along = Math.max(0, Math.min(1, ((at - a[0]) * dx + (down - a[1]) * dy) / (dx * dx + dy * dy || 1)));
      if (Math.hypot(a[0] + along * dx - at, a[1] + along * dy - down) * this.#camera.scale < 6) {
        return { kind: 'wire', name: wire.name };
      }
    }
    return null;
  }

  camera(to?: Camera): Camera {
    if (to) {
      this.#camera = { ...to };
      this.#draw();
    }
    return { ...this.#camera };
  }

  fit(): void {
    const { clientWidth, clientHeight } = this.#canvas;
    const count = this.#topology.machines.length;
    if (!count) return;
    const xs = Array.from({ length: count }, (_, place) => this.#positions[2 * place]!);
    const ys = Array.from({ length: count }, (_, place) => this.#positions[2 * place + 1]!);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const scale = Math.min(clientWidth / (right - left + 160), clientHeight / (bottom - top + 120), 1.6);
    this.camera({ x: (left + right) / 2, y: (top + bottom) / 2, scale: Math.max(scale, 0.02) });
  }

  /** Where a node is on the canvas. */
  where(name: string): [number, number] | null {
    const place = this.#topology.machines.findIndex((node) => node.name === name);
    if (place < 0) return null;
    const [x, y] = this.#at(place);
    return this.#screen(x, y);
  }

  stats(): Record<string, number | string> {
    return {
      backend: 'canvas2d',
      nodes: this.#topology.machines.length,
      wires: this.#topology.wires.length,
      frames: this.#frames,
      flights: 0,
      missed: 0,
    };
  }

  destroy(): void {
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  #at(place: number): [number, number] {
    return [this.#positions[2 * place] ?? 0, this.#positions[2 * place + 1] ?? 0];
  }

  #world(x: number, y: number): [number, number] {
    const { clientWidth, clientHeight } = this.#canvas;
    return [
      (x - clientWidth / 2) / this.#camera.scale + this.#camera.x,
      (y - clientHeight / 2) / this.#camera.scale + this.#camera.y,
    ];
  }

  #screen(x: number, y: number): [number, number] {
    const { clientWidth, clientHeight } = this.#canvas;
    return [
      (x - this.#camera.x) * this.#camera.scale + clientWidth / 2,
      (y - this.#camera.y) * this.#camera.scale + clientHeight / 2,
    ];
  }

  #node(x: number, y: number): number {
    const [at, down] = this.#world(x, y);
    return this.#topology.machines.findIndex((_, place) => {
      const [nodeX, nodeY] = this.#at(place);
      return Math.hypot(nodeX - at, nodeY - down) < 22;
    });
  }

  #down = (event: PointerEvent): void => {
    const node = this.#node(event.offsetX, event.offsetY);
    const kind = node < 0 ? 'pan' : event.shiftKey ? 'link' : 'move';
    this.#drag = { kind, node, x: event.offsetX, y: event.offsetY, moved: false };
    this.#canvas.setPointerCapture(event.pointerId);
  };

  #move = (event: PointerEvent): void => {
    this.#pointer = [event.offsetX, event.offsetY];
    const drag = this.#drag;
    if (!drag) return;
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    if (drag.kind !== 'link') [drag.x, drag.y] = [event.offsetX, event.offsetY];
    if (drag.kind === 'pan') {
      this.#camera.x -= dx / this.#camera.scale;
      this.#camera.y -= dy / this.#camera.scale;
    } else if (drag.kind === 'move') {
      this.#positions[2 * drag.node]! += dx / this.#camera.scale;
      this.#positions[2 * drag.node + 1]! += dy / this.#camera.scale;
    }
    this.#draw();
  };

  #up = (event: PointerEvent): void => {
    const drag = this.#drag;
    this.#drag = null;
    if (!drag) return;
    if (!drag.moved) {
      const picked = this.pick(event.offsetX, event.offsetY);
      this.onselect(picked ? [picked.kind === 'wire' ? `wire:${picked.name}` : picked.name] : []);
    } else if (drag.kind === 'move') {
      this.onmove(this.#positions);
    } else if (drag.kind === 'link') {
      const to = this.#node(event.offsetX, event.offsetY);
      if (to >= 0 && to !== drag.node) {
        this.onlink(this.#topology.machines[drag.node]!.name, this.#topology.machines[to]!.name);
      }
    }
    this.#draw();
  };

  /** One frame for any number of changes; none while nothing changes. */
  #draw(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#frames++;
      this.#paint();
    });
  }

  #paint(): void {
    const { clientWidth, clientHeight } = this.#canvas;
    const ratio = devicePixelRatio;
    this.#canvas.width = clientWidth * ratio;
    this.#canvas.height = clientHeight * ratio;
    const context = this.#context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(this.#canvas);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    context.lineCap = 'round';
    for (const { name, ends, state } of this.#topology.wires) {
      const [a, b] = ends.map(([place]) => this.#screen(...this.#at(place)));
      if (!a || !b) continue;
      const isSelected = this.#selected.has(`wire:${name}`);
      context.strokeStyle = isSelected ? colour('--accent') : state === 'up' ? colour('--wire') : colour('--bad');
      context.lineWidth = isSelected ? 4 : 2;
      context.setLineDash(state === 'up' ? [] : [4, 8]);
      context.beginPath();
      context.moveTo(...a);
      context.lineTo(...b);
      context.stroke();
    }
    context.setLineDash([]);
    if (this.#drag?.kind === 'link' && this.#drag.moved) {
      context.strokeStyle = colour('--accent');
      context.beginPath();
      context.moveTo(...this.#screen(...this.#at(this.#drag.node)));
      context.lineTo(...this.#pointer);
      context.stroke();
    }
    const size = Math.max(3, Math.min(15, 15 * this.#camera.scale));
    context.textAlign = 'center';
    context.font = '13px system-ui, sans-serif';
    this.#topology.machines.forEach(({ name, kind, state }, place) => {
      const [x, y] = this.#screen(...this.#at(place));
      const isSelected = this.#selected.has(name);
      context.fillStyle = state === 'dead' ? colour('--bad') : colour(`--${kind}`);
      context.strokeStyle = isSelected ? colour('--accent') : colour('--ground');
      context.lineWidth = isSelected ? 4 : 2;
      context.beginPath();
      if (kind === 'router') context.arc(x, y, size, 0, 2 * Math.PI);
      else if (kind === 'bus') context.rect(x - size, y - size / 3, 2 * size, (2 * size) / 3);
      else context.roundRect(x - size, y - size * 0.8, 2 * size, 1.6 * size, kind === 'switch' ? 0 : size / 3);
      context.fill();
      context.stroke();
      if (this.#camera.scale > 0.35 || isSelected) {
        context.fillStyle = colour('--text');
        context.fillText(name.replace(/^wire:/, ''), x, y + size + 15);
      }
    });
  }
}
