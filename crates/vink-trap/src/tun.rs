//! `/dev/net/tun`: a descriptor that becomes an interface's only by a call, `TUNSETIFF`.
//!
//! Before it the kernel's poll(2) of it is an error, and says no more later. A placeholder that has
//! shown that much is asked for anew. See Documentation/networking/tuntap.rst.

use vink_kernel::Call;

use crate::calls::Calls;
use crate::fd_table::Entry;
use crate::syscall_ctx::SyscallCtx;
use crate::Error;

/// Of linux/if_tun.h.
const TUNSETIFF: u32 = 0x4004_54ca;

impl Calls {
    /// Makes an interface of the file, if that is what the call asks for: its result.
    pub(crate) fn attach_tun(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
    ) -> Result<Option<i64>, Error> {
        if call.nr != libc::SYS_ioctl || call.args[1] as u32 != TUNSETIFF {
            return Ok(None);
        }
        let number = entry.number as u64;
        let mut args = call.args;
        args[0] = number;
        let task = match self.tasks.try_task_of(call.tid)? {
            Ok(task) => task,
            Err(result) => return Ok(Some(result)),
        };
        let ioctl = Call {
            nr: call.nr,
            args,
            space: call.tid as u64,
            ..Call::default()
        };
        let result = self.tasks.kernel.run_call_of(task, &ioctl)?;
        let cookie = entry.file.cookie.get();
        if result >= 0 && cookie != 0 {
            entry.file.cookie.set(0);
            let watch = vink_abi::VINK_CALL_WATCH.into();
            self.tasks
                .kernel
                .run_call(task, watch, [number, cookie, 0, 0, 0, 0])?;
            if entry.file.mirrors_edges.replace(false) {
                self.mirror_edges(call.tid, entry)?;
            }
        }
        Ok(Some(result))
    }
}
