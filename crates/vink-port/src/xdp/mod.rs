//! A receive queue of the host's interface as the host's side of an uplink, by AF_XDP: its frames come to this process
//! before the host's stack has them, without a copy where the interface's driver can, and the host gets none of them.
//!
//! Frames are as they were on the cable: whole, and no longer than the MTU. Only a virtual interface (veth) leaves a
//! checksum undone, which shows: its field has the sum of the pseudo header alone.

mod program;
mod ring;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use vink_sys::mapping::Mapping;
use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets, xdp_options, xdp_statistics,
};
use vink_sys::rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XdpDesc, XdpDescOptions, XdpOptionsFlags, XdpUmemReg,
    XdpUmemRegFlags,
};
use vink_sys::rustix::net::{
    bind, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

use crate::backend::{Backend, Deliver, LinkState, Offloads, Stop, HEADER, LARGEST};
use crate::monitor::{HostLink, Monitor};
use crate::packet::promiscuous;
use crate::poll::{Poll, Timer, INPUT};
use crate::segment::partial;
use crate::Error;

use program::Program;
use ring::{bytes, Ring, ENTRIES};

/// Bytes of a frame's place, a page.
const FRAME: usize = 4096;
/// As many to receive into as to send from.
const FRAMES: usize = 2 * ENTRIES as usize;
/// What the host leaves free in front of a frame, and what may be around a packet.
const AROUND: usize = 256 + 18;
/// Frames that are received before it is the other side's turn.
const BUDGET: usize = 64;
/// How soon the host is asked again that had no room.
const AGAIN: Duration = Duration::from_millis(1);

/// Where the rings are in the socket's memory: linux/if_xdp.h, `XDP_PGOFF_*` and `XDP_UMEM_PGOFF_*`.
const RECEIVED_AT: u64 = 0;
const SENT_AT: u64 = 0x8000_0000;
const FILL_AT: u64 = 0x1_0000_0000;
const COMPLETION_AT: u64 = 0x1_8000_0000;

/// One queue's socket, and the program that leads frames to it.
pub struct XdpBackend {
    name: String,
    monitor: Monitor,
    link: HostLink,
    index: u32,
    mtu: u32,
    poll: Poll,
    /// Runs while the host has no room.
    timer: Timer,
    is_full: bool,
    queue: Queue,
    program: Program,
    /// Has the interface take frames for any address.
    _promiscuous: OwnedFd,
    scratch: Box<[u8]>,
    lost: u64,
}

impl XdpBackend {
    /// Opens this receive queue of the interface of this name.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open(name: &str, queue: u16) -> Result<XdpBackend, Error> {
        let fail = |error: io::Error| {
            let why = match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    "; AF_XDP takes CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: run it as root"
                }
                Some(libc::ENODEV) => "; ip link shows those that there are",
                Some(libc::EINVAL) => "; is there such a queue? ethtool --show-channels tells",
                Some(libc::EBUSY) => {
                    "; another program has XDP at this interface, or this queue: ip link shows it"
                }
                Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP) => {
                    "; the host's Linux, or this interface, has no AF_XDP: interface:NAME without --xdp does without"
                }
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    "; 16 MiB of locked memory are needed: ulimit -l"
                }
                _ => "",
            };
            Error::Uplink(format!(
                "the uplink interface:{name}, queue {queue}: {error}{why}"
            ))
        };
        let monitor = Monitor::new(name).map_err(fail)?;
        let link = monitor.now();
        let (HostLink::Down(index) | HostLink::Up { index, .. }) = link else {
            return Err(fail(io::Error::from_raw_os_error(libc::ENODEV)));
        };
        let mtu = monitor.mtu().map_err(fail)?;
        if mtu as usize + AROUND > FRAME {
            return Err(Error::Uplink(format!(
                "the uplink interface:{name}: its MTU is {mtu}, and AF_XDP has frames of at most {} bytes: \
                 ip link set {name} mtu 1500",
                FRAME - AROUND
            )));
        }
        let number = queue.into();
        let queue = Queue::open(index, number).map_err(fail)?;
        let program = Program::attach(index, number, &queue.socket).map_err(fail)?;
        let backend = XdpBackend {
            name: name.to_owned(),
            _promiscuous: promiscuous(index).map_err(fail)?,
            poll: Poll::new().map_err(fail)?,
            timer: Timer::new().map_err(fail)?,
            is_full: false,
            scratch: vec![0; LARGEST].into(),
            lost: 0,
            monitor,
            link,
            index,
            mtu,
            queue,
            program,
        };
        let poll = &backend.poll;
        poll.add(&backend.monitor, INPUT).map_err(fail)?;
        poll.add(&backend.timer, INPUT).map_err(fail)?;
        poll.add(&backend.queue.socket, INPUT).map_err(fail)?;
        Ok(backend)
    }

    /// How frames come here, for `--verbose`.
    pub fn describe(&self) -> String {
        let place = match self.program.is_native {
            true => "in the interface's driver",
            false => "in the host's stack",
        };
        let copies = match self.queue.is_zero_copy {
            true => "without a copy",
            false => "by a copy",
        };
        format!("XDP: {place}, {copies}")
    }
}

