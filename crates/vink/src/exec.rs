//! `vink exec`: a program on a machine of a lab that runs, and everything between it and its user passed through.
//!
//! Standard input is read by a thread of its own, since a read of a terminal or a pipe can't be given up. Signals go by
//! requests of their own: they must not wait behind input that the program does not read.

use std::io::{self, IsTerminal, Read, Write};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::mpsc;
use vink_api::{Client, NewProgram, Output, Place, Size, TerminalInput};

use crate::client::{lab_or_only, runtime};
use crate::failure::Failure;
use crate::interrupt::is_ignored;
use crate::print;

/// What is sent on to the program. With a terminal, that sends most of them itself.
const SENT_ON: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];
/// Bytes that are read at once.
const PIECE: usize = 1 << 16;
/// vink itself failed.
const FAILED: u8 = 125;

/// The command line.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct Arguments {
    /// Pass standard input to the program; otherwise it finds its input at an end
    #[arg(short, long)]
    interactive: bool,
    /// Give it a terminal
    #[arg(short, long)]
    tty: bool,
    /// Don't wait for it: print its number, its output goes to a log (vink lab logs NUMBER)
    #[arg(short, long, conflicts_with_all = ["interactive", "tty"])]
    detach: bool,
    /// The lab; may be left away if only one runs
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Set an environment variable on top of the lab's; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Its working directory, if relative then to the lab's folder, which it is otherwise
    #[arg(short = 'w', long = "dir", value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// With --detach: print the program as JSON; otherwise, when it has ended, how, on standard error
    #[arg(long)]
    json: bool,
    /// The machine
    machine: String,
    /// What to run on it
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<String>,
}

const EXIT_STATUS: &str = "\
Exit status: the program's own; 128 + N if signal N ended it. 125: vink failed, 126: PROGRAM can't be executed,
127: PROGRAM not found, 137: also if its machine, its lab or its worker has gone.";

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is expected".to_owned()),
    }
}

/// Runs the program and ends as it ended.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&Place::find());
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        let mut program = NewProgram {
            machine: arguments.machine.clone(),
            words: arguments.program.clone(),
            dir: arguments.dir.as_ref().map(|dir| dir.display().to_string()),
            attach: !arguments.detach,
            input: arguments.interactive,
            ..NewProgram::default()
        };
        if arguments.tty {
            program.terminal = Some(size().unwrap_or(Size {
                rows: 24,
                columns: 80,
            }));
            if let Ok(term) = std::env::var("TERM") {
                program.env.insert("TERM".to_owned(), term);
            }
        }
        program.env.extend(arguments.env.iter().cloned());
        let started = client.start_program(&lab, &program).await?;
        if arguments.detach {
            match arguments.json {
                true => print::json(&started)?,
                false => print::text(&format!("{}\n", started.id))?,
            }
            return Ok(0);
        }
        attached(&client, &lab, started.id, arguments).await
    });
    // The thread that reads standard input may still wait for it.
    runtime.shutdown_background();
    let code = done?;
    if arguments.json && !arguments.detach {
        eprintln!("{}", serde_json::json!({ "code": code }));
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(FAILED)))
}

