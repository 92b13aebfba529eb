# A tokio server and its clients, of three threads each: 200 connections with 50 messages of 1 to 5,000 bytes, in one process and in two.
# listens: tcp/8080

prepare() {
	export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-/tmp/vink-compat-tokio-$(id -u)}/tokio
	cargo build --quiet --release --locked
	cp "$CARGO_TARGET_DIR/release/tokio-echo" .
}

server() {
	exec ./tokio-echo serve "[::]:8080"
}

client() {
	./tokio-echo both
	./tokio-echo fetch "$SERVER:8080"
	./tokio-echo fetch "[$SERVER6]:8080"
}
