//! Host code that runs as a task of a kernel, on a guarded stack of its own.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null_mut, NonNull};

use vink_abi::FiberCallFn;

use crate::Error;

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

/// A fiber's stack and closure, for as long as its task lives.
pub(crate) struct Body {
    stack: Stack,
    start: NonNull<Start>,
}

/// What [`enter`] is given.
struct Start {
    /// Taken when the fiber begins to run.
    closure: Cell<Option<Closure>>,
    fiber: Fiber,
    /// The task's number inside the kernel; 0: it has not begun.
    pid: Cell<i32>,
}

impl Body {
    /// Makes a stack for the closure.
    ///
    /// # Errors
    /// [`Error::Errno`]: mmap(2) refused.
    pub fn new(call: FiberCallFn, closure: Closure) -> Result<Body, Error> {
        let stack = Stack::new()?;
        let fiber = Fiber {
            call,
            not_send: PhantomData,
        };
        let start = Box::new(Start {
            closure: Cell::new(Some(closure)),
            fiber,
            pid: Cell::new(0),
        });
        Ok(Body {
            stack,
            start: NonNull::from(Box::leak(start)),
        })
    }

    /// The members of `struct vink_task_params`.
    pub fn params(&self, cookie: u64) -> vink_abi::TaskParams {
        vink_abi::TaskParams {
            cookie,
            entry: Some(enter),
            arg: self.start.as_ptr().cast(),
            stack_top: self.stack.top(),
        }
    }

    /// The task's number inside the kernel, for signals; 0: it has not begun.
    pub fn pid(&self) -> i32 {
        // SAFETY: made by Box::leak in new(), and freed with the body only.
        unsafe { self.start.as_ref() }.pid.get()
    }

    /// Frees everything. Only for a fiber that has ended or was never created.
    ///
    /// # Safety
    /// No kernel runs this body any more, and if it ever did, the closure has returned.
    pub unsafe fn free(self) {
        // SAFETY: made by Box::leak in new(); by contract it is not in use.
        drop(unsafe { Box::from_raw(self.start.as_ptr()) });
        self.stack.unmap();
    }
}

/// Runs a fiber's closure.
unsafe extern "C" fn enter(arg: *mut c_void) -> c_int {
    // SAFETY: `arg` is the Start that params() gave, alive until the task is gone.
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

/// Pages that grow down to a page that can't be touched. Leaked unless unmapped: a closure that
/// never returned may have lent out what is on it.
struct Stack(*mut c_void);

const GUARD: usize = 4096;
const SIZE: usize = GUARD + (256 << 10);

impl Stack {
    fn new() -> Result<Stack, Error> {
        let fail = || Error::Errno {
            what: "map a fiber's stack",
            errno: std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::ENOMEM),
        };
        // SAFETY: a new mapping, and its first page.
        unsafe {
            let start = libc::mmap(
                null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
                -1,
                0,
            );
            if start == libc::MAP_FAILED {
                return Err(fail());
            }
            let stack = Stack(start);
            if libc::mprotect(start, GUARD, libc::PROT_NONE) != 0 {
                let error = fail();
                stack.unmap();
                return Err(error);
            }
            Ok(stack)
        }
    }

    fn top(&self) -> *mut c_void {
        self.0.wrapping_byte_add(SIZE)
    }

    fn unmap(self) {
        // SAFETY: the mapping is this stack's own; its owner says that no fiber runs on it.
        unsafe { libc::munmap(self.0, SIZE) };
    }
}
