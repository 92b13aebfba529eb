//! A recorded run as pcapng, for Wireshark: what was done to a packet is its comment.

use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapResult};

use crate::{End, Point, Recording};

/// Nanoseconds, as an `if_tsresol` option has it.
const NANOSECONDS: u8 = 9;
/// The direction bits of an `epb_flags` option.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The packets of a run at these interfaces.
pub fn pcapng(recording: &Recording, ends: &[End]) -> Vec<u8> {
    // A vector takes whatever is written.
    write(recording, ends).unwrap_or_default()
}

fn write(recording: &Recording, ends: &[End]) -> PcapResult<Vec<u8>> {
    let application = format!("vink {}", env!("CARGO_PKG_VERSION"));
    let section = SectionHeaderBlock {
        endianness: Endianness::native(),
        options: vec![SectionHeaderOption::UserApplication(application.into())],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(Vec::new(), section)?;
    for end in ends {
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(end.name().into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        writer.write_block(&block.into_block())?;
    }
    for packet in &recording.packets {
        let frame = packet.with_header();
        let mut options = vec![EnhancedPacketOption::Flags(match packet.point {
            Point::Arrival => INBOUND,
            Point::Departure | Point::Loss => OUTBOUND,
        })];
        let comment = match (packet.fate, &packet.reason) {
            (Some(fate), _) => Some(format!("fault: {fate}")),
            (None, Some(reason)) => Some(format!("dropped: {reason}")),
            (None, None) => None,
        };
        options.extend(comment.map(|text| EnhancedPacketOption::Comment(text.into())));
        let block = EnhancedPacketBlock {
            interface_id: packet.end as u32,
            timestamp: Duration::from_nanos(packet.time),
            original_len: frame.len() as u32,
            data: frame,
            options,
        };
        writer.write_block(&block.into_block())?;
    }
    Ok(writer.into_inner())
}
