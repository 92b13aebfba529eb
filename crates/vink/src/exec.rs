//! `vink exec`: a program on a machine of a lab that runs, and everything between it and its user passed through.
//!
//! Standard input is read by a thread of its own, since a read of a terminal or a pipe can't be given up. Signals go by
//! requests of their own: they must not wait behind input that the program does not read.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::mpsc;
use vink_api::{Client, Input, LabApi, NewProgram, Output, RuntimeDir, Size, TerminalInput};
use vink_spec::Rights;
use vink_sys::signals::is_ignored;
use vink_sys::terminal::{self, Mode, When};

use crate::attach;
use crate::cli_error::CliError;
use crate::client::{attentively, lab_or_only, runtime};
use crate::print;
use crate::rights::rights_parser;

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
/// How long a signal may take to be sent on. Then it is vink's own, if it is one of [`ENDING`].
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);
/// What ends a process.
const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

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
    /// With --tty: the program stays when this command ends or is left by --detach-keys; `vink attach` comes back to it
    #[arg(long, requires = "tty")]
    keep: bool,
    #[command(flatten)]
    leave: attach::Leave,
    /// The lab; may be left away if only one runs
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Set an environment variable on top of the lab's; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Its working directory, if relative then to the lab's folder, which it is otherwise
    #[arg(short = 'w', long = "dir", value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// What it may do on the machine; else what the machine's programs may. See docs/rights.md
    #[arg(long, value_name = "RIGHTS", value_parser = rights_parser())]
    rights: Option<Rights>,
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
Examples:
  vink exec alice -- ping -c 3 bob
  vink exec -it alice -- bash                       a shell with a terminal
  vink exec -it --keep alice -- bash                one that stays: Ctrl-P Ctrl-Q leaves it, vink attach comes back
  echo hello | vink exec -i alice -- nc -N bob 7    with this input
  vink exec -d alice -- iperf3 -s                   in the background; vink lab logs NUMBER shows its output

Exit status: the program's own; 128 + N if signal N ended it. 125: vink failed, 126: PROGRAM can't be executed,
127: PROGRAM not found, 137: also if its machine, its lab or its worker has gone.";

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is expected".to_owned()),
    }
}

/// Runs the program and ends as it ended.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        let mut program = NewProgram {
            machine: arguments.machine.clone(),
            words: arguments.program.clone(),
            dir: arguments.dir.as_ref().map(|dir| dir.display().to_string()),
            attach: !arguments.detach,
            keep: arguments.keep,
            input: arguments.interactive,
            rights: arguments.rights,
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
        let started = client.start_program(&lab, &program);
        let started = attentively(&client, &lab, started).await?;
        if arguments.detach {
            match arguments.json {
                true => print::json(&started)?,
                false => print::text(&format!("{}\n", started.id))?,
            }
            return Ok(0);
        }
        let terminal = Attached {
            input: arguments.interactive,
            tty: arguments.tty,
            keep: arguments.keep,
            detach_keys: arguments.keep.then(|| arguments.leave.keys()),
        };
        let done = attached(&client, &lab, started.id, terminal);
        attentively(&client, &lab, done).await
    });
    // The thread that reads standard input may still wait for it.
    runtime.shutdown_background();
    let code = done?;
    if arguments.json && !arguments.detach {
        eprintln!("{}", serde_json::json!({ "code": code }));
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(FAILED)))
}

/// What of it is passed through.
pub(crate) struct Attached {
    /// Standard input goes to the program.
    pub input: bool,
    /// It has a terminal.
    pub tty: bool,
    /// The terminal is kept.
    pub keep: bool,
    /// What is typed to leave it.
    pub detach_keys: Option<Vec<u8>>,
}

