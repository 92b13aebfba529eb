//! Apps in C: shared objects with a `vink_app_main()`, as `include/vink/app.h` has it.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_long, c_ulong, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;
use std::rc::Rc;

use libc::{
    clockid_t, epoll_event, msghdr, nfds_t, pollfd, sockaddr, socklen_t, ssize_t, timespec,
};
use libc::{EINVAL, EPERM};

use crate::{App, AppError, Calls, Error, Report};

/// What the shared object defines.
const MAIN: &CStr = c"vink_app_main";

type Main = unsafe extern "C" fn(*const Table, c_int, *const *const c_char) -> c_int;

/// An app of a shared object.
pub(crate) struct SharedObject {
    arguments: Vec<CString>,
    main: Main,
    /// After what points into it.
    _library: Library,
}

/// A library that is loaded as long as this lives.
struct Library(*mut c_void);

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: what dlopen() gave; nothing of it is used any more.
        unsafe { libc::dlclose(self.0) };
    }
}

impl SharedObject {
    /// Loads a file, on the words of a command line (its name is not among them).
    pub fn load(file: &str, words: &[String]) -> Result<SharedObject, Error> {
        let fail = |why: String| Error::Load {
            path: file.into(),
            why,
        };
        // A name without a folder would be looked for where libraries are.
        let path = Path::new(file).canonicalize();
        let path = path.map_err(|error| fail(error.to_string()))?;
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| fail("a NUL byte in an argument".to_owned()))
        };
        let name = text(path.as_os_str().as_bytes())?;
        let rest = words.iter().map(|word| text(word.as_bytes()));
        let arguments = std::iter::once(Ok(name.clone())).chain(rest);
        let arguments = arguments.collect::<Result<_, _>>()?;
        // SAFETY: a path; what the file does when it is loaded is its author's responsibility, as
        // all that it does later.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(fail(loader_error()));
        }
        let library = Library(library);
        // SAFETY: an open library, and a name; the header says that a function of this name is of this
        // type, and null is none.
        let main = unsafe {
            let found = libc::dlsym(library.0, MAIN.as_ptr());
            std::mem::transmute::<*mut c_void, Option<Main>>(found)
        };
        let lacks = || {
            let name = MAIN.to_string_lossy();
            fail(format!("it defines no {name}(): see vink/app.h"))
        };
        Ok(SharedObject {
            arguments,
            main: main.ok_or_else(lacks)?,
            _library: library,
        })
    }
}

fn loader_error() -> String {
    // SAFETY: the text ends with a NUL and stays until the next call of the loader, by this thread.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text))
    };
    text.map_or("the loader does not say why".into(), CStr::to_string_lossy)
        .into_owned()
}

impl App for SharedObject {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let report = Rc::new(RefCell::new(None));
        let here = Here {
            calls: (&raw const *calls).cast(),
            report: Rc::clone(&report),
        };
        let mut words: Vec<_> = self.arguments.iter().map(|word| word.as_ptr()).collect();
        words.push(null());
        CURRENT.set(&raw const here);
        // SAFETY: as the header promises: a table, and a list of strings that ends with a null
        // pointer.
        let status = unsafe { (self.main)(&TABLE, self.arguments.len() as c_int, words.as_ptr()) };
        CURRENT.set(null());
        Ok(status)
    }
}

/// The app that calls of the table are of.
struct Here {
    /// Of the app's whole life, whatever the compiler calls that.
    calls: *const Calls<'static>,
    report: Rc<RefCell<Option<serde_json::Value>>>,
}

thread_local! {
    /// The app whose code runs: set when it begins, and when a call, in which others may have run,
    /// returns to it.
    static CURRENT: Cell<*const Here> = const { Cell::new(null()) };
}

