//! The index of a journal, and what is told of a run by it: the same as by reading all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vink_record::{
    index_of, kind, Counters, Event, History, Index, PacketOutcome, Part, Parts, Reader, Record,
    Request, Stop, Tail, Writer,
};

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("vink-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn journal(&self) -> PathBuf {
        self.0.join("run.journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A frame by which packets are told apart.
fn frame(number: u64) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([
        8,
        0,
        0x45,
        0,
        0,
        28,
        (number >> 8) as u8,
        number as u8,
        0,
        0,
        64,
    ]);
    frame.extend([
        [1, 6, 17][number as usize % 3],
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ]);
    frame.extend((number as u32 % 5000).to_be_bytes());
    frame.extend([0; 12 + 60]);
    frame
}

/// A run of so many packets over three wires, with calls, programs, requests and breakpoints.
fn run(packets: u64, seed: u64) -> Vec<Record> {
    let mut random = Random(seed);
    let mut records = Vec::new();
    let mut arrivals: BTreeMap<(u64, u64), Record> = BTreeMap::new();
    let mut time = 0;
    for number in 0..packets {
        // Bursts, and sometimes seconds of nothing.
        time += match random.below(1000) {
            0 => random.below(3_000_000_000),
            1..=300 => 0,
            _ => random.below(200_000),
        };
        while let Some(next) = arrivals.first_entry().filter(|next| next.key().0 <= time) {
            records.push(next.remove());
        }
        let from = random.below(6);
        let packet = |place: u64, time, outcome| Record {
            time,
            event: Event::Packet {
                place: format!("m{place}:eth0"),
                outcome,
                length: 60 + (number % 1400) as u32,
                hash: number + 1,
                head: frame(number),
            },
        };
        let loss = |reason: &str| PacketOutcome::Loss(reason.to_owned());
        let later = time + 1 + random.below(50_000_000);
        let becomes = random.below(20);
        // One that a full queue drops does not depart.
        records.push(match becomes {
            2 => packet(from, time, loss("QDISC_DROP")),
            _ => packet(from, time, PacketOutcome::Departure),
        });
        match becomes {
            // It leaves the lab.
            0 | 2 => {}
            1 => records.push(packet(from, time, loss("random"))),
            _ => {
                let arrival = packet(from ^ 1, later, PacketOutcome::Arrival);
                arrivals.insert((later, 2 * number), arrival);
                // No socket waits for it.
                if becomes == 3 {
                    let dropped = packet(from ^ 1, later, loss("NO_SOCKET"));
                    arrivals.insert((later, 2 * number + 1), dropped);
                }
            }
        }
        let event = match random.below(100) {
            0 => Event::Asked(Request {
                actor: String::new(),
                method: "PATCH".to_owned(),
                path: "/v1/labs/x/wires/w1".to_owned(),
                body: "{}".to_owned(),
            }),
            1 => Event::Met {
                breakpoint: "b".to_owned(),
                number,
                place: format!("m{from}:eth0"),
                what: "stop".to_owned(),
            },
            2 => Event::Started {
                program: number,
                machine: format!("m{from}"),
                words: vec!["ping".to_owned()],
            },
            3 => Event::Ended {
                program: number.saturating_sub(random.below(300)),
                code: -9,
                report: String::new(),
            },
            // Some go, some come again.
            4 => Event::Changed(
                (0..1 + random.below(3))
                    .map(|_| Part {
                        name: format!("wire w{}", random.below(40)),
                        state: match random.below(3) {
                            0 => String::new(),
                            _ => format!("{{\"delay\":\"{number}ns\"}}"),
                        },
                    })
                    .collect(),
            ),
            5..=20 => Event::Call {
                thread: 1,
                began: time,
                text: format!("poll({number}) = 1"),
                hash: 0,
            },
            _ => continue,
        };
        records.push(Record { time, event });
    }
    records.extend(arrivals.into_values());
    records
}

fn write(to: &Path, records: &[Record]) {
    let file = std::io::BufWriter::new(std::fs::File::create(to).unwrap());
    let mut writer = Writer::new(Box::new(file), "journal", 7);
    records.iter().for_each(|record| writer.add(record));
    let end = records.iter().map(|record| record.time).max().unwrap_or(0);
    writer.finish(end).unwrap();
}

fn read(journal: &Path) -> (Vec<Record>, bool) {
    let bytes = std::fs::read(journal).unwrap();
    let mut reader = Reader::new(&*bytes, "journal").unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    (records, matches!(reader.tail(), Some(Tail::Cut(_))))
}

/// What is told of a run at random times, beside what all of its records say.
fn check(history: &History, records: &[Record], random: &mut Random, rounds: usize) {
    let index = history.index();
    assert_eq!(index.records, records.len() as u64);
    let latest = records.iter().map(|record| record.time).max().unwrap_or(0);
    for round in 0..rounds {
        let mut from = random.below(latest + 2);
        if round % 3 == 0 && !records.is_empty() {
            // Where something happens.
            from = records[random.below(records.len() as u64) as usize].time;
        }
        let to = from + random.below(30_000_000);

        let found = history
            .events((from, to), None, &|_| true, usize::MAX)
            .unwrap();
        let inside = |record: &&Record| (from..=to).contains(&record.time);
        let expected: Vec<&Record> = records.iter().filter(inside).collect();
        assert!(found
            .iter()
            .map(|one| &one.record)
            .eq(expected.iter().copied()));
        for one in found.iter().take(3) {
            assert_eq!(records[one.number as usize], one.record);
            let again = history.record(one.number).unwrap();
            assert_eq!(again.as_ref(), Some(one));
        }

        let moment = history.at(from).unwrap();
        let until = |record: &&Record| record.time <= from;
        let mut counted = BTreeMap::<&str, Counters>::new();
        let mut revision = 0;
        for record in records.iter().filter(until) {
            match &record.event {
                Event::Packet {
                    place,
                    outcome,
                    length,
                    ..
                } => {
                    let own = counted.entry(place).or_default();
                    match outcome {
                        PacketOutcome::Departure => {
                            own.sent += 1;
                            own.sent_bytes += u64::from(*length);
                        }
                        PacketOutcome::Arrival => {
                            own.received += 1;
                            own.received_bytes += u64::from(*length);
                        }
                        PacketOutcome::Loss(reason) => own.lost += u64::from(reason != "NO_SOCKET"),
                    }
                }
                Event::Asked(_) => revision += 1,
                _ => {}
            }
        }
        assert_eq!(moment.revision, revision);
        for (end, counters) in index.ends.iter().zip(&moment.counted) {
            let expected = counted.get(end.as_str()).copied().unwrap_or_default();
            assert_eq!(*counters, expected, "{end} at {from}");
        }

        let mut parts = Parts::default();
        for record in records {
            let Event::Changed(states) = &record.event else {
                continue;
            };
            if record.time > from {
                parts.until = Some(record.time);
                break;
            }
            (parts.changes, parts.since) = (parts.changes + 1, record.time);
            for part in states {
                parts.changed.insert(part.name.clone(), part.state.clone());
            }
        }
        assert_eq!(history.parts(from).unwrap(), parts, "at {from}");

        let wanted = [8, 9, 10, 15, 16][random.below(5) as usize];
        let is_it = |record: &Record| kind(record) == Some(wanted);
        let mut numbered = records.iter().enumerate();
        let next = numbered.find(|(_, record)| record.time > from && is_it(record));
        let found = history.next(from, &[wanted], false).unwrap();
        let number = |one: vink_record::Numbered| one.number as usize;
        assert_eq!(found.map(number), next.map(|(at, _)| at));
        let mut numbered = records.iter().enumerate();
        let before = numbered.rfind(|(_, record)| record.time < from && is_it(record));
        let found = history.next(from, &[wanted], true).unwrap();
        assert_eq!(found.map(number), before.map(|(at, _)| at));

        let bins = 1 + random.below(300);
        let line = history
            .timeline(from, from + random.below(latest / 2 + 2), bins, None)
            .unwrap();
        let mut sums = BTreeMap::<(u8, u64), u64>::new();
        for record in records {
            let at = record.time / line.width;
            let first = line.from / line.width;
            if let (Some(kind), true) = (kind(record), (first..first + line.bins).contains(&at)) {
                *sums.entry((kind, at - first)).or_default() += 1;
            }
        }
        for row in &line.rows {
            for (at, count) in row.counts.iter().enumerate() {
                let expected = sums.remove(&(row.kind, at as u64)).unwrap_or(0);
                assert_eq!(*count, expected, "kind {} in bin {at}", row.kind);
            }
        }
        assert!(sums.is_empty(), "{sums:?}");
    }
}

#[test]
fn any_moment_is_told_as_by_reading_everything() {
    for (packets, seed) in [(0, 1), (1, 2), (300, 3), (12_000, 4)] {
        let folder = Folder::new(&format!("index-{packets}"));
        let records = run(packets, seed);
        write(&folder.journal(), &records);
        let (history, made) = History::open(&folder.journal()).unwrap();
        assert!(made);
        check(&history, &records, &mut Random(seed), 10);
        let (again, made) = History::open(&folder.journal()).unwrap();
        assert!(!made, "it is there, and fits");
        assert_eq!(again.index(), history.index());
        check(&again, &records, &mut Random(seed + 1), 5);
        if packets > 10_000 {
            let length = |path: &Path| std::fs::metadata(path).unwrap().len();
            let (index, journal) = (
                length(&index_of(&folder.journal())),
                length(&folder.journal()),
            );
            assert!(index * 20 <= journal, "{index} bytes for {journal}");
            assert!(history.index().keyframes.len() > 1);
        }
    }
}

#[test]
fn packets_under_way_are_found_from_before_the_span() {
    let folder = Folder::new("index-flights");
    let records = run(8_000, 9);
    write(&folder.journal(), &records);
    let (history, _) = History::open(&folder.journal()).unwrap();
    let mut random = Random(5);
    let mut ways = BTreeMap::<u64, (u64, Option<u64>, bool)>::new();
    for record in &records {
        if let Event::Packet { outcome, hash, .. } = &record.event {
            match outcome {
                PacketOutcome::Departure => drop(ways.insert(*hash, (record.time, None, false))),
                PacketOutcome::Loss(reason) if reason == "NO_SOCKET" => {}
                outcome => {
                    let way = ways.entry(*hash).or_insert((record.time, None, false));
                    (way.1, way.2) = (Some(record.time), *outcome != PacketOutcome::Arrival);
                }
            }
        }
    }
    for _ in 0..15 {
        let from = random.below(records.last().unwrap().time);
        let to = from + random.below(20_000_000);
        let (flights, more) = history.flights(from, to, usize::MAX).unwrap();
        assert_eq!(more, 0);
        // Those that never arrive are kept for a while only, and few of them.
        let found: BTreeMap<u64, _> = flights
            .iter()
            .filter(|one| one.arrived.is_some())
            .map(|one| (one.packet.hash, (one.packet.sent, one.arrived, one.lost)))
            .collect();
        let inside = |(sent, arrived, _): &(u64, Option<u64>, bool)| {
            *sent <= to && arrived.is_some_and(|arrived| arrived >= from)
        };
        let expected: BTreeMap<u64, _> = ways
            .iter()
            .filter(|(_, way)| inside(way))
            .map(|(hash, way)| (*hash, *way))
            .collect();
        assert_eq!(found, expected, "from {from} to {to}");
        let (few, more) = history.flights(from, to, 3).unwrap();
        assert_eq!(few.len() as u64 + more, flights.len() as u64);
    }
}

#[test]
fn a_journal_without_its_end_opens_as_far_as_it_is_whole() {
    let folder = Folder::new("index-cut");
    let records = run(6_000, 11);
    write(&folder.journal(), &records);
    let bytes = std::fs::read(folder.journal()).unwrap();
    History::open(&folder.journal()).unwrap();
    for length in [16, 40, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        // The index of the whole one is there, and does not fit.
        std::fs::write(folder.journal(), &bytes[..length]).unwrap();
        let (there, cut) = read(&folder.journal());
        assert!(cut);
        for is_first in [true, false] {
            let (history, made) = History::open(&folder.journal()).unwrap();
            assert_eq!(
                (made, history.index().cut),
                (is_first, true),
                "{length} bytes"
            );
            check(&history, &there, &mut Random(1), 3);
        }
    }
    std::fs::write(folder.journal(), &bytes[..15]).unwrap();
    History::open(&folder.journal()).unwrap_err();
}

#[test]
fn flipped_bytes_are_noticed() {
    let folder = Folder::new("index-flipped");
    let records = run(6_000, 13);
    write(&folder.journal(), &records);
    let journal = std::fs::read(folder.journal()).unwrap();
    let (whole, _) = History::open(&folder.journal()).unwrap();
    let index = std::fs::read(index_of(&folder.journal())).unwrap();
    let mut random = Random(17);
    for _ in 0..40 {
        let mut bytes = index.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        bytes.truncate(bytes.len() - random.below(3) as usize);
        assert_eq!(Index::from_bytes(&bytes), None, "byte {at} of the index");
    }
    std::fs::write(index_of(&folder.journal()), &index[..index.len() / 2]).unwrap();
    let (again, made) = History::open(&folder.journal()).unwrap();
    assert!(made && again.index() == whole.index());
    for _ in 0..8 {
        let mut bytes = journal.clone();
        let at = 16 + random.below(bytes.len() as u64 - 16) as usize;
        bytes[at] ^= 1 << random.below(8);
        std::fs::write(folder.journal(), &bytes).unwrap();
        // Where the index is of the journal as it was: no wrong record, but an error.
        std::fs::write(index_of(&folder.journal()), &index).unwrap();
        let (history, _) = History::open(&folder.journal()).unwrap();
        let all = history.events((0, u64::MAX), None, &|_| true, usize::MAX);
        let good = |found: &[vink_record::Numbered]| {
            found
                .iter()
                .zip(&records)
                .all(|(one, then)| one.record == *then)
        };
        match all {
            Ok(found) => assert!(good(&found), "byte {at}"),
            Err(error) => assert!(error.to_string().contains("is damaged behind"), "{error}"),
        }
        // Made again, it ends where the damage is.
        std::fs::remove_file(index_of(&folder.journal())).unwrap();
        let (history, _) = History::open(&folder.journal()).unwrap();
        let (there, cut) = read(&folder.journal());
        assert!(cut && history.index().cut);
        assert!(history.index().records == there.len() as u64 && there.len() <= records.len());
    }
}

#[test]
fn what_is_given_up_fails() {
    let folder = Folder::new("index-given-up");
    let records = run(2_000, 23);
    write(&folder.journal(), &records);
    let (history, _) = History::open(&folder.journal()).unwrap();
    let stop = Stop::default();
    let asked = history.until(stop.clone());
    let at = records[records.len() / 2].time;
    assert_eq!(asked.at(at).unwrap(), history.at(at).unwrap());
    stop.set();
    for error in [
        asked.at(at).unwrap_err(),
        asked.flights(0, at, 1).unwrap_err(),
        asked.parts(at).unwrap_err(),
        asked.events((0, at), None, &|_| true, 1).unwrap_err(),
    ] {
        assert!(error.to_string().contains("given up"), "{error}");
    }
    // The others are still answered.
    history.at(at).unwrap();
}

/// One that counted packets for which there was no socket among those that were lost.
#[test]
fn an_index_of_an_older_version_is_made_again() {
    let folder = Folder::new("index-older");
    let older = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/older");
    let older = older.join("2026-11-26-8d79f1c.recording");
    for file in ["run.journal", "run.index"] {
        std::fs::copy(older.join(file), folder.0.join(file)).unwrap();
    }
    let (history, made) = History::open(&folder.journal()).unwrap();
    assert!(made);
    let (records, _) = read(&folder.journal());
    let count = |wanted: u8| {
        records
            .iter()
            .filter(|one| kind(one) == Some(wanted))
            .count() as u64
    };
    let line = history.timeline(0, u64::MAX, 1, None).unwrap();
    for wanted in [8, 15, 16] {
        let row = line.rows.iter().find(|row| row.kind == wanted);
        assert_eq!(row.map_or(0, |row| row.counts[0]), count(wanted));
    }
    let (_, made) = History::open(&folder.journal()).unwrap();
    assert!(!made, "the new one is kept");
}

#[test]
fn another_journal_of_the_same_length_has_another_index() {
    let folder = Folder::new("index-other");
    let mut records = run(2_000, 19);
    write(&folder.journal(), &records);
    History::open(&folder.journal()).unwrap();
    let first = records
        .iter_mut()
        .find_map(|record| match &mut record.event {
            Event::Packet { hash, .. } => Some(hash),
            _ => None,
        });
    *first.unwrap() ^= 1 << 40;
    let length = std::fs::metadata(folder.journal()).unwrap().len();
    write(&folder.journal(), &records);
    if std::fs::metadata(folder.journal()).unwrap().len() == length {
        let (_, made) = History::open(&folder.journal()).unwrap();
        assert!(made);
    }
}
