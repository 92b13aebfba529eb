//! The C library's functions that this library has in their place.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{
    epoll_event, fd_set, iovec, mode_t, nfds_t, off_t, pid_t, pollfd, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, stat, timespec, timeval, SYS_close, SYS_epoll_create1, SYS_fcntl,
    SYS_ioctl, SYS_newfstatat, SYS_openat, SYS_read, SYS_readv, SYS_recvfrom, SYS_sendto,
    SYS_write, SYS_writev,
};
use vink_ring::{Request, SchedPage, MAX_DATA, MAX_POLLED, RECEIVES, SENDS, UNTRAPPED};

use crate::post::{
    asks_no_more, closes, is_host, knows, may_be_posted, opened, spend_call_budget, Draft,
};
use crate::ready::{counted, Array, Sets, Wait};
use crate::sets::{self, now};
use crate::{pipe, poll};

/// A function of the next library that has one of this name; looked up once.
pub(crate) struct Next(AtomicUsize, &'static CStr);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next(AtomicUsize::new(0), name)
    }

    pub(crate) fn address(&self) -> usize {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                // SAFETY: the name is a string.
                let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.1.as_ptr()) } as usize;
                self.0.store(found, Ordering::Relaxed);
                found
            }
            known => known,
        }
    }
}

/// Calls the C library's function of this name.
macro_rules! next {
    ($name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        next!("C" $name($($arg: $type),*) -> $result)
    };
    ($abi:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {{
        static NEXT: Next = Next(
            AtomicUsize::new(0),
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        );
        let address = NEXT.address();
        // SAFETY: what is called so has this type in every C library.
        let next = unsafe {
            std::mem::transmute::<usize, unsafe extern $abi fn($($type),*) -> $result>(address)
        };
        // SAFETY: by the caller, which has called this function.
        unsafe { next($($arg),*) }
    }};
}

/// The thread's errno.
pub(crate) fn errno() -> &'static Cell<c_int> {
    // SAFETY: stays as long as the thread, which alone has it.
    unsafe { &*libc::__errno_location().cast() }
}

/// What the function gives for a system call's result.
pub(crate) fn finish(result: i64) -> ssize_t {
    if result < 0 {
        errno().set(-result as c_int);
        return -1;
    }
    result as ssize_t
}

/// Makes a system call that is the host's business alone.
#[inline]
pub(crate) fn native(nr: i64, args: [u64; 4]) -> i64 {
    let [a, b, c, d] = args;
    system_call(nr, [a, b, c, d, 0, UNTRAPPED])
}

