//! What a lab is: machines, wires, programs and events as plain data, in the words of the lab file,
//! and how such a file is read, checked, written, drawn and made of others.
//!
//! Nothing here runs anything. The names of keys are those of the file and of the control API
//! alike.

mod block;
mod breakpoint;
mod calls;
mod check;
mod claim;
mod core;
mod diagnostic;
mod diff;
mod draw;
mod ethernet;
mod event;
mod file;
mod folder;
mod generate;
mod host;
mod import;
mod lab;
mod look;
mod machine;
mod node;
mod pod;
mod program;
mod read;
mod relay;
mod rights;
mod ruleset;
mod schema;
mod series;
mod share;
mod source;
mod switch;
mod template;
mod time;
mod unit;
mod uplink;
mod wire;
mod write;
mod yaml;

pub use breakpoint::{Breakpoint, Point, Stop, WORDS as BREAKPOINT_WORDS};
pub use calls::Calls;
pub use check::{mac_bytes, memory_bytes, LabDiagnostic};
pub use claim::{Claim, Comparison, Operator, Term};
pub use core::Core;
pub use diagnostic::{nearest, Diagnostic, Diagnostics, SourceSpan};
pub use diff::{diff, Change, Options};
pub use ethernet::EthernetAddress;
pub use event::Event;
pub use file::{open_file, read_file, read_most, read_text_file, LARGEST_FILE};
pub use folder::{app_words, inside, PathError};
pub use host::HostSpec;
pub use import::{import, Format, ImportOptions, Imported};
pub use lab::{Lab, WireSpec};
pub use look::{cycle, named_by, order, Program, WireEnds};
pub use machine::{FileSpec, Interface, MachineSpec, Route, Scalar};
pub use pod::{OnFault, PathPoint, PathSpec, PodSpec, Wall};
pub use program::{Command, ProgramSpec, Readiness, Ready, Restart};
pub use relay::{RelayProtocol, RelaySpec};
pub use rights::Rights;
pub use ruleset::{nft_messages, Ruleset, RulesetError, RulesetTable, WITH_SBIN};
pub use schema::schema;
pub use series::{
    handle, Growth, Quantity, SampleEvent, Series, Source, INTERFACE_NUMBERS, QDISC_NUMBERS,
    WIRE_NUMBERS,
};
pub use share::{ShareGrant, ShareSpec, TransportPort};
pub use source::{check_lab, read, read_and, read_json, read_text, read_text_and, Reading};
pub use switch::{
    derived_mac, port_name, port_wire, AtSwitch, Bridge, Port, PortOf, PortSpec, SourceAddress,
    SwitchSpec,
};
pub use time::{Factor, Time, Virtual};
pub use unit::{size, Rate, Share, Span, UnitError};
pub use uplink::{Driver, Uplink, UplinkError};
pub use wire::{Burst, Settings};
