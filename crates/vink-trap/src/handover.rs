//! Vink files that travel over the host's unix sockets (`SCM_RIGHTS` of unix(7)).
//!
//! The host carries the placeholder. A task of the kernel's that no program has, the *carrier*, has
//! the file open from when it is sent to when nobody has it any more, neither a program nor a message
//! on its way: when the carrier is the last that knows the file, the worker gives up its own
//! descriptor of the placeholder's end, and the other end tells when that was the last one.
//!
//! A process that has called recvmsg(2) may have been given a file at any time since. It is known
//! again by its placeholder when a trapped call first names it, on whatever thread. Descriptors that
//! were peeked at or cut off need no care that way: they are, or are not, in the process.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use vink_kernel::{MachineId, TaskId};

use crate::calls::{kind, Kind};
use crate::notify::Notification;
use crate::process::Entry;
use crate::serve::soften;
use crate::target;
use crate::worker::{Worker, CARRIED};
use crate::Error;

/// Of `struct msghdr`: where `msg_control` and `msg_controllen` are.
const CONTROL: u64 = 32;
/// Of `struct mmsghdr`.
const MMSGHDR: u64 = size_of::<libc::mmsghdr>() as u64;
/// As many messages as sendmmsg(2) takes.
const MOST_MESSAGES: u64 = libc::UIO_MAXIOV as u64;
/// Of `struct cmsghdr`.
const HEADER: usize = 16;
/// More control data than `SCM_MAX_FD` descriptors take.
const LONGEST: u64 = 64 << 10;

/// Has the files that are, or were, on their way.
pub(crate) struct Carrier {
    task: TaskId,
    /// Its process in the kernel.
    pid: i64,
    files: Vec<Carried>,
    /// A file has lost one of those that had it since this was last looked after.
    stirred: bool,
}

struct Carried {
    /// With the carrier's number.
    entry: Entry,
    /// No program is known to have it: the end of its placeholder is waited for.
    alone: bool,
}

impl Worker {
    /// A host socket's sendmsg(2) or sendmmsg(2) is about to pass: takes charge of the Vink files it
    /// sends.
    pub(crate) fn send_off(&mut self, call: Notification) -> Result<(), Error> {
        let process = &self.processes[&self.threads[&call.tid].pid];
        if process.table.is_empty() && !process.table.is_receiving() {
            return Ok(());
        }
        let machine = process.machine;
        let count = match call.nr {
            libc::SYS_sendmmsg => call.args[2].min(MOST_MESSAGES),
            _ => 1,
        };
        for message in 0..count {
            for fd in rights(call.tid, call.args[1].wrapping_add(message * MMSGHDR)) {
                self.recognise(call.tid, fd)?;
                self.show_to_others(call.tid, &[fd]);
                self.send_file(call.tid, machine, fd)?;
            }
        }
        Ok(())
    }

    fn send_file(&mut self, tid: i32, machine: MachineId, fd: i32) -> Result<(), Error> {
        let process = &self.processes[&self.threads[&tid].pid];
        let Some(entry) = process.table.get(fd as u64) else {
            return Ok(());
        };
        entry.file.placeholder.share();
        // The receiver may put it into an epoll instance before any call tells us that it is there.
        self.follow(tid, &entry)?;
        let carries = |c: &Carrier| {
            c.files
                .iter()
                .any(|f| Rc::ptr_eq(&f.entry.file, &entry.file))
        };
        if self.carrier.as_ref().is_some_and(carries) {
            return Ok(());
        }
        let Some(sender) = self.task_for(tid)? else {
            return Ok(());
        };
        let pid = self.call(sender, libc::SYS_getpid, [0; 6])?;
        let Some(carrier) = self.carrier(machine)? else {
            return Ok(());
        };
        let number = self.copy_from(carrier, pid, entry.number).or_else(soften)?;
        if let (0.., Some(carrier)) = (number, &mut self.carrier) {
            let (file, number) = (entry.file, number as i32);
            let entry = Entry { file, number };
            let alone = false;
            carrier.files.push(Carried { entry, alone });
        }
        Ok(())
    }

    /// A process may have received files: gets to know those that the call is about.
    pub(crate) fn recognise_named(&mut self, call: Notification) -> Result<(), Error> {
        let [first, second, third, ..] = call.args.map(|argument| argument as i32);
        let named: &[i32] = match kind(call.nr) {
            Kind::Io | Kind::Accept | Kind::Close | Kind::Dup | Kind::Fcntl => &[first],
            Kind::Dup2 | Kind::Dup3 | Kind::Sendfile => &[first, second],
            Kind::Splice => &[first, third],
            Kind::CloseRange
            | Kind::Poll
            | Kind::Select
            | Kind::Fork
            | Kind::Clone
            | Kind::Clone3 => {
                let pid = self.threads[&call.tid].pid;
                for fd in target::descriptors(pid) {
                    self.recognise(call.tid, fd)?;
                }
                &[]
            }
            _ => &[],
        };
        for fd in named {
            self.recognise(call.tid, *fd)?;
        }
        Ok(())
    }

