//! Terminals that are the lab's: the program goes on without a client, and clients come and go.
//!
//! What a terminal has written last is kept. Each client reads it at a pace of its own, so that
//! neither the program nor another client waits for it, and is told how much it has missed. One
//! client at a time has the keyboard.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use vink_api::{
    Bytes, FromServer, Happening, Input, KeptTerminal, NewProgram, Problem, Role, Size, STDOUT,
};

use super::clock::Requester;
use super::input::Giver;
use super::lab::{is_over, Lab, ASKED_BY};
use super::program::Phase;
use super::terminal::{pump, FromProgram, ATTACH_TIMEOUT, PIECE, PIECES};
use crate::http_error::HttpError;

/// Bytes of output that are kept.
const KEPT: usize = 256 << 10;
/// What was cut off at the front is likely to be in the middle of something: it is read from the
/// next line on, if that begins within so many bytes.
const LONGEST_LINE: usize = 4096;
/// Messages of a client that wait for its program to read.
const WAITING: usize = 64;

/// A terminal.
pub(crate) struct Kept {
    /// The user that has made it.
    actor: Arc<str>,
    state: Mutex<State>,
    /// Told of all that changes.
    news: watch::Sender<()>,
}

struct State {
    size: Size,
    /// The last that was written, and how much was written in all.
    bytes: VecDeque<u8>,
    written: u64,
    /// Nothing more comes.
    is_over: bool,
    viewers: BTreeMap<u64, Viewer>,
    /// The viewer that has it.
    keyboard: Option<u64>,
    /// The next viewer's number.
    next: u64,
    /// Counts what is told by [`FromServer::Terminal`].
    revision: u64,
}

struct Viewer {
    actor: Arc<str>,
    /// Of its window, if it has said so.
    size: Option<Size>,
}

/// How far a viewer is.
struct Place {
    viewer: u64,
    /// The first byte that it has not read.
    at: u64,
    /// What was written before it came; questions in there were for others.
    past: u64,
    /// What it knows of the terminal.
    revision: u64,
}

impl Kept {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }

    fn write(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.bytes.extend(bytes);
        let over = state.bytes.len().saturating_sub(KEPT);
        state.bytes.drain(..over);
        state.written += bytes.len() as u64;
        drop(state);
        self.news.send_replace(());
    }

    fn end(&self) {
        self.state().is_over = true;
        self.news.send_replace(());
    }

    /// Something of what [`FromServer::Terminal`] tells is another.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        state.revision += 1;
        drop(state);
        self.news.send_replace(());
    }

    fn enter(&self, actor: &Arc<str>) -> Place {
        let mut place = None;
        self.change(|state| {
            let (actor, size) = (actor.clone(), None);
            let viewer = state.next;
            state.next += 1;
            state.viewers.insert(viewer, Viewer { actor, size });
            place = Some(Place {
                viewer,
                at: state.begins_at(),
                past: if viewer == 0 { 0 } else { state.written },
                revision: 0,
            });
        });
        place.expect("just made")
    }

    /// What a viewer is told next; `None`: there is nothing new.
    fn next(&self, place: &mut Place) -> Option<FromProgram> {
        let state = self.state();
        if place.revision != state.revision {
            place.revision = state.revision;
            return Some(FromProgram::Told(state.told_to(place.viewer)));
        }
        let oldest = state.written - state.bytes.len() as u64;
        if place.at < oldest {
            let bytes = state.begins_at() - place.at;
            place.at += bytes;
            return Some(FromProgram::Told(FromServer::Missed { bytes }));
        }
        let from = (place.at - oldest) as usize;
        let count = (state.bytes.len() - from).min(PIECE);
        if count == 0 {
            return None;
        }
        let past = place.past.saturating_sub(place.at).min(count as u64) as usize;
        let piece = |from, to| state.bytes.range(from..to).copied().collect::<Vec<u8>>();
        let mut frame = vec![STDOUT];
        frame.extend(without_questions(&piece(from, from + past)));
        frame.extend(piece(from + past, from + count));
        place.at += count as u64;
        Some(FromProgram::Frame(frame.into()))
    }

    fn has_keyboard(&self, viewer: u64) -> bool {
        self.state().keyboard == Some(viewer)
    }
}

