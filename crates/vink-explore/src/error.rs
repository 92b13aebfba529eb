//! Why a lab can't be explored, or exploring has ended early.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel, or a panic that is no run's.
    #[error(transparent)]
    Kernel(#[from] vink_kernel::Error),
    /// A machine could not be made.
    #[error(transparent)]
    Machine(#[from] vink_lab::Error),
    /// The kernel's memory could not be read.
    #[error(transparent)]
    Memory(#[from] vink_pcb::Error),
    /// The worker of trapped programs.
    #[error(transparent)]
    Trap(#[from] vink_trap::Error),
    /// Programs are busy without an end: for so many seconds of the host's.
    #[error("programs have computed for {0} s while the lab's clock stood")]
    Busy(u64),
    /// An app.
    #[error(transparent)]
    App(#[from] vink_apps::Error),
    /// Something is wrong with the lab: what, and what to do.
    #[error("{0}")]
    Lab(String),
    /// A process would share something with its forks.
    #[error("a fork of this process would not be a copy of the lab: {0}")]
    Shared(String),
    /// The descriptor that it was told to look at has become readable.
    #[error("exploring was interrupted")]
    Interrupted,
    /// A system call failed.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: String,
        /// The system's word.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`: a system call failed while `what` was done.
    pub(crate) fn host(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |source| Error::Host { what, source }
    }
}
