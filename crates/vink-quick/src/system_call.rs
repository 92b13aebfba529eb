//! System calls that this library makes by itself.

use vink_ring::UNTRAPPED;

/// Makes a system call that is the host's business alone.
#[inline]
pub(crate) fn native(nr: i64, args: [u64; 4]) -> i64 {
    let [a, b, c, d] = args;
    system_call(nr, [a, b, c, d, 0, UNTRAPPED])
}

/// Makes a system call. Its last arguments do not stay in their registers: the C library's next
/// call, of read(2) for example, sets as many registers as that has arguments, and with the mark in
/// one of the others it would not be trapped.
#[inline]
pub(crate) fn system_call(nr: i64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller's own call; the instructions change no other registers.
    unsafe {
        std::arch::asm!(
            "mov r9, {sixth}",
            "syscall",
            "xor r8d, r8d",
            "xor r9d, r9d",
            sixth = in(reg) args[5],
            out("r9") _,
            inlateout("rax") nr => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            inout("r8") args[4] => _,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Makes a trapped call that knows no `EINTR`: a signal may come before the worker has received it, and then it has done
/// nothing.
pub(crate) fn uninterrupted(nr: i64, args: [u64; 6]) -> i64 {
    loop {
        let result = system_call(nr, args);
        if result != -i64::from(libc::EINTR) {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stays_in_no_register() {
        let args = [0, 0, 0, 0, UNTRAPPED, UNTRAPPED];
        assert!(system_call(libc::SYS_getpid, args) > 0);
        let (fifth, sixth): (u64, u64);
        // SAFETY: copies registers.
        unsafe { std::arch::asm!("", out("r8") fifth, out("r9") sixth) };
        assert!(fifth != UNTRAPPED && sixth != UNTRAPPED);
    }
}
