//! Wires of a lab worker to the outside.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use vink_kernel::{EndId, WireId};
use vink_spec::Uplink;

use super::lab::{refused, About, Descriptors, Lab, Place, Trouble};
use super::protocol::{Answer, Event, Outside};
use crate::route::StaticRoute;
use crate::uplink::{Backstage, Forward, Half, Line, OutsideEnd, Passt, Route};
use crate::Error;

/// What all uplinks of a worker have in common.
#[derive(Default)]
pub(super) struct Outdoors {
    /// From the first uplink on.
    backstage: Option<Backstage>,
    /// The wires that have one.
    wires: Vec<String>,
}

/// A wire's end outside.
pub(super) struct Joined {
    pub(super) end: EndId,
    /// Until it is taken off.
    outside: OutsideEnd,
    passt: Option<Passt>,
    /// Whom passt leads to, and the addresses that it gave.
    guest: Option<Place>,
    given: Vec<IpNet>,
    /// What is wrong with it, as it was told last.
    told: Option<String>,
}

impl Joined {
    /// What is wrong with it.
    pub(super) fn error(&self) -> Option<String> {
        match &self.outside.outside.state().line {
            Line::Up => None,
            Line::Down(why) | Line::Ended(why) => Some(why.clone()),
        }
    }
}

impl Lab {
    pub(super) fn uplink(
        &mut self,
        name: &str,
        outside: Outside,
        descriptors: &mut Descriptors,
    ) -> Result<Answer, Trouble> {
        // They are taken whatever becomes of it.
        let half: Vec<OwnedFd> = match outside {
            Outside::Worker => descriptors.take(3).collect(),
            Outside::Uplink(_) => Vec::new(),
        };
        let wire = self.wire(name)?;
        let id = wire.id;
        if wire.uplink.is_some() {
            return Err(refused(format!("wire {name}: it has an uplink already")));
        }
        let is_worker = matches!(outside, Outside::Worker);
        if self.outdoors.backstage.is_none() && !is_worker {
            let backstage = Backstage::new(self.worker.kernel())?;
            self.outdoors.backstage = Some(backstage);
        }
        let joined = self.join(id, outside, half);
        let joined = joined.about(format!("wire {name}"))?;
        let is_passt = joined.passt.is_some();
        self.wire_mut(name)?.uplink = Some(joined);
        self.outdoors.wires.push(name.to_owned());
        for place in self.wire(name)?.ends.clone() {
            self.moderate(&place);
        }
        if !is_passt {
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
        outside: Outside,
        half: Vec<OwnedFd>,
    ) -> Result<Joined, Trouble> {
        let worker = &mut self.worker;
        let backstage = || {
            let backstage = self.outdoors.backstage.as_ref();
            backstage.ok_or(refused("there is no machine for uplinks"))
        };
        let mut passt = None;
        let outside = match outside {
            Outside::Worker => {
                let half: [OwnedFd; 3] = half
                    .try_into()
                    .map_err(|_| refused("three descriptors belong to a wire between workers"))?;
                OutsideEnd::of_half(worker, wire, Half::from_descriptors(half))?
            }
            Outside::Uplink(Uplink::Passt { publish }) => {
                let forwards: Result<Vec<Forward>, _> =
                    publish.iter().map(|text| text.parse()).collect();
                let mut started = Passt::start(&forwards?)?;
                let end = started.attach_to_wire(worker, backstage()?, wire)?;
                if let Err(error) = started.wait() {
                    end.detach(worker)?;
                    return Err(error.into());
                }
                passt = Some(started);
                end
            }
            Outside::Uplink(other) => backstage()?.attach(worker, wire, &other)?,
        };
        Ok(Joined {
            end: outside.end,
            outside,
            passt,
            guest: None,
            given: Vec::new(),
            told: None,
        })
    }

    /// An interface of a wire that leads outside: what it sends is to get through whole.
    pub(super) fn moderate(&mut self, place: &Place) {
        if let Some(inhabited) = self.machines.get(&place.machine) {
            let admin = inhabited.machine.admin;
            // Slower, and nothing else, where a program has removed or renamed it.
            let _ = admin.moderate(self.worker.kernel(), &place.interface);
        }
    }

    pub(super) fn remove_uplink(&mut self, name: &str) -> Result<(), Trouble> {
        let joined = self.wire_mut(name)?.uplink.take();
        let joined = joined
            .ok_or_else(|| refused(format!("wire {name}: it has no uplink to be removed")))?;
        self.outdoors.wires.retain(|wire| wire != name);
        joined.outside.detach(&mut self.worker)?;
        match &joined.guest {
            Some(guest) => self.strip(guest, &joined.given),
            None => Ok(()),
        }
    }

    /// Takes back what passt gave a machine, as far as it is there yet.
    fn strip(&mut self, guest: &Place, given: &[IpNet]) -> Result<(), Trouble> {
        let interface = &guest.interface;
        let admin = self.machine(&guest.machine)?.machine.admin;
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
            };
            let kernel = self.worker.kernel();
            for taken in [
                admin.change_route(kernel, &route, true),
                admin.remove_address(kernel, interface, *address),
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

    /// If passt is at this wire and leads to nobody yet: the first end's machine gets its addresses and routes.
    pub(super) fn configure_guest(&mut self, name: &str) -> Result<Option<Route>, Trouble> {
        let wire = self.wire(name)?;
        let Some(place) = wire.ends.first().cloned() else {
            return Ok(None);
        };
        let machine = self.machine(&place.machine)?.machine.clone();
        let Some(joined) = self.wires.get_mut(name).and_then(|w| w.uplink.as_mut()) else {
            return Ok(None);
        };
        let Some(passt) = joined.passt.as_ref().filter(|_| joined.guest.is_none()) else {
            return Ok(None);
        };
        let kernel = self.worker.kernel();
        let route = passt.configure(kernel, &machine, &place.interface);
        let route = route.about(format!("wire {name}: passt for {place}"))?;
        joined.guest = Some(place.clone());
        joined.given = networks(&route);
        let machine = self.machine_mut(&place.machine)?;
        machine.adopt(&place.interface, &networks(&route), &route.resolver);
        Ok(Some(route))
    }

    /// An end of the wire has gone: passt may lead to another one.
    pub(super) fn lose_guest(&mut self, name: &str, place: &Place) {
        let wire = self.wires.get_mut(name);
        if let Some(joined) = wire.and_then(|wire| wire.uplink.as_mut()) {
            joined.guest.take_if(|guest| guest == place);
        }
    }

    /// Tells what has failed, and what works again.
    pub(super) fn look_after_uplinks(&mut self) {
        for name in &self.outdoors.wires {
            let wire = self.wires.get_mut(name);
            let Some(joined) = wire.and_then(|wire| wire.uplink.as_mut()) else {
                continue;
            };
            let error = joined.error();
            if error != joined.told {
                joined.told.clone_from(&error);
                let wire = name.clone();
                self.events.push(Event::Uplink { wire, error });
            }
        }
    }
}

/// As the protocol has them.
fn networks(route: &Route) -> Vec<IpNet> {
    let networks = route.addresses.iter();
    let known = networks.map(|network| IpNet::new(network.address, network.prefix));
    known
        .map(|network| network.expect("a prefix that fits"))
        .collect()
}