/// Makes a system call. Its sixth argument does not stay in the register: the C library's next
/// call, of read(2) for example, sets as many registers as that has arguments, and with the mark in
/// the sixth it would not be trapped.
#[inline]
pub(crate) fn system_call(nr: i64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller's own call; the instructions change no other registers.
    unsafe {
        std::arch::asm!(
            "mov r9, {sixth}",
            "syscall",
            "xor r9d, r9d",
            sixth = in(reg) args[5],
            out("r9") _,
            inlateout("rax") nr => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The result of such a call on a descriptor, if it is known to be the host's.
#[inline]
fn on_host(nr: i64, fd: c_int, second: u64, third: u64) -> Option<ssize_t> {
    is_host(fd).then(|| finish(native(nr, [fd as u64, second, third, 0])))
}

/// Whether a part is where a program may have memory: not near null, and not the kernel's. The kernel reports those.
fn may_be_mapped(part: &iovec) -> bool {
    const LOWEST: usize = 4096;
    const END: usize = 1 << 47;
    let at = part.iov_base as usize;
    at >= LOWEST && at.checked_add(part.iov_len).is_some_and(|end| end < END)
}

/// Sends what the parts have; `None`: by a system call.
#[inline]
unsafe fn sent(fd: c_int, parts: &[iovec], flags: c_int) -> Option<ssize_t> {
    if flags & !SENDS != 0 || !parts.iter().all(may_be_mapped) {
        return None;
    }
    let draft = Draft::new(fd)?;
    let all = parts.iter().map(|part| part.iov_len);
    let all = all.fold(0usize, |all, len| all.saturating_add(len));
    if let Some(send) = draft.send(fd, all) {
        let mut to = send.data();
        for part in parts {
            // SAFETY: the program's own bytes, by its word; there is room for all of them.
            unsafe {
                std::ptr::copy_nonoverlapping(part.iov_base.cast(), to, part.iov_len);
                to = to.add(part.iov_len);
            }
        }
        send.set_header(fd, flags, all);
        return draft.leave().then_some(all as ssize_t);
    }
    let mut len = 0;
    for part in parts {
        if part.iov_len > MAX_DATA - len {
            return None;
        }
        // SAFETY: the program's own bytes, by its word; there is room for them.
        unsafe {
            let to = draft.data().add(len);
            std::ptr::copy_nonoverlapping(part.iov_base.cast(), to, part.iov_len);
        }
        len += part.iov_len;
    }
    let nr = SYS_sendto;
    let result = draft.post(Request { nr, fd, flags, len })?;
    match usize::try_from(result) {
        Ok(sent) if sent < len && flags & libc::MSG_DONTWAIT == 0 && waits(&draft, fd) => {
            // SAFETY: the rest stands in the slot, which is this thread's.
            let rest = unsafe { libc::send(fd, draft.data().add(sent).cast(), len - sent, flags) };
            Some(sent as ssize_t + rest.max(0))
        }
        _ => Some(finish(result)),
    }
}

/// Whether calls on it wait. What stands in the slot stays there.
#[cold]
fn waits(draft: &Draft, fd: c_int) -> bool {
    let request = Request {
        nr: SYS_fcntl,
        fd,
        flags: libc::F_GETFL,
        len: 0,
    };
    let natively = || {
        // SAFETY: takes numbers.
        i64::from(unsafe { libc::fcntl(fd, libc::F_GETFL) })
    };
    let flags = draft.post(request).unwrap_or_else(natively);
    flags & i64::from(libc::O_NONBLOCK) == 0
}

/// Receives into the parts; `None`: by a system call.
#[inline]
unsafe fn received(fd: c_int, parts: &[iovec], flags: c_int) -> Option<ssize_t> {
    if flags & !RECEIVES != 0 || !parts.iter().all(may_be_mapped) {
        return None;
    }
    let draft = Draft::new(fd)?;
    let mut len = 0;
    for part in parts {
        if part.iov_len > MAX_DATA - len {
            return None;
        }
        len += part.iov_len;
    }
    // Of nothing, even those that wait make nothing.
    if len == 0 {
        return None;
    }
    let nr = SYS_recvfrom;
    let result = draft.post(Request { nr, fd, flags, len })?;
    let mut left = usize::try_from(result).unwrap_or(0).min(len);
    let mut from = draft.data();
    for part in parts {
        let len = part.iov_len.min(left);
        // SAFETY: the program's own room, by its word; the bytes are in the slot.
        unsafe {
            std::ptr::copy_nonoverlapping(from, part.iov_base.cast(), len);
            from = from.add(len);
        }
        left -= len;
    }
    Some(finish(result))
}

/// One part.
fn part(at: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: at.cast_mut(),
        iov_len: len,
    }]
}

/// The program's parts; none if there are more than are worth it.
unsafe fn parts<'a>(fd: c_int, at: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    if !may_be_posted(fd) {
        return None;
    }
    let count = usize::try_from(count).ok().filter(|n| *n <= 64)?;
    // SAFETY: by the program's word.
    (count > 0).then(|| unsafe { std::slice::from_raw_parts(at, count) })
}

#[no_mangle]
unsafe extern "C" fn read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: by the caller.
    let done = unsafe { received(fd, &part(at, len), 0) };
    let done = done.or_else(|| on_host(SYS_read, fd, at as u64, len as u64));
    match done.or_else(|| pipe::read(fd, &part(at, len))) {
        Some(result) => result,
        None => next!(read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t),
    }
}

