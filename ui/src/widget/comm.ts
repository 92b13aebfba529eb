// The way to a control process by a notebook's messages: the notebook's kernel asks in the page's place (vink/view.py).
import type { Way } from '../api/transport.ts';

/** What anywidget gives a widget: messages to and from its other half in the kernel. */
export interface Model {
  get(name: string): unknown;
  send(message: unknown): void;
  on(name: 'msg:custom', handler: (message: Message, buffers: DataView[]) => void): void;
  off(name: 'msg:custom', handler: (message: Message, buffers: DataView[]) => void): void;
}

/** What the kernel's half says, about a request (`request`) or a WebSocket (`socket`) by its number. */
type Message =
  | { request: number; status: number; body: string }
  | { socket: number; text: string }
  | { socket: number; bytes: true }
  | { socket: number; closed: true };

export class Comm implements Way {
  #model: Model;
  /** Begins anywhere, so that two tabs with one kernel don't take each other's answers. */
  #last = Math.floor(Math.random() * 2 ** 48);
  #asked = new Map<number, (response: Response) => void>();
  #sockets = new Map<number, CommSocket>();

  constructor(model: Model) {
    this.#model = model;
    model.on('msg:custom', this.#take);
  }

  close(): void {
    this.#model.off('msg:custom', this.#take);
    for (const socket of [...this.#sockets.values()]) socket.close();
  }

  async fetch(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const number = ++this.#last;
    return new Promise((resolve) => {
      this.#asked.set(number, resolve);
      this.#model.send({ request: number, method: request.method, path: pathname + search });
    });
  }

  open(path: string): WebSocket {
    const number = ++this.#last;
    const socket = new CommSocket(
      (text) => this.#model.send({ socket: number, text }),
      () => {
        if (this.#sockets.delete(number)) this.#model.send({ socket: number, close: true });
      },
    );
    this.#sockets.set(number, socket);
    this.#model.send({ socket: number, open: path });
    // Of a WebSocket those parts that the page uses.
    return socket as unknown as WebSocket;
  }

  #take = (message: Message, buffers: DataView[]): void => {
    if ('request' in message) {
      const { request, status, body } = message;
      const isEmpty = [204, 205, 304].includes(status);
      const headers = { 'content-type': 'application/json' };
      this.#asked.get(request)?.(new Response(isEmpty ? null : body, { status, headers }));
      this.#asked.delete(request);
      return;
    }
    const socket = this.#sockets.get(message.socket);
    if (!socket) return;
    if ('closed' in message) {
      this.#sockets.delete(message.socket);
      socket.ended();
    } else if ('text' in message) {
      socket.take(message.text);
    } else {
      // A copy: what is taken is kept, and the notebook's buffer may be a part of another.
      const { buffer, byteOffset, byteLength } = buffers[0]!;
      socket.take(buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer);
    }
  };
}

class CommSocket {
  binaryType = 'arraybuffer';
  onopen: ((event: Event) => void) | null = null;
  onmessage: ((event: MessageEvent) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  readyState: number = WebSocket.OPEN;
  readonly send: (text: string) => void;
  #close: () => void;

  constructor(send: (text: string) => void, close: () => void) {
    this.send = send;
    this.#close = close;
    // As a WebSocket does: after the handlers are set.
    queueMicrotask(() => this.onopen?.(new Event('open')));
  }

  take(data: string | ArrayBuffer): void {
    this.onmessage?.(new MessageEvent('message', { data }));
  }

  ended(): void {
    this.readyState = WebSocket.CLOSED;
    this.onclose?.(new CloseEvent('close'));
  }

  close(): void {
    if (this.readyState === WebSocket.CLOSED) return;
    this.#close();
    this.ended();
  }
}
