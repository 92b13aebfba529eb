//! `vink driver`: a process between a wire and the host, which opens the host's side and then gives
//! up all of its rights.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vink_confine::{confine, confine_port_server, Keep};
use vink_port::{
    Backend, Driver, Ephemeral, LinkState, PacketBackend, PortServer, Rendezvous, ShareBackend,
    ShareRequest, XdpBackend, READY,
};
use vink_spec::{ShareGrant, ShareSpec, Uplink};
use vink_sys::fd::close_inherited;
use vink_sys::process::{exit_now, fork_into};
use vink_vhost::VhostUserBackend;

use crate::cli_error::CliError;
use crate::signals::Signals;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What it leads to: tap:NAME, interface:NAME, qemu:PATH, qemu-connect:PATH, qemu-dgram:PATH, vhost-user:PATH, share:PORT,PORT/udp,... or udp:ADDRESS:PORT:ADDRESS:PORT
    #[arg(value_name = "UPLINK")]
    uplink: Uplink,
    /// Where it meets the process that has the wire (its uplink wire:PATH, with this path)
    #[arg(long, value_name = "wire:PATH", required_unless_present = "socket")]
    port: Option<Uplink>,
    /// Share the interface's flows with other drivers that have this number
    #[arg(long, value_name = "NUMBER")]
    fanout: Option<u16>,
    /// Take this receive queue of the interface from the host, by AF_XDP
    #[arg(long, value_name = "QUEUE", conflicts_with = "fanout")]
    xdp: Option<u16>,
    /// Say which rights were given up
    #[arg(short, long)]
    verbose: bool,
    /// Share what an earlier driver has got
    #[arg(long, hide = true, value_parser = grant)]
    again: Option<ShareGrant>,
    /// An inherited socket by which it asks for its end of the wire
    #[arg(long, hide = true, conflicts_with = "port")]
    socket: Option<i32>,
    /// An inherited socket by which it is asked for ports
    #[arg(long, hide = true)]
    demand: Option<i32>,
    /// An inherited pipe: this process ends when it does
    #[arg(long, hide = true)]
    lifeline: Option<i32>,
}

/// Moves frames until a signal asks for its end, or what it leads to is gone.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let name = &arguments.uplink;
    let keep: Vec<_> = [arguments.socket, arguments.demand, arguments.lifeline]
        .into_iter()
        .flatten()
        .collect();
    close_inherited(&keep);
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    let signals = Signals::catch(&signals).map_err(CliError::host("signalfd"))?;
    let lifeline = arguments.lifeline.map(inherited).transpose()?;
    let mut keep = Keep::default();
    let (backend, said) = open(arguments, &mut keep)?;
    let rendezvous = meet(arguments, &mut keep)?;
    let report = confine(&keep).map_err(CliError::host(format!("the driver {name}")))?;
    if arguments.verbose {
        for line in report {
            eprintln!("vink: the driver {name}: {line}");
        }
    }
    // Nobody may wait for it.
    let line = format!("{READY} {said}");
    let _ =
        writeln!(std::io::stdout(), "{}", line.trim_end()).and_then(|()| std::io::stdout().flush());
    let driver = Driver::new(rendezvous, backend);
    let ends = [Some(signals.as_fd()), lifeline.as_ref().map(AsFd::as_fd)];
    let counts = driver.run(ends, |link: &LinkState| {
        if !link.is_up() || arguments.verbose {
            eprintln!("vink: the driver {name}: {link}");
        }
    });
    let counts = counts.map_err(|error| CliError::Other(format!("the driver {name}: {error}")))?;
    if arguments.verbose {
        let vink_port::Counts {
            sent,
            received,
            lost,
            refused,
        } = counts;
        eprintln!("vink: the driver {name}: {sent} frames sent, {received} received, {lost} lost");
        if refused > 0 {
            eprintln!("vink: the driver {name}: {refused} frames refused");
        }
    }
    // It has no right to end by the signal itself.
    Ok(match signals.next() {
        Some(signal) => ExitCode::from(128 + signal.number as u8),
        None => ExitCode::SUCCESS,
    })
}

/// Reads what an earlier driver has said with [`READY`].
fn grant(text: &str) -> Result<ShareGrant, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Shares the host's address: with the backend, what was got of it, as JSON.
fn share(arguments: &Arguments, spec: &ShareSpec) -> Result<(Box<dyn Backend>, String), CliError> {
    let of = |udp| {
        let ports = spec.ports.iter().filter(move |port| port.udp == udp);
        ports.map(|port| port.number).collect()
    };
    let before = arguments.again.as_ref();
    let demand = match (spec.on_demand, arguments.demand) {
        (true, None) => {
            let what = "ports on demand: a driver that is met at a path is not asked for any: name the ports";
            return Err(CliError::Other(format!(
                "the uplink {}: {what}",
                arguments.uplink
            )));
        }
        (true, Some(socket)) => Some(inherited(socket)?),
        (false, _) => None,
    };
    let request = ShareRequest {
        addresses: before.map_or(&spec.addresses, |it| &it.addresses).clone(),
        tcp: of(false),
        udp: of(true),
        ephemeral: match before {
            Some(grant) => Ephemeral::These(grant.ephemeral.clone()),
            None => Ephemeral::Count(spec.ephemeral),
        },
        demand,
    };
    let opened = ShareBackend::open(&arguments.uplink.to_string(), request);
    let (mut backend, grant, server) =
        opened.map_err(|error| CliError::Other(error.to_string()))?;
    if let Some(server) = server {
        backend = start(arguments, server, backend)?;
    }
    let said = serde_json::to_string(&ShareGrant {
        addresses: grant.addresses,
        mtu: grant.mtu,
        ports: spec.ports.clone(),
        on_demand: spec.on_demand,
        ephemeral: grant.ephemeral,
    });
    Ok((Box::new(backend), said.expect("numbers and addresses")))
}

