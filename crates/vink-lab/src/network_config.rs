//! Configures the network of one machine: links, addresses, routes and sysctls, by netlink and
//! /proc/sys.

use std::net::IpAddr;

use ipnet::IpNet;
use vink_kernel::{Kernel, MachineId, TaskId};
use vink_port::tun::TUNSETIFF;

use crate::route::StaticRoute;
use crate::Error;
use vink_sys::netlink::{acknowledged, ifinfomsg, Message};

const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
/// Bytes of TCP over IPv4 that pass `lo`, as an ideal wire, as one packet: the most that Linux has
/// (`GSO_MAX_SIZE`; "BIG TCP"). Not for IPv6, where packets of more than 64 KiB carry a hop-by-hop
/// header, which rules that look at the next header would see.
const WHOLE_PACKET: u32 = 8 * 65535;
const NETLINK_CAP_ACK: i32 = 10;
const NETLINK_EXT_ACK: i32 = 11;

/// A task of a machine with a route netlink socket. It does what `ip` does from inside the worker,
/// so that a machine is set up without running a program. The task lives until
/// [`NetworkConfig::close`], or as long as the kernel.
///
/// Every error is [`Error::Refused`] with the kernel's errno, or [`Error::Kernel`].
#[derive(Clone, Copy, Debug)]
pub struct NetworkConfig {
    task: TaskId,
    socket: u64,
}

impl NetworkConfig {
    /// Makes the task and its socket.
    pub fn new(kernel: &mut Kernel, machine: MachineId) -> Result<NetworkConfig, Error> {
        let mut network = NetworkConfig {
            task: kernel.task(machine)?,
            socket: 0,
        };
        let args = [
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        ];
        let [family, kind, protocol] = args.map(|a| a as u64);
        let what = || "opening a route netlink socket".to_owned();
        network.socket = network.sys(
            kernel,
            libc::SYS_socket,
            [family, kind, protocol, 0, 0, 0],
            what,
        )?;
        for option in [NETLINK_CAP_ACK, NETLINK_EXT_ACK] {
            let on = 1i32;
            let args = [
                network.socket,
                libc::SOL_NETLINK as u64,
                option as u64,
                (&raw const on) as u64,
                size_of_val(&on) as u64,
                0,
            ];
            network.sys(kernel, libc::SYS_setsockopt, args, || {
                "setting up a route netlink socket".to_owned()
            })?;
        }
        Ok(network)
    }

    /// Sets the loopback interface up, and has it pass unsegmented packets as large as an ideal
    /// wire's do.
    pub fn loopback(&self, kernel: &mut Kernel) -> Result<(), Error> {
        let message = Message::new(
            libc::RTM_NEWLINK,
            0,
            &ifinfomsg(0, libc::IFF_UP, libc::IFF_UP),
        )
        .text(libc::IFLA_IFNAME, "lo")
        .attr(IFLA_GSO_IPV4_MAX_SIZE, &WHOLE_PACKET.to_ne_bytes());
        self.request(kernel, message, || "setting lo up".to_owned())
    }

    /// Limits TCP's GSO packets at an interface to 64 KiB, which uplinks pass whole. Larger ones,
    /// which wires pass, would be segmented to the MTU at the uplink.
    pub fn limit_gso(&self, kernel: &mut Kernel, name: &str) -> Result<(), Error> {
        const LEGACY_MAX_SIZE: u32 = 65536;
        let message = Message::new(libc::RTM_NEWLINK, 0, &ifinfomsg(0, 0, 0))
            .text(libc::IFLA_IFNAME, name)
            .attr(IFLA_GSO_IPV4_MAX_SIZE, &LEGACY_MAX_SIZE.to_ne_bytes());
        self.request(kernel, message, || format!("limiting packets of {name}"))
    }

    /// Gives an interface an Ethernet address, as `ip link set dev NAME address MAC`.
    pub fn ethernet_address(
        &self,
        kernel: &mut Kernel,
        name: &str,
        mac: [u8; 6],
    ) -> Result<(), Error> {
        let message = Message::new(libc::RTM_NEWLINK, 0, &ifinfomsg(0, 0, 0))
            .text(libc::IFLA_IFNAME, name)
            .attr(libc::IFLA_ADDRESS, &mac);
        self.request(kernel, message, || {
            format!("giving {name} its Ethernet address")
        })
    }

    /// Sets an interface up, as `ip link set dev NAME up`.
    pub fn up(&self, kernel: &mut Kernel, name: &str) -> Result<(), Error> {
        let what = || format!("setting {name} up");
        self.flags(kernel, name, libc::IFF_UP, libc::IFF_UP, what)
    }