#[no_mangle]
unsafe extern "C" fn __read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: by the caller.
    unsafe { read(fd, at, len) }
}

#[no_mangle]
unsafe extern "C" fn __read_chk(fd: c_int, at: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    if len <= room {
        // SAFETY: by the caller.
        return unsafe { read(fd, at, len) };
    }
    next!(__read_chk(fd: c_int, at: *mut c_void, len: size_t, room: size_t) -> ssize_t)
}

#[no_mangle]
unsafe extern "C" fn readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the caller.
    let parts = unsafe { parts(fd, at, count) };
    // SAFETY: as above.
    let done = parts.and_then(|parts| unsafe { received(fd, parts, 0) });
    let done = done.or_else(|| on_host(SYS_readv, fd, at as u64, count as u64));
    match done.or_else(|| pipe::read(fd, parts?)) {
        Some(result) => result,
        None => next!(readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t),
    }
}

#[no_mangle]
unsafe extern "C" fn recv(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: by the caller.
    match unsafe { received(fd, &part(at, len), flags) } {
        Some(result) => result,
        None => next!(recv(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t),
    }
}

#[no_mangle]
unsafe extern "C" fn __recv_chk(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if len <= room {
        // SAFETY: by the caller.
        if let Some(result) = unsafe { received(fd, &part(at, len), flags) } {
            return result;
        }
    }
    next!(__recv_chk(fd: c_int, at: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t)
}

#[no_mangle]
unsafe extern "C" fn recvfrom(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if from.is_null() {
        // SAFETY: by the caller.
        if let Some(result) = unsafe { received(fd, &part(at, len), flags) } {
            return result;
        }
    }
    next!(recvfrom(fd: c_int, at: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr,
        from_len: *mut socklen_t) -> ssize_t)
}

#[no_mangle]
unsafe extern "C" fn write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: by the caller.
    let done = unsafe { sent(fd, &part(at, len), 0) };
    let done = done.or_else(|| on_host(SYS_write, fd, at as u64, len as u64));
    match done.or_else(|| pipe::write(fd, &part(at, len))) {
        Some(result) => result,
        None => next!(write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t),
    }
}

#[no_mangle]
unsafe extern "C" fn __write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: by the caller.
    unsafe { write(fd, at, len) }
}

#[no_mangle]
unsafe extern "C" fn writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the caller.
    let parts = unsafe { parts(fd, at, count) };
    // SAFETY: as above.
    let done = parts.and_then(|parts| unsafe { sent(fd, parts, 0) });
    let done = done.or_else(|| on_host(SYS_writev, fd, at as u64, count as u64));
    match done.or_else(|| pipe::write(fd, parts?)) {
        Some(result) => result,
        None => next!(writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t),
    }
}

#[no_mangle]
unsafe extern "C" fn send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: by the caller.
    match unsafe { sent(fd, &part(at, len), flags) } {
        Some(result) => result,
        None => next!(send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t),
    }
}

#[no_mangle]
unsafe extern "C" fn __send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: by the caller.
    unsafe { send(fd, at, len, flags) }
}

#[no_mangle]
unsafe extern "C" fn sendto(
    fd: c_int,
    at: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if to.is_null() {
        // SAFETY: by the caller.
        if let Some(result) = unsafe { sent(fd, &part(at, len), flags) } {
            return result;
        }
    }
    next!(sendto(fd: c_int, at: *const c_void, len: size_t, flags: c_int, to: *const sockaddr,
        to_len: socklen_t) -> ssize_t)
}

/// The request that can be posted.
#[no_mangle]
unsafe extern "C" fn ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int {
    if request == libc::FIONREAD {
        if let Some(left) = left(fd) {
            // SAFETY: the program's own integer.
            unsafe { *argument.cast::<c_int>() = left };
            return 0;
        }
    }
    next!(ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int)
}

