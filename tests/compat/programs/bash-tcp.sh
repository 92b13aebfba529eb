# bash: its own /dev/tcp and /dev/udp, descriptors moved between numbers and inherited by what it starts.
# packages: socat
# listens: tcp/7000 udp/7001
# not in-process: bash's children use its sockets; see bash-socket
# short

server() {
	socat -t 20 UDP-LISTEN:7001,fork EXEC:'sed -u s/^/back=/' &
	exec socat -t 20 TCP-LISTEN:7000,fork,reuseaddr EXEC:'bash echo.sh'
}

prepare() {
	cat >echo.sh <<-'END'
		while read -r line; do
			echo "you said: $line"
			test "$line" != bye || exit 0
		done
	END
}

client() {
	exec 3<>"/dev/tcp/$SERVER/7000"
	echo hello >&3
	read -r answer <&3
	echo "$answer"
	exec 9>&3 3<&-
	seq 1 1000 >&9
	echo bye >&9
	cat <&9 | sum
	exec 9>&-
	(echo hello >"/dev/tcp/$SERVER/9") 2>/dev/null || echo refused
	exec 4<>"/dev/udp/$SERVER/7001"
	echo datagram >&4
	head -c 14 <&4
}
