//! What two images answer to the same schedule, side by side: the first difference.

use std::fmt::Write;

use super::normal::{FlowName, Item, Normal, ProgramEnd, Sent};
use super::outline::Step;
use super::rules::Rule;
use crate::story::seconds;
use crate::Ending;

/// So many packets that both have sent before a difference are told with it.
const BEFORE: usize = 3;
/// So many bytes of a window are more than enough, and not told.
const MUCH: i32 = 3000;

/// The first difference of two runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// When, by the clock of the run in which it is seen first, ns.
    pub time: u64,
    /// What it is.
    pub what: What,
}

/// What differs. The first of two is the image that is explored, the second the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet.
    Packet {
        /// Of which flow.
        flow: FlowName,
        /// How many come before it there.
        at: usize,
        /// What is sent; nothing more, if there is none.
        sides: [Option<Sent>; 2],
        /// The last ones that both have sent before it in that flow, as the first image has them.
        before: Vec<Sent>,
        /// How many bytes may be sent behind the last of these, by the windows that have been told there and here.
        rooms: [Option<i32>; 2],
        /// Of an outline: whether both ends have sent their FIN before it.
        is_over: bool,
    },
    /// A program's end, or what it has received.
    Program([ProgramEnd; 2]),
    /// Connections that are left: machine and state.
    Left([Vec<(String, String)>; 2]),
    /// How the run has ended.
    Ending([Option<Ending>; 2]),
    /// What the kernel complains of.
    Complaint([Option<String>; 2]),
}

/// What comes of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both answer alike.
    Same,
    /// The first difference is what this rule lets differ. What comes of it is not compared.
    Explained(&'static Rule),
    /// The schedule has hit other packets: these were sent at other times, in another order.
    OtherPackets,
    /// They differ.
    Different(Box<Difference>),
}

