# What the programs of tests/compat/programs may use: a command of the suite, and three words.
# $SERVER $SERVER6 $CLIENT $CLIENT6 are the ends' addresses; the current folder is shared by both ends, and
# by nothing else. What client() prints is compared, so no times, ports or process ids.

PROGRAM=$1
COMMAND=$2

# data NAME MEGABYTES: a file that is the same in every run.
data() {
	seq 1 $(($2 * 150000)) | head -c "$2M" >"$1" || true
}

# sum [FILE...]: checksums, of standard input if there is no file.
sum() {
	sha256sum "$@"
}

# eventually COMMAND...: until it succeeds. The suite ends it if that takes too long.
eventually() {
	until "$@"; do
		sleep 0.05
	done
}

# Whether several programs can be at one end at the same time.
together() {
	test -z "${ALONE-}"
}

# Makes what both ends start with; on the host, before anything else, once for all runs.
prepare() {
	:
}

. "./$PROGRAM.sh"
"$COMMAND"
