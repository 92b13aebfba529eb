//! What may differ, and why: between two versions of Linux all of it is in [`RULES`], between outlines of two TCPs in
//! [`OUTLINE_RULES`].
//!
//! A rule is about the first difference of a run. What comes after one that it lets pass is not compared, since
//! both are in another situation then.

use super::compare::{Difference, What};
use super::normal::{Item, Number, SegmentItem, Sent};
use super::outline::Step;
use crate::Segment;

/// A version, as in `6.12`.
type Version = (u32, u32);

/// With less room than a full segment takes a sender waits for a window.
const FULL: i32 = 1460;

/// Something that may differ.
#[derive(Debug)]
pub struct Rule {
    /// Its name, in a word.
    pub name: &'static str,
    /// It differs between versions before this one, and this one and later ones. Of two TCPs it says nothing.
    pub since: Version,
    /// What the newer version does.
    pub why: &'static str,
    /// Whether it is about this difference.
    allows: fn(&Packets<'_>) -> bool,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.name == other.name
    }
}

impl Eq for Rule {}

/// All rules.
pub static RULES: [Rule; 6] = [
    Rule {
        name: "syn-timeouts",
        since: (6, 5),
        why: "The first four time-outs of a SYN do not grow (net.ipv4.tcp_syn_linear_timeouts), so that it is \
              sent more often.",
        allows: |packets| {
            let kind = Segment::SYN | Segment::ACK;
            let last = packets.last.and_then(segment);
            let last = last.filter(|last| last.flags & kind == Segment::SYN);
            let mut sides = packets.sides.iter().flatten();
            last.is_some() && sides.any(|sent| segment(sent) == last)
        },
    },
    Rule {
        name: "syn-challenge",
        since: (6, 12),
        why: "A SYN for a connection that is there is answered by an acknowledgement alone (RFC 5961, 4.2), \
              outside of the window, too. Before, that was answered as a duplicate, with a DSACK.",
        allows: |packets| {
            packets.segments().is_some_and(|[one, other]| {
                let has = [one, other].map(|one| one.sack.contains(&OF_SYN));
                is_pure(one) && is_pure(other) && has[0] != has[1]
            })
        },
    },
    Rule {
        name: "windows",
        since: (6, 6),
        why: "Windows go by the memory that a connection's segments take (scaling_ratio), not by a fixed part \
              of the buffer (net.ipv4.tcp_adv_win_scale). So a sender that waits for a window may send another \
              number of bytes.",
        allows: |packets| {
            let own = packets.sides.map(|sent| sent.and_then(|sent| sent.room));
            let mut all = packets.rooms.into_iter().chain(own).flatten();
            let edges = packets.sides.map(|sent| sent.and_then(edge));
            let differ =
                packets.rooms[0] != packets.rooms[1] || own[0] != own[1] || edges[0] != edges[1];
            differ && all.any(|room| room < FULL)
        },
    },
    Rule {
        name: "acknowledgements",
        since: (6, 7),
        why: "Segments that come while the program is in a call are acknowledged together when that is over \
              (net.ipv4.tcp_backlog_ack_defer). And windows, by which it is decided whether an acknowledgement \
              waits, are others.",
        allows: |packets| {
            packets.segments().is_some_and(|[one, other]| {
                let goes_on = [one, other].iter().all(|one| one.flags & !Segment::PSH == Segment::ACK);
                let has = [one, other].map(|one| one.sack.contains(&OF_SYN));
                goes_on && one.seq == other.seq && (is_pure(one) || is_pure(other)) && has[0] == has[1]
            })
        },
    },
    Rule {
        name: "segments",
        since: (6, 10),
        why: "A segment that is to be sent is filled up with the data behind it (tcp_grow_skb), and data takes less \
              memory while it waits. So segments are cut, and marked with PSH, at other places, and a program \
              has written all at another moment.",
        allows: |packets| {
            packets.segments().is_some_and(|[one, other]| {
                let data = [one, other].iter().all(|one| one.flags & !Segment::PSH == Segment::ACK);
                data && one.length > 0 && other.length > 0 && one.seq == other.seq && one.ack == other.ack
            })
        },
    },
    Rule {
        name: "fin-waits",
        since: (6, 10),
        why: "A FIN waits for the congestion window, as data does. Before, one without data did not.",
        allows: |packets| {
            let is_fin = |sent: &Sent| {
                let fin = Segment::FIN | Segment::ACK;
                segment(sent).is_some_and(|one| one.flags == fin && one.length == 0)
            };
            let fins = packets.sides.map(|sent| sent.is_some_and(is_fin));
            let closed = ["FIN_WAIT1", "CLOSING", "LAST_ACK"];
            let waits = |sent: Option<&Sent>| {
                sent.and_then(segment)
                    .is_none_or(|one| closed.contains(&one.state.as_str()))
            };
            let is_first = !packets.last.is_some_and(is_fin);
            is_first && fins[0] != fins[1] && packets.sides.iter().all(|sent| waits(*sent))
        },
    },
];

