//! A long recorded run, written as a lab's worker writes one: what seeks of the page are measured in.
//!
//! Ten sites of ten machines each, at a router; the routers are a ring. Machines send TCP segments to
//! machines of other sites, and each second one is acknowledged. A packet departs and arrives at each hop
//! of its way, or is lost there. Each second a wire of the ring becomes another one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use serde_json::{json, Map, Value};
use vink_record::{Event, Hash, Manifest, PacketOutcome, Part, Record, What, Writer, FORMAT};

use crate::outside;
use crate::programs::Directory;
use crate::side::Round;
use crate::BoxError;

/// Departures, arrivals and losses of packets.
const RECORDS: u64 = 10_000_000;
const SITES: u64 = 10;
const MACHINES: u64 = 10;
/// ns from one packet to the next. In the span that the page asks for there are somewhat more packets
/// than it takes, so that it asks for a shorter one, too.
const APART: u64 = 330_000;
/// ns from a packet's arrival at a router to its departure there.
const FORWARDED: u64 = 4_000;
/// ns from one change of a wire to the next.
const CHANGED: u64 = 1_000_000_000;
/// One packet of so many is lost on each wire.
const LOST: u64 = 2_000;
/// Bytes of a segment's frame and of an acknowledgement's, and how many a journal keeps.
const SEGMENT: u32 = 1514;
const BARE: u32 = 66;
const KEPT: u32 = 160;
const JOURNAL: &str = "run.journal";

/// The 95th percentile of the time from a seek until its picture is drawn, ms.
pub(crate) fn seek(vink: PathBuf) -> Result<Round, BoxError> {
    let folder = Directory::new()?;
    write(folder.path(), RECORDS)?;
    let path = folder.path().to_string_lossy().into_owned();
    let mut round = outside::page("seek", vink, &["--run", &path])?;
    Ok(Box::new(move || {
        // It is there for as long as it is looked at.
        let _run = &folder;
        round()
    }))
}

/// Writes a run of at least so many records, and its manifest.
pub(crate) fn write(folder: &Path, records: u64) -> Result<(), BoxError> {
    let file = BufWriter::new(File::create(folder.join(JOURNAL))?);
    let mut writer = Writer::new(Box::new(file), JOURNAL, 0);
    let mut network = Network::default();
    let mut written = 0;
    let mut now = 0;
    while written < records {
        network.send(now);
        if now / CHANGED < (now + APART) / CHANGED {
            network.change(now);
        }
        now += APART;
        while let Some(record) = network.before(now) {
            written += 1;
            writer.add(&record);
        }
    }
    while let Some(record) = network.before(u64::MAX) {
        now = now.max(record.time);
        writer.add(&record);
    }
    let manifest = Manifest {
        format: FORMAT,
        vink: env!("CARGO_PKG_VERSION").to_owned(),
        image: PathBuf::new(),
        image_hash: Hash::of(&[]),
        what: What::Lab(lab()),
        lab_file: None,
        folder: folder.to_owned(),
        env: Vec::new(),
        terminals: None,
        journal: JOURNAL.into(),
        parent: None,
        inputs: false,
        changes: true,
        totals: Some(writer.finish(now)?),
    };
    Ok(manifest.write(&folder.join("manifest.json"))?)
}

/// The lab, as a manifest has it.
fn lab() -> Value {
    let mut machines = Map::new();
    let mut interface = |machine: String, name: String, wire: String| {
        let machine = machines
            .entry(machine)
            .or_insert(json!({ "interfaces": {} }));
        machine["interfaces"][name] = json!({ "wire": wire });
    };
    for site in 0..SITES {
        let next = (site + 1) % SITES;
        interface(format!("r{site}"), "next".into(), format!("ring{site}"));
        interface(format!("r{next}"), "before".into(), format!("ring{site}"));
        for machine in 0..MACHINES {
            let wire = format!("lan{site}-{machine}");
            interface(format!("m{site}-{machine}"), "eth0".into(), wire.clone());
            interface(format!("r{site}"), format!("lan{machine}"), wire);
        }
    }
    json!({ "name": "recorded", "time": "virtual", "machines": machines })
}

/// What is to happen to packets.
#[derive(Default)]
struct Network {
    /// By time, and in the order in which it was decided.
    events: BTreeMap<(u64, u64), Record>,
    decided: u64,
    sent: u64,
    random: u64,
}

/// A machine's site, and its number there.
type Place = (u64, u64);

