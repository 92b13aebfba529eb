//! The journal of a run: records in blocks, each compressed and checked by itself.
//!
//! A file is the eight bytes `VINKJNL1`, the date at which the run's clock was at 0 (ns since 1970,
//! 8 bytes, little endian), then blocks: the length of the records (4 bytes), that of the bytes
//! that follow (4), a check (8), and these bytes: the records, compressed (LZ4). The check is the
//! beginning of the BLAKE3 of the check before it and the bytes, so that blocks can be neither
//! damaged nor exchanged unnoticed. The last block has no records; its bytes are the run's
//! [`Totals`] as JSON. Without it the run was cut short: what comes before it still holds.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};

use crate::bytes::Bytes;
use crate::digest::Digest;
use crate::manifest::{Executed, Totals};
use crate::record::{Event, Record};
use crate::Error;

const MAGIC: [u8; 8] = *b"VINKJNL1";
/// Bytes of records in a block, some more or less.
const BLOCK: usize = 64 << 10;
/// ... and at most, when it is read: a longer one is damage.
const LONGEST: usize = 64 << 20;
const HEAD: usize = 16;

/// Writes a journal. What can't be written is told at the end: a run goes on though a disk is full.
pub struct Writer {
    to: Box<dyn Write>,
    name: String,
    records: Vec<u8>,
    check: [u8; 8],
    digest: Digest,
    totals: Totals,
    programs: BTreeSet<Executed>,
    failed: Option<std::io::Error>,
}

impl Writer {
    /// Begins one, of a run whose clock is at 0 at this date (ns since 1970); the name is for
    /// errors.
    pub fn new(to: Box<dyn Write>, name: impl Into<String>, epoch: u64) -> Writer {
        let mut writer = Writer {
            to,
            name: name.into(),
            records: Vec::new(),
            check: [0; 8],
            digest: Digest::default(),
            totals: Totals::default(),
            programs: BTreeSet::new(),
            failed: None,
        };
        writer.put(&MAGIC);
        writer.put(&epoch.to_le_bytes());
        writer
    }

    /// One more record.
    pub fn add(&mut self, record: &Record) {
        self.digest.add(record);
        self.totals.count(record);
        if let Event::Executed { path, hash, .. } = &record.event {
            let (path, hash) = (path.clone(), *hash);
            self.programs.insert(Executed { path, hash });
        }
        record.write(&mut self.records);
        if self.records.len() >= BLOCK {
            self.end_block();
        }
    }

    /// Gives what has been added so far to the host, in a block of its own.
    pub fn flush(&mut self) {
        self.end_block();
        if self.failed.is_none() {
            self.failed = self.to.flush().err();
        }
    }

    fn end_block(&mut self) {
        if !self.records.is_empty() {
            let stored = lz4_flex::block::compress(&self.records);
            let length = self.records.len();
            self.block(length, &stored);
            self.records.clear();
        }
    }

    /// Packets that were not seen, since too many came at once: then the digest is worth nothing.
    pub fn missed(&mut self, packets: u64) {
        self.totals.missed += packets;
    }

    /// The run is ended by force: something was still to be done at that time.
    pub fn unfinished(&mut self) {
        self.totals.unfinished = true;
    }

    /// The end of the run, at this time (ns): its totals, which are also the journal's last block.
    ///
    /// # Errors
    /// [`Error::Host`]: something of it could not be written.
    pub fn finish(mut self, end: u64) -> Result<Totals, Error> {
        self.end_block();
        self.totals.end = end;
        self.totals.digest = Some(self.digest.value());
        self.totals.programs = std::mem::take(&mut self.programs).into_iter().collect();
        let text = serde_json::to_vec(&self.totals).expect("numbers and texts");
        self.block(0, &text);
        if self.failed.is_none() {
            self.failed = self.to.flush().err();
        }
        match self.failed {
            None => Ok(self.totals),
            Some(error) => Err(Error::Host {
                what: format!("writing {}", self.name),
                error,
            }),
        }
    }

    fn block(&mut self, records: usize, stored: &[u8]) {
        self.check = check(self.check, stored);
        let mut head = Vec::with_capacity(HEAD);
        head.extend((records as u32).to_le_bytes());
        head.extend((stored.len() as u32).to_le_bytes());
        head.extend(self.check);
        self.put(&head);
        self.put(stored);
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.to.write_all(bytes).err();
        }
    }
}

fn check(before: [u8; 8], stored: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before).update(stored);
    let hash = hasher.finalize();
    *hash.as_bytes().first_chunk().expect("32 bytes")
}

