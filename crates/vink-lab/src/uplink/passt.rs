//! passt: a way to the outside without root, through sockets of the host.
//!
//! passt(1) is a process of the host that speaks Ethernet over a Unix stream socket, and turns what
//! it gets into TCP, UDP and ping sockets of its own. On the machine's side is a TAP interface. It
//! is started before the kernel boots and asked for only when the program is about to run, since
//! both take some milliseconds. It ends with its socket, and should this process be killed it is
//! too, so it can't be left behind.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use vink_kernel::{DeviceHost, Kernel};
use vink_port::{Backend, LinkState};
use vink_sys::child::Step;
use vink_sys::fd::{pipe, pipe_that_never_waits};
use vink_sys::poll::events_of;
use vink_sys::process::is_root;
use vink_sys::rustix::fs::{fchown, Gid, Uid};
use vink_sys::rustix::thread::{
    configure_capability_in_ambient_set, set_capabilities, set_keep_capabilities, set_thread_gid,
    set_thread_groups, set_thread_uid, CapabilitySet, CapabilitySets,
};
use vink_sys::socket::set_option;
use vink_trap::Worker;

use super::attachment::UplinkAttachment;
use super::device::UplinkState;
use super::passt_backend::PasstBackend;
use super::Forward;
use crate::{Error, Machine, Network};

/// The interface's name on the machine.
const INTERFACE: &str = "eth0";
/// What passt takes for the largest frame is this, an Ethernet header and its length.
const MTU: u32 = 65520;
/// The user that passt runs as when root starts it.
const PASST_UID: u32 = 65534;

/// Size of the socket's buffers in bytes, as far as the host allows.
const SOCKET_BUFFER: libc::c_int = 4 << 20;

/// The variable of the environment that a program has which a stack in its program's own process
/// has started: one that has a stack must not begin by starting itself again.
pub const HELPER: &str = "VINK_HELPER";

/// What can be done whatever is wrong.
const WITHOUT: &str = "--uplink none runs the program without a way out";

const MACHINE_MAC: [u8; 6] = [0x02, 0x76, 0x69, 0x6e, 0x6b, 0x0f];
const PASST_MAC: &str = "02:76:69:6e:6b:02";

/// The network on which the machine meets passt, in one of the families.
struct Family {
    machine: IpAddr,
    prefix: u8,
    /// passt's address, which stands for the host's loopback interface too.
    gateway: IpAddr,
    /// Asked for names, passt asks the host's resolver.
    resolver: IpAddr,
}

const V4: Family = Family {
    machine: IpAddr::V4(Ipv4Addr::new(10, 0, 2, 15)),
    prefix: 24,
    gateway: IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2)),
    resolver: IpAddr::V4(Ipv4Addr::new(10, 0, 2, 3)),
};
/// "vink" in its number, within fd00::/8.
const V6: Family = Family {
    machine: IpAddr::V6(Ipv6Addr::new(0xfd76, 0x696e, 0x6b, 0, 0, 0, 0, 0x15)),
    prefix: 64,
    gateway: IpAddr::V6(Ipv6Addr::new(0xfd76, 0x696e, 0x6b, 0, 0, 0, 0, 2)),
    resolver: IpAddr::V6(Ipv6Addr::new(0xfd76, 0x696e, 0x6b, 0, 0, 0, 0, 3)),
};

/// A passt that is being started, or is there.
#[derive(Debug)]
pub struct Passt {
    process: Process,
    socket: Option<UnixStream>,
    /// passt writes its process id here when it is ready.
    ready: fs::File,
    /// How its uplink is, from when it has one until its end is told.
    state: Option<Rc<RefCell<UplinkState>>>,
    /// The families that the machine gets: those in which the host has a default route.
    v4: bool,
    v6: bool,
    /// The host's.
    resolvers: Resolvers,
}

/// What a machine has got by its uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The machine's own addresses.
    pub addresses: Vec<Network>,
    /// A text for `/etc/resolv.conf`.
    pub resolver: String,
}

impl Passt {
    /// Starts passt, and does not wait for it.
    ///
    /// # Errors
    /// [`Error::Uplink`]: it is not installed, or a port to forward is taken.
    pub fn start(forwards: &[Forward]) -> Result<Passt, Error> {
        Passt::begin(forwards, false)
    }

