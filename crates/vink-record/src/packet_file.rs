//! Packets of a pcapng file by their numbers, also while it grows.
//!
//! The files are those that Vink writes: of this host's byte order, interfaces before packets, times in
//! nanoseconds. Others may have written to them since, so nothing of a file is believed.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Error;

/// A place in the file is kept for each so many packets.
const MARK_EVERY: u64 = 256;
/// Bytes that are read at once, and bytes of a block at most.
const PIECE: usize = 256 << 10;
const LARGEST_BLOCK: usize = 16 << 20;
/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// What a section has in this host's byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Options.
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 2;
const INBOUND: u8 = 1;
/// Before the reason, in the comment of a packet that was lost.
const DROPPED: &str = "dropped: ";

/// Where packets of a file are, as far as it is known.
#[derive(Debug, Default)]
pub struct PacketFile {
    interfaces: Vec<String>,
    /// Where packet 0, 256, 512 ... begins.
    marks: Vec<u64>,
    count: u64,
    /// All before it is known.
    end: u64,
}

/// A packet of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePacket {
    /// Its number, from 0 on.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub date: u64,
    /// Its interface.
    pub interface: String,
    /// It arrives there.
    pub inbound: bool,
    /// Why it was lost.
    pub lost: Option<String>,
    /// Its length, and as much of it as is kept.
    pub length: u32,
    /// The bytes that are kept.
    pub bytes: Vec<u8>,
}

struct Block<'a> {
    at: u64,
    kind: u32,
    body: &'a [u8],
    whole: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

fn malformed(at: u64, why: &str) -> Error {
    Error::Format {
        what: format!("byte {at} of the capture"),
        why: why.to_owned(),
    }
}

/// Gives all whole blocks from there on, until it is told to stop; gives where the next one begins.
fn blocks(
    file: &File,
    mut at: u64,
    mut each: impl FnMut(Block<'_>) -> Result<bool, Error>,
) -> Result<u64, Error> {
    let mut bytes = vec![0; PIECE];
    loop {
        let mut known = 0;
        while known < bytes.len() {
            match file.read_at(&mut bytes[known..], at + known as u64) {
                Ok(0) => break,
                Ok(count) => known += count,
                Err(error) => return Err(Error::host("reading the capture")(error)),
            }
        }
        let mut done = 0;
        let mut wanted = 0;
        while let (Some(kind), Some(length)) = (
            word(&bytes[..known], done),
            word(&bytes[..known], done + 4).map(|length| length as usize),
        ) {
            if length < 12 || length % 4 != 0 || length > LARGEST_BLOCK {
                let why = format!("a block of {length} bytes: the file is damaged");
                return Err(malformed(at + done as u64, &why));
            }
            if done + length > known {
                wanted = length;
                break;
            }
            let whole = &bytes[done..done + length];
            let block = Block {
                at: at + done as u64,
                kind,
                body: &whole[8..length - 4],
                whole,
            };
            done += length;
            if !each(block)? {
                return Ok(at + done as u64);
            }
        }
        at += done as u64;
        if done == 0 && known < bytes.len() || known == 0 {
            return Ok(at);
        }
        if wanted > bytes.len() {
            bytes.resize(wanted, 0);
        }
    }
}

/// The options in a block: what they are, and their bytes.
fn options(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = word(bytes, 0)?.to_ne_bytes();
        let kind = u16::from_ne_bytes([head[0], head[1]]);
        let length = usize::from(u16::from_ne_bytes([head[2], head[3]]));
        let value = bytes.get(4..4 + length)?;
        bytes = bytes.get(4 + length.next_multiple_of(4)..)?;
        (kind != 0).then_some((kind, value))
    })
}

