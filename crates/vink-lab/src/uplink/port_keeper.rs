//! The ports of a machine that has the host's address: which its programs may bind, and those that are
//! had on demand, as long as a socket has them.
//!
//! Before bind(2) the driver process is asked for the port ([`PortAsker`]). Whether a socket still has
//! it is found out by binding it: every half a second a socket that shares with no other one is bound
//! to each port on demand. If that succeeds, the port is given up. So one is also kept for connections
//! that are still to be closed, as on any host.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use vink_kernel::{Device, DeviceId, Interest, Kernel, TaskId};
use vink_port::{Asked, Poll, PortAsker, Timer, INPUT};
use vink_spec::{ShareGrant, TransportPort};
use vink_trap::{set_port_policy, PortPolicy, Worker};

use crate::{Error, Machine, NetworkConfig};

/// How often it is looked whether ports are still bound.
const PERIOD: Duration = Duration::from_millis(500);
/// Ports whose refusal is told of.
const MOST_TOLD: usize = 16;

/// What a machine has of the host's ports.
struct Keeper {
    /// What the uplink is called.
    name: String,
    interface: String,
    grant: ShareGrant,
    network: NetworkConfig,
    has_v6: bool,
    /// There if ports are had on demand.
    asker: Option<PortAsker>,
    timer: Timer,
    /// Ports had on demand; false: bound since it was last looked.
    held: BTreeMap<TransportPort, bool>,
    told: BTreeSet<TransportPort>,
}

/// Keeps them until it is dropped with [`PortKeeper::end`].
pub struct PortKeeper {
    machine: Machine,
    device: DeviceId,
}

impl PortKeeper {
    /// Has a machine's programs bind what it has of the host's ports; `ports` is the driver's socket.
    ///
    /// # Errors
    /// [`Error::Uplink`]: the host is out of descriptors. [`Error::Kernel`].
    pub fn new(
        worker: &mut Worker,
        machine: &Machine,
        interface: &str,
        name: &str,
        grant: &ShareGrant,
        ports: Option<OwnedFd>,
    ) -> Result<PortKeeper, Error> {
        let failed = |error| Error::Uplink(format!("the ports of {name}: {error}"));
        let (poll, timer) = (Poll::new().map_err(failed)?, Timer::new().map_err(failed)?);
        let asker = ports.map(PortAsker::new);
        poll.add(&timer, INPUT).map_err(failed)?;
        if let Some(asker) = &asker {
            poll.add(asker, INPUT).map_err(failed)?;
        }
        let keeper = Rc::new(RefCell::new(Keeper {
            name: name.to_owned(),
            interface: interface.to_owned(),
            grant: grant.clone(),
            network: machine.network,
            has_v6: machine.network.has_ipv6(worker.kernel())?,
            asker,
            timer,
            held: BTreeMap::new(),
            told: BTreeSet::new(),
        }));
        let device = worker.attach_device(Box::new(KeeperDevice {
            poll,
            keeper: keeper.clone(),
        }))?;
        set_port_policy(worker, machine.id, Some(keeper));
        Ok(PortKeeper {
            machine: machine.clone(),
            device,
        })
    }

    /// Has programs bind as they like again. The ports go with the driver.
    pub fn end(self, worker: &mut Worker) {
        set_port_policy(worker, self.machine.id, None);
        worker.detach_device(self.device);
    }
}

impl Keeper {
    /// Whether an address is one of those that other stacks have, too.
    fn is_shared(&self, address: IpAddr) -> bool {
        address.is_unspecified() || self.grant.addresses.contains(&address)
    }

    /// Whether the machine is elsewhere, too: then a port at all of its addresses is of use.
    fn has_other_interfaces(&self, kernel: &mut Kernel) -> Result<bool, Error> {
        let text = self.network.read_if_there(kernel, "/proc/net/dev")?;
        let names = text
            .lines()
            .skip(2)
            .filter_map(|line| line.split(':').next());
        let mut others = names.map(str::trim);
        Ok(others.any(|name| name != "lo" && name != self.interface))
    }

    fn tell(&mut self, port: TransportPort, why: &str) {
        if self.told.len() < MOST_TOLD && self.told.insert(port) {
            eprintln!(
                "vink: {}: a program does not get port {port}: {why}",
                self.name
            );
        }
    }

    /// Asks for a port.
    fn demand(&mut self, port: TransportPort) -> Result<(), i32> {
        if let Some(looked) = self.held.get_mut(&port) {
            *looked = false;
            return Ok(());
        }
        let Some(asker) = &self.asker else {
            return Ok(());
        };
        let mut said = Vec::new();
        let asked = asker.reserve(port.udp, port.number, |other| said.push(other));
        for other in said {
            self.heard(other);
        }
        let why = match asked {
            Ok(()) => {
                self.hold(port);
                return Ok(());
            }
            Err(why) => why,
        };
        match why {
            libc::ENOBUFS => {
                self.tell(port, "it has as many as can be had on demand");
                Err(libc::EADDRINUSE)
            }
            libc::EADDRINUSE | libc::EACCES => Err(why),
            libc::ENETDOWN => {
                self.tell(port, "the uplink's driver process does not answer");
                Err(libc::EADDRNOTAVAIL)
            }
            other => {
                let error = std::io::Error::from_raw_os_error(other);
                self.tell(port, &error.to_string());
                Err(libc::EADDRNOTAVAIL)
            }
        }
    }

