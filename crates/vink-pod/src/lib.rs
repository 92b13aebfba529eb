//! Pods: code on the path of packets or of a stream, in a protection domain of its own.
//!
//! A pod's code sees `include/vink/pod.h` and nothing else, whatever the wall around it. Here it is
//! a [`Pod`]: a [`Batch`] of calls goes in, by one crossing of the wall, and comes back with the
//! answers and with what the pod has emitted, logged and counted. A pod that does what it may not
//! ends with a [`Fault`], and harms nothing else.

mod alone;
mod batch;
pub mod calls;
mod chain;
mod file;
pub mod key;
mod load;
mod none;
mod path;
pub mod process;
mod room;
mod shed;
mod stack;
mod stream;
mod ticks;
mod wall;
mod wasm;

pub use batch::{Batch, Call, Emitted, Entry, COUNTERS, ROOM};
pub use chain::{Chain, Stage, StreamEnded};
pub use load::{cycles, initialised, load, Loaded, Source};
pub use path::{Account, Budget, Meter, OpenPath, OpenPaths, PathNumbers};
pub use shed::{Shedder, LOAD};
pub use stack::Stack;
pub use stream::{Next, Pace, Stream, Tier, TierNumbers};
pub use wall::{Fault, Limits, LoadError, Pod, Wall};
