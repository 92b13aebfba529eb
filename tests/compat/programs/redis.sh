# redis: redis-cli (pipe, publish, blocking pop, background save, Lua) and redis-benchmark, with and without pipelining.
# packages: redis-server redis-tools
# listens: tcp/6379
# short

server() {
	exec redis-server --protected-mode no --save '' --appendonly yes
}

client() {
	redis() { redis-cli -h "$SERVER" "$@"; }
	redis set key value
	redis get key
	seq 1 5000 | sed 's/.*/RPUSH list &/' | redis --pipe | tail -1
	redis lrange list 0 -1 | sum
	redis eval 'return redis.call("llen", KEYS[1]) * 2' 1 list
	data blob 2
	redis -x set blob <blob
	redis get blob | head -c 2097152 | sum
	if together; then
		redis-cli -h "$SERVER" --csv subscribe news >news &
		subscriber=$!
		eventually grep -q subscribe news
		redis publish news hello
		eventually grep hello news
		kill $subscriber
		redis blpop empty 0 >popped &
		waiting=$!
		waits() { redis info clients | grep -c blocked_clients:1 >/dev/null; }
		eventually waits
		redis rpush empty something
		wait $waiting
		cat popped
	fi
	redis bgsave
	redis-benchmark -h "$SERVER" -q -n 3000 -c 20 -t set,get,lpush,mset | grep -c 'requests per second'
	redis-benchmark -h "$SERVER" -q -n 20000 -P 16 -t get | grep -c 'requests per second'
}
