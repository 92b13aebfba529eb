//! Views of a lab: where its machines stand in the picture, what is drawn and written beside them, and where its users
//! are. One document for each lab, which all its pages change at once (Yjs), and which changes nothing in the lab.
//!
//! Clients speak y-protocols' sync and awareness over a WebSocket. What one of them sends is looked at as a hostile
//! client's: the role is asked for with each message, updates are checked before `yrs` reads them (`update`), presence
//! is each client's own (`presence`), and a client that breaks a rule is dropped with the reason while the others go on.

mod files;
mod lib0;
mod presence;
mod recent;
mod socket;
mod update;

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::watch;
use vink_api::{Role, SavedViews};
use yrs::types::ToJson;
use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{Any, Doc, GetString, OffsetKind, Options, ReadTxn, StateVector, Transact, Update};

use files::Files;
use lib0::{put_bytes, put_number, Reader};
use presence::Presence;
use recent::Recent;
pub(crate) use socket::{serve, LARGEST_MESSAGE};

use crate::http_error::HttpError;
use crate::session::Access;

/// Bytes of a document as it is saved.
const LARGEST: usize = 4 << 20;
/// Bytes by which deletions may make it larger: each of them is kept until what it deletes is there.
const FOR_DELETIONS: usize = 256 << 10;
/// Bytes of a message from a client.
const LARGEST_UPDATE: usize = 1 << 20;
/// How many clients a lab's views have at once.
const MOST_CLIENTS: usize = 256;
/// How long after a change the document is saved, with all changes until then.
const SAVE_DELAY: Duration = Duration::from_secs(1);

// The kinds of messages.
const SYNC: u64 = 0;
const PRESENCE: u64 = 1;
const DENIED: u64 = 2;
const ASK_PRESENCE: u64 = 3;
/// Vink's own: a text about saving.
const NOTICE: u64 = 100;
// What a SYNC message has.
const STEP_1: u64 = 0;
const STEP_2: u64 = 1;
const UPDATE: u64 = 2;

/// The views of one lab. The lock is never held across an `await`.
#[derive(Default)]
pub(crate) struct Views {
    /// None: there is no document, only where users are.
    files: Option<Files>,
    state: Mutex<Option<State>>,
    /// Told of each message for the others.
    news: watch::Sender<()>,
    /// Files are written by one at a time.
    saving: Mutex<()>,
}

/// From its first client on.
struct State {
    doc: Doc,
    /// Bytes of it when they were counted, and of all that came since: not less than there are.
    bytes: usize,
    presence: Presence,
    recent: Recent,
    /// The number of the last connection, and how many there are.
    seats: u64,
    clients: usize,
    /// It has changed since it was saved, and a task is about to save it.
    is_changed: bool,
    is_scheduled: bool,
    /// Saving has failed, which was said.
    has_failed: bool,
}

/// A client's place, as long as it is there.
pub(crate) struct Seat {
    views: Arc<Views>,
    number: u64,
    access: Access,
    /// The next message that it is told.
    next: u64,
    news: watch::Receiver<()>,
}

/// Why a client is dropped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its role does not allow it.
    Role(String),
    /// What it sent is no message, or of a kind that views have not.
    Invalid(String),
    /// It, or the document with it, is larger than it may be.
    TooLarge(String),
}

impl Views {
    /// Those of a lab, kept in this folder.
    pub(crate) fn new(folder: PathBuf, lab: &str) -> Arc<Views> {
        Arc::new(Views {
            files: Some(Files::new(folder, lab)),
            ..Views::default()
        })
    }

    /// Where users are, and nothing else.
    pub(crate) fn of_users() -> Arc<Views> {
        Arc::default()
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().expect("no panic while it is held")
    }

