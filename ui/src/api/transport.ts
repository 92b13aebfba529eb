// How requests reach the control process: with a session's token over HTTP and WebSockets. No cookie is used; the token of
// a one-time ticket is kept for this tab alone (docs/ui.md).
import type { Problem } from './types.ts';

const KEY = 'vink.session';

/** A request that was refused, in the server's words. */
export class Refused extends Error {
  readonly status: number;
  readonly hint: string;
  /** Where in the request, as JSON pointers. */
  readonly paths: string[];

  constructor(status: number, problem: Partial<Problem>) {
    super(problem.error ?? `the control process answered with status ${status}`);
    this.status = status;
    this.hint = problem.hint ?? '';
    this.paths = problem.paths ?? [];
  }
}

/** A way to the control process: the browser's own, or messages of a notebook (widget/comm.ts). */
export interface Way {
  fetch(request: Request): Promise<Response>;
  open(path: string): WebSocket;
}

class Transport implements Way {
  #other: Way | undefined;
  token = sessionStorage.getItem(KEY) ?? '';
  /** What this session may do: `view`, `draw`, `operate` or `own`. */
  role = sessionStorage.getItem(`${KEY}.role`) ?? 'own';
  /** Its user's name. */
  actor = sessionStorage.getItem(`${KEY}.actor`) ?? 'owner';
  /** What is done when the session is worth nothing any more, with the reason. */
  onout: (reason: string) => void = () => {};

  /** Changes the ticket of the page's address for a token, and takes it out of the address. */
  async enter(): Promise<void> {
    const ticket = /^#t=([\w.~-]+)(.*)$/.exec(location.hash);
    if (!ticket) return;
    history.replaceState(null, '', location.pathname + (ticket[2] ? '#' + ticket[2].replace(/^&/, '') : ''));
    const response = await this.request('POST', '/v1/session', { ticket: ticket[1] });
    if (!response.ok) throw await refusal(response);
    const session = (await response.json()) as { token: string; role: string; actor: string };
    ({ token: this.token, role: this.role, actor: this.actor } = session);
    sessionStorage.setItem(KEY, this.token);
    sessionStorage.setItem(`${KEY}.role`, this.role);
    sessionStorage.setItem(`${KEY}.actor`, this.actor);
  }

  /** Has all go another way from now on. */
  goes(other: Way): void {
    this.#other = other;
  }

  fetch(request: Request): Promise<Response> {
    if (this.#other) return this.#other.fetch(request);
    if (this.token) request.headers.set('authorization', `Bearer ${this.token}`);
    return fetch(request);
  }

  request(method: string, path: string, body?: unknown): Promise<Response> {
    const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
    const init = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    return this.fetch(new Request(new URL(path, location.href), init));
  }

  /** Whether what has this path is there and the session is still worth something, as far as can be told. */
  async isThere(path = '/v1/session'): Promise<boolean> {
    const answer = await this.request('GET', path).catch(() => null);
    if (answer?.status === 401) this.onout((await refusal(answer)).message);
    return answer?.status !== 401 && answer?.status !== 404;
  }

  open(path: string): WebSocket {
    if (this.#other) return this.#other.open(path);
    const address = new URL(path, location.href);
    address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
    const protocols = this.token ? ['vink.v1', `vink.bearer.${this.token}`] : [];
    const socket = new WebSocket(address, protocols);
    socket.binaryType = 'arraybuffer';
    return socket;
  }
}

export const transport = new Transport();

/** What an answer that is no success says. */
export async function refusal(response: Response): Promise<Refused> {
  const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
  return new Refused(response.status, problem);
}
