//! Vink's side: machines of one kernel, both ends as fibers of this thread.

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use vink_kernel::{
    find_image, Attachment, Config, Event, Fiber, Image, Kernel, MachineId, Trace, WireId,
    WireKind, WireSettings,
};
use vink_lab::{wire, End, Machine};
use vink_trap::{Program, Stdio, Worker};

use crate::beside;
use crate::crossing;
use crate::driver;
use crate::explore;
use crate::filter;
use crate::filter_change;
use crate::host;
use crate::kvs;
use crate::outside;
use crate::paths;
use crate::pods;
use crate::profiles;
use crate::programs::{
    auto_library, create, is_auto, is_quick, quick_library, read_figure, Pair, GROUPS,
};
use crate::rebuild;
use crate::recorded;
use crate::relay;
use crate::scale::{self, Tree};
use crate::share;
use crate::side::Round;
use crate::switch;
use crate::switch_flood;
use crate::transcoder;
use crate::viewer;
use crate::virtual_time;
use crate::vm;
use crate::work::{self, Socket, BULK, HOPS, PINGS};
use crate::workers;
use crate::BoxError;

/// What a kernel has unless asked for more: TCP sizes its buffers by it.
pub(crate) const ARENA: u64 = 64 << 20;
/// What boot is measured with.
const SMALL_ARENA: u64 = 32 << 20;
/// For thousands of machines.
const LARGE_ARENA: u64 = 2 << 30;

/// For lines and trees of them.
const SCALE_ARENA: u64 = 6 << 30;
/// For a line of some hundred.
const HOPS_ARENA: u64 = 512 << 20;

