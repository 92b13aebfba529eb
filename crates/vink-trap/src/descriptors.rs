//! Calls that copy and close descriptors of Vink files: both sides do it.

use vink_sys::errno::{EBADF, EINVAL, EMFILE};
use vink_syscalls::{kind, Kind};

use crate::calls::Calls;
use crate::decision::Decision;
use crate::fd_table::Entry;
use crate::in_flight::AfterClose;
use crate::notification::Reply;
use crate::statistics::Statistics;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::Error;

/// Of the numbers below the least one that a copy may have, as many are looked at.
const MOST_CHECKED: i32 = 8;

impl Calls {
    /// dup(2): gives the program another descriptor of the file, under the lowest free number.
    pub(crate) fn dup(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
        cloexec: bool,
    ) -> Result<(), Error> {
        let new = match self.tasks.dup_entry(call.tid, entry)? {
            Ok(new) => new,
            Err(result) => return self.answer(call, result),
        };
        let number = new.number;
        if self.install(call, new, cloexec)? == Reply::ThreadGone {
            self.tasks.close_fd(call.tid, number)?;
        }
        Ok(())
    }

    /// fcntl(2) with `F_DUPFD` and `F_DUPFD_CLOEXEC`.
    ///
    /// A number that is free now may be another thread's a moment later, by a call that the host
    /// does; so it is chosen by the host. Where the host does this call too, the copy becomes known
    /// when a call names it, as one that has been received (`scm_rights`), and until the file is
    /// closed nothing is posted.
    pub(crate) fn dup_from(&mut self, call: SyscallCtx, entry: &Entry) -> Result<Decision, Error> {
        let cloexec = call.args[1] as i32 == libc::F_DUPFD_CLOEXEC;
        let Ok(least) = i32::try_from(call.args[2] as u32) else {
            return Ok(Decision::Answer(EINVAL));
        };
        // Those below it are mostly the standard ones, which stay open.
        let is_open = |fd| tracee::descriptor(call.pid, fd).is_some();
        if least <= MOST_CHECKED && (0..least).all(is_open) {
            self.dup(call, entry, cloexec)?;
            return Ok(Decision::Done);
        }
        // In virtual time one thread runs at a time.
        if self.clock.is_virtual() || self.tasks.table.is_alone(call.pid) {
            return self.tasks.dup_at_least(call, entry, least, cloexec);
        }
        self.tasks.table.fd_table(call.pid).set_may_have_received();
        self.hold_file(call, entry.clone())?;
        Ok(Decision::Host)
    }
}

impl Tasks {
    /// dup2(2) and dup3(2).
    pub(crate) fn dup_to(&mut self, call: SyscallCtx) -> Result<Decision, Error> {
        let (from, to) = (call.args[0] as i32, call.args[1] as i32);
        let flags = match kind(call.nr) {
            Kind::Dup3 => call.args[2] as i32,
            _ => 0,
        };
        let pid = call.pid;
        let table = self.table.fd_table(pid);
        // Equal numbers and bad flags: the host's answer is right for placeholders too.
        if from == to || flags & !libc::O_CLOEXEC != 0 {
            return Ok(Decision::Host);
        }
        if let Some(entry) = table.get(call.args[0]) {
            return self.install_at(call, &entry, to, flags & libc::O_CLOEXEC != 0, EBADF);
        }
        table.show_to_others(call, &[from]);
        if let Some(ring) = table.ring() {
            ring.close_file(to);
        }
        // A host file over a Vink file, unless the host will refuse.
        let closed = match tracee::descriptor(pid, from) {
            Some(_) => table.remove(to),
            None => None,
        };
        let closed = closed.into_iter().collect();
        Ok(Decision::Close(closed, AfterClose::Passthrough))
    }

    /// Gives the program, of which no other thread runs, another descriptor of the file, under the
    /// lowest free number from `least` on.
    fn dup_at_least(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
        least: i32,
        cloexec: bool,
    ) -> Result<Decision, Error> {
        let pid = call.pid;
        let free = (least..=i32::MAX).find(|fd| tracee::descriptor(pid, *fd).is_none());
        match free {
            // Beyond the limit, the least number allowed is a bad argument, any other too many.
            Some(fd) if fd == least => self.install_at(call, entry, fd, cloexec, EINVAL),
            Some(fd) => self.install_at(call, entry, fd, cloexec, EMFILE),
            None => Ok(Decision::Answer(EMFILE)),
        }
    }

    /// Gives the program another descriptor of the file under the number `to`. `beyond` is for a
    /// number beyond the program's limit.
    fn install_at(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
        to: i32,
        cloexec: bool,
        beyond: i64,
    ) -> Result<Decision, Error> {
        let Some(listener) = self.listener(call) else {
            return Ok(Decision::Done);
        };
        let new = match self.dup_entry(call.tid, entry)? {
            Ok(new) => new,
            Err(result) => return Ok(Decision::Answer(result)),
        };
        let end = entry.file.placeholder.program_end();
        let failure = match listener.put_fd(call.id, end, to, cloexec) {
            Ok((Reply::Delivered, _)) => {
                let old = self.table.insert_entry(call.tid, to, new);
                let old = old.into_iter().collect();
                return Ok(Decision::Close(old, AfterClose::Answer(to.into())));
            }
            Ok((Reply::ThreadGone, _)) => None,
            Err(libc::EBADF) => Some(beyond),
            Err(errno) => Some(-i64::from(errno)),
        };
        self.close_fd(call.tid, new.number)?;
        Ok(failure.map_or(Decision::Done, Decision::Answer))
    }

    /// close_range(2).
    pub(crate) fn close_range(
        &mut self,
        statistics: &mut Statistics,
        call: SyscallCtx,
    ) -> Result<Decision, Error> {
        let [first, last, flags] = [0, 1, 2].map(|n: usize| call.args[n] as u32);
        if first > last || flags & !(libc::CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE) != 0 {
            return Ok(Decision::Host); // to be refused
        }
        if flags & libc::CLOSE_RANGE_UNSHARE != 0 {
            if let Some(result) = self.unshare_files(statistics, call)? {
                return Ok(Decision::Answer(result));
            }
        }
        let closing = flags & libc::CLOSE_RANGE_CLOEXEC == 0;
        let table = self.table.fd_table(call.pid);
        if let Some(ring) = table.ring() {
            ring.unmark_range(first, last);
        }
        let closed = table.remove_if(|fd, _| closing && (first..=last).contains(&(fd as u32)));
        Ok(Decision::Close(closed, AfterClose::Passthrough))
    }
}
