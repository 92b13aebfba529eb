//! The kernel of a lab, by itself or inside a worker that serves trapped programs: both go from one
//! event to the next in the same way.

use std::time::{Duration, Instant};

use vink_kernel::Kernel;
use vink_spec::Virtual;
use vink_trap::{Charge, VirtualTime, Worker};

use crate::Error;

/// How long programs may be busy between two moments of the lab's clock, by the host's: one that is so for
/// longer does not end.
const BUSY_LIMIT: Duration = Duration::from_secs(60);
/// How often that is looked at.
const GLANCE: Duration = Duration::from_secs(1);

/// See the head of the file.
pub(crate) enum Stack {
    /// It is copied with its process.
    Kernel(Box<Kernel>),
    /// It has programs of the host, and stays where it is.
    Worker(Box<Worker>),
    /// While it becomes that.
    Neither,
}

impl Stack {
    /// Lets a worker have the kernel, for trapped programs. Its threads take turns as the seed has it.
    pub fn serve_programs(&mut self, seed: u64, time: Virtual) -> Result<&mut Worker, Error> {
        if let Stack::Kernel(_) = self {
            let Stack::Kernel(kernel) = std::mem::replace(self, Stack::Neither) else {
                unreachable!("just seen");
            };
            let mut worker = Worker::new(*kernel)?;
            worker.set_time(VirtualTime {
                seed: Some(seed),
                charge: Charge {
                    call: time.call.map_or(Duration::ZERO, |call| call.duration()),
                    ..Charge::default()
                },
                tsc: time.rdtsc,
            });
            // Packets may wait for a timer that any of them is.
            worker.set_max_jumps(1);
            worker.set_horizon(worker.now());
            *self = Stack::Worker(Box::new(worker));
        }
        Ok(self.worker().expect("just made"))
    }

    /// The worker, if there is one.
    pub fn worker(&mut self) -> Option<&mut Worker> {
        match self {
            Stack::Worker(worker) => Some(worker),
            _ => None,
        }
    }

    /// The kernel, which runs no further meanwhile.
    pub fn kernel(&mut self) -> &mut Kernel {
        match self {
            Stack::Kernel(kernel) => kernel,
            Stack::Worker(worker) => worker.kernel(),
            Stack::Neither => unreachable!("it is one of both"),
        }
    }

    /// The clock of the machines, ns.
    pub fn now(&self) -> u64 {
        match self {
            Stack::Kernel(kernel) => kernel.now(),
            Stack::Worker(worker) => worker.now(),
            Stack::Neither => 0,
        }
    }

    /// Lets all go on that can go on at this time. When the next timer is, ns; `None`: there is none.
    ///
    /// # Errors
    /// A panic of the kernel; [`Error::Busy`].
    pub fn settle(&mut self) -> Result<Option<u64>, Error> {
        let worker = match self {
            Stack::Worker(worker) => worker,
            other => return Ok(other.kernel().settle()?),
        };
        worker.mark_kernel_dirty();
        let since = Instant::now();
        while !worker.is_idle() {
            worker.step(Some(GLANCE))?;
            if since.elapsed() > BUSY_LIMIT {
                return Err(Error::Busy(BUSY_LIMIT.as_secs()));
            }
        }
        Ok(worker.next_timer())
    }

    /// Lets the clock go on to this time, at which the next [`Stack::settle`] is.
    pub fn wait(&mut self, until: u64) {
        match self {
            Stack::Worker(worker) => worker.set_horizon(until),
            other => other.kernel().wait(until),
        }
    }

    /// Ends all trapped programs, and waits for them.
    pub fn end(&mut self) {
        if let Stack::Worker(_) = self {
            *self = Stack::Neither;
        }
    }
}
