//! A side's process: started by the main one, does a round for each line on its standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::benchmark::{Group, Side};
use crate::{host, pinning, vink, BoxError};

/// A round: one number for each figure of the group, or none where a side has none.
pub(crate) type Round = Box<dyn FnMut() -> Result<Vec<Option<f64>>, BoxError>>;

/// The main process's view of a side.
pub(crate) struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a side; it sets itself up in its first round.
    pub fn start(group: &Group, side: Side) -> Result<Process, BoxError> {
        let side = clap::ValueEnum::to_possible_value(&side).expect("no side is hidden");
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["side", group.name, side.get_name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // SAFETY: one system call, with no memory involved.
        unsafe { command.pre_exec(die_with_parent) };
        let mut child = command.spawn()?;
        let orders = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Process {
            child,
            orders: Some(orders),
            answers,
        })
    }

    /// Has it do a round.
    pub fn round(&mut self) -> Result<Vec<Option<f64>>, BoxError> {
        let mut line = String::new();
        let mut orders = self.orders.as_ref().expect("open until the end");
        let talked = writeln!(orders, "round").and_then(|()| self.answers.read_line(&mut line));
        if talked.is_err() || line.is_empty() {
            return Err(format!("its process ended: {}", self.child.wait()?).into());
        }
        // What can't be read as a number is a figure that this side doesn't have.
        Ok(line
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // No more orders: it ends what it has started, and itself.
        self.orders = None;
        let _ = self.child.wait();
    }
}

/// Groups whose programs and workers are left to the scheduler, as in use: programs under the trap, several workers, programs of many
/// machines in virtual time, a Python program and its control process, a browser. A pod's process is where the group puts it.
const FREE: [&str; 18] = [
    "relay_",
    "filter",
    "kvs_",
    "switch_",
    "vm_",
    "trap_",
    "auto_",
    "idle_cpu",
    "notify_",
    "inproc_",
    "beside_",
    "workers_",
    "run_true",
    "virtual_http",
    "python_",
    "sweep",
    "ui_",
    "pod_process",
];

/// What a side's process does: sets up, then a round for each line.
pub(crate) fn serve(group: &str, side: Side) -> Result<(), BoxError> {
    let pinned = match side {
        Side::Vink => !FREE.iter().any(|prefix| group.starts_with(prefix)),
        Side::Host => true,
        Side::HostTwoCpus => false,
    };
    if pinned {
        pinning::pin()?;
    }
    let mut round: Option<Round> = None;
    for _order in io::stdin().lines() {
        if round.is_none() {
            round = Some(match side {
                Side::Vink => vink::prepare(group)?,
                Side::Host | Side::HostTwoCpus => host::prepare(group)?,
            });
        }
        let figures = round.as_mut().expect("just made")()?;
        let words = figures
            .iter()
            .map(|f| f.map_or("-".to_owned(), |f| f.to_string()));
        println!("{}", words.collect::<Vec<_>>().join(" "));
    }
    Ok(())
}

/// So that no process is left when the one that waits for it is interrupted.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: takes numbers only.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
