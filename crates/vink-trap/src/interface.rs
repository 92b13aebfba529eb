//! Requests about interfaces on sockets of the host: if_nametoindex(3) and others open a unix
//! socket, since any will do, and ask it for what their machine's kernel must answer
//! (netdevice(7)).

use std::fs;
use std::os::unix::fs::FileTypeExt;

use vink_kernel::Call;
use vink_syscalls::concerns_interfaces;

use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::Error;

impl Tasks {
    /// The result of an ioctl(2) on a descriptor of the host's, if it is such a request.
    pub(crate) fn ask_about_interfaces(&mut self, call: SyscallCtx) -> Result<Option<i64>, Error> {
        let [fd, request, ..] = call.args;
        if call.nr != libc::SYS_ioctl || !concerns_interfaces(request) {
            return Ok(None);
        }
        let found = fs::metadata(format!("/proc/{}/fd/{}", call.tid, fd as i32));
        if !found.is_ok_and(|file| file.file_type().is_socket()) {
            return Ok(None);
        }
        let task = match self.try_task_of(call.tid)? {
            Ok(task) => task,
            Err(result) => return Ok(Some(result)),
        };
        // Like a unix socket, one of netlink has no requests of its own.
        let kind = [libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE].map(|n| n as u64);
        let socket =
            self.kernel
                .run_call(task, libc::SYS_socket, [kind[0], kind[1], kind[2], 0, 0, 0])?;
        if socket < 0 {
            return Ok(Some(socket));
        }
        let mut args = call.args;
        args[0] = socket as u64;
        let asked = Call {
            nr: call.nr,
            args,
            space: call.tid as u64,
            ..Call::default()
        };
        let result = self.kernel.run_call_of(task, &asked)?;
        self.close_fd(call.tid, socket as i32)?;
        Ok(Some(result))
    }
}
