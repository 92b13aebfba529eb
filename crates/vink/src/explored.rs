//! `vink explored`: runs an explored lab with any schedule, and tells what happens. The control process starts it for the
//! page; it is not meant for users.
//!
//! A run is a fork of this process, which so must be one without threads: the control process has many.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use vink_api::{
    CapturedPacket, ChoicesQuery, Explored, ExploredCapture, ExploredChoice, ExploredDeviation,
    ExploredEnd, ExploredEvent, ExploredLab, ExploredProgram, ExploredQuery, ExploredQuestion,
    ExploredRun, ExploredSide, ExploredSummary, ExploredViolation,
};
use vink_explore::against::{Verdict, DIFFERENCE};
use vink_explore::{
    happened, pcapng, said, with_breakpoints, Deviation, Fate, Happened, Manifest, Outcome, Point,
    Recording, Runner, Schedule, Surroundings, Violation, What, BEGIN,
};
use vink_spec::Lab;

use crate::cli_error::CliError;
use crate::explore::runner_of;
use crate::explore_against::Sides;
use crate::print;

/// What a difference breaks.
const SAME: &str = "The same schedule comes to the same on both sides.";
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

/// An explored lab that is ready to begin, or the two of a difference.
struct Explorer {
    manifest: Manifest,
    made: Made,
    /// The run that was asked for last.
    last: Option<Ran>,
}

/// What has runs.
enum Made {
    /// A lab on an image.
    One(Box<(Lab, Runner)>),
    /// Two that are compared.
    Two(Box<Sides>),
}

/// What comes of a schedule.
struct Ran {
    schedule: Schedule,
    /// Of each side.
    outcomes: Vec<Outcome>,
    /// How the two runs of a difference compare.
    verdict: Option<Verdict>,
}

impl Made {
    fn of(manifest: &Manifest) -> Result<Made, CliError> {
        Ok(match &manifest.against {
            None => Made::One(Box::new(runner_of(manifest)?)),
            Some(other) => Made::Two(Box::new(Sides::of(manifest, other)?)),
        })
    }

    /// The explored lab's.
    fn runner(&self) -> &Runner {
        match self {
            Made::One(one) => &one.1,
            Made::Two(sides) => &sides.runner,
        }
    }

    /// A side's lab, its image, and where its programs are.
    fn side(&self, side: usize) -> Result<(&Lab, &Path, &Surroundings), CliError> {
        match (self, side) {
            (Made::One(one), 0) => Ok((&one.0, one.1.image(), one.1.around())),
            (Made::Two(sides), 0) => Ok((&sides.lab, sides.runner.image(), sides.runner.around())),
            (Made::Two(sides), 1) => {
                Ok((&sides.other.lab, sides.peer.image(), &sides.other.around))
            }
            _ => Err(CliError::Other(format!(
                "there is no side {side}: the explored lab is 0, and 1 what a difference is to"
            ))),
        }
    }

    fn sides(&self) -> Vec<ExploredSide> {
        let names = match self {
            Made::One(one) => vec![one.0.name.clone()],
            Made::Two(sides) => sides.names().to_vec(),
        };
        let sides = names.into_iter().enumerate().map(|(place, name)| {
            let (lab, image, _) = self.side(place).expect("one for each name");
            ExploredSide {
                name,
                lab: lab.name.clone(),
                image: image.display().to_string(),
            }
        });
        sides.collect()
    }

    fn run(&mut self, schedule: Schedule, record: bool) -> Result<Ran, CliError> {
        let (outcomes, verdict) = match self {
            Made::One(one) => (vec![one.1.run(&schedule, record)?], None),
            Made::Two(sides) => {
                let mut against = sides.against()?;
                let outcomes = against.run(&schedule, record)?;
                let verdict = against.verdict(&outcomes);
                (outcomes.into(), Some(verdict))
            }
        };
        Ok(Ran {
            schedule,
            outcomes,
            verdict,
        })
    }

    /// What a run breaks, or how two differ.
    fn violation(&self, ran: &Ran) -> Option<ExploredViolation> {
        if let (Made::Two(sides), Some(Verdict::Different(difference))) = (self, &ran.verdict) {
            let names = sides.names();
            return Some(self.broken(&Violation {
                property: DIFFERENCE.to_owned(),
                time: difference.time,
                machine: difference.machine().to_owned(),
                what: difference.says(names.each_ref().map(String::as_str)),
            }));
        }
        let mut all = ran.outcomes.iter();
        let broken = all.find_map(|outcome| outcome.violation.as_ref());
        broken.map(|one| self.broken(one))
    }

