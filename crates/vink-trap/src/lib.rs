//! The interposer *trap*: runs unmodified programs, and everything they fork and execute, with
//! their network system calls answered by a [`vink_kernel::Kernel`].
//!
//! # Theory of operation
//!
//! A program is started in the host's namespaces for its machine, of which the network namespace is
//! empty, and under a seccomp filter (`home`, `launch`, `filter`). The calls that may concern a socket stop their thread and make a listener
//! readable (`notify`), one per program, inherited by all that it forks and executes. The [`Worker`]
//! waits for all listeners, for deaths of processes and for the kernel's next timer (`worker`).
//!
//! For each trapped call there are three ways (`serve`):
//! - The descriptor is none of Vink's: the host does the call ("pass"). A socket that escaped this
//!   way would find no network.
//! - The descriptor is Vink's: the very same call, with the same arguments, is started on the
//!   thread's task in the kernel, whose copy routines reach into the program's memory. The answer is
//!   sent when it is done; a call that waits simply isn't answered yet. Nothing is marshalled.
//! - The call makes, copies or closes descriptors: both sides do it.
//!
//! A Vink file has a *placeholder* in the program, a host socket whose number, close-on-exec flag,
//! inheritance and life are the host's; a table says under which number the kernel's task has the file.
//! Readiness is mirrored into the placeholder when someone waits natively (`mirror`, `ready`).
//!
//! Each host thread that needs one has a task in the kernel, made when it first needs it; each
//! process a table that says which of its numbers are Vink's (`process`). Forks, execs and deaths
//! are followed (`family`), so that both sides always agree.
//!
//! A file sent over a unix socket is handed over in the kernel too (`handover`). Between a socket
//! and a pipe of the host the worker moves the data (`splice`). Signals for a file's owner are sent by
//! the host, on behalf of the placeholder (`owner`).
//!
//! What is called can be written down (`trace`).
//!
//! The rings of a packet socket are in a file that the program maps (`ring`).
//!
//! A machine's `/proc/net`, `/proc/sys/net` and `/sys/class/net` are opened in the kernel (`view`).
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use vink_kernel::{find_image, Config, Image, Kernel};
//! use vink_trap::{Program, Status, Worker};
//!
//! let mut kernel = Kernel::boot(Image::open(&find_image()?)?, Config::default())?;
//! let machine = kernel.machine("host")?;
//! let mut worker = Worker::new(kernel)?;
//! let program = worker.spawn(machine, Program::new("ip").arg("address"))?;
//! assert_eq!(worker.wait(program)?, Status::Exited(0));
//! # Ok(())
//! # }
//! ```
//!
//! # Signals
//!
//! A signal takes a thread out of a call that waits for its answer; the worker learns of it at the
//! thread's next call, or when the answer can't be delivered. The call in the kernel is then
//! cancelled. If it had ended, its result is kept for the same call restarted, so that no data is
//! lost, with one exception: a thread that has left for a signal, but has not told the host kernel
//! yet, drops an answer that the kernel reports as taken. Until it is cancelled it may still take
//! data that arrives, to the buffer it was given.
//!
//! The host takes each trapped call for one that `SA_RESTART` restarts. One that has a time-out
//! (`SO_RCVTIMEO`) is not: it is told `EINTR` when it comes again. If the handler was not
//! `SA_RESTART`, the program has had its `EINTR` then, and may see it twice.
//!
//! # Not supported
//!
//! epoll_ctl(2) on a packet socket as the very first call after the mmap(2) of its ring (`EPERM`).
//!
//! 32-bit programs (killed), io_uring (`ENOSYS`), Vink descriptors sent to processes that Vink did
//! not start (they get a dead placeholder), `CLONE_FILES` without `CLONE_THREAD` (the table is
//! copied), a second `SIGURG` while the first urgent byte has not been read, set-user-id programs
//! (`PR_SET_NO_NEW_PRIVS`), pwrite(2) to a file of the machine's, mmap(2) of a TCP socket
//! (`TCP_ZEROCOPY_RECEIVE`: `ENODEV`, so that programs copy). Out-of-band data in a set that waits
//! makes a socket readable too, if that is asked for.

mod calls;
mod error;
mod family;
mod filter;
mod handover;
mod home;
mod launch;
mod mirror;
mod notify;
mod owner;
mod process;
mod ready;
mod ring;
mod serve;
mod splice;
mod target;
mod trace;
mod view;
mod worker;

pub use error::Error;
pub use home::Home;
pub use launch::{Program, Stdio};
pub use trace::call_name;
pub use worker::{ProgramId, Statistics, Status, Worker};
