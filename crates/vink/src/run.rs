//! `vink run`: one machine, one program, and everything between it and its user passed through.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vink_api::RuntimeDir;
use vink_kernel::{find_image, image_named, Clock, Config, Image, Kernel};
use vink_lab::loader::own_path;
use vink_lab::worker::seed;
use vink_lab::{
    configure_share, credentials, CallsSetup, Forward, LinkState, Machine, Network, Passt,
    PortKeeper, Route, SocketProbes, UplinkAttachment,
};
use vink_port::DriverProcess;
use vink_spec::{size, Calls, EthernetAddress, Rights, Span, Uplink};
use vink_trap::{call_name, Charge, Program, Statistics, Status, VirtualTime, Worker};

use crate::cli_error::CliError;
use crate::confined;
use crate::in_process;
use crate::pcb::Watcher;
use crate::record::Recording;
use crate::rights::rights_parser;
use crate::run_filter;
use crate::signals::{die_by, stop_by, Foreground, Signals};
use crate::watchdog::watch_run;

/// What is sent on to the program. The terminal sends its signals to the program as well. vink stops
/// when the program has, for the shell to see it, and not before: a call that waits has to be
/// interrupted first. `SIGCHLD` tells.
const CAUGHT: [i32; 11] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCHLD,
];

/// How long what a program has sent may take to arrive when it has ended.
const LINGER: Duration = Duration::from_secs(5);

/// For the other end of a wire to answer.
const LINK_TIMEOUT: Duration = Duration::from_secs(2);

/// The way out's name on the machine.
const INTERFACE: &str = "eth0";

/// The forms of `--calls`, with what each of them is.
fn calls_parser() -> impl TypedValueParser<Value = Calls> {
    let form = |(name, calls): (&'static str, Calls)| {
        PossibleValue::new(name).help(match calls {
            Calls::Auto => "Shared while they come often, else trapped",
            Calls::Shared => {
                "Posted in memory shared with the stack, which has a processor for itself"
            }
            Calls::Trapped => "Each a seccomp notification",
        })
    };
    PossibleValuesParser::new(Calls::NAMES.map(form))
        .map(|name| name.parse().expect("one of the names"))
}

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The stack in the program's own process: faster, for dynamically linked programs; see docs/in-process.md
    #[arg(long, conflicts_with_all = ["trace_calls", "trace_host", "root", "record", "time", "seed", "rdtsc", "call_time"])]
    in_process: bool,
    /// How dynamically linked programs make their calls; see docs/calls.md
    #[arg(
        long,
        value_name = "FORM",
        value_parser = calls_parser(),
        default_value = "auto",
        default_value_if("quick", "true", "shared"),
        conflicts_with = "in_process"
    )]
    calls: Calls,
    /// The same as --calls shared; it goes with the next release
    #[arg(long, conflicts_with_all = ["in_process", "trace_calls", "record", "calls"])]
    quick: bool,
    /// Say on standard error which form calls have, and why
    #[arg(long)]
    verbose: bool,
    /// What the program may do on its machine; see docs/rights.md
    #[arg(long, value_name = "RIGHTS", value_parser = rights_parser(), default_value = "full")]
    pub(crate) rights: Rights,
    /// The machine's host name
    #[arg(long, value_name = "NAME", default_value = "vink")]
    pub(crate) machine: String,
    /// The image, by its name (`vink image list`) or its path; `vink version` tells which one is used otherwise
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<PathBuf>,
    /// The kernel's memory, such as 32M or 1G; at least 16M
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    pub(crate) arena: u64,
    /// Kernel parameters, such as "sysctl.net.core.default_qdisc=fq"
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) cmdline: String,
    /// Write a line for each system call that concerns Vink, to FILE or to standard error
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    trace_calls: Option<Option<PathBuf>>,
    /// With --trace-calls: also for those trapped calls that are left to the host
    #[arg(long, requires = "trace_calls")]
    trace_host: bool,
    /// Write down all that happens: a manifest to FILE, such as run.json, and a journal beside it; see docs/replay.md
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Which clock there is: the host's, or one that jumps to what is waited for next, and stands while anything can be done
    #[arg(long, value_enum, default_value_t = Time::Real)]
    time: Time,
    /// With --time virtual: what each system call of a program takes of it, such as 1us; else they take no time
    #[arg(long, value_name = "TIME")]
    call_time: Option<Span>,
    /// With --time virtual: the processor's time stamp counter shows that clock, too; debuggers can't be run then
    #[arg(long)]
    rdtsc: bool,
    /// With --time virtual: of everything random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Rules for nft(8), in force before the program starts; see docs/filter.md
    #[arg(long, value_name = "FILE", conflicts_with = "in_process")]
    filter: Option<PathBuf>,
    /// A folder whose files the program finds in place of the host's of the same path below /
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    /// The machine's way out: passt, none, tap:NAME, interface:NAME, qemu:PATH, qemu-connect:PATH, qemu-dgram:PATH,
    /// vhost-user:PATH, wire:PATH, share:PORT,PORT/udp,... or udp:ADDRESS:PORT:ADDRESS:PORT
    #[arg(
        long,
        value_name = "KIND",
        default_value = "passt",
        default_value_if("time", "virtual", "none")
    )]
    pub(crate) uplink: Way,
    /// The machine's Ethernet address on the way out, such as 02:00:00:00:00:01. passt gives its own
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) mac: Option<EthernetAddress>,
    /// An address of the machine's on the way out, such as 10.9.0.2/24; may be repeated. passt gives its own
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Vec<Network>,
    /// Where everything else is, on the way out
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gateway: Vec<IpAddr>,
    /// Let a port of the host lead to one of the machine: [ADDRESS:]PORT:PORT[/udp]; may be repeated
    #[arg(short, long = "publish", value_name = "FORWARD")]
    pub(crate) publish: Vec<Forward>,
    /// For `vink pcb`, which reads samples of sockets from this descriptor, and is waited for: FD:POINTS
    #[arg(long, hide = true)]
    samples: Option<Watcher>,
    /// What to run on it
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

