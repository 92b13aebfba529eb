//! Requests about interfaces on sockets of the host: if_nametoindex(3) and others open a unix
//! socket, since any will do, and ask it for what their machine's kernel must answer
//! (netdevice(7)).

use std::fs;
use std::os::unix::fs::FileTypeExt;

use vink_kernel::Call;
use vink_syscalls::concerns_interfaces;

use crate::error::to_errno_result;
use crate::syscall_ctx::SyscallCtx;
use crate::worker::Worker;
use crate::Error;

impl Worker {
    /// ioctl(2) on a descriptor of the host's. True if it was such a request, and has been
    /// answered.
    pub(crate) fn ask_about_interfaces(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        let [fd, request, ..] = call.args;
        if call.nr != libc::SYS_ioctl || !concerns_interfaces(request) {
            return Ok(false);
        }
        let found = fs::metadata(format!("/proc/{}/fd/{}", call.tid, fd as i32));
        if !found.is_ok_and(|file| file.file_type().is_socket()) {
            return Ok(false);
        }
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = to_errno_result(error)?;
                return self.answer(call, result).map(|()| true);
            }
        };
        // Like a unix socket, one of netlink has no requests of its own.
        let kind = [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE].map(|n| n as u64);
        let socket =
            self.kernel_call(task, libc::SYS_socket, [kind[0], kind[1], kind[2], 0, 0, 0])?;
        if socket < 0 {
            return self.answer(call, socket).map(|()| true);
        }
        let mut args = call.args;
        args[0] = socket as u64;
        let asked = Call {
            nr: call.nr,
            args,
            space: call.tid as u64,
            ..Call::default()
        };
        let result = self
            .kernel
            .complete(task, &asked)
            .or_else(to_errno_result)?;
        self.close_kernel_fd(call.tid, socket as i32)?;
        self.answer(call, result).map(|()| true)
    }
}
