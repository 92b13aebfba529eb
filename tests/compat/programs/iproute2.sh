# ip, ss, tc, nft, bridge: addresses, routes, rules, a tunnel, a bridge, shaping, a firewall that counts and rejects.
# packages: iproute2 nftables iputils-ping curl socat
# listens: tcp/7000
# not in-process: each ip would be a machine of its own; see ip-batch
# short

server() {
	exec socat -t 20 TCP-LISTEN:7000,fork,reuseaddr EXEC:cat
}

client() {
	ip link add br0 type bridge
	ip link add v0 type veth peer name v1
	ip link set v0 master br0
	ip link set br0 up
	ip link set v0 up
	bridge fdb add 02:00:00:00:00:01 dev v0 master
	bridge -d link show dev v0 | grep -o 'master br0 state [a-z]*'
	bridge fdb show dev v0 | grep -o 02:00:00:00:00:01 | head -1
	ip -br link show type bridge | awk '{ print $1 }'
	ip link add x0 type vxlan id 7 remote "$SERVER" local "$CLIENT" dstport 4789
	ip -d link show x0 | grep -o 'vxlan id 7 remote .* local [0-9.]*'
	ip address add 10.9.0.1/24 dev br0
	ip route add 10.10.0.0/16 via "$SERVER" metric 5
	ip route add table 7 default via "$SERVER"
	ip rule add from 10.9.0.1 table 7 pref 100
	ip route show
	ip route show table 7
	ip rule show
	ip route get 10.10.1.1 | head -1 | sed 's/ uid.*//'
	ip -j address show dev eth0 | grep -o '"local":"[^"]*"' | grep -v fe80
	ip neigh add 10.0.0.77 lladdr 02:00:00:00:00:77 dev eth0
	ip neigh show to 10.0.0.77
	tc qdisc add dev eth0 root handle 1: htb default 10
	tc class add dev eth0 parent 1: classid 1:10 htb rate 100mbit
	tc qdisc add dev eth0 parent 1:10 handle 10: pfifo limit 50
	tc filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.0.0.9/32 flowid 1:10
	# (IPv6 may have sent something before there was a class.)
	tc qdisc show dev eth0 | sed 's/refcnt [0-9]* //; s/direct_packets_stat [0-9]* //'
	tc class show dev eth0
	tc filter show dev eth0 | grep -c match
	head -c 100000 /dev/zero | socat -t 5 - "TCP:$SERVER:7000" | sum
	nft -f - <<-END
		table inet t {
			counter pings { }
			chain out {
				type filter hook output priority 0;
				ip daddr $SERVER icmp type echo-request counter name pings
				tcp dport 7000 reject with tcp reset
			}
		}
	END
	ping -q -c 2 -i 0.1 "$SERVER" | grep received | cut -d, -f1-3
	nft list counter inet t pings
	{ socat - "TCP:$SERVER:7000" </dev/null 2>&1 || true; } | grep -o 'Connection refused'
	nft flush ruleset
	sleep 60 | socat - "TCP:$SERVER:7000" &
	established() { ss -Htn state established dst "$SERVER" | awk '{ print $4 }' | grep .; }
	eventually established
	ss -tnO state established dst "$SERVER" -i | grep -co 'rtt:[0-9]'
	kill %1 2>/dev/null || true
}
