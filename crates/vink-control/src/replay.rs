//! What users did to a recorded lab, done again when its clock is there.
//!
//! How the clock was told to go does not matter, but for steps that end amidst something (to a packet, to a call), and for a
//! stop by a breakpoint, which has to be ended.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use vink_api::{
    ChangeClock, Client, Error, Input, LabApi, NewProgram, Output, Program, ProgramInput,
    ProgramState, PutLab, RecordLab, RunClock, Size, Step,
};
use vink_record::{Event, Manifest, Reader, Record, Request, Typed};
use vink_spec::{Lab, Span};

/// Between two looks at whether a program has been started.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What a user has done.
pub enum Done {
    /// A request.
    Asked(Request),
    /// Something was given to a program.
    Gave {
        /// Its number in the lab.
        program: u64,
        /// What.
        typed: Typed,
    },
}

impl Done {
    /// Whether a user has done this.
    pub(crate) fn is(record: &Record) -> bool {
        matches!(
            record.event,
            Event::Asked(_) | Event::Clock(_) | Event::Input { .. }
        )
    }

    /// With its time in ns on the kernel's clock; `None`: no user has done this.
    pub(crate) fn of(record: Record) -> Option<(u64, Done)> {
        let done = match record.event {
            Event::Asked(request) | Event::Clock(request) => Done::Asked(request),
            Event::Input { program, typed, .. } => Done::Gave { program, typed },
            _ => return None,
        };
        Some((record.time, done))
    }
}

/// A recorded lab to be made again, with its clock standing. What is recorded of it goes into this folder, which must not be
/// there yet.
pub fn again(manifest: &Manifest, spec: Lab, folder: &Path) -> PutLab {
    PutLab {
        spec,
        folder: manifest.folder.display().to_string(),
        env: manifest.env.iter().cloned().collect(),
        new: true,
        paused: true,
        record: Some(RecordLab {
            folder: folder.display().to_string(),
            lab_file: None,
            without_inputs: !manifest.inputs,
        }),
        ..PutLab::default()
    }
}

/// As the control API has it.
fn input(typed: Typed) -> ProgramInput {
    match typed {
        Typed::Bytes(bytes) => ProgramInput::Bytes(bytes),
        Typed::End => ProgramInput::End,
        Typed::Resize { rows, columns } => ProgramInput::Resize(Size { rows, columns }),
        Typed::Signal(signal) => ProgramInput::Signal(signal),
        Typed::Gone => ProgramInput::HangUp,
    }
}

/// What users have done, and when (ns on the kernel's clock).
///
/// # Errors
/// The journal's.
pub fn requests<R: Read>(journal: &mut Reader<R>) -> Result<Vec<(u64, Done)>, vink_record::Error> {
    let mut all = Vec::new();
    while let Some(record) = journal.next_record()? {
        all.extend(Done::of(record));
    }
    Ok(all)
}

/// Does what they did, each thing at its time, and goes on to the end.
///
/// `lab` is its name now; `then` that in the requests. `inputs`: what was given to programs is
/// among it; otherwise they have nothing to read.
///
/// # Errors
/// A request's, if it was not refused: what was refused is so again.
pub async fn repeat(
    client: &Client,
    lab: &str,
    then: &str,
    all: Vec<(u64, Done)>,
    inputs: bool,
    end: u64,
) -> Result<(), Error> {
    // Programs that wait for their clients.
    let mut waiting = Vec::new();
    for (time, done) in all {
        go(client, lab, time).await?;
        let went = match done {
            Done::Asked(request) => ask(client, (lab, then), request, &mut waiting, inputs).await,
            Done::Gave { program, typed } => {
                let (program, input) = (program.to_string(), input(typed));
                client.input(lab, &program, &input).await
            }
        };
        // It was refused then, too; if not, the runs differ.
        if !matches!(went, Ok(()) | Err(Error::Refused { .. })) {
            return went;
        }
    }
    go(client, lab, end).await
}

/// Asks once more. `lab` is its name now, and then.
async fn ask(
    client: &Client,
    (lab, then): (&str, &str),
    request: Request,
    waiting: &mut Vec<u64>,
    inputs: bool,
) -> Result<(), Error> {
    match &request {
        Request { method, path, .. } if method == "ATTACH" => {
            // Programs have the numbers that they had, unless there were captures then.
            let number = path.split('/').rev().find_map(|part| part.parse().ok());
            let same = waiting.iter().position(|program| Some(*program) == number);
            match waiting.is_empty() {
                true => Ok(()),
                false => {
                    let program = waiting.remove(same.unwrap_or(0));
                    attach(client, lab, program, inputs).await
                }
            }
        }
        Request { path, body, .. } if path.ends_with("/clock/run") => {
            match serde_json::from_str(body) {
                Ok(
                    run @ RunClock {
                        next: Some(step), ..
                    },
                ) if step != Step::Event => client.run_clock(lab, &run).await.map(drop),
                _ => Ok(()),
            }
        }
        Request { path, .. } if path.ends_with(&format!("/labs/{then}/continue")) => {
            client.resume(lab).await
        }
        Request { path, body, .. } if path.ends_with("/clock") => {
            match serde_json::from_str(body) {
                Ok(ChangeClock {
                    paused: Some(false),
                    ..
                }) => client.resume(lab).await,
                _ => Ok(()),
            }
        }
        Request {
            method, path, body, ..
        } => {
            let path = under_name(path, then, lab);
            let answer = client.repeat(method, &path, body).await?;
            // An attached program is told of before it runs; any other runs.
            let wanted: Option<NewProgram> = match path.ends_with("/programs") {
                true => serde_json::from_str(body).ok(),
                false => None,
            };
            let program: Option<Program> = serde_json::from_slice(&answer).ok();
            match (wanted, program) {
                (Some(NewProgram { keep: true, .. }), Some(program)) if !inputs => {
                    let program = program.id.to_string();
                    client.input(lab, &program, &ProgramInput::End).await
                }
                (
                    Some(NewProgram {
                        keep: false,
                        attach: true,
                        ..
                    }),
                    Some(program),
                ) => {
                    waiting.push(program.id);
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    }
}

/// A request's path, in a lab of another name.
pub(crate) fn under_name(path: &str, then: &str, now: &str) -> String {
    match path.strip_prefix(&format!("/v1/labs/{then}")) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/v1/labs/{now}{rest}"),
        _ => path.to_owned(),
    }
}

/// Starts a program, and reads what it writes. Without `inputs` it has nothing to read.
async fn attach(client: &Client, lab: &str, program: u64, inputs: bool) -> Result<(), Error> {
    let (mut input, mut output) = client.attach(lab, program).await?.split();
    if !inputs {
        input.send(Input::End).await?;
    }
    tokio::spawn(async move {
        // Kept, for without a client the program ends.
        let _input = input;
        while !matches!(output.next().await, Ok(Output::Ended { .. }) | Err(_)) {}
    });
    // It is started after the handshake, of which there is no event.
    while client.program(lab, &program.to_string()).await?.state == ProgramState::Waiting {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// To this time of the kernel's clock, or to a stop by a breakpoint before it.
async fn go(client: &Client, lab: &str, time: u64) -> Result<(), Error> {
    let now = client.clock(lab).await?.kernel_nanoseconds;
    if now < time {
        let run = RunClock {
            by: Some(Span(time - now)),
            ..RunClock::default()
        };
        client.run_clock(lab, &run).await?;
    }
    Ok(())
}
