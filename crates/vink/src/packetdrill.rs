//! `vink packetdrill`: scripts that test TCP, each on a kernel of its own.
//!
//! packetdrill is an ordinary program here: it makes itself a TUN interface on a machine that has nothing else. Each script is a
//! `vink run` of its own, as many at a time as there are processors.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde::Serialize;
use vink_kernel::{find_image, image_named};
use vink_spec::Span;
use vink_sys::fd::in_memory;
use vink_sys::pidfd;
use vink_sys::poll::{poll, wanted};
use vink_sys::rustix::process::{
    getrlimit, set_parent_process_death_signal, setrlimit, Resource, Rlimit, Signal,
};
use vink_sys::rustix::thread::{remove_capability_from_bounding_set, CapabilitySet};

use crate::cli_error::CliError;
use crate::print::say;

/// What comes before packetdrill: scripts have files of fixed names in /tmp, and each has a /tmp of its own. packetdrill, which may
/// be there itself, is opened first; of a script that is there, what its path begins with stays.
const BEGIN: &str = r#"
exec 3<"$0"
folder=$PWD
unset top TMPDIR
case $folder/ in /tmp/?*/) top=${folder#/tmp/}; top=/tmp/${top%%/*}; exec 4<"$top";; esac
mount -t tmpfs vink /tmp || exit
if [ "$top" ]; then
	mkdir "$top" && mount --no-canonicalize --rbind /proc/self/fd/4 "$top" && cd "$folder" && exec 4<&- || exit
fi
exec /proc/self/fd/3 "$@"
"#;
/// How large the stack of a thread of packetdrill's is where memory that may be locked is limited, in bytes. The usual 8 MiB are
/// all that an ordinary user may lock.
const STACK: u64 = 512 << 10;
/// What a system call takes of virtual time. On a host, too, what is done later is seen to be later: where an acknowledgement
/// for two packets tells which was sent first, the kernel goes by that.
const CALL: &str = "1us";

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The image, by its name (`vink image list`) or its path; `vink version` tells which one is used otherwise
    #[arg(long, value_name = "IMAGE")]
    image: Option<PathBuf>,
    /// virtual: exact times and no waiting; real: the host's
    #[arg(long, value_enum, default_value_t = Clock::Virtual)]
    clock: Clock,
    /// With which IP; may be repeated. Without it: 4 and 6, but for scripts whose names end in v4.pkt or v6.pkt
    #[arg(long, value_enum, value_name = "VERSION")]
    ip: Vec<Ip>,
    /// An option of packetdrill's, such as --tolerance_usecs=14000; may be repeated
    #[arg(
        short,
        long = "option",
        value_name = "OPTION",
        allow_hyphen_values = true
    )]
    options: Vec<OsString>,
    /// So many scripts at a time; as many as there are processors otherwise
    #[arg(short, long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// How long a script may take, by the host's clock
    #[arg(long, value_name = "TIME", default_value = "3min")]
    limit: Span,
    /// An object for each run, on a line, with all that packetdrill has written
    #[arg(long)]
    json: bool,
    /// Files, as packetdrill takes them, and folders: all their *.pkt
    #[arg(required = true, value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Clock {
    Virtual,
    Real,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Ip {
    /// IPv4
    #[value(name = "4")]
    V4,
    /// IPv6
    #[value(name = "6")]
    V6,
    /// IPv4 by IPv6 sockets
    #[value(name = "mapped")]
    Mapped,
}

impl Ip {
    fn name(self) -> &'static str {
        match self {
            Ip::V4 => "IPv4",
            Ip::V6 => "IPv6",
            Ip::Mapped => "IPv4-mapped IPv6",
        }
    }

    /// What a script is run with if the user does not say.
    fn of(script: &Path) -> &'static [Ip] {
        let name = script.file_name().unwrap_or_default().to_string_lossy();
        match &*name {
            name if name.ends_with("v4.pkt") => &[Ip::V4],
            name if name.ends_with("v6.pkt") => &[Ip::V6],
            _ => &[Ip::V4, Ip::V6],
        }
    }

    /// What the kernel's own scripts and packetdrill's are run with: tools/testing/selftests/net/packetdrill/ksft_runner.sh,
    /// gtests/net/packetdrill/run_all.py. An IPv6 header is 20 bytes longer, and so is the MTU: segments are the same.
    fn options(self) -> Vec<&'static str> {
        let four = [
            "--local_ip=192.168.0.1",
            "--gateway_ip=192.168.0.1",
            "--netmask_ip=255.255.0.0",
            "--remote_ip=192.0.2.1",
            "-DTFO_COOKIE=3021b9d889017eeb",
            "-DCODE=host_unreachable",
        ];
        let six = [
            "--mtu=1520",
            "--local_ip=fd3d:0a0b:17d6::1",
            "--gateway_ip=fd3d:0a0b:17d6:8888::1",
            "--remote_ip=fd3d:fa7b:d17d::1",
            "-DTFO_COOKIE=c1d1e9742a47a9bc",
        ];
        let four_sockets = ["-DCMSG_LEVEL_IP=SOL_IP", "-DCMSG_TYPE_RECVERR=IP_RECVERR"];
        let six_sockets = [
            "-DCMSG_LEVEL_IP=SOL_IPV6",
            "-DCMSG_TYPE_RECVERR=IPV6_RECVERR",
        ];
        let (version, addresses, sockets) = match self {
            Ip::V4 => ("--ip_version=ipv4", &four[..], four_sockets),
            Ip::V6 => ("--ip_version=ipv6", &six[..], six_sockets),
            Ip::Mapped => ("--ip_version=ipv4-mapped-ipv6", &four[..], six_sockets),
        };
        [&["--send_omit_free", version], addresses, &sockets].concat()
    }
}

