//! Ports that are not a machine's alone: what bind(2) of a program asks before the kernel does it.
//!
//! That is for machines whose address the host or another machine has, too: the port may be taken
//! there. For any other machine nothing is asked. A program that changes the address behind the
//! worker's back gets a port that has not been asked for: the process that gives out the ports passes
//! no packet of it.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use vink_kernel::{MachineId, TaskId};

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::port_policy::PortPolicy;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::worker::Worker;
use crate::Error;

/// Has a machine's programs bind as `policy` says, from now on; `None`: as they like.
pub fn set_port_policy(
    worker: &mut Worker,
    machine: MachineId,
    policy: Option<Rc<RefCell<dyn PortPolicy>>>,
) {
    worker.port_policies.retain(|(other, _)| *other != machine);
    let added = policy.map(|policy| (machine, policy));
    worker.port_policies.extend(added);
}

/// Asks what a call of bind(2) has to: true if the call was refused, and is answered.
pub(crate) fn refuses(
    worker: &mut Worker,
    call: SyscallCtx,
    entry: &Entry,
    machine: MachineId,
) -> Result<bool, Error> {
    let mut policies = worker.port_policies.iter();
    let Some((_, policy)) = policies.find(|(its, _)| *its == machine) else {
        return Ok(false);
    };
    let policy = policy.clone();
    let Some(address) = address(call).filter(|address| address.port() != 0) else {
        return Ok(false);
    };
    let task = match worker.task_of(call.tid) {
        Ok(task) => task,
        Err(error) => return to_errno_result(error).map(|_| false),
    };
    let udp = match protocol(worker, task, entry)? {
        Some(libc::IPPROTO_TCP | libc::IPPROTO_MPTCP) => false,
        Some(libc::IPPROTO_UDP) => true,
        _ => return Ok(false),
    };
    worker.kernel_dirty = true;
    let asked = policy
        .borrow_mut()
        .may_bind(&mut worker.kernel, address, udp);
    let result = match asked {
        Ok(Ok(())) => return Ok(false),
        Ok(Err(number)) => -i64::from(number),
        Err(error) => to_errno_result(error)?,
    };
    worker.answer(call, result).map(|()| true)
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

/// The protocol of a socket of IP's.
fn protocol(worker: &mut Worker, task: TaskId, entry: &Entry) -> Result<Option<i32>, Error> {
    let mut option = |name: i32| -> Result<i32, Error> {
        let (mut value, mut length) = (-1i32, size_of::<i32>() as libc::socklen_t);
        let at = [(&raw mut value) as u64, (&raw mut length) as u64];
        let level = libc::SOL_SOCKET as u64;
        let args = [entry.number as u64, level, name as u64, at[0], at[1], 0];
        let result = worker.kernel_call(task, libc::SYS_getsockopt, args)?;
        Ok(if result < 0 { -1 } else { value })
    };
    let of_internet = matches!(option(libc::SO_DOMAIN)?, libc::AF_INET | libc::AF_INET6);
    Ok(match of_internet {
        true => Some(option(libc::SO_PROTOCOL)?),
        false => None,
    })
}
