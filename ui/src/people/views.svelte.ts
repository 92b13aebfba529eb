// What the pages of a lab share, as this page shows it: positions, the whiteboard, notes, tasks, and the other users.
import * as Y from 'yjs';
import { transport } from '../api/transport.ts';
import { notices } from '../model/notice.svelte.ts';
import { classes, kept as keptClasses, type Edited } from './classes.ts';
import {
  edit,
  groups,
  item,
  kept,
  live,
  person,
  point,
  saved,
  tasks,
  type Item,
  type Person,
  type Point,
  type Saved,
  type Task,
} from './parts.ts';
import { Provider } from './provider.ts';

/** How often a client says where it is, ms. */
const SAY_MS = 100;
/** Changes of positions in one message. */
const PIECE = 500;

/** The parts of the document that are maps. */
const MAPS = ['classes', 'groups', 'positions', 'tasks', 'views', 'whiteboard'];

/** What a page says of itself; the control process adds its name and role. */
interface Own {
  pointer: Point | null;
  selected: string;
  panel: string;
  drawing: Record<string, unknown> | null;
  camera: Person['camera'];
  hand: boolean;
  presents: boolean;
  at: number | null;
  pace: number;
}

/** A saved view with its colours: classes of packets; none: those of all pages. */
export type SavedView = Saved & { classes: Edited[] };

function view(name: string, value: unknown): SavedView | null {
  const one = saved(name, value);
  const own = one && (value as { classes?: unknown }).classes;
  return one && { ...one, classes: typeof own === 'object' && own ? classes(Object.entries(own)) : [] };
}

export class Views {
  readonly lab: string;
  #path: string;
  /** The document has been in step once. */
  synced = $state(false);
  /** It is in step now. */
  connected = $state(false);
  positions = $state.raw<Map<string, Point>>(new Map());
  /** Machines in groups that users have made. */
  groups = $state.raw<Map<string, string>>(new Map());
  /** Classes of packets with their colours; none: those of the page. */
  classes = $state.raw<Edited[]>([]);
  /** Views that users have saved, by their names. */
  saved = $state.raw<SavedView[]>([]);
  /** Classes of the view that this page has chosen; none: those of all pages. */
  lens = $state.raw<Edited[]>([]);
  board = $state.raw<Item[]>([]);
  notes = $state.raw('');
  tasks = $state.raw<Task[]>([]);
  /** All users, this one first. */
  people = $state.raw<Person[]>([]);
  /** The client that this page goes along with. */
  following = $state<number | null>(null);
  undoable = $state(false);
  redoable = $state(false);
  /** What the pointer does on the whiteboard. */
  tool = $state<'' | 'pen' | 'arrow' | 'text' | 'erase'>('');
  colour = $state(0);
  /** Where a machine is in the picture of this page. */
  positionOf: (name: string) => Point | null = (name) => this.positions.get(name) ?? null;
  readonly mayDraw: boolean;

