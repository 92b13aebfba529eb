//! Host code that runs as a task of a kernel, on a guarded stack of its own.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use vink_abi::FiberCallFn;
use vink_sys::mapping::{Mapping, Pages};

use crate::{Credentials, Error};

/// Exit status of a fiber whose closure panicked, as of a Rust program.
const PANICKED: c_int = 101;

/// A fiber's way into its kernel. Only its own closure has it.
pub struct Fiber {
    call: FiberCallFn,
    /// The closure runs on one thread: it must not give this to another.
    not_send: PhantomData<*const ()>,
}

impl Fiber {
    /// A system call (`libc::SYS_*`) or a `vink_abi::VINK_CALL_*` of this task: a function call.
    /// Other tasks may run meanwhile. The raw result: `-errno` on failure.
    ///
    /// Pointers among the arguments are into this process and are the caller's responsibility, as
    /// with syscall(2). Never returns if the kernel panics: the fiber's stack is leaked then.
    #[inline]
    pub fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        let [a0, a1, a2, a3, a4, a5] = args;
        // SAFETY: this is the fiber's own context: its closure has the only reference, and that
        // can't leave the closure's run.
        unsafe { (self.call)(nr as u64, a0, a1, a2, a3, a4, a5) }
    }
}

type Closure = Box<dyn FnOnce(&Fiber) -> i32>;

/// A fiber's stack and closure, of which the image does not know yet.
pub(crate) struct Launch {
    stack: Stack,
    start: Rc<Start>,
    credentials: Credentials,
}

/// The same from then on. Leaked unless freed: a closure that never returned may have lent out what
/// is on its stack.
pub(crate) struct Body(ManuallyDrop<Launch>);

/// What [`enter`] is given.
struct Start {
    /// Taken when the fiber begins to run.
    closure: Cell<Option<Closure>>,
    fiber: Fiber,
    /// The task's number inside the kernel; 0: it has not begun.
    pid: Cell<i32>,
}

/// A stack grows down to a page that can't be touched.
const GUARD: usize = 4096;
const SIZE: usize = GUARD + (256 << 10);

/// Where a fiber runs. One that is dropped is kept, if stacks are.
struct Stack(Mapping);

/// Stacks that no fiber has.
#[derive(Default)]
struct Spare {
    stacks: Vec<Mapping>,
    /// None is unmapped.
    keep: bool,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// Maps so many stacks in advance. This thread's fibers take them, and give theirs back when they
/// end: so nothing is mapped or unmapped by a fiber, as long as there are no more at a time.
///
/// # Errors
/// [`Error::Errno`]: mmap(2) refused.
pub(crate) fn keep_stacks(count: usize) -> Result<(), Error> {
    let stacks: Vec<Stack> = (0..count).map(|_| Stack::new()).collect::<Result<_, _>>()?;
    SPARE.with_borrow_mut(|spare| {
        spare.keep = true;
        spare.stacks.reserve(2 * count);
    });
    drop(stacks);
    Ok(())
}

impl Stack {
    fn new() -> Result<Stack, Error> {
        if let Some(stack) = SPARE.with_borrow_mut(|spare| spare.stacks.pop()) {
            return Ok(Stack(stack));
        }
        let stack = Mapping::new(SIZE).and_then(|stack| {
            stack.replace(0..GUARD, Pages::Guard)?;
            Ok(stack)
        });
        stack.map(Stack).map_err(|error| Error::Errno {
            what: "map a fiber's stack",
            errno: error.raw_os_error().unwrap_or(libc::ENOMEM),
        })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let stack = std::mem::take(&mut self.0);
        // With the thread its spare ones are gone.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.keep {
                spare.stacks.push(stack);
            }
        });
    }
}

impl Launch {
    /// Makes a stack for the closure.
    ///
    /// # Errors
    /// [`Error::Errno`]: mmap(2) refused.
    pub fn new(
        call: FiberCallFn,
        credentials: Credentials,
        closure: Closure,
    ) -> Result<Launch, Error> {
        let stack = Stack::new()?;
        let fiber = Fiber {
            call,
            not_send: PhantomData,
        };
        let start = Rc::new(Start {
            closure: Cell::new(Some(closure)),
            fiber,
            pid: Cell::new(0),
        });
        Ok(Launch {
            stack,
            start,
            credentials,
        })
    }

    /// The members of `struct vink_task_params`, and what they point to.
    pub fn begin(self, cookie: u64) -> (Body, vink_abi::TaskParams) {
        let params = vink_abi::TaskParams {
            cookie,
            entry: Some(enter),
            arg: Rc::as_ptr(&self.start).cast_mut().cast(),
            stack_top: self.stack.0.start().wrapping_byte_add(SIZE),
            drop: !self.credentials.capabilities,
            uid: self.credentials.uid,
            gid: self.credentials.gid,
        };
        (Body(ManuallyDrop::new(self)), params)
    }
}

impl Body {
    /// The task's number inside the kernel, for signals; 0: it has not begun.
    pub fn pid(&self) -> i32 {
        self.0.start.pid.get()
    }

    /// Frees everything.
    ///
    /// # Safety
    /// No kernel runs this body any more, and if it ever did, the closure has returned.
    pub unsafe fn free(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }
}

/// Runs a fiber's closure.
unsafe extern "C" fn enter(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the Start that begin() gave, alive until the task is gone.
    let start = unsafe { &*arg.cast::<Start>() };
    let Some(closure) = start.closure.take() else {
        return PANICKED;
    };
    start
        .pid
        .set(start.fiber.call(libc::SYS_getpid, [0; 6]) as i32);
    // The kernel's frames below can't be unwound.
    catch_unwind(AssertUnwindSafe(|| closure(&start.fiber))).unwrap_or(PANICKED)
}
