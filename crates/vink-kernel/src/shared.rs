//! Ends of wires that lead to another process: memory that both have mapped, and a socket to wake
//! each other by (`vink-port`).
//!
//! The image copies packets into the rings and out of them; nothing on this side touches one. The
//! doorbell is not rung for a process that is busy. Before it sleeps it says so
//! ([`Kernel::may_sleep`]), and looks once more.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use libc::{EINVAL, ENOSYS};
use vink_abi::{VINK_CALL_WIRE_CARRIER, VINK_CALL_WIRE_SHARE};
use vink_port::{Half, Line, PeerState, SIZE};

use crate::{EndId, Error, Kernel, WireId};

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
    line: Line,
}

impl Shares {
    /// What an image has to say of an end: ring the other side's bell, or that it has spoiled the
    /// memory.
    pub(crate) fn bell(&mut self, cookie: u64, spoiled: bool) {
        let Some(share) = self.all.get_mut(&cookie) else {
            return;
        };
        match spoiled {
            false => share.line.ring(),
            true => share.line.spoil(),
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
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
    fn for_image(&self, cookie: u64) -> vink_abi::Share {
        let Line { out, inward, .. } = &self.line;
        vink_abi::Share {
            out: out.start().cast(),
            inward: inward.start().cast(),
            out_bytes: out.bytes(),
            in_bytes: inward.bytes(),
            size: SIZE as u64,
            cookie,
        }
    }
}

impl Kernel {
    /// Makes an end of the wire that leads to another process, which does the same with the other
    /// half. What is set there ([`Kernel::set_wire`]) is for packets that come from that process;
    /// [`Kernel::detach`] removes it. Also a descriptor that is readable when [`Kernel::hear`] is
    /// to be called.
    ///
    /// # Errors
    /// [`Error::NoSuchWire`]; [`Error::Errno`]: `EBUSY`, a point-to-point wire that has two ends;
    /// `EINVAL`, these are not the descriptors of [`halves`](crate::halves); `ENOMEM`, and as mmap(2); `ENOSYS`,
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
        let line = Line::new(&half).map_err(failed)?;
        let share = Share {
            wire,
            end: None,
            line,
        };
        let bell = half.into_bell();
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
                    share.line.ring();
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
        self.listen(end).map(|(peer, _)| peer)
    }

    /// The same, and whether it has rung.
    ///
    /// # Errors
    /// As [`Kernel::hear`].
    pub fn listen(&mut self, end: EndId) -> Result<(PeerState, bool), Error> {
        let (before, (now, rang)) = {
            let shares = &mut *self.host.shares.borrow_mut();
            let share = shares.of_end(end).ok_or(Error::NoSuchEnd)?;
            let before = share.line.state();
            (before, share.line.listen())
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
        Ok((now, rang))
    }

    /// Whether wires of it are shared with other processes.
    #[inline]
    pub fn is_shared(&self) -> bool {
        !self.host.shares.borrow().all.is_empty()
    }

    /// Whether other processes have something for this kernel, which [`Kernel::run`] takes; for a
    /// thread that looks again and again before it sleeps.
    #[inline]
    pub fn is_called(&self) -> bool {
        let shares = self.host.shares.borrow();
        shares.all.values().any(|share| share.line.has_something())
    }

    /// To be asked before the thread sleeps that runs this kernel: false if other processes have
    /// something for it, and [`Kernel::run`] is to be called first. From now on, until it has been,
    /// they ring when they have.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        let shares = self.host.shares.borrow();
        shares.all.values().all(|share| share.line.rest())
    }
}
