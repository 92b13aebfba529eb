# nmap: open, closed and filtered ports by connections, SYN and UDP; versions of services; the path; IPv6.
# packages: nmap nftables dnsmasq-base python3
# listens: tcp/8000

server() {
	if together; then
		dnsmasq -k -p 5353 -C /dev/null -h -u "$(id -un)" -g "$(id -gn)" -x '' --log-facility=- 2>dnsmasq.log &
		nft add table inet filter
		nft add chain inet filter input '{ type filter hook input priority 0; }'
		nft add rule inet filter input tcp dport 8003 drop
	fi
	exec python3 -u -m http.server --bind :: 8000
}

client() {
	scan() { nmap --datadir /usr/share/nmap -n -Pn --reason --max-retries 3 "$@" | sed -E '/^(Starting|Nmap done|Host is|Service detection|MAC|Not shown)/d; s/\(0\.[0-9]+s latency\)//; s/[0-9.]+ ms/ms/' | sed 's/ *$//'; }
	scan --unprivileged -sT -p 1-1000,8000-8010 "$SERVER"
	scan --unprivileged -sT -sV -p 8000 "$SERVER"
	scan --unprivileged -6 -sT -p 7999-8001 "$SERVER6"
	together || return 0
	scan --privileged -sS -p 1-1000,8000-8010 "$SERVER"
	scan --privileged -sU -sV -p 5353,5354 "$SERVER"
	scan --privileged -6 -sS -p 7999-8001 "$SERVER6"
	scan --privileged -sA -p 8000,8003 --traceroute "$SERVER"
	nmap --privileged -n -sn 10.0.0.0/29 -oG - | grep -o 'Host: .*Up'
}
