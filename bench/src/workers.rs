//! Two workers, each with a kernel and a thread of its own, joined by shared memory.

use std::sync::mpsc::{channel, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use vink_kernel::Fiber;
use vink_lab::{shared, Half, Machine, UplinkAttachment};
use vink_trap::Worker;

use crate::side::Round;
use crate::vink::{boot, start, ARENA};
use crate::work::{self, Socket, BULK};
use crate::BoxError;

/// What each of the two does in a round.
type Work = fn(&Fiber) -> Result<f64, BoxError>;

const SERVER: [u8; 4] = [10, 0, 0, 2];

/// Throughput from one to the other.
pub(crate) fn transfer() -> Result<Round, BoxError> {
    let server: Work = |fiber| work::receive(&Socket::listener(fiber)?, BULK);
    let client: Work = |fiber| work::send(fiber, SERVER, BULK).map(|()| 0.0);
    round(server, client, |received, _| received)
}

/// Round trips.
pub(crate) fn round_trips() -> Result<Round, BoxError> {
    let server: Work = |fiber| work::echo(&Socket::listener(fiber)?).map(|()| 0.0);
    let client: Work = |fiber| work::ping(fiber, SERVER);
    round(server, client, |_, pinged| pinged)
}

fn round(server: Work, client: Work, figure: fn(f64, f64) -> f64) -> Result<Round, BoxError> {
    Ok(Box::new(move || {
        let [ours, theirs] = shared()?;
        let (ready, when_ready) = channel();
        let thread = Other::start(theirs, server, ready);
        let mut site = Site::new(ours, "10.0.0.1")?;
        let outside = &site.outside;
        site.worker.run_until(|_| outside.state().link.is_up())?;
        // It has ended if there is no word of it.
        let _ = when_ready.recv();
        let sent = site.work(client, || {});
        // What it has sent may still wait in its kernel.
        while !thread.0.is_finished() {
            site.worker.step(Some(Duration::from_millis(1)))?;
        }
        let received = thread.join()?;
        Ok(vec![Some(figure(received, sent?))])
    }))
}

/// A worker's machine at the wire.
struct Site {
    worker: Worker,
    machine: Machine,
    outside: UplinkAttachment,
}

impl Site {
    fn new(half: Half, address: &str) -> Result<Site, BoxError> {
        let mut kernel = boot(ARENA)?;
        let machine = Machine::new(&mut kernel, "alone")?;
        let mut worker = Worker::new(kernel)?;
        let outside = UplinkAttachment::attach_half(&mut worker, &machine, "wire0", half)?;
        let (kernel, network) = (worker.kernel(), machine.network);
        network.address(kernel, "wire0", address.parse()?, 24)?;
        network.up(kernel, "wire0")?;
        Ok(Site {
            worker,
            machine,
            outside,
        })
    }

    /// Runs a fiber to its end; `waits` is called when it first waits.
    fn work(&mut self, work: Work, waits: impl FnOnce()) -> Result<f64, BoxError> {
        let outcome = start(self.worker.kernel(), self.machine.id, work)?;
        self.worker.step(Some(Duration::ZERO))?;
        waits();
        self.worker.run_until(|_| outcome.is_there())?;
        outcome.take()
    }
}

/// The other worker's thread.
struct Other(JoinHandle<Result<f64, String>>);

impl Other {
    fn start(half: Half, work: Work, ready: Sender<()>) -> Other {
        let serve = move || -> Result<f64, BoxError> {
            let mut site = Site::new(half, "10.0.0.2")?;
            site.work(work, || {
                // It has no receiver if the other one has failed.
                let _ = ready.send(());
            })
        };
        Other(std::thread::spawn(move || {
            serve().map_err(|error| error.to_string())
        }))
    }

    fn join(self) -> Result<f64, BoxError> {
        let joined = self.0.join().map_err(|_| "the other worker panicked")?;
        Ok(joined?)
    }
}
