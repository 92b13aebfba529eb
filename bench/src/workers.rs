//! Two workers, each with a kernel and a thread of its own, joined by shared memory, or as two hosts are.

use std::net::UdpSocket;
use std::sync::mpsc::{channel, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use vink_kernel::Fiber;
use vink_lab::{shared, Half, Machine, UplinkAttachment};
use vink_port::{Backend, Keys, SealedBackend, UdpBackend, KEY};
use vink_trap::Worker;

use crate::side::Round;
use crate::vink::{boot, start, ARENA};
use crate::work::{self, Socket, BULK};
use crate::BoxError;

/// What each of the two does in a round.
type Work = fn(&Fiber) -> Result<f64, BoxError>;

const SERVER: [u8; 4] = [10, 0, 0, 2];
/// Bytes of a transfer in packets of 1500 bytes, which takes longer.
const LESS: u64 = BULK / 16;

/// What one of the two is joined to the other by.
enum Joint {
    Memory(Half),
    Backend(Box<dyn Backend + Send>),
}

type Joints = fn() -> Result<[Joint; 2], BoxError>;

/// Throughput from one to the other.
pub(crate) fn transfer() -> Result<Round, BoxError> {
    let server: Work = |fiber| work::receive(&Socket::listener(fiber)?, BULK);
    let client: Work = |fiber| work::send(fiber, SERVER, BULK).map(|()| 0.0);
    round(memory, server, client, |received, _| received)
}

/// The same with encrypted datagrams in between, and with plain ones.
pub(crate) fn hosts() -> Result<Round, BoxError> {
    let server: Work = |fiber| work::receive(&Socket::listener(fiber)?, LESS);
    let client: Work = |fiber| work::send(fiber, SERVER, LESS).map(|()| 0.0);
    let by = |joints| round(joints, server, client, |received, _| received);
    let (mut sealed, mut plain) = (by(sealed)?, by(plain)?);
    Ok(Box::new(move || Ok([sealed()?, plain()?].concat())))
}

fn memory() -> Result<[Joint; 2], BoxError> {
    Ok(shared()?.map(Joint::Memory))
}

fn sealed() -> Result<[Joint; 2], BoxError> {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0"));
    let (one, other) = (one?, other?);
    let peer = other.local_addr()?;
    let keys = |send: u8, receive: u8| Keys {
        send: [send; KEY],
        receive: [receive; KEY],
    };
    // One of both has to know where the other is.
    let one = SealedBackend::new(one.into(), Some(peer), &keys(1, 2))?;
    let other = SealedBackend::new(other.into(), None, &keys(2, 1))?;
    Ok([
        Joint::Backend(Box::new(one)),
        Joint::Backend(Box::new(other)),
    ])
}

fn plain() -> Result<[Joint; 2], BoxError> {
    // Both are bound at once, so that they differ, and then free for the backends.
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0"));
    let (one, other) = (one?.local_addr()?, other?.local_addr()?);
    let (first, second) = (UdpBackend::open(one, other)?, UdpBackend::open(other, one)?);
    Ok([
        Joint::Backend(Box::new(first)),
        Joint::Backend(Box::new(second)),
    ])
}

/// Round trips.
pub(crate) fn round_trips() -> Result<Round, BoxError> {
    let server: Work = |fiber| work::echo(&Socket::listener(fiber)?).map(|()| 0.0);
    let client: Work = |fiber| work::ping(fiber, SERVER);
    round(memory, server, client, |_, pinged| pinged)
}

fn round(
    joints: Joints,
    server: Work,
    client: Work,
    figure: fn(f64, f64) -> f64,
) -> Result<Round, BoxError> {
    Ok(Box::new(move || {
        let [ours, theirs] = joints()?;
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
    fn new(joint: Joint, address: &str) -> Result<Site, BoxError> {
        let mut kernel = boot(ARENA)?;
        let machine = Machine::new(&mut kernel, "alone")?;
        let mut worker = Worker::new(kernel)?;
        let outside = match joint {
            Joint::Memory(half) => {
                UplinkAttachment::attach_half(&mut worker, &machine, "wire0", half)?
            }
            Joint::Backend(backend) => {
                UplinkAttachment::attach_backend(&mut worker, &machine, "wire0", backend)?
            }
        };
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
    fn start(joint: Joint, work: Work, ready: Sender<()>) -> Other {
        let serve = move || -> Result<f64, BoxError> {
            let mut site = Site::new(joint, "10.0.0.2")?;
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