impl Backend for XdpBackend {
    fn offloads(&self) -> Offloads {
        Offloads::Received
    }

    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        if let Some(link) = self.monitor.news() {
            self.link = link;
        }
        let name = &self.name;
        match self.link {
            _ if self.is_gone() => LinkState::Down(format!("the host's interface {name} is gone")),
            HostLink::Up { carrier: true, .. } => LinkState::Up,
            HostLink::Up { .. } => {
                LinkState::Down(format!("the host's interface {name} has no carrier"))
            }
            _ => LinkState::Down(format!(
                "the host's interface {name} is down: ip link set {name} up"
            )),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        self.queue.receive(&mut self.lost, deliver)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        (self.queue.has_room()).then_some(&mut self.scratch)
    }

    fn put(&mut self, length: usize) {
        match self.scratch.get(HEADER..length) {
            Some(frame) if frame.len() <= FRAME => self.queue.put(frame),
            _ => self.lost += 1,
        }
    }

    fn flush(&mut self) -> bool {
        if self.is_full {
            self.timer.went_off();
        }
        let is_full = !self.queue.send();
        if is_full != self.is_full {
            self.is_full = is_full;
            let period = if is_full { AGAIN } else { Duration::ZERO };
            // Without the timer the next frame has it asked again.
            let _ = self.timer.every(period);
        }
        false
    }

    fn lost(&self) -> u64 {
        self.lost + self.queue.lost()
    }

    fn is_gone(&self) -> bool {
        // Another one of this name has neither this program nor this socket.
        !matches!(self.link, HostLink::Down(index) | HostLink::Up { index, .. } if index == self.index)
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }
}

/// An AF_XDP socket at a queue, with its frames: the first half is received into, the second sent from.
struct Queue {
    socket: OwnedFd,
    is_zero_copy: bool,
    frames: Mapping,
    fill: Ring<u64>,
    received: Ring<XdpDesc>,
    sent: Ring<XdpDesc>,
    completed: Ring<u64>,
    /// Places in `frames` to send from, that are free.
    free: Vec<u64>,
}

impl Queue {
    /// Without copies if the interface's driver can.
    fn open(index: u32, queue: u32) -> io::Result<Queue> {
        let how = |flags| Queue::open_with(index, queue, flags);
        how(SocketAddrXdpFlags::XDP_ZEROCOPY).or_else(|_| how(SocketAddrXdpFlags::XDP_COPY))
    }