/// Does something for the app that calls; `None`: the caller is no app.
fn with<T>(work: impl FnOnce(&Here, &Calls<'_>) -> T) -> Option<T> {
    let current = CURRENT.get();
    // SAFETY: set by run(), whose frame and arguments are there as long as the code that calls
    // this.
    let (here, calls) = unsafe {
        let here = current.as_ref()?;
        (here, &*here.calls)
    };
    let result = work(here, calls);
    CURRENT.set(current);
    Some(result)
}

fn fail(errno: c_int) -> i64 {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// A system call as libc's functions make it.
fn call(nr: i64, args: [u64; 6]) -> i64 {
    match with(|_, calls| calls.call(nr, args)) {
        Some(Ok(result)) => result as i64,
        Some(Err(error)) => fail(error.raw_os_error().unwrap_or(EINVAL)),
        None => fail(EPERM),
    }
}

/// Defines the table's type and its members that are system calls as they are.
macro_rules! table {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $nr:expr;)*) => {
        /// `struct vink_app`.
        #[repr(C)]
        struct Table {
            version: u32,
            size: u32,
            $($name: extern "C" fn($($type),*) -> $result,)*
            close: extern "C" fn(c_int) -> c_int,
            syscall: extern "C" fn(
                c_long, c_long, c_long, c_long, c_long, c_long, c_long,
            ) -> c_long,
            print: unsafe extern "C" fn(*const c_char),
            ready: extern "C" fn(),
            report: unsafe extern "C" fn(*const c_char) -> c_int,
            stopping: extern "C" fn() -> c_int,
        }

        static TABLE: Table = Table {
            version: 1,
            size: size_of::<Table>() as u32,
            $($name: {
                extern "C" fn $name($($arg: $type),*) -> $result {
                    let given = [$($arg as u64),*];
                    let mut args = [0; 6];
                    args[..given.len()].copy_from_slice(&given);
                    call($nr, args) as $result
                }
                $name
            },)*
            close,
            syscall,
            print,
            ready,
            report,
            stopping,
        };
    };
}

table! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = libc::SYS_socket;
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = libc::SYS_bind;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = libc::SYS_connect;
    listen(fd: c_int, backlog: c_int) -> c_int = libc::SYS_listen;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int
        = libc::SYS_accept4;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int
        = libc::SYS_getsockname;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int
        = libc::SYS_getpeername;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int
        = libc::SYS_setsockopt;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int
        = libc::SYS_getsockopt;
    shutdown(fd: c_int, how: c_int) -> c_int = libc::SYS_shutdown;
    send(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> ssize_t = libc::SYS_sendto;
    recv(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> ssize_t = libc::SYS_recvfrom;
    sendto(fd: c_int, data: *const c_void, len: usize, flags: c_int, address: *const sockaddr,
        alen: socklen_t) -> ssize_t = libc::SYS_sendto;
    recvfrom(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int, address: *mut sockaddr,
        alen: *mut socklen_t) -> ssize_t = libc::SYS_recvfrom;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t = libc::SYS_sendmsg;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = libc::SYS_recvmsg;
    read(fd: c_int, buffer: *mut c_void, len: usize) -> ssize_t = libc::SYS_read;
    write(fd: c_int, data: *const c_void, len: usize) -> ssize_t = libc::SYS_write;
    poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int = libc::SYS_poll;
    epoll_create1(flags: c_int) -> c_int = libc::SYS_epoll_create1;
    epoll_ctl(epfd: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int
        = libc::SYS_epoll_ctl;
    epoll_wait(epfd: c_int, events: *mut epoll_event, room: c_int, ms: c_int) -> c_int
        = libc::SYS_epoll_wait;
    clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int = libc::SYS_clock_gettime;
    nanosleep(time: *const timespec, left: *mut timespec) -> c_int = libc::SYS_nanosleep;
    fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int = libc::SYS_fcntl;
    ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int = libc::SYS_ioctl;
}

extern "C" fn close(fd: c_int) -> c_int {
    match with(|_, calls| calls.close(fd)) {
        Some(result) if result >= 0 => 0,
        Some(result) => fail(-result as c_int) as c_int,
        None => fail(EPERM) as c_int,
    }
}

extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    call(number, [a, b, c, d, e, f].map(|value| value as u64))
}

unsafe extern "C" fn print(text: *const c_char) {
    // SAFETY: as the header says: a string.
    let text = unsafe { CStr::from_ptr(text) };
    with(|_, calls| calls.print(&text.to_string_lossy()));
}

extern "C" fn ready() {
    with(|_, calls| calls.ready());
}

unsafe extern "C" fn report(json: *const c_char) -> c_int {
    // SAFETY: as the header says: a string.
    let text = unsafe { CStr::from_ptr(json) };
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(text.to_bytes()) else {
        return fail(EINVAL) as c_int;
    };
    let done = with(|here, calls| {
        let first = here.report.replace(Some(value)).is_none();
        if first {
            let report = Rc::clone(&here.report);
            calls.publish(move || Report::Other {
                value: report.borrow().clone().unwrap_or_default(),
            });
        }
    });
    done.map_or_else(|| fail(EPERM) as c_int, |()| 0)
}

extern "C" fn stopping() -> c_int {
    with(|_, calls| calls.stopping())
        .is_none_or(|stopping| stopping)
        .into()
}
