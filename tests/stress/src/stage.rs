//! A worker, machines that come and go, and programs on them.

use vink_kernel::{find_image, Config, Image, Kernel};
use vink_lab::Machine;
use vink_trap::{Program, ProgramId, Status, Stdio, Worker};

use crate::watch::{BoxError, Log};

/// The kernel's memory.
const ARENA: u64 = 256 << 20;

/// How soon a machine gives up connections that no process has any more and whose other end does not answer:
/// minutes by default. A fuzzed program has filters and options by which an end comes not to answer.
const IMPATIENT: [(&str, &str); 3] = [
    ("net/ipv4/tcp_orphan_retries", "1"),
    ("net/ipv4/tcp_fin_timeout", "1"),
    ("net/mptcp/close_timeout", "1"),
];

/// Boots a kernel for a worker all of whose trapped calls are logged.
pub(crate) fn worker(log: Log) -> Result<Worker, BoxError> {
    let config = Config {
        arena_bytes: ARENA,
        ..Config::default()
    };
    let kernel = Kernel::boot(Image::open(&find_image()?)?, config)?;
    let mut worker = Worker::new(kernel)?;
    worker.trace_calls(Box::new(log), true);
    Ok(worker)
}

/// Does something on a machine that is made for it, and gives that up.
pub(crate) fn on_machine<T>(
    worker: &mut Worker,
    work: impl FnOnce(&mut Worker, &Machine) -> Result<T, BoxError>,
) -> Result<T, BoxError> {
    let machine = Machine::new(worker.kernel(), "m")?;
    for (name, value) in IMPATIENT {
        machine.network.sysctl(worker.kernel(), name, value)?;
    }
    let done = work(worker, &machine)?;
    let id = machine.id;
    machine.network.close(worker.kernel())?;
    worker.destroy_machine(id)?;
    Ok(done)
}

/// Starts this executable as a program with a role. What a quiet one says is not shown.
pub(crate) fn start(
    worker: &mut Worker,
    machine: &Machine,
    role: &[String],
    quiet: bool,
) -> Result<ProgramId, BoxError> {
    let mut program = Program::new("/proc/self/exe").arg("program").args(role);
    program = program.stdin(Stdio::Null).stdout(Stdio::Null).new_session();
    if quiet {
        program = program.stderr(Stdio::Null);
    }
    Ok(worker.spawn(machine.id, program)?)
}

/// That a program ended well.
pub(crate) fn check(role: &[String], status: Status) -> Result<(), BoxError> {
    match status {
        Status::Exited(0) => Ok(()),
        status => Err(format!(
            "`vink-stress program {}` ended with {status:?}",
            role.join(" ")
        )
        .into()),
    }
}
