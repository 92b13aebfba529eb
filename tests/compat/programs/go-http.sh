# A static Go binary: HTTP server and client, 20 goroutines, files by sendfile, uploads, a deadline that passes.
# packages: golang-go
# listens: tcp/8080
# not in-process: a static program, and one of Go

prepare() {
	export CGO_ENABLED=0 GOFLAGS=-mod=mod GO111MODULE=off GOCACHE=${XDG_CACHE_HOME:-/tmp/vink-compat-go-$(id -u)}
	go build -o http main.go
	data file 4
}

server() {
	exec ./http serve :8080
}

client() {
	./http fetch "$SERVER:8080" | sort | uniq -c
	./http fetch "[$SERVER6]:8080" | sort | uniq -c
}