/// Sets up for one group.
pub(crate) fn prepare(group: &str) -> Result<Round, BoxError> {
    Ok(match group {
        "null_call" => alone(|fiber| Ok(work::null_calls(fiber)))?,
        "getsockopt" => alone(work::getsockopts)?,
        "tcp_loopback" => transfer(Network::loopback()?),
        "tcp_two_machines" | "wire_tcp" => transfer(Network::direct()?),
        "tcp_router" | "wire_router_tcp" => transfer(Network::routed()?),
        "rtt_two_machines" => round_trips(Network::direct()?),
        "workers_tcp" => workers::transfer()?,
        "workers_rtt" => workers::round_trips()?,
        "hosts_tcp" => workers::hosts()?,
        "switch_tcp" => switch::transfer()?,
        "switch_pps" => switch::datagrams()?,
        "switch_flood" => switch_flood::on_vink()?,
        "run_true" => {
            let vink = vink_itself()?;
            let vink = vink.to_str().ok_or("the path of vink is not text")?;
            let command = [vink, "run", "--", "true"].map(str::to_owned);
            Box::new(move || {
                let words: Vec<_> = command.iter().map(String::as_str).collect();
                Ok(vec![Some(work::timed_command(&words)?)])
            })
        }
        "trap_null_call" | "trap_getsockopt" => trapped_loop(group)?,
        "trap_floor" => trapped_loop("trap_null_call")?,
        "rebuild" => rebuild::prepare(vink_itself()?)?,
        "python_call" => outside::python("call", vink_itself()?)?,
        "sweep" => outside::python("sweep", vink_itself()?)?,
        "ui_picture" => outside::page("picture", vink_itself()?, &[])?,
        "ui_closed" => viewer::gone()?,
        "ui_detail" => viewer::detail()?,
        "ui_open" => outside::page("open", vink_itself()?, &[])?,
        "ui_seek" => recorded::seek(vink_itself()?)?,
        "inproc_null_call" => {
            let own = std::env::current_exe()?.display().to_string();
            let vink = vink_itself()?.display().to_string();
            let options = ["run", "--in-process", "--uplink", "none", "--"];
            let words = [vink.as_str()].into_iter().chain(options);
            let words = words.chain([own.as_str(), "loop", group]);
            let words: Vec<_> = words.map(str::to_owned).collect();
            Box::new(move || Ok(vec![Some(host::printed_figure(&words)?)]))
        }
        "inproc_rtt_beside" => {
            beside::round_trips(in_process("inproc_rtt")?, programs("inproc_rtt")?)?
        }
        "beside_grpc" => beside::programs("go-grpc")?,
        "beside_unbound" => beside::programs("unbound")?,
        "beside_mosquitto" => beside::programs("mosquitto")?,
        "beside_quic" => beside::programs("aioquic")?,
        _ if group.starts_with("inproc_") => in_process(group)?,
        _ if GROUPS.contains(&group) => programs(group)?,
        _ if group.starts_with("kvs_") => kvs::on_vink(group)?,
        "filter" => filter::on_vink()?,
        "filter_change" => filter_change::on_vink()?,
        "pod_process" => crossing::process()?,
        "transcoder" => transcoder::overhead()?,
        "transcoder_gold" => transcoder::shedding()?,
        "driver_restart" => driver::restarts()?,
        "share" => share::beside_packet()?,
        "relay_flat" => relay::flat()?,
        "relay_tcp" | "relay_udp" => relay::on_vink(group)?,
        "pod_packet" => paths::packets()?,
        "path_revoke" => paths::revokes()?,
        "pod_kill" => paths::kills()?,
        "vm_tcp" => vm::rates()?,
        "idle_cpu" => idle()?,
        "boot" => Box::new(|| Ok(measure_boot()?.map(Some).to_vec())),
        "hops" => hops()?,
        "rates" => Box::new(|| {
            RATES
                .iter()
                .map(|rate| rate_error(*rate).map(Some))
                .collect()
        }),
        "machines_1000" => Box::new(|| Ok(vec![Some(measure_scale(1000)?[0])])),
        "machines_10000" => Box::new(|| Ok(measure_scale(10_000)?.map(Some).to_vec())),
        "machines" => Box::new(|| Ok(measure_machines(&find_image()?)?.map(Some).to_vec())),
        "pod_wasm" => pods::wasm()?,
        "pod_key" => pods::key()?,
        "image_kvs" => profiles::text(vink_itself()?)?,
        "machine_kvs" => {
            let image = profiles::kvs(&vink_itself()?)?;
            Box::new(move || Ok(vec![Some(measure_machines(&image)?[0])]))
        }
        "explore" => {
            let vink = vink_itself()?;
            Box::new(move || explore::states(&vink))
        }
        "virtual_rtt" => Box::new(|| Ok(vec![Some(virtual_time::round_trips()?); 2])),
        "virtual_http" => Box::new(|| Ok(vec![Some(virtual_time::pages()?)])),
        "virtual_flows" => Box::new(|| Ok(vec![Some(virtual_time::flows()?)])),
        "virtual_ospf" => Box::new(|| Ok(vec![Some(virtual_time::routed_day()?)])),
        _ => return Err(format!("Vink has no side of {group}").into()),
    })
}

/// A pair of programs with the stack in their own process.
fn in_process(group: &str) -> Result<Round, BoxError> {
    let to = [10, 0, 0, 2];
    let pair = Pair::new(group, to)?.in_process(&vink_itself()?, to);
    Ok(host::programs(None, pair))
}

/// `vink`, which `make bench` builds beside this program.
fn vink_itself() -> Result<std::path::PathBuf, BoxError> {
    host::own("vink")
}

pub(crate) fn boot(arena_bytes: u64) -> Result<Kernel, BoxError> {
    boot_image(&find_image()?, arena_bytes)
}

fn boot_image(image: &Path, arena_bytes: u64) -> Result<Kernel, BoxError> {
    let config = Config {
        arena_bytes,
        ..Config::default()
    };
    Ok(Kernel::boot(Image::open(image)?, config)?)
}

