//! The protocol between the control process and a lab worker, over a unix stream socket.
//!
//! Each message is a frame: its length (4 bytes, big endian, at most [`MAX_FRAME`]) and that many
//! bytes of JSON. The first frame is the [`WorkerConfig`], the others are a [`Request`] to the
//! worker or a [`Message`] from it. Descriptors travel by `SCM_RIGHTS` with a frame's first byte,
//! as many as its kind says. Requests are carried out and answered in order, but a pod may be loaded
//! while others are. Events come in between. Either side ends when the other closes its socket.

mod channel;
mod config;
mod descriptors;
mod feed;
mod filter;
mod frame;
mod host;
mod message;

pub use channel::Channel;
pub use config::{WorkerClock, WorkerConfig};
pub use descriptors::{receive_with, send_with};
pub use feed::{EndNumber, FeedDetail, FeedHeader, FeedKind, FeedRequest, FEED_HEADER};
pub use filter::{Filter, Instruction, MAX_COMPILE_SECONDS};
pub use frame::{encode, FrameDecoder, MAX_FRAME};
pub use host::{FromHost, Given, Hello, ToHost, HOST_VERSION};
pub use message::*;
