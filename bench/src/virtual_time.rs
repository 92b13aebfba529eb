//! Labs in virtual time: how much of the host's time unmodified programs cost whose waits cost none.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use vink_apps::{Apps, State};
use vink_kernel::{
    find_image, Attachment, Clock, Config, Image, Kernel, MachineId, WireKind, WireSettings,
};
use vink_lab::{CallsSetup, Machine};
use vink_spec::Calls;
use vink_trap::{NamespaceConfig, Program, ProgramId, Status, Stdio, Worker};

use crate::programs::Directory;
use crate::BoxError;

/// From one end of a wire to the other.
const DELAY: Duration = Duration::from_millis(10);
/// Servers and clients of pages, and how many pages each client fetches.
const SERVERS: u32 = 10;
const CLIENTS: u32 = 990;
const FETCHES: usize = 5;
const PAGE: usize = 10_000;
/// When the clients start, in ns.
const START: u64 = 1_000_000_000;
/// Flows through one wire, and how many sinks they go to, its bits per second, and for how many seconds.
const FLOWS: u32 = 1000;
const SINKS: u32 = 4;
const BOTTLENECK: u64 = 1_000_000_000;
const FLOWING: u32 = 10;
/// Routers, and their day in ns.
const ROUTERS: u32 = 20;
const DAY: u64 = 24 * 3600 * 1_000_000_000;

/// A kernel whose runs repeat.
fn boot(arena_bytes: u64) -> Result<Kernel, BoxError> {
    let config = Config {
        arena_bytes,
        seed: Some([1; 32]),
        clock: Clock::Virtual,
        ..Config::default()
    };
    Ok(Kernel::boot(Image::open(&find_image()?)?, config)?)
}

/// Puts machines on a new wire, with the addresses given and this prefix length.
fn join(
    kernel: &mut Kernel,
    kind: WireKind,
    ends: &[(&Machine, &str, [u8; 4])],
    prefix: u8,
) -> Result<(), BoxError> {
    let settings = WireSettings {
        delay: DELAY,
        ..WireSettings::default()
    };
    join_with(kernel, kind, ends, prefix, &settings)
}

/// The same with a wire of these settings.
fn join_with(
    kernel: &mut Kernel,
    kind: WireKind,
    ends: &[(&Machine, &str, [u8; 4])],
    prefix: u8,
    settings: &WireSettings,
) -> Result<(), BoxError> {
    let wire = kernel.wire(kind)?;
    for (machine, interface, address) in ends {
        let attachment = Attachment {
            interface,
            ..Attachment::default()
        };
        kernel.attach(wire, machine.id, attachment)?;
        machine
            .network
            .address(kernel, interface, (*address).into(), prefix)?;
        machine.network.up(kernel, interface)?;
    }
    Ok(kernel.set_wire(wire, None, settings)?)
}

/// A worker whose programs make their calls as those of a lab do by default.
fn worker_of(kernel: Kernel) -> Result<(Worker, CallsSetup), BoxError> {
    let mut worker = Worker::new(kernel)?;
    let calls = CallsSetup::new(Calls::Auto, &mut worker)?;
    Ok((worker, calls))
}

fn start(
    (worker, calls): (&mut Worker, &CallsSetup),
    machine: MachineId,
    program: Program,
) -> Result<ProgramId, BoxError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (program, hindrance) = calls.apply(program, &path, Path::new(""));
    if let Some(why) = hindrance {
        return Err(format!("the calls of a program are trapped: {why}").into());
    }
    let program = program.stdin(Stdio::Null).stdout(Stdio::Null);
    Ok(worker.spawn(machine, program.stderr(Stdio::Null))?)
}

fn succeed(worker: &mut Worker, program: ProgramId) -> Result<(), BoxError> {
    match worker.wait(program)? {
        Status::Exited(0) => Ok(()),
        status => Err(format!("a program in virtual time: {status:?}").into()),
    }
}

