//! What users did to a recorded lab, done again when its clock is there.
//!
//! How the clock was told to go does not matter, but for steps that end amidst something (to a packet, to a call), and for a
//! stop by a breakpoint, which has to be ended.

use std::collections::VecDeque;
use std::io::Read;
use std::time::Duration;

use vink_api::{
    ChangeClock, Client, Error, Input, LabApi, NewProgram, Output, Program, ProgramState, RunClock,
    Step,
};
use vink_record::{Event, Reader, Request};
use vink_spec::Span;

/// Between two looks at whether a program has been started.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What users have asked for, and when (ns on the kernel's clock).
///
/// # Errors
/// The journal's.
pub fn requests<R: Read>(
    journal: &mut Reader<R>,
) -> Result<Vec<(u64, Request)>, vink_record::Error> {
    let mut asked = Vec::new();
    while let Some(record) = journal.next_record()? {
        if let Event::Asked(request) | Event::Clock(request) = record.event {
            asked.push((record.time, request));
        }
    }
    Ok(asked)
}

/// Does what they did, each thing at its time, and goes on to the end.
///
/// `lab` is its name now; `then` that in the requests.
///
/// # Errors
/// A request's, if it was not refused: what was refused is so again.
pub async fn repeat(
    client: &Client,
    lab: &str,
    then: &str,
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
            Request { method, path, body } => {
                let path = under_name(path, then, lab);
                let answer = client.repeat(method, &path, body).await;
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

/// A request's path, in a lab of another name.
pub(crate) fn under_name(path: &str, then: &str, now: &str) -> String {
    match path.strip_prefix(&format!("/v1/labs/{then}")) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/v1/labs/{now}{rest}"),
        _ => path.to_owned(),
    }
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
