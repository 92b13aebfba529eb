//! The process of a pod behind the process wall: `vink-pod-process SOCKET AREA INPUT OUTPUT EMIT MEMORY
//! POD`. It gives up all rights, loads the pod, and makes the calls that the worker has put into the
//! memory that both share.
//!
//! Nothing here protects the worker: from the moment that the pod's first constructor runs, all that this
//! process says may be the pod's word. What holds the pod is outside of its reach: the filter, whose
//! listener is the worker's, the namespaces, the limits.

#[path = "../process/area.rs"]
mod area;

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::mem::zeroed;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

use area::{Pause, Sizes};
use vink_confine::{confine_code, Keep};
use vink_sys::mapping::{Mapping, Pages};
use vink_sys::process::set_limit;
use vink_sys::rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use vink_sys::signals::default_ignored;
use vink_sys::socket::send_with;

/// Where libraries are, and what leads to them.
const LIBRARIES: [&str; 6] = [
    "/usr/lib",
    "/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
];

/// The shared memory.
static AREA: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Where the output is in it, its size, how much of it is used, what may be said, and was.
static OUTPUT: AtomicUsize = AtomicUsize::new(0);
static ROOM: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(0);
static SAID: AtomicUsize = AtomicUsize::new(0);
/// The call that is being made.
static CALL: AtomicU32 = AtomicU32::new(0);
/// The pause that a fault is to be told by: a function of Vink's copies what the pod gave it.
static COPIES: AtomicU32 = AtomicU32::new(0);
/// A fault is being told.
static TELLS: AtomicBool = AtomicBool::new(false);

fn main() {
    // The worker is the only one that starts it, and sees its end.
    let Some(start) = Start::read() else {
        eprintln!("vink-pod-process: vink starts it, for a pod");
        std::process::exit(2)
    };
    let (socket, pod) = match start.confine() {
        Ok(done) => done,
        Err((socket, why)) => {
            let _ = send_with(&socket, why.as_bytes(), &[]);
            std::process::exit(1)
        }
    };
    drop(socket);
    serve(&load(&pod));
}

/// What it was started with.
struct Start {
    socket: OwnedFd,
    area: OwnedFd,
    sizes: Sizes,
    emit: usize,
    memory: u64,
    pod: PathBuf,
}

impl Start {
    fn read() -> Option<Start> {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        let number = |at: usize| words.get(at)?.to_str()?.parse::<u64>().ok();
        let inherited = |at: usize| {
            let fd = i32::try_from(number(at)?).ok().filter(|fd| *fd > 2)?;
            vink_sys::fd::set_cloexec(fd, true).ok()?;
            // SAFETY: open, and this program's first and only use of it.
            Some(unsafe { OwnedFd::from_raw_fd(fd) })
        };
        Some(Start {
            socket: inherited(0)?,
            area: inherited(1)?,
            sizes: Sizes {
                input: number(2)? as usize,
                output: number(3)? as usize,
            },
            emit: number(4)? as usize,
            memory: number(5)?,
            pod: words.get(6)?.into(),
        })
    }

    /// Gives up all rights, and tells the worker.
    fn confine(self) -> Result<(OwnedFd, CString), (OwnedFd, String)> {
        match self.try_confine() {
            Ok(pod) => Ok((self.socket, pod)),
            Err(error) => Err((self.socket, error.to_string())),
        }
    }

    fn try_confine(&self) -> std::io::Result<CString> {
        default_ignored();
        let null = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        let all = Mapping::new(self.sizes.all())?;
        all.replace(0..all.len(), Pages::Shared(self.area.as_fd(), 0))?;
        AREA.store(all.start().cast(), Relaxed);
        // As long as this process.
        std::mem::forget(all);
        OUTPUT.store(self.sizes.output_at(), Relaxed);
        ROOM.store(self.sizes.output, Relaxed);
        LIMIT.store(self.emit, Relaxed);
        // The worker has given it its user by then.
        vink_sys::poll::is_readable(&self.socket, -1);
        let pod = CString::new(self.pod.as_os_str().as_encoded_bytes())?;
        streams();
        handlers();
        limits(self.memory)?;
        let mut keep = Keep::default();
        let libraries = LIBRARIES.iter().map(PathBuf::from);
        keep.readable.extend(libraries.filter(|path| path.exists()));
        keep.readable.push(self.pod.clone());
        let (report, listener) = confine_code(&keep, self.socket.as_fd())?;
        // Without a worker there is nothing to be done here.
        send_with(
            &self.socket,
            report.join("\n").as_bytes(),
            &[listener.as_fd()],
        )?;
        Ok(pod)
    }
}

