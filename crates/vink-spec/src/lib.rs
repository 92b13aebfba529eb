//! What a lab is: machines, wires, programs and events as plain data, in the words of the lab file, and how such a file
//! is read, checked, written, drawn and made of others.
//!
//! Nothing here runs anything. The names of keys are those of the file and of the control API alike.

mod block;
mod breakpoint;
mod check;
mod diff;
mod draw;
mod event;
mod folder;
mod generate;
mod import;
mod lab;
mod look;
mod machine;
mod mistake;
mod node;
mod program;
mod read;
mod schema;
mod series;
mod source;
mod time;
mod unit;
mod uplink;
mod wire;
mod write;
mod yaml;

pub use breakpoint::{Breakpoint, Point, Stop, WORDS as BREAKPOINT_WORDS};
pub use check::{mac_bytes, memory_bytes};
pub use diff::{diff, Change, Options};
pub use event::Event;
pub use folder::{inside, BadPath};
pub use import::{import, Format, ImportOptions, Imported};
pub use lab::{Lab, WireSpec};
pub use look::{cycle, named_by, order, Program};
pub use machine::{FileSpec, Interface, MachineSpec, Route, Scalar};
pub use mistake::{Mistake, Mistakes, Place};
pub use program::{Command, ProgramSpec, Ready, Restart};
pub use schema::schema;
pub use series::{
    handle, Growth, Moment, Quantity, Series, Source, INTERFACE_NUMBERS, QDISC_NUMBERS,
    WIRE_NUMBERS,
};
pub use source::{check_lab, read, read_json, read_text, Reading};
pub use time::{Factor, Time, Virtual};
pub use unit::{size, BadUnit, Rate, Share, Span};
pub use uplink::{BadUplink, Uplink};
pub use wire::{Burst, Settings};
