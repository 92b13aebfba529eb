//! Whether programs repeat in virtual time: each is run several times with a seed, and the journals must be the same.
//!
//! Every run is a process of its own, in a folder of the same path with the same files. The server is started at 0, the client ten seconds later, by
//! the clock of the machines; nothing waits by the host's clock. The second run has one processor, and others keep it busy.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use vink_kernel::{find_image, Attachment, Clock, Config, Image, Kernel, Trace, WireKind};
use vink_lab::worker::seed;
use vink_lab::{Journal, Machine};
use vink_record::{first_difference, pcapng, Reader};
use vink_trap::{Program as Started, ProgramId, Stdio as Stream, Worker};

use crate::compare::User;
use crate::program::Program;
use crate::side::{End, Side};
use crate::stage::Stage;
use crate::Failure;

/// When the client is started, on the machines' clock in ns.
const CLIENT: u64 = 10_000_000_000;
/// ... and when it should have ended.
const LATEST: u64 = 3600 * 1_000_000_000;
/// How long a run may take, on the host's clock, in seconds.
const PATIENCE: &str = "120";
/// What keeps processors busy meanwhile.
const BUSY: [&str; 2] = ["while :; do :; done", "while :; do /bin/true; done"];

/// Runs each program three times; says what came of it. `false`: not all repeat.
pub(crate) fn suite(stage: &Stage, programs: &[Program]) -> Result<bool, Failure> {
    let mut good = 0;
    for program in programs {
        let found = repeat(stage, program)?;
        let verdict = found.as_deref().unwrap_or("repeats");
        println!("{:16} {verdict}", program.name);
        good += usize::from(found.is_none());
    }
    println!("{good} of {} repeat", programs.len());
    Ok(good == programs.len())
}

/// What is wrong, if anything is.
fn repeat(stage: &Stage, program: &Program) -> Result<Option<String>, Failure> {
    let prepared = stage.prepare(program)?;
    let mut journals = Vec::new();
    for (seed, busy) in [(1, false), (1, true), (2, false)] {
        let folder = stage.folder(&prepared, program, Side::Vink, User::Root)?;
        let journal = folder.path.with_extension(format!("{}", journals.len()));
        let _load: Vec<Load> = match busy {
            true => BUSY
                .iter()
                .map(|line| Load::new(line))
                .collect::<Result<_, _>>()?,
            false => Vec::new(),
        };
        let processors = if busy { "0" } else { "0-1023" };
        let output = Command::new("timeout")
            .args([PATIENCE, "taskset", "-c", processors])
            .arg(&stage.suite)
            .args(["repeat-once", &program.name, &seed.to_string()])
            .arg(&journal)
            .current_dir(&folder.path)
            .env_clear()
            .env("VINK_IMAGE", &stage.image)
            .env("HOME", &folder.path)
            .env("PATH", &stage.path)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Ok(Some(format!("fails: {}: {said}", output.status)));
        }
        let mut bytes = Vec::new();
        File::open(&journal)?.read_to_end(&mut bytes)?;
        fs::remove_file(&journal)?;
        journals.push(bytes);
    }
    let reader = |n: usize| Reader::new(&journals[n][..], "a journal");
    if let Some(difference) = first_difference(reader(0)?, reader(1)?, 3)? {
        return Ok(Some(format!("does not repeat: {difference}")));
    }
    let packets = |n: usize| {
        let mut file = Vec::new();
        pcapng(reader(n)?, &mut file, "memory").map(|_| file)
    };
    if packets(0)? != packets(1)? {
        return Ok(Some("its captures differ".to_owned()));
    }
    // Addresses of interfaces come from the seed.
    let other = first_difference(reader(0)?, reader(2)?, 0)?;
    Ok(other
        .is_none()
        .then(|| "is the same with another seed".to_owned()))
}

/// A loop of a shell's, as long as this is there.
struct Load(Child);

impl Load {
    fn new(line: &str) -> std::io::Result<Load> {
        let child = Command::new("sh").args(["-c", line]).spawn()?;
        Ok(Load(child))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run, in the current folder.
pub(crate) fn once(name: &str, number: u64, journal: &Path) -> Result<(), Failure> {
    let config = Config {
        arena_bytes: 256 << 20,
        clock: Clock::Virtual,
        seed: Some(seed(number)),
        ..Config::default()
    };
    let mut kernel = Kernel::boot(Image::open(&find_image()?)?, config)?;
    let wire = kernel.wire(WireKind::PointToPoint)?;
    let mut ends = Vec::new();
    for end in End::BOTH {
        let machine = Machine::new(&mut kernel, end.name())?;
        let attachment = Attachment {
            interface: "eth0",
            ..Attachment::default()
        };
        let at = kernel.attach(wire, machine.id, attachment)?;
        let all = Trace {
            departures: true,
            arrivals: true,
            losses: true,
            drops: true,
            bytes: u16::MAX,
        };
        kernel.trace(at, all)?;
        ends.push((at, format!("{}:eth0", end.name()), machine));
    }
    for (end, (_, _, machine)) in End::BOTH.into_iter().zip(&ends) {
        for address in end.addresses() {
            let vink_lab::Network { address, prefix } = address.parse()?;
            machine
                .admin
                .address(&mut kernel, "eth0", address, prefix)?;
        }
        machine.admin.up(&mut kernel, "eth0")?;
        for (variable, address) in ["", "6"].iter().zip(end.addresses()) {
            let address = address.split('/').next().expect("the part before it");
            std::env::set_var(format!("{}{variable}", end.name().to_uppercase()), address);
        }
    }
    let mut worker = Worker::new(kernel)?;
    let mut journal = Journal::start(&mut worker, File::create(journal)?, "the journal");
    let mut look = |worker: &mut Worker| {
        let kernel = worker.kernel();
        while let Some(packet) = kernel.next_packet() {
            let place = ends.iter().find(|(at, ..)| *at == packet.end);
            journal.packet(place.map(|(_, name, _)| name.as_str()), &packet);
        }
        let missed = kernel.missed_packets();
        journal.caught_up(missed);
    };
    let server = start(&mut worker, ends[0].2.id, name, "server")?;
    worker.set_horizon(CLIENT);
    worker.run_until(|worker| {
        look(worker);
        worker.stands()
    })?;
    let client = start(&mut worker, ends[1].2.id, name, "client")?;
    worker.set_horizon(LATEST);
    worker.run_until(|worker| {
        look(worker);
        worker.stands() || !matches!(worker.status(client), Ok(None))
    })?;
    let now = worker.kernel().now();
    let status = worker.status(client)?;
    journal.finish(now)?;
    worker.kill(client)?;
    worker.kill(server)?;
    match status {
        Some(status) if status.code() == 0 => Ok(()),
        Some(status) => {
            let said = fs::read_to_string("client.err").unwrap_or_default();
            Err(format!("the client ended with {}: {said}", status.code()).into())
        }
        None => Err("the client waits for something that does not come".into()),
    }
}

fn start(
    worker: &mut Worker,
    machine: vink_kernel::MachineId,
    name: &str,
    role: &str,
) -> Result<ProgramId, Failure> {
    let file = |kind| File::create(format!("{role}.{kind}"));
    let program = Started::new("bash")
        .args(["-euo", "pipefail", "prelude.sh", name, role])
        .stdin(Stream::Null)
        .stdout(Stream::Fd(file("out")?.into()))
        .stderr(Stream::Fd(file("err")?.into()))
        .new_session();
    Ok(worker.spawn(machine, program)?)
}
