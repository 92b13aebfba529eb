//! Flights: packets under way, told when it is known when they will arrive; and what ends have
//! counted, of many ends at once. Both are for what draws or measures a whole lab.
//!
//! A flight is told in the middle of the kernel, to a function that may look at its bytes and copy
//! what it needs: it costs one call for each packet and hop, where departures and arrivals
//! ([`Kernel::trace`]) cost two, and memory until they are taken.

use std::panic::{catch_unwind, AssertUnwindSafe};

use vink_abi::{EndCounts, VINK_CALL_WIRE_COUNTS, VINK_PACKET_FLIGHT, VINK_PACKET_LOSS};

use crate::host::slice;
use crate::wire::kind_of;
use crate::{EndId, Error, Kernel, LossCause, PacketKind};

/// A packet under way, or one that is lost.
#[derive(Debug)]
pub struct Flight<'a> {
    /// Names it. One that is lost after it was told is told again by the same number; one that is
    /// lost before has 0.
    pub id: u64,
    /// The end that sends it.
    pub end: EndId,
    /// When the interface sent it, on [`Kernel::now`]'s clock, ns.
    pub sent: u64,
    /// When it will arrive, or was lost.
    pub arrives: u64,
    /// Why it is lost; `None`: it is not.
    pub lost: Option<LossCause>,
    /// Its length in bytes, from the Ethernet header on.
    pub len: u32,
    /// Its first bytes, 256 at most.
    pub bytes: &'a [u8],
}

/// Hears of flights.
pub type Hear = Box<dyn FnMut(&Flight<'_>) + Send>;

/// The callback that hears of flights.
#[derive(Default)]
pub(crate) struct Flights(Option<Hear>);

impl Flights {
    /// Tells of one. The kernel's frames below can't be unwound: a callback that panics is not
    /// called again.
    ///
    /// # Safety
    /// The flight is as abi.h says.
    pub unsafe fn tell(&mut self, flight: &vink_abi::Flight) {
        let Some(hear) = self.0.as_mut() else {
            return;
        };
        let lost = (flight.lost != 0).then(|| kind_of(VINK_PACKET_LOSS, flight.lost, None));
        let flight = Flight {
            id: flight.id,
            end: EndId(flight.end),
            sent: flight.sent,
            arrives: flight.arrives,
            lost: match lost {
                Some(PacketKind::Loss(cause)) => Some(cause),
                _ => None,
            },
            len: flight.len,
            // SAFETY: by contract, so many bytes.
            bytes: unsafe { slice(flight.bytes.cast(), flight.captured as usize) },
        };
        if catch_unwind(AssertUnwindSafe(|| hear(&flight))).is_err() {
            self.0 = None;
        }
    }
}

impl Kernel {
    /// Sets the function that hears of flights. It is called in the middle of the kernel.
    pub fn on_flight(&mut self, hear: Hear) {
        self.host.flights.borrow_mut().0 = Some(hear);
    }

    /// From now on tells of the packets that an end sends, or no longer.
    ///
    /// # Errors
    /// [`Error::NoSuchEnd`]; [`Error::Errno`]: `EINVAL`, the image was built before there were
    /// flights; `ENOMEM`.
    pub fn fly(&mut self, end: EndId, on: bool) -> Result<(), Error> {
        let (told, bytes) = self.told.get(&end).copied().unwrap_or_default();
        let asked = self.asked.get(&end).copied().unwrap_or_default() & !VINK_PACKET_FLIGHT;
        let asked = asked | if on { VINK_PACKET_FLIGHT } else { 0 };
        match asked {
            0 => self.asked.remove(&end),
            asked => self.asked.insert(end, asked),
        };
        self.tell_of(end, told | asked, bytes)
    }

    /// What these ends have counted; zeroes for one that is gone.
    ///
    /// # Errors
    /// Those of [`Kernel::run`]; [`Error::Errno`] `ENOSYS`: the image was built before it could
    /// tell.
    pub fn counts(&mut self, ends: &[EndId]) -> Result<Vec<EndCounts>, Error> {
        let mut counts = vec![EndCounts::default(); ends.len()];
        let args = [
            ends.as_ptr() as u64,
            ends.len() as u64,
            counts.as_mut_ptr() as u64,
            0,
            0,
            0,
        ];
        self.control("count the packets of ends", VINK_CALL_WIRE_COUNTS, args)?;
        Ok(counts)
    }
}