    fn hold(&mut self, port: TransportPort) {
        self.held.insert(port, false);
        // Fails for no valid period.
        let _ = self.timer.every(PERIOD);
    }

    /// The driver has said something that was not waited for.
    fn heard(&mut self, what: Asked) {
        match what {
            Asked::Other => {}
            Asked::Late(udp, number) => {
                let port = TransportPort { number, udp };
                if let (false, Some(asker)) = (self.held.contains_key(&port), &self.asker) {
                    asker.release(udp, number);
                }
            }
            Asked::Anew => {
                for port in std::mem::take(&mut self.held).into_keys() {
                    // Else the host has it meanwhile, which is told of.
                    if let Err(number) = self.demand(port) {
                        let error = std::io::Error::from_raw_os_error(number);
                        self.tell(
                            port,
                            &format!("a new driver process can't reserve it: {error}"),
                        );
                    }
                }
            }
        }
    }

    /// Gives up what no socket has.
    fn look(&mut self, kernel: &mut Kernel) -> Result<(), vink_kernel::Error> {
        let mut free = Vec::new();
        for (port, looked) in &mut self.held {
            // What was asked for just now may not be bound yet.
            if std::mem::replace(looked, true)
                && is_free(kernel, &self.network, self.has_v6, *port)?
            {
                free.push(*port);
            }
        }
        for port in free {
            self.held.remove(&port);
            if let Some(asker) = &self.asker {
                asker.release(port.udp, port.number);
            }
        }
        if self.held.is_empty() {
            // Fails for no valid period.
            let _ = self.timer.every(Duration::ZERO);
        }
        Ok(())
    }
}

impl PortPolicy for Keeper {
    fn may_bind(
        &mut self,
        kernel: &mut Kernel,
        address: SocketAddr,
        udp: bool,
    ) -> Result<Result<(), i32>, vink_kernel::Error> {
        let number = address.port();
        let port = TransportPort { number, udp };
        if !self.is_shared(address.ip()) || self.grant.has(port) {
            return Ok(Ok(()));
        }
        if self.grant.on_demand {
            return Ok(self.demand(port));
        }
        // What can't be read is not there.
        if address.ip().is_unspecified() && self.has_other_interfaces(kernel).unwrap_or(false) {
            return Ok(Ok(()));
        }
        self.tell(port, "add it to the ports of the uplink, or `on-demand`");
        Ok(Err(libc::EACCES))
    }
}

/// What waits for the driver's words, and for the time to look.
struct KeeperDevice {
    poll: Poll,
    keeper: Rc<RefCell<Keeper>>,
}

impl Device for KeeperDevice {
    fn host(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.poll.as_fd()
    }

    fn file(&self) -> Option<(TaskId, i32)> {
        None
    }

    fn serve(&mut self, kernel: &mut Kernel) -> Result<Interest, vink_kernel::Error> {
        let keeper = &mut *self.keeper.borrow_mut();
        while let Some(what) = keeper.asker.as_ref().and_then(PortAsker::heard) {
            keeper.heard(what);
        }
        if keeper.timer.went_off() {
            keeper.look(kernel)?;
        }
        Ok(Interest::Readable)
    }
}

/// Whether no socket of the machine has a port, at any address.
fn is_free(
    kernel: &mut Kernel,
    network: &NetworkConfig,
    has_v6: bool,
    port: TransportPort,
) -> Result<bool, vink_kernel::Error> {
    let (family, length) = match has_v6 {
        // With IPv4's, since it is of both.
        true => (libc::AF_INET6, size_of::<libc::sockaddr_in6>()),
        false => (libc::AF_INET, size_of::<libc::sockaddr_in>()),
    };
    let kind = match port.udp {
        true => libc::SOCK_DGRAM,
        false => libc::SOCK_STREAM,
    };
    // All zero but for family and port: at any address.
    let mut address = [0u8; size_of::<libc::sockaddr_in6>()];
    address[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&port.number.to_be_bytes());
    let mut call = |nr, args: [u64; 3]| {
        let [a, b, c] = args;
        network.raw(kernel, nr, [a, b, c, 0, 0, 0])
    };
    let kind = (kind | libc::SOCK_CLOEXEC) as u64;
    let socket = call(libc::SYS_socket, [family as u64, kind, 0])?;
    let Ok(socket) = u64::try_from(socket) else {
        return Ok(false);
    };
    let bound = call(
        libc::SYS_bind,
        [socket, address.as_ptr() as u64, length as u64],
    )?;
    call(libc::SYS_close, [socket, 0, 0])?;
    Ok(bound == 0)
}
