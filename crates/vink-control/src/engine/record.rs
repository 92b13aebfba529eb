//! A lab that is recorded: its worker's journal, and the manifest beside it.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vink_api::PutLab;
use vink_protocol::{Action, Answer, Noted};
use vink_record::{hash_file, Manifest, Parent, What, FORMAT};
use vink_spec::Change;

use super::clock::{Requester, WakeCondition};
use super::lab::{Lab, State, ASKED_BY};
use super::opened::{list, write_parent};
use crate::http_error::HttpError;
use crate::parts::PartName;
use crate::replay::under_name;
use crate::runs::MANIFEST;

/// How long a lab that is taken down has to finish what it does at that time.
const QUIESCE_TIMEOUT: Duration = Duration::from_secs(2);
/// The journal's name in the folder.
const JOURNAL: &str = "run.journal";

/// What is recorded of a lab.
pub(crate) struct Recorded {
    folder: PathBuf,
    manifest: Manifest,
    /// A worker writes the journal.
    begun: bool,
    /// Machines and wires that have changed since that was last written down.
    changed: BTreeSet<PartName>,
}

impl State {
    /// A step was carried out: what it has changed is to be written down. As it was made, the lab is
    /// in the manifest.
    pub(super) fn record_step(&mut self, step: &Change) {
        if let (Some(recorded), Some(_)) = (&mut self.recorded, self.up) {
            recorded.changed.extend(PartName::of(step));
        }
    }
}

impl Lab {
    /// A new lab is to be recorded: makes the folder.
    pub(crate) fn prepare_record(&self, asked: &PutLab) -> Result<(), HttpError> {
        let Some(record) = &asked.record else {
            return Ok(());
        };
        let folder = PathBuf::from(&record.folder);
        let wrong = |error: String| HttpError::invalid(error).at("/record/folder");
        if !folder.is_absolute() {
            let folder = &record.folder;
            return Err(wrong(format!("{folder:?} is not an absolute path")));
        }
        std::fs::create_dir(&folder)
            .map_err(|error| wrong(format!("making the folder {}: {error}", record.folder)))?;
        let hashed = record.lab_file.as_ref().map(|file| {
            let path = PathBuf::from(file);
            hash_file(&path).map(|hash| (path, hash))
        });
        let hashed = hashed.transpose();
        let lab_file = hashed.map_err(|error| HttpError::invalid(error.to_string()))?;
        let spec = serde_json::to_value(&asked.spec);
        let manifest = Manifest {
            format: FORMAT,
            vink: env!("CARGO_PKG_VERSION").to_owned(),
            image: PathBuf::new(),
            image_hash: vink_record::Hash::of(&[]),
            what: What::Lab(spec.map_err(|error| HttpError::invalid(error.to_string()))?),
            lab_file,
            folder: PathBuf::from(&asked.folder),
            env: asked.env.clone().into_iter().collect(),
            terminals: None,
            journal: JOURNAL.into(),
            parent: None,
            inputs: !record.without_inputs,
            changes: true,
            totals: None,
        };
        self.state().recorded = Some(Recorded {
            folder,
            manifest,
            begun: false,
            changed: BTreeSet::new(),
        });
        Ok(())
    }

    /// A worker has been started with this image: it writes the journal.
    pub(crate) async fn begin_record(
        self: &Arc<Lab>,
        worker: usize,
        image: &Path,
    ) -> Result<(), HttpError> {
        let (path, manifest) = {
            let mut state = self.state();
            if state.recorded.is_none() {
                return Ok(());
            }
            if state.workers[worker].host.is_some() {
                let error = "a lab with machines on other hosts can't be recorded";
                return Err(HttpError::conflict(error).hint("leave --record away"));
            }
            let Some(recorded) = &mut state.recorded else {
                return Ok(());
            };
            if worker > 0 {
                let error = "a lab with several workers can't be recorded: each worker has a kernel of its own";
                return Err(HttpError::conflict(error)
                    .hint("give all machines the same image and worker, or leave --record away"));
            }
            // Of one that is booted again the journal has ended.
            if std::mem::replace(&mut recorded.begun, true) {
                return Ok(());
            }
            let hash = hash_file(image).map_err(|error| HttpError::conflict(error.to_string()))?;
            recorded.manifest.image = image.to_owned();
            recorded.manifest.image_hash = hash;
            (recorded.folder.clone(), recorded.manifest.clone())
        };
        let journal = path.join(JOURNAL);
        let file = std::fs::File::create(&journal);
        let what = format!("creating {}", journal.display());
        let file = file.map_err(|error| HttpError::host(&what, error))?;
        let written = manifest.write(&path.join(MANIFEST));
        written.map_err(|error| HttpError::conflict(error.to_string()))?;
        self.have(worker, Action::Journal, vec![file.into()])
            .await?;
        if let (Some(labs), false) = (self.labs.upgrade(), self.is_recorded_elsewhere()) {
            list(&labs, &path);
        }
        Ok(())
    }

