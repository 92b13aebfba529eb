# rsync: a tree from and to a daemon and over a remote shell, what has changed of a file, links, deletions, compression.
# packages: rsync socat
# listens: tcp/8730 tcp/8731
# not in-process: it forks, and so does the remote shell

prepare() {
	mkdir -p tree/a/b tree/c got
	data tree/large 8
	for i in $(seq 1 300); do echo "file $i" >"tree/a/b/$i"; done
	ln tree/a/b/1 tree/c/hard
	ln -s ../large tree/c/soft
	printf 'use chroot = no\n[tree]\npath = tree\n[inbox]\npath = inbox\nread only = no\n' >rsyncd.conf
	printf 'read -r command\nexec $command\n' >remote
	# When the remote one ends, so does this one.
	printf 'exec 3<>"/dev/tcp/$SERVER/8731"\nshift\necho "$*" >&3\ncat <&0 >&3 &\ncat <&3\nkill $!\n' >shell
	mkdir inbox
}

server() {
	socat -t 20 TCP-LISTEN:8731,fork,reuseaddr EXEC:'bash remote' &
	test "$(id -u)" != 0 || printf 'uid = 0\ngid = 0\n' | cat - rsyncd.conf >root.conf
	exec rsync --daemon --no-detach --port 8730 --config "$(ls root.conf 2>/dev/null || echo rsyncd.conf)"
}

client() {
	known() { grep -E '^(Number of (regular|deleted)|Total file|Literal|Matched)|^[<>ch.*][fdLh.d]'; }
	listed() { (cd "$1" && find . -printf '%p %y %n %m %l\n' | LC_ALL=C sort | sum && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sum); }
	rsync "rsync://$SERVER:8730/" | sort
	rsync -aH --stats "rsync://$SERVER:8730/tree/" got | known
	listed got
	seq 1 20000 | cat - tree/large >changed && mv changed got/large && rm got/a/b/7
	rsync -aHzi --stats --no-t --delete got/ "rsync://[$SERVER6]:8730/inbox" | known | sum
	listed inbox
	rsync -aH --stats --no-whole-file --checksum --bwlimit 100m -e 'bash shell' "$SERVER:tree/" got | known
	listed got
	rsync -a -e 'bash shell' got/c "$SERVER:inbox/again"
	listed inbox/again
	rsync "rsync://$SERVER:8730/nothing" 2>&1 || echo "status $?"
}