/// Microseconds of the host's time for a byte there and back between two programs.
pub(crate) fn round_trips() -> Result<f64, BoxError> {
    let mut kernel = boot(crate::vink::ARENA)?;
    let client = Machine::new(&mut kernel, "client")?;
    let server = Machine::new(&mut kernel, "server")?;
    let ends = [
        (&client, "eth0", [10, 0, 0, 1]),
        (&server, "eth0", [10, 0, 0, 2]),
    ];
    join(&mut kernel, WireKind::PointToPoint, &ends, 24)?;
    let (mut worker, calls) = worker_of(kernel)?;
    let own = std::env::current_exe()?;
    let echo = |what: &str| Program::new(&own).args(["loop", what]);
    start((&mut worker, &calls), server.id, echo("echo_server"))?;
    let before = (Instant::now(), worker.kernel().now());
    let echo = echo("echo_client").arg("10.0.0.2");
    let client = start((&mut worker, &calls), client.id, echo)?;
    succeed(&mut worker, client)?;
    let trips = (worker.kernel().now() - before.1) as f64 / (2 * DELAY).as_nanos() as f64;
    Ok(before.0.elapsed().as_nanos() as f64 / 1000.0 / trips)
}

/// Seconds for pages fetched by curl from nginx, as Debian configures it, on 1,000 machines, each on a wire to a
/// router in the middle.
pub(crate) fn pages() -> Result<f64, BoxError> {
    let begin = Instant::now();
    let mut kernel = boot(2 << 30)?;
    let middle = Machine::new(&mut kernel, "middle")?;
    // Of a network of four addresses.
    let address = |n: u32, host: u32| (10 << 24 | n << 2 | host).to_be_bytes();
    let mut machines = Vec::new();
    for n in 0..SERVERS + CLIENTS {
        let machine = Machine::new(&mut kernel, &format!("m{n}"))?;
        let (own, gateway) = (address(n, 2), address(n, 1));
        let interface = format!("to{n}");
        let ends = [(&middle, &*interface, gateway), (&machine, "eth0", own)];
        join(&mut kernel, WireKind::PointToPoint, &ends, 30)?;
        let all = [0; 4].into();
        machine.network.route(&mut kernel, all, 0, gateway.into())?;
        machines.push(machine);
    }
    middle.forward(&mut kernel)?;
    let (mut worker, calls) = worker_of(kernel)?;
    let page = "x".repeat(PAGE);
    // What an nginx writes, it writes where no other one does.
    let server =
        "for place in /run /var/log/nginx /var/www/html; do mount -t tmpfs none $place; done
        printf %s $PAGE > /var/www/html/page; exec nginx -g 'daemon off;'";
    for machine in &machines[..SERVERS as usize] {
        let nginx = Program::new("unshare").args(["-m", "sh", "-c", server]);
        let nginx = nginx.env("PAGE", &page);
        start((&mut worker, &calls), machine.id, nginx)?;
    }
    worker.set_horizon(START);
    worker.run_until(|worker| worker.kernel().now() >= START)?;
    worker.set_horizon(u64::MAX);
    let mut clients = Vec::new();
    for (n, machine) in (0..).zip(&machines[SERVERS as usize..]) {
        let [a, b, c, d] = address(n % SERVERS, 2);
        let url = format!("http://{a}.{b}.{c}.{d}/page");
        let client = format!(
            "for n in {}; do curl -sS --fail -o /dev/null {url} || exit; done",
            "x ".repeat(FETCHES)
        );
        // The tables of other languages are files to be read at each start.
        let client = Program::new("sh").args(["-c", &client]).env("LC_ALL", "C");
        clients.push(start((&mut worker, &calls), machine.id, client)?);
    }
    for client in clients {
        succeed(&mut worker, client)?;
    }
    Ok(begin.elapsed().as_secs_f64())
}

