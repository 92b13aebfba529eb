//! What is to hold of a lab in every run: users' own properties, which `vink explore` checks.
//!
//! Comparisons of [`Quantity`]s, as time series have them, of numbers, and of what programs write.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::Node;
use crate::read::Reader;
use crate::{named_by, Quantity, Span};

/// All of some comparisons.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Claim {
    /// Each of them is to hold.
    pub all: Vec<Comparison>,
    /// What these programs, `machine.program`, write of calls and their ends is as if one call had come after the
    /// other; none: of no program.
    pub linearizable: Vec<String>,
    /// How long after the last fault at the latest.
    pub within: Option<Span>,
    /// Its line in the lab file; 0: it is from none. Two that say the same are the same.
    pub line: usize,
}

/// Two sums, and how they are to be to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// One.
    pub left: Vec<Term>,
    /// How.
    pub operator: Operator,
    /// The other.
    pub right: Vec<Term>,
}

/// A part of a sum.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// This number.
    Number(f64),
    /// A number of the lab.
    Quantity(Quantity),
    /// How many lines a program has written that have this text in them; without a text: all.
    Lines {
        /// `machine.program`.
        program: String,
        /// The text, or nothing.
        text: String,
    },
    /// The number behind the last of this text in what a program has written.
    Output {
        /// `machine.program`.
        program: String,
        /// The text, or nothing: then it is the first number.
        text: String,
    },
}

/// How two numbers are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The same.
    Equal,
    /// Not that.
    Unequal,
    /// The first one is less.
    Less,
    /// It is not more.
    LessOrEqual,
    /// It is more.
    More,
    /// It is not less.
    MoreOrEqual,
}

const OPERATORS: [(&str, Operator); 6] = [
    ("=", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<", Operator::Less),
    ("<=", Operator::LessOrEqual),
    (">", Operator::More),
    (">=", Operator::MoreOrEqual),
];

const FORMS: &str =
    "write comparisons (=, !=, <, <=, >, >=, with a space around) joined by `and`, of sums (+) of numbers, of what \
     a time series has, such as `tcp a snd_cwnd`, of `lines MACHINE.PROGRAM [TEXT]` and of `output MACHINE.PROGRAM TEXT`; or `linearizable MACHINE.PROGRAM...`";

impl Operator {
    /// Whether two numbers are so.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Operator::Equal => left == right,
            Operator::Unequal => left != right,
            Operator::Less => left < right,
            Operator::LessOrEqual => left <= right,
            Operator::More => left > right,
            Operator::MoreOrEqual => left >= right,
        }
    }
}

impl Claim {
    /// All parts of all sums.
    pub fn terms(&self) -> impl Iterator<Item = &Term> {
        self.all
            .iter()
            .flat_map(|comparison| comparison.left.iter().chain(&comparison.right))
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Claim) -> bool {
        self.all == other.all
            && self.linearizable == other.linearizable
            && self.within == other.within
    }
}

impl FromStr for Claim {
    type Err = String;

    fn from_str(text: &str) -> Result<Claim, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (words, within) = match words[..] {
            [ref words @ .., "within", time] => {
                let time = time.parse::<Span>();
                (words, Some(time.map_err(|error| error.to_string())?))
            }
            ref words => (words, None),
        };
        let mut claim = Claim {
            within,
            ..Claim::default()
        };
        for part in words.split(|word| *word == "and") {
            match part {
                ["linearizable", programs @ ..] if !programs.is_empty() => {
                    let programs = programs.iter().map(|name| (*name).to_owned());
                    claim.linearizable.extend(programs);
                }
                part => claim.all.push(comparison(part)?),
            }
        }
        Ok(claim)
    }
}

fn comparison(words: &[&str]) -> Result<Comparison, String> {
    let wrong = || format!("{:?} is no comparison: {FORMS}", words.join(" "));
    let operator = |word: &&str| OPERATORS.iter().find(|(its, _)| its == word);
    let mut places = words.iter().enumerate();
    let place = places.find_map(|(at, word)| Some((at, operator(word)?.1)));
    let (at, operator) = place.ok_or_else(wrong)?;
    let sum = |words: &[&str]| -> Result<Vec<Term>, String> {
        let terms = words.split(|word| *word == "+");
        terms.map(term).collect()
    };
    if words[..at].is_empty() || words[at + 1..].is_empty() {
        return Err(wrong());
    }
    Ok(Comparison {
        left: sum(&words[..at])?,
        operator,
        right: sum(&words[at + 1..])?,
    })
}

