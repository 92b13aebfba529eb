//! Virtualized processes: light programs that run inside the worker, as tasks of their machine.
//!
//! Theory of operation: an [`App`] is host code on a fiber of its machine (`vink_kernel::Fiber`).
//! It makes ordinary socket calls by [`Calls`], each of which is a function call into the kernel;
//! while one waits, everything else runs on. Thousands of them fit in one worker: an idle one costs
//! its stack's touched pages.
//!
//! [`Apps`] starts them by name (`echoserver -p 7`, `so:/path/lib.so ARGUMENTS`), tells what they
//! have done while they run ([`Report`]), and stops them: a flag that every call looks at, and a
//! signal of the kernel's own that ends the call they wait in with `EINTR`.
//!
//! They are driven by the thread that drives the kernel: each [`vink_kernel::Kernel::run`] runs
//! those that have something to do. So that a worker with busy ones hears its other clients too,
//! they give the thread back every millisecond ([`Calls`]).
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use vink_apps::Apps;
//! # let mut kernel: vink_kernel::Kernel = unimplemented!();
//! # let machine: vink_kernel::MachineId = unimplemented!();
//! let mut apps = Apps::new();
//! let words = ["echoserver", "-p", "7007"].map(str::to_owned);
//! let id = apps.start(&mut kernel, machine, &words)?;
//! kernel.run()?;
//! println!("{:?}", apps.status(id)?.report);
//! apps.stop(&mut kernel, id)?;
//! kernel.run()?;
//! let last = apps.take(id)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Writing one
//!
//! ```
//! use vink_apps::{App, AppError, Calls};
//!
//! /// Greets each client.
//! struct Greeter(u16);
//!
//! impl App for Greeter {
//!     fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
//!         let address = std::net::SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, self.0));
//!         let listener = calls.listen(address)?;
//!         calls.ready();
//!         loop {
//!             let (client, _) = listener.accept()?;
//!             client.send_all(b"hello\n")?;
//!         }
//!     }
//! }
//! ```
//!
//! In C: see `include/vink/app.h`.
//!
//! # Limits
//!
//! They share the worker's process: one that loops without making a call stops the whole worker,
//! and a C app that writes where it must not may end it. A panic ends the app alone. An app's stack
//! has 256 KiB, shared with the kernel below its calls: keep large buffers on the heap.

mod address;
mod app;
mod apps;
mod arguments;
mod arrivals;
mod builtin;
mod calls;
mod dns_server;
mod echo;
mod error;
mod handle;
mod histogram;
mod http_client;
mod http_server;
mod names;
mod ping;
mod random;
mod relay;
mod report;
mod round_trips;
mod series;
mod server;
mod shared_object;
mod sink;
mod smoltcp;
mod socket;
mod source;
mod stamp;
mod steps;
mod stream;

pub use address::Target;
pub use app::{App, AppError};
pub use apps::{AppId, Apps, Help, Output, State, Status};
pub use calls::Calls;
pub use error::Error;
pub use handle::Observer;
pub use names::Names;
pub use report::{
    Arrived, Delay, DnsReport, EchoReport, FlowReport, HttpReport, Latency, PingReport, Protocol,
    RelayReport, Report, ServerReport, SinkReport, SourceReport, StreamReport, TierReport,
};
pub use series::Interval;
pub use socket::{Control, Epoll, Socket};
