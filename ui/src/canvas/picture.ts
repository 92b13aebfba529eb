// A lab's picture: it holds the scene, the flights and the clock, hears the pointer, and has a backend draw.
//
// There is one loop, of animation frames. It runs only while something moves; anything that changes asks for one frame,
// however much changes before it.
import { Batch } from './batch.ts';
import { fitting, toScreen, toWorld, zoomed, type View } from './camera.ts';
import { Apart } from './canvas2d/apart.ts';
import { Canvas2d } from './canvas2d/backend.ts';
import { choose, type Choice } from './choose.ts';
import { Clock } from './clock.ts';
import { commonest, count, dense } from './density.ts';
import { LINE, type Backend, type Moving } from './drawing.ts';
import { flight, FLIGHTS, header, records, WORDS } from './feed.ts';
import { counts, nextLoss, type Counts, type Lost } from './history.ts';
import { Input, type Hands } from './input.ts';
import { chosen } from './labels.ts';
import { layout } from './layout.ts';
import { flightAt, frameAt, lineAt, nodeAt, within, type Found } from './pick.ts';
import { Ring } from './ring.ts';
import { addLine, QUEUES, Scene } from './scene.ts';
import { startDrawing } from './start.ts';
import { CLASSES, themeOf, type Theme } from './theme.ts';
import type {
  Camera,
  Counters,
  PacketClass,
  Picked,
  PictureOf,
  PictureOptions,
  Queue,
  States,
  Stats,
  Taken,
  Topology,
} from './types.ts';
import { frames, toText, type Snapshot } from '../viewer/snapshot.ts';
import { WebGl } from './webgl/backend.ts';

/** The fate of a flight that was told before has this bit. */
const TOLD = 0x80000000;
/** How often flights are counted, ms. */
const COUNT_MS = 250;
/** How long a lost packet is shown at least, ms of the host's time. */
const LOST_MS = 600;
/** How often labels are chosen while the camera moves, ms. */
const LABELS_MS = 100;
const TIMES = 240;

export class Picture implements PictureOf {
  onselect: (names: string[]) => void = () => {};
  onopen: (picked: Picked) => void = () => {};
  onmove: (positions: Float32Array) => void = () => {};
  onlink: (from: string, to: string) => void = () => {};
  onfollow: (packet: (Picked & { kind: 'flight' }) | null) => void = () => {};
  onhover: (picked: Picked | null) => void = () => {};
  oncamera: (camera: Camera) => void = () => {};
  oncollapse: (group: string, collapsed: boolean) => void = () => {};
  onframe: () => void = () => {};

  readonly #canvas: HTMLCanvasElement;
  readonly #choice: Choice;
  readonly #scene = new Scene();
  readonly #ring = new Ring();
  readonly #clock = new Clock();
  readonly #input: Input;
  readonly #observer: ResizeObserver;
  readonly #stop = new AbortController();
  readonly #stillness = matchMedia('(prefers-reduced-motion: reduce)');
  #backend: Backend | null = null;
  #view: View = { x: 0, y: 0, scale: 1, width: 1, height: 1 };
  #ratio = 1;
  #theme: Theme;
  #classes = CLASSES;
  #follow: Moving['follow'] = null;
  /** The least time that a hop is shown, and that a lost packet is, ns of the lab's. */
  #least = 0;
  #lost = LOST_MS * 1e6;
  /** The same of a hop as it was given, ms of the host's. */
  #leastMs = 0;
  /** The user has moved the camera: it does not move by itself any more. */
  #isTouched = false;
  /** The camera is where it sees all: it does so in another size of the canvas, too. */
  #isWhole = false;

  // What is out of date.
  #isResized = true;
  #isThemed = true;
  #isChanged = true;
  #isMoved = true;
  #isCamera = true;

