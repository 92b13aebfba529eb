//! A pod's functions and Vink's, in one address space: what `pod.h` says is called here.
//!
//! A wall around native code has this behind it. The pod's symbols are found by dlopen(3), its calls
//! of `vink_*()` end here, in the functions that the executable exports (`crates/vink/build.rs`).

use std::cell::Cell;
use std::ffi::{c_char, c_void, CStr, CString};
use std::mem::transmute;
use std::path::Path;
use std::ptr::null_mut;

use crate::batch::{lines, ROOM};
use crate::room::Room;
use crate::{Batch, Emitted, Entry, Fault, Limits, LoadError, COUNTERS};

/// `POD_VERSION` of `pod.h`.
pub const VERSION: u32 = 1;

/// For the walls: whether the pod was made for this version of `pod.h`.
///
/// # Errors
/// [`LoadError::Version`].
pub(crate) fn check_version(path: &Path, found: u32) -> Result<(), LoadError> {
    match found {
        VERSION => Ok(()),
        _ => Err(LoadError::Version {
            path: path.to_owned(),
            found,
            expected: VERSION,
        }),
    }
}
/// `POD_PASS`.
pub const PASS: i32 = -1;
/// `POD_CLOSE`.
pub const CLOSE: i32 = -1;

type Version = unsafe extern "C" fn() -> u32;
type Init = unsafe extern "C" fn(*const u8, u32) -> i32;
type Packet = unsafe extern "C" fn(*mut u8, u32, u32, u32) -> i32;
type Stream = unsafe extern "C" fn(*const u8, u32, u32) -> i32;
type Timer = unsafe extern "C" fn(u64);

/// A shared object that is a pod. It is unloaded when this is dropped.
#[derive(Debug)]
pub struct Native {
    handle: *mut c_void,
    init: Option<Init>,
    packet: Option<Packet>,
    stream: Option<Stream>,
    timer: Option<Timer>,
    /// For a frame, and what it may grow by.
    frame: Vec<u8>,
}

// SAFETY: one thread at a time has it, and a pod has no thread of its own.
unsafe impl Send for Native {}

/// What a call of the pod finds when it calls Vink.
struct Current {
    batch: *mut Batch,
    call: usize,
    room: Room,
    over: bool,
    bad: Option<&'static str>,
}

thread_local! {
    static CURRENT: Cell<*mut Current> = const { Cell::new(null_mut()) };
}

