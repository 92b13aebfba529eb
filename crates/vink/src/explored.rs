//! `vink explored`: runs an explored lab with any schedule, and tells what happens. The control process starts it for the
//! page; it is not meant for users.
//!
//! A run is a fork of this process, which so must be one without threads: the control process has many.

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use vink_api::{
    CapturedPacket, ChoicesQuery, Explored, ExploredCapture, ExploredChoice, ExploredDeviation,
    ExploredEnd, ExploredEvent, ExploredLab, ExploredProgram, ExploredQuestion, ExploredRun,
    ExploredSummary, ExploredViolation,
};
use vink_explore::{
    happened, pcapng, said, with_breakpoints, Deviation, Fate, Happened, Manifest, Outcome, Point,
    Recording, Runner, Schedule, Surroundings, Violation, What, BEGIN,
};
use vink_spec::Lab;

use crate::cli_error::CliError;
use crate::explore::runner_of;
use crate::print;

/// Events of a run that are told at most.
const MOST_EVENTS: usize = 5000;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of what was found
    folder: PathBuf,
}

/// Answers questions, until there are no more.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let mut explorer = match Explorer::of(arguments) {
        Ok(explorer) => explorer,
        Err(error) => {
            print::json_line(&Err::<Value, String>(error.to_string()))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    print::json_line(&Ok::<_, String>(explorer.about()))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(CliError::host("reading a question"))?;
        let question: Result<ExploredQuestion, _> = serde_json::from_str(&line);
        let answer = match question {
            Ok(question) => explorer.answer(question).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        print::json_line(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An explored lab that is ready to begin.
struct Explorer {
    manifest: Manifest,
    lab: Lab,
    runner: Runner,
    /// The run that was asked for last.
    last: Option<(Schedule, Outcome)>,
}

impl Explorer {
    fn of(arguments: &Arguments) -> Result<Explorer, CliError> {
        let manifest = Manifest::read(&arguments.folder)?;
        if let Some(other) = &manifest.against {
            return Err(CliError::Other(format!(
                "it is a difference between two images or labs ({} is the other image), and the page shows runs of one: \
                 story.txt has both",
                other.image.display()
            )));
        }
        let (lab, runner) = runner_of(&manifest)?;
        Ok(Explorer {
            manifest,
            lab,
            runner,
            last: None,
        })
    }

    fn about(&self) -> Explored {
        let Manifest {
            schedule,
            violation,
            ..
        } = &self.manifest;
        Explored {
            summary: ExploredSummary {
                id: String::new(),
                lab: self.lab.name.clone(),
                path: String::new(),
                image: self.runner.image().display().to_string(),
                violation: self.violation(violation),
                schedule: schedule.iter().map(deviation).collect(),
            },
            machines: self.lab.machines.keys().cloned().collect(),
            fates: Fate::ALL.map(|fate| fate.word().to_owned()).to_vec(),
        }
    }

    fn answer(&mut self, question: ExploredQuestion) -> Result<Value, CliError> {
        match question {
            ExploredQuestion::Run(schedule) => plain(self.told(&schedule)?),
            ExploredQuestion::Choices(query) => plain(self.choices(&query)?),
            ExploredQuestion::Packet(schedule, number) => plain(self.packet(&schedule, number)?),
            ExploredQuestion::Lab(schedule) => plain(self.lab(&schedule)?),
        }
    }

    /// Has the run with this schedule as the last one, with its recording.
    fn ran(&mut self, schedule: &str) -> Result<(), CliError> {
        let schedule = read(schedule)?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != schedule) {
            let outcome = self.runner.run(&schedule, true)?;
            self.last = Some((schedule, outcome));
        }
        Ok(())
    }

    fn told(&mut self, schedule: &str) -> Result<ExploredRun, CliError> {
        self.ran(schedule)?;
        let (schedule, outcome) = self.last.as_ref().expect("just run");
        let nothing = Recording::default();
        let recording = outcome.recording.as_ref().unwrap_or(&nothing);
        let all = happened(recording, self.runner.ends());
        let events = all.iter().take(MOST_EVENTS);
        let programs = outcome.programs.iter();
        Ok(ExploredRun {
            schedule: schedule.iter().map(deviation).collect(),
            nanoseconds: outcome.end,
            violation: outcome.violation.as_ref().map(|one| self.violation(one)),
            events: events
                .map(|one| self.event(one, recording, outcome))
                .collect(),
            more: all.len().saturating_sub(MOST_EVENTS) as u64,
            programs: programs
                .map(|program| ExploredProgram {
                    machine: program.machine.clone(),
                    name: program.name.clone(),
                    ended: program.ended.as_ref().map(|ended| ExploredEnd {
                        nanoseconds: ended.time,
                        status: ended.status,
                        error: ended.error.clone(),
                    }),
                })
                .collect(),
        })
    }

    fn event(&self, one: &Happened, recording: &Recording, outcome: &Outcome) -> ExploredEvent {
        let mut event = ExploredEvent {
            nanoseconds: one.time,
            kind: "output".to_owned(),
            machine: String::new(),
            text: String::new(),
            program: None,
            end: None,
            packet: None,
            number: None,
            fate: None,
            reason: None,
            departure: None,
        };
        match &one.what {
            What::Packet { packet, departure } => {
                let place = *packet;
                let packet = &recording.packets[place];
                let end = &self.runner.ends()[packet.end];
                event.kind = point(packet.point).to_owned();
                event.machine.clone_from(&end.machine);
                event.text = said(packet);
                event.end = Some(end.name());
                event.packet = Some(place as u64);
                event.number = packet.number;
                event.fate = packet.fate.map(|fate| fate.to_string());
                event.reason.clone_from(&packet.reason);
                event.departure = departure.map(|departure| departure as u64);
            }
            What::Line { program, text } => {
                let program = &outcome.programs[*program];
                event.machine.clone_from(&program.machine);
                event.text.clone_from(text);
                event.program = Some(program.name.clone());
            }
        }
        event
    }

    /// What comes of the run with each fate of a packet.
    fn choices(&mut self, query: &ChoicesQuery) -> Result<Vec<ExploredChoice>, CliError> {
        let ends = self.runner.ends().iter().map(vink_explore::End::name);
        let ends: Vec<String> = ends.collect();
        if !ends.contains(&query.from) {
            return Err(CliError::Other(format!(
                "there is no interface {} at a wire: there are {}",
                query.from,
                ends.join(", ")
            )));
        }
        if query.packet == 0 {
            return Err(CliError::Other("packets are counted from 1 on".to_owned()));
        }
        let mut schedule = read(query.schedule.as_deref().unwrap_or_default())?;
        schedule.retain(|one| (one.packet, &one.from) != (query.packet, &query.from));
        let mut choices = Vec::new();
        for fate in Fate::ALL {
            let mut schedule = schedule.clone();
            schedule.push(Deviation {
                from: query.from.clone(),
                packet: query.packet,
                fate,
            });
            let outcome = self.runner.run(&schedule, false)?;
            choices.push(ExploredChoice {
                fate: fate.word().to_owned(),
                violation: outcome.violation.map(|one| self.violation(&one)),
            });
        }
        Ok(choices)
    }

    fn packet(&mut self, schedule: &str, number: u64) -> Result<ExploredCapture, CliError> {
        self.ran(schedule)?;
        let ends = self.runner.ends();
        let (_, outcome) = self.last.as_ref().expect("just run");
        let recording = outcome.recording.as_ref();
        let found =
            recording.and_then(|all| all.packets.get(number as usize).map(|one| (all, one)));
        let Some((recording, packet)) = found else {
            return Err(CliError::Other(format!("the run has no packet {number}")));
        };
        Ok(ExploredCapture {
            packet: CapturedPacket {
                number,
                nanoseconds: packet.time as i64,
                end: ends[packet.end].name(),
                what: point(packet.point).to_owned(),
                reason: packet.reason.clone(),
                length: packet.frame.len() as u32,
                summary: said(packet),
            },
            bytes: packet.with_header().into_owned(),
            file: pcapng(recording, ends),
        })
    }

    fn lab(&mut self, schedule: &str) -> Result<ExploredLab, CliError> {
        let schedule = self.runner.timed(&read(schedule)?)?;
        let Surroundings { folder, env, .. } = self.runner.around();
        let image = self.runner.image().display().to_string();
        Ok(ExploredLab {
            lab: with_breakpoints(&self.lab, &schedule, Some(&image), folder),
            folder: folder.display().to_string(),
            env: env.clone(),
            begin: BEGIN,
        })
    }

    fn violation(&self, one: &Violation) -> ExploredViolation {
        ExploredViolation {
            property: one.property.clone(),
            says: self.runner.says(&one.property),
            nanoseconds: one.time,
            machine: one.machine.clone(),
            what: one.what.clone(),
        }
    }
}

fn plain(value: impl Serialize) -> Result<Value, CliError> {
    Ok(serde_json::to_value(value).expect("plain data"))
}

/// A schedule as a query has it.
fn read(schedule: &str) -> Result<Schedule, CliError> {
    let all = schedule.split(',').filter(|one| !one.trim().is_empty());
    let all: Result<Schedule, String> = all.map(str::parse).collect();
    all.map_err(CliError::Other)
}

fn deviation(one: &Deviation) -> ExploredDeviation {
    ExploredDeviation {
        words: one.words(),
        says: one.to_string(),
    }
}

fn point(point: Point) -> &'static str {
    match point {
        Point::Departure => "departure",
        Point::Arrival => "arrival",
        Point::Loss => "loss",
    }
}
