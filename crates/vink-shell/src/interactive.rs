//! A session at this terminal: lines are edited as over telnet, and programs get the terminal
//! itself.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::signal::unix::{signal, Signal, SignalKind};
use vink_api::{Client, Size};
use vink_sys::poll::is_readable;
use vink_sys::process::kill;
use vink_sys::terminal::{self, Mode, When};

use crate::edit::{Editor, Screen, Step, HISTORY, LONGEST_LINE};
use crate::executor::USUAL;
use crate::front::{Act, Connection, Front};
use crate::session::{Flow, Session};
use crate::ShellError;

/// ^Z.
const SUSPEND: u8 = 0x1a;

/// Commands a lab from this process's terminal, until `exit` or ^D.
///
/// # Errors
/// The terminal can't be used.
pub async fn interact(client: Client, lab: &str, folder: PathBuf) -> Result<(), ShellError> {
    let mut session = Session::new(client, lab, folder, true);
    let mut front = Local::new().map_err(|e| ShellError::Other(format!("the terminal: {e}")))?;
    let mut history = History::open();
    front.editor.remember(history.past());
    println!("Vink, lab {lab}. `help` lists the commands.");
    loop {
        front.editor.prompt(&session.prompt());
        let line = match front.line(&mut session).await? {
            Step::Line(line) => line,
            Step::TooLong => {
                eprintln!("a line has at most {LONGEST_LINE} bytes: this one was not carried out");
                continue;
            }
            Step::Interrupt => continue,
            Step::End if session.machine.is_some() => {
                session.machine = None;
                continue;
            }
            _ => break,
        };
        history.append(&line);
        match session.line(&line, &mut front).await {
            Ok(Flow::Next(reply)) => front.write(reply.text.as_bytes()).await?,
            Ok(Flow::End) => break,
            Err(ShellError::Gone) => return Err(ShellError::Gone),
            Err(failure) => {
                eprintln!("{failure}");
                if session.stops {
                    break;
                }
            }
        }
        let past = session.past();
        front.write(&past).await?;
    }
    Ok(())
}

/// The file of past lines, which only the user can read. Without a place for it, or when it can't
/// be written, lines are remembered for as long as the session lasts.
struct History {
    path: Option<PathBuf>,
    last: Option<String>,
}

impl History {
    fn open() -> History {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let state = set("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
        let path = state.map(|state| state.join("vink")).and_then(|folder| {
            let mut make = fs::DirBuilder::new();
            make.recursive(true).mode(0o700).create(&folder).ok()?;
            Some(folder.join("history"))
        });
        History { path, last: None }
    }

    /// The last lines, oldest first. A file that has grown to twice as many is cut.
    fn past(&mut self) -> VecDeque<String> {
        let Some(path) = &self.path else {
            return VecDeque::new();
        };
        let lines = fs::read_to_string(path).unwrap_or_default();
        let mut past: VecDeque<String> = lines.lines().map(str::to_owned).collect();
        let has_grown = past.len() >= 2 * HISTORY;
        past.drain(..past.len().saturating_sub(HISTORY));
        if has_grown {
            let text: String = past.iter().map(|line| format!("{line}\n")).collect();
            let new = path.with_extension("new");
            let written = append(&new, &text).and_then(|()| fs::rename(&new, path));
            if written.is_err() {
                let _ = fs::remove_file(&new);
            }
        }
        self.last = past.back().cloned();
        past
    }

    fn append(&mut self, line: &str) {
        if line.trim().is_empty() || self.last.as_deref() == Some(line) {
            return;
        }
        if let Some(path) = &self.path {
            // A line that can't be remembered was typed all the same.
            let _ = append(path, &format!("{line}\n"));
        }
        self.last = Some(line.to_owned());
    }
}

/// Appends to a file, which is made for the user only.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// This process's terminal.
struct Local {
    input: AsyncFd<File>,
    interrupts: Signal,
    windows: Signal,
    /// How the terminal was, while a line is edited or a program has it.
    saved: Option<Mode>,
    editor: Editor,
    /// Typed, and not yet read.
    typed: VecDeque<u8>,
}

impl Local {
    fn new() -> io::Result<Local> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        // SAFETY: the file is its descriptor's only owner, and is closed after it is deregistered.
        let input = unsafe { AsyncFd::register_with_interest(input, Interest::READABLE)? };
        Ok(Local {
            input,
            interrupts: signal(SignalKind::interrupt())?,
            windows: signal(SignalKind::window_change())?,
            saved: None,
            editor: Editor::new(),
            typed: VecDeque::new(),
        })
    }

