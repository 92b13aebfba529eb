//! `vink demo`: three machines, two wires, unmodified programs; says what it does as it goes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use vink_kernel::{find_image, Config, Image, Kernel};
use vink_lab::{wire, End, Machine, Network};
use vink_trap::{Program, ProgramId, Status, Stdio, Worker};

use crate::cli_error::CliError;
use crate::print::say;
use crate::signals::Signals;

/// What is run, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("tc", "iproute2"),
    ("ping", "iputils-ping"),
    ("curl", "curl"),
    ("python3", "python3"),
    ("sha256sum", "coreutils"),
];

/// Of the file that is fetched.
const FILE_BYTES: u64 = 8 << 20;
/// How much of it has arrived when the live connection is looked at.
const LOOK_AT_BYTES: u64 = 2 << 20;

const CLIENT: [&str; 2] = ["10.0.1.2/24", "fd00:0:0:1::2/64"];
const ROUTER_WEST: [&str; 2] = ["10.0.1.1/24", "fd00:0:0:1::1/64"];
const ROUTER_EAST: [&str; 2] = ["10.0.2.1/24", "fd00:0:0:2::1/64"];
const SERVER: [&str; 2] = ["10.0.2.2/24", "fd00:0:0:2::2/64"];

/// The whole demonstration. Programs and files are gone afterwards, however it ends.
pub(crate) fn run() -> Result<ExitCode, CliError> {
    let started = Instant::now();
    let signals = Signals::catch(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
        .map_err(CliError::host("signalfd"))?;
    programs_present()?;
    let folder = Folder::make()?;

    heading("The Linux network stack, booted inside this process")?;
    let path = find_image()?;
    let image = Image::open(&path)?;
    say!("    image    {}", path.display())?;
    say!("    kernel   Linux {} {}", image.release(), image.version())?;
    let boot = Instant::now();
    let mut kernel = Kernel::boot(image, Config::default())?;
    say!(
        "    booted   in {:.1} ms",
        boot.elapsed().as_secs_f64() * 1e3
    )?;

    heading("Three machines, two wires")?;
    let [client, router, server] = build(&mut kernel)?;
    say!("    client eth0 ─────── west router east ─────── eth0 server")?;
    say!("    each has its own interfaces, addresses, routes; router forwards")?;

    let mut worker = Worker::new(kernel)?;
    worker.watch_fd(signals.as_fd())?;
    for machine in [&client, &router, &server] {
        worker.configure_namespaces(machine.id, &machine.namespaces(&[], ""))?;
    }
    let mut stage = Stage {
        worker,
        signals,
        folder,
    };

    heading("Their addresses and routes, as the unmodified ip sees them")?;
    for machine in [&client, &router, &server] {
        stage.show(machine, &["ip", "-brief", "address"])?;
    }
    stage.show(&client, &["ip", "route"])?;
    stage.show(&client, &["ip", "-6", "route", "show", "default"])?;

    heading("ping, across the router")?;
    let [server4, server6] = networks(&SERVER)?.map(|n| n.address.to_string());
    stage.show(&client, &["ping", "-c", "3", "-i", "0.2", &server4])?;
    stage.show(&client, &["ping", "-c", "3", "-i", "0.2", &server6])?;

    heading("A web server, and a file to fetch")?;
    let original = stage.folder.file("file");
    make_file(&original)?;
    let web = stage.serve(&server)?;
    let sum = stage.checksum(&original)?;
    say!("    the file: {FILE_BYTES} bytes, sha256 {sum}")?;

    heading("curl fetches it, over IPv4 and over IPv6")?;
    let report = "%{http_code} from %{remote_ip}: %{size_download} bytes in %{time_total} s\\n";
    let copy = stage.folder.file("copy");
    for host in [server4.clone(), format!("[{server6}]")] {
        let url = format!("http://{host}:8000/file");
        stage.show(
            &client,
            &["curl", "-sSgf", "-o", "copy", &url, "-w", report],
        )?;
        stage.compare(&copy, &sum)?;
        fs::remove_file(&copy).map_err(CliError::host(format!("removing {}", copy.display())))?;
    }

    heading(
        "A slower wire (tc, on the router), and the kernel's own view of a live connection (ss)",
    )?;
    let netem = [
        "tc", "qdisc", "add", "dev", "east", "root", "netem", "delay", "10ms", "rate", "60mbit",
    ];
    stage.show(&router, &netem)?;
    let netem = [
        "tc", "qdisc", "add", "dev", "west", "root", "netem", "delay", "10ms", "rate", "60mbit",
    ];
    stage.show(&router, &netem)?;
    let url = format!("http://{server4}:8000/file");
    let fetch = ["curl", "-sSgf", "-o", "copy", &url, "-w", report];
    let (live, output) = stage.start(&client, &fetch)?;
    stage.until(|worker| {
        let arrived = fs::metadata(&copy).map_or(0, |m| m.len());
        arrived >= LOOK_AT_BYTES || !worker.is_alive(live)
    })?;
    stage.show(
        &server,
        &["ss", "-tin", "state", "established", "sport", "=", ":8000"],
    )?;
    let status = stage.wait(live)?;
    output.print()?;
    must_succeed(&fetch, status)?;
    stage.compare(&copy, &sum)?;

    stage.worker.kill(web)?;
    say!("")?;
    say!(
        "Done in {:.1} s. No packet has left this process; the host's network was not used.",
        started.elapsed().as_secs_f64()
    )?;
    say!("")?;
    say!("How to go on:")?;
    let vink = own_name();
    say!("    {vink} run -- ip address     a program on a machine of its own")?;
    say!("    {vink} run -- sh             everything that this shell starts is on it")?;
    say!("    {vink} doctor                what of this host Vink can use")?;
    say!("    README.md, docs/             and more")?;
    Ok(ExitCode::SUCCESS)
}

fn heading(text: &str) -> Result<(), CliError> {
    say!("\n== {text}")
}

/// This program as one would type it here.
fn own_name() -> String {
    let name = std::env::args().next().unwrap_or_default();
    let here = std::env::current_dir().map_or(String::new(), |dir| format!("{}/", dir.display()));
    name.strip_prefix(&here).unwrap_or(&name).to_owned()
}

fn programs_present() -> Result<(), CliError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for (program, package) in PROGRAMS {
        if !std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
            return Err(CliError::Other(format!(
                "the demo needs '{program}', which is not in PATH: apt-get install {package}"
            )));
        }
    }
    Ok(())
}

