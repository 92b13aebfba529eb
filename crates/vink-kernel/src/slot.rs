//! The host's side of one task: its call's memory, or the fiber that it is.

use std::cell::Cell;

use vink_abi::{
    VINK_CALL_DONE, VINK_CALL_IDLE, VINK_CALL_RUNNING, VINK_FLAG_CREDIT, VINK_FLAG_DEFERRED,
    VINK_FLAG_POLL,
};

use crate::fiber::Body;
use crate::numbered::Numbered;
use crate::task::{Call, Outcome, SendMode, TaskId};

/// Slots by task.
pub(crate) type Slots = Numbered<TaskId, Slot>;

/// A task that is not gone yet.
pub(crate) enum Slot {
    /// System calls come from outside.
    Remote(Remote),
    /// The host function that it is.
    Fiber(Body),
}

/// A remote task.
pub(crate) struct Remote {
    /// The image's number for it.
    pub image_id: u64,
    /// At a stable address: the image uses it while it is running.
    call: Box<Cell<vink_abi::Call>>,
    /// It was told to exit and takes no more calls.
    pub exiting: bool,
}

/// Where a remote task's call stands.
#[derive(PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Running,
    Done,
}

impl Remote {
    pub fn new(image_id: u64) -> Remote {
        Remote {
            image_id,
            call: Box::default(),
            exiting: false,
        }
    }

    pub fn state(&self) -> State {
        match self.call.get().state {
            VINK_CALL_RUNNING => State::Running,
            VINK_CALL_DONE => State::Done,
            _ => State::Idle,
        }
    }

    /// Writes a call that is not running; the pointer is for vink_call_start().
    pub fn prepare(&mut self, task: TaskId, call: &Call, flags: u32) -> *mut vink_abi::Call {
        assert!(
            self.state() != State::Running,
            "the call belongs to the image"
        );
        // The rest the image writes; and it reads at once, which is slow from lines that were just
        // copied.
        let own = self.call.get_mut();
        // A number outside 32 bits is no system call, nor are its low bits, then.
        own.nr = u32::try_from(call.nr).unwrap_or(u32::MAX);
        let send_mode = match call.send_mode {
            SendMode::Ordinary => 0,
            SendMode::ReportCredit => VINK_FLAG_CREDIT,
            SendMode::Deferred => VINK_FLAG_CREDIT | VINK_FLAG_DEFERRED,
        };
        own.flags = match call.poll_fd {
            Some(_) => flags | send_mode | VINK_FLAG_POLL,
            None => flags | send_mode,
        };
        own.args = call.args;
        own.space = call.space;
        own.cookie = task.0;
        own.poll_fd = call.poll_fd.unwrap_or(-1);
        self.call.as_ptr()
    }

    /// Takes the outcome if the call is done.
    pub fn take(&mut self) -> Option<Outcome> {
        if self.state() != State::Done {
            return None;
        }
        let call = self.call.get_mut();
        call.state = VINK_CALL_IDLE;
        Some(Outcome {
            result: call.result,
            signals: call.signals,
            restart: call.flags & vink_abi::VINK_FLAG_RESTART != 0,
            events: (call.flags & VINK_FLAG_POLL != 0).then_some(call.events),
            credit: (call.flags & VINK_FLAG_CREDIT != 0).then_some(call.credit),
        })
    }
}
