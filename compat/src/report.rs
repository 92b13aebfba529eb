//! The page of the documentation, and the file of results.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{json, Value};

use crate::compare::{Form, Row, User};
use crate::program::Program;
use crate::Failure;

/// Writes all rows as a JSON list.
pub(crate) fn write_json(path: &Path, rows: &[Row]) -> Result<(), Failure> {
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

Written by `make compat`, which runs each program, unmodified, on the host, in two network namespaces joined by a veth
pair, and on Vink: on two machines joined by a wire, and, in the last two columns, with the stack in the program's own process
([in-process.md](in-process.md)), where the two processes share a wire. A server at one end, a client at the other do real work; what they
print (checksums, answers, exit statuses) must be the same. As root, and as the user `nobody`; the same as a list is in
`bench/compat.json`. The programs' files, 10 to 20 lines each, are in `compat/programs`.

In its own process, a program is a machine by itself, and one at a time is at an end of the wire. What needs several at once is not
done there (in the programs' files: unless `$ALONE` is set), on the host's side neither.

Nothing here needs root: on the host's side, an ordinary user has its namespaces inside a user namespace, with the network
capabilities there, and so it is on Vink. sshd as `nobody` offers files only (`internal-sftp`), since `nobody` has no shell.

| program | what it does | root | nobody | in-process, root | nobody |
|---|---|---|---|---|---|
";

/// Writes the page.
pub(crate) fn write_page(path: &Path, programs: &[Program], rows: &[Row]) -> Result<(), Failure> {
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
                let why = why.replace('\n', " ");
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