fn networks(texts: &[&str; 2]) -> Result<[Network; 2], vink_lab::Error> {
    Ok([texts[0].parse()?, texts[1].parse()?])
}

/// Client, router and server, wired, addressed and routed.
fn build(kernel: &mut Kernel) -> Result<[Machine; 3], vink_lab::Error> {
    let client = Machine::new(kernel, "client")?;
    let router = Machine::new(kernel, "router")?;
    let server = Machine::new(kernel, "server")?;
    router.forward(kernel)?;
    for (host, addresses, interface, gateway) in [
        (&client, &CLIENT, "west", &ROUTER_WEST),
        (&server, &SERVER, "east", &ROUTER_EAST),
    ] {
        let gateways = networks(gateway)?;
        let a = End {
            machine: host,
            interface: "eth0",
            addresses: &networks(addresses)?,
        };
        let b = End {
            machine: &router,
            interface,
            addresses: &gateways,
        };
        wire(kernel, a, b)?;
        for (all, via) in [("0.0.0.0/0", gateways[0]), ("::/0", gateways[1])] {
            let all: Network = all.parse()?;
            host.network
                .route(kernel, all.address, all.prefix, via.address)?;
        }
    }
    Ok([client, router, server])
}

/// Bytes that no compression or mistake makes equal: a xorshift sequence.
fn make_file(path: &Path) -> Result<(), CliError> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(FILE_BYTES as usize);
    while bytes.len() < FILE_BYTES as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_ne_bytes());
    }
    fs::write(path, bytes).map_err(CliError::host(format!("writing {}", path.display())))
}

