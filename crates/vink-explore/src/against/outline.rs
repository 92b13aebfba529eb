//! The outline of a run: what has come of each connection, and not by which segments.
//!
//! Two TCPs that are not the same cut data at other places, acknowledge and send it again at other times, and have
//! other options. What RFC 9293 leaves to neither of them is compared: which of SYN, SYN-ACK, data, FIN and RST each
//! end sends at all, in which order it begins to, how much data there is, and what comes of programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use vink_spec::Lab;

use super::normal::{Flow, Item, Normal, Number, Sent};
use crate::lab::addresses;
use crate::{Error, Segment};

/// Of two labs: which of their machines are not the same, and which have which addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterparts {
    /// Machines whose parts of the lab files differ.
    machines: BTreeSet<String>,
    /// The machines' names by their addresses, in either lab: in one of them an app may have it.
    names: BTreeMap<String, String>,
}

impl Counterparts {
    /// Of two labs that are the same but for what is on their machines.
    ///
    /// # Errors
    /// [`Error::Lab`]: a machine, a program, an interface or a wire is in only one of both.
    pub fn of(lab: &Lab, other: &Lab) -> Result<Counterparts, Error> {
        let differs = |what: String| {
            let [one, other] = [&lab.name, &other.name];
            Err(Error::Lab(format!(
                "{what} not the same in {one} and {other}: schedules name packets by machine and interface, so give \
                 labs that differ in what runs on machines"
            )))
        };
        if lab.wires != other.wires || lab.switches != other.switches {
            return differs("wires are".to_owned());
        }
        if !lab.machines.keys().eq(other.machines.keys()) {
            return differs("machines are".to_owned());
        }
        let mut machines = BTreeSet::new();
        for ((name, one), other) in lab.machines.iter().zip(other.machines.values()) {
            if !one.interfaces.keys().eq(other.interfaces.keys()) {
                return differs(format!("interfaces of {name} are"));
            }
            if !one.programs.keys().eq(other.programs.keys()) {
                return differs(format!("programs of {name} are"));
            }
            if one != other {
                machines.insert(name.clone());
            }
        }
        let both = [lab, other].map(addresses);
        let all = both.into_iter().flatten();
        let names = all.flat_map(|(machine, all)| {
            let named = move |address: IpAddr| (address.to_string(), machine.clone());
            all.into_iter().map(named)
        });
        Ok(Counterparts {
            machines,
            names: names.collect(),
        })
    }

    /// What is compared of a run.
    pub fn outline(&self, normal: Normal) -> Normal {
        let does = |(flow, at): &(usize, usize)| {
            let steps = steps(&normal.flows[*flow].sent[*at].item);
            (*flow, steps.last().map_or(0, |step| 1 + *step as usize))
        };
        let hits = normal.hits.iter().map(does).collect();
        let flows = normal.flows.into_iter().map(|flow| self.flow(flow));
        let mut programs = normal.programs;
        for program in &mut programs {
            // Why it gave up each says in its own words.
            program.status = program.status.take().map(|(status, _)| (status, None));
            let machine = program.name.split('.').next().unwrap_or_default();
            if self.machines.contains(machine) {
                program.received.clear();
            }
        }
        let mut left = normal.left;
        left.retain(|(machine, _)| !self.machines.contains(machine));
        Normal {
            flows: flows.collect(),
            hits,
            programs,
            left,
            behind: Vec::new(),
            ..normal
        }
    }

    fn flow(&self, flow: Flow) -> Flow {
        let mut name = flow.name;
        for machine in [&mut name.from, &mut name.to] {
            if let Some(known) = self.names.get(machine) {
                machine.clone_from(known);
            }
        }
        let ends = flow.sent.iter().filter_map(|sent| end_of(&sent.item));
        let all = ends.max().unwrap_or(0);
        let mut seen = BTreeSet::new();
        let mut sent = Vec::new();
        for one in &flow.sent {
            for step in steps(&one.item).iter().copied() {
                if seen.insert(step) {
                    let bytes = (step == Step::Data).then_some(all);
                    let item = Item::Step { step, bytes };
                    let room = None;
                    sent.push(Sent { item, room, ..*one });
                }
            }
        }
        Flow { name, sent }
    }
}

/// What a segment does besides acknowledging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// A connection begins.
    Syn,
    /// It is accepted.
    SynAck,
    /// It has data.
    Data,
    /// Its sender has no more.
    Fin,
    /// The connection is over.
    Reset,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Syn => "SYN",
            Step::SynAck => "SYN-ACK",
            Step::Data => "data",
            Step::Fin => "FIN",
            Step::Reset => "RST",
        })
    }
}

