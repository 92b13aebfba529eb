//! Packets at the interfaces of a lab: written as pcapng, and told one by one.
//!
//! The kernel tells of each packet as it departs, arrives or is lost. A capture has a buffer of its
//! own, from which its descriptor takes what it has room for; what comes faster is counted.
//! Whatever becomes of the descriptor (a full disk, a reader that has gone) ends that capture and
//! nothing else.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::{DataLink, Endianness};
use vink_kernel::{EndId, PacketEvent, PacketKind, Trace};

use super::bpf;
use super::lab::{refused, Descriptors, EndName, Lab, WorkerError};
use vink_protocol::Filter;
use vink_protocol::{Answer, Event, Packet};
use vink_record::summary;
use vink_sys::fd::set_blocking;

/// Bytes that wait to be written by one capture.
const MAX_BUFFERED: usize = 8 << 20;
/// Bytes of a packet that its summary is made of.
const SUMMARY_BYTES: u16 = 160;
/// Bytes of a packet that are kept at most: a packet that is not segmented yet can have more.
const MAX_SNAP: u16 = u16::MAX;
/// Nanoseconds, as an `if_tsresol` option has it.
const NANOSECONDS: u8 = 9;
/// The direction bits of an `epb_flags` option.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// All captures, and what is watched.
#[derive(Default)]
pub(super) struct Captures {
    last: u64,
    all: BTreeMap<u64, Capture>,
    watched: HashSet<EndId>,
    /// The captures of an end, and what it is there.
    by_end: HashMap<EndId, Vec<(u64, u32)>>,
    /// Packets that the kernel had not kept when it was last asked.
    not_kept: u64,
}

struct Capture {
    file: File,
    blocks: PcapNgWriter<Vec<u8>>,
    filter: Option<Filter>,
    snap: usize,
    /// How many of its interfaces are left.
    interfaces: usize,
    written: u64,
    missed: u64,
    /// Of the missed ones, those since the last one that was written.
    gap: u64,
    /// There is more than the descriptor has taken: it is waited for.
    waits: bool,
    /// It has ended, but not everything is written yet.
    closing: bool,
}

impl Lab {
    pub(super) fn capture(
        &mut self,
        interfaces: Vec<String>,
        filter: Option<Filter>,
        snap: u32,
        descriptors: &mut Descriptors,
    ) -> Result<Answer, WorkerError> {
        let file = File::from(descriptors.next().expect("counted before"));
        let mut ends = Vec::new();
        for text in &interfaces {
            ends.push((text, self.interface(&EndName::parse(text)?)?.end));
        }
        if ends.is_empty() {
            return Err(refused("a capture of no interface"));
        }
        let _ = set_blocking(&file, false);
        let snap = match snap {
            0 => usize::from(MAX_SNAP),
            snap => (snap as usize).min(MAX_SNAP.into()),
        };
        let names: Vec<&str> = ends.iter().map(|(name, _)| name.as_str()).collect();
        let capture = Capture {
            file,
            blocks: beginning(
                &names,
                filter.as_ref().map(|filter| filter.text.as_str()),
                snap as u32,
            ),
            filter,
            snap,
            interfaces: ends.len(),
            written: 0,
            missed: 0,
            gap: 0,
            waits: false,
            closing: false,
        };
        let captures = &mut self.captures;
        captures.last += 1;
        let number = captures.last;
        captures.all.insert(number, capture);
        for (i, (_, end)) in ends.iter().enumerate() {
            let here = captures.by_end.entry(*end).or_default();
            here.push((number, i as u32));
        }
        for (_, end) in ends {
            self.trace(end)?;
        }
        Ok(Answer::Capture(number))
    }

    pub(super) fn stop_capture(&mut self, number: u64) -> Result<Answer, WorkerError> {
        // Events that are not taken from the kernel yet belong to the earlier state.
        self.look_after_packets()?;
        let capture = self.captures.all.get_mut(&number);
        let capture = capture.filter(|capture| !capture.closing).ok_or_else(|| {
            refused(format!(
                "capture {number}: there is no such capture (any more)"
            ))
        })?;
        capture.closing = true;
        let answer = Answer::Captured {
            written: capture.written,
            missed: capture.missed,
        };
        self.untrace(number)?;
        self.write_captures()?;
        Ok(answer)
    }

    pub(super) fn watch(&mut self, interfaces: Vec<String>) -> Result<(), WorkerError> {
        let mut watched = HashSet::new();
        for text in &interfaces {
            watched.insert(self.interface(&EndName::parse(text)?)?.end);
        }
        let before = std::mem::replace(&mut self.captures.watched, watched.clone());
        for end in before.union(&watched) {
            self.trace(*end)?;
        }
        Ok(())
    }

