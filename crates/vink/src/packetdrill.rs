//! `vink packetdrill`: scripts that test TCP, each on a kernel of its own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use vink_kernel::{find_image, image_named};

use crate::failure::Failure;

const LIBRARY: &str = "libvink_packetdrill.so";

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The image, by its name (`vink image list`) or its path; `vink version` tells which one is used otherwise
    #[arg(long, value_name = "IMAGE")]
    image: Option<PathBuf>,
    /// virtual: exact and without waiting, in packetdrill's process; real: on a machine's TUN interface
    #[arg(long, value_enum, default_value_t = Clock::Virtual)]
    clock: Clock,
    /// With which IP; may be repeated. Without it: with both
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
    /// Files, as packetdrill takes them
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
}

impl Ip {
    fn name(self) -> &'static str {
        match self {
            Ip::V4 => "IPv4",
            Ip::V6 => "IPv6",
        }
    }

    /// What the kernel's own scripts are run with: tools/testing/selftests/net/packetdrill/ksft_runner.sh. An IPv6
    /// header is 20 bytes longer, and so is the MTU: segments are the same.
    fn options(self) -> &'static [&'static str] {
        match self {
            Ip::V4 => &[
                "--ip_version=ipv4",
                "--local_ip=192.168.0.1",
                "--gateway_ip=192.168.0.1",
                "--netmask_ip=255.255.0.0",
                "--remote_ip=192.0.2.1",
                "-DCMSG_LEVEL_IP=SOL_IP",
                "-DCMSG_TYPE_RECVERR=IP_RECVERR",
            ],
            Ip::V6 => &[
                "--ip_version=ipv6",
                "--mtu=1520",
                "--local_ip=fd3d:0a0b:17d6::1",
                "--gateway_ip=fd3d:0a0b:17d6:8888::1",
                "--remote_ip=fd3d:fa7b:d17d::1",
                "-DCMSG_LEVEL_IP=SOL_IPV6",
                "-DCMSG_TYPE_RECVERR=IPV6_RECVERR",
            ],
        }
    }

    /// The same for the library.
    fn flags(self) -> &'static str {
        match self {
            Ip::V4 => "local=192.168.0.1/16",
            Ip::V6 => "local=fd3d:a0b:17d6::1/48,mtu=1520",
        }
    }
}

/// Runs all scripts, and says of each how it went.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let vink = std::env::current_exe().map_err(Failure::host("finding vink"))?;
    let packetdrill = find_packetdrill()?;
    let library = find_library(&vink)?;
    let image = match &arguments.image {
        Some(name) => image_named(name)?,
        None => find_image()?,
    };
    let image = std::path::absolute(&image).map_err(Failure::host("finding the image"))?;
    let versions = match arguments.ip.as_slice() {
        [] => &[Ip::V4, Ip::V6],
        some => some,
    };
    let mut failed = 0;
    let total = arguments.scripts.len() * versions.len();
    for script in &arguments.scripts {
        let (folder, name) = split(script)?;
        for ip in versions {
            let mut command = Command::new(&vink);
            command.args(["run", "--uplink", "none", "--image"]);
            command.arg(&image).arg("--");
            if arguments.clock == Clock::Virtual {
                // What a script's commands do to its interface has something to do it to.
                let first = "ip tuntap add dev tun0 mode tun && exec \"$@\"";
                command.args(["sh", "-c", first, "sh"]);
            }
            command.arg(&packetdrill).args(ip.options());
            if arguments.clock == Clock::Virtual {
                let mut option = OsString::from("--so_filename=");
                option.push(&library);
                command.arg(option);
                command.arg(format!("--so_flags={}", ip.flags()));
            }
            command.args(&arguments.options).arg(name);
            command.current_dir(&folder).env("VINK_IMAGE", &image);
            let status = command.status().map_err(Failure::host("starting vink"))?;
            let end = match status.success() {
                true => "ok".to_owned(),
                false => {
                    failed += 1;
                    format!("FAILED ({status})")
                }
            };
            println!("{} over {}: {end}", script.display(), ip.name());
        }
    }
    println!("{} ok, {failed} failed", total - failed);
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// A script's folder, in which it may have others, and its name there.
fn split(script: &Path) -> Result<(PathBuf, &OsStr), Failure> {
    let whole = std::fs::canonicalize(script)
        .map_err(Failure::host(format!("the script {}", script.display())))?;
    let name = script.file_name();
    match (whole.parent(), name) {
        (Some(folder), Some(name)) if whole.is_file() => Ok((folder.to_owned(), name)),
        _ => Err(Failure::Other(format!(
            "the script {} is not a file",
            script.display()
        ))),
    }
}

fn find_packetdrill() -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).map(|folder| folder.join("packetdrill"));
    all.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        Failure::Other(
            "packetdrill is not on the PATH, and in no package of Debian's: build it from its source \
             (google/packetdrill on GitHub; docs/packetdrill.md tells how)"
                .into(),
        )
    })
}

fn find_library(vink: &Path) -> Result<PathBuf, Failure> {
    let folder = vink.parent().unwrap_or(Path::new("/"));
    let places = [
        folder.join(LIBRARY),
        folder.join("../lib/vink").join(LIBRARY),
    ];
    let found = places.iter().find(|file| file.is_file()).cloned();
    found.ok_or_else(|| {
        Failure::Other(format!(
            "{LIBRARY} is not beside {}: build it with `cargo build -p vink-packetdrill`",
            vink.display()
        ))
    })
}
