// Serves orders behind express-idempotency, with its defaults, on a free port of
// the loopback interface, which it prints.
const express = require('express');
const { idempotency, getSharedIdempotencyService } = require('express-idempotency');

let sales = 0;
const app = express();
app.get('/sales', (req, res) => res.json({ sales }));
app.use((req, res, next) => {
  if (!(req.get('authorization') || '').startsWith('Bearer caller-')) return res.status(401).send('who are you?');
  if (req.get('x-limited')) return res.status(429).send('too many');
  next();
});
app.use(express.json());
app.use(idempotency());
app.post('/orders', (req, res) => {
  const service = getSharedIdempotencyService();
  if (service.isHit(req)) return;
  if (req.get('x-fail')) {
    service.reportError(req);
    return res.status(500).send('broken');
  }
  setTimeout(() => {
    const id = 'order_' + String(++sales).padStart(4, '0');
    res.status(201).location('/orders/' + id);
    switch (req.get('x-answer')) {
      case 'large':
        return res.type('text/plain').send(id + 'x'.repeat(100 << 10));
      case 'binary':
        return res.type('application/octet-stream').send(Buffer.concat([Buffer.from(id), Buffer.from([0, 0xff, 0xfe])]));
      case 'cookie':
        res.cookie('session', 'secret');
        break;
      case 'hop':
        res.set('Proxy-Connection', 'keep-alive');
    }
    res.json({ id });
  }, req.get('x-slow') ? 300 : 0);
});
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));