impl PacketFile {
    /// Finds out what the file has now; gives the number of its packets.
    ///
    /// # Errors
    /// [`Error::Host`]: it can't be read. [`Error::Format`]: it is not as Vink writes them.
    pub fn look(&mut self, file: &File) -> Result<u64, Error> {
        let (interfaces, marks, count) = (&mut self.interfaces, &mut self.marks, &mut self.count);
        let mut is_first = self.end == 0;
        self.end = blocks(file, self.end, |block| {
            if std::mem::take(&mut is_first)
                && (block.kind != SECTION || word(block.body, 0) != Some(BYTE_ORDER))
            {
                return Err(malformed(block.at, "this is not a capture of Vink's"));
            }
            match block.kind {
                INTERFACE => {
                    let rest = block.body.get(8..).unwrap_or_default();
                    let name = options(rest).find(|(kind, _)| *kind == NAME);
                    let name = name.map_or("?".into(), |(_, name)| String::from_utf8_lossy(name));
                    interfaces.push(name.into_owned());
                }
                PACKET => {
                    if *count % MARK_EVERY == 0 {
                        marks.push(block.at);
                    }
                    *count += 1;
                }
                _ => {}
            }
            Ok(true)
        })?;
        Ok(self.count)
    }

    /// How many bytes are whole: what follows them is not written yet.
    pub fn whole(&self) -> u64 {
        self.end
    }

    /// At most so many packets, from this number on, as far as they were [looked](Self::look) for.
    ///
    /// # Errors
    /// As [`PacketFile::look`].
    pub fn packets(&self, file: &File, from: u64, most: usize) -> Result<Vec<FilePacket>, Error> {
        let mut found = Vec::new();
        self.each(file, from, |number, block| {
            if found.len() < most {
                found.push(self.packet(number, block)?);
            }
            Ok(found.len() < most)
        })?;
        Ok(found)
    }

    /// A file with this packet, and those before it that fit in; and its number there.
    ///
    /// # Errors
    /// As [`PacketFile::look`].
    pub fn cut(
        &self,
        file: &File,
        number: u64,
        before: u64,
        bytes: usize,
    ) -> Result<(Vec<u8>, u64), Error> {
        let mut head = vec![0; self.marks.first().map_or(0, |first| *first as usize)];
        file.read_exact_at(&mut head, 0)
            .map_err(Error::host("reading the capture"))?;
        let mut packets = std::collections::VecDeque::new();
        let mut size = head.len();
        self.each(file, number.saturating_sub(before), |at, block| {
            size += block.whole.len();
            packets.push_back(block.whole.to_vec());
            while size > bytes && packets.len() > 1 {
                size -= packets.pop_front().map_or(0, |gone| gone.len());
            }
            Ok(at < number)
        })?;
        let place = packets.len() as u64;
        packets.into_iter().for_each(|packet| head.extend(packet));
        Ok((head, place.saturating_sub(1)))
    }

