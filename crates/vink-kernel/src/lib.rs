//! Load an image (the Linux network stack as a shared object), boot it, drive it.
//!
//! Theory of operation: an [`Image`] is one private copy of the file in this process;
//! [`Kernel::boot`] gives it memory and makes it run, but only while the caller is inside a method
//! of [`Kernel`]: there are no threads here. A machine is a host of its own inside the kernel;
//! tasks make system calls in it, either from outside ([`Kernel::start`], [`Kernel::run`],
//! [`Kernel::poll`]) or as fibers of this process ([`Kernel::fiber`]), for which a system call is a
//! function call.
//!
//! ```no_run
//! # fn main() -> Result<(), vink_kernel::Error> {
//! use vink_kernel::{find_image, Config, Image, Kernel};
//! let mut kernel = Kernel::boot(Image::open(&find_image()?)?, Config::default())?;
//! let machine = kernel.machine("alice")?;
//! let task = kernel.task(machine)?;
//! let pid = kernel.call(task, libc::SYS_getpid, [0; 6])?;
//! # Ok(()) }
//! ```
//!
//! The crate is safe to use with one exception, which is that of syscall(2): the addresses among a
//! system call's arguments are numbers, and the kernel writes where they point to.

mod arena;
mod clock;
mod counter;
mod credentials;
mod device;
mod enter;
mod error;
mod fault;
mod fiber;
mod flight;
mod fork;
mod host;
mod image;
mod image_file;
mod kernel;
mod numbered;
mod panic;
pub mod paths;
mod probe;
mod put;
mod ring;
mod shared;
mod slot;
mod symbols;
mod task;
mod user;
mod verdict;
pub mod watchdog;
mod wire;

pub use clock::{monotonic, stood_still, Clock};
pub use credentials::Credentials;
pub use device::{watch, Device, DeviceHost, DeviceId, Interest};
pub use enter::Entered;
pub use error::Error;
pub use fiber::Fiber;
pub use flight::{Flight, Hear};
pub use host::Console;
pub use image::{cache, find_image, find_image_beside, image_named, images, name_of_image, Image};
pub use image_file::ImageFile;
pub use kernel::{Config, Kernel};
pub use numbered::{Numbered, Serial};
pub use panic::{Frame, Panic};
pub use probe::{Copied, ProbeHit, ProbeId};
pub use put::{Puts, Replace};
pub use ring::{Ring, RingId};
pub use task::{Call, CloneKind, Event, MachineId, Outcome, SendMode, TaskId};
pub use verdict::{Answer, Hold, PacketHooks, PacketQuery, Verdict};
pub use vink_abi::{Counters, EndCounts, WireStats as WireStatistics};
pub use vink_port::{halves, Half, PeerState};
pub use wire::{
    Attachment, EndId, Loss, LossCause, PacketEvent, PacketKind, Trace, WireId, WireKind,
    WireSettings,
};
