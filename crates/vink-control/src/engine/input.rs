//! What clients give programs. Of a lab that is recorded it is written down, and given at a time
//! when the lab has nothing left to do: as `vink replay` gives it again.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use vink_api::{Input, ProgramInput, Role, Size};
use vink_protocol::{Action, Noted};
use vink_record::Typed;
use vink_sys::poll;

use super::clock::Requester;
use super::lab::Lab;
use super::terminal::Pipe;
use crate::host::HostLink;
use crate::http_error::HttpError;

/// Bytes that are given to a pipe at once: as much as has room when there is any (`PIPE_BUF`).
const PIPE_PIECE: usize = 4096;
/// To a terminal: what it keeps of a line that is not read yet is not much more.
const TERMINAL_PIECE: usize = 1024;
/// What ends the input of a terminal.
const END_OF_FILE: u8 = 4;

/// Where a program's input goes.
#[derive(Clone)]
pub(crate) struct InputEnd {
    pub(crate) to: Arc<Pipe>,
    pub(crate) is_terminal: bool,
    /// The host of its machine, if that is another one.
    pub(crate) there: Option<Arc<HostLink>>,
}

/// The client that gives it.
#[derive(Clone)]
pub(crate) struct Giver {
    pub(crate) requester: Requester,
    /// Its user.
    pub(crate) actor: Arc<str>,
    /// What it may do.
    pub(crate) role: Role,
}

impl Giver {
    /// A line of the lab's own.
    pub(crate) fn line() -> Giver {
        Giver {
            requester: Requester::Line,
            actor: "".into(),
            role: Role::Own,
        }
    }
}

impl InputEnd {
    /// All of it, as soon as there is room.
    async fn give(&self, input: &Input) -> bool {
        match input {
            Input::Bytes(bytes) => self.to.write(bytes).await.is_ok(),
            // A pipe is closed.
            Input::End => self.is_terminal && self.to.write(&[END_OF_FILE]).await.is_ok(),
            Input::Resize(size) => {
                self.resize(*size);
                true
            }
            Input::Signal(_) | Input::Keyboard(_) => true,
        }
    }

    fn resize(&self, size: Size) {
        if self.is_terminal {
            let _ = self.to.resize(size);
            if let Some(link) = &self.there {
                self.to.resize_there(link, size);
            }
        }
    }

    /// As much as has room: what a full terminal does not take is lost, as it is from a keyboard.
    fn give_now(&self, typed: &Typed) -> bool {
        match typed {
            Typed::Bytes(bytes) => self.to.write_now(bytes).is_ok(),
            Typed::End => self.is_terminal && self.to.write_now(&[END_OF_FILE]).is_ok(),
            Typed::Resize { rows, columns } => {
                let (rows, columns) = (*rows, *columns);
                self.resize(Size { rows, columns });
                true
            }
            Typed::Signal(_) | Typed::Gone => true,
        }
    }
}