/// A program announces by it that it will filter its own system calls, as sshd's sandbox does.
#[no_mangle]
unsafe extern "C" fn prctl(option: c_int, a: u64, b: u64, c: u64, d: u64) -> c_int {
    if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
        asks_no_more();
    }
    next!(prctl(option: c_int, a: u64, b: u64, c: u64, d: u64) -> c_int)
}

/// How many bytes there are to be received.
fn left(fd: c_int) -> Option<c_int> {
    let draft = Draft::new(fd)?;
    let request = Request {
        nr: SYS_ioctl,
        fd,
        flags: libc::FIONREAD as c_int,
        len: 0,
    };
    let done = draft.post(request)?;
    // SAFETY: the answer stands where a request's bytes do.
    (done == 0).then(|| unsafe { draft.data().cast::<c_int>().read() })
}

/// A file's bytes, which the host gives, as they are sent.
#[no_mangle]
unsafe extern "C" fn sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: by the caller.
    match unsafe { sent_file(to, from, at, count) } {
        Some(result) => result,
        None => {
            next!(sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t)
        }
    }
}

#[no_mangle]
unsafe extern "C" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: by the caller.
    unsafe { sendfile(to, from, at, count) }
}

unsafe fn sent_file(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> Option<ssize_t> {
    if count == 0 || count > MAX_DATA || at.is_null() || !is_host(from) {
        return None;
    }
    let draft = Draft::new(to)?;
    // SAFETY: there is room; the offset is the program's own.
    let len = unsafe { libc::pread(from, draft.data().cast(), count, *at) };
    let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
    let result = draft.post(Request {
        nr: SYS_sendto,
        fd: to,
        flags: 0,
        len,
    })?;
    // SAFETY: as above.
    unsafe { *at += result.max(0) };
    let sent = finish(result);
    match usize::try_from(sent) {
        Ok(done) if done < len && waits(&draft, to) => {
            drop(draft);
            // SAFETY: as the caller's own, of the rest.
            let rest = unsafe { sendfile(to, from, at, count - done) };
            Some(sent + rest.max(0))
        }
        _ => Some(sent),
    }
}

/// Whether a path can lead to nothing but what is the host's, as far as its first part tells: those
/// that may lead elsewhere begin with one that `vink-trap`'s `virtual_paths` has, which is short.
unsafe fn is_hosts(path: *const c_char) -> bool {
    const ELSEWHERE: [&[u8]; 3] = [b"proc", b"sys", b"dev"];
    if path.is_null() {
        return false;
    }
    // SAFETY: a string, by the caller's word.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let Some(path) = path.strip_prefix(b"/") else {
        return false;
    };
    let mut parts = path.split(|byte| *byte == b'/');
    parts.next().is_some_and(|first| {
        first.first().is_some_and(u8::is_ascii_alphabetic) && !ELSEWHERE.contains(&first)
    }) && parts.all(|part| part != b"..")
}

/// Opens what is the host's without asking.
#[inline]
unsafe fn open_of_host(path: *const c_char, flags: c_int, mode: mode_t) -> Option<c_int> {
    // SAFETY: by the caller.
    if !knows() || !unsafe { is_hosts(path) } {
        return None;
    }
    let directory = libc::AT_FDCWD as u64;
    let args = [directory, path as u64, flags as u64, mode.into()];
    let fd = finish(native(SYS_openat, args)) as c_int;
    if fd >= 0 {
        opened(fd);
    }
    Some(fd)
}

/// Functions that open a file.
macro_rules! opens {
    ($($name:ident),*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
                // SAFETY: by the caller.
                match unsafe { open_of_host(path, flags, mode) } {
                    Some(fd) => fd,
                    None => next!($name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int),
                }
            }
        )*
    };
}
opens!(open, open64);

