# dnsmasq answers dig: UDP and TCP, A, AAAA, MX, TXT, PTR, a big answer that is truncated, 100 in a row.
# packages: dnsmasq-base dnsutils
# listens: udp/5353 tcp/5353

prepare() {
	{
		for i in $(seq 1 60); do echo "txt-record=big.test,this is text number $i of an answer that is long"; done
		echo 'mx-host=a.test,mail.a.test,10'
		echo 'cname=alias.test,a.test'
	} >dnsmasq.conf
	printf '10.1.2.3 a.test\nfd00::99 a.test\n10.1.2.4 b.test\n' >hosts
}

server() {
	# With -d, no forks for TCP.
	exec dnsmasq $(together && echo -k || echo -d) -p 5353 -C dnsmasq.conf -h -H hosts -R -u "$(id -un)" -g "$(id -gn)" -x '' --log-facility=- -q
}

client() {
	ask() { dig +noall +answer +comments -p 5353 "@$SERVER" "$@" | sed 's/, id: .*//; /^;; Got/d; s/\t/ /g; /COOKIE/d' | sort; }
	ask a.test A
	ask a.test AAAA +tcp
	ask alias.test
	ask a.test MX
	ask -x 10.1.2.4
	ask big.test TXT | sum
	ask big.test TXT +ignore +notcp +bufsize=512
	ask nothing.test
	dig +short -p 5353 "@$SERVER6" b.test
	for _ in $(seq 1 100); do echo a.test; done >names
	dig +short -p 5353 "@$SERVER" -f names | sort | uniq -c
}