    fn broken(&self, one: &Violation) -> ExploredViolation {
        let says = match one.property.as_str() {
            DIFFERENCE => SAME.to_owned(),
            property => self.runner().says(property),
        };
        ExploredViolation {
            property: one.property.clone(),
            says,
            nanoseconds: one.time,
            machine: one.machine.clone(),
            what: one.what.clone(),
        }
    }
}

impl Explorer {
    fn of(arguments: &Arguments) -> Result<Explorer, CliError> {
        let manifest = Manifest::read(&arguments.folder)?;
        let made = Made::of(&manifest)?;
        Ok(Explorer {
            manifest,
            made,
            last: None,
        })
    }

    fn about(&self) -> Explored {
        let Manifest {
            schedule,
            violation,
            ..
        } = &self.manifest;
        let sides = self.made.sides();
        let (lab, ..) = self.made.side(0).expect("the explored one");
        Explored {
            summary: ExploredSummary {
                id: String::new(),
                lab: lab.name.clone(),
                path: String::new(),
                image: sides[0].image.clone(),
                violation: self.made.broken(violation),
                schedule: schedule.iter().map(deviation).collect(),
            },
            machines: lab.machines.keys().cloned().collect(),
            fates: Fate::ALL.map(|fate| fate.word().to_owned()).to_vec(),
            sides,
        }
    }

    fn answer(&mut self, question: ExploredQuestion) -> Result<Value, CliError> {
        match question {
            ExploredQuestion::Run(query) => plain(self.told(&query)?),
            ExploredQuestion::Choices(query) => plain(self.choices(&query)?),
            ExploredQuestion::Packet(query, number) => plain(self.packet(&query, number)?),
            ExploredQuestion::Lab(query) => plain(self.lab(&query)?),
        }
    }

    /// Has the runs with this schedule as the last ones, with their recordings.
    fn ran(&mut self, query: &ExploredQuery) -> Result<(), CliError> {
        self.made.side(query.side)?;
        let schedule = read(query.schedule.as_deref().unwrap_or_default())?;
        if self
            .last
            .as_ref()
            .is_none_or(|last| last.schedule != schedule)
        {
            self.last = Some(self.made.run(schedule, true)?);
        }
        Ok(())
    }

    /// The one that was run last, on a side.
    fn last(&self, side: usize) -> (&Ran, &Outcome) {
        let ran = self.last.as_ref().expect("just run");
        (ran, &ran.outcomes[side])
    }

    fn told(&mut self, query: &ExploredQuery) -> Result<ExploredRun, CliError> {
        self.ran(query)?;
        let (ran, outcome) = self.last(query.side);
        let nothing = Recording::default();
        let recording = outcome.recording.as_ref().unwrap_or(&nothing);
        let all = happened(recording, self.made.runner().ends());
        let events = all.iter().take(MOST_EVENTS);
        let programs = outcome.programs.iter();
        Ok(ExploredRun {
            schedule: ran.schedule.iter().map(deviation).collect(),
            nanoseconds: outcome.end,
            violation: self.made.violation(ran),
            compared: ran.verdict.as_ref().and_then(compared),
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
                let end = &self.made.runner().ends()[packet.end];
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
        let ends = self.made.runner().ends().iter();
        let ends: Vec<String> = ends.map(vink_explore::End::name).collect();
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
            let ran = self.made.run(schedule, false)?;
            choices.push(ExploredChoice {
                fate: fate.word().to_owned(),
                violation: self.made.violation(&ran),
            });
        }
        Ok(choices)
    }

    fn packet(&mut self, query: &ExploredQuery, number: u64) -> Result<ExploredCapture, CliError> {
        self.ran(query)?;
        let ends = self.made.runner().ends();
        let (_, outcome) = self.last(query.side);
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

    fn lab(&mut self, query: &ExploredQuery) -> Result<ExploredLab, CliError> {
        self.ran(query)?;
        let (ran, outcome) = self.last(query.side);
        let schedule = outcome.timed(&ran.schedule);
        let (lab, image, Surroundings { folder, env, .. }) = self.made.side(query.side)?;
        let image = image.display().to_string();
        Ok(ExploredLab {
            lab: with_breakpoints(lab, &schedule, Some(&image), folder),
            folder: folder.display().to_string(),
            env: env.clone(),
            begin: BEGIN,
        })
    }
}

/// Why two runs are not told to differ.
fn compared(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Same => Some("Both come to the same.".to_owned()),
        Verdict::Explained(rule) => Some(format!(
            "They differ as the rule {} has it. {}",
            rule.name, rule.why
        )),
        Verdict::OtherPackets => {
            Some("Not compared: the schedule is of other packets on the other side.".to_owned())
        }
        Verdict::Different(_) => None,
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
