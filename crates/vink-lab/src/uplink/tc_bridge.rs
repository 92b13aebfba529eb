//! Attaches a wire to an uplink by a traffic-control bridge.
//!
//! A wire ends at interfaces of machines, an uplink at a TAP interface. A hidden machine of the
//! worker has an end of the wire and the TAP interface, and tc-mirred(8) redirects each one's
//! packets to the other. So a wire impairs packets of its uplink as it impairs all others.

use std::os::fd::OwnedFd;

use vink_kernel::{Attachment, EndId, Half, Kernel, WireId};
use vink_port::Backend;
use vink_spec::Uplink;
use vink_trap::Worker;

use super::attachment::{open_backend, UplinkAttachment};
use super::passt::Passt;
use super::shared;
use super::tap::Tap;
use crate::{Error, Machine};

/// Transmit queue of the TAP interface, in frames: it segments packets of up to 512 KiB, which an
/// ideal wire carries whole.
const QUEUE: u32 = 4096;
/// The MTU of the hidden end, in bytes: the wire's own MTU is what limits packets.
const MTU: u32 = 65535;

/// The hidden machine. It bridges any number of wires.
#[derive(Debug)]
pub struct TcBridge {
    machine: Machine,
}

/// A wire's end at an uplink. It stays attached when this is dropped, until the worker ends.
#[derive(Debug)]
pub struct UplinkEnd {
    /// The wire's end: its settings apply to packets that come from the uplink.
    pub end: EndId,
    /// What it is attached to.
    pub attachment: UplinkAttachment,
}

impl TcBridge {
    /// Makes the machine.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Kernel`].
    pub fn new(kernel: &mut Kernel) -> Result<TcBridge, Error> {
        let machine = Machine::new(kernel, "outside")?;
        // Its interfaces send no packets of their own.
        for family in ["all", "default"] {
            let name = format!("conf/{family}/disable_ipv6");
            machine.network.ipv6_sysctl(kernel, &name, "1")?;
        }
        Ok(TcBridge { machine })
    }

    /// Attaches a wire to what `uplink` names; not to passt, see [`Passt::attach_to_wire`].
    ///
    /// # Errors
    /// As [`UplinkAttachment::attach`]; [`Error::Kernel`]: there is no such wire, or it has all its
    /// ends.
    pub fn attach(
        &self,
        worker: &mut Worker,
        wire: WireId,
        uplink: &Uplink,
    ) -> Result<UplinkEnd, Error> {
        if let Uplink::Wire(path) = uplink {
            return Ok(UplinkEnd::of(shared::meet(worker, wire, path.as_ref())?));
        }
        self.attach_backend(worker, wire, open_backend(uplink)?)
    }

    /// Attaches a wire to this backend.
    ///
    /// # Errors
    /// As [`TcBridge::attach`].
    pub(crate) fn attach_backend(
        &self,
        worker: &mut Worker,
        wire: WireId,
        backend: Box<dyn Backend>,
    ) -> Result<UplinkEnd, Error> {
        let names = ["wire", "tap"].map(|kind| format!("{kind}{wire}"));
        let [inner, outer] = [&names[0], &names[1]];
        let attachment = Attachment {
            interface: inner,
            mtu: Some(MTU),
            ..Attachment::default()
        };
        let kernel = worker.kernel();
        let end = kernel.attach(wire, self.machine.id, attachment)?;
        let network = self.machine.network;
        let attached = Tap::new(kernel, &self.machine, outer, backend.offloads()).and_then(|tap| {
            let configure = |kernel: &mut Kernel| {
                network.queue(kernel, outer, QUEUE)?;
                network.promiscuous(kernel, inner)?;
                network.redirect(kernel, inner, outer)?;
                network.redirect(kernel, outer, inner)?;
                network.up(kernel, outer)?;
                network.up(kernel, inner)
            };
            UplinkAttachment::of_tap(worker, tap.with_companion(inner), backend, configure)
        });
        match attached {
            Ok((attachment, ())) => Ok(UplinkEnd { end, attachment }),
            Err(error) => {
                // What went wrong first is what matters.
                let _ = worker.kernel().detach(end);
                Err(error)
            }
        }
    }
}

impl UplinkEnd {
    /// Attaches a wire to one of another worker's, which needs no hidden machine.
    ///
    /// # Errors
    /// [`Error::Kernel`]: there is no such wire, or it has all its ends, or these are not what
    /// [`shared`](super::shared) made.
    pub fn of_half(worker: &mut Worker, wire: WireId, half: Half) -> Result<UplinkEnd, Error> {
        Ok(UplinkEnd::of(shared::attach(worker, wire, half)?))
    }

    /// Attaches a wire to the driver process that has the other end of a socket.
    ///
    /// # Errors
    /// As [`UplinkEnd::of_half`].
    pub fn of_driver(
        worker: &mut Worker,
        wire: WireId,
        socket: OwnedFd,
    ) -> Result<UplinkEnd, Error> {
        Ok(UplinkEnd::of(shared::meet_driver(worker, wire, socket)?))
    }

    fn of(attached: shared::Attached) -> UplinkEnd {
        UplinkEnd {
            end: attached.0,
            attachment: UplinkAttachment::of_end(attached),
        }
    }

    /// Detaches the wire, and closes the backend.
    ///
    /// # Errors
    /// [`Error::Kernel`] after a panic.
    pub fn detach(self, worker: &mut Worker) -> Result<(), Error> {
        match worker.kernel().detach(self.end) {
            // It went with its wire.
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => {}
            Err(error) => return Err(error.into()),
        }
        self.attachment.detach(worker)
    }
}

impl Passt {
    /// Attaches a wire to passt. The machine at its other end gets what [`Passt::configure`] gives.
    ///
    /// # Errors
    /// As [`TcBridge::attach`].
    ///
    /// # Panics
    /// If it was attached before.
    pub fn attach_to_wire(
        &mut self,
        worker: &mut Worker,
        tc_bridge: &TcBridge,
        wire: WireId,
    ) -> Result<UplinkEnd, Error> {
        let backend = self.backend(worker)?;
        let end = tc_bridge.attach_backend(worker, wire, backend)?;
        self.watch(&end.attachment);
        Ok(end)
    }
}
