//! Attaching a machine's interface to the outside, and detaching it.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use vink_kernel::{Attachment, EndId, Half, Kernel, TaskId, WireId, WireKind};
use vink_spec::Uplink;
use vink_trap::{DeviceId, Site, Worker};

use super::far::Far;
use super::host_tap::HostTap;
use super::link::{Link, State};
use super::packet::PacketFar;
use super::qemu::QemuFar;
use super::qemu_dgram::DgramFar;
use super::shared;
use super::tap::Tap;
use super::udp::UdpFar;
use crate::{Error, Machine};

/// Something outside that an interface is attached to. It stays so when this is dropped, as long as the worker.
#[derive(Debug)]
pub struct Outside {
    held: Held,
    device: DeviceId,
    state: Rc<RefCell<State>>,
}

/// What it consists of in the kernel.
#[derive(Debug)]
enum Held {
    /// The task that has the TAP interface.
    Tap(TaskId),
    /// An end of a wire.
    End(EndId),
    /// ... that has no other purpose.
    Wire(WireId),
}

impl Outside {
    /// Makes an interface of a machine, still down, that is attached to what `uplink` names. Of its MTU is what
    /// the far side's is, if it has one.
    ///
    /// # Errors
    /// [`Error::Uplink`]: what was tried, what was found, what to do; that passt is no uplink of this kind
    /// ([`Passt::attach`](super::Passt::attach)). [`Error::Refused`], [`Error::Kernel`], [`Error::Trap`].
    pub fn attach(
        worker: &mut impl Site,
        machine: &Machine,
        interface: &str,
        uplink: &Uplink,
    ) -> Result<Outside, Error> {
        if let Uplink::Wire(path) = uplink {
            return Outside::of_own_wire(worker, machine, interface, |worker, wire| {
                shared::meet(worker, wire, path.as_ref())
            });
        }
        Outside::with_mtu(worker, machine, interface, far(uplink)?)
    }

    /// Makes an interface of a machine, still down, that is attached to one of another worker's.
    ///
    /// # Errors
    /// As [`Outside::attach`].
    pub fn attach_half(
        worker: &mut impl Site,
        machine: &Machine,
        interface: &str,
        half: Half,
    ) -> Result<Outside, Error> {
        Outside::of_own_wire(worker, machine, interface, |worker, wire| {
            shared::attach(worker, wire, half)
        })
    }

    /// Makes an interface at a wire of its own, whose other end leads elsewhere.
    fn of_own_wire<S: Site>(
        worker: &mut S,
        machine: &Machine,
        interface: &str,
        join: impl FnOnce(&mut S, WireId) -> Result<shared::Attached, Error>,
    ) -> Result<Outside, Error> {
        let kernel = worker.kernel();
        let wire = kernel.wire(WireKind::PointToPoint)?;
        let attachment = Attachment {
            interface,
            ..Attachment::default()
        };
        let attached = kernel.attach(wire, machine.id, attachment);
        let joined = attached.map_err(Error::from);
        match joined.and_then(|_| join(worker, wire)) {
            Ok((_, device, state)) => Ok(Outside {
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
    pub(crate) fn of_end((end, device, state): shared::Attached) -> Outside {
        Outside {
            held: Held::End(end),
            device,
            state,
        }
    }

    fn with_mtu(
        worker: &mut impl Site,
        machine: &Machine,
        interface: &str,
        far: Box<dyn Far>,
    ) -> Result<Outside, Error> {
        let (admin, mtu) = (machine.admin, far.mtu());
        let configure = |kernel: &mut Kernel| admin.mtu(kernel, interface, mtu);
        let made = Outside::of_machine(worker, machine, interface, far, configure);
        made.map(|(outside, ())| outside)
    }

    /// Makes the interface, still down, and has it configured; then the first frames may pass.
    pub(crate) fn of_machine<T>(
        worker: &mut impl Site,
        machine: &Machine,
        interface: &str,
        far: Box<dyn Far>,
        configure: impl FnOnce(&mut Kernel) -> Result<T, Error>,
    ) -> Result<(Outside, T), Error> {
        let tap = Tap::new(worker.kernel(), machine, interface, far.offloads())?;
        Outside::of_tap(worker, tap, far, configure)
    }

    /// With an interface that is gone if this fails.
    pub(crate) fn of_tap<T>(
        worker: &mut impl Site,
        tap: Tap,
        far: Box<dyn Far>,
        configure: impl FnOnce(&mut Kernel) -> Result<T, Error>,
    ) -> Result<(Outside, T), Error> {
        let task = tap.task;
        let attached = configure(worker.kernel()).and_then(|configured| {
            let (link, state) = Link::new(tap, far);
            let device = worker.attach_device(Box::new(link))?;
            let outside = Outside {
                held: Held::Tap(task),
                device,
                state,
            };
            Ok((outside, configured))
        });
        attached.inspect_err(|_| {
            // What went wrong first is what matters.
            let _ = worker.kernel().exit_task(task, 0, true);
        })
    }

    /// How it is now. The frames of one between two workers are counted at the wire's end, not here.
    pub fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// Whether it is worth waiting for the line, which will be up in a moment: a program whose first packet is one of
    /// IPv6 finds no route before.
    pub fn is_coming(&self) -> bool {
        self.state.borrow().coming
    }

    pub(crate) fn watch(&self) -> Rc<RefCell<State>> {
        self.state.clone()
    }

    /// Removes the interface, and closes what the host's side has open.
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

/// The host's side of an uplink.
pub(crate) fn far(uplink: &Uplink) -> Result<Box<dyn Far>, Error> {
    Ok(match uplink {
        Uplink::Passt { .. } => {
            let why = "passt leads to one machine, and is attached otherwise";
            return Err(Error::Uplink(why.to_owned()));
        }
        Uplink::Wire(_) => {
            let why = "what is met at a path is a wire's end itself";
            return Err(Error::Uplink(why.to_owned()));
        }
        Uplink::Tap(name) => Box::new(HostTap::open(name)?),
        Uplink::Interface(name) => Box::new(PacketFar::open(name)?),
        Uplink::Qemu(path) => Box::new(QemuFar::listen(path.as_ref())?),
        Uplink::QemuConnect(path) => Box::new(QemuFar::connect(path.as_ref())?),
        Uplink::QemuDgram(path) => Box::new(DgramFar::open(path.as_ref())?),
        Uplink::Udp { listen, peer } => Box::new(UdpFar::open(*listen, *peer)?),
    })
}