/// A command as one would type it.
fn shown(command: &[&str]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@".contains(c);
    let words = command.iter().map(|word| match word.chars().all(plain) {
        true => (*word).to_owned(),
        false => format!("'{word}'"),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn must_succeed(command: &[&str], status: Status) -> Result<(), CliError> {
    match status {
        Status::Exited(0) => Ok(()),
        Status::Exited(n) => Err(CliError::Other(format!(
            "{} failed with status {n}",
            shown(command)
        ))),
        Status::Killed(n) => Err(CliError::Other(format!(
            "{} was killed by signal {n}",
            shown(command)
        ))),
    }
}

/// A folder of our own for as long as this lives.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Folder, CliError> {
        let path = std::env::temp_dir().join(format!("vink-demo-{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(CliError::host(format!(
            "making the folder {}",
            path.display()
        )))?;
        Ok(Folder(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing is left to be told if this fails.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where a program's output goes until it is shown.
struct Output(PathBuf);

impl Output {
    fn read(&self) -> Result<String, CliError> {
        let mut bytes = Vec::new();
        File::open(&self.0)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(CliError::host(format!("reading {}", self.0.display())))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn print(&self) -> Result<(), CliError> {
        for line in self.read()?.lines() {
            say!("    {line}")?;
        }
        io::stdout().flush().map_err(CliError::host("writing"))
    }
}

/// Where programs are run.
struct Stage {
    // In this order: the programs end before their folder goes.
    worker: Worker,
    signals: Signals,
    folder: Folder,
}

impl Stage {
    /// Starts a program, away from the terminal, with its output in a file.
    fn start(
        &mut self,
        machine: &Machine,
        command: &[&str],
    ) -> Result<(ProgramId, Output), CliError> {
        say!("  {}$ {}", machine.name, shown(command))?;
        let path = self.folder.file(&format!("output-{}", command[0]));
        let file =
            File::create(&path).map_err(CliError::host(format!("making {}", path.display())))?;
        let twin = file
            .try_clone()
            .map_err(CliError::host("duplicating a descriptor"))?;
        let program = Program::new(command[0])
            .args(&command[1..])
            .current_dir(&self.folder.0)
            .stdin(Stdio::Null)
            .stdout(Stdio::Fd(file.into()))
            .stderr(Stdio::Fd(twin.into()))
            .new_session();
        Ok((self.worker.spawn(machine.id, program)?, Output(path)))
    }

    /// Runs a program to its end, which must be a good one, and shows its output.
    fn show(&mut self, machine: &Machine, command: &[&str]) -> Result<(), CliError> {
        let (program, output) = self.start(machine, command)?;
        let status = self.wait(program)?;
        output.print()?;
        must_succeed(command, status)
    }

    /// Starts the web server and waits until it says that it listens.
    fn serve(&mut self, machine: &Machine) -> Result<ProgramId, CliError> {
        let command = ["python3", "-u", "-m", "http.server", "--bind", "::", "8000"];
        let (program, output) = self.start(machine, &command)?;
        let mut said = String::new();
        self.until(|worker| {
            said = output.read().unwrap_or_default();
            said.contains("Serving HTTP") || !worker.is_alive(program)
        })?;
        output.print()?;
        if !said.contains("Serving HTTP") {
            let status = self.wait(program)?;
            must_succeed(&command, status)?;
            return Err(CliError::Other("the web server ended at once".to_owned()));
        }
        Ok(program)
    }

    /// The sha256 of a file, by a program of the host.
    fn checksum(&self, path: &Path) -> Result<String, CliError> {
        let output = std::process::Command::new("sha256sum").arg(path).output();
        let output = output.map_err(CliError::host("running sha256sum"))?;
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        line.split_whitespace()
            .next()
            .map(str::to_owned)
            .ok_or_else(|| {
                CliError::Other(format!(
                    "sha256sum {}: {}",
                    path.display(),
                    String::from_utf8_lossy(&output.stderr)
                ))
            })
    }

    fn compare(&self, copy: &Path, sum: &str) -> Result<(), CliError> {
        let found = self.checksum(copy)?;
        if found != sum {
            return Err(CliError::Other(format!(
                "what arrived is not the file: sha256 {found}, not {sum}"
            )));
        }
        say!("    sha256 {found}: the same")?;
        Ok(())
    }

    /// Serves all programs until the condition holds.
    fn until(&mut self, mut condition: impl FnMut(&mut Worker) -> bool) -> Result<(), CliError> {
        while !condition(&mut self.worker) {
            self.step()?;
        }
        Ok(())
    }

    fn wait(&mut self, program: ProgramId) -> Result<Status, CliError> {
        loop {
            if let Some(status) = self.worker.status(program)? {
                return Ok(status);
            }
            self.step()?;
        }
    }

    /// Lets one thing happen, which may be a signal that asks us to end.
    fn step(&mut self) -> Result<(), CliError> {
        self.worker.step(None)?;
        match self.signals.next() {
            Some(signal) => Err(CliError::Signal(signal.number)),
            None => Ok(()),
        }
    }
}
