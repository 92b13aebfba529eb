//! A command line that isn't understood: where a command of that name is, and how a wire is changed.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::Arguments;

/// Tells what is wrong, with a hint at the command that may be meant, and ends with status 2; for `--help` with 0.
pub(crate) fn exit(mut wrong: clap::Error) -> ! {
    let words: Vec<String> = std::env::args().collect();
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (wrong.kind(), wrong.get(ContextKind::InvalidSubcommand))
    {
        if let Some(hint) = hint(word, &words) {
            wrong.remove(ContextKind::SuggestedSubcommand);
            let hint = ContextValue::StyledStrs(vec![StyledStr::from(hint)]);
            wrong.insert(ContextKind::Suggested, hint);
        }
    }
    wrong.exit()
}

/// What may be meant by a word that is no command where it stands.
fn hint(word: &str, words: &[String]) -> Option<String> {
    let is_of_wires = words.get(1).is_some_and(|group| group == "wire");
    let setting = |word: &String| vink_shell::is_setting(word);
    if let Some(at) = words.iter().position(setting).filter(|_| is_of_wires) {
        let after: Vec<&str> = words[at + 1..].iter().map(String::as_str).collect();
        let (wire, value) = match (word == words[at], &after[..]) {
            (true, [wire, value, ..]) => (*wire, *value),
            (true, [value]) => ("WIRE", *value),
            (true, []) => ("WIRE", "VALUE"),
            (false, rest) => (word, rest.first().copied().unwrap_or("VALUE")),
        };
        return Some(format!(
            "did you mean `vink wire set {wire} {} {value}`?",
            words[at]
        ));
    }
    let has = |group: &&Command| group.get_subcommands().any(|its| its.get_name() == word);
    let all = Arguments::command();
    let groups: Vec<String> = all
        .get_subcommands()
        .filter(has)
        .map(|group| format!("`vink {} {word}`", group.get_name()))
        .collect();
    (!groups.is_empty()).then(|| format!("did you mean {}?", groups.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn the_real_command() {
        let told = |line: &str, word: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            hint(word, &words)
        };
        for word in ["ps", "apply", "until"] {
            let expected = format!("did you mean `vink lab {word}`?");
            assert_eq!(told(&format!("vink {word}"), word), Some(expected));
        }
        let up = told("vink up", "up");
        assert_eq!(
            up.as_deref(),
            Some("did you mean `vink lab up` or `vink wire up`?")
        );
        for (line, word, command) in [
            (
                "vink wire delay w1 20ms",
                "delay",
                "vink wire set w1 delay 20ms",
            ),
            (
                "vink wire w1 delay 20ms",
                "w1",
                "vink wire set w1 delay 20ms",
            ),
            (
                "vink wire delay 20ms",
                "delay",
                "vink wire set WIRE delay 20ms",
            ),
            ("vink wire delay", "delay", "vink wire set WIRE delay VALUE"),
        ] {
            assert_eq!(told(line, word), Some(format!("did you mean `{command}`?")));
        }
        assert_eq!(told("vink nonsense", "nonsense"), None);
    }
}