impl Network {
    /// What happens next, if that is before a time.
    fn before(&mut self, time: u64) -> Option<Record> {
        let first = self.events.first_entry()?;
        (first.key().0 < time).then(|| first.remove())
    }

    /// Below a number; the same ones in each run (Knuth's MMIX).
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = self.random.wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    /// A segment of one of a hundred connections, or an acknowledgement.
    fn send(&mut self, now: u64) {
        let from = (self.below(SITES), self.below(MACHINES));
        let to = ((from.0 + 1 + from.1 % 3) % SITES, (from.1 + 3) % MACHINES);
        self.sent += 1;
        match self.sent % 3 {
            0 => self.pass(now, to, from, BARE),
            _ => self.pass(now, from, to, SEGMENT),
        }
    }

    /// A wire becomes slower; that is told, and no packet has it.
    fn change(&mut self, now: u64) {
        let nth = now / CHANGED;
        let part = Part {
            name: format!("wire ring{}", nth % SITES),
            state: json!({ "delay": format!("{nth}ms"), "bus": false }).to_string(),
        };
        self.happens(now, Event::Changed(vec![part]));
    }

    /// Both ends of each wire between two machines, the nearer end first.
    fn way(from: Place, to: Place) -> Vec<[String; 2]> {
        let [first, last] = [from, to].map(|(site, machine)| {
            [
                format!("m{site}-{machine}:eth0"),
                format!("r{site}:lan{machine}"),
            ]
        });
        let mut way = vec![first];
        let ahead = (to.0 + SITES - from.0) % SITES;
        let (steps, step, out, into) = match ahead <= SITES / 2 {
            true => (ahead, 1, "next", "before"),
            false => (SITES - ahead, SITES - 1, "before", "next"),
        };
        let mut site = from.0;
        for _ in 0..steps {
            let next = (site + step) % SITES;
            way.push([format!("r{site}:{out}"), format!("r{next}:{into}")]);
            site = next;
        }
        let [end, router] = last;
        way.push([router, end]);
        way
    }

    /// A packet goes its way.
    fn pass(&mut self, mut now: u64, from: Place, to: Place, length: u32) {
        let mut frame = frame(self.sent as u32, from, to, length);
        for (hop, [near, far]) in Network::way(from, to).into_iter().enumerate() {
            let delay = match near.starts_with('m') || far.starts_with('m') {
                true => 300_000,
                false => 5_000_000,
            };
            let delay = delay + self.below(100_000);
            // The hop's addresses, and the time to live.
            frame[5] = hop as u8;
            frame[22] = 64 - hop as u8;
            let packet = |place: &str, outcome| Event::Packet {
                place: place.to_owned(),
                outcome,
                length,
                hash: Hash::number(&frame),
                head: frame.clone(),
            };
            let departs = packet(&near, PacketOutcome::Departure);
            if self.below(LOST) == 0 {
                let lost = packet(&near, PacketOutcome::Loss("random".to_owned()));
                self.happens(now, departs);
                return self.happens(now, lost);
            }
            let arrives = packet(&far, PacketOutcome::Arrival);
            self.happens(now, departs);
            now += delay;
            self.happens(now, arrives);
            now += FORWARDED;
        }
    }

    fn happens(&mut self, time: u64, event: Event) {
        self.decided += 1;
        self.events
            .insert((time, self.decided), Record { time, event });
    }
}

/// The first bytes of a TCP segment's frame: HTTP's, with a time stamp as an option.
fn frame(number: u32, from: Place, to: Place, length: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 8, 0];
    let total = (length - 14) as u16;
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend((number as u16).to_be_bytes());
    frame.extend([0x40, 0, 64, 6, 0, 0]);
    for (site, machine) in [from, to] {
        frame.extend([10, 0, site as u8, machine as u8 + 1]);
    }
    let ports = match length {
        BARE => [80, 40_000 + to.1 as u16],
        _ => [40_000 + from.1 as u16, 80],
    };
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend(number.wrapping_mul(1448).to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.extend([0x80, 0x10, 1, 0xf6]);
    let check = Hash::number(&number.to_be_bytes());
    frame.extend(&check.to_be_bytes()[..2]);
    frame.extend([0, 0, 1, 1, 8, 10]);
    frame.extend((number / 3).to_be_bytes());
    frame.extend((number / 4).to_be_bytes());
    // What is sent is compressed already.
    let data = (u64::from(number)..).flat_map(|nth| Hash::number(&nth.to_be_bytes()).to_be_bytes());
    let left = length.min(KEPT) as usize - frame.len();
    frame.extend(data.take(left));
    frame
}