  #request = 0;
  #frames = 0;
  #frameTimes = new Float32Array(TIMES);
  #frameEnds: number[] = [];
  #flights = 0;
  #drawn = 0;
  #labels = 0;
  #labelled = -Infinity;
  #resting: ReturnType<typeof setTimeout> | undefined;
  /** Whether what waits is told. */
  #isNear = false;
  #counts: Uint16Array = new Uint16Array();
  #kinds = new Map<number, number>();
  #counted = -Infinity;
  #missed = 0;
  #oneIn = 1;
  readonly #above = new Batch(LINE, 16);
  /** What the user draws now, in the world: a wire, or a box. */
  #drawing: { kind: 'link' | 'box'; from: [number, number]; to: [number, number] } | null = null;
  #dragged: number[] | null = null;
  #hovered = '';
  #pointer: [number, number] | null = null;
  #layout: { cancel: () => void } | null = null;

  constructor(canvas: HTMLCanvasElement, { backend = 'auto', thread = 'worker' }: PictureOptions = {}) {
    this.#canvas = canvas;
    this.#choice = choose(backend);
    this.#theme = themeOf(canvas);
    this.#input = new Input(canvas, this.#hands());
    this.#observer = new ResizeObserver(() => {
      this.#isResized = true;
      this.#ask();
    });
    this.#observer.observe(canvas);
    const { signal } = this.#stop;
    // A window on another screen, or a page that is zoomed, has other pixels, and its canvas the same size.
    const watchRatio = () => {
      const ratio = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
      const changed = () => {
        this.#ask();
        watchRatio();
      };
      ratio.addEventListener('change', changed, { signal, once: true });
    };
    watchRatio();
    const themed = () => {
      this.#isThemed = true;
      this.#ask();
    };
    this.#stillness.addEventListener('change', themed, { signal });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', themed, { signal });
    canvas.addEventListener(
      'webglcontextlost',
      (event) => {
        event.preventDefault();
        this.#backend = null;
      },
      { signal },
    );
    const begin = () => this.#begin(this.#webgl());
    canvas.addEventListener('webglcontextrestored', begin, { signal });
    if (this.#choice.name === 'webgl2') begin();
    else this.#canvas2d(thread);
  }

  #webgl(): Backend {
    const gl = this.#canvas.getContext('webgl2', {
      alpha: false,
      antialias: false,
      depth: false,
      powerPreference: 'high-performance',
    });
    if (!gl) throw new Error('this canvas has another context already: give the picture one of its own');
    return new WebGl(gl);
  }

  /** By a worker, or by this thread if there is none: the canvas is given away once the worker has begun. */
  #canvas2d(thread: 'worker' | 'main'): void {
    const here = () => {
      const context = this.#canvas.getContext('2d', { alpha: false, willReadFrequently: true });
      if (!context) throw new Error('this canvas has another context already: give the picture one of its own');
      this.#begin(new Canvas2d(context, () => this.#ask()));
    };
    const worker = thread === 'worker' && 'transferControlToOffscreen' in this.#canvas ? startDrawing() : null;
    if (!worker) return here();
    this.#stop.signal.addEventListener('abort', () => worker.terminate());
    worker.onmessage = () => {
      worker.onerror = null;
      this.#begin(new Apart(worker, this.#canvas, () => this.#ask()));
    };
    worker.onerror = (event) => {
      event.preventDefault();
      worker.terminate();
      here();
    };
  }

  /** Gives a backend all there is: at the start, and when the GPU has lost it. */
  #begin(backend: Backend): void {
    this.#backend = backend;
    for (const { spans } of this.#ring.chunks) {
      for (const { start, count } of spans) backend.records(this.#ring.words, start, count);
    }
    this.#isResized = this.#isThemed = this.#isChanged = this.#isMoved = this.#isCamera = true;
    this.#ask();
  }

  // --- what is shown

  topology(topology: Topology): void {
    this.#layout?.cancel();
    this.#layout = null;
    this.#scene.set(structuredClone(topology));
    this.#change();
    this.#move();
  }

  positions(to?: Float32Array): Float32Array {
    if (to) {
      this.#scene.positions(to);
      this.#move();
    }
    return this.#positions();
  }

  async layout(): Promise<Float32Array> {
    this.#layout?.cancel();
    const running = layout(this.#scene.topology, (positions) => {
      this.#scene.positions(positions);
      this.#move();
      if (!this.#isTouched) this.fit();
    });
    this.#layout = running;
    await running.done;
    // Another one may have begun in its place.
    if (this.#layout === running) this.#layout = null;
    return this.#positions();
  }

  #positions(): Float32Array {
    return this.#scene.points.slice(0, 2 * this.#scene.topology.machines.length);
  }

  states(states: States): void {
    this.#scene.states(states);
    this.#change();
  }

  counters(updates: Counters[]): void {
    this.#scene.counters(updates);
    this.#change();
  }

  queues(updates: Queue[]): void {
    this.#scene.queues(updates);
    this.#change();
  }

  flights(frame: ArrayBuffer): Taken | null {
    const { kind, seq, base, missed, oneIn } = header(frame);
    if (kind !== FLIGHTS) return null;
    const taken = this.#lose(base, records(frame));
    this.#ring.add(base, taken, (start, count) => this.#backend?.records(this.#ring.words, start, count));
    this.#missed += missed;
    this.#oneIn = Math.max(oneIn, 1);
    if (this.#follow) this.#trace(taken);
    this.#ask();
    return { seq, count: taken.length / WORDS, missed, oneIn };
  }

  /** Has flights that were told before be lost, where records say that; the other records. */
  #lose(base: bigint, words: Uint32Array): Uint32Array {
    const others: number[] = [];
    for (let word = 0; word < words.length; word += WORDS) {
      if (words[word + 4]! < TOLD) continue;
      words[word + 4]! -= TOLD;
      const place = this.#ring.lose(base, words.subarray(word, word + WORDS));
      if (place === null) continue;
      this.#backend?.records(this.#ring.words, place, 1);
      others.push(word);
    }
    if (!others.length) return words;
    const gone = new Set(others);
    return words.filter((_, at) => !gone.has(at - (at % WORDS)));
  }

  clear(): void {
    this.#ring.clear();
    this.#counted = -Infinity;
    this.#ask();
  }

  clock(ns: bigint, rate: number, least = 0, pace = rate || 1): void {
    const host = performance.now();
    this.#clock.set(ns, rate, host);
    this.#leastMs = least;
    this.#least = least * 1e6 * pace;
    this.#lost = LOST_MS * 1e6 * pace;
    // Standing still, each time that is set is a place of its own.
    if (!rate) this.#counted = -Infinity;
    this.#ask();
  }

  classes(classes: PacketClass[]): void {
    this.#classes = classes;
    this.#isThemed = true;
    this.#ask();
  }

  follow(match: Moving['follow']): void {
    this.#follow = match;
    this.#scene.followed.clear();
    if (match) {
      for (const { spans } of this.#ring.chunks) {
        for (const { start, count } of spans) {
          this.#trace(this.#ring.words.subarray(start * WORDS, (start + count) * WORDS));
        }
      }
    }
    this.#change();
  }

  /** Marks the wires along which these records' flights went, if they are those followed. */
  #trace(words: Uint32Array): void {
    const match = this.#follow!;
    const [at, value] = 'id' in match ? [3, match.id] : [5, match.aux];
    const { followed, graph } = this.#scene;
    for (let word = 0; word < words.length; word += WORDS) {
      const line = words[word + at] === value ? (graph.lineOf[words[word]!] ?? -1) : -1;
      if (line < 0 || followed.has(line)) continue;
      followed.add(line);
      this.#change();
    }
  }

  select(names: string[]): void {
    this.#scene.selected = new Set(names);
    this.#change();
  }

  collapse(group: string, collapsed: boolean): void {
    this.#scene.collapse(group, collapsed);
    if (this.#follow) this.follow(this.#follow);
    this.#change();
    this.#move();
  }

  // --- where it is seen from

  camera(to?: Camera): Camera {
    if (to) {
      this.#view = { ...this.#view, x: to.x, y: to.y, scale: to.scale };
      this.#isCamera = true;
      this.#isWhole = false;
      this.#ask();
    }
    const { x, y, scale } = this.#view;
    return { x, y, scale };
  }

  fit(names?: string[]): void {
    this.#resize();
    const points = names?.flatMap((name) => this.#pointsOf(name)) ?? [];
    this.camera(this.#fitting(points.length ? points : undefined));
    this.#isWhole = !points.length;
  }

  #fitting(points?: number[]): Camera {
    return fitting(this.#scene.bounds(points), this.#view.width, this.#view.height);
  }

  /** Points of a machine, of a wire's machines, of a group's members. */
  #pointsOf(name: string): number[] {
    const { topology, graph } = this.#scene;
    if (name.startsWith('group:')) return graph.members[graph.groups.indexOf(name.slice('group:'.length))] ?? [];
    const machine = topology.machines.findIndex((node) => node.name === name);
    if (machine >= 0) return [graph.shown[machine]!];
    return topology.wires.flatMap((wire) =>
      `wire:${wire.name}` === name ? wire.ends.map(([of]) => graph.shown[of]!) : [],
    );
  }

  inSight(most: number): number[] | null {
    const { width, height } = this.#view;
    const [left, top] = toWorld(this.#view, 0, 0);
    const [right, bottom] = toWorld(this.#view, width, height);
    return this.#scene.inSight({ left, top, right, bottom }, most);
  }

  where(name: string): [number, number] | null {
    const points = this.#pointsOf(name);
    if (!points.length) return null;
    const box = this.#scene.bounds(points, 0);
    return toScreen(this.#view, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
  }

  pick(x: number, y: number): Picked | null {
    return this.#picked(this.#find(x, y, true));
  }

  async shown(): Promise<void> {
    while (!this.#backend) {
      if (this.#stop.signal.aborted) return;
      await new Promise(requestAnimationFrame);
    }
    // A frame that is asked for already comes before this one.
    await new Promise(requestAnimationFrame);
    await this.#backend?.shown();
  }

  stats(): Stats {
    const now = performance.now();
    const times = [...this.#frameTimes.subarray(0, Math.min(this.#frames, TIMES))].sort((a, b) => a - b);
    const [from, to] = this.#ring.times();
    return {
      backend: this.#choice.name,
      why: this.#choice.why,
      nodes: this.#scene.topology.machines.length,
      wires: this.#scene.topology.wires.length,
      isPlacing: this.#layout !== null,
      labels: this.#labels,
      frames: this.#frames,
      fps: this.#frameEnds.filter((end) => end > now - 1000).length,
      frameMs: times[Math.floor(times.length * 0.95)] ?? 0,
      flights: this.#flights,
      drawn: this.#drawn,
      streams: this.#scene.streams.size,
      kept: this.#ring.count,
      from,
      to,
      missed: this.#missed,
      oneIn: this.#oneIn,
      now: this.#clock.at(now),
    };
  }

  /** How much of what is kept departed in a span, and was lost, ns. */
  history(from: number, to: number, bins: number): Counts {
    return counts(this.#ring, from, to, bins);
  }

  /** Of what is kept, the first loss behind a time (ns), or (`back`) the last one before it. */
  nextLoss(at: number, back: boolean): Lost | null {
    return nextLoss(this.#ring, at, back);
  }

  /** The looks of packets, by the numbers that flights bear. */
  kinds(): PacketClass[] {
    return this.#classes;
  }

  /** All that is needed to show this elsewhere, with the newest flights, at most so many. */
  snapshot(title: string, most = 100_000): Snapshot {
    return {
      title,
      topology: this.#scene.topology,
      positions: [...this.#positions()].map((place) => Math.round(place * 10) / 10),
      collapsed: [...this.#scene.collapsed],
      classes: this.#classes,
      camera: this.camera(),
      oneIn: this.#oneIn,
      least: this.#leastMs,
      frames: frames(this.#ring, most).map(toText),
    };
  }

  /** Milliseconds of the main thread for the last frame. */
  lastMs(): number {
    return this.#frameTimes[(this.#frames - 1) % TIMES] ?? 0;
  }

  destroy(): void {
    this.#layout?.cancel();
    this.#stop.abort();
    this.#observer.disconnect();
    this.#input.destroy();
    cancelAnimationFrame(this.#request);
    clearTimeout(this.#resting);
    this.#request = -1;
    this.#backend?.destroy();
    this.#backend = null;
  }

  // --- the loop

  #ask(): void {
    this.#request ||= requestAnimationFrame(() => {
      this.#request = 0;
      this.#tick();
    });
  }

  #change(): void {
    this.#isChanged = true;
    this.#ask();
  }

  #move(): void {
    this.#isMoved = true;
    this.#change();
  }

  /** Follows the canvas's size: whether it has changed. */
  #resize(): boolean {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    if (!this.#isResized && ratio === this.#ratio) return false;
    this.#isResized = false;
    this.#ratio = ratio;
    const { clientWidth, clientHeight } = this.#canvas;
    this.#view.width = Math.max(clientWidth, 1);
    this.#view.height = Math.max(clientHeight, 1);
    this.#backend?.resize(this.#view.width, this.#view.height, ratio);
    if (this.#isWhole) Object.assign(this.#view, this.#fitting());
    this.#isCamera = true;
    return true;
  }

  #tick(): void {
    const backend = this.#backend;
    if (!backend) return;
    const start = performance.now();
    const scene = this.#scene;
    this.#resize();
    if (this.#isThemed) {
      this.#isThemed = false;
      this.#theme = themeOf(this.#canvas);
      backend.theme(this.#theme, this.#classes);
      this.#isChanged = true;
    }
    if (this.#pointer) this.#hover();
    const now = this.#clock.at(start);
    const [least, lost] = [this.#least, this.#lost];
    const isStill = this.#stillness.matches;
    const runs = isStill ? [] : this.#ring.live(now, least, lost);
    if (start - this.#counted >= COUNT_MS) {
      this.#counted = start;
      this.#count(now, runs, least);
    }
    if (this.#isMoved) {
      this.#isMoved = false;
      scene.move();
      backend.ends(scene.ends);
    }
    if (this.#isCamera || this.#isChanged) {
      // Nearer, more is told.
      const isNear = this.#view.scale > QUEUES;
      if (this.#isChanged || isNear !== this.#isNear) {
        this.#isNear = isNear;
        backend.draw(scene.build(this.#theme, this.#classes, this.#view.scale));
      }
      // Labels go along with the camera: which of them have room is decided anew now and then, and when it rests.
      if (this.#isChanged || start - this.#labelled > LABELS_MS) {
        this.#labelled = start;
        const numbers = scene.numbers(this.#view, this.#theme, isStill);
        const labels = chosen([...scene.drawing.labels, ...numbers], this.#view);
        this.#labels = labels.length;
        backend.label(labels);
      } else {
        clearTimeout(this.#resting);
        this.#resting = setTimeout(() => {
          this.#isCamera = true;
          this.#ask();
        }, LABELS_MS + 20);
      }
      this.#isCamera = this.#isChanged = false;
    }
    this.#above.clear();
    if (!isStill) scene.addStreams(this.#above, this.#counts, this.#kinds, this.#classes, this.#theme);
    this.#addDrawing();
    const drawn = backend.frame(this.#view, {
      now,
      runs,
      flights: this.#flights,
      least,
      lost,
      lines: this.#above,
      phase: this.#clock.rate ? (start / 1000) % 1000 : 0,
      follow: this.#follow,
    });
    if (drawn !== null) {
      const end = performance.now();
      this.#drawn = drawn;
      this.#frameTimes[this.#frames % TIMES] = end - start;
      this.#frames++;
      this.#frameEnds.push(end);
      if (this.#frameEnds.length > 100) this.#frameEnds.splice(0, this.#frameEnds.length - 100);
    }
    this.onframe();
    if (this.#clock.rate && !isStill && this.#ring.count) {
      const [, to] = this.#ring.times();
      if (to + BigInt(Math.round(Math.max(least, lost))) > now) this.#ask();
    }
  }

  #count(now: bigint, runs: Moving['runs'], least: number): void {
    const scene = this.#scene;
    const { flights, counts } = count(this.#ring.words, runs, now, least, scene.graph.lineOf.length);
    this.#flights = flights;
    this.#counts = counts;
    const streams = dense(counts, scene.streams);
    if (streams.size !== scene.streams.size || [...streams].some((end) => !scene.streams.has(end)))
      this.#isMoved = true;
    scene.streams = streams;
    this.#kinds = streams.size ? commonest(this.#ring.words, runs, streams) : new Map();
  }

  /** What the user draws now. */
  #addDrawing(): void {
    if (!this.#drawing) return;
    const { kind, from, to } = this.#drawing;
    const colour = this.#theme.accent;
    if (kind === 'link') return addLine(this.#above, from, to, 2.5, colour);
    const corners: [number, number][] = [from, [to[0], from[1]], to, [from[0], to[1]]];
    corners.forEach((corner, place) => addLine(this.#above, corner, corners[(place + 1) % 4]!, 1.5, colour));
  }

  // --- the pointer

  #moving(): Moving {
    const now = this.#clock.at(performance.now());
    const [least, lost] = [this.#least, this.#lost];
    const runs = this.#stillness.matches ? [] : this.#ring.live(now, least, lost);
    return { now, runs, flights: this.#flights, least, lost, lines: this.#above, phase: 0, follow: null };
  }

  #find(x: number, y: number, isFlightsToo: boolean): Found | null {
    return (
      nodeAt(this.#scene, this.#view, x, y) ??
      (isFlightsToo ? flightAt(this.#ring.words, this.#scene, this.#view, this.#moving(), x, y) : null) ??
      lineAt(this.#scene, this.#view, x, y) ??
      frameAt(this.#scene, this.#view, x, y)
    );
  }

  #picked(found: Found | null): Picked | null {
    const { graph, topology } = this.#scene;
    if (!found) return null;
    switch (found.kind) {
      case 'point': {
        const name = this.#scene.nameOf(found.point);
        if (found.point < graph.machines) return { kind: 'machine', name };
        const isHub = found.point < graph.machines + graph.hubs.length;
        return isHub
          ? { kind: 'wire', name: name.slice('wire:'.length) }
          : { kind: 'group', name: name.slice('group:'.length) };
      }
      case 'line': {
        const { links, forth, back } = graph.lines[found.line]!;
        const end = (found.isSecond ? back : forth)[0];
        return { kind: 'wire', name: topology.wires[links[0]!]!.name, ...(end === undefined ? {} : { end }) };
      }
      case 'flight': {
        const { sent: _sent, lasts: _lasts, ...packet } = flight(this.#ring.words, found.place);
        const link = graph.linkOf[packet.end] ?? -1;
        return { kind: 'flight', name: topology.wires[link]?.name ?? '', ...packet };
      }
      case 'frame':
        return { kind: 'group', name: graph.groups[found.group]! };
    }
  }

  #hover(): void {
    const [x, y] = this.#pointer!;
    this.#pointer = null;
    const found = this.#find(x, y, false);
    const picked = this.#picked(found);
    const isRim = found?.kind === 'point' && found.isRim && picked?.kind === 'machine';
    this.#canvas.style.cursor = isRim ? 'crosshair' : picked ? 'pointer' : 'grab';
    const now = picked ? JSON.stringify(picked) : '';
    if (now === this.#hovered) return;
    this.#hovered = now;
    this.onhover(picked);
  }

  #hands(): Hands {
    const nameOf = (picked: Picked) =>
      picked.kind === 'machine' ? picked.name : `${picked.kind === 'group' ? 'group' : 'wire'}:${picked.name}`;
    const machineAt = (x: number, y: number) => {
      const picked = this.#picked(nodeAt(this.#scene, this.#view, x, y));
      return picked?.kind === 'machine' ? picked.name : null;
    };
    const moveCamera = (camera: Camera) => {
      this.#isTouched = true;
      this.camera(camera);
      this.oncamera(this.camera());
    };
    return {
      grip: (x, y) => {
        const found = nodeAt(this.#scene, this.#view, x, y);
        if (found?.kind === 'point') {
          const { machines, hubs } = this.#scene.graph;
          // A hub is where its ends' middle is.
          if (found.point >= machines && found.point < machines + hubs.length) return 'none';
          return found.isRim && found.point < machines ? 'rim' : 'node';
        }
        return !lineAt(this.#scene, this.#view, x, y) && frameAt(this.#scene, this.#view, x, y) ? 'frame' : 'none';
      },
      hover: (x, y) => {
        this.#pointer = [x, y];
        this.#ask();
      },
      leave: () => {
        this.#pointer = null;
        if (this.#hovered) this.onhover(null);
        this.#hovered = '';
      },
      click: (x, y, isMore) => {
        const picked = this.pick(x, y);
        const name = picked && nameOf(picked);
        if (picked?.kind === 'flight') {
          // A packet without a flow is followed by itself, from hop to hop.
          this.follow(picked.aux ? { aux: picked.aux } : { id: picked.id });
          this.onfollow(picked);
        } else if (this.#follow) {
          this.follow(null);
          this.onfollow(null);
        }
        const selected = new Set(isMore ? this.#scene.selected : []);
        if (name && !selected.delete(name)) selected.add(name);
        if (!name && isMore) return;
        this.select([...selected]);
        this.onselect([...selected]);
      },
      open: (x, y) => {
        const picked = this.pick(x, y);
        if (picked?.kind === 'group') {
          const isOpen = !this.#scene.collapsed.has(picked.name);
          this.collapse(picked.name, isOpen);
          this.oncollapse(picked.name, isOpen);
        } else if (picked) {
          this.onopen(picked);
        }
      },
      pan: (dx, dy) => {
        const { x, y, scale } = this.#view;
        moveCamera({ x: x - dx / scale, y: y - dy / scale, scale });
      },
      zoom: (x, y, factor) => moveCamera(zoomed(this.#view, x, y, factor)),
      drag: (fromX, fromY, dx, dy) => {
        this.#dragged ??= this.#grasped(fromX, fromY);
        const { points } = this.#scene;
        for (const machine of this.#dragged) {
          points[2 * machine]! += dx / this.#view.scale;
          points[2 * machine + 1]! += dy / this.#view.scale;
        }
        this.#isTouched = true;
        this.#move();
      },
      drop: () => {
        this.#dragged = null;
        this.onmove(this.#positions());
      },
      link: (fromX, fromY, x, y) => {
        this.#drawing = { kind: 'link', from: toWorld(this.#view, fromX, fromY), to: toWorld(this.#view, x, y) };
        this.#ask();
      },
      box: (fromX, fromY, x, y) => {
        this.#drawing = { kind: 'box', from: toWorld(this.#view, fromX, fromY), to: toWorld(this.#view, x, y) };
        this.#ask();
      },
      done: (isMore) => {
        if (!this.#drawing) return;
        const { kind, from, to } = this.#drawing;
        this.#drawing = null;
        this.#ask();
        const [fromX, fromY] = toScreen(this.#view, ...from);
        const [x, y] = toScreen(this.#view, ...to);
        if (kind === 'link') {
          const [one, other] = [machineAt(fromX, fromY), machineAt(x, y)];
          if (one !== null && other !== null && one !== other) this.onlink(one, other);
          return;
        }
        const names = within(this.#scene, this.#view, fromX, fromY, x, y).map((point) => this.#scene.nameOf(point));
        const selected = [...new Set([...(isMore ? this.#scene.selected : []), ...names])];
        this.select(selected);
        this.onselect(selected);
      },
      cancel: () => {
        if (this.#dragged) this.onmove(this.#positions());
        this.#dragged = null;
        this.#drawing = null;
        this.#ask();
      },
    };
  }

  /** The machines that a drag from here moves: that one, all selected if it is selected, or a group's. */
  #grasped(x: number, y: number): number[] {
    const { graph, selected } = this.#scene;
    const found = nodeAt(this.#scene, this.#view, x, y) ?? frameAt(this.#scene, this.#view, x, y);
    const members = (point: number) => {
      const group = point - graph.machines - graph.hubs.length;
      return group >= 0 ? graph.members[group]! : point < graph.machines ? [point] : [];
    };
    if (found?.kind === 'frame') return graph.members[found.group]!;
    if (found?.kind !== 'point') return [];
    if (!selected.has(this.#scene.nameOf(found.point))) return members(found.point);
    return [
      ...new Set(
        [...graph.shown.keys()].flatMap((point) => (selected.has(this.#scene.nameOf(point)) ? members(point) : [])),
      ),
    ];
  }
}