    fn open_with(index: u32, queue: u32, how: SocketAddrXdpFlags) -> io::Result<Queue> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
        let frames = Mapping::new(FRAMES * FRAME)?;
        let memory = XdpUmemReg {
            addr: frames.start() as u64,
            len: (FRAMES * FRAME) as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        set_xdp_umem_reg(&socket, memory)?;
        set_xdp_umem_fill_ring_size(&socket, ENTRIES)?;
        set_xdp_umem_completion_ring_size(&socket, ENTRIES)?;
        set_xdp_rx_ring_size(&socket, ENTRIES)?;
        set_xdp_tx_ring_size(&socket, ENTRIES)?;
        let offsets = xdp_mmap_offsets(&socket)?;
        let mut fill = Ring::map(&socket, FILL_AT, offsets.fr)?;
        let completed = Ring::map(&socket, COMPLETION_AT, offsets.cr)?;
        let received = Ring::map(&socket, RECEIVED_AT, offsets.rx)?;
        let sent = Ring::map(&socket, SENT_AT, offsets.tx)?;
        let places = (0..FRAMES).map(|n| (n * FRAME) as u64);
        places.clone().take(FRAMES / 2).for_each(|at| fill.push(at));
        fill.publish();
        let how = how | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        bind(&socket, &SocketAddrXdp::new(how, index, queue))?;
        Ok(Queue {
            is_zero_copy: xdp_options(&socket)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            free: places.skip(FRAMES / 2).collect(),
            socket,
            frames,
            fill,
            received,
            sent,
            completed,
        })
    }

    fn receive(&mut self, lost: &mut u64, deliver: Deliver<'_>) -> Result<bool, Stop> {
        let mut done = Ok(());
        for _ in 0..BUDGET {
            let Some(XdpDesc { addr, len, .. }) = self.received.take() else {
                break;
            };
            let (at, length) = (addr as usize, len as usize);
            // The host has left room in front, where the header of the uplink goes.
            // SAFETY: the host has given the frame, and gets it back below.
            let whole = at
                .checked_sub(HEADER)
                .and_then(|start| unsafe { bytes(&mut self.frames, start, HEADER + length) });
            match whole {
                Some(whole) => {
                    let (header, frame) = whole.split_at_mut(HEADER);
                    header.copy_from_slice(&partial(frame));
                    done = deliver(whole);
                }
                None => *lost += 1,
            }
            self.fill.push(addr - addr % FRAME as u64);
            if done.is_err() {
                break;
            }
        }
        self.received.release();
        self.fill.publish();
        if self.is_zero_copy && self.fill.needs_wakeup() {
            // It is a call only; there is nothing to be read.
            let _ = recv(&self.socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT);
        }
        done.map(|()| self.received.ready() > 0)
    }

    fn has_room(&mut self) -> bool {
        while let Some(place) = self.completed.take() {
            self.free.push(place - place % FRAME as u64);
        }
        self.completed.release();
        !self.free.is_empty() && self.sent.room() > 0
    }

    /// A frame, for which there is room.
    fn put(&mut self, frame: &[u8]) {
        let Some(place) = self.free.pop() else {
            return;
        };
        self.frames.write(place as usize, frame);
        self.sent.push(XdpDesc {
            addr: place,
            len: frame.len() as u32,
            options: XdpDescOptions::empty(),
        });
    }

    /// Has the host send; false if it has no room for all of it now.
    fn send(&mut self) -> bool {
        self.sent.publish();
        let mut waiting = self.sent.waiting();
        while waiting > 0 && self.sent.needs_wakeup() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let called = send(&self.socket, &[], flags);
            let before = std::mem::replace(&mut waiting, self.sent.waiting());
            // EAGAIN: it has sent some, and wants to be called for more.
            let goes_on = matches!(called, Ok(_) | Err(Errno::AGAIN)) && waiting < before;
            if waiting > 0 && !goes_on {
                return false;
            }
        }
        true
    }

    /// Frames that came, and for which there was no place.
    fn lost(&self) -> u64 {
        xdp_statistics(&self.socket).map_or(0, |all| {
            all.rx_dropped
                + all.rx_ring_full.unwrap_or(0)
                + all.rx_fill_ring_empty_descs.unwrap_or(0)
        })
    }
}