/// Starts the process that reserves ports, and waits until it does.
fn start(
    arguments: &Arguments,
    server: PortServer,
    backend: ShareBackend,
) -> Result<ShareBackend, CliError> {
    let name = &arguments.uplink;
    let what = format!("the port server of the uplink {name}");
    let pid = fork_into(0).map_err(CliError::host(what.clone()))?;
    if pid > 0 {
        drop(server);
        return match backend.awaits_server() {
            true => Ok(backend),
            false => Err(CliError::Other(format!("{what}: it has ended"))),
        };
    }
    // With the driver's end of the socket, whose closing tells the server that the driver has ended.
    drop(backend);
    match confine_port_server() {
        Ok(report) => {
            for line in report.iter().filter(|_| arguments.verbose) {
                eprintln!("vink: {what}: {line}");
            }
            server.run();
        }
        Err(error) => eprintln!("vink: {what}: {error}"),
    }
    exit_now(0);
}

/// Opens the host's side, and what is to be said of it.
fn open(arguments: &Arguments, keep: &mut Keep) -> Result<(Box<dyn Backend>, String), CliError> {
    match &arguments.uplink {
        Uplink::Share(spec) => share(arguments, spec),
        _ => Ok((open_other(arguments, keep)?, String::new())),
    }
}

fn open_other(arguments: &Arguments, keep: &mut Keep) -> Result<Box<dyn Backend>, CliError> {
    let other = |error: vink_port::Error| CliError::Other(error.to_string());
    let uplink = match &arguments.uplink {
        Uplink::Driver(driver) => driver.opens(),
        uplink => uplink.clone(),
    };
    Ok(match (uplink, arguments.fanout, arguments.xdp) {
        (Uplink::Interface(name), Some(group), _) => {
            Box::new(PacketBackend::open_fanout(&name, group).map_err(other)?)
        }
        (Uplink::Interface(name), _, Some(queue)) => {
            let backend = XdpBackend::open(&name, queue).map_err(other)?;
            if arguments.verbose {
                let how = backend.describe();
                eprintln!("vink: the driver {}: {how}", arguments.uplink);
            }
            Box::new(backend)
        }
        (uplink, None, None) => open_plain(&uplink, keep)?,
        _ => {
            let why = "--fanout and --xdp are for interfaces of the host: interface:NAME";
            return Err(CliError::Other(why.to_owned()));
        }
    })
}

fn open_plain(uplink: &Uplink, keep: &mut Keep) -> Result<Box<dyn Backend>, CliError> {
    Ok(match uplink {
        Uplink::Qemu(path) => open_at(Uplink::Qemu, path, keep)?,
        Uplink::QemuConnect(path) => open_at(Uplink::QemuConnect, path, keep)?,
        Uplink::QemuDgram(path) => open_at(Uplink::QemuDgram, path, keep)?,
        Uplink::VhostUser(path) => {
            let path = kept(Path::new(path), keep)?;
            let listening = VhostUserBackend::listen(&path);
            Box::new(listening.map_err(|error| CliError::Other(error.to_string()))?)
        }
        uplink => vink_lab::open_backend(uplink)?,
    })
}

/// Opens what has a socket at a path.
fn open_at(
    kind: fn(String) -> Uplink,
    path: &str,
    keep: &mut Keep,
) -> Result<Box<dyn Backend>, CliError> {
    let path = kept(Path::new(path), keep)?;
    Ok(vink_lab::open_backend(&kind(path.display().to_string()))?)
}

/// Meets the process that has the wire.
fn meet(arguments: &Arguments, keep: &mut Keep) -> Result<Rendezvous, CliError> {
    let met = match (&arguments.port, arguments.socket) {
        (Some(Uplink::Wire(path)), _) => Rendezvous::open(&kept(Path::new(path), keep)?),
        (Some(other), _) => {
            let what = format!("--port {other}: a driver is met at a path: --port wire:PATH");
            return Err(CliError::Other(what));
        }
        (None, Some(socket)) => Rendezvous::asker(inherited(socket)?),
        (None, None) => return Err(CliError::Other("--port is missing".to_owned())),
    };
    met.map_err(|error| CliError::Other(error.to_string()))
}

/// The path of a socket by that of its folder without symbolic links, which this process keeps.
fn kept(path: &Path, keep: &mut Keep) -> Result<PathBuf, CliError> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let what = format!("the folder of {}", path.display());
    let folder = folder.canonicalize().map_err(CliError::host(what))?;
    let name = path.file_name().ok_or_else(|| {
        CliError::Other(format!("{} is not the path of a socket", path.display()))
    })?;
    let path = folder.join(name);
    keep.folders.push(folder);
    Ok(path)
}

/// A descriptor that the process which started this one has left open.
fn inherited(number: i32) -> Result<OwnedFd, CliError> {
    let what = format!("the inherited descriptor {number}");
    vink_sys::fd::duplicate(number, true).map_err(CliError::host(what))
}
