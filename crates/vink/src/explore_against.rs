//! `vink explore --against`: the same schedules on another image, or of another lab, and the first difference in what
//! both answer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use vink_explore::against::{
    names, Against, Compared, Comparison, Counterparts, DifferenceStory, Different, Peer, Verdict,
    DIFFERENCE,
};
use vink_explore::{
    pcapng, script, with_breakpoints, Limits, Manifest, OtherImage, OtherLab, Recording, Runner,
    Surroundings, Violation, Wanted, MANIFEST,
};
use vink_spec::Lab;

use crate::cli_error::CliError;
use crate::explore::{
    counted, lab_of, print_story, write_files, Arguments, Interrupt, ProgressLine,
};
use crate::print;

/// What a lab is explored against.
pub(crate) struct Other {
    /// The same lab, or another one.
    pub lab: Lab,
    /// Its image.
    pub image: PathBuf,
    /// Where its programs are.
    pub around: Surroundings,
}

impl Other {
    /// Begins to make it: for all packets if it is the same lab on another image.
    pub(crate) fn start(&self, lab: &Lab, limits: Limits) -> Result<Peer, CliError> {
        let comparison = match self.is_of(lab) {
            true => Comparison::Packets,
            false => Comparison::Outlines(Arc::new(Counterparts::of(lab, &self.lab)?)),
        };
        let peer = Peer::start(&self.lab, &self.image, &self.around, limits, comparison);
        Ok(peer?)
    }

    fn is_of(&self, lab: &Lab) -> bool {
        self.lab == *lab
    }

    /// Names that tell the lab from this one: of their images, or of the labs.
    fn names(&self, lab: &Lab, images: [&Path; 2]) -> [String; 2] {
        match self.is_of(lab) {
            true => {
                let images = images.map(|image| image.display().to_string());
                names(images.each_ref().map(String::as_str))
            }
            false => names([&lab.name, &self.lab.name]),
        }
    }
}

/// Searches on both, and writes what is different.
pub(crate) fn explored(
    runner: &mut Runner,
    (other, mut peer): (&Other, Peer),
    lab: &Lab,
    arguments: &Arguments,
    wanted: &Wanted,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    peer.wait(Some(&interrupt.file))?;
    let mut against = Against::new(runner, &mut peer)?;
    let mut line = ProgressLine::new();
    let compared = against.search(wanted, Some(&interrupt.file), &mut |progress| {
        line.show(progress);
    })?;
    line.end();
    if arguments.is_json() {
        print::text(&format!("{}\n", numbers(&compared)))?;
    }
    let sides = match other.is_of(lab) {
        true => ["on one image alone", "on each of two images"],
        false => ["of one lab alone", "of each of two labs"],
    };
    eprintln!("{}", summary(&compared, sides));
    if compared.searched.interrupted {
        return Err(CliError::Signal(interrupt.number()));
    }
    for (kind, different) in &compared.differences {
        let folder = arguments.folder(lab).join(format!("{DIFFERENCE}-{kind}"));
        write(&mut against, lab, other, (kind, different), &folder)?;
    }
    for found in compared.searched.found.values() {
        print::text(&format!("on both: {}\n", found.violation.what))?;
    }
    let is_same = compared.differences.is_empty() && compared.searched.found.is_empty();
    Ok(ExitCode::from(u8::from(!is_same)))
}

/// Shrinks a schedule, runs it once more on both, and writes all that can be had of it.
fn write(
    against: &mut Against<'_>,
    lab: &Lab,
    other: &Other,
    (kind, different): (&str, &Different),
    folder: &Path,
) -> Result<(), CliError> {
    let least = against.shrink(different.schedule.clone(), kind)?;
    let mut outcomes = against.run(&least, true)?;
    let Verdict::Different(difference) = against.verdict(&outcomes) else {
        return Err(CliError::Other(format!(
            "the difference does not repeat: {least:?}"
        )));
    };
    let images = [against.runner.image(), against.peer.image()];
    let names = other.names(lab, images);
    let [image, other_image] = images.map(|image| image.display().to_string());
    let ends = against.runner.ends();
    let story = DifferenceStory {
        lab: &lab.name,
        other_lab: (!other.is_of(lab)).then_some(other.lab.name.as_str()),
        images: [&image, &other_image],
        names: &names,
        difference: &difference,
        outcomes: &outcomes,
        ends,
    };
    let story = story.text();
    let [lab_file, other_lab] = [
        (lab, &image, against.runner.around()),
        (&other.lab, &other_image, &other.around),
    ]
    .map(|(lab, image, around)| {
        with_breakpoints(lab, &least, Some(image), &around.folder).to_yaml()
    });
    let script = script(&outcomes[0], ends, difference.machine());
    let recorded = outcomes.each_ref().map(|outcome| {
        let recording = outcome.recording.as_ref();
        recording.map(|recording| pcapng(recording, ends))
    });
    outcomes[0].violation = Some(Violation {
        property: DIFFERENCE.to_owned(),
        time: difference.time,
        machine: difference.machine().to_owned(),
        what: kind.to_owned(),
    });
    let manifest = Manifest::of(against.runner, lab, least, &outcomes[0])?;
    let manifest = match manifest {
        Some(manifest) => {
            let its = (!other.is_of(lab)).then(|| OtherLab::new(&other.lab, other.around.clone()));
            Some(manifest.against(against.peer.image(), &outcomes[1], its)?)
        }
        None => None,
    };
    let manifest = manifest.map(|its| serde_json::to_vec_pretty(&its).expect("plain data"));
    let [packets, other_packets] = recorded;
    let files = [
        ("story.txt", Some(story.clone().into_bytes())),
        ("lab.yaml", Some(lab_file.into_bytes())),
        ("against.yaml", Some(other_lab.into_bytes())),
        ("script.pkt", script.map(String::into_bytes)),
        ("packets.pcapng", packets),
        ("against.pcapng", other_packets),
        (MANIFEST, manifest),
    ];
    write_files(folder, &files)?;
    print_story(&story, folder)
}

