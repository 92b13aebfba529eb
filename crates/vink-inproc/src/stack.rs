//! The process's one kernel, as the interposer uses it.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use vink_kernel::{Kernel, Outcome, TaskId};

use crate::boot::boot;
use crate::devices::Inside;
use crate::keeper::Keeper;
use crate::thread::{Record, Thread};
use crate::token::{Token, TokenGuard};
use crate::wait::Passed;
use crate::{host, watchdog, Config, Error};

/// The exit status of a program whose kernel panicked, as `vink run` has it.
const PANICKED: i32 = 121;
/// ... that can't go on for another reason, as `vink run` has it.
const FAILED: i32 = 125;

/// The kernel, with one machine. Any thread may use it.
pub struct Stack {
    pub(crate) token: Token<Inside>,
    /// How often the token was taken for a call: whether the program is at it.
    pub(crate) entries: AtomicU64,
    /// The driver, which moves packets and fires timers while threads wait; null: there is none.
    pub(crate) driver: AtomicPtr<Record>,
    /// Until when the driver sleeps.
    pub(crate) sleeps_until: AtomicU64,
    /// When the kernel is to be run again, of `Inside`.
    pub(crate) due: AtomicU64,
    pub(crate) keeper: Keeper,
    /// In ns.
    pub(crate) spin: u64,
}

static STACK: OnceLock<Result<Stack, Error>> = OnceLock::new();
/// The program ends: its tasks are gone, and threads that have not noticed may still call.
static ENDING: AtomicBool = AtomicBool::new(false);
/// This process is a fork of the one that has booted.
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The thread's record, from its first call on.
    static ME: Cell<Option<&'static Record>> = const { Cell::new(None) };
}