/// A script to be run.
struct Job {
    script: PathBuf,
    /// In which it may have others.
    folder: PathBuf,
    name: OsString,
    ip: Ip,
}

/// How that went.
#[derive(Serialize)]
struct Ended {
    script: PathBuf,
    ip: &'static str,
    ok: bool,
    /// Why not.
    end: String,
    output: String,
    errors: String,
}

/// With what scripts are run.
struct Setup<'a> {
    arguments: &'a Arguments,
    vink: PathBuf,
    packetdrill: PathBuf,
    image: PathBuf,
}

/// Runs all scripts, and says of each how it went.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let image = match &arguments.image {
        Some(name) => image_named(name)?,
        None => find_image()?,
    };
    let setup = Setup {
        arguments,
        vink: std::env::current_exe().map_err(CliError::host("finding vink"))?,
        packetdrill: find_packetdrill()?,
        image: std::path::absolute(&image).map_err(CliError::host("finding the image"))?,
    };
    let jobs = list(arguments)?;
    let failed = run_all(&setup, &jobs)?;
    if !arguments.json {
        say!("{} ok, {failed} failed", jobs.len() - failed)?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn list(arguments: &Arguments) -> Result<Vec<Job>, CliError> {
    let mut scripts = Vec::new();
    for script in &arguments.scripts {
        gather(script, true, &mut scripts)?;
    }
    let mut jobs = Vec::new();
    for script in scripts {
        let (folder, name) = split(&script)?;
        let versions = match arguments.ip.as_slice() {
            [] => Ip::of(&script),
            some => some,
        };
        jobs.extend(versions.iter().map(|ip| Job {
            script: script.clone(),
            folder: folder.clone(),
            name: name.clone(),
            ip: *ip,
        }));
    }
    Ok(jobs)
}

/// A script, or all below a folder in the order of their names.
fn gather(path: &Path, named: bool, scripts: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let failure = || CliError::host(format!("the script {}", path.display()));
    if !path.is_dir() {
        if named || path.extension() == Some(OsStr::new("pkt")) {
            scripts.push(path.to_owned());
        }
        return Ok(());
    }
    let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(failure())?.collect();
    let mut paths: Vec<_> = entries
        .map_err(failure())?
        .iter()
        .map(fs::DirEntry::path)
        .collect();
    paths.sort();
    paths
        .iter()
        .try_for_each(|path| gather(path, false, scripts))
}

/// A script's folder and its name there.
fn split(script: &Path) -> Result<(PathBuf, OsString), CliError> {
    let whole = fs::canonicalize(script)
        .map_err(CliError::host(format!("the script {}", script.display())))?;
    match (whole.parent(), script.file_name()) {
        (Some(folder), Some(name)) if whole.is_file() => Ok((folder.to_owned(), name.to_owned())),
        _ => Err(CliError::Other(format!(
            "the script {} is not a file",
            script.display()
        ))),
    }
}

/// Runs several at a time, and tells of each in their order. How many have failed.
fn run_all(setup: &Setup<'_>, jobs: &[Job]) -> Result<usize, CliError> {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let width = setup
        .arguments
        .jobs
        .unwrap_or_else(processors)
        .clamp(1, jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..width {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some((index, job)) = take(next, jobs) {
                    if sender.send((index, setup.run(job))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut told, mut failed) = (BTreeMap::new(), 0, 0);
        for (index, ended) in receiver {
            waiting.insert(index, ended?);
            while let Some(ended) = waiting.remove(&told) {
                told += 1;
                failed += usize::from(!ended.ok);
                setup.tell(&ended, jobs[told - 1].ip)?;
            }
        }
        Ok(failed)
    })
}

fn take<'a>(next: &AtomicUsize, jobs: &'a [Job]) -> Option<(usize, &'a Job)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, job))
}

impl Setup<'_> {
    fn command(&self, job: &Job) -> Command {
        let mut command = Command::new(&self.vink);
        command.args(["run", "--uplink", "none"]);
        if self.arguments.clock == Clock::Virtual {
            command.args(["--time", "virtual", "--call-time", CALL]);
        }
        command.arg("--image").arg(&self.image);
        command.args(["--", "sh", "-c", BEGIN]);
        command.arg(&self.packetdrill).args(job.ip.options());
        command.args(&self.arguments.options).arg(&job.name);
        command.current_dir(&job.folder);
        // SAFETY: rustix makes system calls by itself, without memory.
        unsafe { command.pre_exec(prepare) };
        command
    }

    fn run(&self, job: &Job) -> Result<Ended, CliError> {
        let failure = |what: &str| CliError::host(what.to_owned());
        let (mut output, mut errors) = (
            memory().map_err(failure("memfd_create"))?,
            memory().map_err(failure("memfd_create"))?,
        );
        let mut child = self
            .command(job)
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone().map_err(failure("dup"))?)
            .stderr(errors.try_clone().map_err(failure("dup"))?)
            .spawn()
            .map_err(failure("starting vink"))?;
        let limit = self.arguments.limit;
        let end = match wait(&mut child, limit.duration()).map_err(failure("waiting for vink"))? {
            Some(status) if status.success() => None,
            Some(status) => Some(status.to_string()),
            None => Some(format!("not done in {limit}")),
        };
        let text = |file: &mut File| -> io::Result<String> {
            let mut bytes = Vec::new();
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Ended {
            script: job.script.clone(),
            ip: job.ip.name(),
            ok: end.is_none(),
            end: end.unwrap_or_default(),
            output: text(&mut output).map_err(failure("reading what packetdrill says"))?,
            errors: text(&mut errors).map_err(failure("reading what packetdrill says"))?,
        })
    }

    fn tell(&self, ended: &Ended, ip: Ip) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        let told = if self.arguments.json {
            serde_json::to_writer(&mut out, ended)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out))
        } else {
            eprint!("{}", ended.errors);
            let end = match ended.ok {
                true => "ok".to_owned(),
                false => format!("FAILED ({})", ended.end),
            };
            let script = ended.script.display();
            writeln!(out, "{}{script} over {}: {end}", ended.output, ip.name())
        };
        told.map_err(CliError::host("telling how it went"))
    }
}