/// Two machines of one kernel with a way between them, as `host::Path`.
struct Network {
    kernel: Kernel,
    client: MachineId,
    server: MachineId,
    to: [u8; 4],
}

impl Network {
    fn loopback() -> Result<Network, BoxError> {
        let mut kernel = boot(ARENA)?;
        let machine = Machine::new(&mut kernel, "alone")?;
        Ok(Network {
            kernel,
            client: machine.id,
            server: machine.id,
            to: [127, 0, 0, 1],
        })
    }

    fn direct() -> Result<Network, BoxError> {
        let mut kernel = boot(ARENA)?;
        let client = Machine::new(&mut kernel, "client")?;
        let server = Machine::new(&mut kernel, "server")?;
        join(
            &mut kernel,
            (&client, "10.0.0.1/24"),
            (&server, "10.0.0.2/24"),
        )?;
        Ok(Network {
            kernel,
            client: client.id,
            server: server.id,
            to: [10, 0, 0, 2],
        })
    }

    fn routed() -> Result<Network, BoxError> {
        let mut kernel = boot(ARENA)?;
        let client = Machine::new(&mut kernel, "client")?;
        let router = Machine::new(&mut kernel, "router")?;
        let server = Machine::new(&mut kernel, "server")?;
        join(
            &mut kernel,
            (&client, "10.0.0.1/24"),
            (&router, "10.0.0.2/24"),
        )?;
        join(
            &mut kernel,
            (&server, "10.0.1.2/24"),
            (&router, "10.0.1.1/24"),
        )?;
        let everywhere = "0.0.0.0".parse()?;
        client
            .network
            .route(&mut kernel, everywhere, 0, "10.0.0.2".parse()?)?;
        server
            .network
            .route(&mut kernel, everywhere, 0, "10.0.1.1".parse()?)?;
        router.forward(&mut kernel)?;
        Ok(Network {
            kernel,
            client: client.id,
            server: server.id,
            to: [10, 0, 1, 2],
        })
    }
}

/// Joins two machines; each interface is named after the other end.
fn join(kernel: &mut Kernel, a: (&Machine, &str), b: (&Machine, &str)) -> Result<WireId, BoxError> {
    let (a_address, b_address) = ([a.1.parse()?], [b.1.parse()?]);
    let end = |machine, interface, addresses| End {
        machine,
        interface,
        addresses,
    };
    wire(
        kernel,
        end(a.0, &b.0.name, &a_address),
        end(b.0, &a.0.name, &b_address),
    )
    .map_err(BoxError::from)
}

fn alone(work: fn(&Fiber) -> Result<f64, BoxError>) -> Result<Round, BoxError> {
    let Network {
        mut kernel, client, ..
    } = Network::loopback()?;
    Ok(Box::new(move || {
        let result = start(&mut kernel, client, work)?;
        finish(&mut kernel, 1)?;
        Ok(vec![Some(result.take()?)])
    }))
}

fn transfer(network: Network) -> Round {
    let Network {
        mut kernel,
        client,
        server,
        to,
    } = network;
    Box::new(move || {
        // The first one runs until it waits for a connection before the second one begins.
        let received = start(&mut kernel, server, |fiber| {
            work::receive(&Socket::listener(fiber)?, BULK)
        })?;
        let sent = start(&mut kernel, client, move |fiber| {
            work::send(fiber, to, BULK)
        })?;
        finish(&mut kernel, 2)?;
        sent.take()?;
        Ok(vec![Some(received.take()?)])
    })
}

fn round_trips(network: Network) -> Round {
    let Network {
        mut kernel,
        client,
        server,
        to,
    } = network;
    Box::new(move || {
        let echoed = start(&mut kernel, server, |fiber| {
            work::echo(&Socket::listener(fiber)?)
        })?;
        let pinged = start(&mut kernel, client, move |fiber| work::ping(fiber, to))?;
        finish(&mut kernel, 2)?;
        echoed.take()?;
        Ok(vec![Some(pinged.take()?)])
    })
}

