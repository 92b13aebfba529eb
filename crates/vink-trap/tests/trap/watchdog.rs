//! Programs in virtual time that never wait, in one way or another: they end nevertheless.

use std::cell::Cell;
use std::fs;
use std::rc::Rc;
use std::time::Duration;

use vink_kernel::Clock;
use vink_trap::{Called, Charge, Status, VirtualTime};

use crate::built::Built;
use crate::lab::Lab;

const SECOND: u64 = 1_000_000_000;

/// Where no thread waits long for one that computes.
fn hasty() -> Lab {
    with_cpu_budget(Duration::from_millis(100))
}

fn with_cpu_budget(cpu_budget: Duration) -> Lab {
    let mut lab = Lab::on(Clock::Virtual);
    lab.worker.set_time(VirtualTime {
        charge: Charge {
            cpu_budget,
            ..Charge::default()
        },
        ..VirtualTime::default()
    });
    lab
}

/// Threads, and then a parent, spin without a call for what another one does after a while.
const SPINNERS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int begun, told, rung;

static void *spin(void *number)
{
	begun++;
	while (!told)
		;
	return number;
}

static void on_alarm(int signal)
{
	(void)signal;
	rung = 1;
}

static long ns(struct timespec from, struct timespec to)
{
	return (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
}

int main(void)
{
	pthread_t threads[2];
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, spin, NULL);
	while (begun < 2)
		;
	usleep(20000);
	told = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	puts("threads");

	volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!fork()) {
		usleep(20000);
		*shared = 1;
		_exit(0);
	}
	while (!*shared)
		;
	wait(NULL);
	puts("a child");

	signal(SIGALRM, on_alarm);
	ualarm(20000, 0);
	while (!rung)
		;
	clock_gettime(CLOCK_MONOTONIC, &b);
	/* Three pauses, and as long as it was a runaway beside. */
	printf("an alarm%s\n", ns(a, b) < 60000000 ? ", too early" : "");

	/* Back in its turn. */
	sleep(3600);
	clock_gettime(CLOCK_MONOTONIC, &a);
	printf("%ld s\n", ns(b, a) / 1000000000);
	return 0;
}
"#;

#[test]
fn spinning_without_a_call_does_not_stop_the_others() {
    let built = Built::new("spinners", SPINNERS, &["-pthread"]);
    let mut lab = hasty();
    let output = lab.run(built.line());
    assert_eq!(output.status, Status::Exited(0), "{output:?}");
    assert_eq!(output.out, "threads\na child\nan alarm\n3600 s\n");
}

#[test]
fn spinning_for_ever_can_be_ended() {
    let mut lab = hasty();
    let output = lab.shell("timeout 2 bash -c 'while :; do :; done'; echo $?; sleep 1000; echo on");
    assert_eq!(output.out, "124\non\n", "{output:?}");
}

/// The processor's time of the thread's process, in ticks of 10 ms; see proc_pid_stat(5).
fn ticks(tid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let times = rest.split_ascii_whitespace().skip(14 - 3).take(2);
    times.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn threads_that_contend_for_a_lock_of_5_ms_hold_the_others_up_once() {
    // Each of these computes until the other has waited 5 ms for Python's global lock, and then
    // makes a call.
    let script = "import threading
def spin():
    while True: pass
threading.Thread(target=spin).start()
spin()";
    let mut lab = with_cpu_budget(Duration::from_secs(2));
    let caller = Rc::new(Cell::new(0));
    let observed = caller.clone();
    let observer = move |called: &Called| observed.set(called.tid);
    lab.worker.observe_calls(Some(Box::new(observer)));
    let spinner = lab.start_python(script);
    lab.worker.run_until(|_| caller.get() != 0).unwrap();
    lab.worker.observe_calls(None);
    let before = lab.worker.now();
    lab.ok("sleep 0.5");
    assert!(lab.worker.now() >= before + SECOND / 2);
    // Where the others get about 5 ms after each 2 s of the processor's, these are about 40 s.
    let ticks = ticks(caller.get());
    lab.worker.kill(spinner.id).unwrap();
    lab.finish(spinner);
    assert!(ticks < 1000, "{ticks} ticks");
}

#[test]
fn the_clock_keeps_to_its_horizon_while_there_is_a_runaway() {
    let mut lab = hasty();
    let running = lab.start_python("while True: pass");
    let end = lab.worker.now() + SECOND / 5;
    lab.worker.set_horizon(end);
    lab.worker.run_until(|worker| worker.is_idle()).unwrap();
    assert_eq!(lab.worker.now(), end);
    lab.worker.kill(running.id).unwrap();
    assert_eq!(lab.finish(running).status, Status::Killed(libc::SIGKILL));
}

#[test]
fn a_loop_that_looks_for_a_file_ends() {
    // It asks neither for the time nor whether anything is ready.
    let script = "import os, sys, threading, time
name = sys.argv[1]
def make():
    time.sleep(0.05)
    os.mkdir(name)
thread = threading.Thread(target=make)
thread.start()
sys.setswitchinterval(1e-6)
while not os.path.exists(name): pass
os.rmdir(name)";
    let name = std::env::temp_dir().join(format!("vink-watchdog-{}", std::process::id()));
    let mut lab = Lab::on(Clock::Virtual);
    let output = lab.shell(&format!(
        "/usr/bin/python3 -c '{script}' {} && echo found",
        name.display()
    ));
    assert_eq!(output.out, "found\n", "{output:?}");
}

/// Asks whether a socket is readable or writable, as iperf3 does before its test begins: it is
/// writable all the time.
const IMPATIENT: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int ends[2];

static void *answer(void *nothing)
{
	usleep(20000);
	write(ends[1], "", 1);
	return nothing;
}

int main(void)
{
	struct timespec a, b;
	pthread_t thread;
	int looks = 0;

	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	clock_gettime(CLOCK_MONOTONIC, &a);
	pthread_create(&thread, NULL, answer, NULL);
	struct pollfd fd = {.fd = ends[0], .events = POLLIN | POLLOUT};
	do {
		poll(&fd, 1, -1);
		looks++;
	} while (!(fd.revents & POLLIN));
	clock_gettime(CLOCK_MONOTONIC, &b);
	pthread_join(thread, NULL);
	long ns = (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
	printf("%ld ns%s\n", ns, looks < 2000 ? "" : ", too many looks");
	return 0;
}
"#;

#[test]
fn polling_again_and_again_waits_for_what_comes_next() {
    let built = Built::new("impatient", IMPATIENT, &["-pthread"]);
    let mut lab = Lab::on(Clock::Virtual);
    let output = lab.run(built.line());
    assert_eq!(output.out, "20000000 ns\n", "{output:?}");
}
