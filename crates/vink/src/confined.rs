//! `vink run --in-process --rights user`: a program that has its stack in itself and is not trusted.
//!
//! There are three processes. This one stays outside: it is the broker of the wire (`vink_port`), and
//! passes on signals and how the program ended. Process 1 of the program's PID namespace gives up all
//! rights (`vink_confine`), starts the program, and waits for it. So the program inherits a connected
//! socket, and can reach no other: what it asks for is done here, at one path.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitCode};

use vink_api::RuntimeDir;
use vink_confine::{Fork, Inside};
use vink_port::Broker;
use vink_spec::Uplink;
use vink_sys::child::{prepare, Step};
use vink_sys::fd::{duplicate_above, pipe};
use vink_sys::pidfd;
use vink_sys::poll::{is_readable, poll, wanted};
use vink_sys::process::{exit_now, kill, limit, waitpid};
use vink_sys::rustix::process::{set_parent_process_death_signal, setsid, Signal};

use crate::cli_error::CliError;
use crate::run::Way;
use crate::signals::{die_by, stop_by, Signals};

/// What is passed on to the program, which is in a session of its own, so that the terminal sends it
/// nothing; and `SIGCHLD`.
const CAUGHT: [i32; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGCHLD,
];

/// Says by which number the program has the broker's socket; see `vink_inproc`.
const BROKER: &str = "VINK_BROKER";

/// Above the numbers that programs have in use, where that is possible.
const HIGH: u64 = 1024;

/// If something failed before the program could be executed, as with env(1).
const FAILED: i32 = 125;

/// Why a program is refused this uplink; `None`: it is not.
pub(crate) fn refusal(way: &Way) -> Option<&'static str> {
    match way {
        Way::None | Way::Other(Uplink::Wire(_)) => None,
        Way::Passt | Way::Other(_) => Some(
            "--in-process --rights user has no way out but --uplink wire:PATH, to a switch's port (docs/switches.md), \
             or none: the program has its stack in its own memory, so what it sends is to be filtered where it arrives",
        ),
    }
}

/// Runs it, and ends as it ended.
pub(crate) fn run(
    mut command: Command,
    way: &Way,
    cannot_run: impl FnOnce(i32) -> vink_trap::Error,
) -> Result<ExitCode, CliError> {
    let signals = Signals::catch(&CAUGHT).map_err(CliError::host("signalfd"))?;
    let (mut broker, socket) = match way {
        Way::Other(Uplink::Wire(path)) => {
            let made = Broker::new(Path::new(path));
            let (broker, socket) = made.map_err(|error| CliError::Other(error.to_string()))?;
            let limit = limit(0, libc::RLIMIT_NOFILE).map_or(HIGH, |limit| limit.rlim_cur);
            let socket = duplicate_above(&socket, limit.min(HIGH).saturating_sub(1) as i32);
            let socket = socket.map_err(CliError::host("a number for the broker's socket"))?;
            command.env(BROKER, socket.as_raw_fd().to_string());
            (Some(broker), Some(socket))
        }
        _ => (None, None),
    };
    let (told, tells) = pipe().map_err(CliError::host("a pipe"))?;
    let own = pidfd::open(std::process::id() as i32).map_err(CliError::host("pidfd_open"))?;
    let forked = vink_confine::fork();
    let init = match forked.map_err(CliError::host("--rights user: confining the program"))? {
        Fork::Parent(pid) => pid,
        Fork::Child(inside) => {
            drop((signals, broker, told));
            let status = first(inside, command, socket, &own, cannot_run);
            let done = status.map_or_else(
                |(error, status)| {
                    eprintln!("vink: {error}");
                    status
                },
                |status| {
                    // The other process has ended if it can't be told.
                    let _ = File::from(tells).write_all(&status.to_ne_bytes());
                    0
                },
            );
            exit_now(done)
        }
    };
    drop((socket, tells, own));
    let mut told = File::from(told);
    loop {
        let fd = |fd: &dyn AsRawFd| wanted(fd.as_raw_fd(), libc::POLLIN);
        let mut fds = [
            fd(&told),
            fd(&signals.as_fd()),
            broker
                .as_ref()
                .map_or(wanted(-1, 0), |broker| fd(&broker.as_fd())),
        ];
        // Interrupted: it looks.
        let _ = poll(&mut fds, -1);
        if fds[0].revents != 0 {
            break;
        }
        if let Some(Err(error)) = broker.as_mut().map(Broker::serve) {
            // As a program ends whose stack does not get its uplink.
            eprintln!("vink: {error}");
            let _ = kill(init, libc::SIGKILL);
            let _ = waitpid(init, 0);
            return Ok(ExitCode::from(FAILED as u8));
        }
        while let Some(signal) = signals.next() {
            if signal.number == libc::SIGCHLD {
                continue;
            }
            // It may just have ended, which the next round sees.
            let _ = kill(init, signal.number);
            if signal.number == libc::SIGTSTP {
                stop_by(signal.number);
                let _ = kill(init, libc::SIGCONT);
            }
        }
    }
    let mut status = [0; 4];
    let is_told = told.read_exact(&mut status).is_ok();
    // All that is left of the program is killed by its end.
    let (_, end) = waitpid(init, 0).map_err(CliError::host("waiting for the program"))?;
    let status = match is_told {
        true => i32::from_ne_bytes(status),
        false => end,
    };
    if libc::WIFSIGNALED(status) {
        die_by(libc::WTERMSIG(status));
        return Ok(ExitCode::from(128 + libc::WTERMSIG(status) as u8));
    }
    Ok(ExitCode::from(libc::WEXITSTATUS(status) as u8))
}

/// What process 1 does; how the program ended (wait(2)), or what is wrong, and the status to exit with.
fn first(
    inside: Inside,
    mut command: Command,
    socket: Option<OwnedFd>,
    parent: &OwnedFd,
    cannot_run: impl FnOnce(i32) -> vink_trap::Error,
) -> Result<i32, (String, i32)> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        (format!("--rights user: {what}: {error}"), FAILED)
    };
    // No signal of its group is another process's, and no terminal is its own.
    setsid().map_err(|error| failed("setsid", &error))?;
    let signals = Signals::catch(&CAUGHT).map_err(|error| failed("signalfd", &error))?;
    let runtime = RuntimeDir::find();
    inside
        .confine(&[runtime.folder()])
        .map_err(|error| failed("confining the program", &error))?;
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if is_readable(parent, 0) {
        exit_now(FAILED);
    }
    prepare(&mut command, [Step::UnblockAll, Step::CloseOthers]);
    if let Some(socket) = &socket {
        prepare(&mut command, [Step::Keep(socket.as_raw_fd())]);
    }
    let child = command.spawn().map_err(|error| {
        let error = cannot_run(error.raw_os_error().unwrap_or(libc::EACCES));
        (error.to_string(), error.exit_status())
    })?;
    drop(socket);
    Ok(wait(&child, &signals))
}

/// Waits for the program, and for orphans; passes signals on.
fn wait(program: &Child, signals: &Signals) -> i32 {
    let pid = program.id() as i32;
    loop {
        while let Ok((ended, status)) = waitpid(-1, libc::WNOHANG) {
            match ended {
                0 => break,
                ended if ended == pid => return status,
                _ => {}
            }
        }
        is_readable(signals, -1);
        while let Some(signal) = signals.next() {
            let number = match signal.number {
                libc::SIGCHLD => continue,
                // A group without a terminal is not stopped by that.
                libc::SIGTSTP => libc::SIGSTOP,
                number => number,
            };
            // It may just have ended.
            let _ = kill(pid, number);
        }
    }
}