/// What a fiber has come to.
pub(crate) struct Outcome<T>(Rc<RefCell<Option<Result<T, BoxError>>>>);

impl<T> Outcome<T> {
    pub(crate) fn is_there(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(crate) fn take(self) -> Result<T, BoxError> {
        self.0
            .take()
            .unwrap_or_else(|| Err("the fiber panicked".into()))
    }
}

/// Starts a fiber on a machine; [`finish`] runs it.
pub(crate) fn start<T: 'static>(
    kernel: &mut Kernel,
    machine: MachineId,
    work: impl FnOnce(&Fiber) -> Result<T, BoxError> + 'static,
) -> Result<Outcome<T>, BoxError> {
    let outcome = Rc::new(RefCell::new(None));
    let inside = Rc::clone(&outcome);
    kernel.fiber(machine, move |fiber| {
        inside.replace(Some(work(fiber)));
        0
    })?;
    Ok(Outcome(outcome))
}

/// Runs the kernel until so many fibers have ended.
pub(crate) fn finish(kernel: &mut Kernel, mut fibers: u32) -> Result<(), BoxError> {
    loop {
        let deadline = kernel.run()?;
        while let Some(event) = kernel.next_event() {
            fibers -= u32::from(matches!(event, Event::Gone { .. }));
        }
        if fibers == 0 {
            return Ok(());
        }
        match deadline {
            Some(time) => kernel.wait(time),
            None => return Err("the fibers wait for each other".into()),
        }
    }
}

/// Loading and booting: ms, and MB of resident memory.
fn measure_boot() -> Result<[f64; 2], BoxError> {
    let before = resident()?;
    let start = Instant::now();
    let _kernel = boot(SMALL_ARENA)?;
    let ms = start.elapsed().as_nanos() as f64 / 1e6;
    Ok([ms, (resident()? - before) / 1e6])
}

/// This process's resident memory in bytes.
fn resident() -> Result<f64, BoxError> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm.split(' ').nth(1).ok_or("/proc/self/statm")?.parse()?;
    // SAFETY: takes a number.
    Ok(pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64)
}

/// Each of 5,000 machines of an image: kB of resident memory, us, kB by the kernel's own count of free pages
/// (which has those too that nothing was ever written to); then the first two for the first 1,000.
fn measure_machines(image: &Path) -> Result<[f64; 5], BoxError> {
    let mut kernel = boot_image(image, LARGE_ARENA)?;
    let free = kernel.counters()?.free_pages;
    let before = resident()?;
    let start = Instant::now();
    let mut figures = [0.0; 5];
    for n in 1..=5000u32 {
        kernel
            .machine(&format!("m{n}"))
            .map_err(|e| format!("after {} machines: {e}", n - 1))?;
        let at = match n {
            1000 => 3,
            5000 => 0,
            _ => continue,
        };
        let us = start.elapsed().as_nanos() as f64 / 1000.0;
        figures[at] = (resident()? - before) / 1000.0 / f64::from(n);
        figures[at + 1] = us / f64::from(n);
    }
    let pages = free - kernel.counters()?.free_pages;
    figures[2] = pages as f64 * 4096.0 / 1000.0 / 5000.0;
    Ok(figures)
}

/// Lines and trees of so many machines, whichever takes more: seconds from the start of the kernel's boot to the
/// last ping through them, and MB of resident memory.
fn measure_scale(count: u32) -> Result<[f64; 2], BoxError> {
    let mut figures = [0.0f64; 2];
    for children in [1, 10] {
        let tree = Tree::new(count, children);
        let before = resident()?;
        let start = Instant::now();
        let mut kernel = boot(SCALE_ARENA)?;
        let machines = tree.build(&mut kernel)?;
        // Through all parts, as far as 64 hops lead (what a ping answers with has no larger TTL).
        let mut pings = 0;
        for from in (0..count).step_by(count as usize / 50) {
            for to in (1..count).step_by(count as usize / 20) {
                if (1..=64).contains(&tree.distance(from, to)) {
                    scale::ping(&mut kernel, machines[from as usize].id, to, 1)?;
                    pings += 1;
                }
            }
        }
        if pings < 10 {
            return Err("no machines are near each other".into());
        }
        figures[0] = figures[0].max(start.elapsed().as_secs_f64());
        figures[1] = figures[1].max((resident()? - before) / 1e6);
    }
    Ok(figures)
}

