//! What programs in virtual time find when they start, and of chance: the same in each run.

use std::cell::Cell;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use vink_kernel::Clock;
use vink_sys::process::is_root;
use vink_sys::rustix::time::{clock_gettime, ClockId};
use vink_trap::{NamespaceConfig, Status, VirtualTime};

use crate::built::Built;
use crate::lab::{as_both, Lab};

/// The output of something, which must be the same on a second machine started afresh.
fn repeats(run: impl Fn(&mut Lab) -> String) -> String {
    let once = || {
        let mut lab = Lab::on(Clock::Virtual);
        run(&mut lab)
    };
    let (first, second) = (once(), once());
    assert_eq!(first, second);
    first
}

/// Everything that the C library and the kernel tell a program without being asked, and more.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int global;

static void tell(const char *name)
{
	struct timespec ts;
	struct timeval tv;
	unsigned char bytes[40];
	unsigned cpu = 9, node = 9;
	struct sysinfo info;
	struct rusage usage;
	struct tms tms;
	int local;
	uint64_t canary;

	__asm__("mov %%fs:0x28, %0" : "=r"(canary));
	printf("%s: pid %d parent %d\n", name, getpid(), getppid());
	printf("addresses %p %p %p %p\n", &local, &global, malloc(100), (void *)printf);
	printf("canary %016lx\n", canary);
	for (int i = 0; i < 16; i++)
		printf("%02x", ((unsigned char *)getauxval(AT_RANDOM))[i]);
	printf("\nvdso %lx\n", getauxval(AT_SYSINFO_EHDR));
	for (int clock = 0; clock < 8; clock++)
		if (!clock_gettime(clock, &ts))
			printf("clock %d: %ld.%09ld\n", clock, ts.tv_sec, ts.tv_nsec);
	gettimeofday(&tv, NULL);
	printf("day %ld.%06ld %ld\n", tv.tv_sec, tv.tv_usec, time(NULL));
	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return;
	for (unsigned i = 0; i < sizeof bytes; i++)
		printf("%02x", bytes[i]);
	getcpu(&cpu, &node);
	printf("\ncpu %u %u %d of %ld %ld\n", cpu, node, sched_getcpu(),
	       sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF));
	sysinfo(&info);
	printf("up %ld, %lu of %lu, load %lu, %d\n", info.uptime, info.freeram,
	       info.totalram, info.loads[0], info.procs);
	getrusage(RUSAGE_SELF, &usage);
	printf("used %ld.%06ld %ld, %ld\n", usage.ru_utime.tv_sec,
	       usage.ru_utime.tv_usec, usage.ru_maxrss, (long)times(&tms));
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	tell("parent");
	if (!fork()) {
		tell("child");
		return 0;
	}
	wait(NULL);
	tell("parent");
	return 0;
}
"#;

#[test]
fn a_program_in_c() {
    let built = Built::new("dynamic", SOURCE, &[]);
    let output = repeats(|lab| lab.ok(built.line()));
    assert!(output.contains("cpu 0 0 0 of 1 1\n"), "{output}");
}

#[test]
fn a_static_program_in_c() {
    let built = Built::new("static", SOURCE, &["-static"]);
    let output = repeats(|lab| lab.ok(built.line()));
    assert!(output.contains("cpu 0 0 0 of 1 1\n"), "{output}");
}

#[test]
fn chance_is_the_seeds() {
    let script = "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id
        head -c 16 /dev/urandom | od -An -tx1; head -c 16 /dev/random | od -An -tx1
        exec 3< /dev/urandom; head -c 4 <&3 | od -An -tx1; head -c 4 <&3 | od -An -tx1
        echo $RANDOM $SRANDOM; mktemp -u";
    let output = repeats(|lab| {
        let done = lab.shell(script);
        assert!(done.err.is_empty(), "{done:?}");
        done.out
    });
    let mut lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 8, "{output}");
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 8, "{output}");
}

#[test]
fn a_program_in_python() {
    let script = "import random, uuid, os, secrets, tempfile, time
print(random.random(), uuid.uuid4(), uuid.uuid1(), secrets.token_hex(8), hash('x'), id(os))
print(os.getpid(), os.getppid(), os.cpu_count(), os.times(), tempfile.mktemp())
print(time.time_ns(), time.monotonic_ns(), time.perf_counter_ns(), time.process_time_ns())
print(set('abcdefgh'), os.urandom(8).hex(), os.getloadavg())";
    repeats(|lab| lab.python(script));
}

