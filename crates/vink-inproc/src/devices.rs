//! What the token is for: the kernel, its devices, and the threads to wake when something has happened.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::process::Child;

use vink_kernel::{
    Call, CloneKind, Device, DeviceHost, DeviceId, Event, Interest, Kernel, Outcome, TaskId,
};
use vink_lab::{Machine, Passt};

use crate::thread::Record;
use crate::Error;

/// Cookies of the devices' watches; the interposer may have watches of its own.
const COOKIES: u64 = 1 << 63;

/// Everything that only the holder of the token uses.
pub(crate) struct Inside {
    pub kernel: Kernel,
    pub machine: Machine,
    /// Makes no calls: the first of the program's thread group, which the threads' tasks are cloned from.
    first: TaskId,
    devices: Vec<Option<(Box<dyn Device>, Interest)>>,
    /// Ends when dropped: never.
    passt: Option<Passt>,
    /// Devices that have more to do.
    again: Vec<usize>,
    threads: HashMap<TaskId, &'static Record>,
    /// Records of threads that have ended.
    unused: Vec<&'static Record>,
    /// Threads that wait for more than a call of theirs.
    waiters: Vec<&'static Record>,
    /// When the kernel wants to be run again, in ns of the host's clock; `u64::MAX`: never.
    pub due: u64,
}

// SAFETY: what is not Send are the devices' reference counts, which are only used by the token's holder.
unsafe impl Send for Inside {}

impl Inside {
    pub fn new(mut kernel: Kernel, machine: Machine) -> Result<Inside, Error> {
        let first = kernel.task(machine.id)?;
        // The host decides how many descriptors a program may have: struct rlimit64, soft and hard.
        let limit = [1u64 << 20; 2];
        let address = (&raw const limit) as u64;
        let args = [0, libc::RLIMIT_NOFILE.into(), address, 0, 0, 0];
        kernel.call(first, libc::SYS_prlimit64, args)?;
        Ok(Inside {
            kernel,
            machine,
            first,
            devices: Vec::new(),
            passt: None,
            again: Vec::new(),
            threads: HashMap::new(),
            unused: Vec::new(),
            waiters: Vec::new(),
            due: 0,
        })
    }

