// A WebSocket of a lab, a run or the session, which is opened again whenever it closes as long as that is there.

/** The first and the longest pause before it is opened again, ms: each is twice the one before until a connection lasts. */
const FIRST_WAIT = 250;
const LONGEST_WAIT = 5000;

export interface Handlers {
  open(): WebSocket;
  /** Whether the lab, or the run, is there: why a WebSocket was refused is not told. */
  isThere(): Promise<boolean>;
  onopen?(): void;
  onmessage(data: string | ArrayBuffer): void;
  onclose?(event: CloseEvent): void;
}

export class Reconnecting {
  readonly #handlers: Handlers;
  #socket!: WebSocket;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wait = FIRST_WAIT;
  #isClosed = false;
  /** The lab has gone, or that is being asked. */
  #mayBeGone = false;

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
    this.#open();
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Sends it, unless the WebSocket is closed. */
  send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.isOpen) this.#socket.send(data);
  }

  /** The lab is there: the WebSocket is opened again if that was not known. */
  resume(): void {
    if (!this.#mayBeGone || this.#isClosed) return;
    this.#mayBeGone = false;
    this.#open();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#socket.close();
  }

  #open(): void {
    const socket = this.#handlers.open();
    this.#socket = socket;
    let opened = Infinity;
    socket.onopen = () => {
      opened = performance.now();
      this.#handlers.onopen?.();
    };
    socket.onmessage = ({ data }) => {
      if (!this.#isClosed) this.#handlers.onmessage(data as string | ArrayBuffer);
    };
    socket.onclose = (event) => {
      if (this.#isClosed) return;
      this.#handlers.onclose?.(event);
      if (this.#isClosed) return;
      if (performance.now() - opened > LONGEST_WAIT) this.#wait = FIRST_WAIT;
      this.#timer = setTimeout(() => void this.#ask(), this.#wait);
      this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
    };
  }

  async #ask(): Promise<void> {
    this.#mayBeGone = true;
    if (await this.#handlers.isThere()) this.resume();
  }
}
