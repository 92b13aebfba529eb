//! A schedule as a lab file: breakpoints that do the same to the same packets.

use std::path::Path;

use vink_spec::{app_words, inside, Breakpoint, Command, FileSpec, Lab, Span};

use crate::lab::SEED;
use crate::{Deviation, Fate, Schedule, SEARCHED};

/// The lab with a breakpoint for each deviation. All machines run `image`, if one is given. The lab's file was in
/// `folder`, and this one will be in another.
pub fn with_breakpoints(lab: &Lab, schedule: &Schedule, image: Option<&str>, folder: &Path) -> Lab {
    let mut lab = lab.clone();
    lab.seed = lab.seed.or(Some(SEED));
    for machine in lab.machines.values_mut() {
        machine.root = None;
        for file in machine.files.values_mut() {
            if let FileSpec::From { from } = file {
                // It was read for the runs; what is gone by now is empty.
                let read = inside(folder, from).ok().map(std::fs::read_to_string);
                *file = FileSpec::Text(read.and_then(Result::ok).unwrap_or_default());
            }
        }
        for program in machine.programs.values_mut() {
            if let Some(command) = &program.command {
                let dir = program.dir.take();
                let dir = dir.map_or(folder.to_owned(), |dir| folder.join(dir));
                let there = format!("--chdir={}", dir.display());
                let words = ["env".to_owned(), there].into_iter();
                program.command = Some(Command::List(words.chain(command.words()).collect()));
            }
            if let Some(app) = &mut program.app {
                let words: Vec<String> = app.split_whitespace().map(str::to_owned).collect();
                *app = app_words(&words, folder).join(" ");
            }
        }
        if image.is_some() {
            machine.image = Some("explored".to_owned());
        }
    }
    if let Some(image) = image {
        lab.images.clear();
        lab.images.insert("explored".to_owned(), image.to_owned());
    }
    for (number, deviation) in schedule.iter().enumerate() {
        let name = format!("fault-{}", number + 1);
        lab.breakpoints.insert(name, breakpoint(deviation));
    }
    lab
}

fn breakpoint(deviation: &Deviation) -> Breakpoint {
    let mut breakpoint = Breakpoint {
        at: Some(deviation.from.clone()),
        filter: Some(SEARCHED.to_owned()),
        after: u64::from(deviation.packet) - 1,
        times: Some(1),
        ..Breakpoint::default()
    };
    match deviation.fate {
        Fate::Drop => breakpoint.drop = true,
        Fate::Duplicate => breakpoint.duplicate = Some(1),
        Fate::Behind => breakpoint.reorder = Some(1),
        Fate::Delay(ns) => breakpoint.delay = Some(Span(ns)),
        // What it comes behind is not known to a breakpoint: as with one that was never found.
        Fate::Late => breakpoint.delay = Some(Span(1_000_000_000)),
    }
    breakpoint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deviation_is_a_breakpoint() {
        let all = [Fate::Drop, Fate::Duplicate, Fate::Behind, Fate::Delay(7)];
        let schedule: Schedule = (1..)
            .zip(all)
            .map(|(packet, fate)| Deviation {
                from: "a:eth0".to_owned(),
                packet,
                fate,
            })
            .collect();
        let app = |app: &str| vink_spec::ProgramSpec {
            app: Some(app.to_owned()),
            ..vink_spec::ProgramSpec::default()
        };
        let machine = vink_spec::MachineSpec {
            programs: [("own", app("so:./own.so 1")), ("sink", app("sink"))]
                .map(|(name, program)| (name.to_owned(), program))
                .into(),
            ..vink_spec::MachineSpec::default()
        };
        let lab = Lab {
            machines: [("a".to_owned(), machine)].into(),
            ..Lab::default()
        };
        let lab = with_breakpoints(&lab, &schedule, Some("/image.so"), Path::new("/labs"));
        let programs = lab.machines["a"].programs.values();
        let apps: Vec<_> = programs.filter_map(|one| one.app.as_deref()).collect();
        assert_eq!(apps, ["so:/labs/./own.so 1", "sink"]);
        let told: Vec<String> = lab.breakpoints.values().map(ToString::to_string).collect();
        let filter = "a:eth0 filter 'tcp or udp or sctp'";
        assert_eq!(
            told,
            [
                format!("{filter} drop times 1"),
                format!("{filter} duplicate 1 after 1 times 1"),
                format!("{filter} reorder 1 after 2 times 1"),
                format!("{filter} delay 7ns after 3 times 1"),
            ]
        );
        assert_eq!(lab.seed, Some(SEED));
    }
}
