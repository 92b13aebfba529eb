//! What is said and done about a kernel that does not return: in `vink run`, and in a lab's worker.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use vink_kernel::watchdog::{News, Stuck, Watchdog};
use vink_protocol::WatchdogReport;

use crate::cli_error::CliError;
use crate::signals::die_by;

/// A signal that waits, since the kernel does not return, ends vink when the kernel has computed for so long.
const GRACE: Duration = Duration::from_secs(1);

/// Watches the calling thread, which has these signals blocked and takes them when the kernel has returned.
pub(crate) fn watch_run() -> Result<Watchdog, CliError> {
    let mut waits = None;
    start(move |news| match news {
        News::Busy(used) => {
            let signal = pending();
            if let Some(number) = signal.filter(|_| signal == waits && used >= GRACE) {
                eprintln!(
                    "vink: the kernel has not returned for {used:.1?} of processor time: signal {number} ends vink, \
                     and all programs with it"
                );
                die_by(number);
            }
            waits = signal;
        }
        News::Stuck(stuck) => {
            let pid = std::process::id();
            eprintln!(
                "vink: the kernel {stuck}\nvink: to look at it: vink debug --pid {pid}; to end it: Ctrl-C, or kill {pid}"
            );
        }
        News::Returned(after) => {
            let secs = after.as_secs_f64();
            say(|text| writeln!(text, "vink: the kernel has returned, after {secs:.1} s"));
        }
    })
}

/// The same for a lab's worker, whose control process hears of it by this pipe.
pub(crate) fn watch_worker(mut pipe: File) -> Result<Watchdog, CliError> {
    start(move |news| {
        let told = match news {
            News::Busy(_) => return,
            News::Stuck(Stuck {
                real,
                processor,
                backtrace,
            }) => WatchdogReport::Stuck {
                seconds: real.as_secs_f64(),
                processor_seconds: processor.as_secs_f64(),
                backtrace: backtrace.iter().map(ToString::to_string).collect(),
            },
            News::Returned(after) => WatchdogReport::Returned {
                seconds: after.as_secs_f64(),
            },
        };
        // At once, so that no line is in two pieces. Without memory of its own: see `News::Returned`.
        let mut line = [0; libc::PIPE_BUF];
        let room = line.len() - 1;
        let mut rest = &mut line[..room];
        // One that is longer is told without its end.
        if serde_json::to_writer(&mut rest, &told).is_err() {
            return;
        }
        let length = room - rest.len();
        line[length] = b'\n';
        let _ = pipe.write_all(&line[..=length]);
    })
}

fn start(tell: impl FnMut(News) + Send + 'static) -> Result<Watchdog, CliError> {
    Watchdog::start(tell).map_err(CliError::host("timer_create() for a watchdog"))
}

/// The first of the signals that are to end vink, if it waits.
fn pending() -> Option<i32> {
    let set = vink_sys::signals::pending();
    let ends = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
    ends.into_iter().find(|signal| set.has(*signal))
}

/// Writes a line to standard error, without memory and without locks.
fn say(write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>) {
    let mut text = [0; 128];
    let mut rest = &mut text[..];
    let _ = write(&mut rest);
    let length = 128 - rest.len();
    let _ = vink_sys::rustix::io::write(std::io::stderr(), &text[..length]);
}
