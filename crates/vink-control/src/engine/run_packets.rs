//! Packets of recorded runs, as those of captures are told.

use std::path::Path;
use std::sync::Arc;

use vink_api::{CapturedPacket, PacketDetail, RunPacketsQuery};
use vink_record::{summary, Event, Numbered, PacketOutcome, Record, Stop};

use super::captured::{MOST_PACKETS, PACKETS};
use super::dissect::detail;
use crate::http_error::HttpError;
use crate::runs::{place_of, reading, Recording};

/// Packets that a packet's dissectors know of.
const CONTEXT: usize = 2000;

/// What lists show of it; none: it is no packet.
fn told(one: &Numbered) -> Option<CapturedPacket> {
    let Event::Packet {
        place,
        outcome,
        length,
        head,
        ..
    } = &one.record.event
    else {
        return None;
    };
    let (what, reason) = match outcome {
        PacketOutcome::Departure => ("departure", None),
        PacketOutcome::Arrival => ("arrival", None),
        PacketOutcome::Loss(reason) => ("loss", Some(reason.clone())),
    };
    Some(CapturedPacket {
        number: one.number,
        nanoseconds: i64::try_from(one.record.time).unwrap_or(i64::MAX),
        end: place.clone(),
        what: what.to_owned(),
        reason,
        length: *length,
        summary: summary(head, *length),
    })
}

impl Recording {
    pub(crate) fn packets(
        &self,
        query: &RunPacketsQuery,
        stop: &Stop,
    ) -> Result<Vec<CapturedPacket>, HttpError> {
        let history = self.history()?.until(stop.clone());
        if let Some(end) = &query.end {
            place_of(history.index(), end)?;
        }
        let wanted = |record: &Record| match &record.event {
            Event::Packet { place, .. } => query.end.as_ref().is_none_or(|end| end == place),
            _ => false,
        };
        let span = (query.from.unwrap_or(0), query.to.unwrap_or(u64::MAX));
        let count = query.count.unwrap_or(PACKETS).min(MOST_PACKETS);
        let found = history.events(span, query.after, &wanted, count)?;
        Ok(found.iter().filter_map(told).collect())
    }

    /// All about a packet, by its number.
    pub(crate) async fn packet_detail(
        self: Arc<Recording>,
        executable: &Path,
        number: &str,
    ) -> Result<PacketDetail, HttpError> {
        let name = number.to_owned();
        let (packet, bytes, cut) = reading(move || {
            let history = self.history()?;
            let number: u64 = name.parse().unwrap_or(u64::MAX);
            let one = history.record(number)?;
            let found = one.and_then(|one| told(&one).map(|packet| (one, packet)));
            let (one, packet) = found.ok_or_else(|| {
                let hint = "a packet's number is its place in the journal, which lists have";
                HttpError::no("packet", &name, [], "in the run").hint(hint)
            })?;
            let cut = history.pcapng_until(&one, CONTEXT)?;
            let bytes = match one.record.event {
                Event::Packet { head, .. } => head,
                _ => Vec::new(),
            };
            Ok((packet, bytes, cut))
        })
        .await?;
        Ok(detail(executable, packet, &bytes, cut).await)
    }
}