fn steps(item: &Item) -> &'static [Step] {
    let Item::Segment(segment) = item else {
        return &[];
    };
    let has = |flag| segment.flags & flag != 0;
    let is_empty = segment.length == 0;
    match (has(Segment::SYN), has(Segment::FIN)) {
        _ if has(Segment::RST) => &[Step::Reset],
        (true, _) if has(Segment::ACK) => &[Step::SynAck],
        (true, _) => &[Step::Syn],
        (false, true) if is_empty => &[Step::Fin],
        (false, true) => &[Step::Data, Step::Fin],
        (false, false) if is_empty => &[],
        (false, false) => &[Step::Data],
    }
}

/// How many bytes of the stream there are up to the end of a segment.
fn end_of(item: &Item) -> Option<u64> {
    let Item::Segment(segment) = item else {
        return None;
    };
    match segment.seq {
        // The first byte is behind the SYN.
        Number::Of(seq) if segment.length > 0 => {
            u64::try_from(i64::from(seq) - 1 + segment.length as i64).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::normal::{FlowName, ProgramEnd, SegmentItem};

    const ACK: u8 = Segment::ACK;

    fn lab(name: &str) -> Lab {
        let file = format!(
            "{}/../../labs/explore/{name}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(&file).expect("a lab");
        vink_spec::read_text(&text, &file, None).expect("a lab").lab
    }

    fn counterparts() -> Counterparts {
        Counterparts::of(&lab("linux"), &lab("smoltcp")).expect("they are")
    }

    #[test]
    fn labs_differ_in_what_is_on_machines() {
        let bob = ["bob".to_owned()].into();
        assert_eq!(counterparts().machines, bob);
        let why = |change: &dyn Fn(&mut Lab)| {
            let mut other = lab("smoltcp");
            change(&mut other);
            let refused = Counterparts::of(&lab("linux"), &other);
            refused.expect_err("they are not").to_string()
        };
        let machine = |lab: &mut Lab| {
            lab.machines.insert("carol".to_owned(), Default::default());
        };
        let program = |lab: &mut Lab| lab.machines["bob"].programs.clear();
        let interface = |lab: &mut Lab| lab.machines["bob"].interfaces.clear();
        let wire = |lab: &mut Lab| lab.wires.clear();
        assert!(why(&machine).starts_with("machines are not the same in linux and smoltcp:"));
        assert!(why(&program).starts_with("programs of bob are not"));
        assert!(why(&interface).starts_with("interfaces of bob are not"));
        assert!(why(&wire).starts_with("wires are not"));
    }

    /// A stream in segments of this length, on a machine of this name.
    fn stream(length: usize, to: &str) -> Normal {
        let segment = |flags, seq, length| {
            let item = Item::Segment(SegmentItem {
                flags,
                seq: Number::Of(seq),
                ack: None,
                length,
                is_closed: false,
                sack: Vec::new(),
                options: vec![length as u8],
                mss: None,
                state: String::new(),
            });
            Sent {
                time: seq as u64,
                room: Some(1),
                item,
            }
        };
        let mut sent = vec![segment(Segment::SYN, 0, 0)];
        let starts = (0..3000).step_by(length);
        sent.extend(starts.map(|start| segment(ACK, 1 + start, length)));
        // The last one has come again, with the end.
        sent.push(segment(ACK | Segment::FIN, 3001 - length as i32, length));
        let name = FlowName {
            from: "alice".to_owned(),
            to: to.to_owned(),
            protocol: "TCP".to_owned(),
            number: 1,
        };
        let last = sent.len() - 1;
        Normal {
            flows: vec![Flow { name, sent }],
            hits: vec![(0, 0), (0, 1), (0, last)],
            behind: vec![None],
            left: vec![("bob".to_owned(), length.to_string())],
            programs: vec![ProgramEnd {
                name: "bob.receiver".to_owned(),
                time: None,
                status: Some((1, Some(format!("{length}")))),
                received: vec![(length as u64, String::new())],
            }],
            ..Normal::default()
        }
    }

    #[test]
    fn how_a_stream_is_sent_is_not_in_it() {
        let counterparts = counterparts();
        let one = counterparts.outline(stream(1000, "bob"));
        let other = counterparts.outline(stream(500, "10.0.0.2"));
        assert_eq!(one.digest(), other.digest());
        assert_eq!(one.hits, other.hits);
        let said = one.flows[0].sent.iter().map(|sent| sent.item.to_string());
        let said: Vec<String> = said.collect();
        assert_eq!(said, ["SYN", "data, 3000 bytes in all", "FIN"]);
        assert_eq!(one.flows[0].name.to, "bob");
        let mut less = stream(1000, "bob");
        less.flows[0].sent.drain(3..);
        less.hits.clear();
        assert_ne!(counterparts.outline(less).digest(), one.digest());
        // What alice has received is compared.
        let mut on_alice = stream(1000, "bob");
        on_alice.programs[0].name = "alice.sender".to_owned();
        assert_eq!(counterparts.outline(on_alice).programs[0].received.len(), 1);
    }
}
