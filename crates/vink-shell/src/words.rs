//! A line as words: blanks part them, quotes and backslashes hold them together, `#` begins a
//! comment.

use crate::ParseError;

/// The words of a line. `'…'` takes everything as it is, `"…"` all but `\"` and `\\`, and a
/// backslash the character after it.
///
/// # Errors
/// A quote that is not closed, or a backslash with nothing after it.
pub fn split(line: &str) -> Result<Vec<String>, ParseError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => break,
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => {
                            return Err(ParseError::new(format!(
                                "the quote {c} has no end: close it with another one"
                            )))
                        }
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => match chars.next() {
                            Some(escaped @ ('"' | '\\')) => word.push(escaped),
                            other => {
                                word.push('\\');
                                word.extend(other);
                            }
                        },
                        Some(other) => word.push(other),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => {
                    return Err(ParseError::new(
                        "nothing follows the backslash at the end of the line",
                    ))
                }
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The line without the `&` at its end that lets a program run in the background, and whether there
/// was one.
pub fn detached(line: &str) -> (&str, bool) {
    let line = line.trim();
    match line.strip_suffix('&') {
        // `a &&` goes on, `\&` is a character, `2>&` copies a descriptor.
        Some(rest) if !rest.ends_with(['&', '\\', '>', '<']) => (rest.trim_end(), true),
        _ => (line, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        for (line, words) in [
            ("", &[][..]),
            ("  new   machine\tm1 ", &["new", "machine", "m1"]),
            ("save 'a file' # of mine", &["save", "a file"]),
            (r#"a "b \"c\" \\ \d" e\ f"#, &["a", r#"b "c" \ \d"#, "e f"]),
            ("''", &[""]),
            ("a#b #c", &["a#b"]),
            ("# nothing", &[]),
            ("x'y'\"z\"", &["xyz"]),
        ] {
            assert_eq!(split(line).expect(line), words, "{line}");
        }
    }

    #[test]
    fn unfinished() {
        for (line, text) in [
            ("save 'a", "the quote ' has no end"),
            ("save \"a", "the quote \" has no end"),
            ("save a\\", "nothing follows the backslash"),
        ] {
            let mistake = split(line).expect_err(line).to_string();
            assert!(mistake.starts_with(text), "{mistake}");
        }
    }

    #[test]
    fn in_the_background() {
        for (line, rest, background) in [
            ("echoserver&", "echoserver", true),
            ("sleep 1 & ", "sleep 1", true),
            ("a && b", "a && b", false),
            ("a &&", "a &&", false),
            ("echo \\&", "echo \\&", false),
            ("a 2>&", "a 2>&", false),
            ("a & b", "a & b", false),
            ("&", "", true),
        ] {
            assert_eq!(detached(line), (rest, background), "{line}");
        }
    }
}