    /// A place for a client, with what it is told first.
    ///
    /// # Errors
    /// The file is not there to be read, or holds something else; there are too many clients.
    pub(crate) fn enter(
        self: &Arc<Views>,
        access: Access,
    ) -> Result<(Seat, Vec<Bytes>), HttpError> {
        let mut state = self.state();
        if state.is_none() {
            *state = Some(self.open()?);
        }
        let state = state.as_mut().expect("it is open");
        if state.clients >= MOST_CLIENTS {
            let text = format!(
                "this lab's views have {MOST_CLIENTS} clients, and no more can look at them"
            );
            return Err(
                HttpError::conflict(text).hint("vink ui --sessions lists the sessions of pages")
            );
        }
        state.seats += 1;
        state.clients += 1;
        let seat = Seat {
            views: self.clone(),
            number: state.seats,
            access,
            next: state.recent.end(),
            news: self.news.subscribe(),
        };
        let mut greetings = vec![message(PRESENCE, &state.presence.all())];
        if seat.access.role >= Role::Draw {
            greetings.push(sync(STEP_1, &state.vector().encode_v1()));
        }
        Ok((seat, greetings))
    }

    fn open(&self) -> Result<State, HttpError> {
        let Some(files) = &self.files else {
            return Ok(State::new());
        };
        let path = files.binary();
        let failed = |error| HttpError::host(&path.display().to_string(), error);
        let Some(bytes) = files.load().map_err(failed)? else {
            return Ok(State::new());
        };
        let no_views = |why: &str| {
            let error = format!("{} does not hold views of a lab: {why}", path.display());
            HttpError::conflict(error).hint("move it away, and a new one is made")
        };
        if bytes.len() > LARGEST + FOR_DELETIONS {
            return Err(no_views(
                "it is larger than 4 MiB and what deletions may take",
            ));
        }
        update::check(&bytes).map_err(no_views)?;
        State::of(&bytes).ok_or_else(|| no_views("it can't be applied"))
    }

    /// What a client says: what it is answered.
    fn take(self: &Arc<Views>, seat: &Seat, bytes: &[u8]) -> Result<Option<Bytes>, Refusal> {
        if bytes.len() > LARGEST_UPDATE {
            let text = format!(
                "a message of {} bytes: {LARGEST_UPDATE} are allowed",
                bytes.len()
            );
            return Err(Refusal::TooLarge(text));
        }
        let mut guard = self.state();
        let state = guard.as_mut().expect("it is open as long as a seat is");
        let mut reader = Reader(bytes);
        let invalid = |why: &str| Refusal::Invalid(format!("a message that can't be read: {why}"));
        let short = || invalid("it ends too soon");
        match reader.number().ok_or_else(short)? {
            SYNC => {
                let kind = reader.number().ok_or_else(short)?;
                let body = reader.bytes().ok_or_else(short)?;
                match kind {
                    STEP_1 => {
                        let read = update::is_state_vector(body)
                            .then(|| StateVector::decode_v1(body).ok());
                        let theirs = read.flatten().ok_or_else(|| invalid("its state vector"))?;
                        Ok(Some(sync(STEP_2, &state.since(&theirs))))
                    }
                    STEP_2 | UPDATE => {
                        let found = update::check(body).map_err(invalid)?;
                        if !found.is_something {
                            return Ok(None);
                        }
                        if seat.access.role < Role::Draw {
                            let text = "this session may look at views, and not change them: it needs the role draw";
                            return Err(Refusal::Role(text.to_owned()));
                        }
                        if self.files.is_none() {
                            let text =
                                "of a recorded run pages share where users are, and nothing else";
                            return Err(Refusal::Role(text.to_owned()));
                        }
                        state.has_room(found, body.len())?;
                        self.apply(state, seat.number, body)?;
                        drop(guard);
                        self.schedule();
                        Ok(None)
                    }
                    _ => Err(invalid("a kind of sync that there is not")),
                }
            }
            PRESENCE => {
                let body = reader.bytes().ok_or_else(short)?;
                let told = state.presence.take(seat.number, &seat.access, body);
                if let Some(told) = told.map_err(invalid)? {
                    self.tell(state, seat.number, message(PRESENCE, &told));
                }
                Ok(None)
            }
            ASK_PRESENCE => Ok(Some(message(PRESENCE, &state.presence.all()))),
            _ => Err(invalid("a kind that there is not")),
        }
    }

