//! The watchdog: a thread of our own that says so when the kernel does not return to the program.
//!
//! It sleeps on the process's processor time, so that a program that waits is not woken. Any thread may run the kernel:
//! those that compute are interrupted for a look at them (see `vink_kernel::watchdog`), once a run has lasted for two
//! looks. A signal that has a handler waits until its thread is out of the kernel, which never comes here: one that
//! should end the program then does.

use std::ffi::c_int;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Once;
use std::thread::Builder;
use std::time::Duration;

use vink_kernel::watchdog::{is_suspicious, sample, tell_of_samples, News, TICK};
use vink_sys::process::gettid;
use vink_sys::rustix::io::write;
use vink_sys::rustix::stdio::stderr;
use vink_sys::rustix::thread::{clock_nanosleep_relative, ClockId, Timespec};
use vink_sys::signals::die_by;

/// A signal that waits for the kernel ends the program when the kernel has computed for so long.
const GRACE: Duration = Duration::from_secs(1);
const ENDING: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
/// Looking symbols up needs some.
const STACK_BYTES: usize = 2 << 20;

/// The signal of [`ENDING`] that a thread in the kernel has kept; 0: none.
static KEPT: AtomicI32 = AtomicI32::new(0);

/// A thread inside keeps this signal until it leaves. In a signal handler.
pub fn keeps(signal: c_int) {
    if ENDING.contains(&signal) {
        KEPT.store(signal, Ordering::Relaxed);
    }
}

/// It has left, and the signal is delivered.
pub fn delivers(signal: c_int) {
    let _ = KEPT.compare_exchange(signal, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Starts the thread, once. It gets none of the program's signals; without it the program goes on unwatched.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        crate::keeper::without_signals(|| {
            let thread = Builder::new().name("vink-watchdog".to_owned());
            let _ = thread.stack_size(STACK_BYTES).spawn(|| watch());
        });
    });
}

fn watch() -> ! {
    let own = gettid();
    let mut waited = 0;
    loop {
        sleep();
        tell_of_samples(&mut |news| tell(news, &mut waited));
        if is_suspicious() {
            threads_that_compute()
                .filter(|tid| *tid != own)
                .for_each(sample);
        }
    }
}

/// Until the process has computed a little more.
fn sleep() {
    let span = Timespec {
        tv_sec: 0,
        tv_nsec: TICK.as_nanos() as i64,
    };
    let _ = clock_nanosleep_relative(ClockId::ProcessCPUTime, &span);
}

/// By proc_pid_stat(5).
fn threads_that_compute() -> impl Iterator<Item = c_int> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks.flatten().filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let tid = task.file_name().to_str()?.parse().ok()?;
        rest.starts_with('R').then_some(tid)
    })
}

fn tell(news: News, waited: &mut c_int) {
    let pid = std::process::id();
    match news {
        News::Busy(used) => {
            let kept = KEPT.load(Ordering::Relaxed);
            if kept != 0 && kept == *waited && used >= GRACE {
                say(&format!(
                    "vink: the kernel has not returned for {used:.1?} of processor time: signal {kept} ends the program"
                ));
                die_by(kept);
            }
            *waited = kept;
        }
        News::Stuck(stuck) => say(&format!(
            "vink: the kernel {stuck}\nvink: to look at it: vink debug --pid {pid}; to end it: Ctrl-C, or kill {pid}"
        )),
        News::Returned(after) => {
            let secs = after.as_secs_f64();
            say(&format!("vink: the kernel has returned, after {secs:.1} s"));
        }
    }
}

/// Not by the standard library's standard error: a program's thread may have its lock.
fn say(words: &str) {
    let text = format!("{words}\n");
    let _ = write(stderr(), text.as_bytes());
}
