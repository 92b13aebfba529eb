//! Texts of others: lines for the switch box, manifests, labs in them, and journals, each good one with some mistakes in it.
//!
//! Whatever is wrong with one is an error: a panic ends the worker's process, which the watch tells.

use std::time::{Duration, Instant};

use serde_json::{json, Value};
use vink_record::{pcapng, perfetto, Event, Manifest, PacketOutcome, Reader, Record, Writer};
use vink_shell::{parse, COMMANDS};

use crate::random::Random;
use crate::watch::BoxError;

/// Texts of each kind at a time.
const TEXTS: u64 = 200;
/// How long one may take to be read: far more than any does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Words that mean something in one of the languages, or nearly.
const WORDS: [&str; 30] = [
    "a",
    "b",
    "eth0",
    "a:eth0",
    "w",
    "10.0.0.1/24",
    "::1/64",
    "10ms",
    "-1ms",
    "1e400s",
    "99999999999999999999s",
    "0.1%",
    "100%",
    "10Mbit",
    "rate",
    "delay",
    "%1",
    "&",
    "|",
    ">",
    "\"",
    "'",
    "\\",
    "$x",
    "\u{0}",
    "\u{1b}[A",
    "\u{202e}",
    "é",
    "format",
    "null",
];

/// Reads some of each kind.
pub(crate) fn read_some(random: &mut Random) -> Result<(), BoxError> {
    let manifest = manifest().to_string().into_bytes();
    let journal = journal(random);
    for _ in 0..TEXTS {
        timely("a line of the switch box", random, line, |text| {
            let machine = [None, Some("a")][text.len() % 2];
            let _ = parse(&String::from_utf8_lossy(text), machine);
        })?;
        timely(
            "a manifest",
            random,
            |random| random.with_mistakes(&manifest, &WORDS),
            |text| {
                let text = String::from_utf8_lossy(text);
                if let Ok(manifest) = Manifest::parse(&text, "manifest") {
                    manifest.changes();
                    if let vink_record::What::Lab(lab) = &manifest.what {
                        let _ = vink_spec::read_json(lab, None);
                    }
                }
            },
        )?;
        timely(
            "a journal",
            random,
            |random| random.with_mistakes(&journal, &WORDS),
            |bytes| {
                if let Ok(mut reader) = Reader::new(bytes, "journal") {
                    while let Ok(Some(record)) = reader.next_record() {
                        let _ = record.event.to_string();
                    }
                }
                let reader = || Reader::new(bytes, "journal");
                let _ = reader().map(|reader| pcapng(reader, std::io::sink(), "pcapng"));
                let _ = reader().map(|reader| perfetto(reader, std::io::sink(), "trace"));
            },
        )?;
    }
    Ok(())
}

/// Makes a text and reads it, which must not take long.
fn timely(
    what: &str,
    random: &mut Random,
    make: impl FnOnce(&mut Random) -> Vec<u8>,
    read: impl FnOnce(&[u8]),
) -> Result<(), BoxError> {
    let text = make(random);
    let since = Instant::now();
    read(&text);
    match since.elapsed() > ANSWER_TIMEOUT {
        true => Err(format!(
            "{what} took {:?} to be read: {:?}",
            since.elapsed(),
            String::from_utf8_lossy(&text)
        )
        .into()),
        false => Ok(()),
    }
}

/// A line for the switch box: a command's, as its usage has it, with some words changed.
fn line(random: &mut Random) -> Vec<u8> {
    let definition = &COMMANDS[random.below(COMMANDS.len() as u64) as usize];
    let usage = definition.usage[random.below(definition.usage.len() as u64) as usize];
    let words = usage.split(' ').map(|word| match random.below(4) {
        0 => word.to_owned(),
        1 => word.to_lowercase(),
        _ => random.pick(&WORDS).to_owned(),
    });
    let line: Vec<String> = std::iter::once(definition.name.to_owned())
        .chain(words.skip(1))
        .collect();
    match random.chance(30) {
        true => random.with_mistakes(line.join(" ").as_bytes(), &WORDS),
        false => line.join(" ").into_bytes(),
    }
}

/// A lab's manifest.
fn manifest() -> Value {
    let hash = "0".repeat(64);
    json!({
        "format": vink_record::FORMAT,
        "vink": "0.1.0",
        "image": "/image.so",
        "image-hash": hash,
        "what": { "lab": {
            "name": "pair",
            "machines": {
                "a": { "interfaces": { "eth0": { "wire": "w", "addresses": ["10.0.0.1/24"] } } },
                "b": { "interfaces": { "eth0": { "wire": "w", "addresses": ["10.0.0.2/24"] } },
                       "programs": { "p": { "command": ["true"] } } },
            },
            "wires": { "w": { "delay": "10ms", "rate": "10Mbit", "loss": "1%" } },
            "events": [{ "at": "1s", "do": "wire", "wire": "w", "delay": "20ms" }],
        } },
        "folder": "/",
        "env": [["PATH", "/bin"]],
        "journal": "journal",
        "totals": { "end": 1, "packets": 2, "calls": 3, "programs": [], "digest": hash },
    })
}

/// A journal of packets and calls.
fn journal(random: &mut Random) -> Vec<u8> {
    let file = Shared::default();
    let mut writer = Writer::new(Box::new(file.clone()), "journal", 0);
    for time in 0..20 {
        let event = match random.below(2) {
            0 => Event::Packet {
                place: "a:eth0".to_owned(),
                outcome: PacketOutcome::Departure,
                length: 60,
                hash: random.next(),
                head: random
                    .next()
                    .to_le_bytes()
                    .repeat(random.below(16) as usize),
            },
            _ => Event::Call {
                thread: 1,
                began: time,
                text: "read(3, \"\", 1) = 0".to_owned(),
                hash: 0,
            },
        };
        writer.add(&Record { time, event });
    }
    writer.finish(20).expect("memory takes all");
    file.0.take()
}

/// Memory that a writer writes to.
#[derive(Clone, Default)]
struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
