# Go gRPC: calls of all kinds on one connection, 20 at once each, cancelled and late ones, 2,000 one after the other.
# packages: golang-go
# listens: tcp/8080
# not in-process: a static program, and one of Go

prepare() {
	export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOCACHE=${XDG_CACHE_HOME:-/tmp/vink-compat-go-$(id -u)}
	go build -o grpc .
}

server() {
	exec ./grpc serve :8080
}

client() {
	./grpc call "$SERVER:8080"
	./grpc call "[$SERVER6]:8080"
}
