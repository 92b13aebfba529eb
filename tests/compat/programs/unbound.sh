# unbound: a local zone, and names that another server is asked for; dig and 1,200 queries, over UDP, TCP and TLS.
# packages: unbound dnsmasq-base dnsutils openssl python3
# listens: udp/5353 tcp/5353

prepare() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 30 -subj /CN=server 2>/dev/null
	chmod 644 key
	cat >unbound.conf <<-END
		server:
		    interface: 0.0.0.0@5353
		    interface: ::0@5353
		    interface: 0.0.0.0@5853
		    tls-port: 5853
		    tls-service-key: key
		    tls-service-pem: cert
		    access-control: 0.0.0.0/0 allow
		    access-control: ::0/0 allow
		    username: ""
		    chroot: ""
		    directory: "."
		    pidfile: ""
		    use-syslog: no
		    logfile: ""
		    num-threads: 2
		    module-config: "iterator"
		    do-not-query-localhost: no
		    private-domain: "asked.test"
		    local-zone: "test." transparent
		    local-zone: "known.test." static
		    local-data: "a.known.test. A 10.1.2.3"
		    local-data: "a.known.test. AAAA fd00::99"
		    local-data: "known.test. MX 10 mail.known.test."
		    local-data-ptr: "10.1.2.4 b.known.test"
		$(for i in $(seq 1 800); do echo "    local-data: 'n$i.known.test. A 10.1.$((i / 250)).$((i % 250))'"; done)
		$(for i in $(seq 1 60); do echo "    local-data: 'big.known.test. TXT \"this is text number $i of an answer\"'"; done)
		forward-zone:
		    name: "asked.test."
		    forward-addr: 10.0.0.1@5300
		remote-control:
		    control-enable: no
	END
	for i in $(seq 1 200); do echo "10.9.0.$i h$i.asked.test"; done >hosts
}

server() {
	exec unbound -d -c unbound.conf
}

client() {
	ask() { dig +noall +answer +comments -p 5353 "@$SERVER" "$@" | sed 's/, id: .*//; /^;; Got/d; s/\t/ /g; /COOKIE/d' | sort; }
	ask a.known.test A
	ask a.known.test AAAA +tcp
	ask a.known.test +tls -p 5853
	ask known.test MX
	ask -x 10.1.2.4
	ask big.known.test TXT | sum
	ask big.known.test TXT +ignore +notcp +bufsize=512
	ask nothing.known.test
	dig +short -p 5353 "@$SERVER6" a.known.test
	for i in $(seq 1 800); do echo "n$i.known.test"; done >names
	dig +short -p 5353 "@$SERVER" -f names | sort | sum
	head -100 names >some
	dig +short +tcp +keepopen -p 5353 "@$SERVER" -f some | sort | sum
	together || return 0
	dnsmasq -k -p 5300 -C /dev/null -h -H hosts -R -u "$(id -un)" -g "$(id -gn)" -x '' --log-facility=- 2>dnsmasq.log &
	eventually dig +short +tries=1 +time=1 -p 5300 @127.0.0.1 h1.asked.test >first
	for i in $(seq 1 100); do echo "h$i.asked.test"; done >names
	dig +short -p 5353 "@$SERVER" -f names | sort | sum
	kill %1
}