    /// What is recorded has a parent from now on: its manifest; `None`: nothing is recorded.
    pub(super) fn parent_of_record(&self, parent: Parent) -> Option<PathBuf> {
        let mut state = self.state();
        let recorded = state.recorded.as_mut()?;
        let folder = recorded.folder.clone();
        Some(write_parent(&mut recorded.manifest, &folder, parent))
    }

    /// Writes down what the worker can't see, if the lab is recorded.
    pub(crate) async fn note(&self, noted: Noted) {
        let recorded = self.state().recorded.as_ref().is_some_and(|r| r.begun);
        if recorded {
            // One that has died writes nothing any more.
            let _ = self.have(0, Action::Note(noted), Vec::new()).await;
        }
    }

    /// Writes down which machines and wires have changed, if the lab is recorded.
    pub(super) async fn note_changes(&self) {
        let parts = {
            let mut state = self.state();
            let State { recorded, spec, .. } = &mut *state;
            let Some(recorded) = recorded else { return };
            let changed = std::mem::take(&mut recorded.changed);
            let parts = changed.iter().map(|name| name.now(spec));
            parts.collect::<Vec<_>>()
        };
        if !parts.is_empty() {
            self.note(Noted::Changed { parts }).await;
        }
    }

    /// Whether requests of clients are written down: of a lab that is recorded and up.
    fn notes_requests(&self) -> bool {
        let state = self.state();
        state.recorded.is_some() && state.up.is_some()
    }

    /// Whether what comes from this side is written down when it is given to a program.
    pub(crate) fn records_inputs(&self, requester: Requester) -> bool {
        let inputs = |recorded: &Recorded| recorded.manifest.inputs;
        requester == Requester::Client
            && self.notes_requests()
            && self.state().recorded.as_ref().is_some_and(inputs)
    }

    /// Does this in a turn of its own, at a time when the lab has nothing left to do.
    pub(crate) async fn in_turn<T>(self: &Arc<Lab>, work: impl Future<Output = T>) -> T {
        let Some(actor) = self.new_actor_when(WakeCondition::NoLine) else {
            return work.await;
        };
        actor
            .run(async {
                // It may be over by now, what a line has waited for.
                while self.state().has_due_work() {
                    self.wait_until(vec![WakeCondition::NoLine]).await;
                }
                work.await
            })
            .await
    }

    /// Carries out a client's request for a change, in a turn of its own if it is written down.
    /// Those of the lab's own lines do not come here: the lines are carried out again when the lab
    /// is repeated.
    pub(crate) async fn changed_by<T>(
        self: &Arc<Lab>,
        actor: &Arc<str>,
        method: &str,
        path: &str,
        body: &[u8],
        work: impl Future<Output = T>,
    ) -> T {
        let work = ASKED_BY.scope(actor.clone(), work);
        if !self.notes_requests() {
            return work.await;
        }
        self.branches();
        let mut noted = Noted::Asked {
            actor: actor.to_string(),
            method: method.to_owned(),
            path: under_name(path, &self.name, &self.label),
            body: String::from_utf8_lossy(body).into_owned(),
            clock: false,
        };
        let own = |part: &str| path == format!("/v1/labs/{}{part}", self.name);
        let is_clocks = ["/clock", "/clock/run", "/continue"].into_iter().any(own);
        if let (Noted::Asked { clock, .. }, true) = (&mut noted, is_clocks) {
            *clock = true;
            self.note(noted).await;
            return work.await;
        }
        self.in_turn(async {
            self.note(noted).await;
            work.await
        })
        .await
    }

    /// The lab is about to be taken down: its clock stands from now on, the journal ends, the
    /// manifest is completed. One whose worker has died keeps what there is.
    pub(crate) async fn end_record(self: &Arc<Lab>) {
        let Some(recorded) = self.state().recorded.take() else {
            return;
        };
        if self.is_recorded_elsewhere() {
            // Its worker may go on to write to a file that has no name any more.
            if let Err(error) = std::fs::remove_dir_all(&recorded.folder) {
                let folder = recorded.folder.display();
                tracing::warn!(target: "control", "removing {folder}: {error}");
            }
            return;
        }
        if !recorded.begun {
            return;
        }
        {
            let clock = &mut self.state().clock;
            clock.is_frozen = true;
            clock.needs_quiesce = true;
        }
        // A program that computes for ever is not waited for.
        let _ = tokio::time::timeout(QUIESCE_TIMEOUT, self.quiesce()).await;
        let incomplete = self.state().has_pending_work();
        let ended = self
            .have(0, Action::EndJournal { incomplete }, Vec::new())
            .await;
        self.state().clock.is_frozen = false;
        let manifest = match ended {
            Ok(Answer::Journal(totals)) => Manifest {
                totals: Some(totals),
                ..recorded.manifest
            },
            Ok(other) => return tracing::warn!(target: "control", "the worker answered {other:?}"),
            Err(fault) => {
                let name = &self.name;
                return tracing::warn!(target: "control", "the record of lab {name}: {}",
                    fault.problem.error
                );
            }
        };
        if let Err(error) = manifest.write(&recorded.folder.join(MANIFEST)) {
            tracing::warn!(target: "control", "the record of lab {}: {error}", self.name);
        }
    }
}
