//! The words after an app's name: one table says what there is, for the reader and for the help.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

/// An option of one letter.
pub(crate) struct Opt {
    pub letter: char,
    /// What its value is called; empty: it has none.
    pub value: &'static str,
    pub help: &'static str,
}

impl Opt {
    pub const fn new(letter: char, value: &'static str, help: &'static str) -> Opt {
        Opt {
            letter,
            value,
            help,
        }
    }
}

/// What all that have a host know.
pub(crate) const IPV4: Opt = Opt::new('4', "", "the host's IPv4 address");
pub(crate) const IPV6: Opt = Opt::new('6', "", "the host's IPv6 address");

/// What an app's command line looks like.
pub(crate) struct Syntax {
    pub name: &'static str,
    /// One line: what it is for.
    pub purpose: &'static str,
    /// The words that are no options, such as `HOST [PORT]`; `...` behind the last: it may be many.
    pub operands: &'static str,
    pub options: &'static [Opt],
}

impl Syntax {
    /// `echo [-c COUNT] HOST`.
    pub fn usage(&self) -> String {
        let mut usage = self.name.to_owned();
        for option in self.options {
            let blank = if option.value.is_empty() { "" } else { " " };
            usage += &format!(" [-{}{blank}{}]", option.letter, option.value);
        }
        if !self.operands.is_empty() {
            usage += " ";
            usage += self.operands;
        }
        usage
    }

    /// Several lines: all that there is to say.
    pub fn help(&self) -> String {
        let mut help = format!("{}\n{}\n", self.usage(), self.purpose);
        for option in self.options {
            let words = format!("-{} {}", option.letter, option.value);
            help += &format!("  {words:<12} {}\n", option.help);
        }
        help
    }

    /// Reads the words after the name. Options may stand anywhere, as in `-p7`, `-p 7` or `-tp 7`;
    /// what comes behind `--` is none.
    pub fn parse<'w>(&self, words: &'w [String]) -> Result<Arguments<'w>, String> {
        let mut found = Arguments::default();
        let mut words = words.iter();
        let mut only_operands = false;
        while let Some(word) = words.next() {
            let letters = match word.strip_prefix('-') {
                Some(letters) if !only_operands && !letters.is_empty() => letters,
                _ => {
                    found.operands.push(word);
                    continue;
                }
            };
            if letters == "-" {
                only_operands = true;
                continue;
            }
            for (at, letter) in letters.char_indices() {
                let option = self.options.iter().find(|o| o.letter == letter);
                let option = option.ok_or_else(|| format!("there is no option -{letter}"))?;
                let rest = &letters[at + letter.len_utf8()..];
                if option.value.is_empty() {
                    found.values.insert(letter, "");
                    continue;
                }
                let value = match rest {
                    "" => words.next().map(String::as_str),
                    rest => Some(rest),
                };
                let missing = || format!("-{letter} needs a {}", option.value);
                found.values.insert(letter, value.ok_or_else(missing)?);
                break;
            }
        }
        self.count_operands(&found)?;
        Ok(found)
    }

    fn count_operands(&self, found: &Arguments<'_>) -> Result<(), String> {
        let names: Vec<_> = self.operands.split_whitespace().collect();
        let is_many = names.last().is_some_and(|name| name.ends_with("..."));
        if let (Some(word), false) = (found.operands.get(names.len()), is_many) {
            return Err(format!("'{word}' is one word too many"));
        }
        match names.get(found.operands.len()) {
            Some(name) if !name.starts_with('[') => Err(format!("{name} is missing")),
            _ => Ok(()),
        }
    }
}

/// What was said on a command line.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'w> {
    values: HashMap<char, &'w str>,
    operands: Vec<&'w str>,
}

impl<'w> Arguments<'w> {
    /// Whether an option was given.
    pub fn has(&self, letter: char) -> bool {
        self.values.contains_key(&letter)
    }

    /// The value of an option, as it was given.
    pub fn text(&self, letter: char) -> Option<&'w str> {
        self.values.get(&letter).copied()
    }

    /// The words that are no options.
    pub fn operands(&self) -> &[&'w str] {
        &self.operands
    }

    /// The word at this place among those that are no options.
    pub fn operand(&self, at: usize) -> Option<&'w str> {
        self.operands.get(at).copied()
    }

    /// What `read` makes of an option's value.
    pub fn value<T>(
        &self,
        letter: char,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(letter) else {
            return Ok(None);
        };
        let value = read(text).map_err(|why| format!("-{letter} {text}: {why}"))?;
        Ok(Some(value))
    }

    /// A whole number from `least` on.
    pub fn number<T: FromStr + PartialOrd + ToString>(
        &self,
        letter: char,
        least: T,
    ) -> Result<Option<T>, String> {
        self.value(letter, |text| number(text, least))
    }

    /// `-4` or `-6`: whether IPv6 is wanted.
    pub fn ipv6(&self) -> Result<Option<bool>, String> {
        match (self.has('4'), self.has('6')) {
            (true, true) => Err("-4 and -6 exclude each other".into()),
            (false, false) => Ok(None),
            (_, six) => Ok(Some(six)),
        }
    }
}

