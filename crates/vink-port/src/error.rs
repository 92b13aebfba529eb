//! Why there is no way to the outside.

/// What was tried, what was found, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An uplink.
    #[error("{0}")]
    Uplink(String),
}
