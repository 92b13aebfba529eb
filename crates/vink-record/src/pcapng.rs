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
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::journal::Reader;
use crate::record::{Event, PacketOutcome};
use crate::Error;

/// Nanoseconds, as an `if_tsresol` option has it.
const NANOSECONDS: u8 = 9;
/// The direction bits of an `epb_flags` option.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes all packets, with as many bytes of each as the journal has; gives their number. Two runs
/// that are the same give the same bytes.
///
/// # Errors
/// As [`Reader::next_record`]; [`Error::Host`]: writing, to what is called `name`.
pub fn pcapng<R: Read>(mut from: Reader<R>, to: impl Write, name: &str) -> Result<u64, Error> {
    let failed = |error: PcapError| {
        Error::host(format!("writing {name}"))(match error {
            PcapError::IoError(error) => error,
            other => std::io::Error::other(other.to_string()),
        })
    };
    let application = format!("vink {}", env!("CARGO_PKG_VERSION"));
    let section = SectionHeaderBlock {
        endianness: Endianness::native(),
        options: vec![SectionHeaderOption::UserApplication(application.into())],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(to, section).map_err(failed)?;
    let mut interfaces = HashMap::new();
    let mut count = 0;
    while let Some(record) = from.next_record()? {
        let Event::Packet {
            place,
            outcome,
            length,
            head,
            ..
        } = record.event
        else {
            continue;
        };
        let next = interfaces.len() as u32;
        let interface = match interfaces.get(&place) {
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
                writer.write_block(&block.into_block()).map_err(failed)?;
                interfaces.insert(place, next);
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
            timestamp: Duration::from_nanos(from.epoch() + record.time),
            original_len: length,
            data: head.into(),
            options,
        };
        writer.write_block(&block.into_block()).map_err(failed)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::journal;
    use crate::record::tests::samples;
    use pcap_file::pcapng::{Block, PcapNgReader};

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