/// Seconds of the host's time for each virtual second of many bulk senders, each a virtualized process.
pub(crate) fn flows() -> Result<f64, BoxError> {
    let mut kernel = boot(2 << 30)?;
    let client = Machine::new(&mut kernel, "client")?;
    let server = Machine::new(&mut kernel, "server")?;
    let ends = [
        (&client, "eth0", [10, 0, 0, 1]),
        (&server, "eth0", [10, 0, 0, 2]),
    ];
    let settings = WireSettings {
        rate: BOTTLENECK,
        delay: DELAY,
        ..WireSettings::default()
    };
    join_with(&mut kernel, WireKind::PointToPoint, &ends, 24, &settings)?;
    let mut apps = Apps::new();
    let words = |line: String| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    for port in 1..=SINKS {
        let sink = words(format!("sink -t -p {port}"));
        apps.start(&mut kernel, server.id, &sink)?;
    }
    let begin = (Instant::now(), kernel.now());
    let mut deadline = kernel.run()?;
    for n in 0..FLOWS {
        let port = 1 + n % SINKS;
        let source = words(format!("source -t {FLOWING}s -p {port} 10.0.0.2"));
        apps.start(&mut kernel, client.id, &source)?;
        // One after the other, within a second.
        let next = begin.1 + u64::from(n + 1) * 1_000_000_000 / u64::from(FLOWS);
        deadline = kernel.run()?;
        while let Some(at) = deadline.filter(|at| *at < next) {
            kernel.wait(at);
            deadline = kernel.run()?;
        }
        kernel.wait(next);
    }
    let mut left = FLOWS;
    loop {
        while let Some(ended) = apps.next_ended() {
            let status = apps.take(ended)?;
            if !matches!(status.state, State::Ended { status: 0, .. }) {
                return Err(format!("{}: {:?}", status.words.join(" "), status.state).into());
            }
            left -= 1;
        }
        if left == 0 {
            break;
        }
        while kernel.next_event().is_some() {}
        let next = deadline.ok_or("the flows wait for each other")?;
        kernel.wait(next);
        deadline = kernel.run()?;
    }
    let passed = (kernel.now() - begin.1) as f64 / 1e9;
    let took = begin.0.elapsed().as_secs_f64();
    Ok(took / passed)
}

/// Seconds for a day of routers in a ring that speak OSPF (FRR's, with the intervals of the standard).
pub(crate) fn routed_day() -> Result<f64, BoxError> {
    let begin = Instant::now();
    let directory = Directory::new()?;
    let mut kernel = boot(256 << 20)?;
    let mut machines = Vec::new();
    for n in 0..ROUTERS {
        machines.push(Machine::new(&mut kernel, &format!("r{n}"))?);
    }
    for n in 0..ROUTERS {
        let next = (n + 1) % ROUTERS;
        let ends = [
            (&machines[n as usize], "next", [10, 0, n as u8, 1]),
            (&machines[next as usize], "last", [10, 0, n as u8, 2]),
        ];
        join(&mut kernel, WireKind::PointToPoint, &ends, 24)?;
    }
    for machine in &machines {
        machine.forward(&mut kernel)?;
    }
    let (mut worker, calls) = worker_of(kernel)?;
    for (n, machine) in machines.iter().enumerate() {
        let place = directory.path().join(machine.name.as_str());
        fs::create_dir(&place)?;
        let conf = format!(
            "interface next\n ip ospf network point-to-point\n\
             interface last\n ip ospf network point-to-point\n\
             router ospf\n ospf router-id 10.255.0.{}\n network 10.0.0.0/8 area 0\n",
            n + 1
        );
        let config = NamespaceConfig::new()
            .name(machine.name.as_str())
            .file("/etc/group", "root:x:0:\nfrrvty:x:85:root\n");
        worker.configure_namespaces(machine.id, &config)?;
        fs::write(place.join("ospfd.conf"), conf)?;
        let run = place.display();
        let common =
            format!("-u root -g root --vty_socket {run} -z {run}/zserv.api --log file:{run}/log");
        let script = format!(
            "/usr/lib/frr/zebra {common} -i {run}/zebra.pid -f /dev/null &
            until [ -S {run}/zserv.api ]; do sleep 0.1; done
            exec /usr/lib/frr/ospfd {common} -i {run}/ospfd.pid -f {run}/ospfd.conf"
        );
        let script = Program::new("sh").args(["-c", &script]);
        start((&mut worker, &calls), machine.id, script)?;
    }
    worker.set_horizon(DAY);
    worker.run_until(|worker| worker.kernel().now() >= DAY)?;
    let seconds = begin.elapsed().as_secs_f64();
    routes(&mut worker, machines[0].id)?;
    Ok(seconds)
}

/// All routers know all wires.
fn routes(worker: &mut Worker, machine: MachineId) -> Result<(), BoxError> {
    let (mut reader, writer) = std::io::pipe()?;
    let ip = Program::new("ip").args(["route"]).stdin(Stdio::Null);
    let ip = worker.spawn(machine, ip.stdout(Stdio::Fd(writer.into())))?;
    worker.set_horizon(DAY + 1_000_000_000);
    worker.wait(ip)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text)?;
    match text.lines().count() as u32 {
        ROUTERS => Ok(()),
        found => Err(format!("{found} routes, not {ROUTERS}:\n{text}").into()),
    }
}