/// Compares two runs of the same schedule.
pub fn compare(one: &Normal, other: &Normal, rules: &[&'static Rule]) -> Verdict {
    if one.digest() == other.digest() {
        return Verdict::Same;
    }
    let Some(difference) = first(one, other) else {
        return Verdict::Same;
    };
    let mut rules = rules.iter().copied();
    let rule = rules.find(|rule| rule.allows(&difference));
    match rule {
        Some(rule) => Verdict::Explained(rule),
        None if hits(one) != hits(other) || one.behind != other.behind => Verdict::OtherPackets,
        None => Verdict::Different(Box::new(difference)),
    }
}

/// The packets that have had another fate.
fn hits(normal: &Normal) -> Vec<(&FlowName, usize)> {
    let hits = normal.hits.iter();
    hits.map(|(flow, at)| (&normal.flows[*flow].name, *at))
        .collect()
}

fn first(one: &Normal, other: &Normal) -> Option<Difference> {
    if one.complaint != other.complaint {
        let both = [&one.complaint, &other.complaint];
        return Some(Difference {
            time: 0,
            what: What::Complaint(both.map(Clone::clone)),
        });
    }
    let ends = [one.end, other.end];
    let is_new = |name: &FlowName| one.flows.iter().all(|its| its.name != *name);
    let added = other.flows.iter().filter(|flow| is_new(&flow.name));
    let flows = one.flows.iter().chain(added);
    let packets = flows.filter_map(|flow| in_flow(&flow.name, [one, other], ends));
    let programs = one.programs.iter().zip(&other.programs);
    let programs = programs.filter_map(|(one, other)| {
        let (mine, its) = (
            (&one.status, &one.received),
            (&other.status, &other.received),
        );
        (mine != its).then(|| Difference {
            time: one
                .time
                .into_iter()
                .chain(other.time)
                .min()
                .unwrap_or(u64::MAX),
            what: What::Program([one.clone(), other.clone()]),
        })
    });
    // Of those at one time a packet is told first.
    let earliest = packets
        .chain(programs)
        .min_by_key(|difference| difference.time);
    earliest.or_else(|| {
        let what = match one.left == other.left {
            false => What::Left([one.left.clone(), other.left.clone()]),
            true if one.ending != other.ending => What::Ending([one.ending, other.ending]),
            true => return None,
        };
        let time = u64::MAX;
        Some(Difference { time, what })
    })
}

/// The first difference of a flow. The runs have ended at these times: what one sends later the other may, too.
fn in_flow(name: &FlowName, normals: [&Normal; 2], ends: [u64; 2]) -> Option<Difference> {
    let flows = normals.map(|normal| normal.sent(name));
    let both = flows[0].iter().zip(flows[1]);
    let same = both.take_while(|(mine, its)| mine.item == its.item).count();
    let sides = flows.map(|sent| sent.get(same));
    let is_cut = match sides {
        [Some(sent), None] => sent.time >= ends[1],
        [None, Some(sent)] => sent.time >= ends[0],
        _ => false,
    };
    if is_cut {
        return None;
    }
    let time = sides.iter().flatten().map(|sent| sent.time).min()?;
    let last = |sent: &[Sent]| sent.get(same.checked_sub(1)?)?.room;
    let peer = name.peer();
    let has_closed = |normal: &Normal, name: &FlowName, at: u64| {
        let mut before = normal.sent(name).iter().take_while(|sent| sent.time <= at);
        before.any(|sent| sent.item.does(Step::Fin))
    };
    let is_over = normals.iter().zip(sides).all(|(normal, side)| {
        let closed = |sent: &Sent| {
            has_closed(normal, name, sent.time) && has_closed(normal, &peer, sent.time)
        };
        side.is_none_or(closed)
    });
    Some(Difference {
        time,
        what: What::Packet {
            flow: name.clone(),
            at: same,
            sides: sides.map(|side| side.cloned()),
            before: flows[0][same.saturating_sub(BEFORE)..same].to_vec(),
            rooms: flows.map(last),
            is_over,
        },
    })
}

impl Difference {
    /// What differs, in a word: for folders, and for those that are told apart.
    pub fn kind(&self) -> &'static str {
        match &self.what {
            What::Packet { sides, .. } => match sides {
                [Some(one), Some(other)] => differs(&one.item, &other.item),
                [Some(_), None] => "less",
                _ => "more",
            },
            What::Program(_) => "program",
            What::Left(_) => "left",
            What::Ending(_) => "ending",
            What::Complaint(_) => "complaint",
        }
    }

    /// The machine at which it is seen; none, if it is no one's.
    pub fn machine(&self) -> &str {
        match &self.what {
            What::Packet { flow, .. } => &flow.from,
            What::Program([one, _]) => one.name.split('.').next().unwrap_or_default(),
            What::Left(_) | What::Ending(_) | What::Complaint(_) => "",
        }
    }

    /// A paragraph for users. The images are named so.
    pub fn says(&self, images: [&str; 2]) -> String {
        let width = images.iter().map(|image| image.len()).max().unwrap_or(0);
        let mut text = String::new();
        let mut line = |image: &str, what: String| {
            let _ = writeln!(text, "  {image:width$}  {what}");
        };
        match &self.what {
            What::Packet {
                flow,
                at,
                sides,
                before,
                rooms: _,
                is_over: _,
            } => {
                for sent in before {
                    line("both", said(Some(sent)));
                }
                for (image, side) in images.iter().zip(sides) {
                    line(image, said(side.as_ref()));
                }
                format!("{flow}: packet {} of it differs.\n{text}", at + 1)
            }
            What::Program(sides) => {
                for (image, side) in images.iter().zip(sides) {
                    line(image, ended(side));
                }
                format!("Program {}:\n{text}", sides[0].name)
            }
            What::Left(sides) => {
                for (image, side) in images.iter().zip(sides) {
                    let all: Vec<String> = side
                        .iter()
                        .map(|(machine, state)| format!("{state} on {machine}"))
                        .collect();
                    line(
                        image,
                        match all.len() {
                            0 => "none".to_owned(),
                            _ => all.join(", "),
                        },
                    );
                }
                format!("Connections that are left in the end:\n{text}")
            }
            What::Ending(sides) => {
                for (image, side) in images.iter().zip(sides) {
                    line(image, ending(*side).to_owned());
                }
                format!("The run's end:\n{text}")
            }
            What::Complaint(sides) => {
                for (image, side) in images.iter().zip(sides) {
                    line(
                        image,
                        side.clone().unwrap_or("complains of nothing".to_owned()),
                    );
                }
                format!("The kernel:\n{text}")
            }
        }
    }
}

fn said(sent: Option<&Sent>) -> String {
    match sent {
        Some(Sent { time, room, item }) => {
            let room = room.filter(|room| *room < MUCH);
            let room = room.map_or(String::new(), |room| format!(", window for {room} more"));
            format!("{} s  {item}{room}", seconds(*time))
        }
        None => "sends nothing more".to_owned(),
    }
}