/// What a pod may have of the host.
fn limits(memory: u64) -> std::io::Result<()> {
    let mut pages = String::new();
    File::open("/proc/self/statm")?.read_to_string(&mut pages)?;
    let own: u64 = pages
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    let stack = memory.min(8 << 20);
    for (resource, most) in [
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_FSIZE, 0),
        (libc::RLIMIT_MEMLOCK, 0),
        (libc::RLIMIT_STACK, stack),
        (libc::RLIMIT_AS, own * 4096 + memory),
    ] {
        let limit = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        set_limit(0, resource, &limit)?;
    }
    Ok(())
}

/// The pod's functions.
struct Pod {
    version: extern "C" fn() -> u32,
    init: Option<extern "C" fn(*const u8, u32) -> i32>,
    packet: Option<extern "C" fn(*mut u8, u32, u32, u32) -> i32>,
    stream: Option<extern "C" fn(*const u8, u32, u32) -> i32>,
    timer: Option<extern "C" fn(u64)>,
}

fn load(path: &CStr) -> Pod {
    // SAFETY: runs the pod's constructors, whatever they do.
    let pod = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if pod.is_null() {
        // SAFETY: after an error there is a text, which holds until the next call.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) };
        cannot_load(why.to_bytes());
    }
    // SAFETY: looks a name up.
    let symbol = |name: &CStr| unsafe { libc::dlsym(pod, name.as_ptr()) };
    macro_rules! function {
        ($name:literal) => {{
            let found = symbol($name);
            // SAFETY: null or a function of the pod's, of the type that pod.h says; if it has another one, the
            // pod alone is harmed.
            (!found.is_null()).then(|| unsafe { std::mem::transmute(found) })
        }};
    }
    let Some(version) = function!(c"pod_version") else {
        cannot_load(b"it exports no pod_version(): a pod has the line POD(); of <vink/pod.h> in it")
    };
    Pod {
        version,
        init: function!(c"pod_init"),
        packet: function!(c"pod_packet"),
        stream: function!(c"pod_stream"),
        timer: function!(c"pod_timer"),
    }
}

fn cannot_load(why: &[u8]) -> ! {
    text(why);
    end(Pause::NotLoaded)
}

/// Makes the worker's calls, for ever.
fn serve(pod: &Pod) -> ! {
    pause(Pause::Done, 0);
    let mut value = (pod.version)().into();
    loop {
        pause(Pause::Done, value);
        value = 0;
        USED.store(0, Relaxed);
        SAID.store(0, Relaxed);
        let calls: u32 = get(area::CALLS);
        let mut at = area::INPUT;
        for call in 0..calls {
            CALL.store(call, Relaxed);
            let number = |n: usize| get::<u32>(at + 4 * n);
            let (entry, argument, len, room) = (number(0), number(1), number(2), number(3));
            let bytes = here(at + area::CALL);
            let answer = match (entry, pod) {
                (0, Pod { init: Some(f), .. }) => f(bytes, len),
                (
                    1,
                    Pod {
                        packet: Some(f), ..
                    },
                ) => f(bytes, len, room, argument),
                (1, _) => -1,
                (
                    2,
                    Pod {
                        stream: Some(f), ..
                    },
                ) => f(bytes, len, argument),
                (2, _) => {
                    say(area::EMITTED, 0, bytes, len, Pause::EmitArgument);
                    0
                }
                (3, Pod { timer: Some(f), .. }) => {
                    f(get(area::NOW));
                    0
                }
                _ => 0,
            };
            put(at + area::ANSWER, answer);
            put(area::DONE, call + 1);
            // POD_CLOSE: it goes on with other streams.
            if answer != 0 && entry != 1 && (entry, answer) != (2, -1) {
                break;
            }
            at = area::aligned(at + area::CALL + room as usize);
        }
        put(area::SAID, USED.load(Relaxed) as u32);
    }
}

fn here(at: usize) -> *mut u8 {
    AREA.load(Relaxed).wrapping_add(at)
}

