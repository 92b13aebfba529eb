//! Everything that can go wrong between a host program and an image.

use std::path::PathBuf;

use crate::Panic;

/// An error of this crate. Each says what was tried, what was found and what can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no image where one was looked for.
    #[error("no image found: looked at {}; build one with `make stack` or set VINK_IMAGE to its path", list(.looked_at))]
    NotFound {
        /// Every path that was tried, in order.
        looked_at: Vec<PathBuf>,
    },
    /// No image has this name.
    #[error(
        "no image {name:?}: there are {}; `vink image build --name {name}` makes one, \
         and a path to an image has a slash in it", .known.join(", ")
    )]
    NoSuchName {
        /// The name.
        name: String,
        /// Those of the images found.
        known: Vec<String>,
    },
    /// The file can't be loaded or lacks a symbol of the contract.
    #[error("{} is not a Vink image: {why}; build one with `make stack`", .path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// The loader's words.
        why: String,
    },
    /// The image speaks another version of `vink/abi.h`.
    #[error(
        "{} speaks version {found} of vink/abi.h, this program version {wanted}; \
         build the image and the program from the same tree (`make stack`)", .path.display()
    )]
    AbiVersion {
        /// The image's version.
        found: u32,
        /// The version of this crate.
        wanted: u32,
        /// The image.
        path: PathBuf,
    },
    /// glibc has no link-map namespace (16 in all), or this crate no slot, for one more copy.
    #[error(
        "can't load one more copy of {}: {why}; a process holds 16 copies of one image at most: \
         drop a Kernel or use another process", .path.display()
    )]
    TooManyImages {
        /// The image.
        path: PathBuf,
        /// The loader's words.
        why: String,
    },
    /// The arena is too small or can't be had.
    #[error("an arena of {bytes} bytes: {why}")]
    Arena {
        /// The size asked for.
        bytes: u64,
        /// What is wrong with it and what would be right.
        why: String,
    },
    /// The kernel panicked, now or in an earlier call. It never runs again.
    #[error("{0}")]
    Panic(Box<Panic>),
    /// The kernel or the system refused.
    #[error("{what}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Errno {
        /// What was tried.
        what: &'static str,
        /// A positive errno(3) value.
        errno: i32,
    },
    /// The task has a call in progress, or a finished one whose outcome was not taken, or is a
    /// fiber.
    #[error("the task is busy: poll() its outcome, cancel() its call, or wait for it")]
    Busy,
    /// The task never existed, is exiting, or is gone.
    #[error("there is no such task (any more)")]
    NoSuchTask,
    /// The machine never existed or was destroyed.
    #[error("there is no such machine (any more)")]
    NoSuchMachine,
    /// The wire never existed or was destroyed.
    #[error("there is no such wire (any more)")]
    NoSuchWire,
    /// The end never existed, was detached, or has gone with its wire or machine.
    #[error("there is no such end of a wire (any more)")]
    NoSuchEnd,
    /// A call waits, no timer is armed and nothing else can end it. It was cancelled.
    #[error(
        "the call would wait for ever (no timer is armed): it was cancelled; start() it instead"
    )]
    Stuck,
    /// What the kernel is asked for by the host itself has not been done; it may still be.
    #[error(
        "{what}: the kernel is still waiting for a lock or for memory after 10 s; \
         if its memory is full, give it a larger arena"
    )]
    Hung {
        /// What was tried.
        what: &'static str,
    },
    /// A fork(2) of the process would not have a kernel of its own.
    #[error("a copy of this kernel by fork(2) would share {what} with it: do without that")]
    Shared {
        /// What.
        what: &'static str,
    },
    /// A kernel with live fibers was used from another thread than the one that made them.
    #[error("this kernel has fibers that were made on another thread: use it from that one")]
    WrongThread,
}

fn list(paths: &[PathBuf]) -> String {
    let words: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
    words.join(", ")
}