fn ended(end: &ProgramEnd) -> String {
    let mut text = match &end.status {
        None => "has not ended".to_owned(),
        Some((status, None)) => format!("ended with status {status}"),
        Some((status, Some(why))) => format!("ended with status {status}: {why}"),
    };
    for (bytes, hash) in &end.received {
        let _ = write!(text, "; received {bytes} bytes ({hash})");
    }
    text
}

fn ending(ending: Option<Ending>) -> &'static str {
    match ending {
        Some(Ending::Done) => "all that is to end has ended",
        Some(Ending::Silent) => "nothing will ever happen",
        Some(Ending::Late) => "it is as it was, long after the last fault",
        Some(Ending::Flood) => "it sends packets without an end",
        None => "it has none",
    }
}

/// What tells two packets apart, in a word.
fn differs(one: &Item, other: &Item) -> &'static str {
    let (one, other) = match (one, other) {
        (Item::Segment(one), Item::Segment(other)) => (one, other),
        (Item::Step { step: one, .. }, Item::Step { step: other, .. }) if one == other => {
            return "length"
        }
        (Item::Step { .. }, Item::Step { .. }) => return "flags",
        _ => return "packet",
    };
    let parts = [
        ("flags", one.flags != other.flags),
        ("sequence", one.seq != other.seq),
        ("length", one.length != other.length),
        ("acknowledgement", one.ack != other.ack),
        ("sack", one.sack != other.sack),
        ("window", one.is_closed != other.is_closed),
        (
            "options",
            (&one.options, one.mss) != (&other.options, other.mss),
        ),
        ("state", one.state != other.state),
    ];
    let found = parts.iter().find(|(_, differs)| *differs);
    found.map_or("packet", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::normal::Flow;

    fn normal(lengths: [&[(u64, usize)]; 2]) -> Normal {
        let flows = lengths.iter().zip(["a", "b"]);
        let flows = flows.map(|(lengths, from)| Flow {
            name: FlowName {
                from: from.to_owned(),
                to: "c".to_owned(),
                protocol: "UDP".to_owned(),
                number: 0,
            },
            sent: lengths
                .iter()
                .map(|(time, length)| Sent {
                    time: *time,
                    room: None,
                    item: Item::Other {
                        kind: 0,
                        length: *length,
                    },
                })
                .collect(),
        });
        Normal {
            flows: flows.collect(),
            hits: vec![(0, 0)],
            end: 1000,
            ..Normal::default()
        }
    }

    #[test]
    fn the_earliest_difference_is_told() {
        let one = normal([&[(10, 1), (20, 2), (70, 3)], &[(30, 5), (60, 6)]]);
        let later = normal([&[(11, 1), (25, 2), (75, 3)], &[(35, 5), (65, 6)]]);
        assert_eq!(compare(&one, &later, &[]), Verdict::Same);
        let other = normal([&[(11, 1), (25, 2), (75, 4)], &[(35, 5)]]);
        let Verdict::Different(difference) = compare(&one, &other, &[]) else {
            panic!("no difference");
        };
        assert_eq!((difference.time, difference.kind()), (60, "less"));
        assert_eq!(
            difference.says(["6.12", "mutant"]),
            "UDP from b to c: packet 2 of it differs.\n  \
             both    0.000000 s  5 bytes\n  \
             6.12    0.000000 s  6 bytes\n  \
             mutant  sends nothing more\n"
        );
        // What comes when the other run is over is none.
        let mut cut = one.clone();
        cut.flows[0].sent.pop();
        cut.end = 70;
        assert_eq!(compare(&one, &cut, &[]), Verdict::Same);
        let mut elsewhere = other.clone();
        elsewhere.hits = vec![(1, 0)];
        assert_eq!(compare(&one, &elsewhere, &[]), Verdict::OtherPackets);
    }

    #[test]
    fn programs_and_what_is_left_are_compared() {
        let end = |status| ProgramEnd {
            name: "a.client".to_owned(),
            time: Some(5),
            status: Some((status, None)),
            received: vec![(3, "x".to_owned())],
        };
        let of = |status| Normal {
            programs: vec![end(status)],
            ..Normal::default()
        };
        let kind = |one: &Normal, other: &Normal| match compare(one, other, &[]) {
            Verdict::Different(difference) => difference.kind(),
            verdict => panic!("{verdict:?}"),
        };
        assert_eq!(kind(&of(0), &of(1)), "program");
        let mut other = of(0);
        other.left = vec![("a".to_owned(), "ESTAB".to_owned())];
        assert_eq!(kind(&of(0), &other), "left");
        assert_eq!(kind(&of(0), &Normal::dead("died".to_owned())), "complaint");
    }
}
