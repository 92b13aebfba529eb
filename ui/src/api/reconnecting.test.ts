// A WebSocket that closes is opened again, later each time, unless its lab has gone.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Reconnecting } from './reconnecting.ts';

class Socket {
  static readonly OPEN = 1;
  readyState = 0;
  onopen = () => {};
  onmessage: (message: { data: string }) => void = () => {};
  onclose: (why: object) => void = () => {};
  opens() {
    this.readyState = Socket.OPEN;
    this.onopen();
  }
  closes() {
    this.readyState = 3;
    this.onclose({});
  }
  close() {
    this.closes();
  }
}
Object.assign(globalThis, { WebSocket: Socket });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function client() {
  const sockets: Socket[] = [];
  const asked: ((isThere: boolean) => void)[] = [];
  const told: string[] = [];
  const socket = new Reconnecting({
    open: () => {
      sockets.push(new Socket());
      return sockets.at(-1) as unknown as WebSocket;
    },
    isThere: () => new Promise((answer) => asked.push(answer)),
    onopen: () => told.push('open'),
    onmessage: (data) => told.push(data as string),
    onclose: () => told.push('closed'),
  });
  return { socket, sockets, asked, told };
}

test('the_pause_doubles_until_a_connection_lasts', async () => {
  const { sockets, asked } = client();
  const pause = async () => {
    sockets.at(-1)!.closes();
    let waited = 0;
    for (const before = asked.length; asked.length === before; waited += 50) await vi.advanceTimersByTimeAsync(50);
    asked.at(-1)!(true);
    await vi.advanceTimersByTimeAsync(0);
    return waited;
  };
  const pauses = [];
  for (let i = 0; i < 7; i += 1) pauses.push(await pause());
  expect(pauses).toEqual([250, 500, 1000, 2000, 4000, 5000, 5000]);
  sockets.at(-1)!.opens();
  expect(await pause()).toBe(5000);
  sockets.at(-1)!.opens();
  await vi.advanceTimersByTimeAsync(6000);
  expect(await pause()).toBe(250);
  expect(sockets.length).toBe(10);
});

test('one_of_a_lab_that_has_gone_is_opened_when_the_lab_is_there', async () => {
  const { socket, sockets, asked, told } = client();
  sockets[0]!.closes();
  // That it is there does not cut the pause of one that is refused for something else.
  socket.resume();
  expect(sockets.length).toBe(1);
  await vi.advanceTimersByTimeAsync(250);
  asked[0]!(false);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([asked.length, sockets.length]).toEqual([1, 1]);
  socket.resume();
  socket.resume();
  expect(sockets.length).toBe(2);
  sockets[1]!.opens();
  sockets[1]!.onmessage({ data: 'hello' });
  expect(told).toEqual(['closed', 'open', 'hello']);
});

test('the_lab_is_there_before_the_answer_that_it_has_gone', async () => {
  for (const answer of [true, false]) {
    const { socket, sockets, asked } = client();
    sockets[0]!.closes();
    await vi.advanceTimersByTimeAsync(250);
    socket.resume();
    asked[0]!(answer);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets.length).toBe(2);
  }
});

test('one_that_was_closed_stays_closed', async () => {
  const { socket, sockets, asked, told } = client();
  sockets[0]!.closes();
  await vi.advanceTimersByTimeAsync(250);
  socket.close();
  asked[0]!(true);
  await vi.advanceTimersByTimeAsync(60_000);
  socket.resume();
  expect([sockets.length, told]).toEqual([1, ['closed']]);
});
