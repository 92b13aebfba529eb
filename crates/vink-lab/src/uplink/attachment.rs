//! Attaches a machine's interface to an uplink, and detaches it.

use std::cell::{Ref, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use vink_kernel::{
    Attachment, DeviceHost, DeviceId, EndId, Half, Kernel, TaskId, WireId, WireKind,
};
use vink_port::{Backend, HostTap, PacketBackend, QemuBackend, QemuDgramBackend, UdpBackend};
use vink_spec::Uplink;
use vink_trap::Worker;

use super::device::{UplinkDevice, UplinkState};
use super::shared;
use super::tap::Tap;
use crate::{Error, Machine};

/// An attached uplink. It stays attached when this is dropped, until the worker ends.
#[derive(Debug)]
pub struct UplinkAttachment {
    held: Held,
    device: DeviceId,
    state: Rc<RefCell<UplinkState>>,
}

/// What an attached uplink has in the kernel.
#[derive(Debug)]
enum Held {
    /// The task that has the TAP interface.
    Tap(TaskId),
    /// An end of a wire.
    End(EndId),
    /// ... that has no other purpose.
    Wire(WireId),
}

impl UplinkAttachment {
    /// Makes an interface of a machine, still down, that is attached to what `uplink` names. Of its
    /// MTU is what the backend's is, if it has one.
    ///
    /// # Errors
    /// [`Error::Uplink`]: what was tried, what was found, what to do; that passt is no uplink of this kind
    /// ([`Passt::attach`](super::Passt::attach)). [`Error::Refused`], [`Error::Kernel`], [`Error::Trap`].
    pub fn attach(
        worker: &mut impl DeviceHost,
        machine: &Machine,
        interface: &str,
        uplink: &Uplink,
    ) -> Result<UplinkAttachment, Error> {
        if let Uplink::Wire(path) = uplink {
            return UplinkAttachment::of_own_wire(worker, machine, interface, |worker, wire| {
                shared::meet(worker, wire, path.as_ref())
            });
        }
        UplinkAttachment::attach_backend(worker, machine, interface, open_backend(uplink)?)
    }

    /// Makes an interface of a machine, still down, that is attached to one of another worker's.
    ///
    /// # Errors
    /// As [`UplinkAttachment::attach`].
    pub fn attach_half(
        worker: &mut impl DeviceHost,
        machine: &Machine,
        interface: &str,
        half: Half,
    ) -> Result<UplinkAttachment, Error> {
        UplinkAttachment::of_own_wire(worker, machine, interface, |worker, wire| {
            shared::attach(worker, wire, half)
        })
    }

    /// Makes an interface of a machine, still down, that is attached to the driver process which has
    /// the other end of a socket.
    ///
    /// # Errors
    /// As [`UplinkAttachment::attach`].
    pub fn attach_driver(
        worker: &mut impl DeviceHost,
        machine: &Machine,
        interface: &str,
        socket: OwnedFd,
    ) -> Result<UplinkAttachment, Error> {
        UplinkAttachment::of_own_wire(worker, machine, interface, |worker, wire| {
            shared::meet_driver(worker, wire, socket)
        })
    }

    /// Makes an interface of a machine, still down, that is attached to the process which a broker
    /// ([`vink_port::Broker`]) meets; it has the other end of the socket.
    ///
    /// # Errors
    /// As [`UplinkAttachment::attach`].
    pub fn attach_by_broker(
        worker: &mut impl DeviceHost,
        machine: &Machine,
        interface: &str,
        socket: OwnedFd,
    ) -> Result<UplinkAttachment, Error> {
        UplinkAttachment::of_own_wire(worker, machine, interface, |worker, wire| {
            shared::meet_by_broker(worker, wire, socket)
        })
    }

    /// Makes an interface at a wire of its own, whose other end leads elsewhere.
    fn of_own_wire<S: DeviceHost>(
        worker: &mut S,
        machine: &Machine,
        interface: &str,
        join: impl FnOnce(&mut S, WireId) -> Result<shared::Attached, Error>,
    ) -> Result<UplinkAttachment, Error> {
        let kernel = worker.kernel();
        let wire = kernel.wire(WireKind::PointToPoint)?;
        let attachment = Attachment {
            interface,
            ..Attachment::default()
        };
        let attached = kernel.attach(wire, machine.id, attachment);
        let joined = attached.map_err(Error::from);
        match joined.and_then(|_| join(worker, wire)) {
            Ok((_, device, state)) => Ok(UplinkAttachment {
                held: Held::Wire(wire),
                device,
                state,
            }),
            Err(error) => {
                // What went wrong first is what matters.
                let _ = worker.kernel().destroy_wire(wire);
                Err(error)
            }
        }
    }

    /// A wire's end that leads to another process.
    pub(crate) fn of_end((end, device, state): shared::Attached) -> UplinkAttachment {
        UplinkAttachment {
            held: Held::End(end),
            device,
            state,
        }
    }

    /// Makes an interface of a machine, still down, that is attached to this backend.
    ///
    /// # Errors
    /// As [`UplinkAttachment::attach`].
    pub fn attach_backend(
        worker: &mut impl DeviceHost,
        machine: &Machine,
        interface: &str,
        backend: Box<dyn Backend>,
    ) -> Result<UplinkAttachment, Error> {
        let (network, mtu) = (machine.network, backend.mtu());
        let configure = |kernel: &mut Kernel| network.mtu(kernel, interface, mtu);
        let made = UplinkAttachment::of_machine(worker, machine, interface, backend, configure);
        made.map(|(attachment, ())| attachment)
    }

    /// Makes the interface, still down, and has it configured; then the first frames may pass.
    pub(crate) fn of_machine<T>(
        worker: &mut impl DeviceHost,
        machine: &Machine,
        interface: &str,
        backend: Box<dyn Backend>,
        configure: impl FnOnce(&mut Kernel) -> Result<T, Error>,
    ) -> Result<(UplinkAttachment, T), Error> {
        let tap = Tap::new(worker.kernel(), machine, interface, backend.offloads())?;
        UplinkAttachment::of_tap(worker, tap, backend, configure)
    }

    /// With an interface that is gone if this fails.
    pub(crate) fn of_tap<T>(
        worker: &mut impl DeviceHost,
        tap: Tap,
        backend: Box<dyn Backend>,
        configure: impl FnOnce(&mut Kernel) -> Result<T, Error>,
    ) -> Result<(UplinkAttachment, T), Error> {
        let task = tap.task;
        let attached = configure(worker.kernel()).and_then(|configured| {
            let (link, state) = UplinkDevice::new(tap, backend);
            let device = worker.attach_device(Box::new(link))?;
            let attachment = UplinkAttachment {
                held: Held::Tap(task),
                device,
                state,
            };
            Ok((attachment, configured))
        });
        attached.inspect_err(|_| {
            // What went wrong first is what matters.
            let _ = worker.kernel().exit_task(task, 0, true);
        })
    }

    /// Its state. The frames of a wire between two workers are counted at the wire's end, not here.
    pub fn state(&self) -> Ref<'_, UplinkState> {
        self.state.borrow()
    }

    /// Whether the link is about to be up: a program whose first packet is IPv6 finds no route
    /// before.
    pub fn is_coming(&self) -> bool {
        self.state.borrow().coming
    }

    pub(crate) fn watch(&self) -> Rc<RefCell<UplinkState>> {
        self.state.clone()
    }

    /// Removes the interface, and closes the backend.
    ///
    /// # Errors
    /// [`Error::Kernel`] after a panic.
    pub fn detach(self, worker: &mut Worker) -> Result<(), Error> {
        // None if it has ended by itself; so has a TAP interface's task.
        let device = worker.detach_device(self.device);
        let kernel = worker.kernel();
        let removed = match self.held {
            Held::Tap(task) if device.is_some() => kernel.exit_task(task, 0, true),
            Held::Tap(_) => Ok(()),
            Held::End(end) => kernel.detach(end),
            Held::Wire(wire) => kernel.destroy_wire(wire),
        };
        match removed {
            // It went with its wire.
            Err(vink_kernel::Error::NoSuchEnd | vink_kernel::Error::NoSuchWire) => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// Opens the backend of an uplink.
///
/// # Errors
/// [`Error::Uplink`]: what was tried, what was found, what to do; that it has none.
pub fn open_backend(uplink: &Uplink) -> Result<Box<dyn Backend>, Error> {
    Ok(match uplink {
        Uplink::Passt { .. } => {
            let why = "passt leads to one machine, and is attached otherwise";
            return Err(Error::Uplink(why.to_owned()));
        }
        Uplink::Wire(_) => {
            let why = "what is met at a path is a wire's end itself";
            return Err(Error::Uplink(why.to_owned()));
        }
        Uplink::Driver(_) | Uplink::VhostUser(_) | Uplink::Share(_) => {
            let why = format!("the uplink {uplink}: a driver process has it, and none was started");
            return Err(Error::Uplink(why));
        }
        Uplink::Tap(name) => Box::new(HostTap::open(name)?),
        Uplink::Interface(name) => Box::new(PacketBackend::open(name)?),
        Uplink::Qemu(path) => Box::new(QemuBackend::listen(path.as_ref())?),
        Uplink::QemuConnect(path) => Box::new(QemuBackend::connect(path.as_ref())?),
        Uplink::QemuDgram(path) => Box::new(QemuDgramBackend::open(path.as_ref())?),
        Uplink::Udp { listen, peer } => Box::new(UdpBackend::open(*listen, *peer)?),
    })
}
