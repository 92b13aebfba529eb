//! What a branch of a run is: a copy of the lab, taken in the middle of the kernel's question about a packet.
//! Two copiers do the same:
//!
//! - `fork`: a copy is a process ([`forks`](crate::forks) says what it shares). Works everywhere.
//! - `pages`: one process, whose pages are put back when a branch has ended. Some times faster. Linux 6.7.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{fork, pages};
use crate::forks::Death;
use crate::runner::Runner;
use crate::Error;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopierKind {
    /// A process for each branch.
    Fork,
    /// The pages of one process are put back.
    Pages,
}

impl CopierKind {
    /// The faster one that this host has; why not `pages`, if it is not that.
    pub fn best() -> (CopierKind, Option<String>) {
        match pages::Pages::probe() {
            Ok(()) => (CopierKind::Pages, None),
            Err(error) => (CopierKind::Fork, Some(error.to_string())),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            CopierKind::Fork => "fork",
            CopierKind::Pages => "pages",
        }
    }

    /// For a process that goes along a run, to be made in it, before the run begins.
    pub(crate) fn copier(self, runner: &mut Runner) -> Result<Arc<dyn Copier>, Error> {
        Ok(match self {
            CopierKind::Fork => Arc::new(fork::Fork::new(runner)?),
            CopierKind::Pages => Arc::new(pages::Pages::new()?),
        })
    }
}

impl FromStr for CopierKind {
    type Err = String;

    fn from_str(text: &str) -> Result<CopierKind, String> {
        match text {
            "fork" => Ok(CopierKind::Fork),
            "pages" => Ok(CopierKind::Pages),
            other => Err(format!("{other:?} is no engine: there are fork and pages")),
        }
    }
}

/// Why an engine has given up, if that is why its process has ended.
pub(crate) fn gave_up(how: Death) -> Option<Error> {
    match how {
        Death::Status(pages::FULL) => Some(Error::Shared(
            "its runs write more pages than can be put back: explore it with --engine fork"
                .to_owned(),
        )),
        Death::Status(pages::UNKNOWN) => Some(Error::Shared(
            "the host does not tell which pages were written: explore it with --engine fork"
                .to_owned(),
        )),
        _ => None,
    }
}

/// What a point at which a run branches knows of its branches.
pub(crate) trait Branches {
    /// Whether the branch of this number is to be gone along. Asked once for each, in their order, before it
    /// begins.
    fn wants(&mut self, branch: usize) -> bool;

    /// The process of a branch has died.
    fn died(&mut self, branch: usize, how: Death);
}

/// Takes copies of this process.
pub(crate) trait Copier: Send + Sync {
    /// Returns once for each of so many branches that are wanted, with its number, and in the end with
    /// `None`: each time with all as it was at the first call, but for what is shared
    /// ([`Claims`](crate::forks::Claims)). `depth` is the number of branches that this process is in.
    ///
    /// # Errors
    /// No copy can be made.
    fn branch(
        &self,
        depth: usize,
        count: usize,
        branches: &mut dyn Branches,
    ) -> Result<Option<usize>, Error>;

    /// The branch, the last of so many that this process is in, has come to its end.
    fn end(&self, depth: usize) -> !;
}
