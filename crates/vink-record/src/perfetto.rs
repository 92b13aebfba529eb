//! A journal as a trace for Perfetto (ui.perfetto.dev), in its own format.
//!
//! Each machine has a track, and below it one for each interface and each thread. A packet is a slice from when it departs until it arrives,
//! below the interface that sent it; as many tracks of one name as there are packets under way at once, which Perfetto shows as one. From the slice a
//! flow leads to the arrival, an instant at the other interface. An arrival belongs to the oldest packet under way with the same bytes,
//! or, of a packet that came twice or to several, to the last one that had them.
//!
//! The messages are the few fields of perfetto/trace/trace_packet.proto and track_event/*.proto that this takes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Read, Write};

use prost::Message;

use crate::journal::Reader;
use crate::record::{Event, Fate};
use crate::summary;
use crate::Error;

/// Of the one writer of a trace.
const SEQUENCE: u32 = 1;
/// At the beginning of a sequence: nothing was interned before (`SEQ_INCREMENTAL_STATE_CLEARED`).
const CLEARED: u32 = 1;
const BEGIN: i32 = 1;
const END: i32 = 2;
const INSTANT: i32 = 3;

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

/// Writes a trace of all packets and calls.
///
/// # Errors
/// As [`Reader::next_record`]; [`Error::Host`]: writing, to what is called `name`.
pub fn perfetto<R: Read>(mut from: Reader<R>, mut to: impl Write, name: &str) -> Result<(), Error> {
    let mut picture = Picture::default();
    while let Some(record) = from.next_record()? {
        picture.add(record.time, record.event);
    }
    let bytes = picture.finish().encode_to_vec();
    to.write_all(&bytes)
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
                fate,
                length,
                hash,
                head,
            } => self.packet(time, place, &fate, hash, summary(&head, length)),
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
            | Event::Met { .. } => {}
        }
    }

    fn packet(&mut self, time: u64, place: String, fate: &Fate, hash: u64, line: String) {
        let here = self.interface(&place);
        match fate {
            Fate::Departure => {
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
            Fate::Arrival => {
                let flow = self.land(time, hash, |packet| packet.from != place);
                let flow = flow.or_else(|| self.arrived.get(&hash).copied());
                let event = self.event(time, here, INSTANT, "packet", Some(line));
                if let Some(flow) = flow {
                    event.terminating_flow_ids = vec![flow];
                    self.arrived.insert(hash, flow);
                }
            }
            Fate::Loss(reason) => {
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
        category: &str,
        name: Option<String>,
    ) -> &mut TrackEvent {
        let event = TrackEvent {
            kind: Some(kind),
            track_uuid: Some(track),
            categories: match kind {
                END => Vec::new(),
                _ => vec![category.to_owned()],
            },
            name,
            ..TrackEvent::default()
        };
        self.events.push(TracePacket {
            timestamp: Some(time),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            ..TracePacket::default()
        });
        let last = self.events.last_mut().and_then(|p| p.track_event.as_mut());
        last.expect("just added")
    }

    fn finish(mut self) -> Trace {
        let mut tracks: Vec<Track> = self.tracks.into_values().collect();
        tracks.sort_by_key(|track| track.uuid);
        let mut packet: Vec<TracePacket> = tracks
            .into_iter()
            .map(|track| TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE),
                track_descriptor: Some(TrackDescriptor {
                    uuid: Some(track.uuid),
                    name: Some(track.name),
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
        Trace { packet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::journal;
    use crate::record::Record;

    fn packet(time: u64, place: &str, fate: Fate, hash: u64) -> Record {
        let event = Event::Packet {
            place: place.to_owned(),
            fate,
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
        Trace::decode(&file[..]).unwrap()
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
            packet(10, "a:eth0", Fate::Departure, 1),
            packet(11, "a:eth0", Fate::Departure, 1),
            packet(12, "b:eth0", Fate::Departure, 2),
            packet(20, "b:eth0", Fate::Arrival, 1),
            packet(21, "b:eth0", Fate::Arrival, 1),
            packet(22, "b:eth0", Fate::Arrival, 1),
            packet(23, "b:eth0", Fate::Loss("random".to_owned()), 2),
            packet(30, "a:eth0", Fate::Arrival, 9),
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
        let found: Vec<_> = found.into_iter().map(|e| (e.1, e.2)).collect();
        let expected = [(INSTANT, 0), (BEGIN, 1), (END, 1), (BEGIN, 1), (END, 9)];
        assert_eq!(found, expected);
    }
}
