//! The host's side: processes in network namespaces, on the host's own kernel.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::filter;
use crate::filter_change;
use crate::floor;
use crate::kvs;
use crate::programs::{create, read_figure, Pair, GROUPS};
use crate::relay;
use crate::scale;
use crate::side::{die_with_parent, Round};
use crate::switch_flood;
use crate::work::{self, Host, Socket, BULK, HOPS, PINGS};
use crate::BoxError;

/// How many namespaces the host makes to be timed: it needs far longer to end them.
const NAMESPACES: u32 = 1000;

/// Sets up for one group.
pub(crate) fn prepare(group: &str) -> Result<Round, BoxError> {
    Ok(match group {
        "null_call" => Box::new(|| Ok(vec![Some(work::null_calls(&Host))])),
        "getsockopt" => Box::new(|| Ok(vec![Some(work::getsockopts(&Host)?)])),
        "tcp_loopback" => transfer(Path::loopback()?)?,
        "tcp_two_machines" | "wire_tcp" | "workers_tcp" => transfer(Path::direct()?)?,
        "tcp_router" | "wire_router_tcp" => transfer(Path::routed()?)?,
        "switch_flood" => switch_flood::on_the_host()?,
        "switch_tcp" => transfer(Path::bridged()?)?,
        "switch_pps" => datagrams(Path::bridged()?)?,
        "rtt_two_machines" | "workers_rtt" => round_trips(Path::direct()?)?,
        "run_true" => Box::new(|| Ok(vec![Some(work::timed_command(&["true"])?)])),
        "trap_null_call" | "trap_getsockopt" => {
            let group = group.to_owned();
            Box::new(move || Ok(vec![Some(untrapped_loop(&group)?)]))
        }
        "trap_floor" => Box::new(|| Ok(vec![Some(floor::supervised_calls()?)])),
        "virtual_rtt" => Box::new(|| {
            let floor = floor::CALLS_OF_A_ROUND_TRIP * floor::supervised_calls()? / 1000.0;
            Ok(vec![None, Some(floor)])
        }),
        "inproc_null_call" => {
            let own = std::env::current_exe()?;
            let command = [own.display().to_string(), "loop".into(), group.into()];
            Box::new(move || Ok(vec![Some(printed_figure(&command)?)]))
        }
        _ if GROUPS.contains(&group) => {
            let path = Path::direct()?;
            let pair = Pair::new(group, path.to)?;
            programs(Some(path), pair)
        }
        "relay_tcp" | "relay_udp" => relay::on_the_host(group)?,
        "filter" => filter::on_the_host()?,
        "filter_change" => filter_change::on_the_host()?,
        _ if group.starts_with("kvs_") => kvs::on_the_host(group)?,
        "hops" => hops()?,
        "machines" => Box::new(|| Ok(vec![None, Some(namespaces()?)])),
        _ => return Err(format!("the host has no side of {group}").into()),
    })
}

/// Two namespaces with a way between them.
pub(crate) struct Path {
    client: File,
    server: File,
    /// Router or bridge; lives only as long as it is open, since no process stays in it.
    _between: Option<File>,
    to: [u8; 4],
}

impl Path {
    /// Both ends in one namespace.
    fn loopback() -> Result<Path, BoxError> {
        let client = first_namespace()?;
        let server = client.try_clone()?;
        Ok(Path {
            client,
            server,
            _between: None,
            to: [127, 0, 0, 1],
        })
    }

    /// A veth pair.
    pub(crate) fn direct() -> Result<Path, BoxError> {
        let client = first_namespace()?;
        let server = new_namespace()?;
        join(&client, "a0 10.0.0.1/24", &server, "b0 10.0.0.2/24")?;
        Ok(Path {
            client,
            server,
            _between: None,
            to: [10, 0, 0, 2],
        })
    }

    pub(crate) fn enter_client(&self) -> Result<(), BoxError> {
        enter(&self.client)
    }

    pub(crate) fn enter_server(&self) -> Result<(), BoxError> {
        enter(&self.server)
    }

    /// Two veth pairs, and a router between them.
    fn routed() -> Result<Path, BoxError> {
        let client = first_namespace()?;
        let router = new_namespace()?;
        let server = new_namespace()?;
        join(&client, "a0 10.0.0.1/24", &router, "r0 10.0.0.2/24")?;
        join(&router, "r1 10.0.1.1/24", &server, "b0 10.0.1.2/24")?;
        ip(&client, "route add default via 10.0.0.2")?;
        ip(&server, "route add default via 10.0.1.1")?;
        enter(&router)?;
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        Ok(Path {
            client,
            server,
            _between: Some(router),
            to: [10, 0, 1, 2],
        })
    }

