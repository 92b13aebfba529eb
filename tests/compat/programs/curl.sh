# curl: HTTP files, headers, several URLs at once and refusals, from Python's http.server, IPv4 and IPv6.
# packages: curl python3
# listens: tcp/8000
# short

prepare() {
	data file 5
}

server() {
	exec python3 -u -m http.server --bind :: 8000
}

client() {
	curl -sSf "http://$SERVER:8000/file" | sum
	curl -sSf "http://[$SERVER6]:8000/file" | sum
	curl -sSfI "http://$SERVER:8000/file" | grep -i content-length
	curl -sSfZ "http://$SERVER:8000/{file,curl.sh,prelude.sh}" -o 'got-#1'
	sum got-*
	curl -sS -o /dev/null -w '%{http_code}\n' "http://$SERVER:8000/nothing"
	curl -sS "http://$SERVER:9/" || echo "refused: $?"
}
