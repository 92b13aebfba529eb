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

/** What may be replaced by another way to the control process, such as messages of a notebook. */
export interface Transport {
  request(method: string, path: string, body?: unknown): Promise<Response>;
  open(path: string): WebSocket;
}

class BrowserTransport implements Transport {
  token = sessionStorage.getItem(KEY) ?? '';
  /** What this session may do: `view`, `operate` or `own`. */
  role = sessionStorage.getItem(`${KEY}.role`) ?? 'own';

  /** Changes the ticket of the page's address for a token, and takes it out of the address. */
  async enter(): Promise<void> {
    const ticket = /^#t=([\w.~-]+)(.*)$/.exec(location.hash);
    if (!ticket) return;
    history.replaceState(null, '', location.pathname + (ticket[2] ? '#' + ticket[2].replace(/^&/, '') : ''));
    const response = await this.request('POST', '/v1/session', { ticket: ticket[1] });
    if (!response.ok) throw await refusal(response);
    const { token, role } = (await response.json()) as { token: string; role: string };
    this.token = token;
    this.role = role;
    sessionStorage.setItem(KEY, token);
    sessionStorage.setItem(`${KEY}.role`, role);
  }

  request(method: string, path: string, body?: unknown): Promise<Response> {
    const headers: Record<string, string> = {};
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    return fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  }

  open(path: string): WebSocket {
    const address = new URL(path, location.href);
    address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
    const protocols = this.token ? ['vink.v1', `vink.bearer.${this.token}`] : [];
    const socket = new WebSocket(address, protocols);
    socket.binaryType = 'arraybuffer';
    return socket;
  }
}

export const transport = new BrowserTransport();

/** What an answer that is no success says. */
export async function refusal(response: Response): Promise<Refused> {
  const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
  return new Refused(response.status, problem);
}
