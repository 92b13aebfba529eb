# wget: a recursive download, a resumed one and one that is not there, from Python's http.server.
# packages: wget python3
# listens: tcp/8000
# short

prepare() {
	mkdir -p site/deeper
	data site/deeper/file 3
	echo '<a href="deeper/page.html">deeper</a>' >site/index.html
	echo '<a href="file">file</a> <a href="../index.html">back</a>' >site/deeper/page.html
}

server() {
	exec python3 -u -m http.server --directory site 8000
}

client() {
	wget -q -r "http://$SERVER:8000/index.html" -P all
	(cd all/* && find . -type f | sort | xargs sha256sum)
	head -c 1000000 site/deeper/file >file
	wget -q -c "http://$SERVER:8000/deeper/file"
	wget -nv -S --spider "http://$SERVER:8000/deeper/file" 2>&1 | grep Content-Length
	wget -q "http://$SERVER:8000/nothing" || echo "status $?"
}
