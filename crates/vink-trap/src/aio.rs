//! Native asynchronous I/O (io_submit(2)): for the host's files only.
//!
//! What is submitted is not a system call, so that a request for a placeholder would go there. The
//! requests are read before the host has them: with one for a Vink file among them, none is carried
//! out.

use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::worker::Worker;
use crate::Error;

/// Where the descriptor is in `struct iocb` of `<linux/aio_abi.h>`.
const FILDES: u64 = 20;
/// Requests that are read by one system call.
const MAX_REQUESTS: usize = 256;

impl Worker {
    /// io_submit(2).
    pub(crate) fn submit(&mut self, call: SyscallCtx) -> Result<(), Error> {
        if !self.submits_vink_file(call) {
            return self.passthrough(call);
        }
        self.statistics.count_unsupported(call.nr);
        self.answer(call, -i64::from(libc::EINVAL))
    }

    /// Whether a request is for a Vink file. What can't be read the host refuses.
    fn submits_vink_file(&self, call: SyscallCtx) -> bool {
        let table = self.table.fd_table(call.pid);
        let [_, count, mut pointers, ..] = call.args;
        let mut left = count;
        while left > 0 && !table.is_empty() {
            let now = left.min(MAX_REQUESTS as u64) as usize;
            let mut addresses = [0; 8 * MAX_REQUESTS];
            let addresses = &mut addresses[..8 * now];
            if !tracee::read(call.tid, pointers, addresses) {
                // The last pages may be missing: one after the other, then.
                match tracee::read_u64(call.tid, pointers) {
                    Some(first) if self.is_for_vink(call, &[first]) => return true,
                    Some(_) => {
                        pointers = pointers.wrapping_add(8);
                        left -= 1;
                        continue;
                    }
                    None => return false,
                }
            }
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            let requests: Vec<u64> = addresses.chunks_exact(8).map(word).collect();
            if self.is_for_vink(call, &requests) {
                return true;
            }
            pointers = pointers.wrapping_add(8 * now as u64);
            left -= now as u64;
        }
        false
    }

    /// Whether one of the requests at these addresses is for a Vink file.
    fn is_for_vink(&self, call: SyscallCtx, requests: &[u64]) -> bool {
        let mut descriptors = vec![[0; 4]; requests.len()];
        let at = requests.iter().map(|request| request.wrapping_add(FILDES));
        let mut parts: Vec<(u64, &mut [u8])> = at
            .zip(descriptors.iter_mut().map(|bytes| bytes.as_mut_slice()))
            .collect();
        let read = tracee::read_parts(call.tid, &mut parts) / 4;
        let table = self.table.fd_table(call.pid);
        descriptors[..read]
            .iter()
            .any(|bytes| table.get(u32::from_ne_bytes(*bytes).into()).is_some())
    }
}
