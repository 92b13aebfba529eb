//! Whether programs repeat in virtual time: each is run several times with a seed, and the journals must be the same.
//!
//! Every run is a process of its own, in a folder of the same path with the same files. The server is started at 0, the client ten seconds later, by
//! the clock of the machines; nothing waits by the host's clock.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vink_kernel::{
    find_image, Attachment, Clock, Config, Image, Kernel, Trace, WireKind, WireSettings,
};
use vink_lab::worker::seed;
use vink_lab::{Journal, Machine};
use vink_record::Totals;
use vink_trap::{Program as Started, ProgramId, Stdio as Stream, VirtualTime, Worker};

use crate::compare::User;
use crate::determinism::{compare, Conditions, Finding, Kind, Recorded};
use crate::program::Program;
use crate::side::{End, Side};
use crate::stage::Stage;
use crate::BoxError;

/// When the client is started, on the machines' clock in ns.
const CLIENT: u64 = 10_000_000_000;
/// ... and when it should have ended.
const LATEST: u64 = 3600 * 1_000_000_000;
/// How long a packet is on its way. Without any, programs that keep each other busy for a second by their clock would never see it pass.
const DELAY: Duration = Duration::from_millis(10);

/// Runs a program three times, and says what came of it.
pub(crate) fn repeat(stage: &Stage, program: &Program) -> Result<Finding, BoxError> {
    let counter = match program.reads_counter {
        true => "; with a [virtual time stamp counter](repeatable.md#a-virtual-time-stamp-counter)",
        false => "",
    };
    let title = format!("{}{counter}", program.title);
    let finding = Finding::new(Kind::Program, &program.name, &title);
    if let Some(why) = &program.not_repeated {
        return Ok(finding.left_out(why));
    }
    let prepared = stage.prepare(program)?;
    // Certificates that were made just now are valid from the beginning.
    let date = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut runs = Vec::new();
    for conditions in Conditions::ALL {
        let folder = stage.folder(&prepared, program, Side::Vink, User::Root)?;
        let journal = folder.path.with_extension("journal");
        let _load = conditions.load()?;
        let output = conditions
            .command(stage, &stage.suite, &folder.path)
            .args(["repeat-once", &program.name])
            .args([conditions.seed, date].map(|number| number.to_string()))
            .arg(&journal)
            .args(program.reads_counter.then_some("--rdtsc"))
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Ok(finding.fails(&format!("{}: {said}", output.status)));
        }
        runs.push(Recorded {
            totals: serde_json::from_slice(&output.stdout)?,
            journal: fs::read(&journal)?,
            captures: Vec::new(),
        });
        fs::remove_file(&journal)?;
    }
    compare(finding, &runs)
}

/// One run, in the current folder, from this date on (ns since 1970); with a virtual time stamp counter, too.
pub(crate) fn once(
    name: &str,
    number: u64,
    date: u64,
    journal: &Path,
    rdtsc: bool,
) -> Result<(), BoxError> {
    let config = Config {
        // A hundred busy connections have much under way.
        arena_bytes: 1 << 30,
        clock: Clock::Virtual,
        date: Some(date),
        seed: Some(seed(number)),
        ..Config::default()
    };
    let mut kernel = Kernel::boot(Image::open(&find_image()?)?, config)?;
    let wire = kernel.wire(WireKind::PointToPoint)?;
    let settings = WireSettings {
        delay: DELAY,
        ..WireSettings::default()
    };
    kernel.set_wire(wire, None, &settings)?;
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
                .network
                .address(&mut kernel, "eth0", address, prefix)?;
        }
        machine.network.up(&mut kernel, "eth0")?;
        for (variable, address) in ["", "6"].iter().zip(end.addresses()) {
            let address = address.split('/').next().expect("the part before it");
            std::env::set_var(format!("{}{variable}", end.name().to_uppercase()), address);
        }
    }
    let mut worker = Worker::new(kernel)?;
    worker.set_time(VirtualTime {
        tsc: rdtsc,
        ..VirtualTime::default()
    });
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
        worker.is_idle()
    })?;
    let client = start(&mut worker, ends[1].2.id, name, "client")?;
    worker.set_horizon(LATEST);
    worker.run_until(|worker| {
        look(worker);
        worker.is_idle() || !matches!(worker.status(client), Ok(None))
    })?;
    let now = worker.kernel().now();
    let status = worker.status(client)?;
    let totals: Totals = journal.finish(now)?;
    worker.kill(client)?;
    worker.kill(server)?;
    match status {
        Some(status) if status.code() == 0 => {
            println!("{}", serde_json::to_string(&totals)?);
            Ok(())
        }
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
) -> Result<ProgramId, BoxError> {
    let file = |kind| File::create(format!("{role}.{kind}"));
    let program = Started::new("bash")
        .args(["-euo", "pipefail", "prelude.sh", name, role])
        .stdin(Stream::Null)
        .stdout(Stream::Fd(file("out")?.into()))
        .stderr(Stream::Fd(file("err")?.into()))
        .new_session();
    Ok(worker.spawn(machine, program)?)
}
