# Java: com.sun.net.httpserver and java.net.http, a thread pool and asynchronous requests, from single source files.
# packages: default-jdk-headless
# listens: tcp/8080

prepare() {
	data file 2
}

server() {
	exec java -XX:-UsePerfData Server.java
}

client() {
	java -XX:-UsePerfData Client.java "http://$SERVER:8080" | sort | uniq -c
}
