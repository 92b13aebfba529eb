//! Wires of a lab worker, and the interfaces at them.

use vink_kernel::{Attachment, Kernel, Loss, WireId, WireKind, WireSettings};
use vink_spec::Settings;

use super::lab::{refused, About, EndName, Lab, WorkerError};
use super::machine::{Interface, WireRef};
use super::uplink::AttachedUplink;
use crate::{Error, Machine};
use vink_protocol::NewInterface;

/// The default limit of packets under way at an end.
const LIMIT: u32 = 1000;

/// A wire of the lab's.
pub(super) struct Wire {
    pub(super) id: WireId,
    pub(super) up: bool,
    /// In the order in which they came.
    pub(super) ends: Vec<EndName>,
    pub(super) uplink: Option<AttachedUplink>,
}

impl Lab {
    pub(super) fn wire(&self, name: &str) -> Result<&Wire, WorkerError> {
        self.wires.get(name).ok_or_else(|| no_wire(name))
    }

    pub(super) fn wire_mut(&mut self, name: &str) -> Result<&mut Wire, WorkerError> {
        self.wires.get_mut(name).ok_or_else(|| no_wire(name))
    }

    pub(super) fn new_wire(&mut self, name: String, bus: bool) -> Result<(), WorkerError> {
        if self.wires.contains_key(&name) {
            return Err(refused(format!("wire {name}: there is one already")));
        }
        let kind = match bus {
            true => WireKind::Bus,
            false => WireKind::PointToPoint,
        };
        let id = self
            .worker
            .kernel()
            .wire(kind)
            .about(format!("wire {name}"))?;
        let wire = Wire {
            id,
            up: true,
            ends: Vec::new(),
            uplink: None,
        };
        self.wires.insert(name, wire);
        Ok(())
    }

    pub(super) fn remove_wire(&mut self, name: &str) -> Result<(), WorkerError> {
        if self.wire(name)?.uplink.is_some() {
            self.remove_uplink(name)?;
        }
        for end_name in self.wire(name)?.ends.clone() {
            self.detach(&end_name.machine, &end_name.interface)?;
        }
        let id = self.wire(name)?.id;
        self.worker.kernel().destroy_wire(id)?;
        self.wires.remove(name);
        Ok(())
    }

    pub(super) fn attach(&mut self, new: NewInterface) -> Result<(), WorkerError> {
        let end_name = EndName {
            machine: new.machine.clone(),
            interface: new.interface.clone(),
        };
        let machine = self.machine(&new.machine)?.machine.clone();
        let wire = match &new.wire {
            Some(name) => WireRef::Lab(name.clone()),
            None => {
                let kernel = self.worker.kernel();
                let wire = kernel.wire(WireKind::PointToPoint)?;
                kernel.wire_up(wire, false)?;
                WireRef::Private(wire)
            }
        };
        let id = match &wire {
            WireRef::Lab(name) => self.wire(name)?.id,
            WireRef::Private(id) => *id,
        };
        let kernel = self.worker.kernel();
        let attachment = Attachment {
            interface: &new.interface,
            address: Some(new.mac),
            mtu: Some(new.mtu),
        };
        let end = match kernel.attach(id, machine.id, attachment) {
            Ok(end) => match configure(kernel, &machine, &new) {
                Ok(()) => Ok(end),
                Err(error) => {
                    kernel.detach(end)?;
                    Err(error.into())
                }
            },
            Err(error) => Err(attach_error(error, &new)),
        };
        let end = match end {
            Ok(end) => end,
            Err(error) => {
                if let WireRef::Private(id) = wire {
                    kernel.destroy_wire(id)?;
                }
                return Err(error.about(&end_name));
            }
        };
        if let WireRef::Lab(name) = &wire {
            self.wire_mut(name)?.ends.push(end_name.clone());
        }
        let interface = Interface::new(end, wire, new.addresses);
        let machine = self.machine_mut(&end_name.machine)?;
        machine
            .interfaces
            .insert(end_name.interface.clone(), interface);
        machine.moved();
        self.end_names.insert(end, end_name.clone());
        if self.journal.is_some() {
            self.trace(end)?;
        }
        self.breakpoints_at_new_end(end)?;
        let wire = new.wire.as_ref().and_then(|name| self.wires.get(name));
        if wire.is_some_and(|wire| wire.uplink.is_some()) {
            self.limit_gso(&end_name);
        }
        let guest = match &new.wire {
            Some(wire) => self.configure_guest(wire).map(drop),
            None => Ok(()),
        };
        if guest.is_err() {
            self.detach(&end_name.machine, &end_name.interface)?;
        }
        guest
    }

    pub(super) fn detach(&mut self, machine: &str, interface: &str) -> Result<(), WorkerError> {
        let end_name = EndName {
            machine: machine.to_owned(),
            interface: interface.to_owned(),
        };
        let end = self.interface(&end_name)?.end;
        self.forget_end_of_captures(end)?;
        self.forget_end_of_feeds(end);
        self.forget_end_of_breakpoints(end);
        let kernel = self.worker.kernel();
        match kernel.detach(end) {
            // A program may have removed it.
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => {}
            Err(error) => return Err(error.into()),
        }
        self.end_names.remove(&end);
        let entry = self.machine_mut(machine)?;
        let gone = entry.interfaces.remove(interface);
        entry.moved();
        match gone.map(|interface| interface.wire) {
            Some(WireRef::Lab(wire)) => {
                self.wire_mut(&wire)?.ends.retain(|end| *end != end_name);
                self.lose_guest(&wire, &end_name);
            }
            Some(WireRef::Private(wire)) => self.worker.kernel().destroy_wire(wire)?,
            None => {}
        }
        Ok(())
    }