    /// If the descriptor is unknown and a carried file: has it from now on.
    fn recognise(&mut self, tid: i32, fd: i32) -> Result<(), Error> {
        let process = &self.processes[&self.threads[&tid].pid];
        let (pid, pidfd) = (process.pid, process.pidfd.as_raw_fd());
        let Some(carrier) = &self.carrier else {
            return Ok(());
        };
        if process.table.get(fd as u64).is_some() {
            return Ok(());
        }
        let Some(found) = target::descriptor(pid, fd) else {
            return Ok(());
        };
        let is_it = |f: &Carried| f.entry.file.placeholder.identity() == found;
        let Some(index) = carrier.files.iter().position(is_it) else {
            return Ok(());
        };
        let carried = &carrier.files[index];
        let (owner, there, file) = (
            carrier.pid,
            carried.entry.number,
            carried.entry.file.clone(),
        );
        let Some(task) = self.task_for(tid)? else {
            return Ok(());
        };
        let number = self.copy_from(task, owner, there).or_else(soften)?;
        if number < 0 {
            return Ok(());
        }
        let number = number as i32;
        let carrier = self.carrier.as_mut().expect("was there before");
        if std::mem::take(&mut carrier.files[index].alone) {
            // SAFETY: makes a descriptor.
            let end = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd, fd, 0) };
            if end >= 0 {
                // SAFETY: new, and nobody else's.
                file.placeholder
                    .land(unsafe { OwnedFd::from_raw_fd(end as RawFd) });
            }
            if let Some(end) = file.placeholder.worker_end() {
                self.neglect(end);
            }
        }
        let entry = Entry { file, number };
        if entry.file.cookie.get() != 0 {
            // What became of it on its way was not shown.
            let events = self.watch(task, &entry)?;
            entry.file.placeholder.show(events);
        }
        self.process_mut(pid).table.insert(fd, entry);
        Ok(())
    }

    /// A file may have lost the last program that had it.
    pub(crate) fn stir_carried(&mut self) {
        if let Some(carrier) = &mut self.carrier {
            carrier.stirred = true;
        }
    }

    /// Looks after what is carried, if anything was stirred: who has it yet?
    pub(crate) fn look_after_carried(&mut self) -> Result<(), Error> {
        let Some(carrier) = &mut self.carrier else {
            return Ok(());
        };
        if !std::mem::take(&mut carrier.stirred) {
            return Ok(());
        }
        // A placeholder that has hung up can't always tell that its other end is gone.
        let nobody = self.trees.iter().all(|tree| tree.listener.is_none());
        let mut leaving = Vec::new();
        let mut attended = Vec::new();
        carrier.files.retain_mut(|carried| {
            let Entry { file, number } = &carried.entry;
            if Rc::strong_count(file) > 1 {
                return true;
            }
            if !carried.alone {
                carried.alone = true;
                file.placeholder.fly();
                attended.extend(file.placeholder.worker_end());
            }
            let gone = nobody || file.placeholder.is_gone();
            if gone {
                leaving.push(*number);
                attended.retain(|end| Some(*end) != file.placeholder.worker_end());
            }
            !gone
        });
        let (task, empty) = (carrier.task, carrier.files.is_empty());
        for end in attended {
            self.attend_to_events(end, libc::EPOLLET as u32, CARRIED)?;
        }
        if empty {
            self.carrier = None;
            self.end_task(task, true);
            return Ok(());
        }
        for number in leaving {
            let args = [number as u64, 0, 0, 0, 0, 0];
            self.call(task, libc::SYS_close, args)?;
        }
        Ok(())
    }

    /// The carrier's task; `None` if the kernel can't make one.
    fn carrier(&mut self, machine: MachineId) -> Result<Option<TaskId>, Error> {
        if let Some(carrier) = &self.carrier {
            return Ok(Some(carrier.task));
        }
        let task = match self.kernel.task(machine) {
            Ok(task) => task,
            Err(error) => return soften(error).map(|_| None),
        };
        self.allow_descriptors(task)?;
        let pid = self.call(task, libc::SYS_getpid, [0; 6])?;
        let files = Vec::new();
        let stirred = false;
        self.carrier = Some(Carrier {
            task,
            pid,
            files,
            stirred,
        });
        Ok(Some(task))
    }

    fn task_for(&mut self, tid: i32) -> Result<Option<TaskId>, Error> {
        match self.task_of(tid) {
            Ok(task) => Ok(Some(task)),
            Err(error) => soften(error).map(|_| None),
        }
    }

    /// A descriptor, in the task's table, of what another process of the kernel has open.
    pub(crate) fn copy_from(
        &mut self,
        task: TaskId,
        pid: i64,
        number: i32,
    ) -> Result<i64, vink_kernel::Error> {
        self.stirred = true;
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
        target::read_u64(tid, place),
        target::read_u64(tid, place.wrapping_add(8)),
    );
    let (Some(control), Some(len @ 1..=LONGEST)) = (control, len) else {
        return Vec::new();
    };
    let mut bytes = vec![0; len as usize];
    match target::read(tid, control, &mut bytes) {
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
