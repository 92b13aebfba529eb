# Many small sends, and all that may become of them: deferred_sends.py server, or deferred_sends.py PART ADDRESS PORT.
import array, collections, errno, fcntl, functools, hashlib, mmap, os, random, select, selectors, signal, socket, struct, sys
import tempfile, termios, threading

print = functools.partial(print, flush=True)
# Polls before each call, and is stuck for no longer.
TIME = 100
socket.setdefaulttimeout(TIME)

def exactly(s, length):
    parts = []
    while length:
        part = s.recv(min(length, 65536))
        if not part: raise EOFError
        parts.append(part)
        length -= len(part)
    return b''.join(parts)

def digest(data): return f'{len(data)} {hashlib.sha256(data).hexdigest()}'

# The server: what a connection is for stands in its first 32 bytes.

told, news = {}, threading.Condition()

def tell(name, text):
    with news:
        told[name] = text
        news.notify_all()

def await_word(name, longest=TIME):
    with news:
        assert news.wait_for(lambda: name in told, longest), name
        return told.pop(name)

def drained(s):
    data = bytearray()
    try:
        while part := s.recv(65536): data += part
    except ConnectionResetError: return 'reset'
    return digest(data)

def answer_requests(s):
    while True:
        try: length, wanted = struct.unpack('!II', exactly(s, 8))
        except EOFError: return
        s.send(struct.pack('!I', wanted))
        s.send(hashlib.sha256(exactly(s, length)).digest())
        s.sendall(random.Random(wanted).randbytes(wanted))

def serve(s):
    with s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        what, name, *more = exactly(s, 32).decode().split()
        if what == 'ask': s.sendall(await_word(name).encode())
        elif what == 'go': tell('go ' + name, '')
        elif what == 'answer': answer_requests(s)
        elif what == 'mirror':
            while part := s.recv(65536): s.sendall(part)
        elif what == 'reset':
            exactly(s, int(more[0]))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            s.close()
            tell(name, 'reset')
        else:
            # Beside busy processes a client may need long for its hundreds of thousands of sends.
            if what == 'hold': await_word('go ' + name, None)
            tell(name, drained(s))

def server():
    with socket.create_server(('', 0), backlog=100) as l:
        l.settimeout(None)
        print(l.getsockname()[1])
        while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()

# The client.

def connect(*words):
    s = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(' '.join(map(str, words)).ljust(32).encode())
    return s

def ask(name):
    with connect('ask', name) as s: return s.makefile().read()

def pieces(name, count=40):
    r = random.Random(name)
    return [r.randbytes(r.choice((1, 7, 100, 1000, 4080))) for _ in range(count)]

def send_all(s, parts):
    for part in parts: s.sendall(part)

def expect(name, parts):
    found, expected = ask(name), digest(b''.join(parts))
    assert found == expected, (name, found, expected)

def requests():
    r = random.Random(1)
    sizes = lambda: r.choice((r.randrange(100), r.randrange(5000), r.randrange(200_000)))
    with selectors.EpollSelector() as events:
        for n in range(20):
            s = connect('answer', n)
            s.setblocking(False)
            out, wanted = bytearray(), []
            state = {'left': [(r.randbytes(1 + sizes()), 1 + sizes()) for _ in range(20)], 'out': out, 'in': bytearray(),
                     'wanted': collections.deque()}
            events.register(s, selectors.EVENT_READ | selectors.EVENT_WRITE, state)
        answers = 0
        while events.get_map():
            for key, ready in events.select(TIME):
                s, c = key.fileobj, key.data
                while c['left'] and len(c['wanted']) < 4:
                    data, wanted = c['left'].pop()
                    c['wanted'].append((hashlib.sha256(data).digest(), wanted))
                    c['out'] += struct.pack('!II', len(data), wanted) + data
                try:
                    while c['out']:
                        # Small and large ones.
                        del c['out'][:s.send(c['out'][:r.choice((10, 1000, 4080, 100_000))])]
                except BlockingIOError: pass
                try:
                    while part := s.recv(r.choice((10, 1000, 100_000))): c['in'] += part
                    assert False, 'it ends'
                except BlockingIOError: pass
                while c['wanted'] and len(c['in']) >= 36 + c['wanted'][0][1]:
                    sha, wanted = c['wanted'].popleft()
                    assert c['in'][:36] == struct.pack('!I', wanted) + sha
                    assert c['in'][36:36 + wanted] == random.Random(wanted).randbytes(wanted)
                    del c['in'][:36 + wanted]
                    answers += 1
                if not c['wanted'] and not c['left']:
                    assert not c['in'] and not c['out']
                    events.unregister(s)
                    s.close()
                else:
                    more = c['out'] or (c['left'] and len(c['wanted']) < 4)
                    events.modify(s, selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0), c)
    print(answers, 'answers')

def send_by_turns(ends, names):
    # Only one send on each connection can be on its way.
    for parts in zip(*map(pieces, names)):
        for s, part in zip(ends, parts): s.sendall(part)