    pub(super) fn set_wire(
        &mut self,
        name: &str,
        end: Option<&str>,
        settings: &Settings,
    ) -> Result<(), WorkerError> {
        let wire = self.wire(name)?;
        let id = wire.id;
        let end = match end {
            None => None,
            Some("outside") => Some(wire.uplink.as_ref().map(|up| up.end).ok_or_else(|| {
                refused(format!("wire {name}: it has no uplink, so no end outside"))
            })?),
            Some(end_name) => {
                let end_name = EndName::parse(end_name)?;
                if !wire.ends.contains(&end_name) {
                    return Err(refused(format!("wire {name}: {end_name} is no end of it")));
                }
                Some(self.interface(&end_name)?.end)
            }
        };
        let kernel = self.worker.kernel();
        kernel
            .set_wire(id, end, &wire_settings(settings))
            .about(format!("wire {name}"))
    }

    pub(super) fn plug(&mut self, name: &str, up: bool) -> Result<(), WorkerError> {
        let id = self.wire(name)?.id;
        self.worker.kernel().wire_up(id, up)?;
        self.wire_mut(name)?.up = up;
        Ok(())
    }
}

/// Gives a new interface its addresses and sets it up.
fn configure(kernel: &mut Kernel, machine: &Machine, new: &NewInterface) -> Result<(), Error> {
    let network = machine.network;
    for address in &new.addresses {
        network.address(kernel, &new.interface, address.addr(), address.prefix_len())?;
    }
    network.up(kernel, &new.interface)
}

/// What the kernel means by refusing an interface.
fn attach_error(error: vink_kernel::Error, new: &NewInterface) -> WorkerError {
    let vink_kernel::Error::Errno { errno, .. } = error else {
        return error.into();
    };
    let wire = new.wire.as_deref().unwrap_or_default();
    match errno {
        libc::EBUSY => refused(format!(
            "wire {wire} has two ends already; one of more ends is a bus (`bus: true`)"
        )),
        libc::EEXIST => refused("the machine has an interface of this name"),
        libc::EINVAL => refused(format!(
            "the kernel refuses its name (1 to 15 bytes), its Ethernet address ({:02x?}) or its MTU ({})",
            new.mac, new.mtu
        )),
        _ => error.into(),
    }
}

/// A lab's settings in the kernel's terms. Nothing named is an ideal wire.
pub fn wire_settings(s: &Settings) -> WireSettings {
    let share = |share: Option<vink_spec::Share>| share.map_or(0.0, |share| share.0);
    let span = |span: Option<vink_spec::Span>| span.map_or_else(Default::default, |s| s.duration());
    let loss = match &s.burst {
        Some(burst) => Loss::Bursts {
            to_bad: burst.start.0,
            to_good: burst.end.0,
            loss_bad: burst.loss.0,
            loss_good: burst.good_loss.0,
        },
        None => Loss::Random(share(s.loss)),
    };
    let settings = WireSettings {
        rate: s.rate.map_or(0, |rate| rate.0),
        delay: span(s.delay),
        jitter: span(s.jitter),
        overtake: s.overtake.unwrap_or_default(),
        loss,
        corrupt: share(s.corrupt),
        duplicate: share(s.duplicate),
        reorder: share(s.reorder),
        gap: 0,
        limit: s.limit.unwrap_or_default(),
        mtu: s.mtu.unwrap_or_default(),
    };
    if settings == WireSettings::default() {
        return settings;
    }
    WireSettings {
        limit: s.limit.unwrap_or(LIMIT),
        ..settings
    }
}

fn no_wire(name: &str) -> WorkerError {
    refused(format!(
        "wire {name}: there is no such wire; `vink wire ls` lists them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_spec::{Burst, Rate, Share, Span};

    #[test]
    fn settings() {
        assert_eq!(wire_settings(&Settings::default()), WireSettings::default());
        let zero = Settings {
            rate: Some(Rate(0)),
            loss: Some(Share(0.0)),
            delay: Some(Span(0)),
            ..Settings::default()
        };
        assert_eq!(wire_settings(&zero), WireSettings::default());
        let some = wire_settings(&Settings {
            rate: Some(Rate(1_000_000)),
            delay: Some(Span(5_000_000)),
            loss: Some(Share(0.5)),
            burst: Some(Burst {
                start: Share(0.1),
                end: Share(0.2),
                loss: Share(1.0),
                good_loss: Share(0.0),
            }),
            ..Settings::default()
        });
        assert_eq!(
            (some.rate, some.delay.as_millis(), some.limit),
            (1_000_000, 5, LIMIT)
        );
        let bursts = Loss::Bursts {
            to_bad: 0.1,
            to_good: 0.2,
            loss_bad: 1.0,
            loss_good: 0.0,
        };
        assert_eq!(some.loss, bursts);
        let limited = Settings {
            limit: Some(7),
            ..Settings::default()
        };
        assert_eq!(wire_settings(&limited).limit, 7);
    }
}