    /// The same for a process whose children its caller waits for: passt is none of them. It still
    /// ends with its socket.
    ///
    /// # Errors
    /// As [`Passt::start`].
    pub fn start_detached(forwards: &[Forward]) -> Result<Passt, Error> {
        Passt::begin(forwards, true)
    }

    fn begin(forwards: &[Forward], detached: bool) -> Result<Passt, Error> {
        for forward in forwards {
            forward.check()?;
        }
        let host = |what: &str| {
            let what = format!("starting passt: {what}");
            move |e: io::Error| Error::Uplink(format!("{what}: {e}; {WITHOUT}"))
        };
        let (socket, its_socket) = UnixStream::pair().map_err(host("socketpair"))?;
        for socket in [&socket, &its_socket] {
            make_room(socket);
        }
        let (ready, its_ready) = pipe().map_err(host("pipe"))?;
        // It must not wait for us to read.
        let (errors, its_errors) = pipe_that_never_waits().map_err(host("pipe"))?;
        let v4 = has_default_route("/proc/net/route", |f| {
            f[1] == "00000000" && f[7] == "00000000"
        });
        let v6 = has_default_route("/proc/net/ipv6_route", |f| {
            f[0].bytes().all(|b| b == b'0') && f[1] == "00" && f[9] != "lo"
        });
        let mut command = Command::new(find()?);
        let resolvers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let resolvers = Resolvers::of(&resolvers);
        command.args(arguments(forwards, v4, v6, &resolvers));
        command.arg("--fd").arg(its_socket.as_raw_fd().to_string());
        let path = format!("/proc/self/fd/{}", its_ready.as_raw_fd());
        command.arg("--pid").arg(path);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(its_errors);
        if detached {
            // Preloaded into it too, the stack would start another passt, and that the next one.
            command.env_remove("LD_PRELOAD").env(HELPER, "passt");
        }
        let given = [OwnedFd::from(its_socket), its_ready];
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe { command.pre_exec(move || prepare(&given, detached)) };
        let mut child = command.spawn().map_err(host("fork and exec"))?;
        if detached {
            child.wait().map_err(host("fork"))?;
        }
        // Or there would be no end of file.
        drop(command);
        Ok(Passt {
            process: Process {
                child,
                detached,
                errors: errors.into(),
            },
            socket: Some(socket),
            ready: ready.into(),
            state: None,
            v4: v4 || !v6,
            v6,
            resolvers,
        })
    }

    /// Gives the machine an interface `eth0` with addresses and default routes, whose frames the
    /// worker carries to passt and back from now on. If passt ends before the worker does, the
    /// interface is gone. Does not wait for passt.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Kernel`], [`Error::Trap`].
    ///
    /// # Panics
    /// If it was called before.
    pub fn attach(
        &mut self,
        worker: &mut impl DeviceHost,
        machine: &Machine,
    ) -> Result<Route, Error> {
        let network = &machine.network;
        let backend = self.backend(worker)?;
        let this = &*self;
        let configure = |kernel: &mut Kernel| {
            network.hardware(kernel, INTERFACE, MACHINE_MAC)?;
            network.mtu(kernel, INTERFACE, MTU)?;
            this.configure(kernel, machine, INTERFACE)
        };
        let made = UplinkAttachment::of_machine(worker, machine, INTERFACE, backend, configure);
        let (attachment, route) = made?;
        self.watch(&attachment);
        Ok(route)
    }

