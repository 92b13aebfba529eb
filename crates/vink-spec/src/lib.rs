//! What a lab is: machines, wires, programs and events as plain data, in the words of the lab file.
//!
//! Nothing here runs anything. The names of keys are those of the file and of the control API alike.

mod diff;
mod event;
mod lab;
mod look;
mod machine;
mod program;
mod unit;
mod uplink;
mod wire;

pub use diff::{diff, Change, Options};
pub use event::Event;
pub use lab::{Lab, Time, WireSpec};
pub use look::{cycle, named_by, order, Program};
pub use machine::{FileSpec, Interface, MachineSpec, Route, Scalar};
pub use program::{Command, ProgramSpec, Ready, Restart};
pub use unit::{BadUnit, Rate, Share, Span};
pub use uplink::Uplink;
pub use wire::{Burst, Settings};
