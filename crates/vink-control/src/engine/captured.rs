//! What captures have written: in the files that their owner has named, or in memory.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vink_api::{CapturedPacket, CapturedPackets, CapturedQuery, PacketDetail};
use vink_record::{summary, FilePacket, PacketFile};

use super::dissect::detail;
use super::lab::Lab;
use super::terminal::{Pipe, PIECE};
use crate::http_error::HttpError;
use crate::runs::reading;

/// Captures of a lab whose packets are in memory, and bytes of one of these.
pub(super) const MOST_KEPT: usize = 4;
const MOST_BYTES: usize = 64 << 20;
/// Packets in an answer: unless told otherwise, and at most.
pub(super) const PACKETS: usize = 200;
pub(super) const MOST_PACKETS: usize = 2000;
/// What a packet's dissectors know of those before it: packets, and bytes of all of them.
const CONTEXT: u64 = 2000;
const CONTEXT_BYTES: usize = 4 << 20;

/// What a capture has written.
pub(crate) struct Kept {
    file: File,
    packets: Mutex<PacketFile>,
}

impl Kept {
    pub(super) fn new(file: File) -> Kept {
        Kept {
            file,
            packets: Mutex::default(),
        }
    }

    fn look(&self) -> Result<(MutexGuard<'_, PacketFile>, u64), HttpError> {
        let mut packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        let total = packets.look(&self.file)?;
        Ok((packets, total))
    }

    /// Takes what comes from a pipe; why it takes no more, if that is not the pipe's end.
    pub(super) async fn fill(&self, from: Pipe) -> Option<String> {
        let mut buffer = vec![0; PIECE];
        let mut bytes = 0;
        let mut file = &self.file;
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            bytes += count;
            if bytes > MOST_BYTES {
                let most = MOST_BYTES >> 20;
                return Some(format!("{most} MiB of packets are kept, and no more"));
            }
            if let Err(error) = file.write_all(&buffer[..count]) {
                return Some(format!("keeping packets in memory: {error}"));
            }
        }
        None
    }

    /// The file, and how many of its bytes are whole.
    pub(crate) fn whole(&self) -> Result<(File, u64), HttpError> {
        let (packets, _) = self.look()?;
        let host = |error| HttpError::host("the capture", error);
        Ok((self.file.try_clone().map_err(host)?, packets.whole()))
    }

    pub(crate) fn packets(&self, query: &CapturedQuery) -> Result<CapturedPackets, HttpError> {
        let (packets, total) = self.look()?;
        let count = query.count.unwrap_or(PACKETS).min(MOST_PACKETS);
        let began = self.began(&packets)?;
        let found = packets.packets(&self.file, query.from, count)?;
        Ok(CapturedPackets {
            total,
            began: began as f64 / 1e9,
            packets: found.iter().map(|one| told(one, began)).collect(),
        })
    }

    /// The date of the first packet; 0: there is none.
    fn began(&self, packets: &PacketFile) -> Result<u64, HttpError> {
        let first = packets.packets(&self.file, 0, 1)?;
        Ok(first.first().map_or(0, |first| first.date))
    }
}

fn told(one: &FilePacket, began: u64) -> CapturedPacket {
    CapturedPacket {
        number: one.number,
        nanoseconds: one.date.wrapping_sub(began) as i64,
        end: one.interface.clone(),
        what: match (&one.lost, one.inbound) {
            (Some(_), _) => "loss",
            (None, true) => "arrival",
            (None, false) => "departure",
        }
        .to_owned(),
        reason: one.lost.clone(),
        length: one.length,
        summary: summary(&one.bytes, one.length),
    }
}

impl Lab {
    /// All about a packet of a capture.
    pub(crate) async fn packet_detail(
        &self,
        kept: Arc<Kept>,
        packet: &str,
    ) -> Result<PacketDetail, HttpError> {
        let number: u64 = packet.parse().unwrap_or(u64::MAX);
        let name = packet.to_owned();
        let (one, cut) = reading(move || {
            let (packets, total) = kept.look()?;
            if number >= total {
                let hint = format!("it has {total} packets, from 0 on");
                let error = HttpError::no("packet", &name, [], "in the capture");
                return Err(error.hint(hint));
            }
            let mut found = packets.packets(&kept.file, number, 1)?;
            let cut = packets.cut(&kept.file, number, CONTEXT, CONTEXT_BYTES)?;
            let began = kept.began(&packets)?;
            let one = found.pop().map(|one| (told(&one, began), one.bytes));
            let gone = || HttpError::conflict("the capture's file was cut meanwhile");
            Ok((one.ok_or_else(gone)?, cut))
        })
        .await?;
        let (packet, bytes) = one;
        Ok(detail(&self.hooks.executable, packet, &bytes, cut).await)
    }
}