/// Passes input, output and signals through until the program has ended, or is left.
pub(crate) async fn attached(
    client: &Client,
    lab: &str,
    id: u64,
    terminal: Attached,
) -> Result<i32, CliError> {
    let (tell, mut told) = mpsc::unbounded_channel();
    for number in SENT_ON {
        if is_ignored(number) {
            continue;
        }
        let mut caught =
            signal(SignalKind::from_raw(number)).map_err(CliError::host("sigaction"))?;
        let tell = tell.clone();
        tokio::spawn(async move {
            while caught.recv().await.is_some() {
                let _ = tell.send(number);
            }
        });
    }
    let mut resized = signal(SignalKind::window_change()).map_err(CliError::host("sigaction"))?;
    // Before the program can write anything for a raw terminal.
    let raw = match terminal.tty && terminal.input && io::stdin().is_terminal() {
        true => Some(Raw::enter()?),
        false => None,
    };
    let attached = client.attach(lab, id);
    tokio::pin!(attached);
    let (mut input, mut output) = loop {
        tokio::select! {
            attached = &mut attached => break attached?.split(),
            Some(number) = told.recv() => if ENDING.contains(&number) {
                return Ok(128 + number);
            },
        }
    };
    let (resize, sizes) = mpsc::unbounded_channel();
    if terminal.keep {
        if let Some(size) = size() {
            input.send(Input::Resize(size)).await?;
        }
        if terminal.input {
            input.send(Input::Keyboard(true)).await?;
        }
    }
    let mut leaving = terminal.detach_keys.map(attach::Leaving::by);
    let feeding = tokio::spawn(async move {
        let pieces = terminal.input.then(read_input);
        feed(input, pieces, sizes, &mut leaving).await
    });
    tokio::pin!(feeding);
    let program = id.to_string();
    let (unheard, mut given_up) = mpsc::unbounded_channel();
    let mut is_fed = false;
    let mut teller = attach::Teller::default();
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
                Ok(Output::Told(told)) => teller.tell(told),
                Err(error) => return Err(error.into()),
            },
            fed = &mut feeding, if !is_fed => match fed {
                Ok(Fed::Left) => {
                    drop(raw);
                    eprintln!("\nvink: program {id} goes on; vink attach {lab} {id} comes back to it");
                    return Ok(0);
                }
                _ => is_fed = true,
            },
            Some(number) = told.recv() => {
                if terminal.keep {
                    // It ends the command, and the program stays.
                    if ENDING.contains(&number) {
                        break 128 + number;
                    }
                    continue;
                }
                let (client, lab, program) = (client.clone(), lab.to_owned(), program.clone());
                let unheard = unheard.clone();
                tokio::spawn(async move {
                    let sent = client.signal_program(&lab, &program, number);
                    match tokio::time::timeout(SIGNAL_TIMEOUT, sent).await {
                        Ok(Ok(_)) => return,
                        // It may just have ended, which its output tells, or not have been started.
                        Ok(Err(_)) => tokio::time::sleep(SIGNAL_TIMEOUT).await,
                        Err(_) => {}
                    }
                    let _ = unheard.send(number);
                });
            }
            Some(number) = given_up.recv() => if ENDING.contains(&number) {
                drop(raw);
                eprintln!(
                    "vink: the worker has not answered for {SIGNAL_TIMEOUT:?}: signal {number} ends `vink exec`, and does \
                     not reach program {program}; vink lab ps {lab} shows the worker"
                );
                break 128 + number;
            },
            _ = resized.recv(), if terminal.tty => {
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

/// What the program writes has no reader: it would be ended by a signal.
fn gone(error: io::Error) -> Result<i32, CliError> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(128 + libc::SIGPIPE),
        _ => Err(CliError::host("the program's output")(error)),
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

/// How the program's input has ended.
enum Fed {
    /// It was left.
    Left,
    /// The program takes no more, or nothing comes any more.
    Ended,
}

/// Gives the program its input, and its terminal's sizes.
async fn feed(
    mut to: TerminalInput,
    mut pieces: Option<mpsc::Receiver<Vec<u8>>>,
    mut sizes: mpsc::UnboundedReceiver<Size>,
    leaving: &mut Option<attach::Leaving>,
) -> Fed {
    loop {
        let piece = async {
            match &mut pieces {
                Some(pieces) => pieces.recv().await,
                None => std::future::pending().await,
            }
        };
        let sent = tokio::select! {
            piece = piece => match piece {
                Some(piece) if !piece.is_empty() => {
                    let (piece, is_left) = match leaving {
                        Some(leaving) => leaving.without_keys(&piece),
                        None => (piece, false),
                    };
                    let sent = to.send(Input::Bytes(piece.into())).await;
                    if is_left {
                        return Fed::Left;
                    }
                    sent
                }
                // The end of the input is not the program's.
                _ if leaving.is_some() => return Fed::Left,
                _ => {
                    pieces = None;
                    to.send(Input::End).await
                }
            },
            size = sizes.recv() => match size {
                Some(size) => to.send(Input::Resize(size)).await,
                None => return Fed::Ended,
            },
        };
        // If the program has ended, its output tells.
        if sent.is_err() {
            return Fed::Ended;
        }
    }
}

/// The size of our own terminal.
pub(crate) fn size() -> Option<Size> {
    let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
    let sizes = [output.as_fd(), input.as_fd(), errors.as_fd()].map(terminal::size);
    let (rows, columns) = sizes.into_iter().flatten().next()?;
    Some(Size { rows, columns })
}

/// Our terminal passes every key on, until this is dropped.
pub(crate) struct Raw(Mode);

impl Raw {
    /// See termios(3), cfmakeraw().
    pub(crate) fn enter() -> Result<Raw, CliError> {
        let before = Mode::of(io::stdin()).map_err(CliError::host("tcgetattr"))?;
        let raw = before.raw().set(io::stdin(), When::Now);
        raw.map_err(CliError::host("tcsetattr"))?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.0.set(io::stdin(), When::Now);
    }
}
