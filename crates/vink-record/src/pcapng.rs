//! A journal's packets as pcapng, for Wireshark and its like.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{Block, PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::history::{History, Numbered};
use crate::journal::Reader;
use crate::record::{Event, PacketOutcome, Record};
use crate::Error;

/// Nanoseconds, as an `if_tsresol` option has it.
const NANOSECONDS: u8 = 9;
/// The direction bits of an `epb_flags` option.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Records before a packet in which what its dissectors should know of is looked for.
const REACH: u64 = 20_000;

/// Writes packets of records.
struct PacketWriter<'a, W: Write> {
    to: PcapNgWriter<W>,
    name: &'a str,
    epoch: u64,
    /// By their places.
    interfaces: HashMap<String, u32>,
}

impl<'a, W: Write> PacketWriter<'a, W> {
    fn new(to: W, name: &'a str, epoch: u64) -> Result<Self, Error> {
        let application = format!("vink {}", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![SectionHeaderOption::UserApplication(application.into())],
            ..SectionHeaderBlock::default()
        };
        let to = PcapNgWriter::with_section_header(to, section);
        Ok(PacketWriter {
            to: to.map_err(|error| failed(name, error))?,
            name,
            epoch,
            interfaces: HashMap::new(),
        })
    }

    fn block(&mut self, block: Block<'_>) -> Result<(), Error> {
        let written = self.to.write_block(&block);
        written.map(drop).map_err(|error| failed(self.name, error))
    }

    /// Writes the record if it is a packet's: whether it was.
    fn add(&mut self, record: Record) -> Result<bool, Error> {
        let Event::Packet {
            place,
            outcome,
            length,
            head,
            ..
        } = record.event
        else {
            return Ok(false);
        };
        let next = self.interfaces.len() as u32;
        let interface = match self.interfaces.get(&place) {
            Some(number) => *number,
            None => {
                let block = InterfaceDescriptionBlock {
                    linktype: DataLink::ETHERNET,
                    snaplen: 0,
                    options: vec![
                        InterfaceDescriptionOption::IfName(Cow::Borrowed(&place)),
                        InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                    ],
                };
                self.block(block.into_block())?;
                self.interfaces.insert(place, next);
                next
            }
        };
        let mut options = vec![EnhancedPacketOption::Flags(match outcome {
            PacketOutcome::Arrival => INBOUND,
            PacketOutcome::Departure | PacketOutcome::Loss(_) => OUTBOUND,
        })];
        if let PacketOutcome::Loss(reason) = outcome {
            options.push(EnhancedPacketOption::Comment(
                format!("dropped: {reason}").into(),
            ));
        }
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(self.epoch + record.time),
            original_len: length,
            data: head.into(),
            options,
        };
        self.block(block.into_block())?;
        Ok(true)
    }
}

fn failed(name: &str, error: PcapError) -> Error {
    Error::host(format!("writing {name}"))(match error {
        PcapError::IoError(error) => error,
        other => std::io::Error::other(other.to_string()),
    })
}

/// Writes all packets, with as many bytes of each as the journal has; gives their number. Two runs
/// that are the same give the same bytes.
///
/// # Errors
/// As [`Reader::next_record`]; [`Error::Host`]: writing, to what is called `name`.
pub fn pcapng<R: Read>(mut from: Reader<R>, to: impl Write, name: &str) -> Result<u64, Error> {
    let mut writer = PacketWriter::new(to, name, from.epoch())?;
    let mut count = 0;
    while let Some(record) = from.next_record()? {
        count += u64::from(writer.add(record)?);
    }
    Ok(count)
}

impl History {
    /// A pcapng file of a packet and of those before it at the same interface, of the last 20,000 records
    /// and at most so many; and the packet's number there.
    ///
    /// # Errors
    /// [`Error`]: the journal can't be read.
    pub fn pcapng_until(&self, packet: &Numbered, before: usize) -> Result<(Vec<u8>, u64), Error> {
        let at = |record: &Record| match &record.event {
            Event::Packet { place, .. } => Some(place.clone()),
            _ => None,
        };
        let (number, place) = (packet.number, at(&packet.record));
        let first = number.checked_sub(REACH + 1);
        let is_there = |record: &Record| at(record) == place;
        let span = (0, packet.record.time);
        let mut found = self.events(span, first, &is_there, usize::MAX)?;
        found.retain(|one| one.number <= number);
        let far = found.len().saturating_sub(before + 1);
        let mut file = Vec::new();
        let mut writer = PacketWriter::new(&mut file, "a packet", self.index().epoch)?;
        let mut count: u64 = 0;
        for one in found.split_off(far) {
            count += u64::from(writer.add(one.record)?);
        }
        Ok((file, count.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::journal;
    use crate::record::tests::samples;
    use pcap_file::pcapng::PcapNgReader;

    #[test]
    fn a_reader_finds_the_packets() {
        let (bytes, _) = journal(&samples());
        let mut file = Vec::new();
        let reader = Reader::new(&bytes[..], "memory").unwrap();
        assert_eq!(pcapng(reader, &mut file, "memory").unwrap(), 3);
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let mut found = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                assert_eq!(
                    (packet.original_len, &packet.data[..]),
                    (98, &[1, 2, 3][..])
                );
                found.push((packet.timestamp.as_nanos(), packet.options.len()));
            }
        }
        let date = 946_684_800_000_000_000;
        assert_eq!(
            found,
            [
                (date + 3_000_000_021, 1),
                (date + 4_000_000_028, 1),
                (date + 5_000_000_035, 2)
            ]
        );
        assert_eq!(reader.interfaces().len(), 1);
    }
}