def ends(rounds=12):
    more = b''.join(b'%d\n' % n for n in range(20))
    for how in 'close', 'shutdown', 'sendmsg', 'thread', 'exit', '_exit', 'kill', 'exec':
        for n in range(rounds):
            names = [f'{how}{n}.{m}' for m in range(10)]
            connect_all = lambda: [connect('sink', name) for name in names]
            if how in ('close', 'shutdown', 'sendmsg', 'thread'):
                ends = connect_all()
                if how == 'thread':
                    thread = threading.Thread(target=send_by_turns, args=(ends, names))
                    thread.start()
                    thread.join()
                else: send_by_turns(ends, names)
                # The last one's comes last.
                for s in reversed(ends):
                    if how == 'sendmsg': assert s.sendmsg([more[:9], more[9:]]) == len(more)
                    if how == 'shutdown': s.shutdown(socket.SHUT_WR)
                    s.close()
            else:
                ends = connect_all() if n % 3 == 0 else []
                child = os.fork()
                if not child:
                    ends = ends or connect_all()
                    send_by_turns(ends, names)
                    if how == 'exit': sys.exit(0)
                    if how == '_exit': os._exit(0)
                    if how == 'kill': os.kill(os.getpid(), signal.SIGKILL)
                    ends[-1].setblocking(True)
                    os.dup2(ends[-1].fileno(), 1)
                    os.execv('/bin/sh', ['sh', '-c', 'i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); done'])
                for s in ends: s.close()
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert status == (-signal.SIGKILL if how == 'kill' else 0), status
            for name in names:
                last = how == 'sendmsg' or how == 'exec' and name == names[-1]
                expect(name, pieces(name) + [more] * last)
        print(how, 'loses nothing')

# Where each round is as the one before.
def few_ends(): ends(3)

def full():
    data = random.Random(2).randbytes(1 << 20)
    for buffer in 0, 8192:
        for size in 10, 100, 4080, 4081, 0:
            name = f'full{buffer}.{size}'
            s = connect('hold', name)
            if buffer: s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
            s.setblocking(False)
            poll = select.poll()
            poll.register(s, select.POLLOUT)
            total, sent = 0, hashlib.sha256()
            def send():
                nonlocal total
                at = total % 1_000_000
                piece = data[at:at + (size or total % 4096 + 1)]
                count = s.send(piece)
                assert count > 0
                sent.update(piece[:count])
                total += count
            while True:
                assert total < 1 << 26, 'never full'
                try: send()
                except BlockingIOError:
                    # The peer's kernel may have taken some meanwhile; then there is room indeed.
                    if not poll.poll(0): break
                    send()
            connect('go', name).close()
            for n in range(20):
                assert poll.poll(TIME * 1000) == [(s.fileno(), select.POLLOUT)]
                send()
            s.close()
            assert ask(name) == f'{total} {sent.hexdigest()}'
            print(buffer, size, 'full, and all arrives')

def reset():
    signals, broken = [], 0
    signal.signal(signal.SIGPIPE, lambda *_: signals.append(1))
    def error(s):
        try: s.send(b'more')
        except OSError as e: return errno.errorcode[e.errno]
    def has_ended(s, events):
        ready = events.poll(0)
        # There is no room as long as enough has not been acknowledged.
        if not ready and fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)) == bytes(4):
            ready = events.poll(0)
            assert ready, 'no room, and nothing is queued'
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in ready)
    other = connect('sink', 'other')
    other.setblocking(False)
    for how in 'ask', 'idle', 'send', 'poll', 'epoll', 'option':
        outcomes = set()
        for n in range(60):
            name = f'{how}{n}'
            s = connect('reset', name, 500 + 100 * n)
            s.setblocking(False)
            if how == 'epoll':
                events = select.epoll()
                events.register(s, select.EPOLLOUT)
            else:
                events = select.poll()
                events.register(s, select.POLLOUT)
            errors = []
            if how in ('ask', 'idle'):
                left = 500 + 100 * n
                while left: left -= s.send(bytes(min(left, 100)))
                if how == 'ask': assert ask(name) == 'reset'
                # What happens on another connection keeps it all awake.
                else:
                    while not has_ended(s, events):
                        try: other.send(b'x')
                        except BlockingIOError: pass
            else:
                for m in range(1_000_000):
                    ready = events.poll(TIME) if how == 'epoll' else events.poll(TIME * 1000)
                    assert ready
                    if how != 'send' and ready[0][1] & (select.POLLERR | select.POLLHUP): break
                    try: s.send(b'more')
                    except BlockingIOError: pass
                    except OSError as e:
                        errors.append(errno.errorcode[e.errno])
                        break
                else: assert False, 'it never ends'
            if how == 'option' and not errors:
                errors = [errno.errorcode[s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)]]
                assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            while len(errors) < 4: errors.append(error(s))
            outcomes.add(' '.join(map(str, errors)))
            broken += errors.count('EPIPE')
            if how == 'epoll': events.close()
            s.close()
        print(how, outcomes)
    print('each EPIPE has its signal:', len(signals) == broken)

