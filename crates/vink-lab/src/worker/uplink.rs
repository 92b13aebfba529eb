//! Uplinks of the wires of a lab worker.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use vink_kernel::{EndId, WireId};
use vink_port::{Keys, SealedBackend};
use vink_spec::{ShareGrant, Uplink};

use super::lab::{refused, About, Descriptors, EndName, Lab, WorkerError};
use crate::route::StaticRoute;
use crate::uplink::{
    share, Forward, Half, LinkState, Passt, PortKeeper, Route, TcBridge, UplinkEnd,
};
use crate::Error;
use vink_protocol::{Answer, Event, UplinkTarget};

/// The uplinks of a worker.
#[derive(Default)]
pub(super) struct Uplinks {
    /// Made with the first uplink.
    tc_bridge: Option<TcBridge>,
    /// The wires that have one.
    wires: Vec<String>,
}

/// The uplink of one wire.
pub(super) struct AttachedUplink {
    pub(super) end: EndId,
    attached: UplinkEnd,
    source: Option<AddressSource>,
    /// The interface that has got addresses, and which.
    guest: Option<EndName>,
    given: Vec<IpNet>,
    /// There if these are the host's, too.
    keeper: Option<PortKeeper>,
    /// The error that was last reported.
    reported: Option<String>,
}

/// Where a guest has its addresses from.
enum AddressSource {
    Passt(Passt),
    /// The host has them, too; and the socket by which its driver is asked for ports.
    Host(ShareGrant, Option<OwnedFd>),
}

impl AttachedUplink {
    /// Datagrams that were dropped since they are none of the other side's.
    pub(super) fn rejected(&self) -> u64 {
        self.attached.attachment.state().rejected
    }

    /// Why no frames get through.
    pub(super) fn error(&self) -> Option<String> {
        match &self.attached.attachment.state().link {
            LinkState::Up => None,
            LinkState::Down(why) | LinkState::Ended(why) => Some(why.clone()),
        }
    }
}

impl Lab {
    pub(super) fn uplink(
        &mut self,
        name: &str,
        target: UplinkTarget,
        descriptors: &mut Descriptors,
    ) -> Result<Answer, WorkerError> {
        // Descriptors are taken from the message even if this fails.
        let half: Vec<OwnedFd> = descriptors.take(target.descriptors()).collect();
        let wire = self.wire(name)?;
        let id = wire.id;
        if wire.uplink.is_some() {
            return Err(refused(format!("wire {name}: it has an uplink already")));
        }
        let needs_bridge = matches!(target, UplinkTarget::Uplink(_) | UplinkTarget::Host { .. });
        if self.uplinks.tc_bridge.is_none() && needs_bridge {
            let tc_bridge = TcBridge::new(self.worker.kernel())?;
            self.uplinks.tc_bridge = Some(tc_bridge);
        }
        let attached = self.join(id, target, half);
        let attached = attached.about(format!("wire {name}"))?;
        let gives_addresses = attached.source.is_some();
        self.wire_mut(name)?.uplink = Some(attached);
        self.uplinks.wires.push(name.to_owned());
        for end_name in self.wire(name)?.ends.clone() {
            self.limit_gso(&end_name);
        }
        if !gives_addresses {
            return Ok(Answer::Nothing);
        }
        let configured = self.configure_guest(name);
        if configured.is_err() {
            self.remove_uplink(name)?;
        }
        Ok(configured?.map_or(Answer::Nothing, |route| Answer::Route {
            addresses: networks(&route),
            resolver: route.resolver,
        }))
    }

    fn join(
        &mut self,
        wire: WireId,
        target: UplinkTarget,
        half: Vec<OwnedFd>,
    ) -> Result<AttachedUplink, WorkerError> {
        let worker = &mut self.worker;
        let tc_bridge = || {
            let tc_bridge = self.uplinks.tc_bridge.as_ref();
            tc_bridge.ok_or(refused("there is no machine for uplinks"))
        };
        let mut source = None;
        let attached = match target {
            UplinkTarget::Worker => {
                let half: [OwnedFd; 3] = half
                    .try_into()
                    .map_err(|_| refused("three descriptors belong to a wire between workers"))?;
                UplinkEnd::of_half(worker, wire, Half::from_descriptors(half))?
            }
            UplinkTarget::Driver { share } => {
                let mut half = half.into_iter();
                let socket = half.next();
                source = share.map(|grant| AddressSource::Host(grant, half.next()));
                let socket = socket.ok_or(refused("a socket belongs to a wire's driver"))?;
                UplinkEnd::of_driver(worker, wire, socket)?
            }
            UplinkTarget::Host { peer, keys } => {
                let socket = half.into_iter().next();
                let socket = socket.ok_or(refused("a socket belongs to a wire to another host"))?;
                let keys = Keys {
                    send: keys.send,
                    receive: keys.receive,
                };
                let backend = SealedBackend::new(socket, peer, &keys)
                    .map_err(|error| refused(format!("a wire to another host: {error}")))?;
                tc_bridge()?.attach_backend(worker, wire, Box::new(backend))?
            }
            UplinkTarget::Uplink(Uplink::Passt { publish }) => {
                let forwards: Result<Vec<Forward>, _> =
                    publish.iter().map(|text| text.parse()).collect();
                let mut started = Passt::start(&forwards?)?;
                let end = started.attach_to_wire(worker, tc_bridge()?, wire)?;
                if let Err(error) = started.wait() {
                    end.detach(worker)?;
                    return Err(error.into());
                }
                source = Some(AddressSource::Passt(started));
                end
            }
            UplinkTarget::Uplink(other) => tc_bridge()?.attach(worker, wire, &other)?,
        };
        Ok(AttachedUplink {
            end: attached.end,
            attached,
            source,
            guest: None,
            given: Vec::new(),
            keeper: None,
            reported: None,
        })
    }

