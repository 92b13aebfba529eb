//! Rings whose other side writes nonsense: malformed packets in good frames, impossible counters,
//! frames that change while they are copied.
//!
//! A kernel and an end without one ([`End`]) must survive each such process, and the kernel must
//! serve a well-behaved one meanwhile.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use vink_kernel::{halves, Attachment, EndId, Half, Kernel, PeerState, WireId, WireKind};
use vink_lab::Machine;
use vink_port::{complete, End, Taken, HEADER, LARGEST_SHARED, SIZE};
use vink_sys::mapping::{Mapping, Pages};
use vink_trap::Worker;

use crate::packets;
use crate::random::Random;
use crate::stage::on_machine;
use crate::watch::BoxError;

/// Processes at the other side that one round has; what each does before it ends.
const PEERS: u64 = 8;
const TURNS: u64 = 60;
/// Bytes of control words before a ring (`struct vink_pipe` of abi.h), and where they are.
const CONTROL: usize = 4096;
const WORDS: [usize; 5] = [0, 128, 256, 384, 512];
/// Turns of the kernel until a well-behaved process must have its answer, and until an end is noticed.
const ANSWER_TURNS: u32 = 1000;

/// Has one round of such processes at a machine's interface, and at an end without a kernel.
pub(crate) fn spoil_some(worker: &mut Worker, random: &mut Random) -> Result<(), BoxError> {
    for _ in 0..PEERS {
        spoil_end(random)?;
    }
    on_machine(worker, |worker, machine| {
        let kernel = worker.kernel();
        let good = Interface::new(kernel, machine, "good", packets::GOOD)?;
        let bad = Interface::new(kernel, machine, "bad", packets::BAD)?;
        let mut neighbour = Neighbour::new(kernel, good.wire)?;
        for _ in 0..PEERS {
            spoil_kernel(kernel, bad.wire, &mut neighbour, random)?;
        }
        for interface in [good, bad] {
            kernel.destroy_wire(interface.wire)?;
        }
        Ok(())
    })
}

/// A machine's interface whose wire leads to another process.
struct Interface {
    wire: WireId,
}

impl Interface {
    fn new(
        kernel: &mut Kernel,
        machine: &Machine,
        name: &str,
        link: packets::Link,
    ) -> Result<Interface, BoxError> {
        let wire = kernel.wire(WireKind::PointToPoint)?;
        let attachment = Attachment {
            interface: name,
            address: Some(link.machine),
            mtu: None,
        };
        kernel.attach(wire, machine.id, attachment)?;
        for (address, prefix) in link.addresses() {
            machine.network.address(kernel, name, address, prefix)?;
        }
        machine.network.up(kernel, name)?;
        Ok(Interface { wire })
    }
}

/// A process that behaves well.
struct Neighbour {
    end: End,
    room: Vec<u8>,
    /// Echo requests that it has sent.
    sent: u16,
}

impl Neighbour {
    fn new(kernel: &mut Kernel, wire: WireId) -> Result<Neighbour, BoxError> {
        let [ours, theirs] = halves()?;
        let (end, _bell) = kernel.share(wire, ours)?;
        let neighbour = Neighbour {
            end: End::new(theirs)?,
            room: vec![0; HEADER + LARGEST_SHARED],
            sent: 0,
        };
        kernel.hear(end)?;
        Ok(neighbour)
    }

    /// Sends an echo request, which must be answered.
    fn ask(&mut self, kernel: &mut Kernel) -> Result<(), BoxError> {
        self.sent = self.sent.wrapping_add(1);
        let none = [0; HEADER];
        self.end.send(&none, &packets::arp_request(packets::GOOD));
        let echo = packets::echo_request(packets::GOOD, self.sent);
        self.end.send(&none, &echo);
        for _ in 0..ANSWER_TURNS {
            kernel.run()?;
            self.end.wake();
            while let Taken::Frame(length) = self.end.receive(&mut self.room) {
                if packets::is_echo_reply(&self.room[HEADER..length], self.sent) {
                    return Ok(());
                }
            }
            self.end.taken();
            self.end.go_on();
        }
        Err("a well-behaved process's echo request had no answer".into())
    }
}

/// Both directions of the memory that a process shares, to be written to anywhere.
struct Memory([Mapping; 2]);

impl Memory {
    fn new(half: &Half) -> io::Result<Memory> {
        let [sends, receives, _bell] = half.descriptors();
        let map = |file| {
            let mapping = Mapping::new(CONTROL + SIZE)?;
            mapping.replace(0..CONTROL + SIZE, Pages::Shared(file, 0))?;
            Ok::<_, io::Error>(mapping)
        };
        Ok(Memory([map(sends)?, map(receives)?]))
    }

