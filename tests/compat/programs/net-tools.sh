# ifconfig, route, arp and netstat of net-tools, which use ioctls and /proc/net.
# packages: net-tools iputils-ping socat
# listens: tcp/7000
# not in-process: each program would be a machine of its own

server() {
	exec socat -t 20 TCP-LISTEN:7000,fork,reuseaddr EXEC:cat
}

client() {
	ifconfig eth0 | grep -oE 'inet6? (10|fd)[^ ]*|mtu [0-9]*'
	ifconfig lo | grep -oE 'inet6? [^ ]*|mtu [0-9]*'
	ifconfig eth0:1 10.5.0.1 netmask 255.255.0.0
	ifconfig eth0 mtu 1400
	ifconfig eth0 | grep -o 'mtu [0-9]*'
	route add -net 10.6.0.0/16 gw 10.5.0.2
	route add default gw "$SERVER"
	route -n
	route -A inet6 -n | grep -c '^fd00::'
	ping -q -c 1 "$SERVER" >/dev/null
	arp -n "$SERVER" | grep -oE '^10[^ ]* *ether'
	arp -s 10.0.0.50 02:00:00:00:00:50
	arp -an | grep -o '10.0.0.50.*PERM.*'
	arp -d 10.0.0.50
	socat -t 20 TCP-LISTEN:9000,reuseaddr EXEC:cat &
	listens() { netstat -ltn | grep :9000; }
	eventually listens
	netstat -rn | tail -n +3
	netstat -i | awk '{ print $1, $2 }'
	netstat -s | grep -E 'requests received|total packets received' | sed 's/[0-9]* //'
	kill %1
}