/// The clock of a run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Time {
    Real,
    Virtual,
}

/// What a machine is connected to.
#[derive(Clone)]
pub(crate) enum Way {
    /// Nothing.
    None,
    /// The host's networks, without root.
    Passt,
    /// Something else outside.
    Other(Uplink),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::None => f.write_str("none"),
            Way::Passt => f.write_str("passt"),
            Way::Other(uplink) => uplink.fmt(f),
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        match text {
            "none" => Ok(Way::None),
            "passt" => Ok(Way::Passt),
            _ => match text.parse() {
                Ok(uplink) => Ok(Way::Other(uplink)),
                Err(error) => Err(format!("{error}; or none")),
            },
        }
    }
}

/// An uplink that is not passt, and what was last said of it.
struct Attached<'a> {
    uplink: &'a Uplink,
    outside: UplinkAttachment,
    /// Addresses that it has given.
    route: Option<Route>,
    said: LinkState,
    /// Ends with this.
    _driver: Option<DriverProcess>,
}

impl Attached<'_> {
    /// Says what has become of it.
    fn report(&mut self) {
        let line = &self.outside.state().link;
        if *line != self.said {
            eprintln!("vink: the uplink {}: {line}", self.uplink);
            self.said = line.clone();
        }
    }
}

/// Gives the machine its way out; passt's is another.
fn attach<'a>(
    worker: &mut Worker,
    machine: &Machine,
    arguments: &'a Arguments,
) -> Result<Option<Attached<'a>>, CliError> {
    let Way::Other(uplink) = &arguments.uplink else {
        return Ok(None);
    };
    let mut said = String::new();
    let mut ports = None;
    let (outside, driver) = match uplink.driver() {
        Some(words) => {
            let what = format!("the driver process of the uplink {uplink}");
            let own = Path::new("/proc/self/exe");
            let on_demand = uplink.has_ports_on_demand();
            let started = DriverProcess::start(own, &words, on_demand);
            let (driver, ends);
            (driver, ends, said) = started.map_err(CliError::host(what))?;
            ports = ends.ports;
            let outside = UplinkAttachment::attach_driver(worker, machine, INTERFACE, ends.wire)?;
            (outside, Some(driver))
        }
        None => (
            UplinkAttachment::attach(worker, machine, INTERFACE, uplink)?,
            None,
        ),
    };
    let until = Instant::now() + LINK_TIMEOUT;
    // A driver of the host's address has said that it is ready; any other's may be down for long.
    let comes = |outside: &UplinkAttachment| match uplink {
        Uplink::Share(_) => !outside.state().link.is_up(),
        _ => outside.is_coming(),
    };
    while comes(&outside) {
        let Some(left) = until.checked_duration_since(Instant::now()) else {
            break;
        };
        worker.step(Some(left))?;
    }
    let (kernel, network) = (worker.kernel(), machine.network);
    if let Some(mac) = arguments.mac {
        network.ethernet_address(kernel, INTERFACE, mac.0)?;
    }
    for Network { address, prefix } in &arguments.address {
        network.address(kernel, INTERFACE, *address, *prefix)?;
    }
    network.up(kernel, INTERFACE)?;
    for gateway in &arguments.gateway {
        let all = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        network.route(kernel, all, 0, *gateway)?;
    }
    let route = match uplink {
        Uplink::Share(_) => {
            let grant = serde_json::from_str(&said);
            let grant = grant.map_err(|error| CliError::Other(format!("{uplink}: {error}")))?;
            let route = configure_share(kernel, machine, INTERFACE, &grant)?;
            let what = format!("the uplink {uplink}");
            // For as long as the worker is there.
            let _ = PortKeeper::new(worker, machine, INTERFACE, &what, &grant, ports)?;
            Some(route)
        }
        _ => None,
    };
    Ok(Some(Attached {
        uplink,
        outside,
        route,
        said: LinkState::Up,
        _driver: driver,
    }))
}

