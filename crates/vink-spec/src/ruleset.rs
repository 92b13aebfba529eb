//! nft(8) rules of a place: which tables a text declares, and that it touches no others.
//!
//! The text is nft's own language, and nft reads it. Read here is only what its statements are
//! about, since a filter owns the tables that it declares and nothing else: the next version of the
//! filter deletes them, and the tables of other filters on the same machine stay.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The families of nft(8).
const FAMILIES: [&str; 6] = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];
/// Statements that change something.
const VERBS: [&str; 9] = [
    "add", "create", "insert", "replace", "delete", "destroy", "flush", "reset", "rename",
];
/// What they change, in a table.
const OBJECTS: [&str; 14] = [
    "table",
    "chain",
    "rule",
    "set",
    "map",
    "element",
    "flowtable",
    "counter",
    "counters",
    "quota",
    "quotas",
    "limit",
    "secmark",
    "synproxy",
];

/// What nft calls its input.
const INPUT: &str = "/dev/stdin:";
/// The words in front of a command whose program may be in /usr/sbin, as nft(8) and bridge(8) are:
/// not every user has that in the path.
pub const WITH_SBIN: [&str; 4] = ["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; exec \"$@\"", "sh"];

/// The word of a text that stands for its interface.
const INTERFACE: &str = "{{interface}}";
/// The word that stands for its machine.
const MACHINE: &str = "{{machine}}";

/// A table of nft(8).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RulesetTable {
    /// Its family, such as `inet`.
    pub family: String,
    /// Its name.
    pub name: String,
}

/// As nft(8) wants it: family and name.
impl fmt::Display for RulesetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.name)
    }
}

/// Rules for nft(8), and the tables that they declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruleset {
    /// The text with its words replaced. A `flush ruleset` is blank, since a filter replaces its own
    /// tables only; lines and columns are those of what was given, except behind a replaced word.
    pub text: String,
    /// In the order in which they are declared; at least one.
    pub tables: Vec<RulesetTable>,
}

/// Why a text can't be a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RulesetError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl Ruleset {
    /// Reads a text for a machine, and for one of its interfaces. `{{machine}}` and `{{interface}}`
    /// stand for their names.
    ///
    /// # Errors
    /// [`RulesetError`]: a statement is about no table that the text declares, or about none at all;
    /// or the text names an interface and there is none. Whether the rules are good, nft(8) tells.
    pub fn read(
        text: &str,
        machine: &str,
        interface: Option<&str>,
    ) -> Result<Ruleset, RulesetError> {
        let line_of = |at: usize| text[..at].matches('\n').count() + 1;
        if let (Some(at), None) = (text.find(INTERFACE), interface) {
            return Err(RulesetError {
                line: line_of(at),
                message: format!(
                    "{INTERFACE} stands for an interface, and this filter is a machine's"
                ),
                fix: "write the interface's name, or give the filter to an interface".to_owned(),
            });
        }
        if let Some(at) = text.find('\0') {
            return Err(RulesetError {
                line: line_of(at),
                message: "there is a zero byte".to_owned(),
                fix: "write text for nft(8)".to_owned(),
            });
        }
        let mut text = text.replace(MACHINE, machine);
        if let Some(interface) = interface {
            text = text.replace(INTERFACE, interface);
        }
        let statements = statements(&text);
        let mut tables: Vec<RulesetTable> = Vec::new();
        let mut others = Vec::new();
        let mut blank = Vec::new();
        for statement in &statements {
            match statement.about()? {
                About::Nothing => {}
                About::All => blank.push(statement.span.clone()),
                About::Declared(table) if tables.contains(&table) => {}
                About::Declared(table) => tables.push(table),
                About::Changed(table) => others.push((statement.line, table)),
            }
        }
        if let Some((line, table)) = others.into_iter().find(|(_, t)| !tables.contains(t)) {
            return Err(RulesetError {
                line,
                message: format!("this is about table {table}, which the filter does not declare"),
                fix: format!("declare it (`table {table} {{ ... }}`): a filter owns its tables, and no others"),
            });
        }
        if tables.is_empty() {
            return Err(RulesetError {
                line: 1,
                message: "it declares no table".to_owned(),
                fix: "write rules for nft(8), such as\n    table inet filter {\n      chain input { type filter hook input priority 0; policy drop; }\n    }"
                    .to_owned(),
            });
        }
        for span in blank {
            let spaces = " ".repeat(span.len());
            text.replace_range(span, &spaces);
        }
        Ok(Ruleset { text, tables })
    }
}

/// A statement outside of all braces.
struct Statement<'a> {
    line: usize,
    /// Where it is, without what is in its braces.
    span: std::ops::Range<usize>,
    /// Its words up to the first brace.
    words: Vec<&'a str>,
}