    /// Two veth pairs, and a bridge between them.
    fn bridged() -> Result<Path, BoxError> {
        let client = first_namespace()?;
        let bridge = new_namespace()?;
        let server = new_namespace()?;
        join(&client, "a0 10.0.0.1/24", &bridge, "p0 -")?;
        join(&bridge, "p1 -", &server, "b0 10.0.0.2/24")?;
        ip(&bridge, "link add br0 type bridge")?;
        for port in ["p0", "p1"] {
            ip(&bridge, &format!("link set {port} master br0"))?;
        }
        ip(&bridge, "link set br0 up")?;
        Ok(Path {
            client,
            server,
            _between: Some(bridge),
            to: [10, 0, 0, 2],
        })
    }
}

/// A client and a server that a process between them relays for: no packet is forwarded.
pub(crate) struct Relayed(Path);

impl Relayed {
    pub(crate) fn new() -> Result<Relayed, BoxError> {
        let client = first_namespace()?;
        let relay = new_namespace()?;
        let server = new_namespace()?;
        join(&client, "a0 10.0.0.1/24", &relay, "r0 10.0.0.2/24")?;
        join(&relay, "r1 10.0.1.1/24", &server, "b0 10.0.1.2/24")?;
        Ok(Relayed(Path {
            client,
            server,
            _between: Some(relay),
            to: [10, 0, 0, 2],
        }))
    }

    pub(crate) fn enter_relay(&self) -> Result<(), BoxError> {
        enter(self.0._between.as_ref().expect("it has one"))
    }

    /// Gbit/s of so many bytes.
    pub(crate) fn transfer(&self, bytes: u64) -> Result<f64, BoxError> {
        self.0.enter_server()?;
        transferred(&self.0, &Socket::listener(&Host)?, bytes)
    }

    /// Thousands of datagrams a second that come through.
    pub(crate) fn datagrams(&self) -> Result<f64, BoxError> {
        self.0.enter_server()?;
        counted(&self.0, &Socket::receiver(&Host)?)
    }
}

/// Clients and servers, each in a namespace of its own, at a bridge.
pub(crate) struct Bridged {
    clients: Vec<File>,
    servers: Vec<File>,
    bridge: File,
}

impl Bridged {
    /// So many of each, with the rules of [`kvs`] at each server's port.
    pub(crate) fn new(count: u8) -> Result<Bridged, BoxError> {
        let bridged = Bridged::without_rules(count)?;
        enter(&bridged.bridge)?;
        for number in 0..count {
            load(&kvs::rules(&format!("s{number}"), kvs::server(number)))?;
        }
        Ok(bridged)
    }

    /// So many of each.
    pub(crate) fn without_rules(count: u8) -> Result<Bridged, BoxError> {
        let bridge = first_namespace()?;
        ip(&bridge, "link add br0 type bridge")?;
        ip(&bridge, "link set br0 up")?;
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        for number in 0..count {
            let ends = [
                ("c", kvs::client(number), &mut clients),
                ("s", kvs::server(number), &mut servers),
            ];
            for (kind, address, all) in ends {
                let port = format!("{kind}{number}");
                let end = format!("eth0 {}/24", kvs::text(address));
                let namespace = new_namespace()?;
                join(&bridge, &format!("{port} -"), &namespace, &end)?;
                ip(&bridge, &format!("link set {port} master br0"))?;
                all.push(namespace);
            }
        }
        Ok(Bridged {
            clients,
            servers,
            bridge,
        })
    }

    pub(crate) fn enter_client(&self, number: u8) -> Result<(), BoxError> {
        enter(&self.clients[usize::from(number)])
    }

    pub(crate) fn enter_server(&self, number: u8) -> Result<(), BoxError> {
        enter(&self.servers[usize::from(number)])
    }
}

/// Has nft(8) load rules in the namespace that this process is in.
fn load(rules: &str) -> Result<(), BoxError> {
    let mut nft = Command::new("nft");
    let nft = nft.args(["--file", "-"]).stdin(Stdio::piped());
    let mut nft = nft
        .spawn()
        .map_err(|e| format!("nft: {e}: install nftables"))?;
    nft.stdin
        .take()
        .expect("piped")
        .write_all(rules.as_bytes())?;
    match nft.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("nft: {status}").into()),
    }
}

/// A program that is built beside this one.
pub(crate) fn own(name: &str) -> Result<std::path::PathBuf, BoxError> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