/// What was asked for that does not go together.
fn check(arguments: &Arguments) -> Result<(), CliError> {
    let publish = !arguments.publish.is_empty();
    let given =
        !arguments.address.is_empty() || !arguments.gateway.is_empty() || arguments.mac.is_some();
    let confined = arguments.in_process && !arguments.rights.is_full();
    let refusal = confined.then(|| confined::refusal(&arguments.uplink));
    if let Some(text) = refusal.flatten() {
        return Err(CliError::Other(text.to_owned()));
    }
    let text = match arguments.uplink {
        _ if arguments.call_time.is_some() && arguments.time == Time::Real => {
            "--call-time is of a virtual clock: add --time virtual, or leave it away"
        }
        _ if arguments.calls == Calls::Shared && arguments.trace_calls.is_some() => {
            "--calls shared posts calls that --trace-calls would not see: leave one of them away"
        }
        _ if arguments.calls == Calls::Shared && arguments.record.is_some() => {
            "--calls shared posts calls that --record would not see: leave one of them away"
        }
        _ if arguments.rdtsc && arguments.time == Time::Real => {
            "--rdtsc shows a virtual clock: add --time virtual, or leave it away"
        }
        Way::None if publish => "--publish needs an uplink: leave --uplink none away",
        Way::None if given => "--address, --gateway and --mac need an uplink: leave --uplink none away",
        Way::Passt if given => {
            "--address, --gateway and --mac are for other uplinks than passt, which gives its own: see --uplink"
        }
        Way::Other(Uplink::Share(_)) if given => {
            "--uplink share gives its own addresses, which are the host's: --uplink share:192.0.2.1 takes that one"
        }
        Way::Other(Uplink::Share(_)) if publish => {
            "--publish is for passt: --uplink share:80,53/udp shares these ports of the host"
        }
        Way::Other(_) if publish => {
            "--publish is for passt: by any other uplink the machine is reached at its own address"
        }
        Way::Other(ref uplink) if arguments.in_process && uplink.driver().is_some() => {
            "--in-process starts no driver process, which this uplink needs: leave --in-process away, or start \
             `vink driver` with --port wire:PATH (docs/driver.md), and --uplink wire:PATH leads to it"
        }
        Way::Passt | Way::Other(_) if arguments.time == Time::Virtual => {
            "what is outside does not live by a virtual clock: leave --uplink away, or --time virtual"
        }
        _ => return Ok(()),
    };
    Err(CliError::Other(text.to_owned()))
}

