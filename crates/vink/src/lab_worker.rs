//! `vink lab-worker`: what the control process starts for each image of a lab. Not for people.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use vink_kernel::Clock;
use vink_lab::worker::{serve, Config, End};
use vink_spec::size;

use crate::failure::{Failure, PANICKED};

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The descriptor that requests come from
    #[arg(long, value_name = "DESCRIPTOR")]
    socket: RawFd,
    /// The image
    #[arg(long, value_name = "PATH")]
    image: PathBuf,
    /// The kernel's memory
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    memory: u64,
    /// Kernel parameters
    #[arg(long, value_name = "TEXT", default_value = "")]
    cmdline: String,
    /// Of everything random
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// With a clock of its own
    #[arg(long)]
    virtual_time: bool,
    /// What a system call costs then, in ns
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    call: u64,
    /// The processor's time stamp counter shows that clock, too
    #[arg(long)]
    rdtsc: bool,
}

/// Serves until the socket ends.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let number = arguments.socket;
    // SAFETY: asks about a number.
    if number < 3 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        let text = format!(
            "--socket {number}: no descriptor of this number is open; \
             labs start their workers by themselves: see `vink lab up`"
        );
        return Err(Failure::Other(text));
    }
    // SAFETY: it is open, and whoever has started us has left it to us.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let config = Config {
        image: arguments.image,
        memory: arguments.memory,
        cmdline: arguments.cmdline,
        seed: arguments.seed,
        clock: match arguments.virtual_time {
            true => Clock::Virtual,
            false => Clock::Real,
        },
        call: Duration::from_nanos(arguments.call),
        rdtsc: arguments.rdtsc,
    };
    Ok(match serve(socket, config)? {
        End::Closed => ExitCode::SUCCESS,
        End::Panicked => ExitCode::from(PANICKED),
    })
}
