# OpenSSH: sshd on its own port, logins with a key, a terminal, scp, sftp, forwarded ports, a shared connection.
# packages: openssh-server openssh-client
# listens: tcp/2222
# not in-process: sshd forks for each connection

prepare() {
	data file 5
	ssh-keygen -q -t ed25519 -N '' -f key
	ssh-keygen -q -t ed25519 -N '' -f host_key
	# Where sshd has its privilege separation: an empty folder that Debian's service makes as well.
	test "$(id -u)" != 0 || mkdir -p /run/sshd
}

server() {
	if [ "$(id -u)" != 0 ]; then
		# It has no shell, and its password is locked, which only PAM does not mind.
		for_nobody=$'ForceCommand internal-sftp\nUsePAM yes'
	fi
	cat >sshd_config <<-END
		Port 2222
		HostKey $PWD/host_key
		AuthorizedKeysFile $PWD/key.pub
		PidFile none
		StrictModes no
		PasswordAuthentication no
		PermitRootLogin yes
		# The host's has the logins of earlier runs.
		PrintLastLog no
		Subsystem sftp internal-sftp
		${for_nobody-UsePAM no}
	END
	exec /usr/sbin/sshd -D -e -f "$PWD/sshd_config"
}

client() {
	cat >config <<-END
		Host server
		HostName $SERVER
		Port 2222
		User $(id -un)
		IdentityFile $PWD/key
		BatchMode yes
		StrictHostKeyChecking no
		UserKnownHostsFile $PWD/known
		LogLevel ERROR
		ControlPath $PWD/control
	END
	ssh() { command ssh -F config "$@"; }
	scp -q -F config "server:$PWD/file" copy
	scp -q -F config copy "server:$PWD/copy2"
	sum copy copy2
	echo "ls $PWD/file" | sftp -q -b - -F config server | sed "s:$PWD::; s: *$::"
	[ "$(id -u)" = 0 ] || return 0
	ssh server 'id; seq 1 100000 | sha256sum; echo $SSH_CONNECTION | cut -d" " -f1; exit 7' || echo "status $?"
	ssh server sha256sum <file
	ssh -tt server 'tty >/dev/null && echo a terminal' </dev/null
	ssh -M -f -N -L "9000:$SERVER:2222" server
	ssh -S none -p 9000 -o HostName=127.0.0.1 server echo forwarded
	ssh server echo shared
	ssh -O exit server 2>&1
}