    /// Writes a number to a place where numbers count.
    fn spoil(&self, random: &mut Random) {
        let at = match random.below(3) {
            0 => random.pick(&WORDS),
            // Where the first frames have their lengths and headers.
            1 => CONTROL + 8 * random.below(16) as usize,
            _ => CONTROL + 8 * random.below(SIZE as u64 / 8) as usize,
        };
        let small = random.next() >> random.below(64);
        let number = match random.chance(80) {
            true => small & !7,
            false => small,
        };
        let memory = &self.0[random.below(2) as usize];
        memory.write(at, &number.to_ne_bytes());
    }
}

/// A process that behaves badly.
struct Peer {
    end: End,
    memory: Memory,
}

impl Peer {
    fn new(half: Half) -> io::Result<Peer> {
        let memory = Memory::new(&half)?;
        let end = End::new(half)?;
        Ok(Peer { end, memory })
    }

    /// Sends something, most often in a good frame.
    fn go_mad(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(20) {
            let frame = packets::malformed(random);
            self.end.send(&packets::header(random, &frame), &frame);
        }
        if random.chance(15) {
            self.memory.spoil(random);
        }
        if random.chance(20) {
            let mut room = vec![0; HEADER + LARGEST_SHARED];
            while let Taken::Frame(_) = self.end.receive(&mut room) {}
        }
    }
}

/// Does something while a thread writes to the memory all the time, or does not.
fn while_it_changes<T>(
    memory: Option<Memory>,
    random: &mut Random,
    work: impl FnOnce(&mut Random) -> T,
) -> T {
    let over = AtomicBool::new(false);
    let mut its = random.split();
    std::thread::scope(|scope| {
        if let Some(memory) = memory {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    memory.spoil(&mut its);
                }
            });
        }
        let done = work(random);
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// Memory for a thread to write to, in some cases.
fn changing(half: &Half, random: &mut Random) -> io::Result<Option<Memory>> {
    random.chance(30).then(|| Memory::new(half)).transpose()
}

fn spoil_kernel(
    kernel: &mut Kernel,
    wire: WireId,
    neighbour: &mut Neighbour,
    random: &mut Random,
) -> Result<(), BoxError> {
    let [ours, theirs] = halves()?;
    let (end, bell) = kernel.share(wire, ours)?;
    let changing = changing(&theirs, random)?;
    let mut peer = Peer::new(theirs)?;
    kernel.hear(end)?;
    let served = while_it_changes(changing, random, |random| {
        for _ in 0..TURNS {
            peer.go_mad(random);
            kernel.may_sleep();
            kernel.run()?;
            neighbour.ask(kernel)?;
        }
        Ok::<_, BoxError>(())
    });
    drop(peer);
    leave(kernel, end, bell)?;
    served
}

/// Takes an end away whose other side is gone. What that has rung before is read first.
fn leave(kernel: &mut Kernel, end: EndId, bell: OwnedFd) -> Result<(), BoxError> {
    let mut state = kernel.hear(end)?;
    for _ in 0..ANSWER_TURNS {
        if let PeerState::Gone(_) = state {
            break;
        }
        state = kernel.hear(end)?;
    }
    drop(bell);
    kernel.detach(end)?;
    match state {
        PeerState::Gone(_) => Ok(()),
        state => Err(format!("a process has ended, and its line is {state:?}").into()),
    }
}

/// The same for an end in a process without a kernel, and for what it does with packets.
fn spoil_end(random: &mut Random) -> Result<(), BoxError> {
    let [ours, theirs] = halves()?;
    let changing = changing(&theirs, random)?;
    let mut peer = Peer::new(theirs)?;
    let mut end = End::new(ours)?;
    let mut room = vec![0; HEADER + LARGEST_SHARED];
    while_it_changes(changing, random, |random| {
        for _ in 0..TURNS {
            peer.go_mad(random);
            end.hear();
            // As many as the ring has room for, if it is to have an end.
            for _ in 0..SIZE / 32 {
                let Taken::Frame(length) = end.receive(&mut room) else {
                    break;
                };
                let (header, frame) = room[..length].split_at_mut(HEADER);
                let header: &[u8; HEADER] = (&*header).try_into()?;
                let mut longest = 0;
                complete(header, frame, &mut |packet| {
                    longest = longest.max(packet.len());
                });
                if longest + HEADER > length {
                    return Err(format!("a packet of {longest} bytes from {length}").into());
                }
            }
            end.taken();
            let frame = packets::malformed(random);
            end.send(&[0; HEADER], &frame);
            end.go_on();
        }
        Ok(())
    })
}