    /// An interface goes: nothing more will be told of it.
    pub(super) fn forget_end_of_captures(&mut self, end: EndId) -> Result<(), WorkerError> {
        if self.captures.is_idle() {
            return Ok(());
        }
        self.look_after_packets()?;
        self.captures.watched.remove(&end);
        for (number, _) in self.captures.by_end.remove(&end).unwrap_or_default() {
            let Some(capture) = self.captures.all.get_mut(&number) else {
                continue;
            };
            capture.interfaces -= 1;
            if capture.interfaces == 0 && !capture.closing {
                capture.closing = true;
                let error = format!(
                    "none of its interfaces is left; {}",
                    counts(capture.written, capture.missed)
                );
                let capture = number;
                self.events.push(Event::CaptureEnded { capture, error });
            }
        }
        Ok(())
    }

    /// Tells the kernel what is to be known of an end.
    pub(super) fn trace(&mut self, end: EndId) -> Result<(), WorkerError> {
        let captures = &self.captures;
        let here = captures.by_end.get(&end).map_or(&[][..], Vec::as_slice);
        let wanted = here
            .iter()
            .filter_map(|(number, _)| captures.all.get(number));
        let mut bytes = wanted
            .map(|capture| match capture.filter {
                // It may look anywhere.
                Some(_) => MAX_SNAP,
                None => capture.snap as u16,
            })
            .max();
        if captures.watched.contains(&end) {
            bytes = bytes.max(Some(SUMMARY_BYTES));
        }
        let series = &self.series;
        if self
            .end_names
            .get(&end)
            .is_some_and(|end_name| series.want_packets(end_name))
        {
            bytes = bytes.max(Some(0));
        }
        if self.journal.is_some() {
            bytes = Some(MAX_SNAP);
        }
        let on = bytes.is_some();
        let trace = Trace {
            departures: on,
            arrivals: on,
            losses: on,
            drops: on,
            bytes: bytes.unwrap_or(0),
        };
        match self.worker.kernel().trace(end, trace) {
            // It may be gone, and then there is nothing to be told.
            Ok(()) | Err(vink_kernel::Error::NoSuchEnd) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A capture wants nothing more.
    fn untrace(&mut self, number: u64) -> Result<(), WorkerError> {
        let mut ends = Vec::new();
        self.captures.by_end.retain(|end, here| {
            let before = here.len();
            here.retain(|(capture, _)| *capture != number);
            if here.len() != before {
                ends.push(*end);
            }
            !here.is_empty()
        });
        ends.into_iter().try_for_each(|end| self.trace(end))
    }

    /// Takes what the kernel has told of packets, and writes what there is room for.
    pub(super) fn look_after_packets(&mut self) -> Result<(), WorkerError> {
        if self.captures.is_idle() && self.series.are_idle() && self.journal.is_none() {
            return Ok(());
        }
        let kernel = self.worker.kernel();
        let not_kept = kernel.missed_packets();
        let lost = not_kept - std::mem::replace(&mut self.captures.not_kept, not_kept);
        self.missed += lost;
        for capture in self.captures.all.values_mut() {
            capture.missed += lost;
            capture.gap += lost;
        }
        while let Some(event) = kernel.next_packet() {
            let captures = &mut self.captures;
            let event = with_header(event);
            if let Some(journal) = &mut self.journal {
                let end_name = self.end_names.get(&event.end).map(EndName::to_string);
                journal.packet(end_name.as_deref(), &event);
            }
            for (number, interface) in captures.by_end.get(&event.end).into_iter().flatten() {
                if let Some(capture) = captures.all.get_mut(number) {
                    capture.take(*interface, &event, kernel.date(event.time));
                }
            }
            if let Some(end_name) = self.end_names.get(&event.end) {
                if self.series.want_packets(end_name) {
                    self.series.packet(end_name, &event);
                }
                if captures.watched.contains(&event.end) {
                    self.events.push(Event::Packet(told(end_name, &event)));
                }
            }
        }
        if let Some(journal) = &mut self.journal {
            journal.caught_up(not_kept);
        }
        self.write_captures()
    }

    fn write_captures(&mut self) -> Result<(), WorkerError> {
        let mut ended = Vec::new();
        for (number, capture) in &mut self.captures.all {
            let done = capture.write();
            let waits = !capture.blocks.get_ref().is_empty();
            if done.is_err() || capture.closing && !waits {
                if capture.waits {
                    self.worker.unwatch_fd(capture.file.as_fd());
                }
                ended.push((*number, done.err()));
            } else if waits != capture.waits {
                capture.waits = waits;
                match waits {
                    true => self.worker.watch_fd_writable(capture.file.as_fd())?,
                    false => self.worker.unwatch_fd(capture.file.as_fd()),
                }
            }
        }
        for (number, error) in ended {
            let Some(capture) = self.captures.all.remove(&number) else {
                continue;
            };
            self.untrace(number)?;
            if let Some(error) = error.filter(|_| !capture.closing) {
                let why = match error.kind() {
                    ErrorKind::BrokenPipe => "its reader has gone".to_owned(),
                    _ => format!("writing it: {error}"),
                };
                let error = format!("{why}; {}", counts(capture.written, capture.missed));
                let capture = number;
                self.events.push(Event::CaptureEnded { capture, error });
            }
        }
        Ok(())
    }
}

impl Captures {
    fn is_idle(&self) -> bool {
        self.all.is_empty() && self.watched.is_empty()
    }
}

impl Capture {
    /// A packet at one of its interfaces.
    fn take(&mut self, interface: u32, event: &PacketEvent, date: u64) {
        let wanted = self.filter.as_ref();
        if !wanted.is_none_or(|filter| bpf::wants(filter, &event.bytes, event.len)) {
            return;
        }
        if self.blocks.get_ref().len() + event.bytes.len() > MAX_BUFFERED {
            self.missed += 1;
            self.gap += 1;
            return;
        }
        let mut options = Vec::new();
        options.push(EnhancedPacketOption::Flags(match event.kind {
            PacketKind::Departure | PacketKind::Loss(_) => OUTBOUND,
            PacketKind::Arrival => INBOUND,
            // The direction is not known.
            PacketKind::Drop { .. } => 0,
        }));
        if let (_, Some(reason)) = event.kind.names() {
            let text = format!("dropped: {reason}");
            options.push(EnhancedPacketOption::Comment(text.into()));
        }
        if self.gap > 0 {
            let gap = std::mem::take(&mut self.gap);
            options.push(EnhancedPacketOption::DropCount(gap));
        }
        let kept = event.bytes.len().min(self.snap);
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(date),
            original_len: event.len,
            data: Cow::Borrowed(&event.bytes[..kept]),
            options,
        };
        let done = self.blocks.write_pcapng_block(block);
        done.expect("an interface that was described, and memory");
        self.written += 1;
    }

    /// Writes as much as there is room for.
    fn write(&mut self) -> std::io::Result<()> {
        let buffer = self.blocks.get_mut();
        let mut sent = 0;
        let done = loop {
            if sent == buffer.len() {
                break Ok(());
            }
            match self.file.write(&buffer[sent..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        buffer.drain(..sent);
        done
    }
}

/// What a file begins with: the section, and its interfaces.
fn beginning(names: &[&str], filter: Option<&str>, snap: u32) -> PcapNgWriter<Vec<u8>> {
    let application = format!("vink {}", env!("CARGO_PKG_VERSION"));
    let section = SectionHeaderBlock {
        endianness: Endianness::native(),
        options: vec![SectionHeaderOption::UserApplication(application.into())],
        ..SectionHeaderBlock::default()
    };
    let writer = PcapNgWriter::with_section_header(Vec::new(), section);
    let mut writer = writer.expect("memory");
    for name in names {
        let name = Cow::Borrowed(*name);
        let mut options = vec![
            InterfaceDescriptionOption::IfName(name),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        if let Some(filter) = filter {
            // The first byte says that it is text.
            let bytes = [&[0], filter.as_bytes()].concat();
            options.push(InterfaceDescriptionOption::IfFilter(bytes.into()));
        }
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: snap,
            options,
        };
        writer.write_pcapng_block(block).expect("memory");
    }
    writer
}

/// A packet that was dropped before it had an Ethernet header gets one of zeros, so that all of a
/// file look alike.
pub(super) fn with_header(mut event: PacketEvent) -> PacketEvent {
    const HEADER: u32 = 14;
    if event.headless {
        let kind: [u8; 2] = match event.bytes.first().map(|byte| byte >> 4) {
            Some(4) => [0x08, 0x00],
            Some(6) => [0x86, 0xdd],
            _ => [0, 0],
        };
        event.bytes.splice(..0, [0; 12].into_iter().chain(kind));
        event.len += HEADER;
        event.headless = false;
    }
    event
}

pub(super) fn told(end_name: &EndName, event: &PacketEvent) -> Packet {
    let (kind, reason) = event.kind.names();
    Packet {
        time: event.time,
        end: end_name.to_string(),
        kind: kind.to_owned(),
        reason,
        length: event.len,
        summary: summary(&event.bytes, event.len),
    }
}

/// For messages.
fn counts(written: u64, missed: u64) -> String {
    match missed {
        0 => format!("{written} packets were captured"),
        _ => format!("{written} packets were captured, {missed} were missed"),
    }
}
