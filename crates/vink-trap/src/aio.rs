//! Native asynchronous I/O (io_submit(2)): for the host's files only.
//!
//! What is submitted is not a system call, so that a request for a placeholder would go there. The
//! requests are read before the host has them: with one for a Vink file among them, none is carried
//! out.

use crate::fd_table::FdTable;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;

/// Where the descriptor is in `struct iocb` of `<linux/aio_abi.h>`.
const FILDES: u64 = 20;
/// Requests that are read by one system call.
const MAX_REQUESTS: usize = 256;

/// Whether a request is for a Vink file. What can't be read the host refuses.
pub(crate) fn submits_vink_file(call: SyscallCtx, table: &FdTable) -> bool {
    let [_, count, mut pointers, ..] = call.args;
    let mut left = count;
    while left > 0 && !table.is_empty() {
        let now = left.min(MAX_REQUESTS as u64) as usize;
        let mut addresses = [0; 8 * MAX_REQUESTS];
        let addresses = &mut addresses[..8 * now];
        if !tracee::read(call.tid, pointers, addresses) {
            // The last pages may be missing: one after the other, then.
            match tracee::read_u64(call.tid, pointers) {
                Some(first) if is_for_vink(call, table, &[first]) => return true,
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
        if is_for_vink(call, table, &requests) {
            return true;
        }
        pointers = pointers.wrapping_add(8 * now as u64);
        left -= now as u64;
    }
    false
}

/// Whether one of the requests at these addresses is for a Vink file.
fn is_for_vink(call: SyscallCtx, table: &FdTable, requests: &[u64]) -> bool {
    let mut descriptors = vec![[0; 4]; requests.len()];
    let at = requests.iter().map(|request| request.wrapping_add(FILDES));
    let mut parts: Vec<(u64, &mut [u8])> = at
        .zip(descriptors.iter_mut().map(|bytes| bytes.as_mut_slice()))
        .collect();
    let read = tracee::read_parts(call.tid, &mut parts) / 4;
    descriptors[..read]
        .iter()
        .any(|bytes| table.get(u32::from_ne_bytes(*bytes).into()).is_some())
}
