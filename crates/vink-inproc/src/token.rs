//! The token: its holder runs the kernel. A lock that costs two atomic operations if it is not contended.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::host;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// ... and a thread may sleep for it.
const WANTED: u32 = 2;

/// How often it is read before sleeping: a call takes no longer, as a rule.
const SPINS: u32 = 200;

/// A value that one thread at a time may use.
pub(crate) struct Token<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: as a mutex: the value is used by one thread at a time, and may be used by any.
unsafe impl<T: Send> Sync for Token<T> {}

/// The value, as long as this is there.
pub(crate) struct TokenGuard<'a, T>(&'a Token<T>);

impl<T> Token<T> {
    pub fn new(value: T) -> Token<T> {
        Token {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for it. Not to be asked for by a thread that has it.
    #[inline]
    pub fn take(&self) -> TokenGuard<'_, T> {
        let free = self
            .word
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            self.wait();
        }
        TokenGuard(self)
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            if self.word.load(Ordering::Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        while self.word.swap(WANTED, Ordering::Acquire) != FREE {
            host::sleep_while(&self.word, WANTED, None);
        }
    }
}

impl<T> Drop for TokenGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.word.swap(FREE, Ordering::Release) == WANTED {
            host::wake(&self.0.word);
        }
    }
}

impl<T> Deref for TokenGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other thread has the token.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TokenGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: no other thread has the token, and this borrow of it is the only one.
        unsafe { &mut *self.0.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let token = Token::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut guard = token.take();
                        let before = *guard;
                        *guard = std::hint::black_box(before) + 1;
                    }
                });
            }
        });
        assert_eq!(*token.take(), 80_000);
        assert_eq!(token.word.load(Ordering::Relaxed), FREE);
    }
}
