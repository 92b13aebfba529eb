//! Routes and addresses as they are added and removed again.

use std::net::IpAddr;

use ipnet::IpNet;
use vink_kernel::Kernel;

use crate::network_config::family_and_bytes;
use crate::{Error, NetworkConfig};
use vink_sys::netlink::Message;

/// A route of the main table.
#[derive(Clone, Copy, Debug)]
pub struct StaticRoute<'a> {
    /// Where to.
    pub to: IpNet,
    /// The next router.
    pub via: Option<IpAddr>,
    /// Through which interface.
    pub dev: Option<&'a str>,
    /// Its metric; none: the kernel's choice.
    pub metric: Option<u32>,
    /// The longest packet that takes it, in bytes.
    pub mtu: Option<u32>,
}

impl NetworkConfig {
    /// As `ip route add` or `ip route del`. A gateway of the other family is one by `via inet6`
    /// (RFC 5549).
    ///
    /// # Errors
    /// As rtnetlink(7): there is no such gateway or interface, or the route is there already.
    pub fn change_route(
        &self,
        kernel: &mut Kernel,
        route: &StaticRoute<'_>,
        remove: bool,
    ) -> Result<(), Error> {
        let what = || {
            let verb = if remove { "removing" } else { "adding" };
            let mut text = format!("{verb} a route to {}", route.to);
            if let Some(via) = route.via {
                text += &format!(" via {via}");
            }
            if let Some(dev) = route.dev {
                text += &format!(" dev {dev}");
            }
            text
        };
        let (kind, flags) = match remove {
            true => (libc::RTM_DELROUTE, 0),
            false => (libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL),
        };
        let (family, to) = family_and_bytes(route.to.network());
        let scope = match route.via {
            _ if remove => libc::RT_SCOPE_NOWHERE,
            None if family == libc::AF_INET as u8 => libc::RT_SCOPE_LINK,
            _ => libc::RT_SCOPE_UNIVERSE,
        };
        let protocol = if remove { 0 } else { libc::RTPROT_STATIC };
        let prefix = route.to.prefix_len();
        let table = libc::RT_TABLE_MAIN;
        let unicast = if remove { 0 } else { libc::RTN_UNICAST };
        // struct rtmsg.
        let body = [
            family, prefix, 0, 0, table, protocol, scope, unicast, 0, 0, 0, 0,
        ];
        let mut message = Message::new(kind, flags, &body);
        if prefix > 0 {
            message = message.attr(libc::RTA_DST, &to);
        }
        if let Some(via) = route.via {
            const RTA_VIA: u16 = 18;
            let (its, bytes) = family_and_bytes(via);
            message = match its == family {
                true => message.attr(libc::RTA_GATEWAY, &bytes),
                false => {
                    // struct rtvia: a family in two bytes, then the address.
                    let mut value = u16::from(its).to_ne_bytes().to_vec();
                    value.extend(bytes);
                    message.attr(RTA_VIA, &value)
                }
            };
        }
        if let Some(dev) = route.dev {
            let index = self.index(kernel, dev)?;
            message = message.attr(libc::RTA_OIF, &index.to_ne_bytes());
        }
        if let Some(metric) = route.metric {
            message = message.attr(libc::RTA_PRIORITY, &metric.to_ne_bytes());
        }
        if let Some(mtu) = route.mtu {
            const RTAX_MTU: u16 = 2;
            let metrics = |m: Message| m.attr(RTAX_MTU, &mtu.to_ne_bytes());
            message = message.nest(libc::RTA_METRICS, metrics);
        }
        let done = self.request(kernel, message, what);
        done.map_err(|error| error.of_address(route.to.network()))
    }

    /// As `ip address del ADDRESS/PREFIX dev NAME`.
    pub(crate) fn remove_address(
        &self,
        kernel: &mut Kernel,
        name: &str,
        address: IpNet,
    ) -> Result<(), Error> {
        let what = || format!("removing {address} from {name}");
        let index = self.index(kernel, name)?;
        let (family, bytes) = family_and_bytes(address.addr());
        // struct ifaddrmsg.
        let mut body = [family, address.prefix_len(), 0, 0, 0, 0, 0, 0];
        body[4..].copy_from_slice(&index.to_ne_bytes());
        let message = Message::new(libc::RTM_DELADDR, 0, &body)
            .attr(libc::IFA_LOCAL, &bytes)
            .attr(libc::IFA_ADDRESS, &bytes);
        self.request(kernel, message, what)
    }
}