fn term(words: &[&str]) -> Result<Term, String> {
    match words {
        [number] if number.parse::<f64>().is_ok_and(f64::is_finite) => {
            Ok(Term::Number(number.parse().expect("just seen")))
        }
        ["lines", program, text @ ..] => Ok(Term::Lines {
            program: (*program).to_owned(),
            text: text.join(" "),
        }),
        ["output", program, text @ ..] => Ok(Term::Output {
            program: (*program).to_owned(),
            text: text.join(" "),
        }),
        words => {
            let text = words.join(" ");
            let quantity: Quantity = text
                .parse()
                .map_err(|_| format!("{text:?} is no number of a lab: {FORMS}"))?;
            match quantity.growth {
                None => Ok(Term::Quantity(quantity)),
                Some(_) => Err(format!(
                    "{text:?} is how much a number grows, which a moment does not tell: compare the number itself"
                )),
            }
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, program, text) = match self {
            Term::Number(number) => return write!(f, "{number}"),
            Term::Quantity(quantity) => return write!(f, "{quantity}"),
            Term::Lines { program, text } => ("lines", program, text),
            Term::Output { program, text } => ("output", program, text),
        };
        write!(f, "{}", format!("{word} {program} {text}").trim_end())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |terms: &[Term]| {
            let terms: Vec<String> = terms.iter().map(Term::to_string).collect();
            terms.join(" + ")
        };
        let operator = OPERATORS.iter().find(|(_, its)| *its == self.operator);
        let operator = operator.map_or("", |(word, _)| word);
        write!(f, "{} {operator} {}", sum(&self.left), sum(&self.right))
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<String> = self.all.iter().map(Comparison::to_string).collect();
        if !self.linearizable.is_empty() {
            all.push(format!("linearizable {}", self.linearizable.join(" ")));
        }
        f.write_str(&all.join(" and "))?;
        match self.within {
            Some(time) => write!(f, " within {time}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for Claim {
    type Error = String;

    fn try_from(text: String) -> Result<Claim, String> {
        text.parse()
    }
}

impl From<Claim> for String {
    fn from(claim: Claim) -> String {
        claim.to_string()
    }
}

impl Reader {
    pub(crate) fn claim(&mut self, node: &Node) -> Option<Claim> {
        let claim: Claim = self.parsed(node)?;
        let line = node.span.line;
        Some(Claim { line, ..claim })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn claim(&mut self, name: &str, claim: &Claim) {
        self.name("what holds", name, false);
        let histories = claim.linearizable.iter();
        for program in histories.filter(|name| named_by(self.lab, "", name).is_none()) {
            self.no_program(program);
        }
        for term in claim.terms() {
            match term {
                Term::Number(_) => {}
                Term::Quantity(quantity) => {
                    if let Some((machine, interface)) = quantity.source.place() {
                        self.is_there(machine, interface);
                    }
                }
                Term::Lines { program, .. } | Term::Output { program, .. } => {
                    if named_by(self.lab, "", program).is_none() {
                        self.no_program(program);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_and_back() {
        for text in [
            "tcp a snd_cwnd <= 10",
            "lines a.first leads + lines b.second leads < 2 and counter a TcpAttemptFails = 0",
            "output a.bank sum is = 100 within 10s",
            "lines a.x != -1.5",
            "lines a.x < 3 and linearizable a.x b.y",
        ] {
            let read: Claim = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        for (text, error) in [
            ("", "is no comparison: write comparisons"),
            ("tcp a snd_cwnd", "is no comparison"),
            ("3 <", "is no comparison"),
            ("speed of a < 3", "\"speed of a\" is no number of a lab"),
            ("rate wire a:eth0 lost < 3", "is how much a number grows"),
            ("lines a.x = 3 within soon", "soon"),
        ] {
            let found = text.parse::<Claim>().unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    #[test]
    fn numbers_compare() {
        for (text, holds) in [
            ("=", 0b010),
            ("!=", 0b101),
            ("<", 0b001),
            ("<=", 0b011),
            (">", 0b100),
            (">=", 0b110),
        ] {
            let (_, operator) = OPERATORS.iter().find(|(its, _)| *its == text).unwrap();
            // Of less, the same, more: as bits.
            let found = [1.0, 2.0, 3.0].map(|left| u32::from(operator.holds(left, 2.0)));
            assert_eq!(found[0] + 2 * found[1] + 4 * found[2], holds, "{text}");
        }
    }
}
