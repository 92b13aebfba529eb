# HAProxy: in front of two servers with health checks, of which one ends; ab, TCP mode, its own files and statistics.
# packages: haproxy apache2-utils curl python3
# listens: tcp/8080 tcp/8081

prepare() {
	data file 3
	mkfifo end
	echo small >small
	cat >haproxy.conf <<-END
		global
		    nbthread 2
		defaults
		    mode http
		    timeout connect 5s
		    timeout client 20s
		    timeout server 20s
		    timeout check 10s
		    option redispatch
		frontend web
		    bind :::8080 v4v6
		    http-request return status 200 content-type text/plain file small if { path /own }
		    http-response set-header x-server %s
		    stats enable
		    stats uri /statistics
		    default_backend files
		listen plain
		    mode tcp
		    bind :8081
		    server one 127.0.0.1:8001
		backend files
		    balance roundrobin
		    option httpchk HEAD /small
		    default-server check inter 500ms fall 2 rise 1
		    server one 127.0.0.1:8001
		    server two 127.0.0.1:8002
	END
}

server() {
	if together; then
		python3 -m http.server 8001 2>/dev/null >&2 &
		python3 -m http.server 8002 2>/dev/null >&2 &
		{ read -r <end && kill $!; } &
	fi
	exec haproxy -f haproxy.conf
}

client() {
	url=http://$SERVER:8080
	curl -sSf "$url/own" "http://[$SERVER6]:8080/own" | sum
	load() { ab -q -n "$1" -c 20 "$2" | grep -E '^ *(Complete|Failed|Non-2xx|.Connect)'; }
	load 1000 "$url/own"
	curl -sSf "$url/statistics;csv" | grep -c '^files,'
	together || return 0
	served() { for _ in 1 2 3 4 5 6; do curl -sSf -o /dev/null -D - "$url/small" | grep -i x-server; done | tr -d '\r' | sort | uniq -c; }
	both() { served | grep -q one && served | grep -q two; }
	eventually both
	served
	load 1000 "$url/small"
	load 100 "$url/file"
	curl -sSf "http://$SERVER:8081/file" "$url/file" | sum
	echo >end
	lonely() { served | grep -q '6 x-server: one'; }
	eventually lonely
	load 300 "$url/small"
}