    /// Gives an interface of a machine addresses and default routes by which passt is reached, and
    /// sets it up.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Kernel`].
    pub fn configure(
        &self,
        kernel: &mut Kernel,
        machine: &Machine,
        interface: &str,
    ) -> Result<Route, Error> {
        let v6 = self.v6 && machine.network.has_ipv6(kernel)?;
        let families = [(self.v4, V4), (v6, V6)];
        let families = families.into_iter().filter(|(there, _)| *there);
        let families: Vec<_> = families.map(|(_, family)| family).collect();
        let network = &machine.network;
        // passt must have seen the machine's Ethernet address before anything comes from outside.
        let notify = format!("net/ipv4/conf/{interface}/arp_notify");
        network.sysctl(kernel, &notify, "1")?;
        for family in &families {
            network.address(kernel, interface, family.machine, family.prefix)?;
        }
        network.up(kernel, interface)?;
        network.announce(kernel, interface)?;
        for family in &families {
            let all = match family.machine {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            network.route(kernel, all, 0, family.gateway)?;
        }
        let networks = families.iter().map(|family| Network {
            address: family.machine,
            prefix: family.prefix,
        });
        Ok(Route {
            addresses: networks.collect(),
            resolver: self.resolvers.text(self.v4, v6),
        })
    }

    /// Waits until passt is ready: its ports lead to the machine, frames are taken.
    ///
    /// # Errors
    /// [`Error::Uplink`]: it has ended, and why.
    pub fn wait(&mut self) -> Result<(), Error> {
        let mut line = [0; 32];
        match self.ready.read(&mut line) {
            Ok(0) => {
                let failure = self.failure();
                Err(Error::Uplink(format!("{failure}; {WITHOUT}")))
            }
            Ok(_) => Ok(()),
            Err(e) => Err(Error::Uplink(format!("waiting for passt: {e}"))),
        }
    }

    /// Serves the machine until what its programs had sent before they ended has been taken by its
    /// receivers, or `limit` is over: what kernels do for programs that don't wait for it.
    ///
    /// # Errors
    /// [`Error::Kernel`], [`Error::Trap`].
    pub fn finish(
        &mut self,
        worker: &mut Worker,
        machine: &Machine,
        limit: Duration,
    ) -> Result<(), Error> {
        let end = Instant::now() + limit;
        while !self.has_ended() && Instant::now() < end {
            if !machine.has_unfinished(worker.kernel())? {
                break;
            }
            worker.step(Some(end.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }

    /// If passt has ended since the machine was attached: why, once.
    pub fn ended(&mut self) -> Option<Error> {
        let ended = self.has_ended();
        ended.then(|| {
            self.state = None;
            self.failure()
        })
    }

    /// Its end is told by what its frames go through.
    pub(crate) fn watch(&mut self, attachment: &UplinkAttachment) {
        self.state = Some(attachment.watch());
    }

    fn has_ended(&self) -> bool {
        let state = self.state.as_ref();
        state.is_some_and(|state| matches!(state.borrow().link, LinkState::Ended(_)))
    }

    /// What its frames go through.
    ///
    /// # Panics
    /// If there was one before.
    pub(crate) fn backend(
        &mut self,
        worker: &mut impl DeviceHost,
    ) -> Result<Box<dyn Backend>, Error> {
        worker.guard_helper(&self.process.child)?;
        let socket = self.socket.take().expect("one machine for one passt");
        let backend = PasstBackend::new(socket);
        backend
            .map(|backend| Box::new(backend) as Box<dyn Backend>)
            .map_err(|e| Error::Uplink(format!("waiting for passt: epoll: {e}")))
    }

    /// What passt said when it ended.
    fn failure(&mut self) -> Error {
        let status = match self.process.detached {
            true => None,
            false => self.process.child.wait().ok(),
        };
        let status = status.map_or(String::new(), |s| format!(" ({s})"));
        let mut text = Vec::new();
        // Non-blocking: all that there is.
        let _ = self.process.errors.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        // passt tells when it could not tell the host's log, too.
        let lines = text.lines().filter(|l| !l.ends_with("to syslog"));
        let said = lines.collect::<Vec<_>>().join("; ");
        let said = if said.is_empty() {
            "it did not say why".to_owned()
        } else {
            said
        };
        Error::Uplink(format!("passt has ended{status}: {said}"))
    }
}

/// The process; ended when dropped.
#[derive(Debug)]
struct Process {
    /// If it is detached, one that has ended.
    child: Child,
    detached: bool,
    errors: fs::File,
}

impl Drop for Process {
    fn drop(&mut self) {
        // With its socket gone it ends by itself, once it has passed on what is there.
        events_of(self.errors.as_raw_fd(), 0, 1000);
        // No caller waits for any other error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where passt is. Not left to execvp(3), since passt's user may not be allowed to look there.
fn find() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("passt"))
        .find(|file| file.is_file());
    let hint = "no uplink without passt: apt-get install passt, or run with --uplink none";
    found.ok_or_else(|| Error::Uplink(hint.to_owned()))
}

/// passt's options, but for the descriptors.
fn arguments(forwards: &[Forward], v4: bool, v6: bool, resolvers: &Resolvers) -> Vec<String> {
    let mut all: Vec<String> = ["-f", "-q", "-M", PASST_MAC].map(str::to_owned).into();
    // The machine is told its addresses otherwise.
    all.extend(["--no-dhcp", "--no-dhcpv6", "--no-ra"].map(str::to_owned));
    match (v4, v6) {
        (true, true) => {}
        (true, false) => all.push("-4".into()),
        (false, true) => all.push("-6".into()),
        // A host without a network still is one for its own servers.
        (false, false) => all.extend(["-4", "-i", "lo"].map(str::to_owned)),
    }
    let families = [(v4 || !v6, V4, &resolvers.v4), (v6, V6, &resolvers.v6)];
    for (_, family, servers) in families.into_iter().filter(|(there, ..)| *there) {
        all.extend(["-a".into(), family.machine.to_string()]);
        all.extend(["-g".into(), family.gateway.to_string()]);
        if servers.forward {
            all.extend(["--dns-forward".into(), family.resolver.to_string()]);
        }
    }
    if v4 || !v6 {
        all.extend(["-n".into(), V4.prefix.to_string()]);
    }
    for (option, udp) in [("-t", false), ("-u", true)] {
        let mut none = true;
        for forward in forwards.iter().filter(|f| f.udp == udp) {
            all.extend([option.into(), forward.argument()]);
            none = false;
        }
        if none {
            all.extend([option.into(), "none".into()]);
        }
    }
    all
}

/// Whether a table of routes below /proc/net, in which each line is a route of at least ten fields,
/// has one of which this is true.
fn has_default_route(path: &str, is_default: impl Fn(&[&str]) -> bool) -> bool {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields.len() >= 10 && is_default(&fields)
        })
}

/// The name servers of a host, from its resolv.conf(5).
#[derive(Debug)]
struct Resolvers {
    v4: Servers,
    v6: Servers,
    /// Other lines of use elsewhere.
    rest: String,
}

/// Those of one family.
#[derive(Debug, Default)]
struct Servers {
    /// The first one is on the host itself, or can only be named there: passt has to forward, which
    /// it does to the first one only. It must not be told to otherwise, since it then gives answers
    /// its own address, whichever server was asked.
    forward: bool,
    /// That can be asked directly.
    others: Vec<IpAddr>,
}

impl Resolvers {
    fn of(host: &str) -> Resolvers {
        let mut all = Resolvers {
            v4: Servers::default(),
            v6: Servers::default(),
            rest: String::new(),
        };
        for line in host.lines() {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("nameserver"), Some(server)) => {
                    let plain = server.split('%').next().unwrap_or(server);
                    let Ok(server) = plain.parse::<IpAddr>() else {
                        continue;
                    };
                    let servers = match server {
                        IpAddr::V4(_) => &mut all.v4,
                        IpAddr::V6(_) => &mut all.v6,
                    };
                    if !server.is_loopback() && !is_link_local(server) {
                        servers.others.push(server);
                    } else if servers.others.is_empty() {
                        servers.forward = true;
                    }
                }
                (Some("search" | "domain" | "options" | "sortlist"), Some(_)) => {
                    all.rest += line;
                    all.rest.push('\n');
                }
                _ => {}
            }
        }
        all
    }

