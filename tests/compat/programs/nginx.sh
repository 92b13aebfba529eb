# nginx: three workers, sendfile, keep-alive, ranges, gzip, a proxy, reload and a graceful end; load by wrk.
# packages: nginx-light curl wrk
# listens: tcp/8080 tcp/8081

prepare() {
	mkdir html logs
	mkfifo reload
	data html/file 8
	echo small >html/small
	cat >nginx.conf <<-END
		include processes;
		daemon off;
		pid nginx.pid;
		error_log logs/error.log;
		events {}
		http {
			sendfile on;
			tcp_nopush on;
			keepalive_timeout 65;
			gzip_types *;
			access_log logs/access.log;
			client_body_temp_path body;
			proxy_temp_path proxy;
			fastcgi_temp_path fastcgi;
			uwsgi_temp_path uwsgi;
			scgi_temp_path scgi;
			server { listen 8080; listen [::]:8080; root html; location /gzip { gzip on; alias html/file; } }
			server { listen 8081; location / { proxy_pass http://127.0.0.1:8080; } }
		}
	END
}

server() {
	if together; then
		echo 'worker_processes 3;' >processes
		# The client's machine may have numbers of processes of its own.
		{ read -r <reload && kill -HUP $$; } &
	else
		echo 'master_process off;' >processes
	fi
	exec nginx -p . -c nginx.conf -e logs/error.log
}

client() {
	url=http://$SERVER:8080
	curl -sSf "$url/file" "http://[$SERVER6]:8080/file" | sum
	curl -sSf "http://$SERVER:8081/file" | sum
	curl -sSf -r 1000-2000999 "$url/file" | sum
	curl -sSf --compressed "$url/gzip" | sum
	for _ in 1 2 3 4 5 6 7 8; do
		curl -sSf "$url/file" "$url/small" "$url/file" | sum &
		together || wait
	done
	wait
	wrk -c 20 -t 2 -d 1 "$url/small" | grep -ciE 'non-2xx|socket errors' || true
	if together; then echo >reload; fi
	curl -sSf "$url/small" "$url/small"
	grep -cE 'alert|emerg|crit' logs/error.log || true
}
