//! A journal as a trace for Perfetto (ui.perfetto.dev), in its own format.
//!
//! Each machine has a track, and below it one for each interface and each thread. A packet is a
//! slice from when it departs until it arrives, below the interface that sent it; as many tracks of
//! one name as there are packets under way at once, which Perfetto shows as one. From the slice a
//! flow leads to the arrival, an instant at the other interface. An arrival belongs to the oldest
//! packet under way with the same bytes, or, of a packet that came twice or to several, to the last
//! one that had them.
//!
//! The messages are the few fields of perfetto/trace/trace_packet.proto and track_event/*.proto
//! that this takes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Read, Write};

use crate::journal::Reader;
use crate::protobuf::Message;
use crate::record::{Event, PacketOutcome};
use crate::summary;
use crate::Error;

/// Of the one writer of a trace.
const SEQUENCE: u32 = 1;
/// At the beginning of a sequence: nothing was interned before (`SEQ_INCREMENTAL_STATE_CLEARED`).
const CLEARED: u32 = 1;
const BEGIN: i32 = 1;
const END: i32 = 2;
const INSTANT: i32 = 3;

#[derive(Default)]
struct TracePacket {
    timestamp: Option<u64>,
    track_event: Option<TrackEvent>,
    sequence_flags: Option<u32>,
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Default)]
struct TrackDescriptor {
    uuid: u64,
    name: String,
    parent_uuid: Option<u64>,
}

#[derive(Default)]
struct TrackEvent {
    kind: i32,
    track_uuid: u64,
    category: Option<&'static str>,
    name: Option<String>,
    flow_ids: Vec<u64>,
    terminating_flow_ids: Vec<u64>,
}

impl TracePacket {
    fn encode(&self) -> Message {
        let mut message = Message::default();
        if let Some(timestamp) = self.timestamp {
            message.varint(8, timestamp);
        }
        message.varint(10, SEQUENCE.into());
        if let Some(event) = &self.track_event {
            message.message(11, &event.encode());
        }
        if let Some(flags) = self.sequence_flags {
            message.varint(13, flags.into());
        }
        if let Some(descriptor) = &self.track_descriptor {
            message.message(60, &descriptor.encode());
        }
        message
    }
}

impl TrackDescriptor {
    fn encode(&self) -> Message {
        let mut message = Message::default();
        message.varint(1, self.uuid);
        message.text(2, &self.name);
        if let Some(parent) = self.parent_uuid {
            message.varint(5, parent);
        }
        message
    }
}

impl TrackEvent {
    fn encode(&self) -> Message {
        let mut message = Message::default();
        message.varint(9, self.kind as u64);
        message.varint(11, self.track_uuid);
        if let Some(category) = self.category {
            message.text(22, category);
        }
        if let Some(name) = &self.name {
            message.text(23, name);
        }
        for flow in &self.flow_ids {
            message.fixed64(47, *flow);
        }
        for flow in &self.terminating_flow_ids {
            message.fixed64(48, *flow);
        }
        message
    }
}

/// Writes a trace of all packets and calls.
///
/// # Errors
/// As [`Reader::next_record`]; [`Error::Host`]: writing, to what is called `name`.
pub fn perfetto<R: Read>(mut from: Reader<R>, mut to: impl Write, name: &str) -> Result<(), Error> {
    let mut picture = Picture::default();
    while let Some(record) = from.next_record()? {
        picture.add(record.time, record.event);
    }
    to.write_all(picture.finish().bytes())
        .and_then(|()| to.flush())
        .map_err(Error::host(format!("writing {name}")))
}

/// Whose a track is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Machine(String),
    Interface(String),
    /// Packets under way from there; there may be several tracks.
    Wire(String, usize),
    Thread(u64),
}

struct Track {
    uuid: u64,
    parent: Option<u64>,
    name: String,
}

/// A packet that has departed.
#[derive(Clone)]
struct UnderWay {
    from: String,
    lane: usize,
    flow: u64,
}

#[derive(Default)]
struct Picture {
    tracks: BTreeMap<Owner, Track>,
    /// Which lanes of an interface are taken.
    lanes: HashMap<String, Vec<bool>>,
    under_way: HashMap<u64, VecDeque<UnderWay>>,
    /// The flow of the last packet with these bytes that has arrived.
    arrived: HashMap<u64, u64>,
    flows: u64,
    events: Vec<TracePacket>,
}

