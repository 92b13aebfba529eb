//! `vink image export-patch`: an image's change as a patch that `git am` takes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::note::{Note, Store};
use super::{cannot, tree};
use crate::cli_error::CliError;
use crate::print;

/// The command line.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The image
    name: String,
    /// The patch; standard output otherwise
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The patch's subject; by default that of the patch that the image was made of, or the image's name
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// The author; by default that of the patch that the image was made of, or git's
    #[arg(long, value_name = "NAME <MAIL>")]
    from: Option<String>,
    /// Add Signed-off-by: you wrote it, or may pass it on (the kernel's Documentation/process/submitting-patches.rst)
    #[arg(short, long)]
    signoff: bool,
}

/// Writes the difference between the package's tree and an image's.
pub(super) fn export(store: &Store, arguments: &Arguments) -> Result<(), CliError> {
    let name = &arguments.name;
    let note = store.noted(name)?;
    let (old, new) = (store.pristine(&note.version)?, store.source(name)?);
    let changes = tree::changes(&old, &new)?;
    if changes.is_empty() {
        return Err(CliError::Other(format!(
            "the image {name} has the package's own source: there is nothing to export"
        )));
    }
    let mail = Mail::of(&note)?;
    let from = match arguments.from.clone().or(mail.from) {
        Some(from) => from,
        None => ident()?,
    };
    let subject = match arguments.subject.clone() {
        Some(text) => format!("[PATCH] {text}"),
        None => mail.subject.unwrap_or_else(|| format!("[PATCH] {name}")),
    };
    let mut message = mail.message;
    let signature = format!("Signed-off-by: {from}");
    if arguments.signoff && !message.lines().any(|line| line == signature) {
        // After other such lines, or a paragraph of its own.
        let trailers = message
            .lines()
            .last()
            .is_some_and(|line| line.contains("-by: "));
        if !message.is_empty() && !trailers {
            message.push('\n');
        }
        message += &format!("{signature}\n");
    }

    let mut table = Vec::new();
    let mut diffs = Vec::new();
    for change in &changes {
        let diff = change.diff(&old, &new)?;
        table.push(Counted::of(&change.path, &diff));
        diffs.extend(diff);
    }
    let mut text = format!(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
         From: {from}\nDate: {}\nSubject: {subject}\n\n{message}---\n{}\n",
        date()?,
        statistics(&table)
    )
    .into_bytes();
    text.extend(diffs);
    text.extend(concat!("-- \nvink ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    match &arguments.output {
        None => print::bytes(&text),
        Some(path) => fs::write(path, text).map_err(cannot("writing", path)),
    }
}

/// What a patch says about itself.
#[derive(Default)]
struct Mail {
    from: Option<String>,
    subject: Option<String>,
    message: String,
}

impl Mail {
    /// Of the only patch that an image was made of, if it is a mail.
    fn of(note: &Note) -> Result<Mail, CliError> {
        let [patch] = note.patches.as_slice() else {
            return Ok(Mail::default());
        };
        let text = fs::read(patch).map_err(cannot("reading", patch))?;
        Ok(Mail::parse(&String::from_utf8_lossy(&text)))
    }

    fn parse(text: &str) -> Mail {
        let mut lines = text.lines();
        let mut mail = Mail::default();
        // RFC 5322: a line that starts with a blank goes on the one before.
        let mut last = "";
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            let folded = line.starts_with([' ', '\t']);
            let (key, value) = match line.split_once(": ") {
                Some((key, value)) if !folded => (key, value),
                _ if folded => (last, line),
                // "From 0123 Mon Sep 17", or no mail.
                _ => ("", ""),
            };
            let field = match key {
                "From" => &mut mail.from,
                "Subject" => &mut mail.subject,
                _ => {
                    last = "";
                    continue;
                }
            };
            field.get_or_insert_default().push_str(value);
            last = key;
        }
        if mail.from.is_none() || mail.subject.is_none() {
            return Mail::default();
        }
        let message: Vec<&str> = lines
            .take_while(|line| {
                *line != "---" && !line.starts_with("diff --git ") && !line.starts_with("--- ")
            })
            .collect();
        let message = message.join("\n");
        mail.message = match message.trim() {
            "" => String::new(),
            text => format!("{text}\n"),
        };
        mail
    }
}

