//! Lines of a script, one after the other: the first that fails ends it.

use std::future::pending;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use serde_json::{json, Map, Value};
use tokio::task::spawn_blocking;
use vink_api::{Client, LabApi};

use crate::edit::LONGEST_LINE;
use crate::front::{Act, Connection, Front};
use crate::session::{Flow, Session};
use crate::ShellError;

/// How a script is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Go on after a line that fails.
    pub keep_going: bool,
    /// For each line, an object of JSON on a line of its own.
    pub json: bool,
}

/// Carries out the lines of a script; what they tell goes to standard output, and why one failed to
/// standard error, after `name` and its number. Names of files are relative to `folder`. Gives the
/// status to exit with: 0, or that of the first line that failed.
///
/// # Errors
/// Lines can't be read, or output not be written.
pub async fn run_script(
    client: Client,
    lab: &str,
    folder: PathBuf,
    name: &str,
    mut lines: Box<dyn BufRead + Send>,
    options: Options,
) -> io::Result<i32> {
    let mut session = Session::new(client, lab, folder, false);
    session.stops = !options.keep_going;
    let mut front = Output {
        collected: options.json.then(Collected::default),
    };
    let mut status = 0;
    for number in 1.. {
        let (rest, line) = spawn_blocking(move || {
            let line = read_line(&mut lines);
            (lines, line)
        })
        .await
        .expect("reading does not panic");
        lines = rest;
        let Some(line) = line? else {
            break;
        };
        let done = match line {
            Ok(ref line) => session.line(line, &mut front).await,
            Err(ref long) => Err(ShellError::Other(long.clone())),
        };
        let line = line.unwrap_or_default();
        let past = session.past();
        front.write(&past).await?;
        let failure = match done {
            Ok(Flow::End) => break,
            Ok(Flow::Next(reply)) => {
                match &mut front.collected {
                    Some(collected) => collected.print(number, &line, Ok(reply.value))?,
                    None => front.write(reply.text.as_bytes()).await?,
                }
                continue;
            }
            Err(failure) => failure,
        };
        if let Some(collected) = &mut front.collected {
            collected.print(number, &line, Err(&failure))?;
        }
        eprintln!("vink: {name}:{number}: {failure}");
        if status == 0 {
            status = failure.exit_status();
        }
        if session.stops {
            break;
        }
    }
    Ok(status)
}

/// The next line; an error for one that is too long, which is read to its end.
fn read_line(lines: &mut dyn BufRead) -> io::Result<Option<Result<String, String>>> {
    let mut line = Vec::new();
    let mut length = 0;
    loop {
        let buffer = lines.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let (part, end) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(at) => (&buffer[..=at], true),
            None => (buffer, false),
        };
        length += part.len();
        if length <= LONGEST_LINE + 1 {
            line.extend_from_slice(part);
        }
        let used = part.len();
        lines.consume(used);
        if end {
            break;
        }
    }
    Ok(match length {
        0 => None,
        length if length > LONGEST_LINE + 1 => Some(Err(format!(
            "longer than {LONGEST_LINE} bytes: it was not carried out"
        ))),
        _ => Some(Ok(String::from_utf8_lossy(&line).into_owned())),
    })
}

/// Carries out one line in a lab, as timed events do: what it wrote and told.
///
/// # Errors
/// What the line fails with.
pub async fn run_line(api: impl LabApi, lab: &str, line: &str) -> Result<String, ShellError> {
    let folder = api.lab(lab).await?.summary.folder;
    let mut session = Session::new(api, lab, folder.into(), false);
    let mut front = Output {
        collected: Some(Collected::default()),
    };
    let reply = match session.line(line, &mut front).await? {
        Flow::Next(reply) => reply,
        Flow::End => return Ok(String::new()),
    };
    let collected = front.collected.unwrap_or_default();
    Ok(String::from_utf8_lossy(&collected.output).into_owned() + &reply.text)
}

/// Standard output and error, or what would have gone there.
struct Output {
    collected: Option<Collected>,
}

#[derive(Default)]
struct Collected {
    output: Vec<u8>,
    errors: Vec<u8>,
}

impl Collected {
    /// What a line came to, unless there is nothing on it.
    fn print(
        &mut self,
        number: usize,
        line: &str,
        done: Result<Value, &ShellError>,
    ) -> io::Result<()> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let mut object = Map::new();
        object.insert("line".to_owned(), json!(number));
        object.insert("command".to_owned(), json!(line));
        object.insert("ok".to_owned(), json!(done.is_ok()));
        match done {
            Ok(Value::Null) => {}
            Ok(value) => drop(object.insert("result".to_owned(), value)),
            Err(failure) => {
                object.insert("error".to_owned(), json!(failure.to_string()));
                object.insert("status".to_owned(), json!(failure.exit_status()));
            }
        }
        for (name, bytes) in [
            ("output", &mut self.output),
            ("error-output", &mut self.errors),
        ] {
            if !bytes.is_empty() {
                let bytes = std::mem::take(bytes);
                object.insert(name.to_owned(), json!(String::from_utf8_lossy(&bytes)));
            }
        }
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", Value::Object(object))?;
        stdout.flush()
    }
}

impl Front for Output {
    fn connection(&self) -> Connection {
        Connection::Output
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.collected {
            Some(collected) => collected.output.extend(bytes),
            None => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()?;
            }
        }
        Ok(())
    }

    async fn write_error(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.collected {
            Some(collected) => collected.errors.extend(bytes),
            None => io::stderr().lock().write_all(bytes)?,
        }
        Ok(())
    }

    /// A script does nothing but send its lines.
    async fn act(&mut self) -> Act {
        pending().await
    }
}