    fn apply(&self, state: &mut State, from: u64, body: &[u8]) -> Result<(), Refusal> {
        let applied = catch_unwind(AssertUnwindSafe(|| state.apply(body)));
        match applied {
            Ok(Ok(())) => {
                state.bytes += body.len();
                state.is_changed = true;
                self.tell(state, from, sync(UPDATE, body));
                Ok(())
            }
            Ok(Err(error)) => {
                let text = format!("an update that can't be applied: {error}");
                Err(Refusal::Invalid(text))
            }
            Err(_) => {
                // What the document is now is not known: it is what was saved, with what the other clients have.
                let load = |files: &Files| files.load().ok().flatten();
                let saved = self.files.as_ref().and_then(load);
                let saved = saved.filter(|bytes| update::check(bytes).is_ok());
                let fresh = saved
                    .and_then(|bytes| State::of(&bytes))
                    .unwrap_or_else(State::new);
                (state.doc, state.bytes) = (fresh.doc, fresh.bytes);
                let question = sync(STEP_1, &state.vector().encode_v1());
                self.tell(state, from, question);
                Err(Refusal::Invalid("an update that yrs fails at".to_owned()))
            }
        }
    }

    fn tell(&self, state: &mut State, from: u64, message: Bytes) {
        state.recent.push(from, message);
        self.news.send_replace(());
    }

    /// Has the document saved soon.
    fn schedule(self: &Arc<Views>) {
        {
            let mut state = self.state();
            let Some(state) = state.as_mut().filter(|state| !state.is_scheduled) else {
                return;
            };
            state.is_scheduled = true;
        }
        let views = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SAVE_DELAY).await;
            let _ = tokio::task::spawn_blocking(move || views.save_changes()).await;
        });
    }

    /// Saves what has changed, if anything. If that fails, clients are told, and the next change tries again.
    pub(crate) fn save_changes(&self) {
        let Some(files) = &self.files else { return };
        let _one = self.saving.lock().expect("no panic while it is held");
        let bytes = {
            let mut state = self.state();
            let Some(state) = state.as_mut() else { return };
            state.is_scheduled = false;
            if !std::mem::take(&mut state.is_changed) {
                return;
            }
            state.count()
        };
        let path = files.binary();
        let written = files::replace(&path, &bytes);
        let mut state = self.state();
        let Some(state) = state.as_mut() else { return };
        let had_failed = std::mem::replace(&mut state.has_failed, written.is_err());
        match written {
            Ok(()) if had_failed => self.tell(state, 0, notice("views are saved again")),
            Ok(()) => {}
            Err(error) => {
                state.is_changed = true;
                if !had_failed {
                    let text = format!("views can't be saved: {}: {error}", path.display());
                    tracing::warn!(target: "control", "{text}");
                    self.tell(state, 0, notice(&text));
                }
            }
        }
    }

    /// Writes both files now.
    ///
    /// # Errors
    /// One of them could not be written: it is as it was.
    pub(crate) fn save(&self) -> Result<SavedViews, HttpError> {
        let Some(files) = &self.files else {
            return Err(HttpError::conflict(
                "there is no document to be saved".to_owned(),
            ));
        };
        let _one = self.saving.lock().expect("no panic while it is held");
        let (bytes, json) = {
            let mut state = self.state();
            if state.is_none() {
                *state = Some(self.open()?);
            }
            let state = state.as_mut().expect("it is open");
            (state.count(), state.to_json())
        };
        let (binary, text) = (files.binary(), files.json());
        for (path, bytes) in [(&binary, bytes.as_slice()), (&text, json.as_bytes())] {
            files::replace(path, bytes).map_err(|error| {
                HttpError::host(&path.display().to_string(), error)
                    .hint("the views are as they were in this file; they are not lost as long as the lab runs")
            })?;
        }
        Ok(SavedViews {
            views: binary.display().to_string(),
            json: text.display().to_string(),
        })
    }
}

impl State {
    fn new() -> State {
        let doc = Doc::with_options(Options {
            offset_kind: OffsetKind::Utf16,
            ..Options::default()
        });
        for part in update::MAPS {
            doc.get_or_insert_map(part);
        }
        doc.get_or_insert_text(update::NOTES);
        State {
            doc,
            bytes: 0,
            presence: Presence::default(),
            recent: Recent::default(),
            seats: 0,
            clients: 0,
            is_changed: false,
            is_scheduled: false,
            has_failed: false,
        }
    }

