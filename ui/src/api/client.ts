// The API's requests, typed by its own description.
import createClient, { type Middleware } from 'openapi-fetch';
import { Reconnecting } from './reconnecting.ts';
import type { paths } from './schema.d.ts';
import { refusal, transport } from './transport.ts';

const refused: Middleware = {
  async onResponse({ response }) {
    if (response.ok) return response;
    const refused = await refusal(response);
    if (refused.status === 401) transport.onout(refused.message);
    throw refused;
  },
};

export const api = createClient<paths>({ baseUrl: location.origin, fetch: (request) => transport.fetch(request) });
api.use(refused);

/** The body of an answer: a refused request has thrown before. */
export async function body<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}

/**
 * JSON messages of a WebSocket until the returned function is called. `again` is called when it is to be opened again, so
 * that what is wrong is told, and when it is open again, since what happened meanwhile was not.
 */
export function follow<T>(path: string, each: (message: T) => void, again = () => {}): () => void {
  let opened = 0;
  const socket = new Reconnecting({
    open: () => {
      if (opened++) again();
      return transport.open(path);
    },
    isThere: () => transport.isThere(),
    onopen: () => {
      if (opened > 1) again();
    },
    onmessage: (data) => {
      if (typeof data === 'string') each(JSON.parse(data) as T);
    },
  });
  return () => socket.close();
}

/** Runs a program on a machine to its end: what it has written, and its exit status. */
export async function run(lab: string, machine: string, words: string[]): Promise<{ output: string; code: number }> {
  const program = await body(
    api.POST('/v1/labs/{lab}/programs', { params: { path: { lab } }, body: { machine, words, attach: true } }),
  );
  const socket = transport.open(`/v1/labs/${encodeURIComponent(lab)}/programs/${program.id}/terminal`);
  const text = new TextDecoder();
  let output = '';
  return new Promise((resolve, reject) => {
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') {
        const message = JSON.parse(data) as { ended?: { code: number; error?: string | null } };
        if (message.ended) resolve({ output: output + (message.ended.error ?? ''), code: message.ended.code });
      } else {
        output += text.decode(new Uint8Array(data as ArrayBuffer, 1), { stream: true });
      }
    };
    socket.onclose = () => reject(new Error(`${words.join(' ')}: the connection ended before the program`));
  });
}
