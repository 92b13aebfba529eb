//! Ends of wires that lead to another process: memory that both have mapped, and a socket to wake
//! each other by.
//!
//! Each direction is a sealed memory file: a page of control words (`struct vink_pipe`), and a ring
//! of frames, mapped twice in a row, so that no frame is ever in two pieces. The two images copy
//! packets into the rings and out of them; nothing on this side touches one. A byte on the socket
//! says "look", its end that the other process is gone: there is one descriptor to wait for, and
//! nothing to be cleaned up by the surviving process. The line is up from the other side's first
//! byte on.
//!
//! The doorbell is not rung for a process that is busy. Before it sleeps it says so
//! ([`Kernel::may_sleep`]), and looks once more.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

use libc::{EINVAL, ENOSYS};
use vink_abi::{Pipe, VINK_CALL_WIRE_CARRIER, VINK_CALL_WIRE_SHARE};
use vink_sys::fd::in_memory_sealed;
use vink_sys::mapping::{Mapping, Pages};
use vink_sys::rustix::fs::{fcntl_get_seals, fstat, SealFlags};
use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::{recv, send, RecvFlags, SendFlags};

use crate::{EndId, Error, Kernel, WireId};

/// Bytes of frames on their way: a power of two, and some times the largest frame.
const SIZE: usize = 2 << 20;
/// Bytes of the page in front.
const CONTROL: usize = 4096;

const GONE: &str = "the other worker is gone";
const SPOILED: &str = "the other worker has spoiled the memory that both share";

/// One end of a wire between two processes, before [`Kernel::share`]: three descriptors.
#[derive(Debug)]
pub struct Half {
    /// What this end sends.
    sends: OwnedFd,
    /// What it receives.
    receives: OwnedFd,
    bell: OwnedFd,
}

/// Makes both ends of a wire between two processes. Their maker must not keep either: the end of a
/// process shows when the last descriptor of its half is closed.
///
/// # Errors
/// As memfd_create(2), ftruncate(2), fcntl(2), socketpair(2).
pub fn halves() -> io::Result<[Half; 2]> {
    let [there, back] = [memory()?, memory()?];
    let (a, b) = UnixStream::pair()?;
    let half = |sends, receives, bell: UnixStream| Half {
        sends,
        receives,
        bell: bell.into(),
    };
    Ok([
        half(there.try_clone()?, back.try_clone()?, a),
        half(back, there, b),
    ])
}

impl Half {
    /// To send it to another process by `SCM_RIGHTS`, in this order.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [&self.sends, &self.receives, &self.bell].map(AsFd::as_fd)
    }

    /// What was sent.
    pub fn from_descriptors([sends, receives, bell]: [OwnedFd; 3]) -> Half {
        Half {
            sends,
            receives,
            bell,
        }
    }
}

/// Whether the process at the other end is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Not yet.
    Awaited,
    /// Frames get through.
    Present,
    /// No more, for good. Why, as a sentence without a full stop.
    Gone(&'static str),
}

/// The ends of a kernel that lead to other processes, by what the image calls them by.
#[derive(Default)]
pub(crate) struct Shares {
    all: HashMap<u64, Share>,
    last: u64,
}

struct Share {
    wire: WireId,
    /// Until the image has said which.
    end: Option<EndId>,
    out: Direction,
    inward: Direction,
    bell: UnixStream,
    met: bool,
    spoiled: bool,
    gone: Option<&'static str>,
}

impl Shares {
    /// What an image has to say of an end: ring the other side's bell, or that it has spoiled the
    /// memory.
    pub(crate) fn bell(&mut self, cookie: u64, spoiled: bool) {
        let Some(share) = self.all.get_mut(&cookie) else {
            return;
        };
        match spoiled {
            false => share.ring(),
            true => {
                share.spoiled = true;
                // So that it is heard.
                let _ = share.bell.shutdown(Shutdown::Both);
            }
        }
    }

    fn of_end(&mut self, end: EndId) -> Option<&mut Share> {
        self.all.values_mut().find(|share| share.end == Some(end))
    }

    /// Ends that are no more.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(WireId, Option<EndId>) -> bool) {
        self.all.retain(|_, share| !is_gone(share.wire, share.end));
    }
}

impl Share {
    fn new(wire: WireId, half: &Half) -> io::Result<Share> {
        Ok(Share {
            wire,
            end: None,
            out: Direction::new(&half.sends)?,
            inward: Direction::new(&half.receives)?,
            bell: UnixStream::from(half.bell.try_clone()?),
            met: false,
            spoiled: false,
            gone: None,
        })
    }

