//! A lab that was recorded, once more: made with a standing clock, which goes as far as it went then. What its users did to
//! it is in the journal, and is done again when the clock is there.
//!
//! How the clock was told to go does not matter, but for steps that end amidst something (to a packet, to a call), and for a
//! stop by a breakpoint, which has to be ended.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use vink_api::{
    ChangeClock, Client, Error, Input, LabApi, NewProgram, Output, Program, ProgramState, PutLab,
    RecordLab, RunClock, RuntimeDir, Step,
};
use vink_record::{Event, Manifest, Request, Totals};
use vink_spec::{Lab, Span, Time};

use crate::cli_error::CliError;
use crate::client::runtime;
use crate::record::open;

/// Between two looks at whether a program has been started.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Makes the lab, lets its clock go, takes it down. What is recorded of it is in this folder then, which must not be there yet.
pub(super) fn again(
    manifest: &Manifest,
    spec: &Value,
    then: &Totals,
    journal: &Path,
    folder: &Path,
) -> Result<(), CliError> {
    let spec: Lab = serde_json::from_value(spec.clone())
        .map_err(|error| CliError::Other(format!("the lab in the manifest: {error}")))?;
    if spec.time == Time::Real {
        return Err(CliError::Other(format!(
            "lab {} lived by the host's clock: no two runs of it are the same. vink lab diff compares them; with \
             `time: virtual` in its file, or vink lab up --time virtual, it repeats",
            spec.name
        )));
    }
    let name = spec.name.clone();
    let asked = asked(journal)?;
    let wanted = PutLab {
        spec,
        folder: manifest.folder.display().to_string(),
        env: manifest.env.iter().cloned().collect(),
        new: true,
        paused: true,
        record: Some(RecordLab {
            folder: folder.display().to_string(),
            lab_file: None,
        }),
        ..PutLab::default()
    };
    let executable = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    runtime()?.block_on(async {
        let client = Client::start(&RuntimeDir::find(), &executable)?;
        client.put_lab(&name, &wanted).await?;
        let went = repeat(&client, &name, asked, then.end).await;
        client.remove_lab(&name).await?;
        Ok(went?)
    })
}

/// What users have asked for, and when (ns on the kernel's clock).
fn asked(journal: &Path) -> Result<Vec<(u64, Request)>, CliError> {
    let mut reader = open(journal)?;
    let mut asked = Vec::new();
    while let Some(record) = reader.next_record()? {
        if let Event::Asked(request) | Event::Clock(request) = record.event {
            asked.push((record.time, request));
        }
    }
    Ok(asked)
}

/// Does what they did, each thing at its time, and goes on to the end.
async fn repeat(
    client: &Client,
    lab: &str,
    asked: Vec<(u64, Request)>,
    end: u64,
) -> Result<(), Error> {
    // Programs that wait for their clients.
    let mut waiting = VecDeque::new();
    for (time, request) in asked {
        go(client, lab, time).await?;
        let done = match &request {
            Request { method, .. } if method == "ATTACH" => match waiting.pop_front() {
                Some(program) => attach(client, lab, program).await,
                None => Ok(()),
            },
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
            Request { path, .. } if path.ends_with(&format!("/labs/{lab}/continue")) => {
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
            Request { method, path, body } => {
                let answer = client.repeat(method, path, body).await;
                answer.map(|answer| {
                    // An attached program is told of before it runs; any other runs.
                    let wanted: Option<NewProgram> = match path.ends_with("/programs") {
                        true => serde_json::from_str(body).ok(),
                        false => None,
                    };
                    let program = serde_json::from_slice(&answer).ok();
                    waiting.extend(
                        program
                            .filter(|_| wanted.is_some_and(|wanted| wanted.attach))
                            .map(|program: Program| program.id),
                    );
                })
            }
        };
        // It was refused then, too; if not, the runs differ.
        if !matches!(done, Ok(()) | Err(Error::Refused { .. })) {
            return done;
        }
    }
    go(client, lab, end).await
}

/// Starts a program with nothing to read, and reads what it writes.
async fn attach(client: &Client, lab: &str, program: u64) -> Result<(), Error> {
    let (mut input, mut output) = client.attach(lab, program).await?.split();
    input.send(Input::End).await?;
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