    /// With this update, which was checked, as its beginning.
    fn of(bytes: &[u8]) -> Option<State> {
        let mut state = State::new();
        let applied = catch_unwind(AssertUnwindSafe(|| state.apply(bytes)));
        applied.ok()?.ok()?;
        state.bytes = bytes.len();
        Some(state)
    }

    fn apply(&self, bytes: &[u8]) -> Result<(), String> {
        let read = Update::decode_v1(bytes).map_err(|error| error.to_string())?;
        let mut txn = self.doc.transact_mut();
        txn.apply_update(read).map_err(|error| error.to_string())
    }

    fn vector(&self) -> StateVector {
        self.doc.transact().state_vector()
    }

    fn since(&self, theirs: &StateVector) -> Vec<u8> {
        self.doc.transact().encode_state_as_update_v1(theirs)
    }

    /// The whole document, and from now on the bytes that it has.
    fn count(&mut self) -> Vec<u8> {
        let bytes = self.since(&StateVector::default());
        self.bytes = bytes.len();
        bytes
    }

    /// Whether an update fits in. One that only deletes does so for longer.
    fn has_room(&mut self, found: update::Found, more: usize) -> Result<(), Refusal> {
        let most = LARGEST + if found.adds { 0 } else { FOR_DELETIONS };
        if self.bytes + more > most {
            self.count();
            if self.bytes + more > most {
                let text =
                    "the views of this lab are full: 4 MiB are allowed. Erase something first";
                return Err(Refusal::TooLarge(text.to_owned()));
            }
        }
        Ok(())
    }

    fn to_json(&self) -> String {
        let txn = self.doc.transact();
        let mut parts = HashMap::new();
        for part in update::MAPS {
            let map = txn.get_map(part).map(|map| map.to_json(&txn));
            parts.insert(part.to_owned(), map.unwrap_or(Any::Null));
        }
        let notes = txn
            .get_text(update::NOTES)
            .map(|text| Any::from(text.get_string(&txn)));
        parts.insert(update::NOTES.to_owned(), notes.unwrap_or(Any::Null));
        files::to_json(&parts)
    }
}

impl Seat {
    /// What this client says: what it is answered.
    fn take(&self, bytes: &[u8]) -> Result<Option<Bytes>, Refusal> {
        self.views.take(self, bytes)
    }

    /// The next message of the others, as soon as there is one; all there is, if so many were missed. Nothing is lost if
    /// it is not waited for to the end.
    async fn told(&mut self) -> Vec<Bytes> {
        loop {
            let told = self.told_now();
            if !told.is_empty() {
                return told;
            }
            // The sender is as long there as this seat.
            let _ = self.news.changed().await;
        }
    }

    fn told_now(&mut self) -> Vec<Bytes> {
        let state = self.views.state();
        let Some(state) = state.as_ref() else {
            return Vec::new();
        };
        let Ok(told) = state.recent.next(self.number, &mut self.next) else {
            self.next = state.recent.end();
            return vec![
                sync(STEP_2, &state.since(&StateVector::default())),
                message(PRESENCE, &state.presence.all()),
            ];
        };
        told.into_iter().collect()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.views.state();
        let Some(state) = state.as_mut() else { return };
        state.clients -= 1;
        if let Some(told) = state.presence.leave(self.number) {
            self.views
                .tell(state, self.number, message(PRESENCE, &told));
        }
    }
}

fn message(kind: u64, body: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(body.len() + 8);
    put_number(&mut bytes, kind);
    put_bytes(&mut bytes, body);
    bytes.into()
}

fn sync(kind: u64, body: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(body.len() + 8);
    put_number(&mut bytes, SYNC);
    put_number(&mut bytes, kind);
    put_bytes(&mut bytes, body);
    bytes.into()
}

fn notice(text: &str) -> Bytes {
    message(NOTICE, text.as_bytes())
}

/// What a client is told before it is dropped for want of a role, as y-protocols' auth has it.
fn denied(text: &str) -> Bytes {
    let mut bytes = Vec::new();
    put_number(&mut bytes, DENIED);
    put_number(&mut bytes, 0);
    put_bytes(&mut bytes, text.as_bytes());
    bytes.into()
}

#[cfg(test)]
mod tests;
