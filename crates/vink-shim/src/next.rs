//! The C library's own functions.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of the next library that has one of this name; looked up once.
pub struct Next(AtomicUsize, &'static CStr);

impl Next {
    /// The function of this name.
    pub const fn new(name: &'static CStr) -> Next {
        Next(AtomicUsize::new(0), name)
    }

    /// Where it is; 0: no library has one.
    pub fn address(&self) -> usize {
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

/// Calls the C library's function of this name, with what the program has passed to it here, or
/// with what lives here.
#[macro_export]
macro_rules! next {
    ($abi:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {{
        static NEXT: $crate::Next = $crate::Next::new(
            match ::std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        );
        // SAFETY: what is called so has this type in every C library; the arguments are as right
        // as the program's own call is.
        unsafe {
            let next = ::std::mem::transmute::<usize, unsafe extern $abi fn($($type),*) -> $result>(
                NEXT.address(),
            );
            next($($arg),*)
        }
    }};
}
