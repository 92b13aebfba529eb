//! Which form the calls of a worker's programs have, and the library that gives them the shared one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use vink_kernel::Clock;
use vink_spec::Calls;
use vink_trap::{Program, Worker, IN_OWN_PROCESS};

use crate::loader::{find, hindrance, SCRIPTS, SHARED_CALLS};

/// How programs are started, so that their calls have the form that was asked for.
#[derive(Debug)]
pub struct CallsSetup {
    /// What dynamically linked programs are to load; `None`: their calls are trapped.
    library: Option<PathBuf>,
    /// Which form calls have at first, and why.
    form: String,
}

impl CallsSetup {
    /// All calls are trapped, for this reason.
    pub fn trapped(why: &str) -> CallsSetup {
        CallsSetup {
            library: None,
            form: format!("trapped: {why}"),
        }
    }

    /// Prepares a worker, before its first program.
    ///
    /// # Errors
    /// What is missing for `shared`, as a sentence. Without it `auto` means `trapped`.
    pub fn new(calls: Calls, worker: &mut Worker) -> Result<CallsSetup, String> {
        let is_virtual = worker.kernel().clock() == Clock::Virtual;
        match calls {
            Calls::Trapped => Ok(CallsSetup::trapped("by request")),
            Calls::Auto => Ok(match SHARED_CALLS.find() {
                Err(why) => CallsSetup::trapped(&why),
                // A command that a shell makes a child for takes longer to start with the library, and
                // seldom makes calls enough to gain that back.
                Ok(library) if is_virtual && worker.allow_shared_rings() => CallsSetup {
                    library: Some(library.with_file_name(IN_OWN_PROCESS)),
                    form: "trapped, but for sends and pipes of the only thread that runs"
                        .to_owned(),
                },
                Ok(_) if !worker.allow_shared_rings_when_often() => {
                    CallsSetup::trapped("there is one processor only")
                }
                Ok(library) => CallsSetup {
                    library: Some(library),
                    form: "trapped at first, shared while they come often".to_owned(),
                },
            }),
            Calls::Shared => {
                let library = SHARED_CALLS.find()?;
                if !worker.allow_shared_rings() {
                    return Err(
                        "shared calls need two processors, one of them for the stack: use auto"
                            .to_owned(),
                    );
                }
                Ok(CallsSetup {
                    library: Some(library),
                    form: "shared, by request, in dynamically linked programs".to_owned(),
                })
            }
        }
    }

    /// Which form calls have at first, and why.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// Has a program load the library, if the loader does that for such a program; else says why not.
    ///
    /// `path` is the value of `PATH` by which the program is found, `folder` the directory in which it is started.
    pub fn apply(
        &self,
        program: Program,
        path: &OsStr,
        folder: &Path,
    ) -> (Program, Option<String>) {
        let Some(library) = &self.library else {
            return (program, None);
        };
        let found = find(program.name(), path, folder);
        match found.and_then(|found| hindrance(&found, SCRIPTS)) {
            Some(why) => (program, Some(why)),
            None => (program.preload(library), None),
        }
    }
}
