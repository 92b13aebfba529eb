# BIRD2: OSPF, BGP over IPv4 and IPv6, and BFD between two routers; the kernel's routes, a withdrawn one, the end of a session.
# packages: bird2 iproute2
# listens: tcp/179

prepare() {
	for end in server client; do
		test $end = server && me=2 other=1 || me=1 other=2
		cat >$end.conf <<-END
			log stderr all;
			router id 10.0.0.$me;
			protocol device { scan time 1; }
			protocol direct { ipv4; ipv6; interface "dummy*"; }
			protocol kernel { ipv4 { export all; }; learn off; }
			protocol kernel { ipv6 { export all; }; }
			protocol static net4 { ipv4; route 10.$me.0.0/16 unreachable; $(for i in $(seq 1 200); do echo "route 172.16.$i.$me/32 unreachable;"; done) }
			protocol static net6 { ipv6; route fd0$me::/32 unreachable; }
			protocol static inner { ipv4; route 192.168.$me.0/24 unreachable; }
			protocol bfd { interface "eth0" { min rx interval 300 ms; min tx interval 300 ms; multiplier 10; }; }
			protocol ospf v2 inside {
			    ipv4 { export where proto = "inner"; };
			    area 0 { interface "eth0" { hello 1; dead 10; type ptp; }; };
			}
			protocol bgp outside {
			    local 10.0.0.$me as 6500$me;
			    neighbor 10.0.0.$other as 6500$other;
			    bfd on;
			    ipv4 { import all; export where proto = "net4"; };
			    connect delay time 1; connect retry time 1; error wait time 1, 2;
			}
			protocol bgp outside6 {
			    local fd00::$me as 6500$me;
			    neighbor fd00::$other as 6500$other;
			    ipv6 { import all; export where proto = "net6"; };
			    connect delay time 1; connect retry time 1; error wait time 1, 2;
			}
		END
	done
	sed -i 's/; learn off//' *.conf
}

server() {
	exec bird -f -c server.conf -s server.ctl
}

client() {
	bird -f -c client.conf -s client.ctl 2>client.log &
	birdc() { command birdc -s "$@"; }
	up() { birdc client.ctl show protocols | grep -E "^$1 .*(Established|Running)" >up; }
	for protocol in outside outside6 inside; do eventually up $protocol; done
	fast() { birdc client.ctl show bfd sessions | grep -q " Up "; }
	eventually fast
	has() { birdc client.ctl show route "$1" | grep -q "$2"; }
	eventually has 10.2.0.0/16 'via 10.0.0.2'
	eventually has fd02::/32 'via fd00::2'
	eventually has 192.168.2.0/24 'via 10.0.0.2'
	birdc client.ctl show route protocol outside | grep -c 'unicast \['
	birdc client.ctl show route for 172.16.7.2 | sed 's/\[.*\]//; s/ *$//' | tail -n +3
	if together; then
		ip route show table main | grep -v 172.16. | sed "s, *$,," | sort
		ip route | sort | sed 's/ metric.*//; s/ *$//' | sum
		ip -6 route show fd02::/32
		ip route get 10.2.3.4 | sed 's/ uid.*//; s/cache//'
	fi
	birdc server.ctl disable net6 | tail -n +2
	gone() { ! has fd02::/32 via; }
	eventually gone
	birdc server.ctl down | tail -n +2
	lost() { ! has 10.2.0.0/16 via && ! has 192.168.2.0/24 via; }
	eventually lost
	kill %1
	wait || true
	echo lost
}
