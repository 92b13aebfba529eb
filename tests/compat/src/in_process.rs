//! The third side: each program with a stack in its own process, and a wire between the two that are there.
//!
//! A program that has sockets is a machine of its own, with its end's addresses; one at an end at a time. All
//! of them are in a network namespace of the host where nothing is.

use std::path::Path;
use std::time::Instant;

use crate::host::Host;
use crate::side::{Command, End, Ends, Job};
use crate::BoxError;

/// The processes.
pub(crate) struct InProcess {
    host: Host,
    library: String,
    wire: String,
}

impl InProcess {
    /// The wire's ends meet at a socket in this folder.
    pub fn new(folder: &Path) -> Result<InProcess, BoxError> {
        let library = std::env::var("VINK_PRELOAD")?;
        Ok(InProcess {
            host: Host::bare()?,
            library,
            wire: format!("wire:{}", folder.join("wire").display()),
        })
    }
}

impl Ends for InProcess {
    fn start(&mut self, end: End, command: Command) -> Result<Job, BoxError> {
        let preload = format!("LD_PRELOAD={}", self.library);
        let uplink = format!("VINK_UPLINK={}", self.wire);
        let addresses = format!("VINK_ADDRESS={}", end.addresses().join(","));
        let name = format!("VINK_NAME={}", end.name());
        // A hundred busy connections have buffers of more than the tenth of the memory that TCP may have. It then
        // shrinks windows, and with both sides short of memory Linux 6.12 refuses the acknowledgements of both.
        let arena = "VINK_ARENA=1G";
        let mut argv = vec!["env", &preload, &uplink, &addresses, &name, arena];
        argv.extend(command.argv);
        let command = Command {
            argv: &argv,
            ..command
        };
        self.host.start(end, command)
    }

    fn status(&mut self, job: Job) -> Result<Option<i32>, BoxError> {
        self.host.status(job)
    }

    fn signal(&mut self, job: Job, signal: i32) -> Result<(), BoxError> {
        self.host.signal(job, signal)
    }

    fn wait(&mut self, jobs: &[Job], until: Instant) -> Result<(), BoxError> {
        self.host.wait(jobs, until)
    }

    fn clear(&mut self) -> Result<(), BoxError> {
        self.host.clear()
    }
}
