//! `vink explore`: searches a lab's orders of events for one that breaks what must hold.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vink_api::RuntimeDir;
use vink_explore::{
    pcapng, refusals, script, search, with_breakpoints, CopierKind, Fate, Limits, Manifest,
    Progress, Recording, Runner, Schedule, Searched, Story, Surroundings, Violation, Wanted,
    MANIFEST,
};
use vink_kernel::{find_image, image_named};
use vink_spec::{Lab, Span};
use vink_sys::signals::{file, is_ignored, mask, Mask, SignalSet};

use crate::cli_error::CliError;
use crate::explore_against::Other;
use crate::explore_coverage::{CoverageArguments, PROFILE};
use crate::{explore_against, lab_file, print};

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The lab file
    #[arg(value_name = "LAB", required_unless_present_any = ["replay", "coverage"])]
    lab: Option<PathBuf>,
    /// Repeat what was found and written into this folder, and tell whether the same happens
    #[arg(long, value_name = "FOLDER", conflicts_with = "lab")]
    replay: Option<PathBuf>,
    /// The image, by its name (`vink image list`) or its path; the lab's, or else `vink version` tells which one is used otherwise
    #[arg(long, value_name = "IMAGE", conflicts_with = "replay")]
    image: Option<PathBuf>,
    /// Run the same schedules on this image, or of this lab file, too, and tell the first difference in what both answer
    #[arg(long, value_name = "IMAGE|LAB.yaml", conflicts_with_all = ["replay", "property", "resume", "coverage"])]
    against: Option<PathBuf>,
    /// Packets that have another fate in one run, at most
    #[arg(short = 'k', long, value_name = "NUMBER", default_value_t = 2)]
    deviations: usize,
    /// For how long to search, by the host's clock
    #[arg(long, value_name = "TIME")]
    budget: Option<Span>,
    /// How long after the last fault a run may take, by its own clock
    #[arg(long, value_name = "TIME", default_value = "240s")]
    stall_timeout: Span,
    /// Processes at a time; as many as there are processors otherwise
    #[arg(short, long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// How runs are gone on with: `fork` or `pages`; the faster one that this host has otherwise
    #[arg(long, value_name = "ENGINE")]
    engine: Option<CopierKind>,
    /// Tell which engine it is, and why
    #[arg(short, long)]
    verbose: bool,
    /// Check this property only; may be repeated
    #[arg(long, value_name = "NAME")]
    property: Vec<String>,
    /// Go on when a property is broken: the first schedule that breaks each is told
    #[arg(long)]
    keep_going: bool,
    /// Write down in this folder how far the search is, and go on with one that is there: after it was ended, at whatever moment
    #[arg(long, value_name = "FOLDER", conflicts_with = "replay")]
    resume: Option<PathBuf>,
    /// Where a folder for each property that is broken is made; NAME.explored otherwise
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    #[command(flatten)]
    coverage: CoverageArguments,
    /// The numbers of the search as JSON, on a line; what was reached (--coverage) as a second one
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Where what is found goes.
    pub(crate) fn folder(&self, lab: &Lab) -> PathBuf {
        match &self.output {
            Some(folder) => folder.clone(),
            None => PathBuf::from(format!("{}.explored", lab.name)),
        }
    }

    /// What is explored beside a lab: another lab file's, or the same one on another image.
    fn other(&self, asked: &Path, lab: &Lab, around: &Surroundings) -> Result<Other, CliError> {
        let is_file = |ending: &OsStr| ending == "yaml" || ending == "yml";
        if !asked.extension().is_some_and(is_file) {
            return Ok(Other {
                lab: lab.clone(),
                image: image_named(asked)?,
                around: around.clone(),
            });
        }
        let lab = lab_file::read_and(asked, refusals)?;
        let image = image_of(&lab, asked, self.image.as_deref())?;
        let around = Surroundings {
            folder: folder_of(asked)?,
            ..around.clone()
        };
        Ok(Other { lab, image, around })
    }

    /// Whether numbers are told as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }
}

