//! `vink image report`: how much is in images, and what they take.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use vink_kernel::{image_named, Config, Image, ImageFile, Kernel};

use super::{cannot, kilobytes};
use crate::cli_error::CliError;
use crate::print::{self, Table};

/// The kernel's memory: as for a small lab, and for many machines.
const SMALL_ARENA: u64 = 32 << 20;
const LARGE_ARENA: u64 = 1 << 30;
/// x86-64's.
const PAGE_BYTES: f64 = 4096.0;
/// How many machines are made to see what one takes.
const MACHINES: u32 = 1000;

/// The command line.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The images, by name or path; none: the one that is used by default
    #[arg(value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The figures of one image.
#[derive(Serialize)]
struct Report {
    image: PathBuf,
    profile: String,
    /// Bytes of code.
    text_bytes: u64,
    /// Lines of source that there is code of.
    source_lines: usize,
    /// System calls that are not `ENOSYS`.
    system_calls: usize,
    /// From the file to a kernel that runs, in ms.
    boot_ms: f64,
    /// Resident memory of each of a thousand machines, in bytes.
    machine_bytes: f64,
}

/// Prints a table.
pub(super) fn report(arguments: &Arguments) -> Result<(), CliError> {
    let paths = match arguments.images.is_empty() {
        true => vec![vink_kernel::find_image()?],
        false => arguments
            .images
            .iter()
            .map(|name| image_named(name))
            .collect::<Result<_, _>>()?,
    };
    let reports: Vec<Report> = paths
        .iter()
        .map(|path| measure(path))
        .collect::<Result<_, _>>()?;
    if arguments.json {
        return print::json(&reports);
    }
    let mut table = Table::new([
        "IMAGE", "PROFILE", "TEXT", "LINES", "CALLS", "BOOT", "MACHINE",
    ]);
    for report in reports {
        let name = report.image.file_stem().unwrap_or_default();
        table.row([
            name.to_string_lossy().into_owned(),
            report.profile,
            kilobytes(report.text_bytes as f64),
            report.source_lines.to_string(),
            report.system_calls.to_string(),
            format!("{:.1} ms", report.boot_ms),
            kilobytes(report.machine_bytes),
        ]);
    }
    print::text(&table.text())
}

fn measure(path: &Path) -> Result<Report, CliError> {
    let file = ImageFile::open(path)?;
    Ok(Report {
        image: path.to_owned(),
        profile: file.profile()?,
        text_bytes: file.text_bytes()?,
        source_lines: file.source_lines()?,
        system_calls: file.system_calls()?,
        boot_ms: boot_ms(path)?,
        machine_bytes: machine_bytes(path)?,
    })
}

fn boot(path: &Path, arena_bytes: u64) -> Result<Kernel, CliError> {
    let config = Config {
        arena_bytes,
        ..Config::default()
    };
    Ok(Kernel::boot(Image::open(path)?, config)?)
}

/// The median of a few.
fn boot_ms(path: &Path) -> Result<f64, CliError> {
    let mut all = [0.0; 5];
    for ms in &mut all {
        let start = Instant::now();
        boot(path, SMALL_ARENA)?;
        *ms = start.elapsed().as_secs_f64() * 1e3;
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

fn machine_bytes(path: &Path) -> Result<f64, CliError> {
    let mut kernel = boot(path, LARGE_ARENA)?;
    let before = resident_bytes()?;
    for number in 0..MACHINES {
        kernel.machine(&format!("m{number}"))?;
    }
    Ok((resident_bytes()? - before) / f64::from(MACHINES))
}

/// This process's, by proc_pid_statm(5).
fn resident_bytes() -> Result<f64, CliError> {
    let path = Path::new("/proc/self/statm");
    let text = fs::read_to_string(path).map_err(cannot("reading", path))?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<f64>().ok());
    let pages = pages.ok_or_else(|| CliError::Other(format!("{}: {text}", path.display())))?;
    Ok(pages * PAGE_BYTES)
}