/// ... below a directory.
macro_rules! opens_at {
    ($($name:ident),*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name(
                from: c_int,
                path: *const c_char,
                flags: c_int,
                mode: mode_t,
            ) -> c_int {
                // SAFETY: by the caller.
                match unsafe { open_of_host(path, flags, mode) } {
                    Some(fd) => fd,
                    None => next!($name(from: c_int, path: *const c_char, flags: c_int,
                        mode: mode_t) -> c_int),
                }
            }
        )*
    };
}
opens_at!(openat, openat64);

/// The most descriptors that are searched.
const MOST_POLLED: nfds_t = 1024;

/// Functions that wait for descriptors.
macro_rules! polls {
    ($($name:ident($($arg:ident: $type:ty),*), $limit:expr, $time:expr, $mask:expr;)*) => {
        $(
            #[no_mangle]
            unsafe extern "C-unwind" fn $name(
                fds: *mut pollfd,
                count: nfds_t,
                $($arg: $type),*
            ) -> c_int {
                // SAFETY: by the caller.
                if let Some(ready) = unsafe { polled(fds, count, $limit, $mask) } {
                    return ready;
                }
                let _counted = counted();
                if !fds.is_null() {
                    // SAFETY: by the caller, unless there are too many.
                    let all = || unsafe { std::slice::from_raw_parts(fds, count as usize) };
                    let has = |set| all().iter().any(|polled| polled.fd == set);
                    sets::end_notes(|set| count > MOST_POLLED || has(set));
                }
                let few = count as usize <= MAX_POLLED && !fds.is_null();
                let sched = few.then(spend_call_budget).flatten();
                if let Some(sched) = sched {
                    // SAFETY: by the caller.
                    let parts = unsafe {
                        let fds = std::slice::from_raw_parts_mut(fds, count as usize);
                        let mask: *const sigset_t = $mask;
                        (fds, $time.as_ref(), mask.as_ref())
                    };
                    if let Some(ready) = polled_or_asked(sched, parts) {
                        return ready;
                    }
                }
                let ready = next!("C-unwind" $name(fds: *mut pollfd, count: nfds_t,
                    $($arg: $type),*) -> c_int);
                if let Some(sched) = sched {
                    // SAFETY: as above.
                    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
                    poll::take_results(sched, fds);
                }
                ready
            }
        )*
    };
}
polls! {
    poll(ms: c_int), Some(limit(ms)), null::<timespec>(), null();
    ppoll(time: *const timespec, mask: *const sigset_t), limit_of(time), time, mask;
}

/// A wait of the former that boards answer; no limit is known if it is not right.
#[inline]
unsafe fn polled(
    fds: *mut pollfd,
    count: nfds_t,
    limit: Option<Option<u64>>,
    mask: *const sigset_t,
) -> Option<c_int> {
    let limit = limit?;
    let sleep = |fds: &mut [pollfd], time, mask| {
        let (fds, count) = (fds.as_mut_ptr(), fds.len() as nfds_t);
        next!("C-unwind" ppoll(fds: *mut pollfd, count: nfds_t, time: *const timespec,
            mask: *const sigset_t) -> c_int)
    };
    // SAFETY: by the caller.
    unsafe { Wait { limit, mask }.answer(&mut Array::new(fds, count, sleep)?) }
}

/// Nanoseconds, or for ever; `None` if it is no time.
unsafe fn limit_of(time: *const timespec) -> Option<Option<u64>> {
    // SAFETY: by the caller.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return Some(None);
    };
    let is_right = (0..MOST_SECONDS).contains(&time.tv_sec);
    let is_right = is_right && (0..1_000_000_000).contains(&time.tv_nsec);
    is_right.then(|| Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

/// A call that waits for longer does so in the kernel.
const MOST_SECONDS: i64 = 1 << 32;

/// A program that was compiled with checks polls so.
#[no_mangle]
unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    ms: c_int,
    room: size_t,
) -> c_int {
    if room / size_of::<pollfd>() >= count as usize {
        // SAFETY: by the caller.
        return unsafe { poll(fds, count, ms) };
    }
    next!("C-unwind" __poll_chk(fds: *mut pollfd, count: nfds_t, ms: c_int, room: size_t) -> c_int)
}

