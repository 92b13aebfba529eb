//! `vink replay`: repeats a run, and tells whether the same has happened.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use vink_record::{first_difference_before, Manifest, Totals, What};
use vink_spec::Span;

use crate::cli_error::CliError;
use crate::explore;
use crate::print;
use crate::record::{manifest_at, open, read_manifest, terminals, totals, MANIFEST};

mod lab;
mod moment;

/// Events that are shown before and after the first that differs.
pub(crate) const CONTEXT: usize = 5;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The run's manifest, or the folder that a lab was recorded to
    manifest: PathBuf,
    /// Keep what is recorded of the repetition in this new folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Repeat it though the image, the lab file or programs are not what they were
    #[arg(long)]
    anyway: bool,
    /// Events that are shown before and after the first difference
    #[arg(long, value_name = "EVENTS", default_value_t = CONTEXT)]
    context: usize,
    /// Open a moment of a recorded lab: repeat it until this time of its clock in another lab, which stands there then
    #[arg(long, value_name = "TIME", conflicts_with_all = ["keep", "context"])]
    until: Option<Span>,
    /// The name of that lab; LAB-at-TIME, if left away
    #[arg(long, value_name = "NAME", requires = "until")]
    open: Option<String>,
}

/// Repeats it and compares.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.manifest.join(vink_explore::MANIFEST).is_file() {
        return explore::replay(&arguments.manifest);
    }
    let path = manifest_at(&arguments.manifest);
    if let Some(until) = arguments.until {
        return moment::open(&path, until, arguments.open.as_deref(), arguments.anyway);
    }
    let manifest = read_manifest(&path)?;
    let (then, cut) = totals(&manifest, &path)?;
    check(&manifest, &then, arguments.anyway)?;
    let folder = Folder::new(arguments.keep.as_deref())?;
    let repeated = folder.path.join(MANIFEST);
    match &manifest.what {
        What::Run(words) => {
            let what = format!("making the folder {}", folder.path.display());
            std::fs::create_dir(&folder.path).map_err(CliError::host(what))?;
            run_again(&manifest, words, &repeated)?;
        }
        What::Lab(spec) => lab::again(&manifest, spec, &then, &path, &folder.path)?,
    }
    let (now, _) = totals(&read_manifest(&repeated)?, &repeated)?;
    if now.digest == then.digest && then.missed == 0 {
        print::text(&format!(
            "the run repeats: {}, {}, {}.{:09} s; digest {}\n",
            print::count(now.packets as usize, "packet event"),
            print::count(now.calls as usize, "call"),
            now.end / 1_000_000_000,
            now.end % 1_000_000_000,
            now.digest.map(|hash| hash.to_string()).unwrap_or_default()
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    // What came last before an end by force may have come after it now.
    let end = match then.unfinished {
        true => then.end,
        false => u64::MAX,
    };
    let (one, other) = (open(&path)?, open(&repeated)?);
    let difference = first_difference_before(end, one, other, arguments.context)?;
    match difference {
        Some(difference) if cut && difference.sides[0].cut => {
            print::text("the run repeats as far as its journal goes, which was cut short\n")?
        }
        None if then.unfinished => print::text(&format!(
            "the run repeats until {}.{:09} s, when it was ended amidst something\n",
            then.end / 1_000_000_000,
            then.end % 1_000_000_000
        ))?,
        None => print::text("the run repeats, as far as its journal has it\n")?,
        Some(difference) => {
            let mut why = manifest.terminals_differ(Some(terminals()), ["then", "now"]);
            if !why.is_empty() {
                why.push(String::from("repeat it where it was recorded: at a terminal, or by script(1) as in `script -qc \"vink replay RUN\" /dev/null`; or with files or pipes"));
            }
            let why: String = why.iter().map(|line| format!("{line}\n")).collect();
            print::text(&format!(
                "the run does not repeat; -: then, +: now\n{why}{difference}"
            ))?;
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether all is as it was.
fn check(manifest: &Manifest, totals: &Totals, anyway: bool) -> Result<(), CliError> {
    let known = Manifest {
        totals: Some(totals.clone()),
        ..manifest.clone()
    };
    let changes = known.changes();
    if changes.is_empty() || anyway {
        return Ok(());
    }
    Err(CliError::Other(format!(
        "this run can't be repeated here:\n{}\nput them back, or say --anyway to see where the run parts",
        changes.join("\n")
    )))
}

/// `vink run` once more, in the same folder and with the same environment.
fn run_again(manifest: &Manifest, words: &[String], record: &Path) -> Result<(), CliError> {
    let vink = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    let env = manifest.env.iter().map(|(name, value)| (name, value));
    let status = Command::new(vink)
        .arg("run")
        .arg("--record")
        .arg(record)
        .args(words)
        .env_clear()
        .envs(env)
        .current_dir(&manifest.folder)
        .status()
        .map_err(CliError::host("running vink"))?;
    match record.exists() {
        true => Ok(()),
        false => Err(CliError::Other(format!(
            "the run could not be repeated: vink run ended with {status}"
        ))),
    }
}

/// Where the repetition is recorded: a folder that is not there yet.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn new(keep: Option<&Path>) -> Result<Folder, CliError> {
        let path = match keep {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("vink-replay-{}", std::process::id())),
        };
        let what = path.display().to_string();
        let path = std::path::absolute(&path).map_err(CliError::host(what))?;
        let keep = keep.is_some();
        Ok(Folder { path, keep })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