#[test]
fn numbers_of_processes() {
    as_both("virtual_start::numbers_of_processes", || {
        let output = repeats(|lab| {
            lab.worker
                .configure_namespaces(lab.machine, &NamespaceConfig::new().name("machine"))
                .unwrap();
            let script = "echo $$ $PPID; sh -c 'echo $$; exec sh -c \"echo \\$\\$\"'; (sleep 1 &)
                true | cat; cat /proc/self/comm; cut -d' ' -f1 /proc/self/stat; wait
                nproc; cat /proc/uptime /proc/loadavg; uptime -p; hostname; ls /proc | grep '^[0-9]'
                sleep 2; ls /proc | grep -c '^[0-9]'
                ip link add here type dummy; grep -c here: /proc/$$/net/dev";
            let done = lab.shell(script);
            assert!(done.err.is_empty(), "{done:?}");
            done.out
        });
        assert!(output.starts_with("2 0\n3\n3\n"), "{output}");
        // The first, the shell, ls and grep: an orphan that has died is not there any more.
        assert!(output.ends_with("\n4\n1\n"), "{output}");
    });
}

#[test]
fn times_of_files() {
    as_both("virtual_start::times_of_files", || {
        let folder = std::env::temp_dir().join(format!("vink-times-{}", std::process::id()));
        let script = format!(
            "mkdir {0}; cd {0}; sleep 100; echo a > a; stat -c '%n %x %y %z %w' a; sleep 1000
            stat -c '%n %y' a . ../{1}/a; cat a; sleep 10; echo b >> a; ln -s {0}/a link
            stat -c '%n %y' a link; stat -L -c '%n %y' link; ls --full-time -l | cut -d' ' -f6-
            touch -d 2001-01-01 old; stat -c '%n %x %y' old /etc/passwd; stat -c '%n %y' - < a
            /usr/bin/python3 -c 'import os; print(os.stat(0), os.fstat(0).st_mtime)' < a | grep -o ' .*_time.*'
            find . -newer old | sort; cd /; rm -r {0}",
            folder.display(),
            folder.file_name().unwrap().to_str().unwrap()
        );
        let output = repeats(|lab| {
            let done = lab.shell(&script);
            assert!(done.err.is_empty(), "{done:?}");
            done.out
        });
        let known = [
            "a 2025-01-01 00:01:40.0",
            "./a",
            "old 2001-01-01 00:00:00.0",
        ];
        for text in known {
            assert!(output.contains(text), "{output}");
        }
    });
}

#[test]
fn inode_numbers_of_new_files() {
    as_both("virtual_start::inode_numbers_of_new_files", || {
        let folder = std::env::temp_dir().join(format!("vink-inodes-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let script = format!(
            "cd {}; mkdir run; cd run; echo a > a; ln a same; ln -s a link; mkdir d; mkfifo fifo
            stat -c '%i %n' . *; ls -1i > ../list; stat -c '%i %n' * | diff ../list - && echo listed
            rm a same; echo b > b; stat -c '%i %n' b; ls -id ..; stat -c %i ..; stat -c '%i %n' /etc/passwd
            /usr/bin/python3 -Sc 'import os, socket
files = [*os.pipe(), *(end.detach() for end in socket.socketpair())]
print(*(os.fstat(file).st_ino for file in files))'
            cat < b | stat -c %i -
            test $(id -u) != 0 || setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'stat -c %i b ../secret; ls -i d .
                stat ../secret/x 2>&1 || ls ../secret 2>&1 || echo refused'
            cd ..; rm -r run list",
            folder.display()
        );
        let secret = folder.join("secret");
        std::fs::create_dir(&secret).expect("a folder");
        std::fs::write(secret.join("x"), "").expect("a file");
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o700)).expect("of root's");
        let runs = Cell::new(0);
        let output = repeats(|lab| {
            // The host has other numbers each time.
            for n in 0..100 {
                let name = format!("{}-{n}", runs.get());
                std::fs::write(folder.join(name), "").expect("a file");
            }
            runs.set(runs.get() + 1);
            let done = lab.shell(&script);
            assert!(done.err.is_empty(), "{done:?}");
            done.out
        });
        assert!(output.contains("\nlisted\n"), "{output}");
        let number = |name: &str| {
            let mut lines = output.lines().filter_map(|line| line.split_once(' '));
            let line = lines.find(|(_, of)| *of == name);
            line.and_then(|(number, _)| number.parse::<u64>().ok())
        };
        assert_eq!(number("a"), number("same"), "{output}");
        assert_ne!(number("a"), number("b"), "{output}");
        // What was there before.
        let older = std::fs::metadata("/etc/passwd").expect("users").ino();
        assert_eq!(number("/etc/passwd"), Some(older), "{output}");
        if is_root() {
            assert!(output.contains("\nrefused\n"), "{output}");
            assert_eq!(output.matches("Permission denied").count(), 2, "{output}");
        }
        std::fs::remove_dir_all(&folder).expect("its end");
    });
}

