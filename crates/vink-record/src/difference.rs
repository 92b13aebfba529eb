//! Where two runs part.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Read;

use crate::journal::{Reader, Tail};
use crate::record::{Event, Record, BREAKPOINTS};
use crate::Error;

/// The first event at which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How many events were the same: of packets and calls, or of the program.
    pub same: u64,
    /// In which program's strand; `None`: packets and calls.
    pub strand: Option<u64>,
    /// The last ones of those.
    pub before: Vec<Record>,
    /// Then, in either run: the event, and those that follow. None: it has ended.
    pub sides: [Side; 2],
}

/// How one of two runs goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// From where they part on.
    pub after: Vec<Record>,
    /// The journal ends there, before its run has.
    pub cut: bool,
}

/// Compares two journals; `context` events are kept before the first difference and after it.
/// `None`: the runs are the same.
///
/// # Errors
/// As [`Reader::next_record`].
pub fn first_difference<A: Read, B: Read>(
    a: Reader<A>,
    b: Reader<B>,
    context: usize,
) -> Result<Option<Difference>, Error> {
    first_difference_before(u64::MAX, a, b, context)
}

/// The same of what happened before this time (ns) only.
///
/// # Errors
/// As [`Reader::next_record`].
pub fn first_difference_before<A: Read, B: Read>(
    time: u64,
    a: Reader<A>,
    b: Reader<B>,
    context: usize,
) -> Result<Option<Difference>, Error> {
    let (mut a, mut b) = (Run::new(a, time), Run::new(b, time));
    let mut before = VecDeque::with_capacity(context + 1);
    let mut same = 0;
    loop {
        let (one, other) = (a.next()?, b.next()?);
        if one == other {
            let Some(record) = one else { break };
            same += 1;
            before.push_back(record);
            if before.len() > context {
                before.pop_front();
            }
            continue;
        }
        let sides = [a.after(one, context)?, b.after(other, context)?];
        return Ok(Some(Difference {
            same,
            strand: None,
            before: before.into(),
            sides,
        }));
    }
    Ok(a.differing_strand(&b, context))
}

struct Run<R> {
    reader: Reader<R>,
    /// What happens from here on is not compared.
    end: u64,
    /// Of each program: what is compared.
    strands: BTreeMap<u64, Vec<Record>>,
}

impl<R: Read> Run<R> {
    fn new(reader: Reader<R>, end: u64) -> Run<R> {
        Run {
            reader,
            end,
            strands: BTreeMap::new(),
        }
    }

    /// The next packet or call.
    fn next(&mut self) -> Result<Option<Record>, Error> {
        while let Some(record) = self.reader.next_record()? {
            if record.time >= self.end || !record.event.is_compared() {
                continue;
            }
            let record = record.compared().into_owned();
            let Some(program) = record.event.strand() else {
                return Ok(Some(record));
            };
            let strand = self.strands.entry(program).or_default();
            // However it was cut into pieces.
            if let (Event::Output { text, .. }, Some(last)) = (&record.event, strand.last_mut()) {
                if let Event::Output { text: before, .. } = &mut last.event {
                    before.push_str(text);
                    continue;
                }
            }
            strand.push(record);
        }
        Ok(None)
    }

    /// This record, and those that follow.
    fn after(&mut self, first: Option<Record>, context: usize) -> Result<Side, Error> {
        let mut after: Vec<Record> = first.into_iter().collect();
        while !after.is_empty() && after.len() <= context {
            match self.next()? {
                Some(record) => after.push(record),
                None => break,
            }
        }
        let cut = after.is_empty() && matches!(self.reader.tail(), Some(Tail::Cut(_)));
        Ok(Side { after, cut })
    }

    fn differing_strand<S: Read>(&self, other: &Run<S>, context: usize) -> Option<Difference> {
        let programs = self.strands.keys().chain(other.strands.keys());
        let mut programs: Vec<u64> = programs.copied().collect();
        programs.sort_unstable();
        programs.dedup();
        for program in programs {
            let of = |strands: &BTreeMap<u64, Vec<Record>>| {
                strands.get(&program).cloned().unwrap_or_default()
            };
            let (one, two) = (of(&self.strands), of(&other.strands));
            let pairs = one.iter().zip(&two);
            let is_same = |(a, b): &(&Record, &Record)| {
                a.event == b.event && a.compared_time() == b.compared_time()
            };
            let same = pairs.take_while(is_same).count();
            if same == one.len() && same == two.len() {
                continue;
            }
            let after = |records: &[Record], cut: bool| Side {
                after: records[same..].iter().take(context + 1).cloned().collect(),
                cut: cut && records.len() == same,
            };
            let is_cut = |tail: Option<&Tail>| matches!(tail, Some(Tail::Cut(_)));
            return Some(Difference {
                same: same as u64,
                strand: Some(program),
                before: one[same.saturating_sub(context)..same].to_vec(),
                sides: [
                    after(&one, is_cut(self.reader.tail())),
                    after(&two, is_cut(other.reader.tail())),
                ],
            });
        }
        None
    }
}