/// Those of outlines: of any two TCPs.
pub static OUTLINE_RULES: [Rule; 1] = [Rule {
    name: "closed",
    since: (0, 0),
    why: "What comes for a connection that is over is answered by an RST (RFC 9293, 3.10.7.1), as long as there is a \
          stack: an app takes its own away with it. And by how much two TCPs acknowledge it depends what comes so late.",
    allows: |packets| packets.is_over && packets.sides.iter().flatten().all(|sent| sent.item.does(Step::Reset)),
}];

/// The SACK block of a SYN that has come again.
const OF_SYN: (Number, Number) = (Number::Of(0), Number::Of(1));

/// Whether a segment does nothing but acknowledge.
fn is_pure(one: &SegmentItem) -> bool {
    one.flags == Segment::ACK && one.length == 0
}

/// Up to where the window lets its sender send, from the initial sequence number on.
fn edge(sent: &Sent) -> Option<i32> {
    let one = segment(sent)?;
    let Number::Of(seq) = one.seq else {
        return None;
    };
    let ends = one.flags & (Segment::SYN | Segment::FIN);
    Some(seq + one.length as i32 + ends.count_ones() as i32 + sent.room?)
}

/// A difference in what is sent.
struct Packets<'a> {
    /// What is sent.
    sides: [Option<&'a Sent>; 2],
    /// The last one that both have sent before it.
    last: Option<&'a Sent>,
    /// How many bytes may be sent behind that.
    rooms: [Option<i32>; 2],
    /// Whether both ends have sent a FIN before.
    is_over: bool,
}

impl<'a> Packets<'a> {
    /// What both send, if each is a segment.
    fn segments(&self) -> Option<[&'a SegmentItem; 2]> {
        let [one, other] = self.sides.map(|sent| sent.and_then(segment));
        Some([one?, other?])
    }
}

fn segment(sent: &Sent) -> Option<&SegmentItem> {
    match &sent.item {
        Item::Segment(segment) => Some(segment),
        Item::Other { .. } | Item::Step { .. } => None,
    }
}

impl Rule {
    /// Whether it is about this difference.
    pub fn allows(&self, difference: &Difference) -> bool {
        let What::Packet {
            sides,
            before,
            rooms,
            is_over,
            ..
        } = &difference.what
        else {
            return false;
        };
        (self.allows)(&Packets {
            sides: sides.each_ref().map(Option::as_ref),
            last: before.last(),
            rooms: *rooms,
            is_over: *is_over,
        })
    }
}

/// Those that are about these releases (`6.12.117`); none of two images of one version.
pub fn between(one: &str, other: &str) -> Vec<&'static Rule> {
    let (one, other) = (version(one), version(other));
    let (older, newer) = (one.min(other), one.max(other));
    let divides = |rule: &&Rule| older < rule.since && rule.since <= newer;
    RULES.iter().filter(divides).collect()
}

fn version(release: &str) -> Version {
    let mut numbers = release.split(['.', '-', '+']).map_while(|n| n.parse().ok());
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_about_versions_that_it_divides() {
        assert_eq!(between("6.12.117", "6.12.117-mine").len(), 0);
        assert_eq!(between("6.1.192", "6.12.117").len(), RULES.len());
        assert_eq!(between("6.12.117", "6.1.192").len(), RULES.len());
        let names = |rules: Vec<&Rule>| rules.iter().map(|rule| rule.name).collect::<Vec<_>>();
        assert_eq!(names(between("6.6.0", "6.7")), ["acknowledgements"]);
    }
}