/// What a statement is about.
enum About {
    /// A variable.
    Nothing,
    /// Everything there is: `flush ruleset`.
    All,
    Declared(RulesetTable),
    Changed(RulesetTable),
}

impl Statement<'_> {
    fn wrong(&self, message: String, fix: &str) -> RulesetError {
        RulesetError {
            line: self.line,
            message,
            fix: fix.to_owned(),
        }
    }

    fn about(&self) -> Result<About, RulesetError> {
        let mut words = self.words.iter().copied().peekable();
        let first = *words.peek().expect("a statement has words");
        match first {
            "define" | "redefine" | "undefine" => return Ok(About::Nothing),
            "include" => {
                return Err(self.wrong(
                    "a filter is one text, and includes no other".to_owned(),
                    "write the rules of the included file here",
                ))
            }
            "flush" if self.words.get(1) == Some(&"ruleset") => return Ok(About::All),
            _ => {}
        }
        let verb = words.next_if(|word| VERBS.contains(word)).unwrap_or("add");
        let object =
            match words.next_if(|word| OBJECTS.contains(word)) {
                Some(object) => object,
                // `ct helper`, `ct timeout`, `ct expectation`.
                None if words.peek() == Some(&"ct") => {
                    words.nth(1);
                    "ct"
                }
                // `add inet filter input ...` is a rule.
                None if VERBS.contains(&first) => "rule",
                None => return Err(self.wrong(
                    format!("`{first}` begins no statement of a filter"),
                    "write what nft(8) reads from a file: tables, what is in them, and variables",
                )),
            };
        let family = words
            .next_if(|word| FAMILIES.contains(word))
            .unwrap_or("ip");
        let Some(name) = words.next() else {
            return Err(self.wrong(
                format!("`{}` names no table", self.words.join(" ")),
                "name the table, such as `table inet filter`",
            ));
        };
        let table = RulesetTable {
            family: family.to_owned(),
            name: name.trim_matches('"').to_owned(),
        };
        let declares = object == "table" && matches!(verb, "add" | "create");
        Ok(match declares {
            true => About::Declared(table),
            false => About::Changed(table),
        })
    }
}

/// The statements of a text. Newlines and semicolons end them, but not within braces, strings and
/// behind a backslash; what follows `#` is a comment.
fn statements(text: &str) -> Vec<Statement<'_>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line, mut depth) = (0, 1, 0usize);
    let mut words: Vec<&str> = Vec::new();
    let (mut begin, mut begin_line) = (0, 1);
    let mut word: Option<usize> = None;
    // Once a brace has been seen, what follows up to the end of the statement is its contents.
    let mut closed = false;
    loop {
        let byte = bytes.get(at).copied();
        let ends_word = depth > 0
            || !matches!(byte, Some(b) if !b.is_ascii_whitespace() && !matches!(b, b'{' | b'}' | b';' | b'#' | b'\\'));
        if let (Some(start), true) = (word, ends_word) {
            word = None;
            if words.is_empty() {
                (begin, begin_line) = (start, line);
            }
            words.push(&text[start..at]);
        }
        let ends_statement = depth == 0 && (byte.is_none() || matches!(byte, Some(b'\n' | b';')));
        if ends_statement && !words.is_empty() {
            found.push(Statement {
                line: begin_line,
                span: begin..at,
                words: std::mem::take(&mut words),
            });
        }
        if ends_statement {
            closed = false;
        }
        let Some(byte) = byte else { return found };
        match byte {
            b'\n' => line += 1,
            b'#' => {
                while bytes.get(at + 1).is_some_and(|next| *next != b'\n') {
                    at += 1;
                }
            }
            b'"' => {
                let start = at;
                while bytes
                    .get(at + 1)
                    .is_some_and(|next| !matches!(next, b'"' | b'\n'))
                {
                    at += 1;
                }
                if bytes.get(at + 1) == Some(&b'"') {
                    at += 1;
                }
                if depth == 0 && !closed {
                    word.get_or_insert(start);
                }
            }
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => {
                line += 1;
                at += 1;
            }
            b'{' => {
                depth += 1;
                closed = true;
            }
            b'}' => depth = depth.saturating_sub(1),
            byte if depth == 0 && !closed && !byte.is_ascii_whitespace() && byte != b';' => {
                word.get_or_insert(at);
            }
            _ => {}
        }
        at += 1;
    }
}