impl State {
    /// Where the kept output begins.
    fn begins_at(&self) -> u64 {
        let oldest = self.written - self.bytes.len() as u64;
        if oldest == 0 {
            return 0;
        }
        let mut first = self.bytes.iter().take(LONGEST_LINE);
        let line = first.position(|byte| *byte == b'\n');
        oldest + line.map_or(0, |line| line as u64 + 1)
    }

    fn holder(&self) -> Option<String> {
        let viewer = self.viewers.get(&self.keyboard?)?;
        Some(viewer.actor.to_string())
    }

    fn names(&self) -> Vec<String> {
        let viewers = self.viewers.values();
        viewers.map(|viewer| viewer.actor.to_string()).collect()
    }

    fn told_to(&self, viewer: u64) -> FromServer {
        FromServer::Terminal {
            size: self.size,
            viewers: self.names(),
            keyboard: self.holder(),
            yours: self.keyboard == Some(viewer),
        }
    }
}

/// A viewer, until it goes.
struct Seat {
    lab: Arc<Lab>,
    program: u64,
    kept: Arc<Kept>,
    viewer: u64,
}

impl Seat {
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.kept.change(change);
        self.lab.tell_terminal(self.program, &self.kept);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.change(|state| {
            state.viewers.remove(&self.viewer);
            state.keyboard = state.keyboard.filter(|viewer| *viewer != self.viewer);
        });
    }
}