    /// A record, with a task, for a thread that has none.
    pub fn admit(&mut self) -> Result<&'static Record, vink_kernel::Error> {
        let task = self.kernel.clone_task(self.first, CloneKind::Thread)?;
        let unused = self.unused.pop();
        let record = unused.unwrap_or_else(|| Box::leak(Box::new(Record::new(None))));
        record.task.set(Some(task));
        self.threads.insert(task, record);
        Ok(record)
    }

    /// The process at the other end of the way out.
    pub fn keep(&mut self, passt: Passt) {
        self.passt = Some(passt);
    }

    /// Whether something that was sent by TCP waits to be taken, although no descriptor of the socket is open any more.
    pub fn has_unfinished(&mut self) -> Result<bool, vink_kernel::Error> {
        match self.machine.has_unfinished(&mut self.kernel) {
            Ok(there) => Ok(there),
            Err(vink_lab::Error::Kernel(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The thread makes no more calls.
    pub fn dismiss(&mut self, record: &'static Record) -> Result<(), vink_kernel::Error> {
        let Some(task) = record.task.take() else {
            return Ok(());
        };
        self.threads.remove(&task);
        self.waiters.retain(|waiter| !std::ptr::eq(*waiter, record));
        record.reset();
        self.unused.push(record);
        match self.kernel.exit_task(task, 0, false) {
            // It was killed.
            Err(vink_kernel::Error::NoSuchTask) => Ok(()),
            ended => ended,
        }
    }

    /// All of the program's tasks end, as by exit_group(2).
    pub fn end(&mut self) -> Result<(), vink_kernel::Error> {
        self.kernel.exit_task(self.first, 0, true)?;
        self.run(None)
    }

    /// Closes what the devices have open, and removes what they have made: the peer of a shared wire sees it end.
    pub fn close_devices(&mut self) {
        self.devices.clear();
    }

    /// Starts a call and runs the kernel; the outcome, if it is done by then.
    pub fn call(
        &mut self,
        me: &'static Record,
        nr: i64,
        args: [u64; 6],
    ) -> Result<Option<Outcome>, vink_kernel::Error> {
        let Some(task) = me.task.get() else {
            return Err(vink_kernel::Error::NoSuchTask);
        };
        let call = Call {
            nr,
            args,
            ..Call::default()
        };
        let entered = self.kernel.enter(task, &call)?;
        self.plan(entered.deadline);
        if self.tell(Some(me))? {
            self.run(Some(me))?;
            // What the devices have done may have been what it waited for.
            return Ok(entered.outcome.or_else(|| self.kernel.poll(task)));
        }
        Ok(entered.outcome)
    }

    /// Interrupts the thread's call, whose end is delivered.
    pub fn cancel(&mut self, me: &'static Record) -> Result<(), vink_kernel::Error> {
        let Some(task) = me.task.get() else {
            return Ok(());
        };
        match self.kernel.cancel(task) {
            Ok(()) => self.run(None),
            // It is done already.
            Err(vink_kernel::Error::Errno { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs the kernel until there is nothing to do, and wakes all threads but `me` that are concerned.
    pub fn run(&mut self, me: Option<&'static Record>) -> Result<(), vink_kernel::Error> {
        loop {
            let deadline = self.kernel.run()?;
            self.plan(deadline);
            if !self.tell(me)? {
                return Ok(());
            }
        }
    }

    #[inline]
    fn plan(&mut self, deadline: Option<u64>) {
        self.due = deadline.map_or(u64::MAX, Kernel::host_time);
    }

    /// Tells what has happened; true if a device was served meanwhile.
    #[inline]
    fn tell(&mut self, me: Option<&'static Record>) -> Result<bool, vink_kernel::Error> {
        let mut served = false;
        while let Some(event) = self.kernel.next_event() {
            match event {
                Event::Done(task) => self.deliver(task, me),
                Event::Ready { cookie, .. } if cookie & COOKIES != 0 => {
                    self.serve((cookie & !COOKIES) as usize)?;
                    served = true;
                }
                Event::Ready { .. } | Event::Gone { .. } => {}
            }
        }
        for waiter in &self.waiters {
            if !me.is_some_and(|me| std::ptr::eq(me, *waiter)) {
                waiter.notify();
            }
        }
        Ok(served)
    }

    fn deliver(&mut self, task: TaskId, me: Option<&'static Record>) {
        let Some(record) = self.threads.get(&task) else {
            return;
        };
        if me.is_some_and(|me| std::ptr::eq(me, *record)) {
            return;
        }
        if let Some(outcome) = self.kernel.poll(task) {
            record.deliver(outcome);
        }
    }

    /// The thread waits for whatever may happen, until [`Inside::ignore`].
    pub fn attend(&mut self, waiter: &'static Record) {
        self.waiters.push(waiter);
    }

    pub fn ignore(&mut self, waiter: &'static Record) {
        let at = self.waiters.iter().position(|w| std::ptr::eq(*w, waiter));
        if let Some(at) = at {
            self.waiters.swap_remove(at);
        }
    }

    /// What poll(2) is to be asked of the devices: an entry for each, in their order.
    pub fn poll_set(&self) -> impl Iterator<Item = libc::pollfd> + '_ {
        self.devices.iter().map(|device| {
            let (fd, events) = match device {
                Some((device, Interest::Writable)) => {
                    (device.host().as_raw_fd(), libc::POLLIN | libc::POLLOUT)
                }
                Some((device, _)) => (device.host().as_raw_fd(), libc::POLLIN),
                None => (-1, 0),
            };
            libc::pollfd {
                fd,
                events,
                revents: 0,
            }
        })
    }

    /// Whether a device is to be served although it has nothing to wait for.
    pub fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    /// To be asked before sleeping: whether other processes that share a wire with this one have nothing for it.
    pub fn may_sleep(&self) -> bool {
        self.again.is_empty() && self.kernel.may_sleep()
    }

    /// Serves the devices whose entry says so, those that want more, and runs the kernel.
    pub fn serve_ready(&mut self, set: &[libc::pollfd]) -> Result<(), vink_kernel::Error> {
        for id in std::mem::take(&mut self.again) {
            self.serve(id)?;
        }
        for (id, entry) in set.iter().enumerate() {
            if entry.revents != 0 {
                self.serve(id)?;
            }
        }
        self.run(None)
    }

    /// Serves all devices and runs the kernel.
    pub fn serve_all(&mut self) -> Result<(), vink_kernel::Error> {
        self.again.clear();
        for id in 0..self.devices.len() {
            self.serve(id)?;
        }
        self.run(None)
    }

    fn serve(&mut self, id: usize) -> Result<(), vink_kernel::Error> {
        let Some(Some((device, interest))) = self.devices.get_mut(id) else {
            return Ok(());
        };
        *interest = device.serve(&mut self.kernel)?;
        match interest {
            Interest::Unfinished if !self.again.contains(&id) => self.again.push(id),
            Interest::Ended => self.devices[id] = None,
            _ => {}
        }
        Ok(())
    }
}

impl DeviceHost for Inside {
    fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, vink_kernel::Error> {
        let id = self.devices.len();
        vink_kernel::watch(&mut self.kernel, &*device, COOKIES | id as u64)?;
        self.devices.push(Some((device, Interest::Readable)));
        self.serve(id)?;
        Ok(DeviceId::new(id))
    }

    fn guard_helper(&mut self, _helper: &Child) -> Result<(), vink_kernel::Error> {
        // It ends with its socket, and that with this process: no other process has it.
        Ok(())
    }
}