def shared():
    for n in range(20):
        name = f'fork{n}'
        a, b, c = pieces(name + 'a'), pieces(name + 'b', 20), pieces(name + 'c', 20)
        s = connect('sink', name)
        send_all(s, a)
        child = os.fork()
        if not child:
            send_all(s, b)
            os._exit(0)
        os.waitpid(child, 0)
        send_all(s, c)
        s.close()
        expect(name, a + b + c)
    print('a child sends')
    # By turns.
    s = connect('sink', 'turns')
    sent = pieces('turns', 400)
    (r, w), (r2, w2) = os.pipe(), os.pipe()
    child = os.fork()
    for n in range(0, len(sent), 4):
        if child: send_all(s, sent[n:n + 2]); os.write(w, b'x'); assert os.read(r2, 1) == b'x'
        else: assert os.read(r, 1) == b'x'; send_all(s, sent[n + 2:n + 4]); os.write(w2, b'x')
    if not child: os._exit(0)
    os.waitpid(child, 0)
    s.close()
    expect('turns', sent)
    print('by turns')
    for n in range(20):
        name = f'dup{n}'
        sent = pieces(name, 80)
        s = connect('sink', name)
        send_all(s, sent[:40])
        other = s.dup()
        for m in range(40, 80): (s, other)[m % 2].sendall(sent[m])
        s.close()
        other.close()
        expect(name, sent)
    print('a duplicate sends')
    own, its = socket.socketpair()
    child = os.fork()
    if not child:
        own.close()
        for n in range(20):
            word, [fd], _, _ = socket.recv_fds(its, 1, 1)
            with socket.socket(fileno=fd) as s: send_all(s, pieces(f'rights{n}b', 20))
            its.sendall(b'x')
        os._exit(0)
    its.close()
    for n in range(20):
        name = f'rights{n}'
        a, b, c = pieces(name + 'a'), pieces(name + 'b', 20), pieces(name + 'c', 20)
        s = connect('sink', name)
        send_all(s, a)
        socket.send_fds(own, [b'x'], [s.fileno()])
        assert own.recv(1) == b'x'
        send_all(s, c)
        s.close()
        expect(name, a + b + c)
    os.waitpid(child, 0)
    print('the process that was given it sends')

def asked():
    for n in range(30):
        name = f'asked{n}'
        s = connect('sink', name)
        sent = pieces(name)
        count = 32
        for piece in sent:
            for m in range(3):
                s.sendall(piece)
                count += len(piece)
            left = array.array('i', [-1])
            fcntl.ioctl(s, termios.TIOCOUTQ, left)
            assert 0 <= left[0] <= count
            info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            [unsent] = struct.unpack_from('I', info, 144)
            out, again = struct.unpack_from('QQ', info, 200)
            assert out - again + unsent == count, (out, again, unsent, count)
        while left[0]: fcntl.ioctl(s, termios.TIOCOUTQ, left)
        send_all(s, sent)
        s.shutdown(socket.SHUT_WR)
        for m in range(3):
            try:
                s.send(b'more')
                assert False, 'sent'
            except BrokenPipeError: pass
        s.close()
        expect(name, [piece for piece in sent for m in range(3)] + sent)
    print('all is counted')

def mixed():
    with tempfile.TemporaryFile() as f:
        f.write(bytes(range(256)) * 100)
        f.flush()
        for n in range(20):
            name = f'mixed{n}'
            r = random.Random(name)
            s = connect('sink', name)
            s.setblocking(True)
            fd, sent = s.fileno(), []
            for piece in pieces(name, 200):
                # Some of each kind in a row, or no send would find known room.
                kind = r.randrange(8)
                if kind == 6: piece *= 20
                if kind == 7: piece = bytes(range(50))
                for m in range(3):
                    if kind < 2: s.send(piece)
                    elif kind == 2: os.write(fd, piece)
                    elif kind == 3: os.writev(fd, [piece[:1], piece[1:5], b'', piece[5:]])
                    elif kind == 4: s.sendmsg([piece[:3], piece[3:]])
                    elif kind == 5: s.send(piece, socket.MSG_MORE)
                    elif kind == 6: s.sendall(piece)
                    else: os.sendfile(fd, f.fileno(), 0, 50)
                    sent.append(piece)
                    s.send(b'')
                if r.randrange(9) == 0: select.select([], [s], [], TIME)
            s.close()
            expect(name, sent)
    print('in their order')

def victim():
    # When it is told to, the worker may look at nothing: what it leaves is found when it is dead.
    ends = [connect('sink', f'victim{sys.argv[4]}.{n}') for n in range(20)]
    with open(sys.argv[5], 'r+b') as f: word = mmap.mmap(f.fileno(), 1)
    os.write(1, b'sends\n')
    # All of these say what room there is, and no call from here on is trapped.
    for n in range(3):
        for s in ends: s.send(b'before')
    os.write(1, b'%d\n' % os.getpid())
    while word[0] == 0: pass
    for s in ends: s.send(b'left')
    os.kill(os.getpid(), signal.SIGKILL)

def buried():
    sent = b'before' * 3 + b'left'
    for n in range(20): assert ask(f'victim{sys.argv[4]}.{n}') == digest(sent), n

if __name__ == '__main__': globals()[sys.argv[1]]()
