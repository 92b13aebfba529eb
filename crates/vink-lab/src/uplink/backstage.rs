//! Attaching a wire to the outside: behind the stage.
//!
//! A wire ends at interfaces of machines, an uplink in a TAP interface. Both are brought together in a hidden
//! machine of the worker: an end of the wire is there, and each of the two sends what the other one receives. So
//! whatever a wire does to packets it does to those from and to the outside as well.

use vink_kernel::{Attachment, EndId, Half, Kernel, WireId};
use vink_spec::Uplink;
use vink_trap::Worker;

use super::far::Far;
use super::outside::{far, Outside};
use super::passt::Passt;
use super::shared;
use super::tap::Tap;
use crate::{Error, Machine};

/// Frames that wait in a TAP interface: packets that an ideal wire carries whole, of up to 512 KiB, are cut there.
const QUEUE: u32 = 4096;
/// The largest MTU of an interface of a wire: its own MTU is the wire's matter.
const MTU: u32 = 65535;

/// The hidden machine, where any number of wires meet the outside.
#[derive(Debug)]
pub struct Backstage {
    machine: Machine,
}

/// A wire's outside end. It stays when this is dropped, as long as the worker.
#[derive(Debug)]
pub struct OutsideEnd {
    /// The wire's end: what is set there is for packets that come from outside.
    pub end: EndId,
    /// Where it is attached to.
    pub outside: Outside,
}

impl Backstage {
    /// Makes the machine.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Kernel`].
    pub fn new(kernel: &mut Kernel) -> Result<Backstage, Error> {
        let machine = Machine::new(kernel, "outside")?;
        // Its interfaces say nothing of their own.
        for family in ["all", "default"] {
            let name = format!("net/ipv6/conf/{family}/disable_ipv6");
            machine.admin.sysctl(kernel, &name, "1")?;
        }
        Ok(Backstage { machine })
    }

    /// Attaches a wire to what `uplink` names; not to passt, see [`Passt::attach_to_wire`].
    ///
    /// # Errors
    /// As [`Outside::attach`]; [`Error::Kernel`]: there is no such wire, or it has all its ends.
    pub fn attach(
        &self,
        worker: &mut Worker,
        wire: WireId,
        uplink: &Uplink,
    ) -> Result<OutsideEnd, Error> {
        if let Uplink::Wire(path) = uplink {
            return Ok(OutsideEnd::of(shared::meet(worker, wire, path.as_ref())?));
        }
        self.attach_far(worker, wire, far(uplink)?)
    }

    fn attach_far(
        &self,
        worker: &mut Worker,
        wire: WireId,
        far: Box<dyn Far>,
    ) -> Result<OutsideEnd, Error> {
        let names = ["wire", "tap"].map(|kind| format!("{kind}{wire}"));
        let [inner, outer] = [&names[0], &names[1]];
        let attachment = Attachment {
            interface: inner,
            mtu: Some(MTU),
            ..Attachment::default()
        };
        let kernel = worker.kernel();
        let end = kernel.attach(wire, self.machine.id, attachment)?;
        let admin = self.machine.admin;
        let attached = Tap::new(kernel, &self.machine, outer, far.offloads()).and_then(|tap| {
            let configure = |kernel: &mut Kernel| {
                admin.queue(kernel, outer, QUEUE)?;
                admin.promiscuous(kernel, inner)?;
                admin.redirect(kernel, inner, outer)?;
                admin.redirect(kernel, outer, inner)?;
                admin.up(kernel, outer)?;
                admin.up(kernel, inner)
            };
            Outside::of_tap(worker, tap.with_companion(inner), far, configure)
        });
        match attached {
            Ok((outside, ())) => Ok(OutsideEnd { end, outside }),
            Err(error) => {
                // What went wrong first is what matters.
                let _ = worker.kernel().detach(end);
                Err(error)
            }
        }
    }
}

impl OutsideEnd {
    /// Attaches a wire to one of another worker's, which needs no hidden machine.
    ///
    /// # Errors
    /// [`Error::Kernel`]: there is no such wire, or it has all its ends, or these are not what
    /// [`shared`](super::shared) made.
    pub fn of_half(worker: &mut Worker, wire: WireId, half: Half) -> Result<OutsideEnd, Error> {
        Ok(OutsideEnd::of(shared::attach(worker, wire, half)?))
    }

    fn of(attached: shared::Attached) -> OutsideEnd {
        OutsideEnd {
            end: attached.0,
            outside: Outside::of_end(attached),
        }
    }

    /// Takes the wire off, and closes what the host's side has open.
    ///
    /// # Errors
    /// [`Error::Kernel`] after a panic.
    pub fn detach(self, worker: &mut Worker) -> Result<(), Error> {
        match worker.kernel().detach(self.end) {
            // It went with its wire.
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => {}
            Err(error) => return Err(error.into()),
        }
        self.outside.detach(worker)
    }
}

impl Passt {
    /// Attaches a wire to passt. The machine at its other end gets what [`Passt::configure`] gives.
    ///
    /// # Errors
    /// As [`Backstage::attach`].
    ///
    /// # Panics
    /// If it was attached before.
    pub fn attach_to_wire(
        &mut self,
        worker: &mut Worker,
        backstage: &Backstage,
        wire: WireId,
    ) -> Result<OutsideEnd, Error> {
        let far = self.far(worker)?;
        let end = backstage.attach_far(worker, wire, far)?;
        self.watch(&end.outside);
        Ok(end)
    }
}
