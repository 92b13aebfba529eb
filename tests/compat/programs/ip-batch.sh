# ip -batch: a bridge, a veth pair, addresses, routes, rules and a tunnel of one machine; ss and nft have theirs.
# packages: iproute2 nftables python3
# says: here
# short

server() {
	exec python3 -c 'import signal, socket; socket.socket(); print("here", flush=True); signal.pause()'
}

client() {
	ip -batch - <<-END | sed 's/ uid .*//'
		link add br0 type bridge
		link add v0 type veth peer name v1
		link set v0 master br0
		link set br0 up
		link set v0 up
		address add 10.9.0.1/24 dev br0
		route add 10.10.0.0/16 via $SERVER metric 5
		route add table 7 default via $SERVER
		rule add from 10.9.0.1 table 7 pref 100
		neigh add 10.0.0.77 lladdr 02:00:00:00:00:77 dev eth0
		link add x0 type vxlan id 7 remote $SERVER local $CLIENT dstport 4789
		route show
		route show table 7
		rule show
		neigh show to 10.0.0.77
		route get 10.10.1.1
	END
	ss -Hltn | wc -l
	nft -f - <<-END
		table inet t { counter pings { }; }
		list ruleset
	END
}
