//! What a lab is: machines, wires, programs and events as plain data, in the words of the lab file,
//! and how such a file is read, checked, written, drawn and made of others.
//!
//! Nothing here runs anything. The names of keys are those of the file and of the control API
//! alike.

pub mod as_written;
mod block;
mod breakpoint;
mod bridge;
mod calls;
mod change;
mod check;
mod claim;
mod core;
mod diagnostic;
mod draw;
mod ethernet;
mod event;
mod file;
mod file_spec;
mod filter;
mod folder;
mod generate;
mod host;
mod import;
mod interface;
mod lab;
mod look;
mod machine;
mod named;
mod node;
mod options;
mod pod;
mod port;
mod program;
mod read;
mod relay;
mod rights;
mod route;
mod ruleset;
mod schema;
mod series;
mod share;
mod source;
mod switch;
mod sysctl;
mod template;
mod time;
mod unit;
mod uplink;
mod wire;
mod write;
mod yaml;

pub use breakpoint::{Breakpoint, Point, Stop, WORDS as BREAKPOINT_WORDS};
pub use bridge::{Bridge, Port, SwitchChange};
pub use calls::Calls;
pub use change::{diff, Change};
pub use check::LabDiagnostic;
pub use claim::{Claim, Comparison, Operator, Term};
pub use core::Core;
pub use diagnostic::{nearest, Diagnostic, Diagnostics, SourceSpan};
pub use ethernet::{mac_bytes, EthernetAddress};
pub use event::{Event, EventsChange};
pub use file::{open_file, read_file, read_most, read_text_file, LARGEST_FILE};
pub use file_spec::{FileChange, FileSpec};
pub use filter::FilterChange;
pub use folder::{app_words, inside, PathError};
pub use host::HostSpec;
pub use import::{import, Format, ImportOptions, Imported};
pub use interface::{Interface, InterfaceChange};
pub use lab::Lab;
pub use look::{cycle, named_by, order, Program, WireEnds};
pub use machine::{MachineChange, MachineSpec};
pub use named::NamedChange;
pub use options::Options;
pub use pod::{OnFault, PathPoint, PathSpec, PodSpec, Wall};
pub use port::{port_name, port_wire, AtSwitch, PortOf, PortSpec, SourceAddress};
pub use program::{Command, ProgramChange, ProgramSpec, Readiness, Ready, Restart};
pub use relay::{RelayProtocol, RelaySpec};
pub use rights::Rights;
pub use route::{Route, RoutesChange};
pub use ruleset::{nft_messages, Ruleset, RulesetError, RulesetTable, WITH_SBIN};
pub use schema::schema;
pub use series::{
    handle, Growth, Quantity, SampleEvent, Series, Source, INTERFACE_NUMBERS, QDISC_NUMBERS,
    WIRE_NUMBERS,
};
pub use share::{ShareGrant, ShareSpec, TransportPort};
pub use source::{check_lab, read, read_and, read_json, read_text, read_text_and, Reading};
pub use switch::{derived_mac, SwitchSpec};
pub use sysctl::{Scalar, SysctlChange};
pub use time::{Factor, Time, Virtual};
pub use unit::{memory_bytes, size, Rate, Share, Span, UnitError};
pub use uplink::{Driver, Uplink, UplinkChange, UplinkError};
pub use wire::{Burst, Settings, WireChange, WireSpec};