/// Searches, and says what was found.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    if let Some(folder) = &arguments.replay {
        return replay(folder);
    }
    let Some(file) = arguments.lab.as_deref() else {
        let asked = arguments.image.as_deref().unwrap_or(Path::new(PROFILE));
        let coverage = arguments.coverage.read(&image_named(asked)?)?;
        arguments
            .coverage
            .print(coverage.as_ref(), arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let lab = lab_file::read_and(file, refusals)?;
    let image = image_of(&lab, file, arguments.image.as_deref())?;
    let interrupt = Interrupt::catch()?;
    let folder = folder_of(file)?;
    let around = Surroundings::of(folder, RuntimeDir::find().folder().to_owned());
    let limits = Limits {
        stall_timeout: arguments.stall_timeout.0,
        ..Limits::default()
    };
    // A process boots one image, so the other one has another, which begins while this one has nothing.
    let other = match &arguments.against {
        Some(other) => Some(arguments.other(other, &lab, &around)?),
        None => None,
    };
    let peer = match &other {
        Some(other) => Some((other, other.start(&lab, limits)?)),
        None => None,
    };
    let mut runner = Runner::new(&lab, &image, &around)?;
    if let Some(mut coverage) = arguments.coverage.read(runner.image())? {
        coverage.count_lab(&file.display().to_string());
        runner.cover(coverage)?;
    }
    runner.limits = limits;
    runner.check_only(&arguments.property)?;
    if let Some(why) = runner.unreadable() {
        eprintln!(
            "vink: the debug information of {} can't be read, so properties see no connections: {why}",
            runner.image().display()
        );
    }
    let copier = copier(arguments, &runner)?;
    let wanted = Wanted {
        copier,
        deviations: arguments.deviations,
        jobs: arguments.jobs.unwrap_or_else(processors),
        budget: arguments.budget.map(|budget| budget.duration()),
        keep_going: arguments.keep_going,
        fates: Fate::ALL.to_vec(),
        resume: arguments.resume.clone(),
    };
    let file = interrupt.file.try_clone();
    runner.interrupt = Some(file.map_err(CliError::host("dup(2)"))?);
    let explored = match peer {
        None => explored(&mut runner, &lab, arguments, &wanted, &interrupt),
        Some(peer) => {
            explore_against::explored(&mut runner, peer, &lab, arguments, &wanted, &interrupt)
        }
    };
    // What was reached until then is kept, however it has ended.
    arguments
        .coverage
        .write(runner.coverage(), arguments.json)?;
    explored.map_err(|error| match error {
        CliError::Explore(vink_explore::Error::Interrupted) => CliError::Signal(interrupt.number()),
        error => error,
    })
}

/// Searches, and writes what is found.
fn explored(
    runner: &mut Runner,
    lab: &Lab,
    arguments: &Arguments,
    wanted: &Wanted,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    tell_failures(runner)?;
    let mut line = ProgressLine::new();
    let searched = search(runner, wanted, Some(&interrupt.file), &mut |progress| {
        line.show(progress);
    })?;
    line.end();
    if arguments.json {
        print::text(&format!("{}\n", numbers(&searched)))?;
    }
    eprintln!("{}", summary(&searched));
    if searched.interrupted {
        return Err(CliError::Signal(interrupt.number()));
    }
    let mut output = Output {
        folder: arguments.folder(lab),
        file: arguments.lab.as_deref().unwrap_or(Path::new("")),
        lab,
        runner,
    };
    for (property, found) in &searched.found {
        output.write(property, &found.schedule)?;
    }
    Ok(ExitCode::from(u8::from(!searched.found.is_empty())))
}

/// The lab of a manifest, ready to be run as it was explored: on its image, which must be the same.
pub(crate) fn runner_of(manifest: &Manifest) -> Result<(Lab, Runner), CliError> {
    manifest.check_image()?;
    let (lab, around) = lab_of(manifest)?;
    let mut runner = Runner::new(&lab, &manifest.image, &around)?;
    runner.limits = manifest.limits;
    runner.check_only(&manifest.properties)?;
    runner.plain()?;
    Ok((lab, runner))
}

/// The lab of a manifest, and where its programs are.
pub(crate) fn lab_of(manifest: &Manifest) -> Result<(Lab, Surroundings), CliError> {
    let reading = vink_spec::read_json(&manifest.lab, Some(&manifest.around.folder))
        .map_err(CliError::LabFile)?;
    let around = Surroundings {
        hidden: Some(RuntimeDir::find().folder().to_owned()),
        ..manifest.around.clone()
    };
    Ok((reading.lab, around))
}

/// Repeats what was found.
pub(crate) fn replay(folder: &Path) -> Result<ExitCode, CliError> {
    let manifest = Manifest::read(folder)?;
    if let Some(other) = &manifest.against {
        return explore_against::replay(&manifest, other);
    }
    let (_, mut runner) = runner_of(&manifest)?;
    let outcome = runner.run(&manifest.schedule, true)?;
    let digest = outcome.recording.as_ref().map(Recording::digest);
    let is_same = digest.as_deref() == Some(manifest.digest.as_str())
        && outcome.violation.as_ref() == Some(&manifest.violation);
    let Violation { property, .. } = &manifest.violation;
    if is_same {
        print::text(&format!(
            "the run repeats: {} packets, \"{property}\" is broken in the same way; digest {}\n",
            outcome.packets, manifest.digest
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = match &outcome.violation {
        None => "no property is broken".to_owned(),
        Some(found) => format!("{}: {}", found.property, found.what),
    };
    print::text(&format!(
        "the run does not repeat\nthen: {property}: {}\nnow: {found}\n",
        manifest.violation.what
    ))?;
    Ok(ExitCode::FAILURE)
}

/// Where what was found goes.
struct Output<'a> {
    folder: PathBuf,
    /// The lab's file.
    file: &'a Path,
    lab: &'a Lab,
    runner: &'a mut Runner,
}

impl Output<'_> {
    /// Shrinks a schedule, runs it once more, and writes all that can be had of it.
    fn write(&mut self, property: &str, schedule: &Schedule) -> Result<(), CliError> {
        let least = self.runner.shrink(schedule.clone(), property)?;
        let least = self.runner.with_times(least, property)?;
        let outcome = self.runner.run(&least, true)?;
        let folder = self.folder.join(property);
        let (Some(violation), Some(recording)) = (&outcome.violation, &outcome.recording) else {
            // A process that died has not said how; its schedule is all there is.
            let what = outcome.violation.map_or(String::new(), |found| found.what);
            return print::text(&format!("{property}: {what} {schedule:?}\n"));
        };
        let image = self.runner.image().display().to_string();
        let says = match self
            .lab
            .always
            .get(property)
            .or(self.lab.eventually.get(property))
        {
            Some(claim) if claim.line > 0 => {
                let says = self.runner.says(property);
                format!("{}:{}: {says}", self.file.display(), claim.line)
            }
            _ => self.runner.says(property),
        };
        let story = Story {
            lab: &self.lab.name,
            image: &image,
            violation,
            property: &says,
            outcome: &outcome,
            ends: self.runner.ends(),
        };
        let story = story.text();
        let around = &self.runner.around().folder;
        let lab = with_breakpoints(self.lab, &least, Some(&image), around).to_yaml();
        let manifest = Manifest::of(self.runner, self.lab, least, &outcome)?;
        let manifest = serde_json::to_string_pretty(&manifest).expect("plain data");
        let script = script(&outcome, self.runner.ends(), &violation.machine);
        let files = [
            ("story.txt", Some(story.clone().into_bytes())),
            ("lab.yaml", Some(lab.into_bytes())),
            ("script.pkt", script.map(String::into_bytes)),
            (
                "packets.pcapng",
                Some(pcapng(recording, self.runner.ends())),
            ),
            (MANIFEST, Some(manifest.into_bytes())),
        ];
        write_files(&folder, &files)?;
        print_story(&story, &folder)
    }
}

/// Writes these files of a folder that may be there.
pub(crate) fn write_files(
    folder: &Path,
    files: &[(&str, Option<Vec<u8>>)],
) -> Result<(), CliError> {
    let failed = |path: &Path| CliError::host(format!("writing {}", path.display()));
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).map_err(failed(&path))?;
        }
    }
    Ok(())
}

