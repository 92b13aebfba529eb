//! What is left of a kernel that panicked.

use std::fmt;

/// A kernel panic: the last words and the way there.
#[derive(Clone, Debug)]
pub struct Panic {
    /// The panic's one line.
    pub message: String,
    /// The kernel's log up to it (its end, if it was long).
    pub log: String,
    /// Innermost first.
    pub backtrace: Vec<Frame>,
}

/// One code address, with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The address in this process.
    pub addr: u64,
    /// The function's name and the offset into it; `None` outside the image.
    pub symbol: Option<(String, u64)>,
    /// `file:line`, if the image's debug information tells.
    pub location: Option<String>,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.symbol {
            Some((name, offset)) => write!(f, "{name}+{offset:#x}")?,
            None => write!(f, "{:#x}", self.addr)?,
        }
        match &self.location {
            Some(location) => write!(f, " ({location})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel panic: {}", self.message)?;
        for frame in &self.backtrace {
            write!(f, "\n    {frame}")?;
        }
        Ok(())
    }
}