/// Bit/s of the figures of group `rates`.
const RATES: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// By how many per cent the frames of TCP over a wire with this rate come faster or slower.
fn rate_error(rate: u64) -> Result<f64, BoxError> {
    let mut kernel = boot(ARENA)?;
    let wire = kernel.wire(WireKind::PointToPoint)?;
    let mut ends = Vec::new();
    for (name, address) in [("client", [10, 0, 0, 1]), ("server", [10, 0, 0, 2])] {
        let machine = Machine::new(&mut kernel, name)?;
        let interface = "vx0";
        let attachment = Attachment {
            interface,
            ..Attachment::default()
        };
        let end = kernel.attach(wire, machine.id, attachment)?;
        machine
            .network
            .address(&mut kernel, interface, address.into(), 24)?;
        machine.network.up(&mut kernel, interface)?;
        ends.push((machine.id, end));
    }
    let settings = WireSettings {
        rate,
        ..WireSettings::default()
    };
    kernel.set_wire(wire, None, &settings)?;
    let arrivals = Trace {
        arrivals: true,
        ..Trace::default()
    };
    kernel.trace(ends[1].1, arrivals)?;
    // Half a second.
    let bytes = rate / 16;
    let received = start(&mut kernel, ends[1].0, move |fiber| {
        work::receive(&Socket::listener(fiber)?, bytes)
    })?;
    let to = [10, 0, 0, 2];
    let sent = start(&mut kernel, ends[0].0, move |fiber| {
        work::send(fiber, to, bytes)
    })?;
    finish(&mut kernel, 2)?;
    sent.take()?;
    received.take()?;
    // Without the beginning, where the sender does not know how much it may send, and the end.
    let mut events: Vec<_> = std::iter::from_fn(|| kernel.next_packet()).collect();
    let tenth = events.len() / 10;
    events.truncate(events.len() - tenth);
    let events = &events[tenth..];
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Err("no packets came".into());
    };
    let bits: f64 = events[1..]
        .iter()
        .map(|event| f64::from(event.len) * 8.0)
        .sum();
    let found = bits * 1e9 / (last.time - first.time) as f64;
    Ok((found / rate as f64 - 1.0).abs() * 100.0)
}

/// Pings over 10 to 250 hops of a line: us for each of them, and us for a hop.
fn hops() -> Result<Round, BoxError> {
    let mut kernel = boot(HOPS_ARENA)?;
    let machines = scale::line(&mut kernel, HOPS[HOPS.len() - 1] + 1)?;
    Ok(Box::new(move || {
        let from = machines[0].id;
        let ping = |hops| scale::ping(&mut kernel, from, hops, PINGS);
        work::hop_figures(HOPS.map(ping))
    }))
}