impl Native {
    /// Loads the object at `object`, which is said to be `file` in errors.
    ///
    /// # Errors
    /// [`LoadError::Version`], [`LoadError::File`].
    pub fn open(object: &Path, file: &Path) -> Result<Native, LoadError> {
        let wrong = |why: String| LoadError::File {
            path: file.to_owned(),
            why,
        };
        let path = CString::new(object.as_os_str().as_encoded_bytes())
            .map_err(|_| wrong("a path with a NUL byte".to_owned()))?;
        // SAFETY: a terminated path. What the object's constructors do is what its wall is for.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(wrong(explained(&last_error(), object)));
        }
        let mut native = Native {
            handle,
            init: None,
            packet: None,
            stream: None,
            timer: None,
            frame: Vec::new(),
        };
        let version = native.find(c"pod_version").ok_or_else(|| {
            wrong("it is no pod: it has no pod_version(); write POD(); in it, and export its functions as vink/pod.h does".to_owned())
        })?;
        // SAFETY: `pod.h` declares a function of this type.
        let found = unsafe { transmute::<*mut c_void, Version>(version)() };
        check_version(file, found)?;
        // SAFETY: `pod.h` declares functions of these types.
        unsafe {
            native.init = native
                .find(c"pod_init")
                .map(|f| transmute::<*mut c_void, Init>(f));
            native.packet = native
                .find(c"pod_packet")
                .map(|f| transmute::<*mut c_void, Packet>(f));
            native.stream = native
                .find(c"pod_stream")
                .map(|f| transmute::<*mut c_void, Stream>(f));
            native.timer = native
                .find(c"pod_timer")
                .map(|f| transmute::<*mut c_void, Timer>(f));
        }
        Ok(native)
    }

    fn find(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the object is loaded, and the name terminated.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// Makes the calls of a batch in order.
    ///
    /// # Errors
    /// [`Fault::Emit`], [`Fault::Argument`], [`Fault::Refused`]. Whatever else the pod does is its
    /// wall's to notice.
    pub fn make(&mut self, batch: &mut Batch, limits: &Limits) -> Result<(), Fault> {
        let mut current = Current {
            batch: &raw mut *batch,
            call: 0,
            room: Room::new(limits),
            over: false,
            bad: None,
        };
        let outer = CURRENT.replace(&raw mut current);
        let done = self.make_all(&mut current, limits);
        CURRENT.set(outer);
        done
    }

    fn make_all(&mut self, current: *mut Current, limits: &Limits) -> Result<(), Fault> {
        // SAFETY: both live as long as `make()`, which is the one that calls this. The pod's calls
        // of Vink use them too, but never while one of these borrows is used.
        let count = unsafe { (*(*current).batch).calls.len() };
        for index in 0..count {
            // SAFETY: as above.
            let (batch, state) = unsafe { (&mut *(*current).batch, &mut *current) };
            state.call = index;
            let call = &batch.calls[index];
            let (entry, argument, now) = (call.entry, call.argument, batch.now);
            let bytes = &batch.bytes[call.bytes.clone()];
            let (start, len) = (bytes.as_ptr(), bytes.len() as u32);
            // SAFETY: `pod.h` says what these get: memory that is the pod's own until they return.
            let answer = unsafe {
                match entry {
                    Entry::Init => self.init.map_or(0, |init| init(start, len)),
                    Entry::Packet => match self.packet {
                        Some(packet) => {
                            self.frame.clear();
                            self.frame.extend_from_slice(bytes);
                            self.frame.resize(bytes.len() + ROOM, 0);
                            let room = self.frame.len() as u32;
                            packet(self.frame.as_mut_ptr(), len, room, argument)
                        }
                        None => PASS,
                    },
                    Entry::Stream => match self.stream {
                        Some(stream) => stream(start, len, argument),
                        None => vink_emit(0, start.cast(), len),
                    },
                    Entry::Timer => {
                        if let Some(timer) = self.timer {
                            timer(now);
                        }
                        0
                    }
                }
            };
            // SAFETY: as above.
            let (batch, state) = unsafe { (&mut *(*current).batch, &mut *current) };
            if state.over {
                return Err(Fault::Emit(limits.emit));
            }
            if let Some(function) = state.bad {
                return Err(Fault::Argument(function));
            }
            batch.calls[index].answer = answer;
            match entry {
                Entry::Init if answer != 0 => return Err(Fault::Refused("pod_init()", answer)),
                Entry::Stream if answer != 0 && answer != CLOSE => {
                    return Err(Fault::Refused("pod_stream()", answer));
                }
                Entry::Packet if answer < PASS || answer > self.frame.len() as i32 => {
                    return Err(Fault::Refused("pod_packet()", answer));
                }
                Entry::Packet if answer > 0 => {
                    let from = batch.emitted_bytes.len();
                    let changed = &self.frame[..answer as usize];
                    batch.emitted_bytes.extend_from_slice(changed);
                    batch.calls[index].changed = from..batch.emitted_bytes.len();
                }
                _ => {}
            }
            batch.done = index + 1;
        }
        Ok(())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: it is loaded, and nothing calls it any more.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// What dlopen(3) has found wrong, and what to do.
fn explained(error: &str, object: &Path) -> String {
    let error = error.strip_prefix(&format!("{}: ", object.display()));
    let error = error.map_or_else(last_error, str::to_owned);
    match error.strip_prefix("undefined symbol: ") {
        Some(symbol) => format!(
            "it calls {symbol}, which neither vink/pod.h nor a library that it was linked with has: link that library (cc -l), or leave it out"
        ),
        None => format!("it can't be loaded: {error}; make it with cc -shared -fPIC"),
    }
}

fn last_error() -> String {
    // SAFETY: dlerror() gives a terminated text, which stays until the next call of the family.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return "dlopen() does not say why".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The call that is being made, if there is one.
fn current<R>(nothing: R, during: impl FnOnce(&mut Current, &mut Batch) -> R) -> R {
    let current = CURRENT.get();
    if current.is_null() {
        return nothing;
    }
    // SAFETY: `make()` has it until the pod's function returns, and looks at neither meanwhile.
    unsafe { during(&mut *current, &mut *(*current).batch) }
}

/// `vink_emit()`.
///
/// # Safety
/// As `pod.h` says: so many bytes.
#[no_mangle]
pub unsafe extern "C" fn vink_emit(output: u32, bytes: *const c_void, len: u32) -> i32 {
    current(-1, |current, batch| {
        if current.room.emit(len as usize).is_none() {
            current.over = true;
            return -1;
        }
        if bytes.is_null() && len > 0 {
            current.bad = Some("vink_emit()");
            return -1;
        }
        let start = batch.emitted_bytes.len();
        if len > 0 {
            // SAFETY: by contract.
            let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize) };
            batch.emitted_bytes.extend_from_slice(bytes);
        }
        batch.emitted.push(Emitted {
            call: current.call,
            output,
            bytes: start..batch.emitted_bytes.len(),
        });
        0
    })
}

/// `vink_log()`.
///
/// # Safety
/// As `pod.h` says: so many bytes.
#[no_mangle]
pub unsafe extern "C" fn vink_log(text: *const c_char, len: u32) {
    current((), |current, batch| {
        if text.is_null() {
            current.bad = (len > 0).then_some("vink_log()");
            return;
        }
        // SAFETY: by contract.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len as usize) };
        if current.room.log(bytes).is_none() {
            current.over = true;
            return;
        }
        batch.log.extend(lines(bytes));
    });
}

/// `vink_now()`.
#[no_mangle]
pub extern "C" fn vink_now() -> u64 {
    current(0, |_, batch| batch.now)
}

/// `vink_count()`.
#[no_mangle]
pub extern "C" fn vink_count(counter: u32, more: i64) {
    current((), |current, batch| match counter as usize {
        counter if counter < COUNTERS => {
            batch.counted[counter] = batch.counted[counter].wrapping_add(more);
        }
        _ => current.bad = Some("vink_count()"),
    });
}

/// `vink_timer()`.
#[no_mangle]
pub extern "C" fn vink_timer(at: u64) {
    current((), |_, batch| batch.timer = Some(at));
}
