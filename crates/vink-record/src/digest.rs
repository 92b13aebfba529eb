//! The digest of a run: it is the same for two runs if, and only if, the same happened in both.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::record::Record;

/// 32 bytes of BLAKE3; as text 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(blake3::hash(bytes).into())
    }

    /// Of all that can be read.
    ///
    /// # Errors
    /// The reader's.
    pub fn of_reader(from: &mut dyn std::io::Read) -> std::io::Result<Hash> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(from)?;
        Ok(Hash(hasher.finalize().into()))
    }

    /// The first eight bytes of a hash, as a number: enough to tell packets apart. Never 0.
    pub fn number(bytes: &[u8]) -> u64 {
        let hash = blake3::hash(bytes);
        let first = hash.as_bytes().first_chunk().expect("32 bytes");
        u64::from_le_bytes(*first).max(1)
    }

    /// Its first digits, for messages.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Hash, String> {
        let wrong = || format!("{text:?} is no hash: it has 64 hexadecimal digits");
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        for (i, byte) in hash.iter_mut().enumerate() {
            let digits = &text[2 * i..2 * i + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Hash(hash))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Rolls over records: packets and calls in their order, each program's strand by itself.
#[derive(Clone, Default)]
pub struct Digest {
    main: blake3::Hasher,
    /// Records in it.
    count: u64,
    strands: BTreeMap<u64, blake3::Hasher>,
}

impl Digest {
    /// One more. Where outputs of a program are cut into pieces does not matter.
    pub fn add(&mut self, record: &Record) {
        let mut bytes = Vec::new();
        if record.event.is_compared() && record.event.strand().is_none() {
            record.write(&mut bytes);
        }
        self.add_written(record, &bytes);
    }

    /// The same; `written`: as it stands in a journal.
    pub(crate) fn add_written(&mut self, record: &Record, written: &[u8]) {
        if !record.event.is_compared() {
            return;
        }
        let record = record.compared();
        let mut bytes = Vec::new();
        let to = match &record.event {
            crate::Event::Output { program, text } => {
                bytes.extend(text.as_bytes());
                self.strands.entry(*program).or_default()
            }
            event => match event.strand() {
                Some(program) => {
                    let record = Record {
                        time: record.compared_time(),
                        event: event.clone(),
                    };
                    record.write(&mut bytes);
                    self.strands.entry(program).or_default()
                }
                None => {
                    match &record {
                        Cow::Borrowed(_) => self.main.update(written),
                        // Not all of what is written is compared.
                        Cow::Owned(record) => {
                            record.write(&mut bytes);
                            self.main.update(&bytes)
                        }
                    };
                    self.count += 1;
                    return;
                }
            },
        };
        to.update(&bytes);
    }

    /// How many records there are in the order of packets and calls.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Of packets and calls in their order, without the strands, and how many these are: what is the
    /// same at each moment of two runs that are the same, whenever their workers looked at programs.
    pub fn main(&self) -> (u64, Hash) {
        (self.count, Hash(self.main.finalize().into()))
    }

    /// Of all until now.
    pub fn value(&self) -> Hash {
        let mut all = blake3::Hasher::new();
        all.update(self.main.finalize().as_bytes());
        for (program, strand) in &self.strands {
            all.update(&program.to_le_bytes());
            all.update(strand.finalize().as_bytes());
        }
        Hash(all.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::samples;
    use crate::Event;

    fn digest(records: &[Record]) -> Hash {
        let mut digest = Digest::default();
        records.iter().for_each(|record| digest.add(record));
        digest.value()
    }

    #[test]
    fn everything_counts_but_when_the_worker_looked() {
        let all = samples();
        let whole = digest(&all);
        for i in 0..all.len() {
            let mut less = all.clone();
            less.remove(i);
            assert_ne!(digest(&less), whole, "without {}", all[i]);
            let mut later = all.clone();
            later[i].time += 1;
            let same = all[i].compared_time() == 0 && all[i].time != 0;
            assert_eq!(digest(&later) == whole, same, "{}", all[i]);
        }
        let mut swapped = all.clone();
        swapped.swap(3, 4);
        assert_ne!(digest(&swapped), whole);
        let mut moved = all.clone();
        let started = moved.remove(7);
        moved.insert(0, started);
        assert_eq!(digest(&moved), whole);
    }

    #[test]
    fn what_is_asked_of_the_clock_does_not_count() {
        let mut all = samples();
        let whole = digest(&all);
        let asked = Event::Clock(crate::Request {
            method: "PATCH".to_owned(),
            path: "/v1/labs/x/clock".to_owned(),
            ..crate::Request::default()
        });
        let (time, event) = (3, asked);
        all.insert(4, Record { time, event });
        assert_eq!(digest(&all), whole);
    }

    #[test]
    fn what_has_become_of_the_lab_does_not_count() {
        let mut all = samples();
        let whole = digest(&all);
        all.insert(4, crate::record::tests::change(2));
        assert_eq!(digest(&all), whole);
    }

    #[test]
    fn it_does_not_count_which_user_has_asked() {
        let of = |actor: &str| {
            let mut all = samples();
            let actors = all.iter_mut().filter_map(|record| record.event.actor());
            assert!(actors.map(|own| actor.clone_into(own)).count() > 1);
            digest(&all)
        };
        assert_eq!(of("anna"), of("ben"));
    }

    #[test]
    fn pieces_of_output_do_not_count() {
        let output = |text: &str| Record {
            time: 0,
            event: Event::Output {
                program: 1,
                text: text.to_owned(),
            },
        };
        let one = digest(&[output("hello")]);
        assert_eq!(digest(&[output("he"), output("llo")]), one);
        assert_ne!(digest(&[output("hell")]), one);
    }

    #[test]
    fn hashes_as_text() {
        let hash = Hash::of(b"");
        let text = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        for wrong in ["", "xy", &text[1..], &format!("{text}0")] {
            wrong.parse::<Hash>().unwrap_err();
        }
        assert_eq!(
            serde_json::from_str::<Hash>(&serde_json::to_string(&hash).unwrap()).unwrap(),
            hash
        );
    }
}
