//! Which fields are wanted.

use vink_pcb::{Field, Structure};
use vink_spec::nearest;

use crate::cli_error::CliError;

/// How many names a mistake is answered with.
const MOST_HINTS: usize = 6;

/// The fields that these patterns name, in the order of the source; all of them if there are no patterns.
pub(super) fn choose(of: &Structure, patterns: &[String]) -> Result<Vec<Field>, CliError> {
    for pattern in patterns {
        if of.fields.iter().any(|field| names(pattern, field)) {
            continue;
        }
        let name = pattern.trim_matches('*');
        let all = || of.fields.iter().map(|field| field.name.as_str());
        let like: Vec<&str> = all()
            .filter(|its| its.contains(name))
            .take(MOST_HINTS)
            .collect();
        let hint = match (&like[..], nearest(name, all())) {
            ([], Some(near)) => format!("did you mean {near}?"),
            ([], None) => "vink pcb without --field shows all of a connection".to_owned(),
            (like, _) => format!("'*{name}*' takes {}", like.join(", ")),
        };
        return Err(CliError::Other(format!(
            "the kernel's connections have no field {pattern}; {hint}"
        )));
    }
    let wanted = |field: &&Field| {
        patterns.is_empty() || patterns.iter().any(|pattern| names(pattern, field))
    };
    Ok(of.fields.iter().filter(wanted).cloned().collect())
}

/// Whether a pattern is a field's name or path, or stands for it.
fn names(pattern: &str, field: &Field) -> bool {
    is_like(pattern.as_bytes(), field.name.as_bytes())
        || is_like(pattern.as_bytes(), field.path.as_bytes())
}

/// `*` stands for any characters, `?` for one.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), next) => {
            is_like(rest, name) || next.is_some_and(|(_, name)| is_like(pattern, name))
        }
        (Some((b'?', pattern)), Some((_, name))) => is_like(pattern, name),
        (Some((a, pattern)), Some((b, name))) => a == b && is_like(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_pcb::Kind;

    fn structure() -> Structure {
        let fields = ["a.snd_cwnd", "a.snd_cwnd_cnt", "rx.sack_ok"].map(|path| Field {
            name: path.strip_prefix("a.").unwrap_or(path).to_owned(),
            path: path.to_owned(),
            offset: 0,
            kind: Kind::Pointer,
        });
        Structure {
            size: 8,
            fields: fields.into(),
        }
    }

    fn chosen(patterns: &[&str]) -> Result<Vec<String>, String> {
        let patterns: Vec<String> = patterns.iter().map(|text| text.to_string()).collect();
        match choose(&structure(), &patterns) {
            Ok(fields) => Ok(fields.into_iter().map(|field| field.name).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn patterns() {
        let all = ["snd_cwnd", "snd_cwnd_cnt", "rx.sack_ok"].map(str::to_owned);
        assert_eq!(chosen(&[]).as_deref(), Ok(&all[..]));
        assert_eq!(chosen(&["*"]).as_deref(), Ok(&all[..]));
        assert_eq!(chosen(&["snd_cwnd"]).as_deref(), Ok(&all[..1]));
        assert_eq!(chosen(&["a.snd_cwnd"]).as_deref(), Ok(&all[..1]));
        assert_eq!(chosen(&["rx.*", "*_c?t"]).as_deref(), Ok(&all[1..]));
    }

    #[test]
    fn a_mistake_is_answered_with_what_it_may_mean() {
        let error = chosen(&["snd_cwnd", "cwnd"]).expect_err("there is no cwnd");
        assert!(
            error.contains("no field cwnd; '*cwnd*' takes snd_cwnd, snd_cwnd_cnt"),
            "{error}"
        );
        for pattern in ["snd_cwdn", "*snd_cwdn*", "sndcwnd"] {
            let error = chosen(&[pattern]).expect_err("it is misspelt");
            assert!(error.contains("did you mean snd_cwnd?"), "{error}");
        }
        assert!(chosen(&["nothing"]).is_err());
    }
}