/// Passes input, output and signals through until the program has ended.
async fn attached(
    client: &Client,
    lab: &str,
    id: u64,
    arguments: &Arguments,
) -> Result<i32, Failure> {
    let (tell, mut told) = mpsc::unbounded_channel();
    for number in SENT_ON {
        if is_ignored(number) {
            continue;
        }
        let mut caught =
            signal(SignalKind::from_raw(number)).map_err(Failure::host("sigaction"))?;
        let tell = tell.clone();
        tokio::spawn(async move {
            while caught.recv().await.is_some() {
                let _ = tell.send(number);
            }
        });
    }
    let mut resized = signal(SignalKind::window_change()).map_err(Failure::host("sigaction"))?;
    // Before the program can write anything for a raw terminal.
    let raw = match arguments.tty && arguments.interactive && io::stdin().is_terminal() {
        true => Some(Raw::enter()?),
        false => None,
    };
    let (input, mut output) = client.attach(lab, id).await?.split();
    let (resize, sizes) = mpsc::unbounded_channel();
    let feeding = tokio::spawn(feed(input, arguments.interactive.then(read_input), sizes));
    let program = id.to_string();
    let code = loop {
        tokio::select! {
            next = output.next() => match next {
                Ok(Output::Stdout(bytes)) => {
                    if let Err(error) = write(&mut io::stdout(), &bytes) {
                        break gone(error)?;
                    }
                }
                Ok(Output::Stderr(bytes)) => {
                    if let Err(error) = write(&mut io::stderr(), &bytes) {
                        break gone(error)?;
                    }
                }
                Ok(Output::Ended { code, error }) => {
                    if let Some(error) = error {
                        drop(raw);
                        eprintln!("vink: {error}");
                    }
                    break code;
                }
                Err(error) => return Err(error.into()),
            },
            Some(number) = told.recv() => {
                // It may just have ended, which its output tells.
                let _ = client.signal_program(lab, &program, number).await;
            }
            _ = resized.recv(), if arguments.tty => {
                if let Some(size) = size() {
                    let _ = resize.send(size);
                }
            }
        }
    };
    feeding.abort();
    Ok(code)
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// Nobody reads what the program writes: it would be ended by a signal.
fn gone(error: io::Error) -> Result<i32, Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(128 + libc::SIGPIPE),
        _ => Err(Failure::host("the program's output")(error)),
    }
}

/// Pieces of standard input; an empty one at its end.
fn read_input() -> mpsc::Receiver<Vec<u8>> {
    let (pieces, coming) = mpsc::channel(2);
    std::thread::spawn(move || {
        let mut from = io::stdin().lock();
        let mut buffer = vec![0; PIECE];
        loop {
            let read = match from.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.unwrap_or(0),
            };
            if pieces.blocking_send(buffer[..read].to_vec()).is_err() || read == 0 {
                return;
            }
        }
    });
    coming
}

/// Gives the program its input, and its terminal's sizes.
async fn feed(
    mut to: TerminalInput,
    mut pieces: Option<mpsc::Receiver<Vec<u8>>>,
    mut sizes: mpsc::UnboundedReceiver<Size>,
) {
    loop {
        let piece = async {
            match &mut pieces {
                Some(pieces) => pieces.recv().await,
                None => std::future::pending().await,
            }
        };
        let sent = tokio::select! {
            piece = piece => match piece {
                Some(piece) if !piece.is_empty() => to.write(&piece).await,
                _ => {
                    pieces = None;
                    to.end().await
                }
            },
            size = sizes.recv() => match size {
                Some(size) => to.resize(size).await,
                None => return,
            },
        };
        // If the program has ended, its output tells.
        if sent.is_err() {
            return;
        }
    }
}

/// The size of our own terminal.
pub(crate) fn size() -> Option<Size> {
    for terminal in [libc::STDOUT_FILENO, libc::STDIN_FILENO, libc::STDERR_FILENO] {
        // SAFETY: plain data that the call fills.
        unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            if libc::ioctl(terminal, libc::TIOCGWINSZ, &raw mut size) == 0 && size.ws_row > 0 {
                return Some(Size {
                    rows: size.ws_row,
                    columns: size.ws_col,
                });
            }
        }
    }
    None
}

/// Our terminal passes every key on, until this is dropped.
pub(crate) struct Raw(libc::termios);

impl Raw {
    /// See termios(3), cfmakeraw().
    pub(crate) fn enter() -> Result<Raw, Failure> {
        let mut before = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: what the first call has filled is initialised if it succeeded.
        unsafe {
            if libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) < 0 {
                return Err(Failure::host("tcgetattr")(io::Error::last_os_error()));
            }
            let before = before.assume_init();
            let mut raw = before;
            libc::cfmakeraw(&raw mut raw);
            if libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const raw) < 0 {
                return Err(Failure::host("tcsetattr")(io::Error::last_os_error()));
            }
            Ok(Raw(before))
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: it is what tcgetattr() has given.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.0) };
    }
}
