//! What must hold in every run. One property, one file.
//!
//! A property sees a run as it goes: packets at wires' ends, calls of apps on sockets, moments at
//! which all machines wait, and the end. It is made anew for each schedule, before the first
//! packet; a run that is a fork of another one goes on with a copy of it. So it may have any state,
//! but must not reach outside of its process.
//!
//! To add one: a file here with a type that implements [`Property`], and a line in [`all`].

mod acks;
mod backoff;
pub(crate) mod claimed;
mod livelock;
mod memory;
mod opens;
mod outcome;
pub(crate) mod panic;
mod probes;
mod prompt;
mod reset;
mod sack;
mod socket;
mod spurious;
mod stall;
mod states;
mod storm;
mod stream;
mod timeout;
mod undo;
mod window;

use serde::{Deserialize, Serialize};

use crate::{AppCall, Ending, Packet, World};

/// How a run breaks a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The property's name.
    pub property: String,
    /// When, on the clock of the machines, ns.
    pub time: u64,
    /// Where.
    pub machine: String,
    /// What is wrong: a sentence or some, for users.
    pub what: String,
}

/// `Err`: the property does not hold. The run ends then.
pub type Check = Result<(), Violation>;

/// Something that holds in every run.
pub trait Property: Send {
    /// Its name, for `--property` and reports: one word.
    fn name(&self) -> &str;

    /// What must hold, with the RFC that says so: a sentence for users.
    fn says(&self) -> &'static str;

    /// A packet departs, arrives or is lost. What a deviation does to it comes after that.
    ///
    /// # Errors
    /// It does not hold.
    fn packet(&mut self, _world: &World, _packet: &Packet<'_>) -> Check {
        Ok(())
    }

    /// An app's call on a socket has returned.
    ///
    /// # Errors
    /// It does not hold.
    fn call(&mut self, _world: &World, _call: &AppCall<'_>) -> Check {
        Ok(())
    }

    /// All machines wait for a timer: [`World::connections`] may be asked, which takes some 20 µs.
    ///
    /// # Errors
    /// It does not hold.
    fn idle(&mut self, _world: &World) -> Check {
        Ok(())
    }

    /// The run is over.
    ///
    /// # Errors
    /// It does not hold.
    fn end(&mut self, _world: &World, _ending: &Ending) -> Check {
        Ok(())
    }

    /// A violation at this time.
    fn broken(&self, world: &World, machine: &str, what: impl Into<String>) -> Violation
    where
        Self: Sized,
    {
        Violation {
            property: self.name().to_owned(),
            time: world.now,
            machine: machine.to_owned(),
            what: what.into(),
        }
    }
}

/// All of them.
pub fn all() -> Vec<Box<dyn Property>> {
    vec![
        Box::<panic::NoPanic>::default(),
        Box::<stream::Stream>::default(),
        Box::<acks::Acks>::default(),
        Box::<storm::Storm>::default(),
        Box::<backoff::Backoff>::default(),
        Box::<timeout::Timeout>::default(),
        Box::<probes::Probes>::default(),
        Box::<prompt::Prompt>::default(),
        Box::<states::States>::default(),
        Box::<reset::Reset>::default(),
        Box::<window::Window>::default(),
        Box::<opens::Opens>::default(),
        Box::<sack::Sack>::default(),
        Box::<undo::Undo>::default(),
        Box::<spurious::Spurious>::default(),
        Box::<livelock::Livelock>::default(),
        Box::<stall::Stall>::default(),
        Box::<memory::Memory>::default(),
        Box::<outcome::Outcome>::default(),
    ]
}

/// What the property of this name says; nothing, if there is none.
pub fn says(name: &str) -> &'static str {
    let all = all();
    let found = all.iter().find(|property| property.name() == name);
    found.map_or("", |property| property.says())
}