fn get<T: Copy>(at: usize) -> T {
    // SAFETY: in the area, by the constants of its layout.
    unsafe { here(at).cast::<T>().read_unaligned() }
}

fn put<T>(at: usize, value: T) {
    // SAFETY: as above.
    unsafe { here(at).cast::<T>().write_unaligned(value) }
}

/// Crosses the wall, and comes back with calls.
fn pause(why: Pause, value: u64) {
    // SAFETY: stops this thread.
    let done = unsafe { libc::syscall(libc::SYS_pause, why as u64, value) };
    if done != 0 {
        // The worker is gone.
        vink_sys::process::exit_now(0);
    }
}

/// Crosses it for the last time.
fn end(why: Pause) -> ! {
    loop {
        put(area::SAID, USED.load(Relaxed) as u32);
        pause(why, 0);
    }
}

/// Leaves a text for the worker.
fn text(bytes: &[u8]) {
    let len = bytes.len().min(area::TEXT_ROOM);
    for (at, byte) in bytes[..len].iter().enumerate() {
        put(area::TEXT + at, *byte);
    }
    put(area::TEXT_LEN, len as u32);
}

/// Adds what the pod emits or logs.
fn say(kind: u32, output: u32, bytes: *const u8, len: u32, wrong: Pause) {
    let (used, len_here) = (USED.load(Relaxed), len as usize);
    let said = SAID.load(Relaxed) + len_here;
    let next = area::aligned(used + area::RECORD + len_here);
    if said > LIMIT.load(Relaxed) || next > ROOM.load(Relaxed) {
        end(Pause::Emit);
    }
    let at = OUTPUT.load(Relaxed) + used;
    for (n, value) in [kind, CALL.load(Relaxed), output, len]
        .into_iter()
        .enumerate()
    {
        put(at + 4 * n, value);
    }
    COPIES.store(wrong as u32, Relaxed);
    // SAFETY: the pod says that so many bytes are its own. There is as much room.
    unsafe { here(at + area::RECORD).copy_from(bytes, len_here) };
    COPIES.store(0, Relaxed);
    USED.store(next, Relaxed);
    SAID.store(said, Relaxed);
}

/// Of pod.h.
#[no_mangle]
pub extern "C" fn vink_emit(output: u32, bytes: *const u8, len: u32) -> i32 {
    say(area::EMITTED, output, bytes, len, Pause::EmitArgument);
    0
}

/// Of pod.h.
#[no_mangle]
pub extern "C" fn vink_log(text: *const u8, len: u32) {
    say(area::LOGGED, 0, text, len, Pause::LogArgument);
}

/// Of pod.h.
#[no_mangle]
pub extern "C" fn vink_now() -> u64 {
    get(area::NOW)
}

/// Of pod.h.
#[no_mangle]
pub extern "C" fn vink_count(counter: u32, more: i64) {
    if counter as usize >= area::COUNTERS {
        end(Pause::CountArgument);
    }
    let at = area::COUNTED + 8 * counter as usize;
    put(at, get::<i64>(at).wrapping_add(more));
}

/// Of pod.h.
#[no_mangle]
pub extern "C" fn vink_timer(at: u64) {
    put(area::TIMER, at);
    put(area::TIMER_SET, 1u32);
}

/// abort(3) of the pod's libraries: it ends without system calls, and C++ calls it for want of memory.
#[no_mangle]
pub extern "C" fn abort() -> ! {
    end(match wants_memory() {
        true => Pause::Memory,
        false => Pause::Abort,
    })
}

/// Whether the last thing that failed was to get memory.
fn wants_memory() -> bool {
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() == libc::ENOMEM }
}

extern "C" {
    static mut stdout: *mut libc::FILE;
    static mut stderr: *mut libc::FILE;
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Cookie) -> *mut libc::FILE;
}

/// `cookie_io_functions_t`.
#[repr(C)]
struct Cookie {
    read: Option<extern "C" fn()>,
    write: Option<extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    seek: Option<extern "C" fn()>,
    close: Option<extern "C" fn()>,
}

