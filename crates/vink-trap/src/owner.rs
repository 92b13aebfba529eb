//! A file's owner, which is sent `SIGIO` and `SIGURG`, and `O_ASYNC` (fcntl(2), ioctl(2)).
//!
//! The placeholder has the owner, as a host file: process, group or thread by the host's numbers,
//! the signal (`F_SETSIG`) and whether it is sent at all. It follows the Vink file's readiness as
//! in an epoll set, and so the host sends what is due, with the program's own descriptor in it.
//! `O_ASYNC` is set on both sides, since `F_GETFL` returns the kernel's.

use vink_syscalls::{
    file_signals, FileSignals, FIOGETOWN, FIOSETOWN, F_SETOWN_EX, SIOCGPGRP, SIOCSPGRP,
};

use crate::calls::Calls;
use crate::decision::Decision;
use crate::fd_table::Entry;
use crate::in_flight::{Continuation, InFlight};
use crate::syscall_ctx::SyscallCtx;
use crate::Error;

const FIOASYNC: u32 = libc::FIOASYNC as u32;

impl Calls {
    /// fcntl(2) and ioctl(2) on a Vink file, if they are about its owner.
    pub(crate) fn own(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
    ) -> Result<Option<Decision>, Error> {
        let request = call.args[1] as u32;
        let switches = match file_signals(call.nr) {
            FileSignals::Fcntl => match request as i32 {
                libc::F_SETOWN | F_SETOWN_EX => false,
                libc::F_SETFL => {
                    let asynchronous = call.args[2] & libc::O_ASYNC as u64 != 0;
                    if !asynchronous && !entry.file.owned.get() {
                        return Ok(None);
                    }
                    true
                }
                _ => return Ok(None),
            },
            FileSignals::Ioctl => match request {
                FIOSETOWN | SIOCSPGRP => false,
                FIOGETOWN | SIOCGPGRP => return Ok(Some(Decision::Host)),
                FIOASYNC => true,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        entry.file.owned.set(true);
        entry.file.placeholder.share();
        self.mirror_edges(call.tid, entry)?;
        if !switches {
            return Ok(Some(Decision::Host));
        }
        let mut args = call.args;
        args[0] = entry.number as u64;
        let in_flight = InFlight {
            call,
            continuation: Continuation::HostToo,
            file: Some(entry.file.clone()),
        };
        let poll_fd = entry.poll_fd();
        self.start_in_kernel(in_flight, call.nr, args, call.tid as u64, poll_fd)?;
        Ok(Some(Decision::Done))
    }
}
