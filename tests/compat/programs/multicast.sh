# Multicast over IPv4 and IPv6: joining by interface, source filters, loopback off and on, hop limits, leaving.
# packages: python3
# says: joined
# short

server() {
	exec python3 multicast.py receive
}

client() {
	if together; then ip route add 239.0.0.0/8 dev eth0; else export VINK_GATEWAY=$SERVER; fi
	python3 multicast.py send
	eventually grep -q end received
	cat received
}
