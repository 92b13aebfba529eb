//! Network namespaces that programs make and enter: unshare(2), setns(2), clone(2) with
//! `CLONE_NEWNET`.
//!
//! The host does these calls as they are, so that it decides which process may. Its namespaces are
//! empty and stand for those of the kernel's, by device and inode: the one that a machine's
//! programs begin in for the machine's own, any other one for one that is made, empty, when the
//! first thread is seen in it. A thread that may have moved is looked up at its next trapped call,
//! before that is done.
//!
//! So a program without a network has none, `ip netns` works, and a namespace from outside Vink is
//! an empty one too: a program never gets the host's network. What was made stays for as long as
//! the worker, since any process may yet enter it.

use std::fs;

use vink_kernel::TaskId;

use crate::networks::{Keeper, NetnsId, Network};
use crate::tasks::Tasks;
use crate::tracee;

impl Tasks {
    /// Whether a thread may do a call with these `CLONE_*` flags, as far as networks are concerned.
    /// Without the capability in the kernel it may not, though the host would let it, in a user
    /// namespace of its own: it would be in a network for which the kernel has none.
    pub(crate) fn may_make_network(&self, tid: i32, flags: u64) -> bool {
        let program = self.table.program_of(tid);
        let credentials = self.programs[program].credentials;
        flags & libc::CLONE_NEWNET as u64 == 0 || credentials.may_make_networks()
    }

    /// If the thread is in another namespace than before, its task goes there too. The error is
    /// for the thread's call, which must not be done in the wrong one.
    pub(crate) fn update_netns(&mut self, tid: i32) -> Result<(), vink_kernel::Error> {
        let pid = self.table.pid_of(tid);
        if !self.table.process(pid).may_change_netns.contains(&tid) {
            return Ok(());
        }
        if let Some((key, host)) = tracee::network(tid) {
            let process = self.table.process(pid);
            let own = self.networks.known.get(&key);
            let never_left = !process.has_changed_netns
                && matches!(own, Some(Network::Machine(machine)) if *machine == process.machine);
            if !never_left && self.table.netns(tid) != Some(key) {
                self.enter_host_netns(tid, key, host)?;
            }
        }
        self.table
            .process_mut(pid)
            .may_change_netns
            .retain(|t| *t != tid);
        Ok(())
    }

    fn enter_host_netns(
        &mut self,
        tid: i32,
        key: NetnsId,
        host: fs::File,
    ) -> Result<(), vink_kernel::Error> {
        if !self.networks.known.contains_key(&key) {
            let task = self.task_of(tid)?;
            let number = self.make_network(tid, task)?;
            let made = Network::Made {
                number,
                _host: host,
            };
            self.networks.known.insert(key, made);
        } else if let Some(task) = self.table.task(tid) {
            self.enter_network(task, key)?;
        }
        self.table.set_netns(tid, key);
        Ok(())
    }

    /// A task's descriptor of the namespace that the host's stands for, or an error.
    pub(crate) fn open_network(
        &mut self,
        task: TaskId,
        key: NetnsId,
    ) -> Result<i64, vink_kernel::Error> {
        match (self.networks.known.get(&key), &self.networks.keeper) {
            (Some(Network::Machine(machine)), _) => {
                let nr = i64::from(vink_abi::VINK_CALL_MACHINE_FD);
                let args = [machine.get(), 0, 0, 0, 0, 0];
                self.kernel.call(task, nr, args)
            }
            (Some(Network::Made { number, .. }), Some(keeper)) => {
                let (pid, number) = (keeper.pid, *number);
                self.kernel.copy_from(task, pid, number)
            }
            _ => Ok(-i64::from(libc::EBADF)),
        }
    }

    /// A task goes to the namespace that the host's stands for.
    pub(crate) fn enter_network(
        &mut self,
        task: TaskId,
        key: NetnsId,
    ) -> Result<(), vink_kernel::Error> {
        let number = self.open_network(task, key)?;
        let number = check("opening a network namespace", number)?;
        let args = [number, libc::CLONE_NEWNET as u64, 0, 0, 0, 0];
        let entered = self.kernel.call(task, libc::SYS_setns, args)?;
        let close = [number, 0, 0, 0, 0, 0];
        self.kernel.call(task, libc::SYS_close, close)?;
        self.kernel.dirty = true;
        check("entering a network namespace", entered).map(drop)
    }

    /// A thread's task goes to a new namespace. The keeper's descriptor of it.
    fn make_network(&mut self, tid: i32, task: TaskId) -> Result<i32, vink_kernel::Error> {
        let flags = libc::CLONE_NEWNET as u64;
        let made = self
            .kernel
            .call(task, libc::SYS_unshare, [flags, 0, 0, 0, 0, 0])?;
        check("making a network namespace", made)?;
        let path = c"/proc/thread-self/ns/net".as_ptr() as u64;
        let args = [libc::AT_FDCWD as u64, path, 0, 0, 0, 0];
        let own = self.kernel.call(task, libc::SYS_openat, args)?;
        let own = check("opening a new network namespace", own)?;
        let pid = self.kernel.call(task, libc::SYS_getpid, [0; 6])?;
        let keeper = match &self.networks.keeper {
            Some(keeper) => keeper.task,
            None => {
                let machine = self.table.process_of(tid).machine;
                let task = self.kernel.task(machine)?;
                self.kernel.raise_nofile(task)?;
                let pid = self.kernel.call(task, libc::SYS_getpid, [0; 6])?;
                self.networks.keeper = Some(Keeper { task, pid });
                task
            }
        };
        let number = self.kernel.copy_from(keeper, pid, own as i32)?;
        let close = [own, 0, 0, 0, 0, 0];
        self.kernel.call(task, libc::SYS_close, close)?;
        self.kernel.dirty = true;
        check("keeping a new network namespace", number).map(|number| number as i32)
    }
}

/// A call's result, or the error that it is.
fn check(what: &'static str, result: i64) -> Result<u64, vink_kernel::Error> {
    u64::try_from(result).map_err(|_| vink_kernel::Error::Errno {
        what,
        errno: -result as i32,
    })
}