impl Pipe {
    fn write_now(&self, bytes: &[u8]) -> io::Result<()> {
        match vink_sys::rustix::io::write(self.descriptor(), bytes) {
            Ok(_) | Err(vink_sys::rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What was written to a terminal has come to its other side, with the signal that it is. The
    /// host carries it there in its own time, unless the other side is looked at: n_tty_poll().
    fn settle(&self) {
        if let Ok(slave) = vink_sys::terminal::slave_of(self.descriptor()) {
            poll::events_of(slave.as_raw_fd(), libc::POLLIN, 0);
        }
    }
}

impl Lab {
    /// `POST .../programs/ID/input`: answers when the program has it.
    pub(crate) async fn input(
        self: &Arc<Lab>,
        id: u64,
        input: ProgramInput,
        giver: &Giver,
    ) -> Result<(), HttpError> {
        let input = match input {
            ProgramInput::Text(text) => Input::Bytes(text.into()),
            ProgramInput::Bytes(bytes) => Input::Bytes(bytes.into()),
            ProgramInput::End => Input::End,
            ProgramInput::Resize(size) => Input::Resize(size),
            ProgramInput::Signal(signal) => Input::Signal(signal),
            ProgramInput::HangUp => {
                self.client_gone(id, giver).await;
                return Ok(());
            }
        };
        if self.input_of(id).is_none() && !matches!(input, Input::Signal(_)) {
            return Err(HttpError::conflict(format!(
                "program {id} takes no input, or no more"
            ))
            .hint(
                "one with \"attach\" and \"input\" or \"terminal\" does, from when its client has come",
            ));
        }
        self.give(id, input, giver).await;
        Ok(())
    }

    fn input_of(&self, id: u64) -> Option<InputEnd> {
        let state = self.state();
        state.tasks.get(&id).and_then(|task| task.input.clone())
    }

    /// Gives a program something of its client's. One that reads no more is given nothing.
    pub(crate) async fn give(self: &Arc<Lab>, id: u64, input: Input, giver: &Giver) {
        let mut to = self.input_of(id);
        if !self.give_to(id, &mut to, input, giver).await {
            self.close_input(id, &mut to);
        }
    }

    /// Nothing more goes there: a pipe is closed.
    fn close_input(&self, id: u64, to: &mut Option<InputEnd>) {
        *to = None;
        if let Some(task) = self.state().tasks.get_mut(&id) {
            task.input = None;
        }
    }

    /// `false`: nothing more goes there.
    async fn give_to(
        self: &Arc<Lab>,
        id: u64,
        to: &mut Option<InputEnd>,
        input: Input,
        giver: &Giver,
    ) -> bool {
        if !self.records_inputs(giver.requester) {
            return match (input, &*to) {
                (Input::Signal(signal), _) => {
                    // It may just have ended.
                    let _ = self.signal(id, signal).await;
                    true
                }
                (input, Some(to)) => to.give(&input).await,
                (_, None) => true,
            };
        }
        let piece = match &to {
            Some(to) if to.is_terminal => TERMINAL_PIECE,
            _ => PIPE_PIECE,
        };
        match input {
            Input::Bytes(bytes) => {
                for bytes in bytes.chunks(piece) {
                    if !self
                        .give_in_turn(id, to, Typed::Bytes(bytes.to_vec()), giver)
                        .await
                    {
                        return false;
                    }
                }
                true
            }
            Input::End => self.give_in_turn(id, to, Typed::End, giver).await,
            Input::Resize(Size { rows, columns }) => {
                self.give_in_turn(id, to, Typed::Resize { rows, columns }, giver)
                    .await
            }
            Input::Signal(signal) => {
                self.give_in_turn(id, to, Typed::Signal(signal), giver)
                    .await
            }
            Input::Keyboard(_) => true,
        }
    }

    /// A program's client has gone: the program is ended.
    pub(crate) async fn client_gone(self: &Arc<Lab>, id: u64, giver: &Giver) {
        if self.records_inputs(giver.requester) {
            self.give_in_turn(id, &mut None, Typed::Gone, giver).await;
        } else {
            // It may have ended meanwhile.
            let _ = self.end_program(id).await;
        }
    }

    async fn give_in_turn(
        self: &Arc<Lab>,
        id: u64,
        to: &mut Option<InputEnd>,
        typed: Typed,
        giver: &Giver,
    ) -> bool {
        if to.is_none() && !matches!(typed, Typed::Signal(_) | Typed::Gone) {
            return true;
        }
        loop {
            if let (Some(to), Typed::Bytes(_)) = (&*to, &typed) {
                if to.to.writable().await.is_err() {
                    return false;
                }
            }
            let given = self.in_turn(self.give_noted(id, to, &typed, giver)).await;
            if let Some(given) = given {
                return given;
            }
        }
    }

    /// `None`: there is no room any more.
    async fn give_noted(
        self: &Arc<Lab>,
        id: u64,
        to: &mut Option<InputEnd>,
        typed: &Typed,
        giver: &Giver,
    ) -> Option<bool> {
        if let (Some(to), Typed::Bytes(_)) = (&*to, typed) {
            if !to.to.has_room() {
                return None;
            }
        }
        let machine = {
            let state = self.state();
            let task = state.tasks.get(&id).filter(|task| task.is_running());
            match task {
                Some(task) => task.machine.clone(),
                // Nothing is done to it any more.
                None => return Some(false),
            }
        };
        self.note(Noted::Input {
            program: id,
            machine,
            actor: giver.actor.to_string(),
            typed: typed.clone(),
        })
        .await;
        let goes_on = match (typed, &*to) {
            (Typed::Signal(signal), _) => {
                let _ = self.signal(id, *signal).await;
                true
            }
            (Typed::Gone, _) => {
                let _ = self.end_program(id).await;
                true
            }
            (typed, Some(to)) => {
                let goes_on = to.give_now(typed);
                if to.is_terminal {
                    to.to.settle();
                }
                goes_on
            }
            (_, None) => true,
        };
        if !goes_on {
            self.close_input(id, to);
        }
        // One that has died has nothing to look for.
        let _ = self.have(0, Action::Stir, Vec::new()).await;
        Some(goes_on)
    }
}