/// nft's messages about its standard input, with the places of the user's file: `prefix` bytes of
/// the first line are not the user's.
pub fn nft_messages(messages: &str, name: &str, prefix: usize) -> String {
    let mut all = Vec::new();
    let mut indent = 0;
    for line in messages.lines() {
        let Some(rest) = line.strip_prefix(INPUT) else {
            // The first line of the batch, and the mark below it.
            let line = line.get(indent.min(line.len())..).unwrap_or(line);
            all.push(line.to_owned());
            continue;
        };
        let first = rest.strip_prefix("1:").and_then(|rest| {
            let (columns, message) = rest.split_once(':')?;
            let (from, to) = columns.split_once('-')?;
            let column = |text: &str| Some(text.parse::<usize>().ok()?.saturating_sub(prefix));
            Some(format!("1:{}-{}:{message}", column(from)?, column(to)?))
        });
        indent = if first.is_some() { prefix } else { 0 };
        all.push(format!("{name}:{}", first.as_deref().unwrap_or(rest)));
    }
    all.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> Vec<String> {
        let read = Ruleset::read(text, "web", Some("eth0"));
        let read = read.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        read.tables.iter().map(RulesetTable::to_string).collect()
    }

    fn refused(text: &str) -> RulesetError {
        Ruleset::read(text, "web", None).expect_err(text)
    }

    #[test]
    fn finds_the_tables() {
        let file = "#!/usr/sbin/nft -f\nflush ruleset\n\ntable inet filter {\n\tchain input { type filter hook input priority 0; }\n}\ntable nat { }\n";
        assert_eq!(tables(file), ["inet filter", "ip nat"]);
        assert_eq!(
            tables("add table inet a; add chain inet a b\nadd rule inet a b drop"),
            ["inet a"]
        );
        assert_eq!(
            tables("add table t\ninsert rule t c accept\nadd ip t c drop"),
            ["ip t"]
        );
        assert_eq!(
            tables("table bridge \"x\"\ndelete table bridge x\ntable bridge x { # } {\n set s { type ipv4_addr; elements = { 1.2.3.4 } }\n}"),
            ["bridge x"]
        );
        assert_eq!(
            tables("define a = { 1, 2 }\ntable \\\n inet y {}"),
            ["inet y"]
        );
        assert_eq!(
            tables("table inet a { comment \"} # \" ; }\ntable inet b {}"),
            ["inet a", "inet b"]
        );
        assert_eq!(tables("table netdev {{interface}} {}"), ["netdev eth0"]);
        assert_eq!(tables("table inet a { ct helper x { type \"ftp\" protocol tcp; } }\nadd ct timeout inet a y { protocol tcp; }"), ["inet a"]);
    }

    #[test]
    fn messages_name_the_file() {
        let messages = "/dev/stdin:7:27-30: Error: syntax error, unexpected string\n    ip saddr 10.0.0.1 tcp dprt 80 accept\n                          ^^^^\n";
        let told = nft_messages(messages, "web.nft", 40);
        assert!(told.starts_with("web.nft:7:27-30: Error"), "{told}");
        assert!(told.ends_with("\n                          ^^^^"), "{told}");
        let prefix = "table inet a; delete table inet a; ";
        let first = format!(
            "/dev/stdin:1:{}-{}: Error: no\n{prefix}tabel inet a {{\n{}^^^^^\n",
            prefix.len() + 1,
            prefix.len() + 5,
            " ".repeat(prefix.len())
        );
        let told = nft_messages(&first, "web.nft", prefix.len());
        assert_eq!(told, "web.nft:1:1-5: Error: no\ntabel inet a {\n^^^^^");
    }

    #[test]
    fn a_flush_of_all_is_blank_and_moves_nothing() {
        let read = Ruleset::read("flush ruleset; table inet a { }\n", "web", None).expect("good");
        assert_eq!(read.text, "             ; table inet a { }\n");
    }

    #[test]
    fn refuses_what_is_not_its_own() {
        for (text, line, words) in [
            ("", 1, "no table"),
            ("# nothing\n", 1, "no table"),
            ("table inet a {}\nadd rule inet b c drop", 2, "table inet b"),
            ("table inet a {}\n\ndelete table ip a\n", 3, "table ip a"),
            ("flush ruleset\n", 1, "no table"),
            ("table inet a {}\nflush table inet b", 2, "table inet b"),
            ("include \"/etc/x.nft\"\ntable inet a {}", 1, "includes no other"),
            ("table inet a {}\nlist ruleset", 2, "`list`"),
            ("table inet a {\n}\nmonitor", 3, "`monitor`"),
            ("table inet a {}\nadd rule inet", 2, "names no table"),
            ("\ntable netdev x { chain c { type filter hook ingress device {{interface}} priority 0; } }", 2, "interface"),
            ("table inet a {}\0", 1, "zero byte"),
        ] {
            let error = refused(text);
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(words), "{text:?}: {error}");
        }
    }
}
