//! `vink debug`: gdb on the kernel under a program, with commands that know sockets and machines.

use std::ffi::OsString;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::failure::Failure;

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
    /// Options of `vink run`, and the program after `--`
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS -- PROGRAM"
    )]
    run: Vec<OsString>,
}

/// Becomes gdb, or gdbserver.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let vink = std::env::current_exe().map_err(Failure::host("finding vink"))?;
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
    Err(Failure::Other(match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{name} is not here: apt-get install {name}")
        }
        _ => format!("{name}: {error}"),
    }))
}

/// gdb with everything set up.
fn gdb(arguments: &Arguments, line: &[OsString]) -> Result<Command, Failure> {
    let script = script()?;
    let mut command = Command::new("gdb");
    command.arg("-q");
    if arguments.batch {
        command.arg("-batch");
    }
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
    for name in &arguments.breaks {
        execute(&format!("break {name}"));
    }
    for text in &arguments.commands {
        execute(text);
    }
    command.arg("--args").args(line);
    Ok(command)
}

/// The commands in a file that gdb inherits.
fn script() -> Result<i32, Failure> {
    // SAFETY: makes a descriptor, which is nobody else's.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"vink.py".as_ptr(), 0);
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Failure::host("memfd_create()")(error));
        }
        std::fs::File::from_raw_fd(fd)
    };
    file.write_all(COMMANDS.as_bytes())
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .map_err(Failure::host("writing gdb's commands"))?;
    let fd = file.as_raw_fd();
    // gdb's from now on.
    std::mem::forget(file);
    Ok(fd)
}