impl Picture {
    fn add(&mut self, time: u64, event: Event) {
        match event {
            Event::Packet {
                place,
                outcome,
                length,
                hash,
                head,
            } => self.packet(time, place, &outcome, hash, summary(&head, length)),
            Event::Call {
                thread,
                began,
                text,
                ..
            } => {
                let track = self.thread(thread);
                self.event(began, track, BEGIN, "call", Some(text));
                self.event(time, track, END, "call", None);
            }
            Event::Thread {
                thread,
                machine,
                process,
            } => {
                let parent = self.machine(&machine);
                let name = match thread == process {
                    true => format!("thread {thread}"),
                    false => format!("thread {thread} of {process}"),
                };
                self.track(Owner::Thread(thread), Some(parent), name);
            }
            Event::Executed { thread, path, .. } => {
                let track = self.thread(thread);
                let program = path.rsplit('/').next().unwrap_or_default();
                let name = format!("{program} (thread {thread})");
                if let Some(track) = self.tracks.get_mut(&Owner::Thread(thread)) {
                    track.name = name;
                }
                self.event(
                    time,
                    track,
                    INSTANT,
                    "program",
                    Some(format!("runs {path}")),
                );
            }
            Event::Started { .. }
            | Event::Output { .. }
            | Event::Ended { .. }
            | Event::Line { .. }
            | Event::Asked(_)
            | Event::Clock(_)
            | Event::Input { .. }
            | Event::Changed(_)
            | Event::Met { .. } => {}
        }
    }

    fn packet(
        &mut self,
        time: u64,
        place: String,
        outcome: &PacketOutcome,
        hash: u64,
        line: String,
    ) {
        let here = self.interface(&place);
        match outcome {
            PacketOutcome::Departure => {
                self.flows += 1;
                let flow = self.flows;
                let lanes = self.lanes.entry(place.clone()).or_default();
                let free = lanes.iter().position(|taken| !taken);
                let lane = free.unwrap_or(lanes.len());
                match free {
                    Some(lane) => lanes[lane] = true,
                    None => lanes.push(true),
                }
                let (_, interface) = place.split_once(':').unwrap_or_default();
                let owner = Owner::Wire(place.clone(), lane);
                let name = format!("{interface}: under way");
                let track = self.track(owner, Some(here), name);
                let event = self.event(time, track, BEGIN, "packet", Some(line));
                event.flow_ids = vec![flow];
                let packets = self.under_way.entry(hash).or_default();
                packets.push_back(UnderWay {
                    from: place,
                    lane,
                    flow,
                });
            }
            PacketOutcome::Arrival => {
                let flow = self.land(time, hash, |packet| packet.from != place);
                let flow = flow.or_else(|| self.arrived.get(&hash).copied());
                let event = self.event(time, here, INSTANT, "packet", Some(line));
                if let Some(flow) = flow {
                    event.terminating_flow_ids = vec![flow];
                    self.arrived.insert(hash, flow);
                }
            }
            PacketOutcome::Loss(reason) => {
                let flow = self.land(time, hash, |packet| packet.from == place);
                let name = format!("lost ({reason}): {line}");
                let event = self.event(time, here, INSTANT, "packet", Some(name));
                event.terminating_flow_ids = flow.into_iter().collect();
            }
        }
    }

    /// A packet is under way no more: its flow.
    fn land(&mut self, time: u64, hash: u64, is_it: impl Fn(&UnderWay) -> bool) -> Option<u64> {
        let packets = self.under_way.get_mut(&hash)?;
        let which = packets.iter().position(is_it)?;
        let UnderWay { from, lane, flow } = packets.remove(which)?;
        if packets.is_empty() {
            self.under_way.remove(&hash);
        }
        if let Some(lanes) = self.lanes.get_mut(&from) {
            lanes[lane] = false;
        }
        let track = self.tracks.get(&Owner::Wire(from, lane))?.uuid;
        self.event(time, track, END, "packet", None);
        Some(flow)
    }

    fn machine(&mut self, machine: &str) -> u64 {
        self.track(Owner::Machine(machine.to_owned()), None, machine.to_owned())
    }

    fn interface(&mut self, place: &str) -> u64 {
        let (machine, interface) = place.split_once(':').unwrap_or((place, ""));
        let parent = self.machine(machine);
        let owner = Owner::Interface(place.to_owned());
        self.track(owner, Some(parent), interface.to_owned())
    }

    fn thread(&mut self, thread: u64) -> u64 {
        self.track(Owner::Thread(thread), None, format!("thread {thread}"))
    }

