//! What the owner of a worker does to its programs: groups, terminals, forgetting.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::built::Built;
use crate::lab::{as_both, Lab};
use vink_sys::signals::Action;
use vink_trap::{Error, Program, Status, Stdio};

/// A new pseudo-terminal: what a user has, which never waits, and what a program gets.
fn terminal() -> (File, OwnedFd) {
    let (user, program) = vink_sys::terminal::open(24, 80).unwrap();
    vink_sys::fd::set_blocking(&user, false).unwrap();
    (user, program)
}

#[test]
fn a_signal_for_a_group() {
    as_both("control::a_signal_for_a_group", || {
        let mut lab = Lab::new();
        // The shell is ended by the signal, its child says that it came, and goes on until the
        // next: it has no handler any more when it says so.
        let script = "(trap 'trap - USR1; echo caught' USR1; echo ready; while :; do sleep 0.01; done) & wait";
        let program = Program::new("bash").args(["-c", script]).new_session();
        let mut program = lab.start_program(program);
        lab.until_written(&mut program, "ready");
        lab.worker.signal_group(program.id, libc::SIGUSR1).unwrap();
        let status = lab.worker.wait(program.id).unwrap();
        assert_eq!(status, Status::Killed(libc::SIGUSR1));
        while !program.out().contains("caught") {
            lab.worker.step(Some(Duration::from_millis(10))).unwrap();
        }
        lab.worker.signal_group(program.id, libc::SIGUSR1).unwrap();
        lab.worker.run_until(|w| !w.is_alive(program.id)).unwrap();
        let again = lab.worker.signal_group(program.id, libc::SIGUSR1);
        assert!(matches!(again, Err(Error::NoSuchProgram)), "{again:?}");
    });
}

#[test]
fn job_control() {
    as_both("control::job_control", || {
        // A shell that was told to test in the background has it ignored, and so would have the
        // job.
        Action::DEFAULT.set(libc::SIGINT).unwrap();
        let mut lab = Lab::new();
        let (mut user, end) = terminal();
        let give = || Stdio::Fd(end.try_clone().unwrap());
        let program = Program::new("bash")
            .args(["--norc", "--noediting", "-i"])
            .env("PS1", "$ ")
            .terminal()
            .stdin(give())
            .stdout(give())
            .stderr(give());
        let id = lab.worker.spawn(lab.machine, program).unwrap();
        drop(end);
        let mut seen = String::new();
        // What is waited for, whether a job is in the foreground then, and what is typed.
        let dialogue = [
            ("$ ", false, "nc -n -v -u -l 7\n"),
            ("ound on", true, "\x1a"),
            ("Stopped", false, ""),
            // Not before the prompt, which might come in the middle of the echo.
            ("$ ", false, "fg\n"),
            ("fg\r\n", true, "\x03"),
            ("$ ", false, "echo $?; exit 7\n"),
            ("130\r\n", false, ""),
        ];
        let mut shell = 0;
        for (expected, job, keys) in dialogue {
            loop {
                let mut piece = [0; 4096];
                let foreground = vink_sys::process::foreground(&user);
                match user.read(&mut piece) {
                    Ok(n) => seen += &String::from_utf8_lossy(&piece[..n]),
                    Err(_)
                        if seen.contains(expected)
                            && job == (shell != 0 && foreground != shell) =>
                    {
                        break shell = if shell == 0 { foreground } else { shell }
                    }
                    Err(_) => lab.worker.step(Some(Duration::from_millis(10))).unwrap(),
                }
            }
            let end = seen.find(expected).unwrap() + expected.len();
            seen.drain(..end);
            user.write_all(keys.as_bytes()).unwrap();
        }
        assert_eq!(lab.worker.wait(id).unwrap(), Status::Exited(7));
    });
}

/// Its child is gone without a word, and it has not spoken since: what the child was to inherit is
/// there still.
const FORKED: &str = r"
#define _GNU_SOURCE
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	socket(AF_INET, SOCK_STREAM, 0);
	socket(AF_INET, SOCK_DGRAM, 0);
	if (ftruncate(1, 1))
		return 1;
	volatile char *out = mmap(0, 1, PROT_READ | PROT_WRITE, MAP_SHARED, 1, 0);
	pid_t self = getpid(), child = vfork();
	if (!child) {
		kill(getpid(), SIGKILL);
		_exit(0);
	}
	*out = child > 0 && self == getpid() ? 'x' : '?';
	for (;;)
		pause();
}";

#[test]
fn a_process_killed_after_a_fork_leaves_nothing() {
    as_both(
        "control::a_process_killed_after_a_fork_leaves_nothing",
        || {
            let built = Built::new("forked", FORKED, &[]);
            let mut lab = Lab::new();
            let before = lab.used();
            for _ in 0..5 {
                let mut program = lab.start(built.line());
                lab.until_written(&mut program, "x");
                lab.worker.kill(program.id).unwrap();
                lab.worker.forget(program.id).unwrap();
            }
            assert_eq!(lab.worker.object_counts(), [0; 3]);
            // The kernel ends tasks when it is stepped.
            lab.run("true");
            assert_eq!(lab.used(), before);
        },
    );
}

#[test]
fn programs_are_forgotten() {
    as_both("control::programs_are_forgotten", || {
        let mut lab = Lab::new();
        let mut names = Vec::new();
        for round in 0..20 {
            let running = lab.start("sh -c :");
            let alive = lab.worker.forget(running.id);
            assert!(matches!(alive, Err(Error::NoSuchProgram)), "{alive:?}");
            let mut told = 0;
            lab.worker
                .run_until(|w| {
                    while let Some(changed) = w.next_changed() {
                        told += u32::from(changed == running.id);
                    }
                    !w.is_alive(running.id)
                })
                .unwrap();
            assert!((1..=2).contains(&told), "round {round}: told {told} times");
            lab.worker.forget(running.id).unwrap();
            assert!(lab.worker.status(running.id).is_err());
            assert!(lab.worker.forget(running.id).is_err());
            assert_eq!(lab.worker.object_counts(), [0; 3]);
            names.push(running.id);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 20);
    });
}