/// What libraries print goes to the pod's log.
fn streams() {
    extern "C" fn write(_: *mut c_void, bytes: *const c_char, len: usize) -> isize {
        vink_log(bytes.cast(), len.min(u32::MAX as usize) as u32);
        len as isize
    }
    for standard in [&raw mut stdout, &raw mut stderr] {
        let functions = Cookie {
            read: None,
            write: Some(write),
            seek: None,
            close: None,
        };
        // SAFETY: nothing else uses the streams yet; they are variables of libc's that may be set.
        unsafe {
            let stream = fopencookie(null_mut(), c"w".as_ptr(), functions);
            if !stream.is_null() {
                libc::setvbuf(stream, null_mut(), libc::_IOLBF, 0);
                *standard = stream;
            }
        }
    }
}

const ALTERNATE: usize = 64 << 10;

/// Faults are told to the worker, from a stack of their own.
fn handlers() {
    // A pod may write over what libc has registered: Linux then ends the thread instead of running a
    // handler.
    vink_sys::rseq::unregister();
    // As long as this process.
    let stack = Box::leak(vec![0u8; ALTERNATE].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: ALTERNATE,
    };
    // SAFETY: memory that is not used for anything else; a handler of the type that the flag says.
    unsafe {
        libc::sigaltstack(&stack, null_mut());
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = faulted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
        ] {
            libc::sigaction(signal, &action, null_mut());
        }
    }
}

/// A text of limited length, written without memory of its own.
struct Line([u8; area::TEXT_ROOM], usize);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let len = text.len().min(self.0.len() - self.1);
        self.0[self.1..self.1 + len].copy_from_slice(&text.as_bytes()[..len]);
        self.1 += len;
        Ok(())
    }
}

extern "C" fn faulted(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // By what the pod has written over: what is told so far must do. Again and again, this uses up
    // its stack, and ends the process.
    if TELLS.swap(true, Relaxed) {
        end(Pause::Fault);
    }
    match COPIES.load(Relaxed) {
        1.. if COPIES.load(Relaxed) == Pause::EmitArgument as u32 => end(Pause::EmitArgument),
        1.. => end(Pause::LogArgument),
        0 => {}
    }
    // SAFETY: the kernel gives both to a handler.
    let (address, registers) = unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        ((*info).si_addr() as usize, context.uc_mcontext.gregs)
    };
    let at = registers[libc::REG_RIP as usize] as usize;
    let stack = registers[libc::REG_RSP as usize] as usize;
    const NEAR: usize = 64 << 10;
    const NULL: usize = 4096;
    let is_access = signal == libc::SIGSEGV || signal == libc::SIGBUS;
    if is_access && address < NULL && wants_memory() {
        end(Pause::Memory);
    }
    let mut line = Line([0; area::TEXT_ROOM], 0);
    let _ = match signal {
        libc::SIGSEGV if address.abs_diff(stack) < NEAR => {
            write!(line, "overflowed its stack (SIGSEGV)")
        }
        libc::SIGSEGV => write!(line, "used address {address:#x} (SIGSEGV)"),
        libc::SIGBUS => write!(line, "used address {address:#x} (SIGBUS)"),
        libc::SIGILL => write!(line, "executed what is no instruction (SIGILL)"),
        libc::SIGFPE => write!(line, "divided by zero (SIGFPE)"),
        other => write!(line, "ended by signal {other}"),
    };
    text(&line.0[..line.1]);
    place(&mut line, at);
    text(&line.0[..line.1]);
    end(Pause::Fault)
}

/// In which function, of which file.
fn place(line: &mut Line, at: usize) {
    // SAFETY: fills the structure with strings of libraries that stay loaded.
    let found = unsafe {
        let mut found: libc::Dl_info = zeroed();
        (libc::dladdr(at as *const c_void, &mut found) != 0).then_some(found)
    };
    let Some(found) = found else {
        let _ = write!(line, " at {at:#x}");
        return;
    };
    let name = |text: *const c_char| match text.is_null() {
        true => "",
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(text) }.to_str().unwrap_or(""),
    };
    let file = name(found.dli_fname).rsplit('/').next().unwrap_or("");
    let _ = match name(found.dli_sname) {
        "" => write!(
            line,
            " in {file}+{:#x}",
            at.wrapping_sub(found.dli_fbase as usize)
        ),
        function => write!(
            line,
            " in {function}+{:#x} of {file}",
            at.wrapping_sub(found.dli_saddr as usize)
        ),
    };
}
