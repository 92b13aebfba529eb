# PostgreSQL: initdb, COPY, notifications, pgbench, a base backup that goes on as a replica.
# packages: postgresql
# listens: tcp/5432
# not in-process: it forks for each connection

# What root's PostgreSQL runs as, for it refuses to be root.
postgres() {
	PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
	test "$(id -u)" != 0 || set -- setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
	LC_ALL=C HOME=$PWD exec "$@"
}

prepare() {
	mkdir -m 777 first second
	seq 1 200000 | awk '{printf "%d\t%d\tnumber %d\n", $1, $1 * $1, $1}' >rows
}

server() {
	(postgres initdb -D first/data -U postgres -A trust --no-sync) >/dev/null
	echo 'host all,replication all samenet trust' >>first/data/pg_hba.conf
	postgres postgres -D first/data -k '' -h '*' -c fsync=off
}

client() {
	export PGHOST=$SERVER PGUSER=postgres
	sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
	sql -c 'create table squares (n int primary key, square bigint, name text)' -c '\copy squares from rows'
	sql -c 'select sum(square), count(*) from squares' -c '\copy squares to stdout' | sum
	sql -h "$SERVER6" -c 'listen news' -c "notify news, 'hello'" | sed 's/PID.*//'
	(postgres pgbench -qi -s 2) 2>/dev/null
	(postgres pgbench -nc 8 -t 50) | grep -E 'number of (trans|failed)'
	(postgres pgbench -nSc 8 -j 2 -t 500 -M prepared) | grep -E 'number of (trans|failed)'
	(postgres pg_basebackup -D second/data -X stream -R -c fast --no-sync)
	(postgres postgres -D second/data -k '' -h 127.0.0.1 -p 5433 2>replica.log) &
	there() { test "$(sql -h 127.0.0.1 -p 5433 -c "$1" 2>/dev/null)" = "$2"; }
	sql -c "insert into squares values (0, 0, 'later')"
	eventually there 'select name from squares where n = 0' later
	sql -h 127.0.0.1 -p 5433 -c 'select sum(square) from squares; delete from squares' 2>&1 || echo "status $?"
	kill %1
	wait || true
}
