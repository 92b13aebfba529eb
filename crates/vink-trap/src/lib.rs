//! The interposer *trap*: runs unmodified programs, and everything they fork and execute, with
//! their network system calls answered by a [`vink_kernel::Kernel`].
//!
//! # Theory of operation
//!
//! A program is started in the host's namespaces for its machine, of which the network namespace is
//! empty and the PID namespace has no process from outside (`pids`), and under a seccomp filter
//! (`namespaces`, `spawn`, `filter`). The calls that may concern a socket stop their thread and
//! make a listener readable (`notify`), one per program, inherited by all that it forks and
//! executes. The [`Worker`] waits for all listeners, for deaths of processes and for the kernel's
//! next timer (`supervisor`).
//!
//! For each trapped call there are three ways (`dispatch`, `calls`):
//! - The descriptor is none of Vink's: the host does the call ("pass"). A socket that escaped this
//!   way would find no network.
//! - The descriptor is Vink's: the very same call, with the same arguments, is started on the
//!   thread's task in the kernel, whose copy routines reach into the program's memory. The answer
//!   is sent when it is done; a call that waits simply isn't answered yet. Nothing is marshalled.
//! - The call makes, copies or closes descriptors: both sides do it.
//!
//! A Vink file has a *placeholder* in the program, a host socket whose number, close-on-exec flag,
//! inheritance and life are the host's; a table says under which number the kernel's task has the
//! file. Readiness is mirrored into the placeholder when a thread waits on the host (`placeholder`,
//! `ready`).
//!
//! Each host thread that needs one has a task in the kernel, made when it first needs it; each
//! process a table that says which of its numbers are Vink's (`tasks`, `fd_table`). Forks,
//! execs and deaths are followed (`lifecycle`), so that both sides always agree.
//!
//! Before a program of some machines binds a port, their owner is asked (`binding`).
//!
//! What else moves data between a file of the kernel and a descriptor of the host is a `device`: an
//! uplink.
//!
//! A file sent over a unix socket is sent in the kernel too (`scm_rights`). Between a socket and a
//! pipe of the host the worker moves the data (`splice`). Signals for a file's owner are sent by
//! the host, on behalf of the placeholder (`owner`).
//!
//! A program may make and enter network namespaces (`network`), and name them to rtnetlink
//! (`rtnetlink`).
//!
//! What is called can be written down (`trace`).
//!
//! The rings of a packet socket are in a file that the program maps (`packet_ring`).
//!
//! Paths to a machine's `/proc/net`, `/proc/sys/net`, `/sys/class/net` and to the image's modules
//! in `/sys/module` (`virtual_paths`) are looked up and opened in the kernel (`procfs_view`).
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
//! A call that the worker has received is answered, whatever signals come: no data is lost. A
//! signal that comes while the call waits in the kernel ends it there, and the host's kernel goes
//! on as it would have by itself: `EINTR`, or the call once more (`interrupt`). The worker learns
//! of it within 8 ms, or later if many threads wait at once, so that looking for signals takes no
//! more than 2 % of its time: 30 ms with 200 of them, 0.2 s with 1,000, on a busy machine. While
//! the worker itself is stopped, only signals that kill reach a thread in such a call.
//!
//! What is left are the microseconds between a system call and its reception by the worker. A
//! signal that comes then takes the thread out of a call that has not begun, and unless its handler
//! is `SA_RESTART` the host's kernel makes that `EINTR`. Calls that know no such error on the host
//! (getsockopt(2), a write(2) to a file, close(2)) are made again by what the handler returns to
//! (`restorer`), if their number is in the instruction before. (exit_group(2) and rt_sigreturn(2)
//! are not trapped, since a program would not survive it.)
//!
//! A host without the fix "seccomp: Fix a race with WAIT_KILLABLE_RECV if the tracer replies too
//! fast" (it is in Linux 6.18 and 6.12.117) drops an answer sent between a signal and its thread's
//! waking.
//!
//! # Not supported
//!
//! epoll_ctl(2) on a packet socket as the very first call after the mmap(2) of its ring (`EPERM`).
//!
//! Buffers longer than any program's memory are not refused at once (`EFAULT`): they are used up to
//! where memory ends.
//!
//! chdir(2) to a directory of the machine's that the host has no counterpart of (`EACCES`), links
//! of the host's file system into the machine's files.
//!
//! 32-bit programs (ended by `SIGSYS`), io_uring (`ENOSYS`), native AIO on Vink files (`EINVAL`),
//! Vink descriptors sent to processes that Vink did not start (they get a dead placeholder), a
//! thread's own table of descriptors (`unshare(CLONE_FILES)` in a threaded program: it goes on with
//! the others'), a second `SIGURG` while the first urgent byte has not been read, set-user-id
//! programs (`PR_SET_NO_NEW_PRIVS`), pwrite(2) to a file of the machine's, mmap(2) of a TCP socket
//! (`TCP_ZEROCOPY_RECEIVE`: `ENODEV`, so that programs copy). Out-of-band data in a set that waits
//! makes a socket readable too, if that is asked for.

mod advice;
mod affinity;
mod aio;
mod alarm;
mod binding;
mod calls;
mod contention;
mod decision;
mod descriptors;
mod device;
mod device_host;
mod dispatch;
mod error;
mod fd_limit;
mod fd_table;
mod file;
mod file_holder;
mod filter;
mod guardian;
mod horizon;
mod in_flight;
mod interface;
mod interrupt;
mod kernel_runner;
mod lifecycle;
mod mapped_ring;
mod mounts;
mod namespaces;
mod network;
mod networks;
mod notification;
mod notify;
mod overlay;
mod owner;
mod packet_ring;
mod pids;
mod placeholder;
mod placement;
mod polling;
mod port_policy;
mod process;
mod process_groups;
mod process_ring;
mod process_table;
mod procfs_view;
mod program_table;
mod reactor;
mod readiness;
mod ready;
mod restorer;
mod rtnetlink;
mod sched;
mod scm_rights;
mod shared_files;
mod shared_ring;
mod signal_poll;
mod spawn;
mod splice;
mod stale;
mod statistics;
mod status;
mod supervisor;
mod syscall_ctx;
mod tasks;
mod timeouts;
mod trace;
mod tracee;
mod transfer;
mod tun;
mod virtual_paths;
mod watches;
mod wire_spin;
mod worker;

pub use binding::set_port_policy;
pub use error::Error;
pub use namespaces::NamespaceConfig;
pub use polling::CallsForm;
pub use port_policy::PortPolicy;
pub use program_table::ProgramId;
pub use sched::{Called, Charge, Observer, VirtualTime};
pub use spawn::{Program, Stdio};
pub use statistics::Statistics;
pub use status::Status;
pub use trace::call_name;
pub use trace::subscriber::{TraceEvent, TraceSubscriber, TraceTime};
pub use vink_ring::IN_OWN_PROCESS;
pub use worker::Worker;