impl Stack {
    /// The stack. `None` before it was booted, or in a forked child.
    #[inline]
    pub fn get() -> Option<&'static Stack> {
        match STACK.get() {
            Some(Ok(stack)) if !FORKED.load(Ordering::Relaxed) => Some(stack),
            _ => None,
        }
    }

    /// The stack, which is booted by the environment if it has not been: see [`Config::from_environment`].
    ///
    /// # Errors
    /// Why it can't be, the same each time.
    ///
    /// # Panics
    /// In a forked child of a process that has booted one.
    pub fn boot() -> Result<&'static Stack, &'static Error> {
        Stack::boot_with(Config::from_environment)
    }

    /// The same with a configuration of the caller's.
    ///
    /// # Errors
    /// As [`Stack::boot`].
    ///
    /// # Panics
    /// As [`Stack::boot`].
    pub fn boot_with(
        config: impl FnOnce() -> Result<Config, Error>,
    ) -> Result<&'static Stack, &'static Error> {
        assert!(
            !FORKED.load(Ordering::Relaxed),
            "a forked child has no stack"
        );
        watchdog::start();
        let made = STACK.get_or_init(|| Stack::new(&config()?));
        let stack = made.as_ref()?;
        stack.keeper.start(stack)?;
        Ok(stack)
    }

    fn new(config: &Config) -> Result<Stack, Error> {
        let inside = boot(config)?;
        Ok(Stack {
            token: Token::new(inside),
            entries: AtomicU64::new(0),
            driver: AtomicPtr::new(null_mut()),
            sleeps_until: AtomicU64::new(0),
            due: AtomicU64::new(0),
            keeper: Keeper::new()?,
            spin: config.spin,
        })
    }

    /// Makes a call on the calling thread's task, which is made at its first call. Blocks until the call is done, or
    /// until [`Stack::interrupt`]. The pointers among the arguments are this process's own; a bad one is `EFAULT`.
    ///
    /// A kernel that has panicked ends the process, with log, backtrace and status 121.
    #[inline]
    pub fn call(&self, nr: i64, args: [u64; 6]) -> Outcome {
        let me = self.me();
        let mut guard = self.enter();
        let started = guard.call(me, nr, args);
        self.leave(guard);
        match started {
            Ok(Some(outcome)) => outcome,
            Ok(None) => self.finish_call(me),
            Err(vink_kernel::Error::Errno { errno, .. }) => Outcome {
                result: -i64::from(errno),
                ..Outcome::default()
            },
            Err(error) => die(&error),
        }
    }

    /// Waits for the end of the thread's call.
    #[cold]
    fn finish_call(&self, me: &'static Record) -> Outcome {
        loop {
            match self.pass(me, &mut [], None, &|| me.is_done()) {
                Passed::Interrupted => {
                    let mut guard = self.enter();
                    let cancelled = guard.cancel(me);
                    self.leave(guard);
                    cancelled.unwrap_or_else(|error| die(&error));
                }
                Passed::Over | Passed::TimedOut | Passed::Host(_) => {}
            }
            if let Some(outcome) = me.delivered() {
                return outcome;
            }
        }
    }

    /// Has the thread's call that waits end with `-EINTR`, or its [`Stack::wait`] with `Interrupted`; if it does not wait,
    /// that will be so when it next would. May be called in a signal handler, also of that thread's.
    pub fn interrupt(&self, thread: Thread) {
        thread.0.interrupted.store(true, Ordering::Release);
        thread.0.wake();
    }

    /// Takes back an interrupt that did not end anything.
    pub fn forget_interrupt(&self, thread: Thread) {
        thread.0.interrupted.store(false, Ordering::Release);
    }

    /// The calling thread, for [`Stack::interrupt`]. `None`: it has not made a call yet.
    pub fn thread() -> Option<Thread> {
        ME.get().map(Thread)
    }

    /// The calling thread ends: so does its task. To be called as the last of what it does.
    pub fn thread_ends(&self) {
        if let Some(Thread(me)) = Stack::thread() {
            ME.set(None);
            let mut guard = self.enter();
            let dismissed = guard.dismiss(me);
            self.leave(guard);
            dismissed.unwrap_or_else(|error| die(&error));
        }
    }

    /// This process is a forked child: the stack stays with its parent, and there is none here.
    pub fn forked_child(&self) {
        FORKED.store(true, Ordering::Relaxed);
        ME.set(None);
    }

    /// The program ends; other threads' calls never return. Closes its descriptors, and serves the devices until what was
    /// sent has been taken by its receiver, or `limit` is over, as kernels do for programs that don't wait for it.
    pub fn finish(&self, limit: Duration) {
        ENDING.store(true, Ordering::Relaxed);
        self.keeper
            .linger(self, limit)
            .unwrap_or_else(|error| die(&error));
        self.token.take().close_devices();
    }

    /// Does something with the kernel and the calling thread's task.
    pub fn with_kernel<R>(&self, f: impl FnOnce(&mut Kernel, TaskId) -> R) -> R {
        let task = self.me().task.get().expect("a thread has a task");
        let mut guard = self.enter();
        let result = f(&mut guard.kernel, task);
        let ran = guard.run(None);
        self.leave(guard);
        ran.unwrap_or_else(|error| die(&error));
        result
    }

    #[inline]
    pub(crate) fn me(&self) -> &'static Record {
        ME.get().unwrap_or_else(|| self.admit())
    }

    #[cold]
    fn admit(&self) -> &'static Record {
        let mut guard = self.enter();
        let admitted = guard.admit();
        self.leave(guard);
        let record = admitted.unwrap_or_else(|error| die(&error));
        record
            .prepare_bell()
            .unwrap_or_else(|error| end(FAILED, &error.to_string()));
        ME.set(Some(record));
        record
    }

    /// Takes the token for the program.
    #[inline]
    pub(crate) fn enter(&self) -> TokenGuard<'_, Inside> {
        let guard = self.token.take();
        // By the token's holder only.
        let entries = self.entries.load(Ordering::Relaxed) + 1;
        self.entries.store(entries, Ordering::Relaxed);
        guard
    }

    /// Gives it back; the driver must not sleep longer than until the kernel is due.
    #[inline]
    pub(crate) fn leave(&self, guard: TokenGuard<'_, Inside>) {
        let due = guard.due;
        self.due.store(due, Ordering::SeqCst);
        drop(guard);
        if due < self.sleeps_until.load(Ordering::SeqCst) {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        let driver = self.driver.load(Ordering::SeqCst);
        // SAFETY: records are never freed; the keeper's is the stack's.
        if let Some(driver) = unsafe { driver.as_ref() } {
            driver.wake();
        }
    }
}

/// The kernel can't go on: says why, and ends the process. Or the process ends, which another thread sees to.
pub(crate) fn die(error: &vink_kernel::Error) -> ! {
    match error {
        vink_kernel::Error::NoSuchTask if ENDING.load(Ordering::Relaxed) => loop {
            host::sleep_while(&AtomicU32::new(0), 0, None);
        },
        vink_kernel::Error::Panic(panic) => end(PANICKED, &format!("{panic}\n{}", panic.log)),
        error => end(FAILED, &error.to_string()),
    }
}

impl Error {
    /// Says on standard error why there is no stack, and ends the process: with status 121 if its kernel panicked, else
    /// with 125.
    pub fn end_process(&self) -> ! {
        match self {
            Error::Kernel(error) => die(error),
            error => end(FAILED, &error.to_string()),
        }
    }
}

/// Says so on standard error and ends the process.
fn end(status: i32, words: &str) -> ! {
    let text = format!("vink: {words}\n");
    let args = [2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0];
    // SAFETY: reads the text; ends the process.
    unsafe {
        host::syscall(libc::SYS_write, args);
        host::syscall(libc::SYS_exit_group, [status as u64, 0, 0, 0, 0, 0]);
    }
    unreachable!("exit_group() returned")
}
