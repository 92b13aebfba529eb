// Serves ui/dist, and passes requests below /v1 on to a control process's socket.
import { createReadStream, existsSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { connect } from 'node:net';
import { extname, join, normalize } from 'node:path';

const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain',
};
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; " +
  "img-src 'self' data: blob:; font-src 'self'; worker-src 'self'; frame-ancestors 'none'";

export async function serve(dist: string, socketPath: string): Promise<{ server: Server; address: string }> {
  const server = createServer((incoming, outgoing) => {
    const { method, headers, url = '/' } = incoming;
    if (url.startsWith('/v1')) {
      const onward = request(
        { socketPath, method, path: url, headers: { ...headers, host: 'localhost' } },
        (answer) => {
          outgoing.writeHead(answer.statusCode!, answer.headers);
          answer.pipe(outgoing);
        },
      );
      onward.on('error', () => outgoing.destroy());
      incoming.pipe(onward);
      return;
    }
    const path = normalize(decodeURIComponent(url.split('?')[0]!));
    const file = join(dist, path === '/' ? 'index.html' : path);
    if (!existsSync(file)) return void outgoing.writeHead(404).end();
    outgoing.writeHead(200, {
      'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
      'content-security-policy': POLICY,
    });
    createReadStream(file).pipe(outgoing);
  });
  server.on('upgrade', (incoming, socket, head) => {
    const onward = connect(socketPath, () => {
      const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`];
      for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
        lines.push(`${incoming.rawHeaders[at]}: ${incoming.rawHeaders[at + 1]}`);
      }
      onward.write(lines.join('\r\n') + '\r\n\r\n');
      onward.write(head);
      onward.pipe(socket).pipe(onward);
    });
    for (const one of [onward, socket]) one.on('error', () => (onward.destroy(), socket.destroy()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { server, address: `http://127.0.0.1:${port}/` };
}
