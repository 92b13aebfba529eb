// Two processes on one port, or a single one: a file, or the request's body.
const cluster = require('cluster');
const fs = require('fs');
const http = require('http');

if (cluster.isPrimary && !process.env.ALONE) {
  cluster.fork();
  cluster.fork();
  process.on('SIGTERM', () => cluster.disconnect(() => process.exit(0)));
} else {
  const answer = (request, response) => {
    response.setHeader('connection', 'close');
    (request.method === 'POST' ? request : fs.createReadStream('file')).pipe(response);
  };
  http.createServer(answer).listen(8080, '0.0.0.0');
  process.on('SIGTERM', () => process.env.ALONE && process.exit(0));
}