    /// Goes through packets from this number on.
    fn each(
        &self,
        file: &File,
        from: u64,
        mut what: impl FnMut(u64, &Block<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mark = (from / MARK_EVERY) as usize;
        let Some(at) = self.marks.get(mark).filter(|_| from < self.count) else {
            return Ok(());
        };
        let mut number = mark as u64 * MARK_EVERY;
        blocks(file, *at, |block| {
            if block.kind != PACKET {
                return Ok(true);
            }
            let this = number;
            number += 1;
            Ok(this < self.count && (this < from || what(this, &block)?))
        })
        .map(drop)
    }

    fn packet(&self, number: u64, block: &Block<'_>) -> Result<FilePacket, Error> {
        let field = |place: usize| {
            let field = word(block.body, 4 * place);
            field.ok_or_else(|| malformed(block.at, "a packet that is cut: the file is damaged"))
        };
        let kept = field(3)? as usize;
        let bytes = block.body.get(20..).unwrap_or_default().get(..kept);
        let bytes = bytes.ok_or_else(|| malformed(block.at, "a packet longer than its block"))?;
        let rest = block.body.get(20 + kept.next_multiple_of(4)..);
        let (mut inbound, mut lost) = (false, None);
        for (kind, value) in options(rest.unwrap_or_default()) {
            match kind {
                FLAGS => inbound = value.first().is_some_and(|bits| bits & 3 == INBOUND),
                COMMENT => {
                    let text = String::from_utf8_lossy(value);
                    lost = text.strip_prefix(DROPPED).map(str::to_owned).or(lost);
                }
                _ => {}
            }
        }
        let interface = self.interfaces.get(field(0)? as usize);
        Ok(FilePacket {
            number,
            date: u64::from(field(1)?) << 32 | u64::from(field(2)?),
            interface: interface.map_or("?", String::as_str).to_owned(),
            inbound,
            lost,
            length: field(4)?,
            bytes: bytes.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::journal::tests::journal;
    use crate::journal::Reader;
    use crate::record::tests::samples;

    /// A file in memory that has this.
    fn file(bytes: &[u8]) -> File {
        let mut file = vink_sys::fd::in_memory(c"capture").expect("memory");
        file.write_all(bytes).expect("memory");
        file
    }

    /// Some packets many times: their file, and where its first packet begins.
    fn capture(times: usize) -> (Vec<u8>, usize) {
        let (bytes, _) = journal(&samples());
        let mut written = Vec::new();
        let reader = Reader::new(&bytes[..], "memory").expect("a journal");
        crate::pcapng(reader, &mut written, "memory").expect("memory");
        let mut head = 0;
        blocks(&file(&written), 0, |block| {
            head = block.at as usize;
            Ok(block.kind != PACKET)
        })
        .expect("blocks");
        let packets = written[head..].to_vec();
        (1..times).for_each(|_| written.extend(&packets));
        (written, head)
    }

    #[test]
    fn packets_are_found_by_their_numbers_while_the_file_grows() {
        let (bytes, head) = capture(500);
        let file = file(&bytes[..head + 70]);
        let mut found = PacketFile::default();
        // The first one is not whole yet, or alone there.
        let first = found.look(&file).expect("a capture");
        assert!(first <= 1);
        let mut grown = &file;
        grown.write_all(&bytes[head + 70..]).expect("memory");
        assert_eq!(found.look(&file).expect("a capture"), 1500);
        assert_eq!(found.whole(), bytes.len() as u64);
        let all = found.packets(&file, 0, usize::MAX).expect("packets");
        assert_eq!(all.len(), 1500);
        let some = found.packets(&file, 777, 3).expect("packets");
        assert_eq!(some, all[777..780]);
        assert_eq!(some[0].number, 777);
        assert_eq!((some[0].length, &some[0].bytes[..]), (98, &[1, 2, 3][..]));
        assert!(all[..3].iter().any(|one| one.lost.is_some()));
        assert!(all[..3].iter().any(|one| one.inbound));
        assert_eq!(found.packets(&file, 1500, 3).expect("packets"), []);
    }

    #[test]
    fn a_part_of_a_file_is_one_too() {
        let (bytes, _) = capture(500);
        let whole = file(&bytes);
        let mut found = PacketFile::default();
        found.look(&whole).expect("a capture");
        for (before, most, place) in [
            (10, 1 << 20, 10),
            (10, 400, 10),
            (10, 0, 0),
            (9999, 1 << 20, 1200),
        ] {
            let (cut, at) = found.cut(&whole, 1200, before, most).expect("a part");
            assert!(at == 0 || cut.len() <= most, "{} of {most}", cut.len());
            let mut part = PacketFile::default();
            let cut = file(&cut);
            assert_eq!(part.look(&cut).expect("a capture"), at + 1);
            assert!(at <= place && (most == 400 || at == place), "{at}");
            let [own, its] = [(&found, &whole, 1200), (&part, &cut, at)]
                .map(|(of, file, at)| of.packets(file, at, 1).expect("it").remove(0));
            assert_eq!((own.date, own.bytes), (its.date, its.bytes));
        }
    }

    #[test]
    fn nothing_of_a_file_is_believed() {
        let (bytes, head) = capture(1);
        let look = |bytes: &[u8]| {
            let file = file(bytes);
            let mut found = PacketFile::default();
            let count = found.look(&file)?;
            found
                .packets(&file, 0, usize::MAX)
                .map(|all| (count, all.len()))
        };
        assert!(look(b"a series, and no capture at all").is_err());
        for at in 0..bytes.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut other = bytes.clone();
                other[at] = byte;
                // An error, or packets.
                let _ = look(&other);
            }
        }
        let mut long = bytes.clone();
        long[head + 20..head + 24].copy_from_slice(&u32::MAX.to_ne_bytes());
        let error = look(&long).expect_err("a packet that is longer than the file");
        assert!(
            error.to_string().contains("longer than its block"),
            "{error}"
        );
    }
}
