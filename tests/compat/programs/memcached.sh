# memcached: four threads; keys by the ASCII and the binary protocol, over TCP and UDP, 4,800 sets and gets, expiry, statistics.
# packages: memcached libmemcached-tools python3
# listens: tcp/11211 udp/11211

prepare() {
	data large 1
	head -c 1000000 large >value
	cat >talk.py <<-'END'
		import os, socket
		t = socket.create_connection((os.environ["SERVER"], 11211))
		t.sendall(b"set n 0 0 2\r\n41\r\nincr n 1\r\nget n\r\nset counter 0 0 1\r\n7\r\nset soon 0 -1 1\r\nx\r\nget soon\r\nget nothing\r\nquit\r\n")
		print(b"".join(iter(lambda: t.recv(4096), b"")).decode().split())
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		s.settimeout(10)
		for i in range(200):
		    s.sendto(i.to_bytes(2, "big") + bytes([0, 0, 0, 1, 0, 0]) + b"get counter\r\n", (os.environ["SERVER"], 11211))
		    answer = s.recv(2000)
		    assert answer[:2] == i.to_bytes(2, "big"), answer
		print(answer[8:].decode().split())
	END
}

server() {
	exec memcached -u "$(id -un)" -t 4 -U 11211 -m 64 -l 0.0.0.0,::
}

client() {
	servers=--servers=$SERVER:11211
	memccp "$servers" value
	memccat "$servers" value | head -c 1000000 | sum
	memcexist "$servers" value && memcrm "$servers" value
	memcexist "$servers" value || echo removed
	echo 41 >counter
	memccp "$servers" --binary counter
	python3 talk.py
	for test in set get mget; do
		memcslap "$servers" --test=$test --concurrency=8 --execute-number=200 --initial-load=200 --flush | grep -ciE 'error|fail' || true
	done
	memccapable -h "$SERVER" -a 2>&1 | grep -c pass
	memcstat "$servers" | grep -E 'cmd_touch|threads:'
}
