//! Everything that can go wrong between the owner of apps and the apps.

use std::path::PathBuf;

use crate::AppId;

/// An error of this crate. Each says what was tried, what was found and what can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No words, or the first one is the name of no app.
    #[error("there is no app '{name}'; there are {}, and so:FILE", known.join(", "))]
    NoSuchName {
        /// As it was given; empty if there were no words.
        name: String,
        /// The names of those that there are.
        known: Vec<&'static str>,
    },
    /// The words after the name can't be understood.
    #[error("{app}: {why}; usage: {usage}")]
    Usage {
        /// The app's name.
        app: &'static str,
        /// What is wrong with which word.
        why: String,
        /// One line.
        usage: String,
    },
    /// A shared object can't be used.
    #[error("{}: {why}", .path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's words, or what is missing.
        why: String,
    },
    /// There is no app of this number, or its result has been taken.
    #[error("there is no app {0} (any more)")]
    NoSuchApp(AppId),
    /// The app has not ended.
    #[error("app {0} runs: stop it, or wait for it")]
    Running(AppId),
    /// The kernel refused, or is dead.
    #[error(transparent)]
    Kernel(#[from] vink_kernel::Error),
}
