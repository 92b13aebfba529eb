//! Why there is no stack in this process.

use vink_lab::HELPER;

/// What went wrong at boot. Each says what was tried, what was found and what can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable of the environment can't be read as what it stands for.
    #[error("{name}={value}: {why}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What it is.
        value: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// This program is itself what a stack has started: it would start the next one.
    #[error(
        "{0} was started by the network stack of a program run with --in-process, and must not have one: take {HELPER} out of the \
         environment if it wasn't, or libvink_preload.so out of what preloads it"
    )]
    Helper(String),
    /// There is no image, or it does not boot.
    #[error(transparent)]
    Kernel(#[from] vink_kernel::Error),
    /// The machine or its uplink could not be set up.
    #[error(transparent)]
    Lab(#[from] vink_lab::Error),
    /// The host refused something.
    #[error("{what}: {}", std::io::Error::from_raw_os_error(*.errno))]
    System {
        /// What was tried.
        what: &'static str,
        /// A positive errno(3) value.
        errno: i32,
    },
}
