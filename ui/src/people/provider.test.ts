// Two documents that speak over sockets: what is said arrives, and a client that is dropped is told why.
import { encoding } from 'lib0';
import { afterEach, expect, test } from 'vitest';
import * as Y from 'yjs';
import { Provider } from './provider.ts';

/** A socket whose other end hands what it is sent to all others, as the control process does. */
class Socket {
  static readonly OPEN = 1;
  static all: Socket[] = [];
  readyState = Socket.OPEN;
  onopen = () => {};
  onmessage: (message: { data: ArrayBuffer }) => void = () => {};
  onclose: (why: { code: number; reason: string }) => void = () => {};
  sent: Uint8Array[] = [];
  constructor() {
    Socket.all.push(this);
  }
  send(bytes: Uint8Array) {
    this.sent.push(bytes);
    for (const other of Socket.all) if (other !== this) other.onmessage({ data: bytes.slice().buffer });
  }
  close() {}
}
Object.assign(globalThis, { WebSocket: Socket });

const made: Provider[] = [];
afterEach(() => {
  for (const provider of made.splice(0)) provider.destroy();
  Socket.all = [];
});

function client(mayChange = true) {
  const doc = new Y.Doc();
  const told: string[] = [];
  const provider = new Provider(doc, {
    mayChange,
    open: () => new Socket() as unknown as WebSocket,
    isThere: () => Promise.resolve(true),
    onsynced: () => told.push('synced'),
    onclosed: () => told.push('closed'),
    onrefused: (reason) => told.push(reason),
    onnotice: (text) => told.push(text),
  });
  made.push(provider);
  const socket = Socket.all.at(-1)!;
  return { doc, provider, socket, told };
}

test('documents_and_presence_converge', () => {
  const [one, other] = [client(), client()];
  one.doc.getMap('positions').set('a', [1, 2]);
  one.provider.awareness.setLocalState({ name: 'one' });
  other.socket.onopen();
  expect(other.doc.getMap('positions').toJSON()).toEqual({ a: [1, 2] });
  expect(other.told).toContain('synced');
  one.socket.onopen();
  expect(other.provider.awareness.getStates().get(one.doc.clientID)).toEqual({ name: 'one' });
  other.doc.getText('notes').insert(0, 'hello');
  expect(one.doc.getText('notes').toString()).toBe('hello');
  // A connection that ends takes the others with it, and they are there again when it is.
  other.socket.onclose({ code: 1006, reason: '' });
  expect(other.provider.awareness.getStates().has(one.doc.clientID)).toBe(false);
  one.provider.awareness.setLocalState({ name: 'one' });
  expect(other.provider.awareness.getStates().has(one.doc.clientID)).toBe(true);
});

test('a_page_that_may_look_sends_no_change', () => {
  const viewer = client(false);
  viewer.doc.getMap('positions').set('a', [1, 2]);
  expect(viewer.socket.sent).toEqual([]);
});

test('a_refusal_and_a_notice_are_told', () => {
  const { socket, told } = client();
  const to = encoding.createEncoder();
  encoding.writeVarUint(to, 100);
  encoding.writeVarString(to, 'views are saved again');
  socket.onmessage({ data: encoding.toUint8Array(to).slice().buffer });
  socket.onclose({ code: 1009, reason: 'the views of this lab are full' });
  expect(told).toEqual(['views are saved again', 'closed', 'the views of this lab are full']);
});