/// The user's name and address, as git has them.
fn ident() -> Result<String, CliError> {
    let config = |key| {
        let output = Command::new("git").args(["config", key]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    match (config("user.name"), config("user.email")) {
        (Some(name), Some(mail)) => Ok(format!("{name} <{mail}>")),
        _ => Err(CliError::Other(
            "whose patch is it? Git has no user.name and user.email: say --from 'NAME <MAIL>'"
                .to_owned(),
        )),
    }
}

/// Now, as mails have it (RFC 5322).
fn date() -> Result<String, CliError> {
    let output = Command::new("date")
        .arg("--rfc-email")
        .output()
        .map_err(CliError::host("date"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A file's lines in a diff.
struct Counted<'a> {
    path: &'a str,
    added: usize,
    removed: usize,
}

impl<'a> Counted<'a> {
    fn of(path: &'a str, diff: &[u8]) -> Counted<'a> {
        // What precedes the first hunk has lines that begin the same.
        let hunks = diff
            .split(|&byte| byte == b'\n')
            .skip_while(|line| !line.starts_with(b"@@"));
        let mut counted = Counted {
            path,
            added: 0,
            removed: 0,
        };
        for line in hunks {
            match line.first() {
                Some(b'+') => counted.added += 1,
                Some(b'-') => counted.removed += 1,
                _ => {}
            }
        }
        counted
    }
}

/// `git diff --stat`.
fn statistics(table: &[Counted]) -> String {
    // What is left of 80 columns for the bars.
    const ROOM: usize = 40;
    let width = table.iter().map(|file| file.path.len()).max().unwrap_or(0);
    let most = table
        .iter()
        .map(|file| file.added + file.removed)
        .max()
        .unwrap_or(0);
    let digits = most.to_string().len();
    let bar = |count: usize| match most > ROOM {
        true => (count * ROOM).div_ceil(most),
        false => count,
    };
    let mut text = String::new();
    for Counted {
        path,
        added,
        removed,
    } in table
    {
        let (plus, minus) = ("+".repeat(bar(*added)), "-".repeat(bar(*removed)));
        text += &format!(
            " {path:width$} | {:digits$} {plus}{minus}\n",
            added + removed
        );
    }
    let sum = |of: fn(&Counted) -> usize| table.iter().map(of).sum::<usize>();
    text += &format!(" {} changed", print::count(table.len(), "file"));
    for (count, what, sign) in [
        (sum(|f| f.added), "insertion", '+'),
        (sum(|f| f.removed), "deletion", '-'),
    ] {
        if count > 0 {
            text += &format!(", {}({sign})", print::count(count, what));
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_is_kept() {
        let text = "From 00 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nDate: x\nSubject: [PATCH] tcp:\n one\n\nWhy.\n\nAcked-by: C\n---\n x | 1\n";
        let mail = Mail::parse(text);
        assert_eq!(mail.from.as_deref(), Some("A <a@b>"));
        assert_eq!(mail.subject.as_deref(), Some("[PATCH] tcp: one"));
        assert_eq!(mail.message, "Why.\n\nAcked-by: C\n");
        assert!(Mail::parse("--- a/x\n+++ b/x\n").from.is_none());
    }

    #[test]
    fn lines_are_counted() {
        let diff = b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n+c\n d\n";
        let text = statistics(&[Counted::of("x", diff)]);
        assert_eq!(
            text,
            " x | 3 ++-\n 1 file changed, 2 insertions(+), 1 deletion(-)\n"
        );
    }
}