/// Prints the part of a story that comes before all packets.
pub(crate) fn print_story(story: &str, folder: &Path) -> Result<(), CliError> {
    let shown: String = story
        .split_inclusive('\n')
        .take_while(|line| !line.starts_with("What happened"))
        .collect();
    print::text(&format!("{shown}All of it is in {}.\n", folder.display()))
}

/// The image that a lab's machines run: all of them the same.
fn image_of(lab: &Lab, file: &Path, asked: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(name) = asked {
        return Ok(image_named(name)?);
    }
    let named = lab
        .machines
        .values()
        .find_map(|machine| machine.image.as_ref());
    let Some(path) = named.and_then(|name| lab.images.get(name)) else {
        return Ok(find_image()?);
    };
    let beside = file.parent().unwrap_or(Path::new("")).join(path);
    match beside.is_file() {
        true => Ok(beside),
        false => Ok(image_named(Path::new(path))?),
    }
}

/// The one that is asked for, or the best one.
fn copier(arguments: &Arguments, runner: &Runner) -> Result<CopierKind, CliError> {
    let (best, why) = match runner.has_trapped() {
        true => (
            CopierKind::Fork,
            Some("programs of the host are not copied".to_owned()),
        ),
        false => CopierKind::best(),
    };
    if let (Some(engine), true) = (arguments.engine, runner.has_trapped()) {
        return Err(CliError::Other(format!(
            "--engine {}: it copies the process, and this lab has programs of the host, of which that makes no copies: leave it out",
            engine.name()
        )));
    }
    let copier = arguments.engine.unwrap_or(best);
    if arguments.verbose {
        let why = match (arguments.engine, why) {
            (None, Some(why)) => format!(" ({why})"),
            _ => String::new(),
        };
        eprintln!("vink: engine {}{why}", runner.engine_name(copier));
    }
    Ok(copier)
}