    fn track(&mut self, owner: Owner, parent: Option<u64>, name: String) -> u64 {
        let uuid = self.tracks.len() as u64 + 1;
        let new = Track { uuid, parent, name };
        self.tracks.entry(owner).or_insert(new).uuid
    }

    fn event(
        &mut self,
        time: u64,
        track: u64,
        kind: i32,
        category: &'static str,
        name: Option<String>,
    ) -> &mut TrackEvent {
        let event = TrackEvent {
            kind,
            track_uuid: track,
            category: (kind != END).then_some(category),
            name,
            ..TrackEvent::default()
        };
        self.events.push(TracePacket {
            timestamp: Some(time),
            track_event: Some(event),
            ..TracePacket::default()
        });
        let last = self.events.last_mut().and_then(|p| p.track_event.as_mut());
        last.expect("just added")
    }

    /// The whole trace: packets are its first field.
    fn finish(mut self) -> Message {
        let mut tracks: Vec<Track> = self.tracks.into_values().collect();
        tracks.sort_by_key(|track| track.uuid);
        let mut packet: Vec<TracePacket> = tracks
            .into_iter()
            .map(|track| TracePacket {
                track_descriptor: Some(TrackDescriptor {
                    uuid: track.uuid,
                    name: track.name,
                    parent_uuid: track.parent,
                }),
                ..TracePacket::default()
            })
            .collect();
        if let Some(first) = packet.first_mut() {
            first.sequence_flags = Some(CLEARED);
        }
        // A call is known at its end, and has begun before.
        self.events.sort_by_key(|event| event.timestamp);
        packet.extend(self.events);
        let mut trace = Message::default();
        for packet in &packet {
            trace.message(1, &packet.encode());
        }
        trace
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::{perfetto, BEGIN, CLEARED, END, INSTANT, SEQUENCE};
    use std::collections::HashMap;

    use crate::journal::tests::journal;
    use crate::journal::Reader;
    use crate::record::Record;
    use crate::record::{Event, PacketOutcome};

    // Read by another implementation, by the fields' numbers and types of Perfetto's own
    // definition.
    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        timestamp: Option<u64>,
        #[prost(uint32, optional, tag = "10")]
        trusted_packet_sequence_id: Option<u32>,
        #[prost(message, optional, tag = "11")]
        track_event: Option<TrackEvent>,
        #[prost(uint32, optional, tag = "13")]
        sequence_flags: Option<u32>,
        #[prost(message, optional, tag = "60")]
        track_descriptor: Option<TrackDescriptor>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct TrackDescriptor {
        #[prost(uint64, optional, tag = "1")]
        uuid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        name: Option<String>,
        #[prost(uint64, optional, tag = "5")]
        parent_uuid: Option<u64>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct TrackEvent {
        #[prost(int32, optional, tag = "9")]
        kind: Option<i32>,
        #[prost(uint64, optional, tag = "11")]
        track_uuid: Option<u64>,
        #[prost(string, repeated, tag = "22")]
        categories: Vec<String>,
        #[prost(string, optional, tag = "23")]
        name: Option<String>,
        #[prost(fixed64, repeated, packed = "false", tag = "47")]
        flow_ids: Vec<u64>,
        #[prost(fixed64, repeated, packed = "false", tag = "48")]
        terminating_flow_ids: Vec<u64>,
    }

    fn packet(time: u64, place: &str, outcome: PacketOutcome, hash: u64) -> Record {
        let event = Event::Packet {
            place: place.to_owned(),
            outcome,
            length: 60,
            hash,
            head: Vec::new(),
        };
        Record { time, event }
    }

    fn trace(records: &[Record]) -> Trace {
        let (bytes, _) = journal(records);
        let mut file = Vec::new();
        let reader = Reader::new(&bytes[..], "memory").unwrap();
        perfetto(reader, &mut file, "memory").unwrap();
        let trace = Trace::decode(&file[..]).unwrap();
        // Nothing is in it that the definition does not have, and all is written the shortest way.
        assert!(trace.encode_to_vec() == file);
        let packets = trace.packet.iter();
        let sequences = packets.map(|packet| packet.trusted_packet_sequence_id);
        assert!(sequences.eq(vec![Some(SEQUENCE); trace.packet.len()]));
        let flags: Vec<_> = trace.packet.iter().map(|p| p.sequence_flags).collect();
        assert_eq!(flags[0], Some(CLEARED));
        assert!(flags[1..].iter().all(Option::is_none));
        trace
    }

    /// Track's name, kind, time, flows that begin and end there.
    type Seen = (String, i32, u64, Vec<u64>, Vec<u64>);

    fn events(trace: &Trace) -> Vec<Seen> {
        let descriptors = trace
            .packet
            .iter()
            .filter_map(|p| p.track_descriptor.as_ref());
        let names: HashMap<_, _> = descriptors.map(|d| (d.uuid, d.name.clone())).collect();
        let packets = trace.packet.iter();
        packets
            .filter_map(|p| Some((p.timestamp?, p.track_event.as_ref()?)))
            .map(|(time, e)| {
                let name = names[&e.track_uuid].clone().unwrap();
                let (begins, ends) = (e.flow_ids.clone(), e.terminating_flow_ids.clone());
                (name, e.kind.unwrap(), time, begins, ends)
            })
            .collect()
    }

    #[test]
    fn packets_flow_from_departure_to_arrival() {
        let trace = trace(&[
            packet(10, "a:eth0", PacketOutcome::Departure, 1),
            packet(11, "a:eth0", PacketOutcome::Departure, 1),
            packet(12, "b:eth0", PacketOutcome::Departure, 2),
            packet(20, "b:eth0", PacketOutcome::Arrival, 1),
            packet(21, "b:eth0", PacketOutcome::Arrival, 1),
            packet(22, "b:eth0", PacketOutcome::Arrival, 1),
            packet(23, "b:eth0", PacketOutcome::Loss("random".to_owned()), 2),
            packet(30, "a:eth0", PacketOutcome::Arrival, 9),
        ]);
        let way = |name: &str| format!("{name}: under way");
        let (eth0, way) = ("eth0".to_owned(), way("eth0"));
        assert_eq!(
            events(&trace),
            [
                (way.clone(), BEGIN, 10, vec![1], vec![]),
                (way.clone(), BEGIN, 11, vec![2], vec![]),
                (way.clone(), BEGIN, 12, vec![3], vec![]),
                (way.clone(), END, 20, vec![], vec![]),
                (eth0.clone(), INSTANT, 20, vec![], vec![1]),
                (way.clone(), END, 21, vec![], vec![]),
                (eth0.clone(), INSTANT, 21, vec![], vec![2]),
                // It came twice.
                (eth0.clone(), INSTANT, 22, vec![], vec![2]),
                (way, END, 23, vec![], vec![]),
                (eth0.clone(), INSTANT, 23, vec![], vec![3]),
                // It was under way before the journal began.
                (eth0, INSTANT, 30, vec![], vec![]),
            ]
        );
        // Two at a time are on two tracks, below their interface's, below its machine's.
        let tracks = trace
            .packet
            .iter()
            .filter_map(|p| p.track_descriptor.clone());
        let tracks: Vec<_> = tracks.map(|t| (t.uuid.unwrap(), t.parent_uuid)).collect();
        let expected = [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(2))];
        assert_eq!(tracks[..4], expected);
        assert_eq!(tracks[4..], [(5, None), (6, Some(5)), (7, Some(6))]);
    }

    #[test]
    fn calls_are_slices_of_their_threads() {
        let call = |began, time, text: &str| Record {
            time,
            event: Event::Call {
                thread: 1,
                began,
                text: text.to_owned(),
                hash: 0,
            },
        };
        let thread = Event::Thread {
            thread: 1,
            machine: "m".to_owned(),
            process: 1,
        };
        let executed = Event::Executed {
            thread: 1,
            path: "/usr/bin/curl".to_owned(),
            hash: None,
        };
        let at = |time, event| Record { time, event };
        let trace = trace(&[
            at(0, thread),
            at(0, executed),
            call(1, 1, "socket() = 3"),
            call(1, 9, "connect(3) = 0"),
        ]);
        let name = "curl (thread 1)".to_owned();
        let found = events(&trace);
        assert!(found.iter().all(|event| event.0 == name), "{found:?}");
        let of = |packet: &TracePacket| packet.track_event.clone();
        let told: Vec<_> = trace.packet.iter().filter_map(of).collect();
        let told: Vec<_> = told.iter().map(|e| (&e.categories[..], &e.name)).collect();
        assert_eq!(
            told[3],
            (&["call".to_owned()][..], &Some("connect(3) = 0".to_owned()))
        );
        assert_eq!(told[4], (&[][..], &None));
        let found: Vec<_> = found.into_iter().map(|e| (e.1, e.2)).collect();
        let expected = [(INSTANT, 0), (BEGIN, 1), (END, 1), (BEGIN, 1), (END, 9)];
        assert_eq!(found, expected);
    }
}