fn transfer(path: Path) -> Result<Round, BoxError> {
    path.enter_server()?;
    let listener = Socket::listener(&Host)?;
    Ok(Box::new(move || {
        Ok(vec![Some(transferred(&path, &listener, BULK)?)])
    }))
}

fn transferred(path: &Path, listener: &Socket<'_, Host>, bytes: u64) -> Result<f64, BoxError> {
    let client = fork(|| {
        path.enter_client()?;
        work::send(&Host, path.to, bytes)
    })?;
    let figure = work::receive(listener, bytes)?;
    client.join()?;
    Ok(figure)
}

/// Thousands of datagrams a second that come through.
fn datagrams(path: Path) -> Result<Round, BoxError> {
    path.enter_server()?;
    let receiver = Socket::receiver(&Host)?;
    Ok(Box::new(move || Ok(vec![Some(counted(&path, &receiver)?)])))
}

fn counted(path: &Path, receiver: &Socket<'_, Host>) -> Result<f64, BoxError> {
    let sender = fork(|| {
        path.enter_client()?;
        work::flood(&Host, path.to)
    })?;
    let figure = work::count(receiver)?;
    sender.join()?;
    Ok(figure)
}

fn round_trips(path: Path) -> Result<Round, BoxError> {
    path.enter_server()?;
    let listener = Socket::listener(&Host)?;
    Ok(Box::new(move || {
        let server = fork(|| work::echo(&listener))?;
        path.enter_client()?;
        let figure = work::ping(&Host, path.to)?;
        server.join()?;
        Ok(vec![Some(figure)])
    }))
}

/// What a command prints, which is a figure.
pub(crate) fn printed_figure(words: &[String]) -> Result<f64, BoxError> {
    let output = command(words).stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("{}: {e}", words[0]))?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// A server and its client, in the two namespaces if there are any.
pub(crate) fn programs(path: Option<Path>, pair: Pair) -> Round {
    let mut server: Option<Server> = None;
    Box::new(move || {
        if pair.once || server.is_none() {
            path.as_ref().map_or(Ok(()), Path::enter_server)?;
            server = Some(Server::start(&pair)?);
            path.as_ref().map_or(Ok(()), Path::enter_client)?;
        }
        let output = command(&pair.client).stderr(Stdio::inherit()).output();
        let output = output.map_err(|e| format!("{}: {e}", pair.client[0]))?;
        let figure = read_figure(&pair, &String::from_utf8_lossy(&output.stdout))?;
        Ok(vec![Some(figure)])
    })
}

/// A command that ends with this process.
pub(crate) fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    // SAFETY: one system call, with no memory involved.
    unsafe { command.pre_exec(die_with_parent) };
    command
}

/// A running server, ended with this.
pub(crate) struct Server(Child);

