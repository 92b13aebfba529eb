// Twenty files and an upload.
const crypto = require('crypto');
const http = require('http');
const host = process.argv[2];

const file = () => new Promise((resolve, reject) => {
  http.get({ host, port: 8080, path: '/' }, (response) => {
    const hash = crypto.createHash('sha256');
    response.on('data', (data) => hash.update(data));
    response.on('end', () => resolve(hash.digest('hex')));
  }).on('error', reject);
});

const main = async () => {
  const sums = await Promise.all(Array.from({ length: 20 }, file));
  sums.forEach((sum) => console.log(sum));
  const body = 'upload '.repeat(500000);
  const echo = await fetch(`http://${host}:8080/`, { method: 'POST', body });
  console.log(body === await echo.text());
};
main().then(() => process.exit(0), (error) => { console.log(error); process.exit(1); });
