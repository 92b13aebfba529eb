//! Restartable sequences (rseq(2)): memory of a thread that Linux writes each time the thread goes
//! on, which libc registers for every thread.

use std::ffi::c_void;

/// What libc registers, in bytes, and the signature that it does so with on x86-64.
const LENGTH: u32 = 32;
const SIGNATURE: u32 = 0x5305_3053;
/// `RSEQ_FLAG_UNREGISTER`.
const UNREGISTER: i32 = 1;

/// Takes back what libc has registered for this thread: it goes on the sooner each time that it has
/// waited (60 ns here), and it is not ended without a handler if that memory is written over.
/// sched_getcpu(3) asks the kernel from then on. False: nothing is registered, or by another libc.
pub fn unregister() -> bool {
    // SAFETY: looks a name up.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    if offset.is_null() {
        return false;
    }
    let thread: *mut c_void;
    // SAFETY: on x86-64 the thread's descriptor starts with its own address; libc says where in it the
    // memory is, by a constant of this type.
    let registered = unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly));
        thread.byte_offset(*offset.cast::<isize>())
    };
    // SAFETY: unregistered, the memory is not used any more; it is refused if it is not what is registered.
    unsafe { libc::syscall(libc::SYS_rseq, registered, LENGTH, UNREGISTER, SIGNATURE) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libc_has_registered_ends_once() {
        let twice = || (unregister(), unregister());
        assert_eq!(std::thread::spawn(twice).join().unwrap(), (true, false));
        // SAFETY: asks for this thread's processor.
        let processor = || unregister().then(|| unsafe { libc::sched_getcpu() });
        let processor = std::thread::spawn(processor).join().unwrap();
        assert!(processor.is_some_and(|number| number >= 0));
    }
}