/// How a journal ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With the run.
    Whole(Totals),
    /// Before that: the worker was killed, or the file has lost its end. These are the totals of
    /// what is there.
    Cut(Totals),
}

impl Tail {
    /// What there is.
    pub fn totals(&self) -> &Totals {
        match self {
            Tail::Whole(totals) | Tail::Cut(totals) => totals,
        }
    }
}

/// Where a block begins, and the check of the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Bytes from the file's beginning.
    pub offset: u64,
    /// What the block's own check goes on from.
    pub check: [u8; 8],
}

/// Reads a journal.
pub struct Reader<R> {
    from: R,
    name: String,
    epoch: u64,
    records: Vec<u8>,
    at: usize,
    /// Where the next block begins.
    next: Mark,
    /// `None`: it was not read from its beginning.
    digest: Option<Digest>,
    totals: Totals,
    programs: BTreeSet<Executed>,
    tail: Option<Tail>,
}

impl<R: Read> Reader<R> {
    /// Begins to read; the name is for errors.
    ///
    /// # Errors
    /// [`Error::Host`]; [`Error::Format`]: this is no journal.
    pub fn new(mut from: R, name: impl Into<String>) -> Result<Reader<R>, Error> {
        let name = name.into();
        let (mut magic, mut epoch) = ([0; MAGIC.len()], [0; 8]);
        let read = from.read_exact(&mut magic);
        let read = read.and_then(|()| from.read_exact(&mut epoch));
        let is_end = |e: &std::io::Error| e.kind() == ErrorKind::UnexpectedEof;
        match read {
            Err(error) if !is_end(&error) => return Err(Error::host(name)(error)),
            Ok(()) if magic == MAGIC => {}
            _ => {
                return Err(Error::Format {
                    what: name,
                    why: "this is no journal of this version of vink (docs/replay.md)".to_owned(),
                })
            }
        }
        Ok(Reader {
            from,
            name,
            epoch: u64::from_le_bytes(epoch),
            records: Vec::new(),
            at: 0,
            next: Mark {
                offset: (MAGIC.len() + epoch.len()) as u64,
                check: [0; 8],
            },
            digest: Some(Digest::default()),
            totals: Totals::default(),
            programs: BTreeSet::new(),
            tail: None,
        })
    }

    /// Goes on where a block begins, which is where `from` is. Its totals are those of the run if
    /// its end is there, and have no digest otherwise.
    pub fn resume(from: R, name: impl Into<String>, epoch: u64, at: Mark) -> Reader<R> {
        Reader {
            from,
            name: name.into(),
            epoch,
            records: Vec::new(),
            at: 0,
            next: at,
            digest: None,
            totals: Totals::default(),
            programs: BTreeSet::new(),
            tail: None,
        }
    }

    /// Where the next block begins, if the next record is in it.
    pub fn mark(&self) -> Option<Mark> {
        (self.at == self.records.len() && self.tail.is_none()).then_some(self.next)
    }

    /// Bytes of records that are still to come of the block that is read.
    pub(crate) fn left(&self) -> usize {
        self.records.len() - self.at
    }

