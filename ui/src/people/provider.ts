// Keeps a document and what its clients say of themselves the same as the control process's: y-protocols' sync and
// awareness over a WebSocket.
import * as decoding from 'lib0/decoding';
import * as encoding from 'lib0/encoding';
import { applyAwarenessUpdate, Awareness, encodeAwarenessUpdate, removeAwarenessStates } from 'y-protocols/awareness';
import { readSyncMessage, writeSyncStep1, writeUpdate } from 'y-protocols/sync';
import type * as Y from 'yjs';
import { Reconnecting } from '../api/reconnecting.ts';

const SYNC = 0;
const PRESENCE = 1;
const DENIED = 2;
const NOTICE = 100;
// What sync messages have: one that changes the document begins with anything else.
const STEP_1 = 0;
/** Close codes with which the control process drops a client that has broken a rule. */
const REFUSED = [1007, 1008, 1009];

export interface Handlers {
  /** Whether this client may change the document. */
  mayChange: boolean;
  open(): WebSocket;
  /** Whether it makes sense to open it again. */
  isThere(): Promise<boolean>;
  /** The document is in step. */
  onsynced(): void;
  onclosed(): void;
  /** This client was dropped: what it has changed last is not the others' any more. */
  onrefused(reason: string): void;
  /** What the control process says of its files. */
  onnotice(text: string): void;
}

export class Provider {
  readonly awareness: Awareness;
  readonly #doc: Y.Doc;
  readonly #handlers: Handlers;
  readonly #socket: Reconnecting;

  constructor(doc: Y.Doc, handlers: Handlers) {
    this.#doc = doc;
    this.#handlers = handlers;
    this.awareness = new Awareness(doc);
    doc.on('update', this.#changed);
    this.awareness.on('update', this.#said);
    this.#socket = new Reconnecting({
      open: handlers.open,
      isThere: handlers.isThere,
      onopen: () => {
        this.#send(SYNC, (to) => writeSyncStep1(to, doc));
        // Said anew, since for the others this client has been gone.
        this.awareness.setLocalState(this.awareness.getLocalState());
      },
      onmessage: (data) => {
        if (data instanceof ArrayBuffer) this.#take(new Uint8Array(data));
      },
      onclose: ({ code, reason }) => {
        const others = [...this.awareness.getStates().keys()].filter((client) => client !== doc.clientID);
        removeAwarenessStates(this.awareness, others, this);
        // They are told of anew, as old as they are.
        for (const client of others) this.awareness.meta.delete(client);
        handlers.onclosed();
        if (!REFUSED.includes(code)) return;
        this.#socket.close();
        handlers.onrefused(reason);
      },
    });
  }

  destroy(): void {
    this.#doc.off('update', this.#changed);
    this.awareness.off('update', this.#said);
    this.awareness.destroy();
    this.#socket.close();
  }

  /** What the document is of is there. */
  resume(): void {
    this.#socket.resume();
  }

  #take(bytes: Uint8Array): void {
    const from = decoding.createDecoder(bytes);
    switch (decoding.readVarUint(from)) {
      case SYNC: {
        const answer = encoding.createEncoder();
        encoding.writeVarUint(answer, SYNC);
        const kind = readSyncMessage(from, answer, this.#doc, this);
        if (encoding.length(answer) > 1) this.#socket.send(encoding.toUint8Array(answer) as Uint8Array<ArrayBuffer>);
        if (kind !== STEP_1) this.#handlers.onsynced();
        break;
      }
      case PRESENCE:
        applyAwarenessUpdate(this.awareness, decoding.readVarUint8Array(from), this);
        break;
      case NOTICE:
        this.#handlers.onnotice(decoding.readVarString(from));
        break;
      case DENIED: // The close frame that follows says the same.
    }
  }

  #send(kind: number, write: (to: encoding.Encoder) => void): void {
    if (!this.#socket.isOpen) return;
    const to = encoding.createEncoder();
    encoding.writeVarUint(to, kind);
    write(to);
    this.#socket.send(encoding.toUint8Array(to) as Uint8Array<ArrayBuffer>);
  }

  #changed = (update: Uint8Array, origin: unknown) => {
    if (origin === this || !this.#handlers.mayChange) return;
    this.#send(SYNC, (to) => writeUpdate(to, update));
  };

  #said = ({ added, updated, removed }: { added: number[]; updated: number[]; removed: number[] }) => {
    const own = [...added, ...updated, ...removed].includes(this.#doc.clientID) ? [this.#doc.clientID] : [];
    if (!own.length) return;
    this.#send(PRESENCE, (to) => encoding.writeVarUint8Array(to, encodeAwarenessUpdate(this.awareness, own)));
  };
}