    /// The machine's resolv.conf.
    fn text(&self, v4: bool, v6: bool) -> String {
        let mut text = self.rest.clone();
        for (there, servers, family) in [(v4, &self.v4, V4), (v6, &self.v6, V6)] {
            let forward = servers.forward.then_some(&family.resolver);
            for server in forward.into_iter().chain(&servers.others).filter(|_| there) {
                text += &format!("nameserver {server}\n");
            }
        }
        text
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// What passt is between fork and exec: in a session of its own, so that Ctrl-C is none of its
/// business; with no descriptors but those given; not root, since it refuses that, and could not
/// open what it was given once it had changed its user by itself. Async-signal-safe: rustix makes
/// system calls by itself.
fn prepare(given: &[OwnedFd; 2], detached: bool) -> io::Result<()> {
    if detached {
        Step::Detach.take()?;
    }
    Step::Session.take()?;
    let _ = Step::CloseOthers.take();
    for fd in given {
        Step::Keep(fd.as_raw_fd()).take()?;
    }
    Step::UnblockAll.take()?;
    if is_root() {
        let (user, group) = (Uid::from_raw(PASST_UID), Gid::from_raw(PASST_UID));
        // Its own process id is written there.
        fchown(&given[1], Some(user), Some(group))?;
        // Of this thread, which is the only one.
        set_thread_groups(&[])?;
        set_thread_gid(group)?;
        set_keep_capabilities(true)?;
        set_thread_uid(user)?;
        // Not the least of root's reasons to be root. A container's may lack it.
        let _ = keep_low_ports();
    }
    Ok(())
}

/// Lets what this process executes bind ports below 1024, and nothing else that its user may not.
/// Such a port is refused later if that fails. Async-signal-safe; see capabilities(7).
fn keep_low_ports() -> io::Result<()> {
    let only = CapabilitySet::NET_BIND_SERVICE;
    let sets = CapabilitySets {
        effective: only,
        permitted: only,
        inheritable: only,
    };
    set_capabilities(None, sets)?;
    Ok(configure_capability_in_ambient_set(only, true)?)
}

/// Lets a socket take as much as it may. What it does not take from passt is lost, and passt
/// repeats it after two seconds only.
fn make_room(socket: &UnixStream) {
    // The second is root's, and goes beyond net.core.wmem_max. Less will do, if slower.
    for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        let _ = set_option(socket, libc::SOL_SOCKET, option, SOCKET_BUFFER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers() {
        let text = |host: &str, v4, v6| Resolvers::of(host).text(v4, v6);
        let away = "search example.org\nnameserver 192.0.2.53\nnameserver 127.0.0.53\n\
                    nameserver 2001:db8::53\nnameserver fe80::1%eth0\n# a note\noptions edns0\n";
        let rest = "search example.org\noptions edns0\n";
        let v4 = format!("{rest}nameserver 192.0.2.53\n");
        assert_eq!(text(away, true, false), v4);
        assert_eq!(text(away, true, true), v4 + "nameserver 2001:db8::53\n");
        let here = "nameserver 127.0.0.53\nnameserver 127.0.0.54\nnameserver 192.0.2.53\nnameserver fe80::1%2\n";
        let v4 = "nameserver 10.0.2.3\nnameserver 192.0.2.53\n".to_owned();
        assert_eq!(text(here, true, false), v4);
        assert_eq!(text(here, true, true), v4 + "nameserver fd76:696e:6b::3\n");
        assert_eq!(text("", true, true), "");
    }

    #[test]
    fn options() {
        let text = |forwards: &[&str], v4, v6| {
            let forwards: Vec<Forward> = forwards.iter().map(|f| f.parse().unwrap()).collect();
            let resolvers = Resolvers::of("nameserver 127.0.0.53\nnameserver 2001:db8::53\n");
            arguments(&forwards, v4, v6, &resolvers).join(" ")
        };
        let both = text(&["1:2", "127.0.0.1:3:4", "5:6/udp"], true, true);
        assert!(
            both.ends_with("-n 24 -t 1:2 -t 127.0.0.1/3:4 -u 5:6"),
            "{both}"
        );
        assert!(!both.contains(" -4") && !both.contains(" -6"), "{both}");
        let forwarding = both.matches("--dns-forward").count();
        assert!(
            forwarding == 1 && both.contains("--dns-forward 10.0.2.3"),
            "{both}"
        );
        let v6 = text(&[], false, true);
        assert!(
            v6.contains(" -6 -a fd76") && v6.ends_with("-t none -u none"),
            "{v6}"
        );
        assert!(text(&[], false, false).contains(" -4 -i lo -a 10.0.2.15"));
    }
}
