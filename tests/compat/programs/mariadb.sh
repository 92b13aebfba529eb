# MariaDB: a server of many threads; rows in and out, blobs, a transaction that waits for another, 4,000 queries by mysqlslap.
# packages: mariadb-server-core mariadb-client-core mariadb-client
# listens: tcp/3306
# reads the time stamp counter

prepare() {
	mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db --datadir="$PWD/data" --user="$(id -un)" >/dev/null
	mariadbd --no-defaults --user="$(id -un)" --bootstrap --datadir="$PWD/data" <<-END
		create database work;
		flush privileges;
		create user visitor@'%';
		grant all on work.* to visitor@'%';
	END
	seq 1 100000 | awk '{printf "%d\t%d\tnumber %d\n", $1, $1 * $1, $1}' >squares
}

server() {
	exec mariadbd --no-defaults --user="$(id -un)" --datadir="$PWD/data" --socket="$PWD/socket" --pid-file="$PWD/pid" \
		--bind-address='*' --innodb-buffer-pool-size=32M --skip-name-resolve --tmpdir="$PWD" --innodb-flush-log-at-trx-commit=0
}

client() {
	options=(--no-defaults --skip-ssl -u visitor -h "$SERVER" --local-infile)
	sql() { mariadb "${options[@]}" -N work "$@"; }
	sql -e 'create table squares (n int primary key, square bigint, name text)'
	sql -e "load data local infile 'squares' into table squares; select sum(square), count(*) from squares"
	sql -q -e 'select * from squares order by n' | sum
	sql -e "set @b = repeat('blob', 1000000); select length(@b), md5(@b)"
	sql -h "$SERVER6" -e 'select name from squares where n = 77'
	mariadb-slap --no-defaults --skip-ssl -u visitor -h "$SERVER" --create-schema=work --no-drop -q 'select * from squares where n = 5' \
		-c 10 --number-of-queries 4000 | grep -E 'Number of clients|queries per'
	if together; then
		sql -n -e "start transaction; update squares set name = 'first' where n = 1; select 'locked'; select sleep(1); commit" >held &
		eventually grep -q locked held
		sql -e "update squares set name = concat(name, ' second') where n = 1; select name from squares where n = 1"
		wait
	fi
	sql -e 'select * from nothing' 2>&1 || echo "status $?"
}