    /// Of the records so far; `None`: it was not read from its beginning.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The date at which the run's clock was at 0, in ns since 1970.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next record; `None` at the end, of which [`Reader::tail`] tells.
    ///
    /// # Errors
    /// [`Error::Host`]; [`Error::Format`]: a block is whole, but what it has is no record.
    pub fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while self.at == self.records.len() {
            if self.tail.is_some() || !self.next_block()? {
                return Ok(None);
            }
        }
        let mut bytes = Bytes(&self.records[self.at..]);
        let Some(record) = Record::read(&mut bytes) else {
            return Err(Error::Format {
                what: self.name.clone(),
                why: "a record is unknown: it is of another version of vink".to_owned(),
            });
        };
        let began = std::mem::replace(&mut self.at, self.records.len() - bytes.0.len());
        if let Some(digest) = &mut self.digest {
            digest.add_written(&record, &self.records[began..self.at]);
        }
        self.totals.count(&record);
        if let Event::Executed { path, hash, .. } = &record.event {
            let (path, hash) = (path.clone(), *hash);
            self.programs.insert(Executed { path, hash });
        }
        Ok(Some(record))
    }

    /// How it ends, when there are no more records.
    pub fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// Whether there was another block with records.
    fn next_block(&mut self) -> Result<bool, Error> {
        let mut head = [0; HEAD];
        if !self.fill(&mut head)? {
            return Ok(self.is_cut());
        }
        let number = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().expect("four"));
        let (length, stored) = (number(0) as usize, number(4) as usize);
        if length > LONGEST || stored > LONGEST {
            return Ok(self.is_cut());
        }
        let mut bytes = vec![0; stored];
        if !self.fill(&mut bytes)? {
            return Ok(self.is_cut());
        }
        let check = check(self.next.check, &bytes);
        if check != head[8..] {
            return Ok(self.is_cut());
        }
        if length > 0 {
            let Ok(records) = lz4_flex::block::decompress(&bytes, length) else {
                return Ok(self.is_cut());
            };
            self.records = records;
            self.at = 0;
            self.next = Mark {
                offset: self.next.offset + (HEAD + stored) as u64,
                check,
            };
            return Ok(true);
        }
        let Ok(totals) = serde_json::from_slice(&bytes) else {
            return Ok(self.is_cut());
        };
        self.tail = Some(Tail::Whole(totals));
        Ok(false)
    }

    /// Reads all of it, or not: false.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        match self.from.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Error::host(&self.name)(error)),
        }
    }

    fn is_cut(&mut self) -> bool {
        let mut totals = std::mem::take(&mut self.totals);
        totals.digest = self.digest.as_ref().map(Digest::value);
        totals.programs = std::mem::take(&mut self.programs).into_iter().collect();
        self.tail = Some(Tail::Cut(totals));
        false
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    use crate::record::tests::samples;

    /// A file in memory.
    #[derive(Clone, Default)]
    pub(crate) struct Memory(pub(crate) Rc<RefCell<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The journal of these records, with its totals.
    pub(crate) fn journal(records: &[Record]) -> (Vec<u8>, Totals) {
        let memory = Memory::default();
        let mut writer = Writer::new(Box::new(memory.clone()), "memory", 946_684_800_000_000_000);
        for record in records {
            writer.add(record);
        }
        let totals = writer.finish(77).unwrap();
        let bytes = memory.0.borrow().clone();
        (bytes, totals)
    }

    fn read(bytes: &[u8]) -> (Vec<Record>, Tail) {
        let mut reader = Reader::new(bytes, "memory").unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            records.push(record);
        }
        (records, reader.tail().unwrap().clone())
    }

    #[test]
    fn there_and_back() {
        // Several blocks.
        let records: Vec<Record> = samples().into_iter().cycle().take(36_000).collect();
        let (bytes, totals) = journal(&records);
        assert!(bytes.len() < 400_000, "{} bytes", bytes.len());
        assert_eq!(
            (totals.end, totals.packets, totals.calls),
            (77, 6_000, 2_000)
        );
        assert_eq!(totals.programs.len(), 2);
        let (found, tail) = read(&bytes);
        assert_eq!(found, records);
        assert_eq!(tail, Tail::Whole(totals));
    }

    #[test]
    fn a_lost_end_is_told() {
        let records: Vec<Record> = samples().into_iter().cycle().take(5_000).collect();
        let (bytes, totals) = journal(&records);
        for end in [16, 16 + 3, bytes.len() / 2, bytes.len() - 1] {
            let (found, tail) = read(&bytes[..end]);
            assert_eq!(found, records[..found.len()]);
            let Tail::Cut(cut) = tail else {
                panic!("{end} bytes are whole");
            };
            let all = found.len() == records.len();
            assert_eq!(cut.digest == totals.digest, all, "{end} bytes");
        }
        assert!(matches!(read(&bytes[..bytes.len() - 1]).1, Tail::Cut(_)));
        assert_eq!(read(&bytes[..bytes.len() - 1]).0.len(), 5_000);
    }

    #[test]
    fn damage_is_the_end() {
        let records: Vec<Record> = samples().into_iter().cycle().take(5_000).collect();
        let (mut bytes, _) = journal(&records);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let (found, tail) = read(&bytes);
        assert!(found.len() < records.len() && matches!(tail, Tail::Cut(_)));
        for none in [
            &b"{\"format\": 1}"[..],
            b"",
            b"VINKJNL2........",
            b"VINKJNL1...",
        ] {
            assert!(matches!(Reader::new(none, "x"), Err(Error::Format { .. })));
        }
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::Error::from_raw_os_error(28))
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut writer = Writer::new(Box::new(Full), "run.journal", 0);
        samples().iter().for_each(|record| writer.add(record));
        let error = writer.finish(0).unwrap_err().to_string();
        assert!(
            error.starts_with("writing run.journal: No space"),
            "{error}"
        );
    }
}