    /// Sets an interface down, as `ip link set dev NAME down`.
    pub fn down(&self, kernel: &mut Kernel, name: &str) -> Result<(), Error> {
        let what = || format!("setting {name} down");
        self.flags(kernel, name, 0, libc::IFF_UP, what)
    }

    /// Has an interface take frames for others, too.
    pub(crate) fn promiscuous(&self, kernel: &mut Kernel, name: &str) -> Result<(), Error> {
        let what = || format!("setting {name} promiscuous");
        self.flags(kernel, name, libc::IFF_PROMISC, libc::IFF_PROMISC, what)
    }

    /// Has an interface ask for no neighbour's Ethernet address: frames have its own.
    pub(crate) fn no_arp(&self, kernel: &mut Kernel, name: &str) -> Result<(), Error> {
        let what = || format!("setting {name} to ask for no neighbours");
        self.flags(kernel, name, libc::IFF_NOARP, libc::IFF_NOARP, what)
    }

    /// Sets those flags of `change` that are in `flags`, and clears the others.
    fn flags(
        &self,
        kernel: &mut Kernel,
        name: &str,
        flags: i32,
        change: i32,
        what: impl Fn() -> String,
    ) -> Result<(), Error> {
        let message = Message::new(libc::RTM_NEWLINK, 0, &ifinfomsg(0, flags, change))
            .text(libc::IFLA_IFNAME, name);
        self.request(kernel, message, what)
    }

    /// Whether the interface has a carrier, as `ethtool NAME` tells. A change of it, which the
    /// kernel otherwise acts upon within a second only, takes effect by this question.
    pub fn carrier(&self, kernel: &mut Kernel, name: &str) -> Result<bool, Error> {
        const ETHTOOL_GLINK: u32 = 10;
        // struct ethtool_value: what is asked, and the answer.
        let mut value = [ETHTOOL_GLINK, 0];
        let mut request = InterfaceRequest::new(name);
        request.value[0] = (&raw mut value) as u64;
        self.ioctl(kernel, libc::SIOCETHTOOL, &mut request)?;
        Ok(value[1] != 0)
    }

    /// Adds an address with a prefix of `prefix` bits, as `ip address add ADDRESS/PREFIX dev NAME
    /// nodad`: an IPv6 address can be used at once.
    pub fn address(
        &self,
        kernel: &mut Kernel,
        name: &str,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), Error> {
        let what = || format!("adding {address}/{prefix} to {name}");
        let index = self.index(kernel, name)?;
        let (family, bytes) = family_and_bytes(address);
        let flags = if address.is_ipv6() {
            libc::IFA_F_NODAD as u8
        } else {
            0
        };
        let mut body = [family, prefix, flags, libc::RT_SCOPE_UNIVERSE, 0, 0, 0, 0];
        body[4..].copy_from_slice(&index.to_ne_bytes());
        let message = Message::new(
            libc::RTM_NEWADDR,
            libc::NLM_F_CREATE | libc::NLM_F_EXCL,
            &body,
        )
        .attr(libc::IFA_LOCAL, &bytes)
        .attr(libc::IFA_ADDRESS, &bytes);
        let done = self.request(kernel, message, what);
        done.map_err(|error| error.of_address(address))
    }

    /// Adds a route to `to`/`prefix` (0 bits: the default route) through the gateway `via`, as
    /// `ip route add TO/PREFIX via VIA`. The gateway must be reachable on an interface that is up.
    pub fn route(
        &self,
        kernel: &mut Kernel,
        to: IpAddr,
        prefix: u8,
        via: IpAddr,
    ) -> Result<(), Error> {
        let bad = |_| Error::Address {
            text: format!("{to}/{prefix}"),
        };
        let route = StaticRoute {
            to: IpNet::new(to, prefix).map_err(bad)?,
            via: Some(via),
            dev: None,
            metric: None,
            mtu: None,
        };
        self.change_route(kernel, &route, false)
    }

    /// Writes a sysctl of the machine; `name` is its path below /proc/sys, such as
    /// `net/ipv4/ip_forward`.
    pub fn sysctl(&self, kernel: &mut Kernel, name: &str, value: &str) -> Result<(), Error> {
        let what = || format!("writing {value:?} to /proc/sys/{name}");
        let path = format!("/proc/sys/{name}\0");
        let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as u64;
        let args = [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags, 0, 0, 0];
        let file = self.sys(kernel, libc::SYS_openat, args, what)?;
        let args = [file, value.as_ptr() as u64, value.len() as u64, 0, 0, 0];
        let written = self.sys(kernel, libc::SYS_write, args, what);
        self.sys(kernel, libc::SYS_close, [file, 0, 0, 0, 0, 0], what)?;
        written.map(drop)
    }

