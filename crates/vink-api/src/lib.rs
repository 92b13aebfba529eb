//! The control API of Vink: what is asked of the control process and what it answers, as plain
//! data, and a client.
//!
//! HTTP/1.1 with JSON below `/v1`, and WebSockets for what goes on. Keys are those of the lab file.
//! The control process serves a description of all this (OpenAPI 3.1) at `/v1/openapi.json`;
//! docs/api.md is an introduction.

mod breakpoint;
mod capture;
mod client;
mod clock;
mod error;
mod event;
mod explored;
mod feed;
mod file;
mod filter;
mod host;
mod http;
mod lab;
mod lab_api;
mod machine;
mod pod;
mod program;
mod relay;
mod run;
mod runtime_dir;
mod sample;
mod series;
mod session;
mod socket;
mod start;
mod statistics;
mod terminal;
mod topology;
mod views;
mod wire;

pub use breakpoint::{Breakpoint, Breakpoints, ChangeBreakpoint, NewBreakpoint, PacketVerdict};
pub use capture::{
    Capture, CaptureQuery, CapturedPacket, CapturedPackets, CapturedQuery, NewCapture,
    PacketDetail, PacketField,
};
pub use client::Client;
pub use clock::{ChangeClock, Clock, ClockState, RunClock, Speed, Step};
pub use error::{Error, Problem};
pub use event::{Event, EventFilter, Happening, Packet};
pub use explored::{
    ChoicesQuery, Explored, ExploredCapture, ExploredChoice, ExploredDeviation, ExploredEnd,
    ExploredEvent, ExploredLab, ExploredProgram, ExploredQuery, ExploredQuestion, ExploredRun,
    ExploredSide, ExploredSummary, ExploredViolation, NewExplored, OpenExplored, OpenedExplored,
};
pub use feed::{FeedDetail, FeedOverview, FeedSubscription, FromViewer, ToViewer};
pub use file::{
    CheckSpec, CheckedSpec, FormatSpec, FormattedSpec, Mistake, ReadyLab, ReadyLabFile,
};
pub use filter::{Filter, FilterCounter, FilterRules, FilterVersion, NewFilter, Rollback};
pub use host::{HostState, HostStatus};
pub use http::Bytes;
pub use lab::{
    Applied, Change, ChangeKind, LabState, LabStatus, LabSummary, PutLab, RecordLab, Restarted,
    Version, WorkerStatus,
};
pub use lab_api::{Answer, LabApi};
pub use machine::{
    ChangeInterface, Interface, Machine, MachineState, MachineSummary, NewInterface, NewMachine,
};
pub use pod::{NewPod, PacketPath, Pod};
pub use program::{
    NewProgram, OutputQuery, Program, ProgramInput, ProgramState, Report, SendSignal,
};
pub use relay::{NewRelay, Relay};
pub use run::{
    DifferenceQuery, FlightsQuery, NewRun, NextEventQuery, OpenRun, OpenedFrom, OpenedRun, Run,
    RunDifference, RunEnd, RunEvent, RunEventsQuery, RunPacketsQuery, RunPoint, RunProgram,
    RunState, RunStateQuery, RunSummary, RunTimeline, RunTopology, RunWire, TimelineQuery,
    TimelineRow,
};
pub use runtime_dir::{Address, RuntimeDir};
pub use sample::SampleQuery;
pub use series::{NewSeries, RowsQuery, Series, SeriesRows};
pub use session::{NewSession, NewTicket, OpenSession, Revoked, Role, Session, Ticket, UseTicket};
pub use socket::{Events, Feed, FromFeed, Log, Packets};
pub use statistics::{
    EndStatistics, Statistics, StatisticsQuery, WireStatistics, WorkerStatistics,
};
pub use terminal::{
    FromClient, FromServer, Input, KeptTerminal, Output, Size, Terminal, TerminalInput,
    TerminalOutput, INPUT, STDERR, STDOUT,
};
pub use topology::{NodeKind, Topology, TopologyEnd, TopologyNode, TopologyWire};
pub use views::SavedViews;
pub use wire::{ChangeWire, NewWire, Wire, WireEnd};
