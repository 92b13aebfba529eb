//! Machines that are ready for use, and the wires between them.

use vink_kernel::{Attachment, Kernel, MachineId, WireId, WireKind};

use crate::{Error, Network, NetworkConfig};

/// A listening TCP socket, in /proc/net/tcp.
const LISTEN: &str = "0A";
/// A UDP socket without a peer, in /proc/net/udp.
const NO_PEER: &str = "07";

/// A machine of a kernel with its loopback interface up.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel's number for it.
    pub id: MachineId,
    /// Its host name.
    pub name: String,
    /// Changes its interfaces, routes and sysctls.
    pub network: NetworkConfig,
}

impl Machine {
    /// Makes a machine and sets its loopback interface up. The name has 1 to 64 bytes. Interfaces
    /// that it gets later take their IPv6 addresses into use at once (`accept_dad` is 0): no
    /// other machine on a wire of ours has the same ones.
    pub fn new(kernel: &mut Kernel, name: &str) -> Result<Machine, Error> {
        let id = kernel.machine(name)?;
        let network = NetworkConfig::new(kernel, id)?;
        network.ipv6_sysctl(kernel, "conf/default/accept_dad", "0")?;
        network.loopback(kernel)?;
        Ok(Machine {
            id,
            name: name.to_owned(),
            network,
        })
    }

    /// Lets it forward packets between its interfaces, IPv4 and IPv6: a router.
    pub fn forward(&self, kernel: &mut Kernel) -> Result<(), Error> {
        self.set_forwarding(kernel, true)
    }

    /// Lets it forward packets, or not, IPv4 and IPv6.
    pub(crate) fn set_forwarding(&self, kernel: &mut Kernel, forward: bool) -> Result<(), Error> {
        let value = if forward { "1" } else { "0" };
        self.network.sysctl(kernel, "net/ipv4/ip_forward", value)?;
        self.network
            .ipv6_sysctl(kernel, "conf/all/forwarding", value)
    }

    /// Whether something on it listens on this TCP port.
    pub fn listens(&self, kernel: &mut Kernel, port: u16) -> Result<bool, Error> {
        let mut found = false;
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            found |= has_socket(&self.network.read_if_there(kernel, table)?, port, LISTEN);
        }
        Ok(found)
    }

    /// Whether a UDP socket without a peer is bound to this port.
    pub fn takes_datagrams(&self, kernel: &mut Kernel, port: u16) -> Result<bool, Error> {
        let mut found = false;
        for table in ["/proc/net/udp", "/proc/net/udp6"] {
            found |= has_socket(&self.network.read_if_there(kernel, table)?, port, NO_PEER);
        }
        Ok(found)
    }

    /// Whether something that its programs sent by TCP or SCTP before they closed their sockets
    /// waits to be taken by its receiver.
    pub fn has_unfinished(&self, kernel: &mut Kernel) -> Result<bool, Error> {
        match self.network.read(kernel, "/proc/net/sctp/assocs") {
            Ok(table) if is_shutting_down(&table) => return Ok(true),
            Err(error @ Error::Kernel(_)) => return Err(error),
            // There is none before the first socket of SCTP's.
            _ => {}
        }
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            if has_unfinished(&self.network.read_if_there(kernel, table)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a table of sockets, as in proc_net_tcp.rst, has one that waits for its FIN to be taken:
/// FIN_WAIT1, LAST_ACK, CLOSING.
fn has_unfinished(table: &str) -> bool {
    let states = table.lines().skip(1);
    let mut states = states.filter_map(|line| line.split_whitespace().nth(3));
    states.any(|state| ["04", "09", "0B"].contains(&state))
}

/// Whether a table of SCTP's associations has one that its shutdown is under way for: from
/// `SCTP_STATE_SHUTDOWN_PENDING`, 4, on.
fn is_shutting_down(table: &str) -> bool {
    let states = table.lines().skip(1);
    let mut states = states.filter_map(|line| line.split_whitespace().nth(4)?.parse::<u32>().ok());
    states.any(|state| state >= 4)
}

/// Whether a table as /proc/net/tcp (proc_pid_net(5)) has a socket with the port in this state.
fn has_socket(table: &str, port: u16, state: &str) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        local.ends_with(&suffix) && fields.nth(1) == Some(state)
    })
}

/// One end of a wire: a new interface of a machine, and its addresses.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Whose interface.
    pub machine: &'a Machine,
    /// The interface's name, of at most 15 bytes.
    pub interface: &'a str,
    /// Any number of either family.
    pub addresses: &'a [Network],
}

/// Joins two machines of one kernel by an ideal wire whose both ends are up and can be used at
/// once.
pub fn wire(kernel: &mut Kernel, a: End<'_>, b: End<'_>) -> Result<WireId, Error> {
    let wire = kernel.wire(WireKind::PointToPoint)?;
    let joined = join(kernel, wire, a, b);
    if joined.is_err() {
        kernel.destroy_wire(wire)?;
    }
    joined.map(|()| wire)
}

fn join(kernel: &mut Kernel, wire: WireId, a: End<'_>, b: End<'_>) -> Result<(), Error> {
    for end in [a, b] {
        let interface = end.interface;
        let attachment = Attachment {
            interface,
            ..Attachment::default()
        };
        kernel.attach(wire, end.machine.id, attachment)?;
    }
    // The carrier comes with the second interface that is up. With it they get their link-local
    // addresses, without which no IPv6 would be forwarded.
    for end in [a, b] {
        for network in end.addresses {
            end.machine
                .network
                .address(kernel, end.interface, network.address, network.prefix)?;
        }
        end.machine.network.up(kernel, end.interface)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
            \x20  0: 00000000:1F90 00000000:0000 0A 00000000:00000000\n\
            \x20  1: 0100007F:0050 0200007F:1234 01 00000000:00000000\n";
        assert!(has_socket(table, 8080, LISTEN));
        assert!(!has_socket(table, 80, LISTEN));
        assert!(!has_socket(table, 0x1234, LISTEN));
        assert!(!has_socket("", 80, LISTEN));
    }

    #[test]
    fn unfinished() {
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let line = |state| format!("   0: 0F02000A:A000 0202000A:0007 {state} 00000000:00000000\n");
        for (state, expected) in [
            ("01", false),
            ("04", true),
            ("06", false),
            ("0A", false),
            ("0B", true),
        ] {
            let table = format!("{heading}{}{}", line("07"), line(state));
            assert_eq!(has_unfinished(&table), expected, "{state}");
        }
        assert!(!has_unfinished(""));
    }

    #[test]
    fn shutting_down() {
        let heading = " ASSOC     SOCK   STY SST ST HBKT ASSOC-ID TX_QUEUE RX_QUEUE UID INODE LPORT RPORT LADDRS <-> RADDRS\n";
        let line = |state| {
            format!("c0de c0de 2 10 {state} 0 1 50000 0 0 77 40000 7200 *10.0.0.1 <-> *10.0.0.2\n")
        };
        for (state, expected) in [(3, false), (4, true), (7, true)] {
            let table = format!("{heading}{}{}", line(1), line(state));
            assert_eq!(is_shutting_down(&table), expected, "{state}");
        }
        assert!(!is_shutting_down(""));
    }
}
