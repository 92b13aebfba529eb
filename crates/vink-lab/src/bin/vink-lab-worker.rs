//! A lab's worker by itself, for the tests of its protocol: `vink-lab-worker DESCRIPTOR` serves the
//! socket of this number. Labs start `vink lab-worker`, which has a watchdog, too.

use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;

use vink_lab::worker::{serve, End};

fn main() -> ExitCode {
    let number = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let number = number.expect("the descriptor of a socket");
    // SAFETY: the test has left it open, and nothing else here uses it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // What the worker starts does not have it.
    let _ = vink_sys::fd::set_cloexec(number, true);
    match serve(socket) {
        Ok(End::Closed) => ExitCode::SUCCESS,
        Ok(End::Panicked) => ExitCode::from(121),
        Err(error) => {
            eprintln!("vink-lab-worker: {error}");
            ExitCode::from(125)
        }
    }
}
