//! Whether a history of calls is linearizable: as if each had been done at one moment between its call
//! and its end (Herlihy and Wing, 1990).
//!
//! Of what is asked is a store of values by keys. Keys are looked at one by one, since a history is
//! linearizable if it is so of each (their locality theorem). Of one key, orders are tried call by call
//! (Wing and Gong, 1993), and a set of calls that has led to a value is not tried twice (Lowe, 2017).

use std::collections::{BTreeMap, HashSet};

/// What is asked of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Its value is this from now on.
    Put(String),
    /// Which value it has.
    Get,
    /// Its value is the second one if it was the first one.
    Swap(String, String),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Whose, by its place.
    pub program: usize,
    /// What its program calls it.
    pub number: String,
    pub key: String,
    pub ask: Ask,
    /// When, and as which of its program's lines.
    pub begin: (u64, usize),
    /// The same of its end. One without may be done at any time, or never.
    pub end: Option<(u64, usize)>,
    /// What it has brought.
    pub result: Option<String>,
}

impl Call {
    /// Whether it was over before another one began. Of two programs at one moment that is not known.
    fn is_before(&self, other: &Call) -> bool {
        self.end.is_some_and(|end| {
            end.0 < other.begin.0 || self.program == other.program && end.1 < other.begin.1
        })
    }

    /// The value behind it, if it can be done when it is this one.
    fn done(&self, value: Option<&str>) -> Option<Option<String>> {
        match &self.ask {
            Ask::Put(new) => Some(Some(new.clone())),
            // What has not ended has brought nothing that could be wrong.
            Ask::Get if self.end.is_none() || self.result.as_deref() == value => {
                Some(value.map(str::to_owned))
            }
            Ask::Swap(old, new) if value == Some(old) => Some(Some(new.clone())),
            Ask::Get | Ask::Swap(..) => None,
        }
    }
}

/// The calls that a program's lines tell of: `call NUMBER put KEY VALUE`, `call NUMBER get KEY`, `call NUMBER swap
/// KEY OLD NEW`, `done NUMBER [VALUE]`, and `fail NUMBER` of one that was not done and never will be.
pub(crate) fn read(program: usize, lines: impl Iterator<Item = (u64, String)>) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for (place, (time, line)) in lines.enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let own = |word: &str| word.to_owned();
        let at = (time, place);
        let (number, key, ask) = match words[..] {
            ["call", number, "put", key, value] => (number, key, Ask::Put(own(value))),
            ["call", number, "get", key] => (number, key, Ask::Get),
            ["call", number, "swap", key, old, new] => (number, key, Ask::Swap(own(old), own(new))),
            ["done", number, ref result @ ..] if result.len() <= 1 => {
                let is_it = |call: &&mut Call| call.number == number && call.end.is_none();
                if let Some(call) = calls.iter_mut().find(is_it) {
                    call.end = Some(at);
                    call.result = result.first().map(|word| own(word));
                }
                continue;
            }
            ["fail", number] => {
                calls.retain(|call| call.number != number || call.end.is_some());
                continue;
            }
            _ => continue,
        };
        calls.push(Call {
            program,
            number: own(number),
            key: own(key),
            ask,
            begin: at,
            end: None,
            result: None,
        });
    }
    calls
}

/// A key of which no order explains the calls.
pub(crate) fn wrong(calls: &[Call]) -> Option<String> {
    let mut keys: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        keys.entry(&call.key).or_default().push(call);
    }
    let mut keys = keys.into_iter();
    keys.find_map(|(key, calls)| (!is_linearizable(&calls)).then(|| key.to_owned()))
}

fn is_linearizable(calls: &[&Call]) -> bool {
    let mut tried = HashSet::new();
    let mut left = vec![(vec![false; calls.len()], None::<String>)];
    while let Some((done, value)) = left.pop() {
        let undone = || (0..calls.len()).filter(|at| !done[*at]);
        if undone().all(|at| calls[at].end.is_none()) {
            return true;
        }
        for at in undone() {
            let is_next = !undone().any(|other| calls[other].is_before(calls[at]));
            let Some(next) = calls[at].done(value.as_deref()).filter(|_| is_next) else {
                continue;
            };
            let mut with = done.clone();
            with[at] = true;
            if tried.insert((with.clone(), next.clone())) {
                left.push((with, next));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of lines with their time and their program.
    fn explains(lines: &[(u64, usize, &str)]) -> bool {
        let mut calls = Vec::new();
        for program in 0..3 {
            let its = lines.iter().filter(|(_, its, _)| *its == program);
            calls.extend(read(
                program,
                its.map(|(time, _, line)| (*time, (*line).to_owned())),
            ));
        }
        wrong(&calls).is_none()
    }

    #[test]
    fn what_some_order_explains() {
        // Two writers at a time: either may be the last one, but not both.
        let both = [
            (1, 0, "call 1 put x 1"),
            (1, 1, "call 1 put x 2"),
            (3, 0, "done 1"),
            (3, 1, "done 1"),
            (4, 2, "call 1 get x"),
            (5, 2, "done 1 1"),
        ];
        assert!(explains(&both));
        let more = |get: &'static str| {
            let mut lines = both.to_vec();
            lines.extend([(6, 2, "call 2 get x"), (7, 2, get)]);
            explains(&lines)
        };
        assert!(more("done 2 1"));
        assert!(!more("done 2 2"));
        assert!(!more("done 2"));
        assert!(more("fail 2"));
        // One that has not ended may have been done, late or not at all.
        let pending = [(1, 0, "call 1 put x 1"), (5, 1, "call 1 get x")];
        for (get, is_so) in [("done 1", true), ("done 1 1", true), ("done 1 2", false)] {
            assert_eq!(
                explains(&[&pending[..], &[(6, 1, get)]].concat()),
                is_so,
                "{get}"
            );
        }
    }

    #[test]
    fn what_is_stale_lost_or_of_another_key() {
        let put = [(1, 0, "call 1 put x 1"), (2, 0, "done 1")];
        let then = |lines: &[(u64, usize, &'static str)]| explains(&[&put[..], lines].concat());
        assert!(!then(&[(3, 1, "call 1 get x"), (4, 1, "done 1")]));
        assert!(then(&[(3, 1, "call 1 get y"), (4, 1, "done 1")]));
        // At one moment: of the same program the order is known.
        assert!(!then(&[(2, 0, "call 2 get x"), (3, 0, "done 2")]));
        assert!(then(&[(2, 1, "call 1 get x"), (3, 1, "done 1")]));
        // Only one of two can have swapped the same value.
        let swaps = |second: &'static str| {
            then(&[
                (3, 0, "call 2 swap x 1 2"),
                (3, 1, "call 1 swap x 1 3"),
                (4, 0, "done 2"),
                (5, 1, second),
            ])
        };
        assert!(swaps("fail 1"));
        assert!(!swaps("done 1"));
    }

    #[test]
    fn many_calls_at_a_time() {
        let texts: Vec<_> = (0..12)
            .map(|n| (format!("call {n} put x {n}"), format!("done {n}")))
            .collect();
        let mut lines: Vec<(u64, usize, &str)> = Vec::new();
        lines.extend(texts.iter().map(|(call, _)| (1, 0, call.as_str())));
        lines.extend(texts.iter().map(|(_, done)| (2, 0, done.as_str())));
        lines.extend([(3, 1, "call 1 get x"), (4, 1, "done 1 12")]);
        assert!(!explains(&lines));
        lines[25] = (4, 1, "done 1 7");
        assert!(explains(&lines));
    }
}