impl Lab {
    /// Starts a program whose terminal is kept.
    pub(crate) async fn start_kept(
        self: &Arc<Lab>,
        id: u64,
        new: &NewProgram,
    ) -> Result<(), HttpError> {
        let kept = Arc::new(Kept {
            actor: ASKED_BY.try_with(Arc::clone).unwrap_or_else(|_| "".into()),
            state: Mutex::new(State {
                size: new.terminal.unwrap_or_default(),
                bytes: VecDeque::new(),
                written: 0,
                is_over: false,
                viewers: BTreeMap::new(),
                keyboard: None,
                next: 0,
                revision: 1,
            }),
            news: watch::Sender::new(()),
        });
        let phase = {
            let mut state = self.state();
            let task = state.tasks.get_mut(&id);
            let task = task.ok_or_else(|| HttpError::conflict("its machine was removed"))?;
            task.kept = Some(kept.clone());
            task.phase.subscribe()
        };
        let (start, outputs) = self.attached(id, new, Requester::Client)?;
        start.await?;
        let (pieces, mut coming) = mpsc::channel::<Bytes>(PIECES);
        for (channel, output) in outputs {
            tokio::spawn(pump(channel, output, pieces.clone(), phase.clone()));
        }
        drop(pieces);
        let lab = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(piece) = coming.recv().await {
                kept.write(&piece[1..]);
            }
            kept.end();
            // A client that comes late still sees what was written.
            tokio::time::sleep(ATTACH_TIMEOUT).await;
            if let Some(lab) = lab.upgrade() {
                if let Some(task) = lab.state().tasks.get_mut(&id) {
                    task.kept = None;
                }
            }
        });
        Ok(())
    }

    /// Whether a program's terminal is kept.
    pub(crate) fn is_kept(&self, id: u64) -> bool {
        let state = self.state();
        state.tasks.get(&id).is_some_and(|task| task.kept.is_some())
    }

    /// `GET .../terminals`: those of programs that run.
    pub(crate) fn terminals(&self) -> Vec<KeptTerminal> {
        let state = self.state();
        let running = state.tasks.iter().filter(|(_, task)| task.is_running());
        running
            .filter_map(|(id, task)| {
                let kept = task.kept.as_ref()?;
                let terminal = kept.state();
                Some(KeptTerminal {
                    program: *id,
                    machine: task.machine.clone(),
                    words: task.words.clone(),
                    actor: kept.actor.to_string(),
                    size: terminal.size,
                    viewers: terminal.names(),
                    keyboard: terminal.holder(),
                })
            })
            .collect()
    }

    /// Tells of its viewers. The clock runs for a program while a client types to it.
    fn tell_terminal(&self, id: u64, kept: &Kept) {
        let mut state = self.state();
        let Some(task) = state.tasks.get_mut(&id) else {
            return;
        };
        let terminal = kept.state();
        task.awaited_by = terminal.keyboard.map(|_| Requester::Client);
        self.tell(Happening::Terminal {
            program: id,
            machine: task.machine.clone(),
            viewers: terminal.viewers.len(),
            keyboard: terminal.holder(),
        });
        drop(terminal);
        state.schedule();
    }

    /// Shows a kept terminal to a client, and carries what it types while it has the keyboard,
    /// until the program ends or the client, on which `inputs` end, has gone.
    pub(crate) async fn look_at(
        self: Arc<Lab>,
        id: u64,
        kept: Arc<Kept>,
        giver: Giver,
        sink: impl Sink<FromProgram>,
        inputs: impl Stream<Item = Input>,
    ) {
        let mut sink = pin!(sink);
        let Some(mut phase) = self.phase(id) else {
            return;
        };
        let mut news = kept.news.subscribe();
        let mut place = kept.enter(&giver.actor);
        let seat = Seat {
            lab: self.clone(),
            program: id,
            kept: kept.clone(),
            viewer: place.viewer,
        };
        self.tell_terminal(id, &kept);
        let (refuse, mut refused) = mpsc::channel(1);
        let hearing = self.clone().hear_viewer(&seat, giver, inputs, refuse);
        let showing = async {
            loop {
                if let Some(told) = kept.next(&mut place) {
                    sink.send(told).await.map_err(drop)?;
                    continue;
                }
                if kept.state().is_over {
                    break;
                }
                tokio::select! {
                    _ = news.changed() => {}
                    Some(problem) = refused.recv() => {
                        let told = FromProgram::Told(FromServer::Refused(problem));
                        sink.send(told).await.map_err(drop)?;
                    }
                }
            }
            let over = phase.wait_for(is_over).await.map(|phase| phase.clone());
            if let Ok(Phase::Ended { code, .. }) = over {
                let error = {
                    let state = self.state();
                    state.tasks.get(&id).and_then(|task| task.error.clone())
                };
                let ended = FromProgram::Told(FromServer::Ended { code, error });
                sink.send(ended).await.map_err(drop)?;
            }
            sink.close().await.map_err(drop)
        };
        tokio::select! {
            _ = showing => {}
            () = hearing => {}
        }
    }

    /// What a viewer says; ends when it has gone.
    async fn hear_viewer(
        self: Arc<Lab>,
        seat: &Seat,
        giver: Giver,
        inputs: impl Stream<Item = Input>,
        refuse: mpsc::Sender<Problem>,
    ) {
        let mut inputs = pin!(inputs);
        let id = seat.program;
        // What was typed before the client went is given, and one whose program reads nothing is
        // seen to go.
        let (typed, mut giving) = mpsc::channel(WAITING);
        let may_type = giver.role >= Role::Operate;
        tokio::spawn(async move {
            while let Some(input) = giving.recv().await {
                self.give(id, input, &giver).await;
            }
        });
        while let Some(input) = inputs.next().await {
            let is_holder = seat.kept.has_keyboard(seat.viewer);
            let input = match input {
                Input::Keyboard(true) if !may_type => {
                    let _ = refuse.try_send(Problem {
                        error: "this needs the role operate".to_owned(),
                        ..Problem::default()
                    });
                    continue;
                }
                Input::Keyboard(true) => {
                    let mut size = None;
                    seat.change(|state| {
                        state.keyboard = Some(seat.viewer);
                        let own = state.viewers.get(&seat.viewer).and_then(|own| own.size);
                        size = own.filter(|own| *own != state.size);
                        state.size = size.unwrap_or(state.size);
                    });
                    size.map(Input::Resize)
                }
                Input::Keyboard(false) => {
                    if is_holder {
                        seat.change(|state| state.keyboard = None);
                    }
                    None
                }
                Input::Resize(size) => {
                    let mut is_other = false;
                    seat.kept.change(|state| {
                        if let Some(own) = state.viewers.get_mut(&seat.viewer) {
                            own.size = Some(size);
                        }
                        is_other = is_holder && state.size != size;
                        if is_other {
                            state.size = size;
                        }
                    });
                    is_other.then_some(Input::Resize(size))
                }
                input => is_holder.then_some(input),
            };
            if let Some(input) = input {
                // If the program reads no more, the client is told by its end.
                let _ = typed.send(input).await;
            }
        }
    }
}

