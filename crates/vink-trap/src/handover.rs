//! Vink files that travel over the host's unix sockets (`SCM_RIGHTS` of unix(7)).
//!
//! The host carries the placeholder. Meanwhile a task of the kernel's that no program has, the
//! *carrier*, has the file open; it ends with the last file. The receiver gets the file when it
//! makes its next trapped call after recvmsg(2). What is never received stays open, and so does what
//! sendmsg(2) failed to send.

use std::rc::Rc;

use vink_kernel::{MachineId, TaskId};

use crate::notify::Notification;
use crate::process::{Entry, File};
use crate::serve::soften;
use crate::target;
use crate::worker::Worker;
use crate::Error;

/// Of `struct msghdr`: where `msg_control` and `msg_controllen` are.
const CONTROL: u64 = 32;
/// Of `struct cmsghdr`.
const HEADER: usize = 16;
/// More control data than `SCM_MAX_FD` descriptors take.
const LONGEST: u64 = 64 << 10;

/// Has the files that are on their way.
pub(crate) struct Carrier {
    task: TaskId,
    /// Its process in the kernel.
    pid: i64,
    files: Vec<Entry>,
}

impl Worker {
    /// A host socket's sendmsg(2) is about to pass: takes charge of the Vink files it sends.
    pub(crate) fn send_off(&mut self, call: Notification) -> Result<(), Error> {
        let process = &self.processes[&self.threads[&call.tid].pid];
        if process.table.is_empty() {
            return Ok(());
        }
        let machine = process.machine;
        for fd in rights(call.tid, call.args[1]) {
            let process = &self.processes[&self.threads[&call.tid].pid];
            let Some(entry) = process.table.get(fd as u64).cloned() else {
                continue;
            };
            let Some(sender) = self.task_for(call.tid)? else {
                return Ok(());
            };
            let pid = self.call(sender, libc::SYS_getpid, [0; 6])?;
            let Some(carrier) = self.carrier(machine)? else {
                return Ok(());
            };
            let number = self.copy_from(carrier, pid, entry.number)?;
            if let (0.., Some(carrier)) = (number, &mut self.carrier) {
                let (file, number) = (entry.file, number as i32);
                carrier.files.push(Entry { file, number });
            }
        }
        Ok(())
    }

    /// The thread has left a host socket's recvmsg(2): gives it the Vink files that came.
    pub(crate) fn receive(&mut self, tid: i32, message: u64) -> Result<(), Error> {
        if self.carrier.is_none() {
            return Ok(());
        }
        let pid = self.threads[&tid].pid;
        for fd in rights(tid, message) {
            let known = self.processes[&pid].table.get(fd as u64).is_some();
            let found = target::descriptor(pid, fd);
            let Some(carrier) = self.carrier.as_mut().filter(|_| !known) else {
                continue;
            };
            let is_it = |file: &Rc<File>| Some(file.placeholder.identity()) == found;
            let Some(index) = carrier.files.iter().position(|e| is_it(&e.file)) else {
                continue;
            };
            let carried = carrier.files.remove(index);
            let (from, owner) = (carrier.task, carrier.pid);
            if let Some(task) = self.task_for(tid)? {
                let number = self.copy_from(task, owner, carried.number)?;
                if number >= 0 {
                    let (file, number) = (carried.file, number as i32);
                    let entry = Entry { file, number };
                    self.process_mut(pid).table.insert(fd, entry);
                }
            }
            if self.carrier.as_ref().is_some_and(|c| c.files.is_empty()) {
                self.carrier = None;
                self.end_task(from, true);
            } else {
                let args = [carried.number as u64, 0, 0, 0, 0, 0];
                self.call(from, libc::SYS_close, args)?;
            }
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
        let pid = self.call(task, libc::SYS_getpid, [0; 6])?;
        let files = Vec::new();
        self.carrier = Some(Carrier { task, pid, files });
        Ok(Some(task))
    }

    fn task_for(&mut self, tid: i32) -> Result<Option<TaskId>, Error> {
        match self.task_of(tid) {
            Ok(task) => Ok(Some(task)),
            Err(error) => soften(error).map(|_| None),
        }
    }

    /// A descriptor, in the task's table, of what another process of the kernel has open.
    fn copy_from(&mut self, task: TaskId, pid: i64, number: i32) -> Result<i64, Error> {
        let pidfd = self.call(task, libc::SYS_pidfd_open, [pid as u64, 0, 0, 0, 0, 0])?;
        if pidfd < 0 {
            return Ok(pidfd);
        }
        let pidfd = pidfd as u64;
        let args = [pidfd, number as u64, 0, 0, 0, 0];
        let copied = self.call(task, libc::SYS_pidfd_getfd, args)?;
        self.call(task, libc::SYS_close, [pidfd, 0, 0, 0, 0, 0])?;
        Ok(copied)
    }
}

/// The descriptors that a `struct msghdr` of the thread names; none if it is not readable.
fn rights(tid: i32, message: u64) -> Vec<i32> {
    let place = message.wrapping_add(CONTROL);
    let (control, len) = (
        target::read_u64(tid, place),
        target::read_u64(tid, place + 8),
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

/// The descriptors in control data.
fn descriptors(mut control: &[u8]) -> Vec<i32> {
    let number = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let mut found = Vec::new();
    while control.len() >= HEADER {
        let len = u64::from_ne_bytes(control[..8].try_into().expect("eight bytes"));
        let kind = (number(&control[8..12]), number(&control[12..16]));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let Some(data) = control.get(HEADER..len) else {
            break;
        };
        if kind == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            found.extend(data.chunks_exact(4).map(number));
        }
        control = control.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    found
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
    }
}
