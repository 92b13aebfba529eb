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

use std::rc::Rc;

use vink_kernel::{MachineId, TaskId};
use vink_sys::pidfd::copy_fd;

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::file_holder::{FileHolder, HeldFile};
use crate::reactor::Token;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::worker::Worker;
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

impl Worker {
    /// A host socket's sendmsg(2) or sendmmsg(2) is about to pass: takes charge of the Vink files
    /// it sends.
    pub(crate) fn hold_sent_files(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let process = self.table.process(call.pid);
        if process.table.is_empty() && !process.table.may_have_received() {
            return Ok(());
        }
        let machine = process.machine;
        let count = match shapes(call.nr) {
            Some([_, Shape::InMessages(count), ..]) => call.args[*count].min(MAX_MESSAGES),
            _ => 1,
        };
        for message in 0..count {
            for fd in rights(call.tid, call.args[1].wrapping_add(message * MMSGHDR)) {
                self.adopt_received(call.tid, fd)?;
                self.show_to_others(call, &[fd]);
                self.hold_file(call.tid, machine, fd)?;
            }
        }
        Ok(())
    }

    fn hold_file(&mut self, tid: i32, machine: MachineId, fd: i32) -> Result<(), Error> {
        let process = self.table.process_of(tid);
        let Some(entry) = process.table.get(fd as u64) else {
            return Ok(());
        };
        entry.file.placeholder.share();
        // The receiver may put it into an epoll instance before any call tells us that it is there.
        self.mirror_edges(tid, &entry)?;
        let carries = |c: &FileHolder| {
            c.files
                .iter()
                .any(|f| Rc::ptr_eq(&f.entry.file, &entry.file))
        };
        if self.file_holder.as_ref().is_some_and(carries) {
            return Ok(());
        }
        let Some(sender) = self.task_or_none(tid)? else {
            return Ok(());
        };
        let pid = self.kernel_call(sender, libc::SYS_getpid, [0; 6])?;
        let Some(holder) = self.file_holder_task(machine)? else {
            return Ok(());
        };
        let number = self
            .copy_from(holder, pid, entry.number)
            .or_else(to_errno_result)?;
        if let (0.., Some(holder)) = (number, &mut self.file_holder) {
            let (file, number) = (entry.file, number as i32);
            let entry = Entry { file, number };
            let only_in_flight = false;
            holder.files.push(HeldFile {
                entry,
                only_in_flight,
            });
        }
        Ok(())
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
        let process = self.table.process_of(tid);
        let pid = process.pid;
        let Some(holder) = &self.file_holder else {
            return Ok(());
        };
        if process.table.get(fd as u64).is_some() {
            return Ok(());
        }
        let Some(found) = tracee::descriptor(pid, fd) else {
            return Ok(());
        };
        let is_it = |f: &HeldFile| f.entry.file.placeholder.identity() == found;
        let Some(index) = holder.files.iter().position(is_it) else {
            return Ok(());
        };
        let held = &holder.files[index];
        let (owner, there, file) = (holder.pid, held.entry.number, held.entry.file.clone());
        let Some(task) = self.task_or_none(tid)? else {
            return Ok(());
        };
        let number = self
            .copy_from(task, owner, there)
            .or_else(to_errno_result)?;
        if number < 0 {
            return Ok(());
        }
        let number = number as i32;
        let holder = self.file_holder.as_mut().expect("was there before");
        if std::mem::take(&mut holder.files[index].only_in_flight) {
            let pidfd = &self.table.process_of(tid).pidfd;
            if let Ok(end) = copy_fd(pidfd, fd) {
                file.placeholder.set_received(end);
            }
            if let Some(end) = file.placeholder.worker_end() {
                self.reactor.remove(end);
            }
        }
        let entry = Entry { file, number };
        if entry.file.cookie.get() != 0 {
            // What became of it on its way was not shown.
            let events = self.watch_readiness(task, &entry)?;
            entry.file.placeholder.show(events);
        }
        self.table.process_mut(pid).table.insert(fd, entry);
        Ok(())
    }

    /// A file may have lost the last program that had it.
    pub(crate) fn mark_held_dirty(&mut self) {
        if let Some(holder) = &mut self.file_holder {
            holder.dirty = true;
        }
    }

    /// If a held file has lost a user, releases those that no process and no message has any more.
    pub(crate) fn release_held(&mut self) -> Result<(), Error> {
        let Some(holder) = &mut self.file_holder else {
            return Ok(());
        };
        if !std::mem::take(&mut holder.dirty) {
            return Ok(());
        }
        // A placeholder that has hung up can't always tell that its other end is gone.
        let none_alive = self.programs.iter().all(|entry| entry.listener.is_none());
        let mut leaving = Vec::new();
        let mut to_watch = Vec::new();
        holder.files.retain_mut(|held| {
            let Entry { file, number } = &held.entry;
            if Rc::strong_count(file) > 1 {
                return true;
            }
            if !held.only_in_flight {
                held.only_in_flight = true;
                file.placeholder.set_in_flight();
                to_watch.extend(file.placeholder.worker_end());
            }
            let gone = none_alive || file.placeholder.is_gone();
            if gone {
                leaving.push(*number);
                to_watch.retain(|end| Some(*end) != file.placeholder.worker_end());
            }
            !gone
        });
        let (task, empty) = (holder.task, holder.files.is_empty());
        for end in to_watch {
            self.reactor
                .add(end, libc::EPOLLET as u32, Token::HeldFile)?;
        }
        if empty {
            self.file_holder = None;
            self.end_task(task, true);
            return Ok(());
        }
        for number in leaving {
            let args = [number as u64, 0, 0, 0, 0, 0];
            self.kernel_call(task, libc::SYS_close, args)?;
        }
        Ok(())
    }

    /// The file holder's task; `None` if the kernel can't make one.
    fn file_holder_task(&mut self, machine: MachineId) -> Result<Option<TaskId>, Error> {
        if let Some(holder) = &self.file_holder {
            return Ok(Some(holder.task));
        }
        let task = match self.kernel.task(machine) {
            Ok(task) => task,
            Err(error) => return to_errno_result(error).map(|_| None),
        };
        self.raise_nofile(task)?;
        let pid = self.kernel_call(task, libc::SYS_getpid, [0; 6])?;
        let files = Vec::new();
        let dirty = false;
        self.file_holder = Some(FileHolder {
            task,
            pid,
            files,
            dirty,
        });
        Ok(Some(task))
    }

    fn task_or_none(&mut self, tid: i32) -> Result<Option<TaskId>, Error> {
        match self.task_of(tid) {
            Ok(task) => Ok(Some(task)),
            Err(error) => to_errno_result(error).map(|_| None),
        }
    }

    /// A descriptor, in the task's table, of what another process of the kernel has open.
    pub(crate) fn copy_from(
        &mut self,
        task: TaskId,
        pid: i64,
        number: i32,
    ) -> Result<i64, vink_kernel::Error> {
        self.kernel_dirty = true;
        let args = [pid as u64, 0, 0, 0, 0, 0];
        let pidfd = self.kernel.call(task, libc::SYS_pidfd_open, args)?;
        if pidfd < 0 {
            return Ok(pidfd);
        }
        let pidfd = pidfd as u64;
        let args = [pidfd, number as u64, 0, 0, 0, 0];
        let copied = self.kernel.call(task, libc::SYS_pidfd_getfd, args)?;
        let args = [pidfd, 0, 0, 0, 0, 0];
        self.kernel.call(task, libc::SYS_close, args)?;
        Ok(copied)
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
