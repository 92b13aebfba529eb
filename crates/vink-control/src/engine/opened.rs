//! A moment of a recorded run, opened as a lab: the run is carried out again until then.
//!
//! The lab goes by another name, but what can be seen of a name within a lab is as it was: addresses,
//! environments, recorded requests. It is recorded while it goes, which is compared with the run.
//! As long as nothing is done to it, the recording is the run's beginning, and is removed with the
//! lab. The first request that changes the lab, or lets its clock go on, makes it a branch: a run of
//! its own, with a parent.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vink_api::{Client, Happening, LabApi, OpenRun, OpenedFrom, OpenedRun, RunClock, RuntimeDir};
use vink_protocol::Action;
use vink_record::{first_difference_before, Manifest, Parent};
use vink_spec::Span;

use super::lab::{Lab, Labs};
use crate::http_error::HttpError;
use crate::replay::{again, repeat, Done};
use crate::runs::{
    only_history, reader_of, reading_while_waited, spec_of, Recording, CONTEXT, MANIFEST,
};

/// What a lab has been opened from.
pub(crate) struct Opened {
    run: PathBuf,
    at: u64,
    /// It is there; what is asked of it from now on is its users'.
    pub(super) is_there: bool,
    pub(super) is_branch: bool,
}

/// Takes a lab down that is not there yet when its client goes away.
pub(super) struct Unfinished(Option<(Arc<Labs>, String)>);

impl Unfinished {
    /// A lab that is about to be made, by a request that names it.
    ///
    /// # Errors
    /// There is one of that name.
    pub(super) fn begin(labs: &Arc<Labs>, name: &str) -> Result<Unfinished, HttpError> {
        if labs.get(name).is_ok() {
            return Err(HttpError::conflict(format!("lab {name} runs already"))
                .hint("give the new one another name")
                .at("/name"));
        }
        Ok(Unfinished(Some((labs.clone(), name.to_owned()))))
    }

    /// It is there, and stays.
    pub(super) fn is_there(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some((labs, name)) = self.0.take() {
            tokio::spawn(async move {
                if let Ok(lab) = labs.get(&name) {
                    let _ = labs.end(&lab).await;
                }
            });
        }
    }
}

/// A time as names have it: `12.5s`.
pub(super) fn seconds(time: u64) -> String {
    let text = format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}s")
}

/// A folder beside that of a run, which is not there yet.
fn folder_beside(manifest: &Path, at: u64) -> PathBuf {
    let (folder, name) = match manifest.file_name() {
        Some(name) if name != MANIFEST => (manifest.parent(), manifest.file_stem()),
        _ => {
            let own = manifest.parent();
            (own.and_then(Path::parent), own.and_then(Path::file_name))
        }
    };
    let name = name.unwrap_or_default().to_string_lossy();
    let folder = folder.unwrap_or(Path::new("/"));
    let first = folder.join(format!("{name}-at-{}", seconds(at)));
    let others = (2..).map(|number| folder.join(format!("{name}-at-{}-{number}", seconds(at))));
    std::iter::once(first)
        .chain(others)
        .find(|folder| !folder.exists())
        .expect("there are more numbers than folders")
}