impl fmt::Display for Difference {
    /// As diff(1) does it: a blank before what is in both, - before the first run's, + before the
    /// second's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = match self.same {
            1 => "event",
            _ => "events",
        };
        match self.strand {
            None => writeln!(f, "the runs part after {} {events}:", self.same)?,
            Some(BREAKPOINTS) => writeln!(
                f,
                "packets and calls are the same; what breakpoints do differs after {} {events}:",
                self.same
            )?,
            Some(program) => writeln!(
                f,
                "packets and calls are the same; program {program} differs after {} {events}:",
                self.same
            )?,
        }
        for record in &self.before {
            writeln!(f, "  {record}")?;
        }
        for (sign, side) in ['-', '+'].into_iter().zip(&self.sides) {
            for record in &side.after {
                writeln!(f, "{sign} {record}")?;
            }
            match (side.after.is_empty(), side.cut) {
                (true, true) => writeln!(f, "{sign} the journal is cut short here")?,
                (true, false) => writeln!(f, "{sign} the run has ended")?,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::journal;
    use crate::record::tests::samples;

    fn compare(a: &[u8], b: &[u8]) -> Option<Difference> {
        let reader = |bytes| Reader::new(bytes, "memory").unwrap();
        first_difference(reader(a), reader(b), 2).unwrap()
    }

    #[test]
    fn runs_part_at_the_first_event_that_differs() {
        let all = samples();
        let (one, _) = journal(&all);
        assert_eq!(compare(&one, &one), None);

        let mut other = all.clone();
        other[4].time += 1;
        let found = compare(&one, &journal(&other).0).unwrap();
        assert_eq!((found.same, found.strand), (4, None));
        assert_eq!(found.before, all[2..4]);
        assert_eq!(found.sides[0].after, all[4..7]);
        assert_eq!(found.sides[1].after[0], other[4]);
        let text = found.to_string();
        assert!(
            text.starts_with("the runs part after 4 events:\n  2.0"),
            "{text}"
        );
        assert!(
            text.contains("\n- 4.000000028 client:eth0 receives "),
            "{text}"
        );
        assert!(
            text.contains("\n+ 4.000000029 client:eth0 receives "),
            "{text}"
        );

        let found = compare(&one, &journal(&all[..3]).0).unwrap();
        assert_eq!((found.same, found.sides[1].cut), (3, false));
        assert!(found.to_string().ends_with("+ the run has ended\n"));
        let found = compare(&one, &one[..16]).unwrap();
        assert!(found
            .to_string()
            .ends_with("+ the journal is cut short here\n"));
    }

    #[test]
    fn an_end_by_force_does_not_count() {
        let all = samples();
        let (one, _) = journal(&all);
        let (two, _) = journal(&all[..5]);
        let compare = |end| {
            let reader = |bytes| Reader::new(bytes, "memory").unwrap();
            first_difference_before(end, reader(&one[..]), reader(&two[..]), 2).unwrap()
        };
        assert_eq!(compare(all[5].time), None);
        assert_eq!(compare(all[5].time + 1).unwrap().same, 5);
    }

    #[test]
    fn programs_are_compared_by_themselves() {
        let all = samples();
        let (one, _) = journal(&all);
        let mut other = all.clone();
        let Event::Output { text, .. } = &mut other[8].event else {
            panic!("another sample")
        };
        *text = "hallo\n".to_owned();
        let found = compare(&one, &journal(&other).0).unwrap();
        assert_eq!((found.same, found.strand), (1, Some(7)));
        // When the worker looked, and in which pieces, is no difference.
        let mut later = all.clone();
        later[8].time += 5;
        let Event::Output { text, .. } = &mut later[8].event else {
            panic!("another sample")
        };
        let rest = text.split_off(2);
        let mut more = later[8].clone();
        more.event = Event::Output {
            program: 7,
            text: rest,
        };
        later.insert(9, more);
        let (two, totals) = journal(&later);
        assert_eq!(compare(&one, &two), None);
        assert_eq!(totals.digest, journal(&all).1.digest);
    }
}