/// Between fork and exec: no real-time priority for packetdrill, which would keep its worker from running, and as much locked
/// memory as it may have, with small stacks if that is not all. A kernel that refuses one of them has refused the priority, too,
/// or packetdrill says what it misses.
fn prepare() -> io::Result<()> {
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let _ = remove_capability_from_bounding_set(CapabilitySet::SYS_NICE);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Rtprio, none);
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        let all = Rlimit {
            current: maximum,
            maximum,
        };
        let _ = setrlimit(Resource::Memlock, all);
        let mut stack = getrlimit(Resource::Stack);
        stack.current = Some(stack.current.map_or(STACK, |size| size.min(STACK)));
        let _ = setrlimit(Resource::Stack, stack);
    }
    Ok(())
}

/// A file without a name.
fn memory() -> io::Result<File> {
    in_memory(c"packetdrill")
}

/// Waits for so long; `None`: it was not done, and has been ended.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<std::process::ExitStatus>> {
    let pidfd = pidfd::open(child.id() as i32)?;
    let millis = limit.as_millis().try_into().unwrap_or(i32::MAX);
    if matches!(
        poll(&mut [wanted(pidfd.as_raw_fd(), libc::POLLIN)], millis),
        Ok(0)
    ) {
        child.kill()?;
        child.wait()?;
        return Ok(None);
    }
    child.wait().map(Some)
}

fn find_packetdrill() -> Result<PathBuf, CliError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("packetdrill"));
    // As `make packetdrill` leaves it.
    let built = Path::new("build/packetdrill");
    let found = all.find(|file| file.is_file());
    let found = found.or_else(|| built.is_file().then(|| built.to_owned()));
    let found = found.map(|file| std::path::absolute(&file).unwrap_or(file));
    found.ok_or_else(|| {
        CliError::Other(
            "packetdrill is neither on the PATH nor build/packetdrill, and in no package of Debian's: \
             `make packetdrill SOURCE=…` builds it from its source (google/packetdrill on GitHub; docs/packetdrill.md)"
                .into(),
        )
    })
}