impl Server {
    /// Starts the server of a pair, and returns when it listens.
    pub(crate) fn start(pair: &Pair) -> Result<Server, BoxError> {
        let log = create(&pair.log())?;
        let mut command = command(&pair.server);
        command.stdout(log.try_clone()?).stderr(log);
        let mut started =
            Server::spawn(&mut command).map_err(|e| format!("{}: {e}", pair.server[0]))?;
        while !pair.listens() {
            if started.ended()?.is_some() {
                let log = fs::read_to_string(pair.log())?;
                return Err(format!("{}: {log}", pair.server[0]).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(started)
    }

    /// Starts a process, first of a process group of its own.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Server> {
        command.process_group(0).spawn().map(Server)
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The group: socat does not end the children that it has forked.
        // SAFETY: takes numbers; a child that has not been waited for, so that the number is its own.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

/// Pings over 10 to 250 hops of a line of namespaces, as Vink's of machines.
fn hops() -> Result<Round, BoxError> {
    let first = first_namespace()?;
    let mut line = vec![first];
    for number in 1..=HOPS[HOPS.len() - 1] {
        let namespace = new_namespace()?;
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        fs::write("/proc/sys/net/ipv4/ip_default_ttl", "255")?;
        let [above, below] = [0, 1].map(|far| scale::address(number, far));
        let parent = &line[line.len() - 1];
        join(
            parent,
            &format!("d0 {above}/31"),
            &namespace,
            &format!("u0 {below}/31"),
        )?;
        // Towards the end of the line all go; towards its start only the answers to the first one.
        ip(parent, &format!("route add default via {below}"))?;
        if number > 1 {
            let start = scale::address(1, 0);
            ip(&namespace, &format!("route add {start}/31 via {above}"))?;
        }
        line.push(namespace);
    }
    enter(&line[0])?;
    Ok(Box::new(move || {
        // The namespaces live as long as these files.
        let _ = &line;
        let ping = |hops| work::echo_requests(&Host, scale::address(hops, 1).octets(), PINGS);
        work::hop_figures(HOPS.map(ping))
    }))
}

/// The same program that runs under the interposer, without it; ns per call.
fn untrapped_loop(group: &str) -> Result<f64, BoxError> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command
        .args(["loop", group])
        .stderr(Stdio::inherit())
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Makes namespaces; us for each.
fn namespaces() -> Result<f64, BoxError> {
    first_namespace()?;
    let mut all = Vec::new();
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills, then reads a structure.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    let start = Instant::now();
    for _ in 0..NAMESPACES {
        all.push(new_namespace()?);
    }
    Ok(start.elapsed().as_nanos() as f64 / 1000.0 / f64::from(NAMESPACES))
}

/// Leaves the user's network for a namespace of our own, where we may do everything.
fn first_namespace() -> Result<File, BoxError> {
    // SAFETY: these take no pointers and change this process only.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user != 0 {
        unshare(libc::CLONE_NEWUSER)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    }
    let namespace = new_namespace()?;
    ip(&namespace, "link set lo up")?;
    Ok(namespace)
}

/// Makes a network namespace and enters it.
fn new_namespace() -> Result<File, BoxError> {
    unshare(libc::CLONE_NEWNET)?;
    Ok(File::open("/proc/self/ns/net")?)
}

fn unshare(what: i32) -> Result<(), BoxError> {
    // SAFETY: takes a number; we have one thread.
    match unsafe { libc::unshare(what) } {
        0 => Ok(()),
        _ => Err(format!(
            "unshare: {}: benchmarks need namespaces, of root or by user namespaces",
            io::Error::last_os_error()
        )
        .into()),
    }
}

fn enter(namespace: &File) -> Result<(), BoxError> {
    // SAFETY: a descriptor and a number.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(format!("setns: {}", io::Error::last_os_error()).into()),
    }
}

/// Joins two namespaces by a veth pair. An end is an interface and its address, or `-` without one.
fn join(a: &File, a_end: &str, b: &File, b_end: &str) -> Result<(), BoxError> {
    let (a_name, a_address) = a_end.split_once(' ').ok_or("an end is NAME ADDRESS")?;
    let (b_name, b_address) = b_end.split_once(' ').ok_or("an end is NAME ADDRESS")?;
    let there = format!("/proc/{}/fd/{}", std::process::id(), b.as_raw_fd());
    ip(
        a,
        &format!("link add {a_name} type veth peer name {b_name} netns {there}"),
    )?;
    for (namespace, name, address) in [(a, a_name, a_address), (b, b_name, b_address)] {
        if address != "-" {
            ip(namespace, &format!("address add {address} dev {name}"))?;
        }
        ip(namespace, &format!("link set {name} up"))?;
    }
    Ok(())
}

/// Runs ip(8) in a namespace.
fn ip(namespace: &File, arguments: &str) -> Result<(), BoxError> {
    enter(namespace)?;
    let status = Command::new("ip").args(arguments.split(' ')).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ip {arguments}: {status}").into()),
        Err(e) => Err(format!("ip: {e}: install iproute2").into()),
    }
}

/// A forked process; ends with this one.
struct Forked(libc::pid_t);

/// Runs `work` in a process of its own.
fn fork(work: impl FnOnce() -> Result<(), BoxError>) -> Result<Forked, BoxError> {
    // SAFETY: we have one thread, so that the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(format!("fork: {}", io::Error::last_os_error()).into()),
        0 => {
            let done = die_with_parent()
                .map_err(BoxError::from)
                .and_then(|()| work());
            if let Err(e) = &done {
                let _ = writeln!(io::stderr(), "vink-bench: the other end: {e}");
                // A reader that waits for this end would wait for ever.
                // SAFETY: takes no pointers; it dies with its parent, so that is still ours.
                unsafe { libc::kill(libc::getppid(), libc::SIGTERM) };
            }
            // SAFETY: ends the process at once, without what exit() would do for the parent.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => Ok(Forked(pid)),
    }
}

impl Forked {
    fn join(self) -> Result<(), BoxError> {
        let mut status = 0;
        // SAFETY: our child, and where its status goes.
        match unsafe { libc::waitpid(self.0, &mut status, 0) } {
            pid if pid == self.0 && status == 0 => Ok(()),
            _ => Err("the other end failed".into()),
        }
    }
}