    fn for_image(&self, cookie: u64) -> vink_abi::Share {
        vink_abi::Share {
            out: self.out.0.start().cast(),
            inward: self.inward.0.start().cast(),
            out_bytes: self.out.bytes(),
            in_bytes: self.inward.bytes(),
            size: SIZE as u64,
            cookie,
        }
    }

    /// A byte, without waiting and without SIGPIPE. If there is no room, so many have been rung
    /// that the other side will look. If it is gone, reading tells.
    fn ring(&self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&self.bell, b"!", flags);
    }

    /// Takes the bytes that have come.
    fn listen(&mut self) {
        let mut bytes = [0u8; 64];
        while self.gone.is_none() {
            match recv(&self.bell, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.lose(),
                Ok((got, _)) => {
                    self.met = true;
                    if got < bytes.len() {
                        return;
                    }
                }
                Err(Errno::WOULDBLOCK) => return,
                Err(_) => self.lose(),
            }
        }
    }

    fn lose(&mut self) {
        self.gone = Some(if self.spoiled { SPOILED } else { GONE });
        // The other side learns of it.
        let _ = self.bell.shutdown(Shutdown::Both);
    }

    fn state(&self) -> PeerState {
        match self.gone {
            Some(why) => PeerState::Gone(why),
            None if self.met => PeerState::Present,
            None => PeerState::Awaited,
        }
    }

    /// Whether the other side has something for this one.
    fn has_something(&self) -> bool {
        let words = self.inward.words();
        !self.spoiled
            && (words.head.load(Ordering::Relaxed) != words.tail.load(Ordering::Relaxed)
                || self.out.words().has_room_for_one_that_waits())
    }

    /// Has the other side ring from now on; false if there is something already.
    fn rest(&self) -> bool {
        if self.spoiled {
            return true;
        }
        let words = self.inward.words();
        words.asleep.store(1, Ordering::Relaxed);
        // Either we see what the other side shows now, or it sees the flag.
        fence(Ordering::SeqCst);
        if !self.has_something() {
            return true;
        }
        words.asleep.store(0, Ordering::Relaxed);
        false
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // The caller's descriptor of it may still be open.
        let _ = self.bell.shutdown(Shutdown::Both);
    }
}

/// The control words, as this side reads and writes them.
struct Words<'a> {
    head: &'a AtomicU64,
    tail: &'a AtomicU64,
    asleep: &'a AtomicU32,
    starved: &'a AtomicU32,
}

impl Words<'_> {
    /// As abi.h says of `asleep`.
    fn has_room_for_one_that_waits(&self) -> bool {
        let on_way = || {
            let head = self.head.load(Ordering::Relaxed);
            head.wrapping_sub(self.tail.load(Ordering::Relaxed))
        };
        self.starved.load(Ordering::Relaxed) != 0 && on_way() <= SIZE as u64 / 2
    }
}

/// One direction's memory, mapped.
struct Direction(Mapping);

impl Direction {
    /// Maps what [`memory`] made, perhaps in another process.
    fn new(memory: impl AsFd) -> io::Result<Direction> {
        // What makes sure that a mapping stays backed.
        let wanted = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let is_sealed = fcntl_get_seals(&memory)?.contains(wanted);
        if !is_sealed || fstat(&memory)?.st_size != (CONTROL + SIZE) as i64 {
            return Err(io::Error::from_raw_os_error(EINVAL));
        }
        let mapping = Mapping::new(CONTROL + 2 * SIZE)?;
        for (at, from, len) in [(0, 0, CONTROL + SIZE), (CONTROL + SIZE, CONTROL, SIZE)] {
            let pages = Pages::Shared(memory.as_fd(), from as u64);
            mapping.replace(at..at + len, pages)?;
        }
        // A child of ours has no business with it.
        mapping.keep_from_forks(0..mapping.len());
        Ok(Direction(mapping))
    }

    fn bytes(&self) -> *mut c_void {
        self.0.start().wrapping_byte_add(CONTROL)
    }

    fn words(&self) -> Words<'_> {
        let pipe: *mut Pipe = self.0.start().cast();
        // SAFETY: the page is there, is aligned, and is only accessed by atomics as long as the
        // mapping; the images do so by single instructions.
        unsafe {
            Words {
                head: AtomicU64::from_ptr(&raw mut (*pipe).head),
                tail: AtomicU64::from_ptr(&raw mut (*pipe).tail),
                asleep: AtomicU32::from_ptr(&raw mut (*pipe).asleep),
                starved: AtomicU32::from_ptr(&raw mut (*pipe).starved),
            }
        }
    }
}