/// A whole number.
pub(crate) fn number<T: FromStr + PartialOrd + ToString>(
    text: &str,
    least: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!(
            "a whole number from {} on is wanted, and not too large a one",
            least.to_string()
        )),
    }
}

/// A number and the unit behind it, as one of these; none: the first.
fn scaled(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.to_ascii_lowercase();
    let scale = units.iter().find(|(name, _)| *name == unit);
    let scale = match (scale, unit.as_str()) {
        (Some((_, scale)), _) => *scale,
        (None, "") => units[0].1,
        _ => {
            let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
            return Err(format!("a unit is one of {}", names.join(", ")));
        }
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("'{digits}' is no number"))?;
    Ok(number * scale)
}

/// A time: `10` or `10s`, `1.5ms`, `20us`, `100ns`, `2m`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let units = [
        ("s", 1e9),
        ("ms", 1e6),
        ("us", 1e3),
        ("ns", 1.0),
        ("m", 60e9),
        ("h", 3600e9),
    ];
    Ok(Duration::from_nanos(scaled(text, &units)? as u64))
}

/// A size in bytes: `1500`, `64k` (1,000), `64Ki` (1,024), `10M`, `1G`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let units = [
        ("b", 1.0),
        ("k", 1e3),
        ("kb", 1e3),
        ("m", 1e6),
        ("mb", 1e6),
        ("g", 1e9),
        ("gb", 1e9),
        ("ki", 1024.0),
        ("kib", 1024.0),
        ("mi", 1_048_576.0),
        ("mib", 1_048_576.0),
        ("gi", 1_073_741_824.0),
        ("gib", 1_073_741_824.0),
    ];
    Ok(scaled(text, &units)? as u64)
}

/// A rate in bits per second, as tc(8) has it: `10mbit`, `10m`, `1gbit`, `500kbit`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let units = [
        ("bit", 1.0),
        ("k", 1e3),
        ("kbit", 1e3),
        ("m", 1e6),
        ("mbit", 1e6),
        ("g", 1e9),
        ("gbit", 1e9),
    ];
    match scaled(text, &units)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err("a rate is more than nothing".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: Syntax = Syntax {
        name: "toy",
        purpose: "Is read.",
        operands: "HOST [PORT]",
        options: &[
            Opt::new('u', "", "UDP"),
            Opt::new('c', "COUNT", "how often"),
        ],
    };

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_stand_anywhere() {
        for line in ["-u -c 3 h 7", "h -uc3 7", "-uc 3 -- h 7", "-c3 h -u 7"] {
            let words = words(line);
            let found = SYNTAX.parse(&words).expect(line);
            assert!(found.has('u'), "{line}");
            assert_eq!(found.number('c', 1), Ok(Some(3)), "{line}");
            assert_eq!(found.operand(0), Some("h"), "{line}");
            assert_eq!(found.operand(1), Some("7"), "{line}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, why) in [
            ("", "HOST is missing"),
            ("a b c", "'c' is one word too many"),
            ("-x a", "there is no option -x"),
            ("a -c", "-c needs a COUNT"),
        ] {
            assert_eq!(SYNTAX.parse(&words(line)).expect_err(line), why);
        }
        let words = words("-c many h");
        let found = SYNTAX.parse(&words).expect("the number is read later");
        let why = found.number('c', 1).expect_err("no number");
        assert!(
            why.starts_with("-c many: a whole number from 1 on"),
            "{why}"
        );
    }

    #[test]
    fn usage_is_one_line_of_what_there_is() {
        assert_eq!(SYNTAX.usage(), "toy [-u] [-c COUNT] HOST [PORT]");
    }

    #[test]
    fn units() {
        assert_eq!(time("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(time("2"), Ok(Duration::from_secs(2)));
        assert_eq!(size("64Ki"), Ok(65536));
        assert_eq!(size("10M"), Ok(10_000_000));
        assert!(time("5 parsecs").is_err());
        assert_eq!(rate("10mbit"), Ok(10e6));
        assert_eq!(rate("8"), Ok(8.0));
        assert!(rate("0").is_err() && rate("mbit").is_err());
    }
}