    /// Limits GSO on an interface whose wire has an uplink.
    pub(super) fn limit_gso(&mut self, end_name: &EndName) {
        if let Some(entry) = self.machines.get(&end_name.machine) {
            let network = entry.machine.network;
            // Slower, and nothing else, where a program has removed or renamed it.
            let _ = network.limit_gso(self.worker.kernel(), &end_name.interface);
        }
    }

    pub(super) fn remove_uplink(&mut self, name: &str) -> Result<(), WorkerError> {
        let attached = self.wire_mut(name)?.uplink.take();
        let attached = attached
            .ok_or_else(|| refused(format!("wire {name}: it has no uplink to be removed")))?;
        self.uplinks.wires.retain(|wire| wire != name);
        self.forget_end_of_feeds(attached.end);
        attached.attached.detach(&mut self.worker)?;
        if let Some(keeper) = attached.keeper {
            keeper.end(&mut self.worker);
        }
        match &attached.guest {
            Some(guest) => {
                if let Some(AddressSource::Host(..)) = attached.source {
                    let network = self.machine(&guest.machine)?.machine.network;
                    let kernel = self.worker.kernel();
                    share::unconfigure(kernel, &network, &guest.interface, &attached.given)?;
                }
                self.unconfigure_guest(guest, &attached.given)
            }
            None => Ok(()),
        }
    }

    /// Removes the addresses that a machine has got, and its default routes.
    fn unconfigure_guest(&mut self, guest: &EndName, given: &[IpNet]) -> Result<(), WorkerError> {
        let interface = &guest.interface;
        let network = self.machine(&guest.machine)?.machine.network;
        for address in given {
            let all = match address {
                IpNet::V4(_) => IpNet::new(Ipv4Addr::UNSPECIFIED.into(), 0),
                IpNet::V6(_) => IpNet::new(Ipv6Addr::UNSPECIFIED.into(), 0),
            };
            let route = StaticRoute {
                to: all.expect("no bits are a prefix"),
                via: None,
                dev: Some(interface),
                metric: None,
                mtu: None,
            };
            let kernel = self.worker.kernel();
            for taken in [
                network.change_route(kernel, &route, true),
                network.remove_address(kernel, interface, *address),
            ] {
                match taken {
                    Ok(()) | Err(Error::Refused { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.machine_mut(&guest.machine)?.disown(interface, given);
        Ok(())
    }

    /// Gives the machine at the first end addresses and routes, if the uplink has such, and no guest
    /// yet.
    pub(super) fn configure_guest(&mut self, name: &str) -> Result<Option<Route>, WorkerError> {
        let wire = self.wire(name)?;
        let Some(end_name) = wire.ends.first().cloned() else {
            return Ok(None);
        };
        let machine = self.machine(&end_name.machine)?.machine.clone();
        let Some(attached) = self.wires.get_mut(name).and_then(|w| w.uplink.as_mut()) else {
            return Ok(None);
        };
        let Some(source) = attached
            .source
            .as_ref()
            .filter(|_| attached.guest.is_none())
        else {
            return Ok(None);
        };
        let (kernel, interface) = (self.worker.kernel(), &end_name.interface);
        let route = match source {
            AddressSource::Passt(passt) => passt.configure(kernel, &machine, interface),
            AddressSource::Host(grant, _) => share::configure(kernel, &machine, interface, grant),
        };
        let route = route.about(format!("wire {name}: addresses for {end_name}"))?;
        if let AddressSource::Host(grant, ports) = source {
            let clone = ports.as_ref().map(OwnedFd::try_clone).transpose();
            let ports = clone.map_err(|error| refused(format!("wire {name}: {error}")))?;
            let (worker, what) = (&mut self.worker, format!("wire {name}"));
            let keeper = PortKeeper::new(worker, &machine, interface, &what, grant, ports);
            attached.keeper = Some(keeper.about(what.clone())?);
        }
        attached.guest = Some(end_name.clone());
        attached.given = networks(&route);
        let machine = self.machine_mut(&end_name.machine)?;
        machine.adopt(&end_name.interface, &networks(&route), &route.resolver);
        Ok(Some(route))
    }

    /// An end of the wire is detached: the uplink may have another guest.
    pub(super) fn lose_guest(&mut self, name: &str, end_name: &EndName) {
        let wire = self.wires.get_mut(name);
        if let Some(attached) = wire.and_then(|wire| wire.uplink.as_mut()) {
            let lost = attached.guest.take_if(|guest| guest == end_name);
            if let Some(keeper) = lost.and_then(|_| attached.keeper.take()) {
                keeper.end(&mut self.worker);
            }
        }
    }

    /// Reports uplinks that have failed, and those that work again.
    pub(super) fn look_after_uplinks(&mut self) {
        for name in &self.uplinks.wires {
            let wire = self.wires.get_mut(name);
            let Some(attached) = wire.and_then(|wire| wire.uplink.as_mut()) else {
                continue;
            };
            let error = attached.error();
            if error != attached.reported {
                attached.reported.clone_from(&error);
                let wire = name.clone();
                self.events.push(Event::Uplink { wire, error });
            }
        }
    }
}

/// The addresses in the protocol's form.
fn networks(route: &Route) -> Vec<IpNet> {
    let networks = route.addresses.iter();
    let known = networks.map(|network| IpNet::new(network.address, network.prefix));
    known
        .map(|network| network.expect("a prefix that fits"))
        .collect()
}