    /// Reads a line, while what happens in the background is shown.
    async fn line(&mut self, session: &mut Session<Client>) -> Result<Step, ShellError> {
        self.raw(true);
        let step = self.edit(session).await;
        self.end();
        step
    }

    async fn edit(&mut self, session: &mut Session<Client>) -> Result<Step, ShellError> {
        self.editor.screen = self.screen();
        loop {
            let step = session.edit(&mut self.editor, &mut self.typed).await;
            let output = self.editor.output();
            self.write(&output).await?;
            if let Some(step) = step {
                return Ok(step);
            }
            tokio::select! {
                read = read(&self.input) => match read? {
                    bytes if bytes.is_empty() => return Ok(Step::End),
                    bytes => {
                        self.typed.extend(bytes.iter().filter(|key| **key != SUSPEND));
                        if bytes.contains(&SUSPEND) {
                            self.suspend();
                        }
                    }
                },
                _ = self.windows.recv() => {
                    self.editor.screen = self.screen();
                    self.editor.redraw();
                }
                told = session.news() => {
                    let shown = session.shown(told);
                    let bytes = self.editor.above(&shown);
                    self.write(&bytes).await?;
                }
            }
        }
    }

    /// ^Z while a line is edited: stops this process, as the terminal itself does at other times.
    fn suspend(&mut self) {
        self.end();
        let _ = kill(0, libc::SIGTSTP);
        self.raw(true);
        self.editor.redraw();
    }

    fn screen(&self) -> Screen {
        match std::env::var("TERM").as_deref() {
            Err(_) | Ok("" | "dumb" | "unknown") => Screen::Plain,
            Ok(_) => Screen::Full(usize::from(self.size().columns)),
        }
    }

    /// Has keys come one by one, ^C and ^D as others; output goes on as it is, or for a program's
    /// terminal, which does to it what is to be done.
    fn raw(&mut self, for_editing: bool) {
        let Ok(mode) = Mode::of(io::stdin()) else {
            return;
        };
        let raw = match for_editing {
            true => mode.raw().with_output_processing(),
            false => mode.raw(),
        };
        let _ = raw.set(io::stdin(), When::Written);
        self.saved = Some(mode);
    }

    fn size(&self) -> Size {
        terminal::size(self.input.get_ref()).map_or(USUAL, |(rows, columns)| Size { rows, columns })
    }
}

/// What is typed; empty at its end. Does not wait for more than one byte.
async fn read(input: &AsyncFd<File>) -> io::Result<Vec<u8>> {
    loop {
        let mut ready = input.readable().await?;
        // Other processes share the file, so it is left to block.
        if is_readable(input.get_ref(), 0) {
            let mut buffer = [0; 4096];
            let count = input.get_ref().read(&mut buffer)?;
            return Ok(buffer[..count].to_vec());
        }
        ready.clear_ready();
    }
}

impl Front for Local {
    fn connection(&self) -> Connection {
        Connection::Terminal(self.size(), std::env::var("TERM").ok())
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    fn begin(&mut self) {
        self.raw(false);
    }

    fn end(&mut self) {
        if let Some(mode) = self.saved.take() {
            let _ = mode.set(io::stdin(), When::Written);
        }
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        self.typed.extend(bytes);
    }

    async fn act(&mut self) -> Act {
        // With the terminal as it is usually, ^C is a signal and lines are kept for the next
        // command.
        if self.saved.is_none() {
            self.interrupts.recv().await;
            return Act::Interrupt;
        }
        tokio::select! {
            typed = read(&self.input) => match typed {
                Ok(bytes) if bytes.is_empty() => Act::Gone,
                Ok(bytes) if bytes.contains(&SUSPEND) => Act::Suspend,
                Ok(bytes) => Act::Input(bytes),
                Err(_) => Act::Gone,
            },
            _ = self.windows.recv() => Act::Resize(self.size()),
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn history_is_kept_and_cut() {
        let folder = std::env::temp_dir().join(format!("vink-history-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let open = || History {
            path: Some(folder.join("history")),
            last: None,
        };
        let mut history = open();
        assert!(history.past().is_empty());
        for line in ["one", "two", "two", " ", "three"] {
            history.append(line);
        }
        assert_eq!(open().past(), ["one", "two", "three"]);
        let mut history = open();
        history.past();
        history.append("three");
        for i in 0..2 * HISTORY {
            history.append(&i.to_string());
        }
        let past = open().past();
        assert_eq!(past.len(), HISTORY);
        assert_eq!(past[0], HISTORY.to_string());
        let text = fs::read_to_string(folder.join("history")).expect("history");
        assert_eq!(text.lines().count(), HISTORY);
        let mode = fs::metadata(folder.join("history")).expect("history");
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