/// What a difference was found between, made again.
pub(crate) struct Sides {
    /// The lab that was explored.
    pub lab: Lab,
    /// On its image.
    pub runner: Runner,
    /// The other one.
    pub other: Other,
    /// On its image.
    pub peer: Peer,
}

impl Sides {
    /// Of a difference's manifest. This process has one thread yet, and boots the first image by it.
    pub(crate) fn of(manifest: &Manifest, other: &OtherImage) -> Result<Sides, CliError> {
        manifest.check_image()?;
        let (lab, around) = lab_of(manifest)?;
        let image = other.image.clone();
        let other = match &other.lab {
            None => Other {
                lab: lab.clone(),
                image,
                around: around.clone(),
            },
            Some(its) => Other {
                lab: vink_spec::read_json(&its.lab, Some(&its.around.folder))
                    .map_err(CliError::LabFile)?
                    .lab,
                image,
                around: Surroundings {
                    hidden: around.hidden.clone(),
                    ..its.around.clone()
                },
            },
        };
        let mut peer = other.start(&lab, manifest.limits)?;
        let mut runner = Runner::new(&lab, &manifest.image, &around)?;
        runner.limits = manifest.limits;
        peer.wait(None)?;
        Ok(Sides {
            lab,
            runner,
            other,
            peer,
        })
    }

    /// Both, to be compared.
    pub(crate) fn against(&mut self) -> Result<Against<'_>, CliError> {
        Ok(Against::new(&mut self.runner, &mut self.peer)?)
    }

    /// Names that tell them apart.
    pub(crate) fn names(&self) -> [String; 2] {
        let images = [self.runner.image(), self.peer.image()];
        self.other.names(&self.lab, images)
    }
}

/// Repeats a difference that was found, on both images or of both labs.
pub(crate) fn replay(manifest: &Manifest, other: &OtherImage) -> Result<ExitCode, CliError> {
    let mut sides = Sides::of(manifest, other)?;
    let mut against = sides.against()?;
    let outcomes = against.run(&manifest.schedule, true)?;
    let digests = outcomes.each_ref().map(|outcome| {
        let recording = outcome.recording.as_ref();
        recording.map(Recording::digest).unwrap_or_default()
    });
    let kind = match against.verdict(&outcomes) {
        Verdict::Different(difference) => difference.kind(),
        _ => "none",
    };
    let then = &manifest.violation.what;
    if digests == [&manifest.digest, &other.digest].map(String::clone) && kind == then {
        let packets = outcomes.each_ref().map(|outcome| outcome.packets);
        print::text(&format!(
            "the runs repeat: {} and {} packets, with the same difference ({kind}); digests {} and {}\n",
            packets[0], packets[1], digests[0], digests[1]
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    print::text(&format!(
        "the runs do not repeat\nthen: {then}\nnow: {kind}\n"
    ))?;
    Ok(ExitCode::FAILURE)
}

/// A sentence about both searches; how it says that runs are of one side alone, and of both.
fn summary(compared: &Compared, [one, both]: [&str; 2]) -> String {
    let searched = &compared.searched;
    let seconds = searched.time.as_secs_f64();
    let complete = match searched.complete {
        Some(0) | None => "the run without faults".to_owned(),
        Some(1) => "all schedules of one deviation".to_owned(),
        Some(many) => format!("all schedules of up to {many} deviations"),
    };
    let mut text = format!(
        "{} {both} in {seconds:.1} s, among them {complete}",
        counted(compared.schedules)
    );
    let different: u64 = compared.differences.values().map(|its| its.runs).sum();
    match (different, compared.unseen) {
        (0, _) => text += "; no difference",
        (1, 0) => text += "; one differs",
        (many, unseen) => text += &format!("; {} differ", many + unseen),
    }
    for (kind, its) in compared.differences.iter().filter(|_| compared.unseen == 0) {
        text += &format!(", {} by {kind}", its.runs);
    }
    for (rule, runs) in &compared.explained {
        text += &format!("; {runs} differ as the rule {rule} has it");
    }
    if compared.other_packets > 0 {
        text += &format!(
            "; {} not compared, since other packets had these fates",
            compared.other_packets
        );
    }
    if compared.alone > 0 {
        text += &format!("; {} {one}", compared.alone);
    }
    text
}

/// The same for programs.
fn numbers(compared: &Compared) -> serde_json::Value {
    let differences: serde_json::Map<String, serde_json::Value> = compared
        .differences
        .iter()
        .map(|(kind, its)| {
            let its = serde_json::json!({ "schedule": its.schedule, "runs": its.runs });
            ((*kind).to_owned(), its)
        })
        .collect();
    serde_json::json!({
        "runs": compared.schedules,
        "seconds": compared.searched.time.as_secs_f64(),
        "complete": compared.searched.complete,
        "differences": differences,
        "unseen": compared.unseen,
        "explained": compared.explained,
        "other_packets": compared.other_packets,
        "alone": compared.alone,
        "found": compared.searched.found,
    })
}
