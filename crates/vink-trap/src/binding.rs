//! Ports that are not a machine's alone: what bind(2) of a program asks before the kernel does it.
//!
//! That is for machines whose address the host or another machine has, too: the port may be taken
//! there. For any other machine nothing is asked. A program that changes the address behind the
//! worker's back gets a port that has not been asked for: the process that gives out the ports passes
//! no packet of it.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use vink_kernel::MachineId;

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::port_policy::{Policies, PortPolicy};
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::worker::Worker;
use crate::Error;

/// Has a machine's programs bind as `policy` says, from now on; `None`: as they like.
pub fn set_port_policy(
    worker: &mut Worker,
    machine: MachineId,
    policy: Option<Rc<RefCell<dyn PortPolicy>>>,
) {
    worker.supervisor.port_policies.set(machine, policy);
}

impl Policies {
    /// Asks what a call of bind(2) has to, of a process in its machine's own network: its result if
    /// it is refused.
    pub(crate) fn refuse(
        &self,
        tasks: &mut Tasks,
        call: SyscallCtx,
        entry: &Entry,
    ) -> Result<Option<i64>, Error> {
        let Some(policy) = self.of(tasks.table.machine_of(call.pid)) else {
            return Ok(None);
        };
        let Some(address) = address(call).filter(|address| address.port() != 0) else {
            return Ok(None);
        };
        let Ok(task) = tasks.try_task_of(call.tid)? else {
            return Ok(None);
        };
        let kernel = &mut tasks.kernel;
        let udp = match kernel.internet_protocol(task, entry.number)? {
            Some(libc::IPPROTO_TCP | libc::IPPROTO_MPTCP) => false,
            Some(libc::IPPROTO_UDP) => true,
            _ => return Ok(None),
        };
        kernel.dirty = true;
        let asked = policy.borrow_mut().may_bind(kernel, address, udp);
        Ok(match asked {
            Ok(Ok(())) => None,
            Ok(Err(number)) => Some(-i64::from(number)),
            Err(error) => Some(to_errno_result(error)?),
        })
    }
}

/// The address in the second argument, as far as it is one of IP's; what else it is, the kernel says.
fn address(call: SyscallCtx) -> Option<SocketAddr> {
    let mut bytes = [0; size_of::<libc::sockaddr_in6>()];
    let length = usize::try_from(call.args[2] as i32).unwrap_or(0);
    let bytes = &mut bytes[..length.min(size_of::<libc::sockaddr_in6>())];
    if !tracee::read(call.tid, call.args[1], bytes) {
        return None;
    }
    let half = |at: usize| Some([*bytes.get(at)?, *bytes.get(at + 1)?]);
    let port = u16::from_be_bytes(half(2)?);
    let ip: IpAddr = match i32::from(u16::from_ne_bytes(half(0)?)) {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?);
            ip.to_canonical()
        }
        // Of IPv4: as if it was AF_INET.
        libc::AF_UNSPEC => Ipv4Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}