/// Makes the memory of one direction.
fn memory() -> io::Result<OwnedFd> {
    Ok(in_memory_sealed(c"vink wire", (CONTROL + SIZE) as u64)?.into())
}

impl Kernel {
    /// Makes an end of the wire that leads to another process, which does the same with the other
    /// half. What is set there ([`Kernel::set_wire`]) is for packets that come from that process;
    /// [`Kernel::detach`] removes it. Also a descriptor that is readable when [`Kernel::hear`] is
    /// to be called.
    ///
    /// # Errors
    /// [`Error::NoSuchWire`]; [`Error::Errno`]: `EBUSY`, a point-to-point wire that has two ends;
    /// `EINVAL`, these are not the descriptors of [`halves`]; `ENOMEM`, and as mmap(2); `ENOSYS`,
    /// the image is older than this.
    pub fn share(&mut self, wire: WireId, half: Half) -> Result<(EndId, OwnedFd), Error> {
        self.share_at(wire, None, half)
    }

    /// Has a shared end lead to another process than before, whose line is down at first; its
    /// descriptor.
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`]; as [`Kernel::share`].
    pub fn share_anew(&mut self, end: EndId, half: Half) -> Result<OwnedFd, Error> {
        let wire = {
            let shares = &mut *self.host.shares.borrow_mut();
            shares.of_end(end).ok_or(Error::NoSuchEnd)?.wire
        };
        self.share_at(wire, Some(end), half).map(|(_, bell)| bell)
    }

    fn share_at(
        &mut self,
        wire: WireId,
        end: Option<EndId>,
        half: Half,
    ) -> Result<(EndId, OwnedFd), Error> {
        const WHAT: &str = "join a wire to another process";
        let failed = |error: io::Error| Error::Errno {
            what: WHAT,
            errno: error.raw_os_error().unwrap_or(EINVAL),
        };
        let share = Share::new(wire, &half).map_err(failed)?;
        let bell = half.bell;
        let cookie = {
            let shares = &mut *self.host.shares.borrow_mut();
            shares.last += 1;
            shares.last
        };
        let told = share.for_image(cookie);
        self.host.shares.borrow_mut().all.insert(cookie, share);
        let address = (&raw const told) as u64;
        let args = [wire.0, address, end.map_or(0, |end| end.0), 0, 0, 0];
        let made = self.control(WHAT, VINK_CALL_WIRE_SHARE, args);
        let mut shares = self.host.shares.borrow_mut();
        match made {
            Ok(id) => {
                shares.forget(|_, its| its == Some(EndId(id)));
                if let Some(share) = shares.all.get_mut(&cookie) {
                    share.end = Some(EndId(id));
                    share.ring();
                }
                Ok((EndId(id), bell))
            }
            Err(error) => {
                shares.all.remove(&cookie);
                Err(match error {
                    Error::Errno { errno: ENOSYS, .. } => Error::Errno {
                        what: "join a wire to another process: build the image anew, this one is too old",
                        errno: ENOSYS,
                    },
                    error => crate::wire::gone(error, Error::NoSuchWire),
                })
            }
        }
    }

    /// Listens to what the other process of a shared end says; when it comes or goes, so does the
    /// line.
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`]; as [`Kernel::run`].
    pub fn hear(&mut self, end: EndId) -> Result<PeerState, Error> {
        let (before, now) = {
            let shares = &mut *self.host.shares.borrow_mut();
            let share = shares.of_end(end).ok_or(Error::NoSuchEnd)?;
            let before = share.state();
            share.listen();
            (before, share.state())
        };
        if before != now {
            let up = now == PeerState::Present;
            let args = [end.0, up.into(), 0, 0, 0, 0];
            self.at_end(
                "set the carrier of a wire's end",
                VINK_CALL_WIRE_CARRIER,
                args,
            )?;
        }
        Ok(now)
    }

    /// Whether other processes have something for this kernel, which [`Kernel::run`] takes; for a
    /// thread that looks again and again before it sleeps.
    #[inline]
    pub fn is_called(&self) -> bool {
        let shares = self.host.shares.borrow();
        shares.all.values().any(Share::has_something)
    }

    /// To be asked before the thread sleeps that runs this kernel: false if other processes have
    /// something for it, and [`Kernel::run`] is to be called first. From now on, until it has been,
    /// they ring when they have.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        let shares = self.host.shares.borrow();
        shares.all.is_empty() || shares.all.values().all(Share::rest)
    }
}
