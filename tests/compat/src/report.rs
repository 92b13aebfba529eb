//! The page of the documentation, and the file of results.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{json, Value};

use crate::compare::{Form, Row, User};
use crate::program::Program;
use crate::BoxError;

/// Writes all rows as a JSON list.
pub(crate) fn write_json(path: &Path, rows: &[Row]) -> Result<(), BoxError> {
    let row = |row: &Row| {
        json!({
            "program": row.program,
            "user": row.user.name(),
            "form": row.form.name(),
            "host": row.host,
            "vink": row.vink,
            "ok": row.ok(),
            "why": row.why,
        })
    };
    let list = Value::Array(rows.iter().map(row).collect());
    let text = serde_json::to_string_pretty(&list)? + "\n";
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()).into())
}

const HEAD: &str = "\
# Compatibility

Written by `make compat`. It runs each program, unmodified, in these ways:

- on the host, in two network namespaces joined by a veth pair,
- on Vink, on two machines joined by a wire, with trapped calls and with `--calls shared`
  ([calls.md](calls.md)),
- with the stack in the program's own process ([in-process.md](in-process.md)), where the two
  processes share a wire: the last two columns.

A server at one end and a client at the other do real work. Their output (checksums, answers, exit
statuses) must be the same. All of it runs as root and as the user `nobody`. `bench/compat.json` has
the results as a list. The programs' files, 10 to 20 lines each, are in `tests/compat/programs`.

With the stack in its own process, a program is a machine by itself, and one program at a time is at
an end of the wire. Work that needs several at once is omitted there (in the programs' files: unless
`$ALONE` is set), on the host's side too.

Nothing here needs root. On the host's side, an ordinary user's namespaces are inside a user
namespace, with the network capabilities there, and so it is on Vink. sshd as `nobody` offers files
only (`internal-sftp`), since `nobody` has no shell.

| program | what it does | root | nobody | shared, root | nobody | in-process, root | nobody |
|---|---|---|---|---|---|---|---|
";

/// Writes the page.
pub(crate) fn write_page(path: &Path, programs: &[Program], rows: &[Row]) -> Result<(), BoxError> {
    let mut page = HEAD.to_owned();
    let mut notes = String::new();
    for program in programs {
        let (name, title) = (&program.name, &program.title);
        let rows: Vec<_> = rows.iter().filter(|row| row.program == *name).collect();
        write!(page, "| {name} | {title} |")?;
        for form in Form::ALL {
            for user in [User::Root, User::Nobody] {
                let row = rows.iter().find(|row| (row.form, row.user) == (form, user));
                let cell = match row {
                    Some(row) if row.ok() => "ok",
                    Some(_) => "**not ok**",
                    None => "–",
                };
                write!(page, " {cell} |")?;
            }
        }
        writeln!(page)?;
        if let Some(why) = &program.expected {
            writeln!(notes, "- {name}: compared with a file: {why}.")?;
        }
        if let Some(why) = &program.not_in_process {
            writeln!(notes, "- {name}: not in-process: {why}.")?;
        }
        for row in rows {
            if let Some(why) = &row.why {
                // What a program has printed is no link.
                let why = why.replace('\n', " ").replace('[', "\\[");
                let (user, form) = (row.user.name(), row.form.name());
                writeln!(notes, "- {name}, {user}, {form}: not ok: {why}")?;
            }
        }
    }
    if !notes.is_empty() {
        page = format!("{page}\n{notes}");
    }
    fs::write(path, page).map_err(|e| format!("{}: {e}", path.display()).into())
}