impl Labs {
    /// Makes a lab that is as a run was at a moment.
    pub(crate) async fn open_run(
        self: &Arc<Labs>,
        run: Arc<Recording>,
        asked: OpenRun,
    ) -> Result<OpenedRun, HttpError> {
        let at = asked.at;
        let source = run.clone();
        let (manifest, history, requests) = reading_while_waited(move |stop| {
            let manifest = source.manifest()?;
            if let Some(why) = only_history(&manifest) {
                return Err(HttpError::conflict(format!(
                    "moments of run {} can't be opened as labs: {why}",
                    source.id
                ))
                .hint("its history can be looked at"));
            }
            let changes = manifest.changes();
            if !changes.is_empty() && !asked.anyway {
                let error = format!(
                    "run {} can't be repeated here: {}",
                    source.id,
                    changes.join("; ")
                );
                return Err(HttpError::conflict(error)
                    .hint("put them back, or say `anyway` to see how far it goes the same way"));
            }
            let history = source.history()?;
            if at > history.index().end {
                let error = format!("run {} ends at {}", source.id, seconds(history.index().end));
                return Err(HttpError::invalid(error).at("/at"));
            }
            let found = history
                .until(stop.clone())
                .events((0, at), None, &Done::is, usize::MAX)?;
            let all = found.into_iter().filter_map(|one| Done::of(one.record));
            let requests: Vec<(u64, Done)> = all.collect();
            Ok((manifest, history, requests))
        })
        .await?;
        let spec = spec_of(&manifest).ok_or_else(|| HttpError::conflict("this is no lab's run"))?;
        let then = spec.name.clone();
        let name = asked
            .name
            .unwrap_or_else(|| format!("{then}-at-{}", seconds(at)));
        let folder = folder_beside(&run.path, at);
        let wanted = again(&manifest, spec, &folder);
        let opened = Opened {
            run: run.path.clone(),
            at,
            is_there: false,
            is_branch: false,
        };
        let mut unfinished = Unfinished::begin(self, &name)?;
        self.put_opened(&name, wanted, opened).await?;
        let lab = self.get(&name)?;
        // By the socket, as then: so its requests come in turns, and are written down.
        let client = Client::of(&RuntimeDir::at(self.folder()));
        let went = async {
            repeat(&client, &name, &then, requests, manifest.inputs, at).await?;
            // What the last request has begun, as far as it goes at this time.
            let run = RunClock {
                by: Some(Span(0)),
                ..RunClock::default()
            };
            client.run_clock(&name, &run).await
        };
        let clock = went.await.map_err(|error| {
            HttpError::conflict(format!(
                "repeating run {} until {}: {error}",
                run.id,
                seconds(at)
            ))
        })?;
        let here = clock.kernel_nanoseconds;
        lab.have(0, Action::FlushJournal, Vec::new()).await?;
        let journal = folder.join(&manifest.journal);
        let checked =
            reading_while_waited(move |stop| {
                let mut again = reader_of(&journal, stop)?;
                let time = match history.until(stop.clone()).goes_as(&mut again, here)? {
                    Ok(passed) => return Ok(passed),
                    Err(time) => time,
                };
                let (then, again) = (run.reader(stop)?, reader_of(&journal, stop)?);
                let difference = first_difference_before(here + 1, then, again, CONTEXT)?;
                Err(HttpError::conflict(format!(
                "run {} does not repeat: until {} all was as it was then, and something else has \
                 happened before {}; -: then, +: now\n{}",
                run.id,
                seconds(time),
                seconds(here),
                difference.map(|found| found.to_string()).unwrap_or_default()
            ))
                .hint("vink replay RUN shows whether it repeats as a whole"))
            })
            .await?;
        if let Some(opened) = &mut lab.state().opened {
            opened.is_there = true;
        }
        unfinished.is_there();
        Ok(OpenedRun {
            lab: name,
            nanoseconds: here,
            checked,
        })
    }
}

impl Lab {
    /// Of which moment it is.
    pub(crate) fn opened_from(&self) -> Option<OpenedFrom> {
        let state = self.state();
        let opened = state.opened.as_ref()?;
        Some(OpenedFrom {
            path: opened.run.display().to_string(),
            run: self
                .labs
                .upgrade()
                .and_then(|labs| labs.runs.of(&opened.run)),
            nanoseconds: opened.at,
            branch: opened.is_branch,
        })
    }

    /// A client is about to change the lab, or to let its clock go: if it was a moment of a run, it
    /// goes its own way from now on.
    pub(super) fn branches(&self) {
        let parent = {
            let mut state = self.state();
            let Some(opened) = &mut state.opened else {
                return;
            };
            if !opened.is_there || std::mem::replace(&mut opened.is_branch, true) {
                return;
            }
            Parent {
                manifest: opened.run.clone(),
                at: opened.at,
            }
        };
        if let Some(manifest) = self.parent_of_record(parent) {
            let listed = self.labs.upgrade().map(|labs| labs.runs.list(&manifest));
            if let Some(Err(fault)) = listed {
                tracing::warn!(target: "control", "{}", fault.problem.error);
            }
        }
        let state = self.state().phase;
        self.tell(Happening::Lab { state });
    }

    /// Whether what is recorded is nothing but another run's beginning.
    pub(super) fn is_recorded_elsewhere(&self) -> bool {
        let state = self.state();
        state
            .opened
            .as_ref()
            .is_some_and(|opened| !opened.is_branch)
    }
}

/// Lists a run that was recorded to a folder.
pub(super) fn list(labs: &Labs, folder: &Path) {
    let manifest = folder.join(MANIFEST);
    // By the name that clients' paths lead to, too.
    let manifest = fs::canonicalize(&manifest).unwrap_or(manifest);
    if let Err(fault) = labs.runs.list(&manifest) {
        tracing::warn!(target: "control", "{}", fault.problem.error);
    }
}

/// Writes a manifest with its parent.
pub(super) fn write_parent(manifest: &mut Manifest, folder: &Path, parent: Parent) -> PathBuf {
    manifest.parent = Some(parent);
    let path = folder.join(MANIFEST);
    if let Err(error) = manifest.write(&path) {
        tracing::warn!(target: "control", "{error}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_names() {
        assert_eq!(seconds(0), "0s");
        assert_eq!(seconds(12_500_000_000), "12.5s");
        assert_eq!(seconds(1), "0.000000001s");
        assert_eq!(seconds(100_000_000_000), "100s");
        let beside = folder_beside(Path::new("/nowhere/hello/manifest.json"), 500_000_000);
        assert_eq!(beside, Path::new("/nowhere/hello-at-0.5s"));
        let beside = folder_beside(Path::new("/nowhere/run.json"), 0);
        assert_eq!(beside, Path::new("/nowhere/run-at-0s"));
    }
}