/// Runs the program and ends as it ended.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.in_process {
        check(arguments)?;
        if arguments.samples.is_some() {
            return Err(CliError::Other(
                "vink pcb --run has programs beside their stack: run it by itself, and look at it by vink pcb --pid"
                    .to_owned(),
            ));
        }
        return in_process::run(arguments);
    }
    let signals = Signals::catch(&CAUGHT).map_err(CliError::host("signalfd"))?;
    let foreground = Foreground::now();
    check(arguments)?;
    if let Some(watcher) = &arguments.samples {
        watcher.keep();
    }
    // First of all, since it takes as long as all the rest.
    let mut passt = match arguments.uplink {
        Way::Passt => Some(Passt::start(&arguments.publish)?),
        Way::None | Way::Other(_) => None,
    };
    let path = match &arguments.image {
        Some(name) => image_named(name)?,
        None => find_image()?,
    };
    let config = Config {
        arena_bytes: arguments.arena,
        cmdline: arguments.cmdline.clone(),
        clock: match arguments.time {
            Time::Real => Clock::Real,
            Time::Virtual => Clock::Virtual,
        },
        seed: (arguments.time == Time::Virtual).then(|| seed(arguments.seed)),
        ..Config::default()
    };
    let _watchdog = watch_run()?;
    let mut kernel = Kernel::boot(Image::open(&path)?, config)?;
    let machine = Machine::new(&mut kernel, &arguments.machine)?;
    if !arguments.rights.is_full() {
        machine.allow_users(&mut kernel)?;
    }
    let mut worker = Worker::new(kernel)?;
    worker.watch_fd(signals.as_fd())?;
    worker.set_time(VirtualTime {
        tsc: arguments.rdtsc,
        charge: Charge {
            call: arguments.call_time.unwrap_or_default().duration(),
            ..Charge::default()
        },
        ..VirtualTime::default()
    });
    if let Some(file) = &arguments.trace_calls {
        worker.trace_calls(writer(file.as_deref())?, arguments.trace_host);
    }
    let mut attached = attach(&mut worker, &machine, arguments)?;
    let mut addresses = arguments.address.clone();
    let mut resolver = String::new();
    if let Some(passt) = &mut passt {
        let route = passt.attach(&mut worker, &machine)?;
        (addresses, resolver) = (route.addresses, route.resolver);
    }
    if let Some(route) = attached.as_mut().and_then(|attached| attached.route.take()) {
        (addresses, resolver) = (route.addresses, route.resolver);
    }
    let addresses: Vec<_> = addresses.iter().map(|network| network.address).collect();
    let mut config = machine.namespaces(&addresses, &resolver);
    if let Some(root) = &arguments.root {
        config = config.root(root);
    }
    config = config.hide(RuntimeDir::find().folder());
    worker.configure_namespaces(machine.id, &config)?;
    if let Some(file) = &arguments.filter {
        run_filter::load(&mut worker, machine.id, &arguments.machine, file)?;
    }
    let mut probes = SocketProbes::default();
    if let Some(watcher) = &arguments.samples {
        watcher.meet(&mut probes, worker.kernel(), &path)?;
    }
    let recorded = arguments.record.as_deref();
    let recorded = recorded.map(|file| {
        let words = &arguments.program;
        Recording::start(&mut worker, file, &path, &arguments.machine, words)
    });
    let mut recorded = recorded.transpose()?;
    let seen_by = match (&arguments.trace_calls, &arguments.record) {
        (Some(_), _) => Some("--trace-calls"),
        (_, Some(_)) => Some("--record"),
        _ => None,
    };
    let calls = match seen_by {
        Some(option) => CallsSetup::trapped(&format!("{option} sees every call")),
        None => CallsSetup::new(arguments.calls, &mut worker)
            .map_err(|why| CliError::Other(format!("--calls {}: {why}", arguments.calls)))?,
    };
    let program = Program::new(&arguments.program[0])
        .args(&arguments.program[1..])
        .credentials(credentials(arguments.rights));
    let (program, why) = calls.apply(program, &own_path(), Path::new(""));
    if arguments.verbose {
        match why {
            None => eprintln!("vink: calls: {}", calls.form()),
            Some(why) => eprintln!("vink: calls: trapped: {why}"),
        }
    }
    let mut form = worker.calls_form();
    let program = worker.spawn(machine.id, program)?;
    // The program does not get going before the worker does.
    if let Some(passt) = &mut passt {
        passt.wait()?;
    }
    let mut stopping = None;
    let status = loop {
        probes.look_after(&mut worker)?;
        if let Some(recorded) = &mut recorded {
            recorded.look_after(&mut worker);
        }
        if let Some(status) = worker.status(program)? {
            break status;
        }
        worker.step(None)?;
        if arguments.verbose && worker.calls_form() != form {
            form = worker.calls_form();
            if let Some(form) = form {
                eprintln!("vink: calls: {form}");
            }
        }
        if let Some(reason) = passt.as_mut().and_then(Passt::ended) {
            eprintln!("vink: {reason}; the program goes on without a way out");
        }
        if let Some(attached) = &mut attached {
            attached.report();
        }
        while let Some(signal) = signals.next() {
            match signal.number {
                libc::SIGCHLD => continue,
                libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => stopping = Some(signal.number),
                _ => {}
            }
            if signal.from_process {
                // It may just have ended, which the next round sees.
                let _ = worker.signal(program, signal.number);
            }
        }
        if let Some(number) = stopping.filter(|_| worker.has_stopped(program)) {
            stop_by(number);
            stopping = None;
        }
    };
    probes.finish(worker.kernel())?;
    if let Some(recorded) = recorded {
        recorded.finish(&mut worker, status)?;
    }
    report(worker.statistics());
    if arguments.verbose {
        let trapped: u64 = worker.statistics().trapped().map(|(_, count)| count).sum();
        let posted = worker.statistics().posted();
        eprintln!("vink: calls: {trapped} trapped, {posted} posted");
    }
    if worker.kernel().ran_short() {
        eprintln!(
            "vink: the kernel's memory was full, so that calls failed (ENOMEM, ENOBUFS, ENFILE or EAGAIN): \
             give it more than --arena {}M",
            arguments.arena >> 20
        );
    }
    // Ends what the program left behind, before we end the way it did.
    if let Some(passt) = &mut passt {
        worker.kill(program)?;
        passt.finish(&mut worker, &machine, LINGER)?;
    }
    drop(worker);
    drop(attached);
    drop(passt);
    if let Some(foreground) = foreground {
        foreground.take_back();
    }
    Ok(match status {
        Status::Exited(code) => ExitCode::from(code as u8),
        Status::Killed(signal) => {
            die_by(signal);
            ExitCode::from(status.code() as u8)
        }
    })
}

/// Standard error, or a new file.
fn writer(file: Option<&Path>) -> Result<Box<dyn Write>, CliError> {
    Ok(match file {
        None => Box::new(std::io::stderr()),
        Some(path) => {
            let what = format!("creating {} for --trace-calls", path.display());
            Box::new(File::create(path).map_err(CliError::host(what))?)
        }
    })
}

/// Says which calls were not answered as Linux would, so that a program that failed explains itself.
fn report(statistics: &Statistics) {
    let mut found = false;
    for (nr, count, advice) in statistics.unsupported() {
        let times = if count == 1 { "once" } else { "times" };
        let count = if count == 1 {
            String::new()
        } else {
            format!("{count} ")
        };
        eprintln!(
            "vink: not supported: {}, {count}{times}: {advice}",
            call_name(nr)
        );
        found = true;
    }
    if found {
        eprintln!(
            "vink: `vink run --trace-calls` shows which programs made these calls, and with what arguments"
        );
    }
}