/// A lab file's folder, from the root on.
fn folder_of(file: &Path) -> Result<PathBuf, CliError> {
    let what = format!("finding {}", file.display());
    let file = std::path::absolute(file).map_err(CliError::host(what))?;
    Ok(file.parent().unwrap_or(Path::new("/")).to_owned())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Tells of the programs that fail without faults, too. The lab may be wrong, and `outcome` does not look at these.
fn tell_failures(runner: &mut Runner) -> Result<(), CliError> {
    for program in &runner.plain()?.programs {
        if let Some(failure) = program.failure() {
            eprintln!(
                "vink: without faults, {} on {} ends with {failure}: the property \"outcome\" says nothing of it",
                program.name, program.machine
            );
        }
    }
    Ok(())
}

/// A sentence about a search.
fn summary(searched: &Searched) -> String {
    let seconds = searched.time.as_secs_f64();
    let complete = match searched.complete {
        Some(0) | None => "the run without faults".to_owned(),
        Some(1) => "all schedules of one deviation".to_owned(),
        Some(many) => format!("all schedules of up to {many} deviations"),
    };
    let found = match searched.found.len() {
        0 => "no property is broken".to_owned(),
        _ => {
            let names: Vec<&str> = searched.found.keys().map(String::as_str).collect();
            format!("broken: {}", names.join(", "))
        }
    };
    let before = match searched.resumed {
        0 => String::new(),
        runs => format!(" behind {runs} before"),
    };
    let runs = searched.runs - searched.resumed;
    format!(
        "{}{before} in {seconds:.1} s ({:.0} a second), among them {complete}; {found}",
        counted(runs),
        runs as f64 / seconds.max(1e-9)
    )
}

/// So many runs, in words.
pub(crate) fn counted(runs: u64) -> String {
    match runs {
        1 => "1 run".to_owned(),
        many => format!("{many} runs"),
    }
}

/// The same for programs.
fn numbers(searched: &Searched) -> serde_json::Value {
    serde_json::json!({
        "runs": searched.runs,
        "resumed": searched.resumed,
        "packets": searched.packets,
        "seconds": searched.time.as_secs_f64(),
        "complete": searched.complete,
        "found": searched.found,
    })
}

/// Signals that ask to end, from now on.
pub(crate) struct Interrupt {
    pub(crate) file: OwnedFd,
}

impl Interrupt {
    fn catch() -> Result<Interrupt, CliError> {
        let wanted = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let set = SignalSet::of(wanted.into_iter().filter(|number| !is_ignored(*number)));
        mask(Mask::Block, set);
        let file = file(set).map_err(CliError::host("signalfd(2)"))?;
        Ok(Interrupt { file: file.into() })
    }

    /// The one that came, which is still to be delivered.
    pub(crate) fn number(&self) -> i32 {
        let pending = vink_sys::signals::pending();
        let all = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let came = all.into_iter().find(|number| pending.has(*number));
        came.unwrap_or(libc::SIGINT)
    }
}

/// One line on standard error, if that is a terminal.
pub(crate) struct ProgressLine {
    shown: bool,
    is_terminal: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> ProgressLine {
        ProgressLine {
            shown: false,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&mut self, progress: Progress) {
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

    pub(crate) fn end(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
