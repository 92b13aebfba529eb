//! Vink files that travel over the host's unix sockets (`SCM_RIGHTS` of unix(7)).
//!
//! The host carries the placeholder. A task of the kernel's that no program has, the *file holder*,
//! has the file open from when it is sent until it is gone from all programs and from all messages
//! on their way. When only the holder has the file, the worker gives up its own descriptor of the
//! placeholder's end, and the other end hangs up when that was the last one.
//!
//! A process that has called recvmsg(2) may have been given a file at any time since. The file is
//! recognised by its placeholder when a trapped call first names it, on whatever thread.
//! Descriptors that were peeked at or cut off need no care that way: they are, or are not, in the
//! process.

use crate::calls::Calls;
use crate::fd_table::Entry;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;
use vink_syscalls::{kind, shapes, Kind, Shape};

/// Of `struct msghdr`: where `msg_control` and `msg_controllen` are.
const CONTROL: u64 = 32;
/// Of `struct mmsghdr`.
const MMSGHDR: u64 = size_of::<libc::mmsghdr>() as u64;
/// As many messages as sendmmsg(2) takes.
const MAX_MESSAGES: u64 = libc::UIO_MAXIOV as u64;
/// Of `struct cmsghdr`.
const HEADER: usize = 16;
/// More control data than `SCM_MAX_FD` descriptors take.
const MAX_CONTROL: u64 = 64 << 10;

impl Calls {
    /// A host socket's sendmsg(2) or sendmmsg(2) is about to pass: takes charge of the Vink files
    /// it sends.
    pub(crate) fn hold_sent_files(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let table = self.tasks.table.fd_table(call.pid);
        if table.is_empty() && !table.may_have_received() {
            return Ok(());
        }
        let count = match shapes(call.nr) {
            Some([_, Shape::InMessages(count), ..]) => call.args[*count].min(MAX_MESSAGES),
            _ => 1,
        };
        for message in 0..count {
            for fd in rights(call.tid, call.args[1].wrapping_add(message * MMSGHDR)) {
                self.adopt_received(call.tid, fd)?;
                let table = self.tasks.table.fd_table(call.pid);
                table.show_to_others(call, &[fd]);
                if let Some(entry) = self.tasks.table.entry(call.tid, fd as u64) {
                    self.hold_file(call, entry)?;
                }
            }
        }
        Ok(())
    }

    /// The host is about to give some process a descriptor of a Vink file by itself: it is held
    /// until a call names it.
    pub(crate) fn hold_file(&mut self, call: SyscallCtx, entry: Entry) -> Result<(), Error> {
        entry.file.placeholder.share();
        // The receiver may put it into an epoll instance before any call tells us that it is there.
        self.mirror_edges(call.tid, &entry)?;
        let machine = self.tasks.table.machine_of(call.pid);
        let tasks = &mut self.tasks;
        self.held_files.hold(tasks, call.tid, machine, entry)
    }

    /// A process may have received files: gets to know those that the call is about.
    pub(crate) fn adopt_named(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let [first, second, third, ..] = call.args.map(|argument| argument as i32);
        let named: &[i32] = match kind(call.nr) {
            Kind::Io | Kind::Bind | Kind::Accept | Kind::Close | Kind::Dup | Kind::Fcntl => {
                &[first]
            }
            Kind::Dup2 | Kind::Dup3 | Kind::Sendfile => &[first, second],
            Kind::Splice => &[first, third],
            Kind::CloseRange
            | Kind::Poll
            | Kind::Select
            | Kind::Fork
            | Kind::Clone
            | Kind::Clone3 => {
                let pid = call.pid;
                for fd in tracee::descriptors(pid) {
                    self.adopt_received(call.tid, fd)?;
                }
                &[]
            }
            _ => &[],
        };
        for fd in named {
            self.adopt_received(call.tid, *fd)?;
        }
        Ok(())
    }

    /// If the descriptor is unknown and a held file: it belongs to the process from now on.
    fn adopt_received(&mut self, tid: i32, fd: i32) -> Result<(), Error> {
        let place = (&mut self.tasks, &self.reactor);
        let Some((task, entry)) = self.held_files.adopt(place, tid, fd)? else {
            return Ok(());
        };
        if entry.file.cookie.get() != 0 {
            // What became of it on its way was not shown.
            let events = self.watch_readiness(task, &entry)?;
            entry.file.placeholder.show(events);
        }
        self.tasks.table.insert_entry(tid, fd, entry);
        Ok(())
    }
}

/// The descriptors that a `struct msghdr` of the thread names; none if it is not readable.
fn rights(tid: i32, message: u64) -> Vec<i32> {
    let place = message.wrapping_add(CONTROL);
    let (control, len) = (
        tracee::read_u64(tid, place),
        tracee::read_u64(tid, place.wrapping_add(8)),
    );
    let (Some(control), Some(len @ 1..=MAX_CONTROL)) = (control, len) else {
        return Vec::new();
    };
    let mut bytes = vec![0; len as usize];
    match tracee::read(tid, control, &mut bytes) {
        true => descriptors(&bytes),
        false => Vec::new(),
    }
}

/// Four bytes as a number.
fn number(bytes: &[u8]) -> i32 {
    i32::from_ne_bytes(bytes.try_into().expect("four bytes"))
}

/// The items of control data: level, type and data.
pub(crate) fn control(mut bytes: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    std::iter::from_fn(move || {
        let len = u64::from_ne_bytes(bytes.get(..8)?.try_into().expect("eight bytes"));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let item = bytes.get(8..len)?;
        let (kind, data) = item.split_at_checked(HEADER - 8)?;
        let next = len.checked_next_multiple_of(8);
        bytes = next.and_then(|next| bytes.get(next..)).unwrap_or_default();
        Some((number(&kind[..4]), number(&kind[4..]), data))
    })
}

/// The descriptors in control data.
fn descriptors(bytes: &[u8]) -> Vec<i32> {
    let rights =
        control(bytes).filter(|item| (item.0, item.1) == (libc::SOL_SOCKET, libc::SCM_RIGHTS));
    let data = rights.flat_map(|(_, _, data)| data.chunks_exact(4));
    data.map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, len: u64, data: &[i32]) -> Vec<u8> {
        let mut bytes = len.to_ne_bytes().to_vec();
        let words = [level, kind].into_iter().chain(data.iter().copied());
        bytes.extend(words.flat_map(i32::to_ne_bytes));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn control_data() {
        let (socket, rights) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let mut all = message(socket, rights, 28, &[3, 4, 5]);
        all.extend(message(socket, libc::SCM_CREDENTIALS, 28, &[6, 7, 8]));
        all.extend(message(socket, rights, 20, &[9]));
        assert_eq!(descriptors(&all), [3, 4, 5, 9]);
        assert_eq!(descriptors(&all[..31]), [3, 4, 5]);
        assert_eq!(descriptors(&all[..27]), []);
        for len in [0, 15, 21, u64::MAX] {
            assert_eq!(descriptors(&message(socket, rights, len, &[3])[..20]), []);
        }
        assert_eq!(descriptors(&[]), []);
        let me = std::process::id() as i32;
        // At the end of the address space, and around it.
        for message in [u64::MAX - CONTROL - 4, u64::MAX - 4, 8] {
            assert_eq!(super::rights(me, message), []);
        }
    }
}
