//! A line that can't be understood.

/// What is wrong with a line, and how it is written right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    /// With these words: what was expected, and what was found.
    pub(crate) fn new(text: impl Into<String>) -> ParseError {
        ParseError(text.into())
    }
}