#[no_mangle]
unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    if room / size_of::<pollfd>() >= count as usize {
        // SAFETY: by the caller.
        return unsafe { ppoll(fds, count, time, mask) };
    }
    next!("C-unwind" __ppoll_chk(fds: *mut pollfd, count: nfds_t, time: *const timespec,
        mask: *const sigset_t, room: size_t) -> c_int)
}

#[no_mangle]
unsafe extern "C-unwind" fn select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    odd: *mut fd_set,
    time: *mut timeval,
) -> c_int {
    // SAFETY: by the caller.
    let given = unsafe { time.as_ref() };
    let is_right = |t: &timeval| (0..MOST_SECONDS).contains(&t.tv_sec) && t.tv_usec >= 0;
    if given.is_none_or(is_right) {
        let limit = given.map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000);
        let begun = limit.map_or(0, |_| now());
        let sets = [readable, writable, odd];
        // SAFETY: as above.
        if let Some(ready) = unsafe { selected(count, sets, limit, null()) } {
            if let Some(limit) = limit {
                let left = limit.saturating_sub(now() - begun);
                // SAFETY: as above.
                unsafe {
                    (*time).tv_sec = (left / 1_000_000_000) as libc::time_t;
                    (*time).tv_usec = (left % 1_000_000_000 / 1000) as libc::suseconds_t;
                }
            }
            return ready;
        }
    }
    sets::end_notes(|_| true);
    sets::settle();
    let _counted = counted();
    next!("C-unwind" select(count: c_int, readable: *mut fd_set, writable: *mut fd_set,
        odd: *mut fd_set, time: *mut timeval) -> c_int)
}

#[no_mangle]
unsafe extern "C-unwind" fn pselect(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    odd: *mut fd_set,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = [readable, writable, odd];
    // SAFETY: by the caller.
    let limit = unsafe { limit_of(time) };
    // SAFETY: as above.
    let ready = limit.and_then(|limit| unsafe { selected(count, sets, limit, mask) });
    if let Some(ready) = ready {
        return ready;
    }
    sets::end_notes(|_| true);
    sets::settle();
    let _counted = counted();
    next!("C-unwind" pselect(count: c_int, readable: *mut fd_set, writable: *mut fd_set,
        odd: *mut fd_set, time: *const timespec, mask: *const sigset_t) -> c_int)
}

/// A wait of these that boards answer.
#[inline]
unsafe fn selected(
    count: c_int,
    sets: [*mut fd_set; 3],
    limit: Option<u64>,
    mask: *const sigset_t,
) -> Option<c_int> {
    let sleep = |time, mask| {
        let [readable, writable, odd] = sets;
        next!("C-unwind" pselect(count: c_int, readable: *mut fd_set, writable: *mut fd_set,
            odd: *mut fd_set, time: *const timespec, mask: *const sigset_t) -> c_int)
    };
    // SAFETY: by the caller.
    unsafe { Wait { limit, mask }.answer(&mut Sets::new(count, sets, sleep)?) }
}

/// How many are ready; `None`: a system call will tell, which has been announced.
#[inline]
fn polled_or_asked(
    sched: &SchedPage,
    (fds, time, mask): (&mut [pollfd], Option<&timespec>, Option<&sigset_t>),
) -> Option<c_int> {
    let is_time = |time: &timespec| time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    if time.is_some_and(|time| !is_time(time)) {
        return None;
    }
    match poll::polled(sched, fds) {
        Ok(ready) => Some(ready),
        Err(looked) => {
            poll::post_poll(sched, fds, time, mask, looked);
            None
        }
    }
}

/// Functions that return attributes of an open file.
macro_rules! looks {
    ($($name:ident),*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name(fd: c_int, about: *mut stat) -> c_int {
                if is_host(fd) {
                    let empty = c"".as_ptr() as u64;
                    let args = [fd as u64, empty, about as u64, libc::AT_EMPTY_PATH as u64];
                    return finish(native(SYS_newfstatat, args)) as c_int;
                }
                next!($name(fd: c_int, about: *mut stat) -> c_int)
            }
        )*
    };
}
looks!(fstat, fstat64);

