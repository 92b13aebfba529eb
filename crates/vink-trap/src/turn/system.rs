//! The host as programs see it: one processor, so much memory, no load.

use super::clocks::BOOTED;
use crate::notify::Notification;
use crate::target;
use crate::worker::Worker;
use crate::Error;

const EFAULT: i64 = -(libc::EFAULT as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
const ENOSYS: i64 = -(libc::ENOSYS as i64);
/// What sysinfo(2) tells of memory, in bytes.
const MEMORY: u64 = 4 << 30;
/// Of the only processor there is.
const FIRST_CPU: u64 = 1;

impl Worker {
    /// Answers what is asked of the host and would not be the same in each run. False: the call is of no such kind.
    pub(super) fn ask_about_host(&mut self, call: Notification) -> Result<bool, Error> {
        let [first, second, third, ..] = call.args;
        let result = match call.nr {
            libc::SYS_getrandom => return self.getrandom(call).map(|()| true),
            libc::SYS_sched_getaffinity if second < 8 || second % 8 != 0 => EINVAL,
            libc::SYS_sched_getaffinity => give(call, third, &FIRST_CPU.to_le_bytes(), 8),
            libc::SYS_sched_setaffinity => {
                let mut byte = [0];
                match second > 0 && target::read(call.tid, third, &mut byte) {
                    false => EFAULT,
                    true if u64::from(byte[0]) & FIRST_CPU == 0 => EINVAL,
                    true => 0,
                }
            }
            libc::SYS_getcpu => match give(call, first, &[0; 4], 0) {
                0 => give(call, second, &[0; 4], 0),
                error => error,
            },
            libc::SYS_sysinfo => {
                // SAFETY: all zero is a valid value of this plain structure.
                let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
                info.uptime = ((self.kernel.now() + BOOTED) / 1_000_000_000) as i64;
                info.totalram = MEMORY;
                info.freeram = MEMORY / 2;
                info.procs = 1;
                info.mem_unit = 1;
                // SAFETY: a plain structure without padding that matters, as bytes.
                let bytes = unsafe {
                    std::slice::from_raw_parts((&raw const info).cast(), size_of_val(&info))
                };
                give(call, first, bytes, 0)
            }
            // It would show on which processor a thread is. C libraries do without it.
            libc::SYS_rseq => ENOSYS,
            _ => return Ok(false),
        };
        self.answer(call, result).map(|()| true)
    }
}

/// Writes a result where the program wants it, if it does: what the call returns then.
fn give(call: Notification, to: u64, bytes: &[u8], result: i64) -> i64 {
    match to == 0 || target::write(call.tid, to, bytes) {
        true => result,
        false => EFAULT,
    }
}
