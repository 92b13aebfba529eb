# keepalived: VRRP over IPv4 and IPv6, the owner of the addresses, one router's end and return, a track script, gratuitous ARP.
# packages: keepalived iproute2 iputils-ping
# says: Entering MASTER
# not in-process: it starts a process for VRRP

prepare() {
	cp "$(command -v ping)" .
	mkfifo end
	for end in server client; do
		test $end = server && priority=150 || priority=100
		cat >$end.conf <<-END
			global_defs { router_id $end }
			vrrp_instance four {
			    interface eth0
			    state BACKUP
			    virtual_router_id 7
			    priority $priority
			    advert_int 0.2
			    virtual_ipaddress { 10.0.0.100/24 }
			}
			vrrp_instance six {
			    interface eth0
			    state BACKUP
			    virtual_router_id 8
			    priority $priority
			    advert_int 0.2
			    virtual_ipaddress { fe80::100/64
			        fd00::100/64 }
			}
		END
	done
}

server() {
	run() { exec keepalived -nlDR -f "$1.conf" -p "$1.pid" -r "$1.vrrp.pid" -c "$1.check.pid"; }
	run server &
	read -r <end
	kill %1
	wait || true
	exec sleep 60
}

client() {
	ping() { ./ping -q -c 1 -W 1 "$@" >/dev/null; }
	keepalived -nlDR -f client.conf -p client.pid -r client.vrrp.pid -c client.check.pid >client.log 2>&1 &
	eventually grep -q 'Entering BACKUP' client.log
	here() { ip address show eth0 | grep -oE 'inet6? (10.0.0.100|fd00::100)/[0-9]*' | sort; }
	eventually ping 10.0.0.100
	eventually ping fd00::100
	here || echo not here
	echo >end
	both() { test "$(here | wc -l)" = 2; }
	eventually both
	here
	ping 10.0.0.100 && echo answers
	kill %1
	wait || true
	here || echo gone
}
