//! `vink debug`: gdb on the kernel under a program, with commands that know sockets and machines.

use std::ffi::OsString;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use vink_sys::fd::{in_memory, set_cloexec};

use crate::cli_error::CliError;

/// What gdb reads at its start.
const COMMANDS: &str = include_str!("../gdb/vink.py");

/// The command line.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Stop where this function of the stack begins; may be repeated
    #[arg(short = 'b', long = "break", value_name = "FUNCTION")]
    breaks: Vec<String>,
    /// A command of gdb's, carried out before the program starts; may be repeated
    #[arg(short = 'x', long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
    /// Carry out the commands and end (gdb -batch); `run` is among them if the program is to run
    #[arg(long)]
    batch: bool,
    /// Wait for a gdb elsewhere at this address: [HOST]:PORT
    #[arg(long, value_name = "ADDRESS")]
    gdbserver: Option<String>,
    /// Attach to this process, a `vink run` or a lab's worker (vink lab ps --json shows them), in the place of running one
    #[arg(short = 'p', long, value_name = "PID", conflicts_with_all = ["gdbserver", "run"])]
    pid: Option<u32>,
    /// Options of `vink run`, and the program after `--`
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS -- PROGRAM"
    )]
    run: Vec<OsString>,
}

/// Becomes gdb, or gdbserver.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let vink = std::env::current_exe().map_err(CliError::host("finding vink"))?;
    let mut line: Vec<OsString> = vec![vink.into(), "run".into()];
    line.extend(arguments.run.iter().cloned());
    let mut command = match &arguments.gdbserver {
        Some(address) => {
            let mut command = Command::new("gdbserver");
            command.arg("--once").arg(address).args(line);
            command
        }
        None => gdb(arguments, &line)?,
    };
    let name = command.get_program().to_string_lossy().into_owned();
    // Returns only if it fails.
    let error = command.exec();
    Err(CliError::Other(match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{name} is not here: apt-get install {name}")
        }
        _ => format!("{name}: {error}"),
    }))
}

/// gdb with everything set up.
fn gdb(arguments: &Arguments, line: &[OsString]) -> Result<Command, CliError> {
    let script = script()?;
    let mut command = Command::new("gdb");
    command.arg("-q");
    if arguments.batch {
        command.arg("-batch");
    }
    // Rust's own printers are not installed with Vink, and gdb would warn of it.
    command.args(["-iex", "set auto-load python-scripts off"]);
    let mut execute = |text: &str| {
        command.arg("-ex").arg(text);
    };
    // Bad pointers of programs are a signal in the worker, which is made EFAULT.
    execute("handle SIGSEGV nostop noprint pass");
    // The image is loaded later.
    execute("set breakpoint pending on");
    execute("set print thread-events off");
    execute(&format!(
        "python exec(open('/proc/self/fd/{script}').read())"
    ));
    if let Some(pid) = arguments.pid {
        execute(&format!("attach {pid}"));
    }
    for name in &arguments.breaks {
        execute(&format!("break {name}"));
    }
    for text in &arguments.commands {
        execute(text);
    }
    if arguments.pid.is_none() {
        command.arg("--args").args(line);
    }
    Ok(command)
}

/// The commands in a file that gdb inherits.
fn script() -> Result<i32, CliError> {
    let mut file = in_memory(c"vink.py").map_err(CliError::host("memfd_create()"))?;
    set_cloexec(file.as_raw_fd(), false).map_err(CliError::host("fcntl()"))?;
    file.write_all(COMMANDS.as_bytes())
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .map_err(CliError::host("writing gdb's commands"))?;
    let fd = file.as_raw_fd();
    // gdb's from now on.
    std::mem::forget(file);
    Ok(fd)
}