    /// The same of a sysctl that IPv6 has: nothing is set where the image has no IPv6.
    pub fn ipv6_sysctl(&self, kernel: &mut Kernel, name: &str, value: &str) -> Result<(), Error> {
        let name = format!("net/ipv6/{name}");
        match self.sysctl(kernel, &name, value) {
            Err(error) if error.is_missing() && !self.has_ipv6(kernel)? => Ok(()),
            done => done,
        }
    }

    /// Whether the image has IPv6.
    pub(crate) fn has_ipv6(&self, kernel: &mut Kernel) -> Result<bool, Error> {
        match self.read(kernel, "/proc/net/if_inet6") {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a TAP interface of this name, which is made: frames of this descriptor of the task,
    /// without a header unless `header` is `IFF_VNET_HDR`, are the interface's. See
    /// Documentation/networking/tuntap.rst.
    pub(crate) fn tap(
        &self,
        kernel: &mut Kernel,
        device: &str,
        name: &str,
        header: i32,
    ) -> Result<i32, Error> {
        let what = || format!("making the TAP interface {name}");
        let flags = (libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC) as u64;
        let path = device.as_ptr() as u64;
        let args = [libc::AT_FDCWD as u64, path, flags, 0, 0, 0];
        let file = self.sys(kernel, libc::SYS_openat, args, what)?;
        let mut request = InterfaceRequest::new(name);
        request.value[0] = (libc::IFF_TAP | libc::IFF_NO_PI | header) as u64;
        let address = (&raw mut request) as u64;
        let args = [file, TUNSETIFF, address, 0, 0, 0];
        self.sys(kernel, libc::SYS_ioctl, args, what)?;
        Ok(file as i32)
    }

    /// Sets an interface's Ethernet address.
    pub(crate) fn hardware(
        &self,
        kernel: &mut Kernel,
        name: &str,
        address: [u8; 6],
    ) -> Result<(), Error> {
        let mut request = InterfaceRequest::new(name);
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
        bytes[2..].copy_from_slice(&address);
        request.value[0] = u64::from_ne_bytes(bytes);
        self.ioctl(kernel, libc::SIOCSIFHWADDR, &mut request)
    }

    /// Tells those at the other end of an interface that is up what its Ethernet address is, as it
    /// does when it is set up, if its `arp_notify` is 1.
    pub(crate) fn announce(&self, kernel: &mut Kernel, name: &str) -> Result<(), Error> {
        let mut request = InterfaceRequest::new(name);
        self.ioctl(kernel, libc::SIOCGIFHWADDR, &mut request)?;
        self.ioctl(kernel, libc::SIOCSIFHWADDR, &mut request)
    }

    /// Sets an interface's MTU, in bytes.
    pub fn mtu(&self, kernel: &mut Kernel, name: &str, mtu: u32) -> Result<(), Error> {
        let mut request = InterfaceRequest::new(name);
        request.value[0] = mtu.into();
        self.ioctl(kernel, libc::SIOCSIFMTU, &mut request)
    }

    /// Sets how many frames may wait in an interface.
    pub(crate) fn queue(&self, kernel: &mut Kernel, name: &str, frames: u32) -> Result<(), Error> {
        let mut request = InterfaceRequest::new(name);
        request.value[0] = frames.into();
        self.ioctl(kernel, libc::SIOCSIFTXQLEN, &mut request)
    }

    /// The route netlink socket, a descriptor of the task.
    pub(crate) fn socket(&self) -> u64 {
        self.socket
    }

    /// The task, which has the descriptors.
    pub(crate) fn task(&self) -> TaskId {
        self.task
    }

    /// Reads a file of the machine's, such as `/proc/net/tcp`: at most 1 MiB.
    pub(crate) fn read(&self, kernel: &mut Kernel, path: &str) -> Result<String, Error> {
        const MOST: usize = 1 << 20;
        let what = || format!("reading {path}");
        let name = format!("{path}\0");
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
        let args = [libc::AT_FDCWD as u64, name.as_ptr() as u64, flags, 0, 0, 0];
        let file = self.sys(kernel, libc::SYS_openat, args, what)?;
        let mut text = Vec::new();
        let done = loop {
            let mut piece = [0u8; 16 << 10];
            let args = [file, piece.as_mut_ptr() as u64, piece.len() as u64, 0, 0, 0];
            match self.sys(kernel, libc::SYS_read, args, what) {
                Ok(0) => break Ok(()),
                Ok(got) => text.extend(&piece[..got as usize]),
                Err(error) => break Err(error),
            }
            if text.len() >= MOST {
                break Ok(());
            }
        };
        self.sys(kernel, libc::SYS_close, [file, 0, 0, 0, 0, 0], what)?;
        done.map(|()| String::from_utf8_lossy(&text).into_owned())
    }

    /// The same of a file that not every image has: nothing if it is not there.
    pub(crate) fn read_if_there(&self, kernel: &mut Kernel, path: &str) -> Result<String, Error> {
        match self.read(kernel, path) {
            Err(error) if error.is_missing() => Ok(String::new()),
            read => read,
        }
    }

    /// Ends the task. Interfaces, addresses and routes stay.
    pub fn close(self, kernel: &mut Kernel) -> Result<(), Error> {
        Ok(kernel.exit_task(self.task, 0, true)?)
    }

    /// The interface's index, as if_nametoindex(3).
    pub(crate) fn index(&self, kernel: &mut Kernel, name: &str) -> Result<u32, Error> {
        let mut request = InterfaceRequest::new(name);
        self.ioctl(kernel, libc::SIOCGIFINDEX, &mut request)?;
        Ok(request.value[0] as u32)
    }

    /// One of the ioctls of netdevice(7).
    fn ioctl(
        &self,
        kernel: &mut Kernel,
        nr: u64,
        request: &mut InterfaceRequest,
    ) -> Result<(), Error> {
        let address = std::ptr::from_mut(request) as u64;
        let what = || format!("ioctl {nr:#x} of the interface {}", request.name());
        self.sys(
            kernel,
            libc::SYS_ioctl,
            [self.socket, nr, address, 0, 0, 0],
            what,
        )?;
        Ok(())
    }

    /// Sends a request and reads its acknowledgement. The kernel works on it within sendto(2), so
    /// the answer is there when that returns.
    pub(crate) fn request(
        &self,
        kernel: &mut Kernel,
        message: Message,
        what: impl Fn() -> String,
    ) -> Result<(), Error> {
        let bytes = message.finish();
        let args = [
            self.socket,
            bytes.as_ptr() as u64,
            bytes.len() as u64,
            0,
            0,
            0,
        ];
        self.sys(kernel, libc::SYS_sendto, args, &what)?;
        let mut reply = [0u8; 1024];
        let flags = libc::MSG_DONTWAIT as u64;
        let args = [
            self.socket,
            reply.as_mut_ptr() as u64,
            reply.len() as u64,
            flags,
            0,
            0,
        ];
        let len = self.sys(kernel, libc::SYS_recvfrom, args, &what)? as usize;
        acknowledged(&reply[..len]).map_err(|(errno, why)| Error::Refused {
            what: what(),
            errno,
            why,
        })
    }

    /// One system call of the task on this process's memory. Every pointer in `args` must be valid.
    pub(crate) fn sys(
        &self,
        kernel: &mut Kernel,
        nr: i64,
        args: [u64; 6],
        what: impl Fn() -> String,
    ) -> Result<u64, Error> {
        let result = self.raw(kernel, nr, args)?;
        u64::try_from(result).map_err(|_| Error::Refused {
            what: what(),
            errno: -result as i32,
            why: String::new(),
        })
    }

    /// The same, with the kernel's result: `-errno` on failure.
    pub(crate) fn raw(
        &self,
        kernel: &mut Kernel,
        nr: i64,
        args: [u64; 6],
    ) -> Result<i64, vink_kernel::Error> {
        kernel.call(self.task, nr, args)
    }
}

/// `struct ifreq` of netdevice(7): a name, and a union that begins with an index or a pointer.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    value: [u64; 3],
}

impl InterfaceRequest {
    /// For this interface. A name that is too long is cut off, and so not found.
    fn new(name: &str) -> InterfaceRequest {
        let mut request = InterfaceRequest {
            name: [0; libc::IFNAMSIZ],
            value: [0; 3],
        };
        let n = name.len().min(libc::IFNAMSIZ - 1);
        request.name[..n].copy_from_slice(&name.as_bytes()[..n]);
        request
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.name)
            .trim_end_matches('\0')
            .to_owned()
    }
}

/// The `AF_*` and the bytes of an address, in network order.
pub(crate) fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(a) => (libc::AF_INET as u8, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6 as u8, a.octets().to_vec()),
    }
}
