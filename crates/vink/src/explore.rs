//! `vink explore`: searches a lab's orders of events for one that breaks what must hold.

use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vink_explore::{refusals, search, Fate, Limits, Progress, Runner, Searched, Wanted};
use vink_kernel::{find_image, image_named};
use vink_spec::{Lab, Span};
use vink_sys::signals::{file, is_ignored, mask, Mask, SignalSet};

use crate::cli_error::CliError;
use crate::{lab_file, print};

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The lab file
    #[arg(value_name = "LAB")]
    lab: PathBuf,
    /// The image, by its name (`vink image list`) or its path; the lab's, or else `vink version` tells which one is used otherwise
    #[arg(long, value_name = "IMAGE")]
    image: Option<PathBuf>,
    /// Packets that have another fate in one run, at most
    #[arg(short = 'k', long, value_name = "NUMBER", default_value_t = 2)]
    deviations: usize,
    /// For how long to search, by the host's clock
    #[arg(long, value_name = "TIME")]
    budget: Option<Span>,
    /// How long after the last fault a run may take, by its own clock
    #[arg(long, value_name = "TIME", default_value = "240s")]
    patience: Span,
    /// Processes at a time; as many as there are processors otherwise
    #[arg(short, long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// Check this property only; may be repeated
    #[arg(long, value_name = "NAME")]
    property: Vec<String>,
    /// Go on when a property is broken: the first schedule that breaks each is told
    #[arg(long)]
    keep_going: bool,
}

/// Searches, and says what was found.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let lab = lab_file::read_and(&arguments.lab, refusals)?;
    let image = image_of(&lab, &arguments.lab, arguments.image.as_deref())?;
    let interrupt = Interrupt::catch()?;
    let mut runner = Runner::new(&lab, &image)?;
    runner.limits = Limits {
        patience: arguments.patience.0,
        ..Limits::default()
    };
    runner.check_only(&arguments.property)?;
    let wanted = Wanted {
        deviations: arguments.deviations,
        jobs: arguments.jobs.unwrap_or_else(processors),
        budget: arguments.budget.map(|budget| budget.duration()),
        keep_going: arguments.keep_going,
        fates: Fate::ALL.to_vec(),
    };
    let mut line = ProgressLine::new();
    let searched = search(&mut runner, &wanted, Some(&interrupt.file), &mut |progress| {
        line.show(progress);
    })?;
    line.end();
    summary(&searched)?;
    if searched.interrupted {
        return Err(CliError::Signal(interrupt.number()));
    }
    for (property, found) in &searched.found {
        let schedule = runner.shrink(found.schedule.clone(), property)?;
        let outcome = runner.run(&schedule, true)?;
        let story = vink_explore::Story {
            lab: &lab.name,
            image: "x",
            violation: outcome.violation.as_ref().expect("it has been broken"),
            property,
            outcome: &outcome,
            ends: runner.ends(),
        };
        print::text(&story.text())?;
    }
    Ok(ExitCode::from(u8::from(!searched.found.is_empty())))
}

/// The image that a lab's machines run: all of them the same.
fn image_of(lab: &Lab, file: &Path, asked: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(name) = asked {
        return Ok(image_named(name)?);
    }
    let named = lab.machines.values().find_map(|machine| machine.image.as_ref());
    let Some(path) = named.and_then(|name| lab.images.get(name)) else {
        return Ok(find_image()?);
    };
    let beside = file.parent().unwrap_or(Path::new("")).join(path);
    match beside.is_file() {
        true => Ok(beside),
        false => Ok(image_named(Path::new(path))?),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn summary(searched: &Searched) -> Result<(), CliError> {
    let seconds = searched.time.as_secs_f64();
    let per_second = searched.runs as f64 / seconds.max(1e-9);
    let complete = match searched.complete {
        Some(0) | None => "the run without faults".to_owned(),
        Some(1) => "all schedules of one deviation".to_owned(),
        Some(many) => format!("all schedules of up to {many} deviations"),
    };
    eprintln!(
        "{} runs in {seconds:.1} s ({per_second:.0} a second): {complete}",
        searched.runs
    );
    Ok(())
}

/// Signals that ask to end, from now on.
struct Interrupt {
    file: OwnedFd,
}

impl Interrupt {
    fn catch() -> Result<Interrupt, CliError> {
        let wanted = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let set = SignalSet::of(wanted.into_iter().filter(|number| !is_ignored(*number)));
        mask(Mask::Block, set);
        let file = file(set).map_err(CliError::host("signalfd(2)"))?;
        Ok(Interrupt { file: file.into() })
    }

    /// The one that came; forgets it, so that it may end the process.
    fn number(&self) -> i32 {
        let pending = vink_sys::signals::pending();
        let all = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let came = all.into_iter().find(|number| pending.has(*number));
        came.unwrap_or(libc::SIGINT)
    }
}

/// One line on standard error, if that is a terminal.
struct ProgressLine {
    shown: bool,
    is_terminal: bool,
}

impl ProgressLine {
    fn new() -> ProgressLine {
        ProgressLine {
            shown: false,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, progress: Progress) {
        if !self.is_terminal {
            return;
        }
        self.shown = true;
        let Progress {
            deviations,
            runs,
            expected,
            time,
        } = progress;
        let rate = runs as f64 / time.as_secs_f64().max(1e-9);
        let text = format!(
            "\r{runs} of about {expected} runs, {deviations} deviations, {rate:.0} a second\x1b[K"
        );
        // Nothing depends on it.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn end(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