  #doc!: Y.Doc;
  #provider!: Provider;
  #undo!: Y.UndoManager;
  #own: Own = {
    pointer: null,
    selected: '',
    panel: '',
    drawing: null,
    camera: null,
    hand: false,
    presents: false,
    at: null,
    pace: 0,
  };
  #said = '';
  #timer: ReturnType<typeof setTimeout> | undefined;
  #frame = 0;
  #due = new Set<string>();
  /** The presenter that this page does not follow any more. */
  #declined: number | null = null;
  #hands = new Set<string>();

  /** Those of a lab, or of a recorded run, of which only where users are is shared. */
  constructor(name: string, of: 'labs' | 'runs' = 'labs') {
    this.lab = name;
    this.mayDraw = of === 'labs' && transport.role !== 'view';
    this.#path = `/v1/${of}/${encodeURIComponent(name)}`;
    this.#begin();
  }

  #begin(): void {
    this.#doc = new Y.Doc();
    for (const name of MAPS) this.#map(name).observe(() => this.#outdated(name));
    this.#doc.getText('notes').observe(() => this.#outdated('notes'));
    this.#undo = new Y.UndoManager(this.#map('whiteboard'), { trackedOrigins: new Set([this]), captureTimeout: 0 });
    const undoable = () => {
      this.undoable = this.#undo.canUndo();
      this.redoable = this.#undo.canRedo();
    };
    for (const event of ['stack-item-added', 'stack-item-popped', 'stack-cleared'] as const)
      this.#undo.on(event, undoable);
    this.#provider = new Provider(this.#doc, {
      mayChange: this.mayDraw,
      open: () => transport.open(`${this.#path}/views`),
      isThere: () => transport.isThere(this.#path),
      onsynced: () => (this.synced = this.connected = true),
      onclosed: () => (this.connected = false),
      onnotice: (text) => notices.refuse(new Error(text)),
      onrefused: (reason) => {
        // What was refused is in this document and in no other: it begins anew with what the others have.
        notices.refuse(new Error(reason));
        this.#end();
        this.#begin();
        for (const name of [...MAPS, 'notes']) this.#outdated(name);
      },
    });
    this.#provider.awareness.on('change', () => this.#outdated('people'));
    this.#said = '';
    this.#say();
  }

  /** The lab is there. */
  resume(): void {
    this.#provider.resume();
  }

  #end(): void {
    this.#undo.destroy();
    this.#provider.destroy();
    this.#doc.destroy();
  }

  close(): void {
    clearTimeout(this.#timer);
    cancelAnimationFrame(this.#frame);
    this.#frame = -1;
    this.#end();
  }

  #map(name: string): Y.Map<unknown> {
    return this.#doc.getMap(name);
  }

  /** Shows what has changed, once for all changes before the next frame. */
  #outdated(part: string): void {
    this.#due.add(part);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      for (const due of this.#due) this.#read(due);
      this.#due.clear();
    });
  }

  #read(part: string): void {
    const list = <T>(name: string, each: (id: string, value: unknown) => T | null) =>
      [...this.#map(name).entries()].flatMap(([id, value]) => each(id, value) ?? []);
    if (part === 'positions') {
      this.positions = new Map(
        [...this.#map('positions').entries()].flatMap(([name, value]) => {
          const at = point(value);
          return at ? [[name, at] as const] : [];
        }),
      );
    } else if (part === 'whiteboard') this.board = list('whiteboard', item);
    else if (part === 'views') this.saved = list('views', view).sort((a, b) => a.name.localeCompare(b.name));
    else if (part === 'classes') this.classes = classes(this.#map('classes').entries());
    else if (part === 'groups') this.groups = groups(this.#map('groups').entries());
    else if (part === 'tasks') this.tasks = tasks(this.#map('tasks').entries());
    else if (part === 'notes') this.notes = this.#doc.getText('notes').toString();
    else this.#meet();
  }

  #meet(): void {
    const self = this.#doc.clientID;
    const states = [...this.#provider.awareness.getStates()];
    const people = states.flatMap(([client, state]) => person(client, self, state) ?? []);
    const rank = (one: Person) => Number(one.isSelf) * 4 + Number(one.presents) * 2 + Number(one.hand);
    this.people = people.sort((a, b) => rank(b) - rank(a) || a.name.localeCompare(b.name) || a.client - b.client);
    const hands = new Set(people.flatMap(({ name, hand, isSelf }) => (hand && !isSelf ? name : [])));
    for (const name of hands) if (!this.#hands.has(name)) notices.say(`${name} raises a hand`);
    this.#hands = hands;
    const presenter = people.find(({ presents, isSelf }) => presents && !isSelf)?.client ?? null;
    if (presenter === null) this.#declined = null;
    else if (presenter !== this.#declined && !this.#own.presents) this.following = presenter;
    if (this.following !== null && !people.some(({ client }) => client === this.following)) this.following = null;
  }

  /** Says something of this page to the others, soon. */
  say(what: Partial<Own>): void {
    Object.assign(this.#own, what);
    this.#timer ??= setTimeout(() => this.#say(), SAY_MS);
  }

  #say(): void {
    this.#timer = undefined;
    const text = JSON.stringify(this.#own);
    if (text === this.#said) return;
    this.#said = text;
    // The rest is the server's to say: what is here is for this page alone until then.
    this.#provider.awareness.setLocalState({ ...this.#own, name: transport.actor, role: transport.role });
  }

  get self(): Person | undefined {
    return this.people.find(({ isSelf }) => isSelf);
  }

  get followed(): Person | undefined {
    return this.people.find(({ client }) => client === this.following);
  }

  follow(client: number | null): void {
    if (client === null && this.followed?.presents) this.#declined = this.following;
    this.following = client;
    if (client !== null) this.present(false);
  }

  present(presents: boolean): void {
    if (presents) this.following = null;
    this.say({ presents });
  }

  raise(hand: boolean): void {
    this.say({ hand });
  }

  #change(change: () => void): void {
    if (this.mayDraw) this.#doc.transact(change, this);
  }

  /** Keeps where machines are. */
  place(moved: Map<string, Point>): void {
    const list = [...moved];
    for (let from = 0; from < list.length; from += PIECE) {
      this.#change(() => {
        for (const [name, [x, y]] of list.slice(from, from + PIECE)) {
          this.#map('positions').set(name, [Math.round(x * 10) / 10, Math.round(y * 10) / 10]);
        }
      });
    }
  }

  /** Puts machines into a group; an empty name: into none. */
  group(machines: string[], name: string): void {
    this.#change(() => {
      for (const machine of machines) this.#map('groups').set(machine, name.trim().slice(0, 64));
    });
  }

  /** Has packets of these classes these colours, for all pages; none: those that each page has. */
  setClasses(list: Edited[]): void {
    this.#change(() => {
      const part = this.#map('classes');
      for (const key of [...part.keys()]) part.delete(key);
      for (const [key, value] of keptClasses(list)) part.set(key, value);
    });
  }

  /** Keeps what is seen under this name, in the place of a view of that name. */
  save({ name, ...what }: Omit<Saved, 'by'>): void {
    const round = (value: number) => Math.round(value * 1000) / 1000;
    const list = Object.fromEntries(keptClasses(this.lens.length ? this.lens : this.classes));
    const camera = what.camera.map(round);
    this.#change(() => this.#map('views').set(name, { ...what, camera, classes: list, by: transport.actor }));
  }

  forget(name: string): void {
    this.#change(() => this.#map('views').delete(name));
  }

  /** Has the others see what is being drawn; null: nothing any more. */
  sketch(what: Omit<Item, 'id' | 'by'> | null): void {
    if (this.mayDraw) this.say({ drawing: what && live({ ...what, by: '' }) });
  }

  draw(what: Omit<Item, 'id' | 'by' | 'colour'>): void {
    const id = crypto.randomUUID().slice(0, 13);
    this.#change(() => this.#map('whiteboard').set(id, kept({ ...what, colour: this.colour, by: transport.actor })));
  }

  erase(ids: string[]): void {
    this.#change(() => {
      for (const id of ids) this.#map('whiteboard').delete(id);
    });
  }

  undo(): void {
    this.#undo.undo();
  }

  redo(): void {
    this.#undo.redo();
  }

  /** The notes were this text in the page, and are the other now. */
  write(before: string, after: string): void {
    const notes = this.#doc.getText('notes');
    const now = notes.toString();
    const { at, gone, come } = edit(before, after);
    // What others have typed before it, and this page has not shown yet.
    const other = edit(before, now);
    const shift = other.at <= at && before !== now ? other.come.length - other.gone : 0;
    const from = Math.min(Math.max(at + shift, 0), now.length);
    const count = Math.min(gone, now.length - from);
    this.#change(() => {
      if (count) notes.delete(from, count);
      if (come) notes.insert(from, come);
    });
  }

  addTask(text: string): void {
    const order = (this.tasks.at(-1)?.order ?? 0) + 1;
    this.#change(() => this.#map('tasks').set(crypto.randomUUID().slice(0, 13), { text, order }));
  }

  removeTask(id: string): void {
    this.#change(() => {
      const part = this.#map('tasks');
      for (const key of [...part.keys()]) if (key === id || key.startsWith(`${id}/`)) part.delete(key);
    });
  }

  tick(id: string, isDone: boolean): void {
    this.#change(() => {
      const key = `${id}/${transport.actor}`;
      if (isDone) this.#map('tasks').set(key, true);
      else this.#map('tasks').delete(key);
    });
  }
}