#[no_mangle]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    sets::closes(fd);
    if is_host(fd) {
        closes(fd);
        return finish(native(SYS_close, [fd as u64, 0, 0, 0])) as c_int;
    }
    next!(close(fd: c_int) -> c_int)
}

#[no_mangle]
unsafe extern "C" fn __close(fd: c_int) -> c_int {
    // SAFETY: by the caller.
    unsafe { close(fd) }
}

/// With the mark by which the worker knows that this library sees all waiters there.
#[no_mangle]
unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    let number = finish(native(SYS_epoll_create1, [flags as u64, 0, 0, 0])) as c_int;
    if number >= 0 {
        sets::created(number);
    }
    number
}

#[no_mangle]
unsafe extern "C" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 {
        return finish(-i64::from(libc::EINVAL)) as c_int;
    }
    // SAFETY: takes a number.
    unsafe { epoll_create1(0) }
}

#[no_mangle]
unsafe extern "C" fn epoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if sets::noted(set, operation, fd, event) {
        return 0;
    }
    let done = next!(epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event)
        -> c_int);
    if done == 0 {
        // SAFETY: the kernel has read it, unless it does not care.
        let event = (operation != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
        sets::changed(set, operation, fd, event);
    }
    done
}

/// A wait that boards answer.
unsafe fn waited(wait: &sets::Wait) -> Option<c_int> {
    // SAFETY: by the caller.
    let answer = unsafe { wait.answer() }?;
    Some(finish(answer.map_or_else(|errno| -i64::from(errno), i64::from)) as c_int)
}

/// Milliseconds as nanoseconds; less than none are for ever.
fn limit(milliseconds: c_int) -> Option<u64> {
    u64::try_from(milliseconds)
        .ok()
        .map(|limit| limit * 1_000_000)
}

#[no_mangle]
unsafe extern "C-unwind" fn epoll_wait(
    number: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { epoll_pwait(number, events, most, timeout, null()) }
}

#[no_mangle]
unsafe extern "C-unwind" fn epoll_pwait(
    number: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let limit = limit(timeout);
    let wait = sets::Wait {
        number,
        events,
        most,
        limit,
        mask,
    };
    // SAFETY: by the caller.
    match unsafe { waited(&wait) } {
        Some(result) => result,
        None => next!(epoll_pwait(number: c_int, events: *mut epoll_event, most: c_int,
            timeout: c_int, mask: *const sigset_t) -> c_int),
    }
}

#[no_mangle]
unsafe extern "C-unwind" fn epoll_pwait2(
    number: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: by the caller.
    let given = unsafe { timeout.as_ref() };
    let limit = given.map(|t| (t.tv_sec as u64).saturating_mul(1_000_000_000) + t.tv_nsec as u64);
    let is_right = given.is_none_or(|t| t.tv_sec >= 0 && (0..1_000_000_000).contains(&t.tv_nsec));
    let wait = sets::Wait {
        number,
        events,
        most,
        limit,
        mask,
    };
    // SAFETY: by the caller.
    match is_right.then(|| unsafe { waited(&wait) }).flatten() {
        Some(result) => result,
        None => next!(epoll_pwait2(number: c_int, events: *mut epoll_event, most: c_int,
            timeout: *const timespec, mask: *const sigset_t) -> c_int),
    }
}