/// A server on one machine and its client on another, under the interposer.
fn programs(group: &str) -> Result<Round, BoxError> {
    let network = Network::direct()?;
    let pair = Pair::new(group, network.to)?;
    let mut worker = Worker::new(network.kernel)?;
    let library = match group {
        _ if is_quick(group) => quick_library(&mut worker)?,
        _ if is_auto(group) => auto_library(&mut worker)?,
        _ => None,
    };
    let program = move |words: &[String]| {
        let program = Program::new(&words[0]).args(&words[1..]).stdin(Stdio::Null);
        match &library {
            Some(library) => program.preload(library),
            None => program,
        }
    };
    let mut server = None;
    Ok(Box::new(move || {
        if pair.once || server.is_none() {
            let log = create(&pair.log())?;
            let started = program(&pair.server)
                .stdout(Stdio::Fd(log.try_clone()?.into()))
                .stderr(Stdio::Fd(log.into()));
            let id = worker.spawn(network.server, started)?;
            server = Some(id);
            while !pair.listens() {
                if let Some(status) = worker.status(id)? {
                    let log = fs::read_to_string(pair.log())?;
                    return Err(format!("{}: {status:?}: {log}", pair.server[0]).into());
                }
                worker.step(Some(Duration::from_millis(1)))?;
            }
        }
        let output = create(&pair.output())?;
        let client = program(&pair.client).stdout(Stdio::Fd(output.into()));
        let client = worker.spawn(network.client, client)?;
        worker.wait(client)?;
        if let (true, Some(server)) = (pair.once, server) {
            worker.wait(server)?;
        }
        let figure = read_figure(&pair, &fs::read_to_string(pair.output())?)?;
        Ok(vec![Some(figure)])
    }))
}

/// Machines of `idle_cpu`.
const IDLE: usize = 10;
/// For how long they are watched.
const WATCHED: Duration = Duration::from_secs(3);

/// The worker's share of a processor, in per cent, while servers wait, one on each of some machines. One of them was
/// busy before, so that the worker has polled.
fn idle() -> Result<Round, BoxError> {
    let mut kernel = boot(HOPS_ARENA)?;
    let machines = (0..IDLE).map(|n| Machine::new(&mut kernel, &format!("m{n}")));
    let machines: Vec<_> = machines.collect::<Result<_, _>>()?;
    let mut worker = Worker::new(kernel)?;
    let library = auto_library(&mut worker)?;
    let start = move |worker: &mut Worker, machine: &Machine, words: &[&str]| {
        let mut program = Program::new(words[0]).args(&words[1..]);
        program = program.stdin(Stdio::Null).stdout(Stdio::Null);
        if let Some(library) = &library {
            program = program.preload(library);
        }
        worker.spawn(machine.id, program)
    };
    for machine in &machines {
        start(&mut worker, machine, &["iperf3", "--server"])?;
    }
    Ok(Box::new(move || {
        let words = ["iperf3", "--client", "127.0.0.1", "--time", "1"];
        loop {
            let client = start(&mut worker, &machines[0], &words)?;
            // It fails until the server listens.
            if worker.wait(client)?.code() == 0 {
                break;
            }
        }
        let cpu = || -> Result<Duration, BoxError> {
            let clock = libc::CLOCK_PROCESS_CPUTIME_ID;
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: fills a structure.
            match unsafe { libc::clock_gettime(clock, &mut time) } {
                0 => Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
                _ => Err(std::io::Error::last_os_error().into()),
            }
        };
        let (begin, before) = (Instant::now(), cpu()?);
        while let Some(left) = WATCHED.checked_sub(begin.elapsed()) {
            worker.step(Some(left))?;
        }
        let used = cpu()? - before;
        Ok(vec![Some(
            used.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0,
        )])
    }))
}

/// This program again, under the interposer; ns per call.
fn trapped_loop(group: &str) -> Result<Round, BoxError> {
    let mut kernel = boot(ARENA)?;
    let machine = Machine::new(&mut kernel, "alone")?;
    let mut worker = Worker::new(kernel)?;
    let group = group.to_owned();
    Ok(Box::new(move || {
        let (mut reader, writer) = std::io::pipe()?;
        let program = Program::new(std::env::current_exe()?)
            .args(["loop", &group])
            .stdout(Stdio::Fd(writer.into()));
        let program = worker.spawn(machine.id, program)?;
        let status = worker.wait(program)?;
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        let figure = text.trim().parse();
        Ok(vec![Some(
            figure.map_err(|_| format!("it ended with {status:?}"))?,
        )])
    }))
}