/// Output without what a terminal answers by itself: a client that is shown it later would answer
/// once more. See ECMA-48 and ctlseqs of xterm(1).
fn without_questions(output: &[u8]) -> Vec<u8> {
    const ENQUIRY: u8 = 5;
    const ESCAPE: u8 = 0x1b;
    let mut kept = Vec::with_capacity(output.len());
    let mut rest = output;
    while let Some((&first, after)) = rest.split_first() {
        let (length, is_question) = match (first, after.first()) {
            (ENQUIRY, _) => (1, true),
            (ESCAPE, Some(b'Z')) => (2, true),
            (ESCAPE, Some(b'[')) => {
                let body = &after[1..];
                let end = body.iter().position(|byte| (0x40..0x7f).contains(byte));
                let Some(end) = end else {
                    kept.extend(rest);
                    break;
                };
                let (words, end) = (&body[..end], body[end]);
                let number = std::str::from_utf8(words).unwrap_or_default();
                let number = number.split(';').next().and_then(|word| word.parse().ok());
                let is_question = match end {
                    b'c' | b'n' | b'x' => true,
                    b'p' => words.ends_with(b"$"),
                    b'q' => words.starts_with(b">"),
                    b'u' => words.starts_with(b"?"),
                    b't' => number.is_some_and(|number: u32| (11..=21).contains(&number)),
                    _ => false,
                };
                (3 + words.len(), is_question)
            }
            (ESCAPE, Some(kind @ (b']' | b'P'))) => {
                let body = &after[1..];
                let end = body.iter().position(|byte| [7, ESCAPE].contains(byte));
                let Some(end) = end else {
                    kept.extend(rest);
                    break;
                };
                let words = &body[..end];
                let is_question = match kind {
                    b']' => words.split(|byte| *byte == b';').any(|word| word == b"?"),
                    _ => words.starts_with(b"$q") || words.starts_with(b"+q"),
                };
                let closed = match body[end] {
                    ESCAPE if body.get(end + 1) == Some(&b'\\') => 2,
                    ESCAPE => 0,
                    _ => 1,
                };
                (2 + end + closed, is_question)
            }
            _ => (1, false),
        };
        let (sequence, after) = rest.split_at(length);
        if !is_question {
            kept.extend(sequence);
        }
        rest = after;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_left_away_and_nothing_else_is() {
        let asked = "\x1b[c\x1b[>0c\x1b[6n\x1b[?2026$p\x1b[>q\x1b[?u\x1b[18t\x1bZ\x05\
                     \x1b]11;?\x07\x1b]4;1;?\x1b\\\x1bP$qm\x1b\\\x1bP+q544e\x1b\\";
        assert_eq!(without_questions(asked.as_bytes()), b"");
        let plain = "a\x1b[1;31mb\x1b[0m\x1b[2J\x1b]0;a title?\x07\x1b[22;0t\x1b[!p\x1b[2 q\x1b[u\u{e9}\r\n\
                     \x1bP1$r0m\x1b\\\x1b[1";
        let kept = without_questions(plain.as_bytes());
        assert_eq!(String::from_utf8_lossy(&kept), plain);
    }
}