/// epoll_pwait2(2) by the C library, whose calls end with their thread if it is cancelled.
/// Nanoseconds; how many events, or the error.
pub(crate) unsafe fn sleep(
    number: c_int,
    events: &mut [epoll_event],
    limit: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, c_int> {
    static EXACT: Next = Next(AtomicUsize::new(0), c"epoll_pwait2");
    static COARSE: Next = Next(AtomicUsize::new(0), c"epoll_pwait");
    type Exact = unsafe extern "C-unwind" fn(
        c_int,
        *mut epoll_event,
        c_int,
        *const timespec,
        *const sigset_t,
    ) -> c_int;
    type Coarse = unsafe extern "C-unwind" fn(
        c_int,
        *mut epoll_event,
        c_int,
        c_int,
        *const sigset_t,
    ) -> c_int;
    let (at, most) = (events.as_mut_ptr(), events.len() as c_int);
    // SAFETY: functions of these types in every C library that has them; room for so many; the mask
    // is the caller's.
    let count = unsafe {
        match EXACT.address() {
            0 => {
                let most_of = |limit: u64| c_int::try_from(limit.div_ceil(1_000_000));
                let limit = limit.map_or(-1, |limit| most_of(limit).unwrap_or(c_int::MAX));
                let wait = std::mem::transmute::<usize, Coarse>(COARSE.address());
                wait(number, at, most, limit, mask)
            }
            wait => {
                let limit = limit.map(|limit| timespec {
                    tv_sec: (limit / 1_000_000_000) as libc::time_t,
                    tv_nsec: (limit % 1_000_000_000) as libc::c_long,
                });
                let limit = limit.as_ref().map_or(null(), |limit| &raw const *limit);
                let wait = std::mem::transmute::<usize, Exact>(wait);
                wait(number, at, most, limit, mask)
            }
        }
    };
    usize::try_from(count).map_err(|_| errno().get())
}

/// A child of vfork(2) would post calls in its parent's name.
#[no_mangle]
unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: by the caller, which may do less in this child.
    unsafe { libc::fork() }
}

/// Functions by which others may come to wait on an epoll instance, or have a member of one: if
/// they do, and at which. All are passed six registers, and a word of the stack, which is as much
/// as any of them may read.
macro_rules! shows {
    ($($name:ident($first:ident, $second:ident, $third:ident) if $shows:expr => $concerns:expr;)*) => {
        $(
            #[no_mangle]
            unsafe extern "C-unwind" fn $name(
                $first: u64, $second: u64, $third: u64, d: u64, e: u64, f: u64, g: u64,
            ) -> u64 {
                if $shows {
                    sets::end_notes($concerns);
                    sets::settle();
                }
                next!("C-unwind" $name($first: u64, $second: u64, $third: u64, d: u64, e: u64, f: u64, g: u64) -> u64)
            }
        )*
    };
}
shows! {
    dup(fd, b, c) if true => |set| fd as c_int == set;
    dup2(fd, b, c) if true => |set| fd as c_int == set;
    dup3(fd, b, c) if true => |set| fd as c_int == set;
    fcntl(fd, command, argument) if opens(command, argument) => |set| fd as c_int == set;
    fcntl64(fd, command, argument) if opens(command, argument) => |set| fd as c_int == set;
    sendmsg(a, message, c) if sets::any() && has_more(message) => |_| true;
    sendmmsg(a, b, c) if true => |_| true;
    clone(a, b, c) if true => |_| true;
}

/// Whether by this fcntl(2) others may have the file.
fn opens(command: u64, argument: u64) -> bool {
    match command as c_int {
        libc::F_GETFD | libc::F_GETFL | libc::F_SETFL => false,
        libc::F_SETFD => argument as c_int != libc::FD_CLOEXEC,
        _ => true,
    }
}

/// Whether a message may have files with it.
fn has_more(message: u64) -> bool {
    // SAFETY: by the caller of sendmsg(2).
    let message = unsafe { (message as *const libc::msghdr).as_ref() };
    message.is_some_and(|message| message.msg_controllen != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stays_in_no_register() {
        let args = [0, 0, 0, 0, 0, UNTRAPPED];
        assert!(system_call(libc::SYS_getpid, args) > 0);
        let sixth: u64;
        // SAFETY: copies a register.
        unsafe { std::arch::asm!("mov {}, r9", out(reg) sixth) };
        assert_ne!(sixth, UNTRAPPED);
    }
}
