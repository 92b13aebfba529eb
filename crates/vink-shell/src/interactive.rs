//! A session at this terminal: lines are edited and completed by rustyline, and programs get the terminal itself.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::signal::unix::{signal, Signal, SignalKind};
use tokio::task::spawn_blocking;
use vink_api::{Client, Size};

use crate::complete::{complete, Names};
use crate::executor::USUAL;
use crate::front::{Act, Connection, Front};
use crate::session::{Flow, Session};
use crate::Failure;

/// Lines that the history keeps.
const HISTORY: usize = 1000;

/// Commands a lab from this process's terminal, until `exit` or ^D.
///
/// # Errors
/// The terminal can't be used.
pub async fn interact(client: Client, lab: &str, folder: PathBuf) -> Result<(), Failure> {
    let broken = |error: ReadlineError| Failure::Other(format!("the terminal: {error}"));
    let mut session = Session::new(client, lab, folder, true);
    let mut front = Local::new().map_err(|e| Failure::Other(format!("the terminal: {e}")))?;
    let known = Arc::new(Mutex::new((Names::default(), None)));
    let config = Config::builder()
        .max_history_size(HISTORY)
        .map_err(broken)?
        .completion_type(CompletionType::List)
        .auto_add_history(true)
        .build();
    let mut editor: Editor<Completion, FileHistory> =
        Editor::with_config(config).map_err(broken)?;
    editor.set_helper(Some(Completion(known.clone())));
    let history = history();
    if let Some(history) = &history {
        // A history that can't be read is a session without one.
        let _ = editor.load_history(history);
    }
    println!("Vink, lab {lab}. `help` lists the commands.");
    loop {
        let names = session.names().await;
        *known.lock().expect("no panic within") = (names, session.machine.clone());
        let prompt = session.prompt();
        // What happens in the background is told before the next prompt: rustyline's printer for it makes keys that
        // come together wait for the next one.
        let reading = spawn_blocking(move || {
            let line = editor.readline(&prompt);
            (editor, line)
        });
        let line;
        (editor, line) = reading
            .await
            .map_err(|error| Failure::Other(error.to_string()))?;
        let line = match line {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) if session.machine.is_some() => {
                session.machine = None;
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        };
        if let Some(history) = &history {
            // A line that can't be remembered was typed all the same.
            let _ = editor.append_history(history);
        }
        match session.line(&line, &mut front).await {
            Ok(Flow::Next(reply)) => front.write(reply.text.as_bytes()).await?,
            Ok(Flow::End) => break,
            Err(Failure::Gone) => return Err(Failure::Gone),
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

/// The file of past lines, which is made for nobody but the user. None: there is no place for it.
fn history() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = match set("XDG_STATE_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(set("HOME")?).join(".local/state"),
    };
    let folder = state.join("vink");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .ok()?;
    let file = folder.join("history");
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&file)
        .ok()?;
    Some(file)
}

/// Completes with what there was when the line was begun.
struct Completion(Arc<Mutex<(Names, Option<String>)>>);

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let known = self.0.lock().expect("no panic within");
        let (start, mut found) = complete(&line[..at], known.1.as_deref(), &known.0);
        if let [only] = &mut found[..] {
            if !only.ends_with('/') {
                only.push(' ');
            }
        }
        Ok((start, found))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {
    fn highlight_candidate<'c>(&self, candidate: &'c str, _: CompletionType) -> Cow<'c, str> {
        Cow::Borrowed(candidate)
    }
}

impl Validator for Completion {}

impl Helper for Completion {}

/// This process's terminal.
struct Local {
    input: AsyncFd<File>,
    interrupts: Signal,
    windows: Signal,
    /// How the terminal was, while a program has it.
    saved: Option<libc::termios>,
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
        })
    }

    fn size(&self) -> Size {
        // SAFETY: plain numbers, which the call fills.
        let found = unsafe {
            let mut size: libc::winsize = zeroed();
            match libc::ioctl(self.input.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) {
                0 => Some(size),
                _ => None,
            }
        };
        match found {
            Some(size) if size.ws_col > 0 && size.ws_row > 0 => Size {
                rows: size.ws_row,
                columns: size.ws_col,
            },
            _ => USUAL,
        }
    }
}

/// What is typed; empty at its end. Does not wait for more than one byte.
async fn read(input: &AsyncFd<File>) -> io::Result<Vec<u8>> {
    loop {
        let mut ready = input.readable().await?;
        let mut poll = libc::pollfd {
            fd: input.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Other processes share the file, so it is left to block.
        // SAFETY: one pollfd, as said.
        if unsafe { libc::poll(&raw mut poll, 1, 0) } == 1 {
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
        // SAFETY: termios is plain data, which the first call fills and the others use.
        unsafe {
            let mut mode: libc::termios = zeroed();
            if libc::tcgetattr(libc::STDIN_FILENO, &raw mut mode) == 0 {
                self.saved = Some(mode);
                libc::cfmakeraw(&raw mut mode);
                libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, &raw const mode);
            }
        }
    }

    fn end(&mut self) {
        if let Some(mode) = self.saved.take() {
            // SAFETY: what tcgetattr() has filled.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, &raw const mode) };
        }
    }

    async fn act(&mut self) -> Act {
        // With the terminal as it is usually, ^C is a signal and lines are kept for the next command.
        if self.saved.is_none() {
            self.interrupts.recv().await;
            return Act::Interrupt;
        }
        tokio::select! {
            typed = read(&self.input) => match typed {
                Ok(bytes) if bytes.is_empty() => Act::Gone,
                Ok(bytes) if bytes.contains(&0x1a) => Act::Suspend,
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
