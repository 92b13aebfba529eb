//! Memory of this library's own. It may not allocate any: it is in the middle of programs' calls,
//! in signal handlers and in children after fork(2).

use std::ffi::{c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{MADV_NORMAL, MADV_WIPEONFORK, MAP_ANONYMOUS, MAP_PRIVATE};
use vink_shim::{errno, Text};

/// Types of which a value may be all zero.
///
/// # Safety
/// All zero is a valid value.
pub(crate) unsafe trait Zero {}

// SAFETY: null.
unsafe impl Zero for Text<'_> {}

/// A new mapping to read and write, with what the kernel is to know of it (madvise(2)). The errno
/// stays.
pub(crate) fn map(len: usize, kind: c_int, fd: c_int, advice: c_int) -> Option<*mut c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let before = errno().get();
    // SAFETY: makes a mapping where there is none, and unmaps it if it is not handed out.
    let memory = unsafe {
        match libc::mmap(null_mut(), len, access, kind, fd, 0) {
            libc::MAP_FAILED => None,
            memory if advice != MADV_NORMAL && libc::madvise(memory, len, advice) < 0 => {
                libc::munmap(memory, len);
                None
            }
            memory => Some(memory),
        }
    };
    errno().set(before);
    memory
}

/// What a process knows: all zero at first, and again in its children. Never unmapped.
pub(crate) struct Wiped<T>(AtomicPtr<T>);

impl<T: Zero + Sync> Wiped<T> {
    pub(crate) const fn new() -> Wiped<T> {
        Wiped(AtomicPtr::new(null_mut()))
    }

    /// From now on there is one, if there is memory for it.
    pub(crate) fn begin(&self) {
        let kind = MAP_PRIVATE | MAP_ANONYMOUS;
        if let Some(memory) = map(size_of::<T>(), kind, -1, MADV_WIPEONFORK) {
            self.0.store(memory.cast(), Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or mapped for ever; all zero, as a child finds it, is valid.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

/// Values that are all zero at first.
pub(crate) struct Mapping<'a, T>(&'a mut [T]);

impl<T: Zero> Mapping<'_, T> {
    pub(crate) fn new(count: usize) -> Option<Self> {
        let len = count * size_of::<T>();
        let memory = map(len, MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_NORMAL)?;
        // SAFETY: a new mapping of so many, all zero, which is valid.
        Some(Mapping(unsafe {
            std::slice::from_raw_parts_mut(memory.cast(), count)
        }))
    }
}

/// What a child of vfork(2) had mapped as it executed a file: its parent has it then.
static LEFT: Left = Left {
    at: AtomicPtr::new(null_mut()),
    len: AtomicUsize::new(0),
};

struct Left {
    at: AtomicPtr<c_void>,
    /// Bytes.
    len: AtomicUsize,
}

/// Unmaps what the last child of vfork(2) has left.
pub(crate) fn unmap_left() {
    let at = LEFT.at.swap(null_mut(), Ordering::Relaxed);
    if !at.is_null() {
        // SAFETY: a mapping of that child's, which has gone with its `Mapping`.
        unsafe { libc::munmap(at, LEFT.len.load(Ordering::Relaxed)) };
    }
}

impl<T> Mapping<'_, T> {
    /// This process, a child of vfork(2), is about to execute a file with it.
    pub(crate) fn leave(&self) {
        LEFT.len.store(size_of_val(self.0), Ordering::Relaxed);
        LEFT.at
            .store(self.0.as_ptr().cast_mut().cast(), Ordering::Relaxed);
    }
}

impl<T> Deref for Mapping<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0
    }
}

impl<T> DerefMut for Mapping<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0
    }
}

impl<T> Drop for Mapping<'_, T> {
    /// The errno, which may tell why nothing was executed, stays.
    fn drop(&mut self) {
        let before = errno().get();
        LEFT.at.store(null_mut(), Ordering::Relaxed);
        // SAFETY: the mapping of `new`, which nothing else has.
        unsafe { libc::munmap(self.0.as_mut_ptr().cast(), size_of_val(self.0)) };
        errno().set(before);
    }
}