/// The host notes the first reading of a file, and not the second one (relatime).
#[test]
fn when_an_older_file_was_read_is_not_told() {
    as_both(
        "virtual_start::when_an_older_file_was_read_is_not_told",
        || {
            let name = format!("vink-read-{}", std::process::id());
            let file = std::env::temp_dir().join(name);
            std::fs::write(&file, "x\n").expect("a file");
            // What is of the host's last tick may be of the first run.
            let written = std::fs::metadata(&file).and_then(|about| about.modified());
            let written = written.expect("a time");
            let later = || {
                let now = clock_gettime(ClockId::RealtimeCoarse);
                let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
                std::time::UNIX_EPOCH + now > written
            };
            while !later() {
                std::thread::yield_now();
            }
            let script = format!(
                "stat -c '%x = %y' {0}; cat {0}; stat -c '%x = %y' {0}",
                file.display()
            );
            let output = repeats(|lab| {
                let done = lab.shell(&script);
                assert!(done.err.is_empty(), "{done:?}");
                done.out
            });
            std::fs::remove_file(&file).expect("its end");
            let lines = output.lines().filter_map(|line| line.split_once(" = "));
            let lines: Vec<_> = lines.collect();
            assert_eq!(lines.len(), 2, "{output}");
            assert!(
                lines.iter().all(|(read, written)| read == written),
                "{output}"
            );
        },
    );
}

/// Reads of the counter, in all kinds of threads, beside signals and ends that a tracer hears of.
const COUNTER: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

static void tell(const char *name)
{
	unsigned cpu = 7;
	unsigned long long first = __rdtsc(), second = __rdtscp(&cpu);

	printf("%s: %llu %llu %u\n", name, first, second, cpu);
}

static void *thread(void *name)
{
	tell(name);
	return NULL;
}

static void on_signal(__attribute__((unused)) int signal)
{
	tell("handler");
}

int main(void)
{
	pthread_t id;
	int status;

	setvbuf(stdout, NULL, _IONBF, 0);
	tell("main");
	sleep(3);
	tell("main");
	for (int i = 0; i < 3; i++) {
		pthread_create(&id, NULL, thread, "thread");
		pthread_join(id, NULL);
	}
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	if (!fork()) {
		tell("child");
		exit(3);
	}
	wait(&status);
	printf("%d\n", WEXITSTATUS(status));
	if (!fork()) {
		raise(SIGSTOP);
		*(volatile int *)8 = 1;
	}
	waitpid(-1, &status, WUNTRACED);
	printf("%d\n", WIFSTOPPED(status));
	kill(0, SIGCONT);
	wait(&status);
	printf("%d\n", WTERMSIG(status));
	tell("main");
	abort();
}
"#;

#[test]
fn the_time_stamp_counter() {
    let built = Built::new("counter", COUNTER, &["-pthread"]);
    let output = repeats(|lab| {
        lab.worker.set_time(VirtualTime {
            tsc: true,
            ..VirtualTime::default()
        });
        let done = lab.run(built.line());
        assert_eq!(done.status, Status::Killed(libc::SIGABRT), "{done:?}");
        let script = "sh -c 'exit 5'; echo $?; sh -c 'kill -9 $$'; echo $?; cat /etc/passwd | wc -l
            sleep 5 & kill $!; wait $!; echo $?; exit 4";
        let shell = lab.shell(script);
        assert_eq!(shell.status, Status::Exited(4), "{shell:?}");
        done.out + &shell.out
    });
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 15, "{output}");
    assert!(lines[0].starts_with("main: "), "{output}");
    let number = |line: &str| -> u64 { line.split(' ').nth(1).unwrap().parse().unwrap() };
    assert!(
        number(lines[1]) - number(lines[0]) >= 3_000_000_000,
        "{output}"
    );
}
