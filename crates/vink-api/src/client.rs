//! The client: requests by HTTP.

use std::path::Path;

use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde::Serialize;
use vink_spec::Lab;

use crate::http::{ask, segment, send};
use crate::socket::{events, open};
use crate::{
    start, terminal, Address, Applied, Breakpoint, Breakpoints, Capture, CaptureQuery,
    ChangeBreakpoint, ChangeClock, ChangeInterface, ChangeWire, Clock, Error, EventFilter, Events,
    ExploredSummary, Feed, Filter, FilterRules, Interface, KeptTerminal, LabApi, LabStatus,
    LabSummary, Log, Machine, MachineSummary, NewBreakpoint, NewCapture, NewExplored, NewFilter,
    NewInterface, NewMachine, NewPod, NewProgram, NewRelay, NewRun, NewSeries, NewTicket, NewWire,
    OpenRun, OpenSession, OpenedRun, OutputQuery, PacketPath, Packets, Pod, Program, ProgramInput,
    PutLab, Relay, Report, Restarted, Revoked, Rollback, RunClock, RunSummary, RuntimeDir,
    SampleQuery, SavedViews, SendSignal, Series, Statistics, Terminal, Ticket, Version, Wire,
};

/// A client of the control process. Each request has a connection of its own, so that one client
/// may be used for many requests at once, and clones are cheap. Most requests of one lab are those
/// of [`LabApi`].
///
/// All methods must be called within a tokio runtime with I/O and time enabled.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
}

/// No body.
const NONE: Option<&()> = None;

impl Client {
    /// A client of the control process at this address. Does not connect yet.
    pub fn new(address: Address) -> Client {
        Client { address }
    }

    /// A client of the user's control process, if one runs: otherwise requests fail with
    /// [`Error::NotRunning`].
    pub fn of(dir: &RuntimeDir) -> Client {
        Client::new(Address::Unix(dir.socket()))
    }

    /// A client of the user's control process, which is started in the background if none runs:
    /// `executable` is `vink`. Blocks until it listens. It ends by itself after its last lab, or
    /// when none comes for a while.
    pub fn start(dir: &RuntimeDir, executable: &Path) -> Result<Client, Error> {
        start::start(dir, executable)?;
        Ok(Client::of(dir))
    }

    /// Where requests go.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The version of the control process.
    pub async fn version(&self) -> Result<Version, Error> {
        self.get("version".to_owned()).await
    }

    /// A ticket for a page, which is answered over loopback TCP from then on.
    pub async fn new_ticket(&self, new: &NewTicket) -> Result<Ticket, Error> {
        self.ask(Method::POST, "/v1/tickets".to_owned(), Some(new))
            .await
    }

    /// Sessions of pages.
    pub async fn sessions(&self) -> Result<Vec<OpenSession>, Error> {
        self.get("sessions".to_owned()).await
    }

    /// Ends a session, by its number, or all of a user, by their name.
    pub async fn revoke(&self, session: &str) -> Result<Revoked, Error> {
        let path = format!("/v1/sessions/{}", segment(session));
        self.ask(Method::DELETE, path, NONE).await
    }

    /// Writes a lab's views to their files.
    pub async fn save_views(&self, lab: &str) -> Result<SavedViews, Error> {
        self.ask(Method::POST, path(lab, "/views/save"), NONE).await
    }

    /// All labs.
    pub async fn labs(&self) -> Result<Vec<LabSummary>, Error> {
        self.get("labs".to_owned()).await
    }

    /// Recorded runs that are known.
    pub async fn runs(&self) -> Result<Vec<RunSummary>, Error> {
        self.get("runs".to_owned()).await
    }

    /// Lists the runs that were recorded at a path.
    pub async fn add_run(&self, new: &NewRun) -> Result<Vec<RunSummary>, Error> {
        self.ask(Method::POST, "/v1/runs".to_owned(), Some(new))
            .await
    }

    /// Makes a lab that is as a run was at a moment. It is not made if this is dropped before.
    pub async fn open_run(&self, run: &str, open: &OpenRun) -> Result<OpenedRun, Error> {
        let path = format!("/v1/runs/{}/open", segment(run));
        self.ask(Method::POST, path, Some(open)).await
    }

    /// Lists what `vink explore` has written at a path.
    pub async fn add_explored(&self, new: &NewExplored) -> Result<Vec<ExploredSummary>, Error> {
        self.ask(Method::POST, "/v1/explored".to_owned(), Some(new))
            .await
    }

    /// Takes a lab down, one that is being made too.
    pub async fn remove_lab(&self, lab: &str) -> Result<(), Error> {
        self.ask(Method::DELETE, path(lab, ""), NONE).await
    }

    /// Boots all workers of a lab again, with what should run there.
    pub async fn restart_lab(&self, lab: &str) -> Result<Restarted, Error> {
        self.ask(Method::POST, path(lab, "/restart"), NONE).await
    }

    /// Boots the worker of a machine again, with all its machines.
    pub async fn restart_machine(&self, lab: &str, machine: &str) -> Result<Restarted, Error> {
        let path = path(lab, &format!("/machines/{}/restart", segment(machine)));
        self.ask(Method::POST, path, NONE).await
    }

    /// What a virtualized process has found out so far.
    pub async fn report(&self, lab: &str, program: &str) -> Result<Report, Error> {
        self.get(program_path(lab, program, "/report")).await
    }

    /// Terminals that are kept.
    pub async fn terminals(&self, lab: &str) -> Result<Vec<KeptTerminal>, Error> {
        self.get(path(lab, "/terminals")).await
    }

    /// Gives an attached program input; returns when it is given.
    pub async fn input(&self, lab: &str, program: &str, input: &ProgramInput) -> Result<(), Error> {
        let path = program_path(lab, program, "/input");
        self.ask(Method::POST, path, Some(input)).await
    }

    /// Relays of a lab, with what they have counted.
    pub async fn relays(&self, lab: &str) -> Result<Vec<Relay>, Error> {
        self.get(path(lab, "/relays")).await
    }

    /// How a relay is: its name, as `machine.name`.
    pub async fn relay(&self, lab: &str, relay: &str) -> Result<Relay, Error> {
        self.get(path(lab, &format!("/relays/{}", segment(relay))))
            .await
    }

    /// Adds a relay to a machine, and answers when it listens.
    pub async fn add_relay(
        &self,
        lab: &str,
        machine: &str,
        new: &NewRelay,
    ) -> Result<Relay, Error> {
        let path = path(lab, &format!("/machines/{}/relays", segment(machine)));
        self.ask(Method::POST, path, Some(new)).await
    }

    /// Ends a relay and its connections.
    pub async fn remove_relay(&self, lab: &str, relay: &str) -> Result<Relay, Error> {
        let path = path(lab, &format!("/relays/{}", segment(relay)));
        self.ask(Method::DELETE, path, NONE).await
    }

    /// Captures of a lab: those that go on, and the last ones that have ended.
    pub async fn captures(&self, lab: &str) -> Result<Vec<Capture>, Error> {
        self.get(path(lab, "/captures")).await
    }

    /// Packets as they come. The capture ends when the stream is dropped.
    pub async fn capture(&self, lab: &str, capture: &CaptureQuery) -> Result<Packets, Error> {
        let path = path(lab, "/captures/stream") + &with(capture);
        Ok(Packets(open(&self.address, &path).await?))
    }

    /// Time series of a lab, with how many rows they have.
    pub async fn series(&self, lab: &str) -> Result<Vec<Series>, Error> {
        self.get(path(lab, "/series")).await
    }

    /// Begins a time series.
    pub async fn add_series(&self, lab: &str, new: &NewSeries) -> Result<Series, Error> {
        self.ask(Method::POST, path(lab, "/series"), Some(new))
            .await
    }

    /// Ends a time series.
    pub async fn remove_series(&self, lab: &str, series: &str) -> Result<Series, Error> {
        let path = path(lab, &format!("/series/{}", segment(series)));
        self.ask(Method::DELETE, path, NONE).await
    }

    /// Samples of sockets as they come. They end when the stream is dropped.
    pub async fn samples(&self, lab: &str, query: &SampleQuery) -> Result<Packets, Error> {
        let path = path(lab, "/samples/stream") + &with(query);
        Ok(Packets(open(&self.address, &path).await?))
    }

    /// The feed of a lab, which tells nothing until it is subscribed to.
    pub async fn feed(&self, lab: &str) -> Result<Feed, Error> {
        Ok(Feed(open(&self.address, &path(lab, "/feed")).await?))
    }

    /// Events from now on.
    pub async fn events(&self, filter: &EventFilter) -> Result<Events, Error> {
        let path = format!("/v1/events{}", with(filter));
        Ok(events(open(&self.address, &path).await?))
    }

    /// Figures of a lab.
    pub async fn statistics(&self, lab: &str) -> Result<Statistics, Error> {
        self.get(path(lab, "/statistics")).await
    }

    /// Any request, with a body of JSON, as it was written down when a lab was recorded: the answer
    /// as it is.
    pub async fn repeat(&self, method: &str, path: &str, body: &str) -> Result<Vec<u8>, Error> {
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|error| Error::Answer(format!("{method}: {error}")))?;
        let body = Some(body.as_bytes().to_vec());
        let response = send(&self.address, method, path, body).await?;
        let answer = response.into_body().collect().await;
        let answer = answer.map_err(|source| Error::Connection {
            what: "went away before it answered",
            source: std::io::Error::other(source),
        })?;
        Ok(answer.to_bytes().to_vec())
    }

    async fn get<A: DeserializeOwned>(&self, path: String) -> Result<A, Error> {
        let path = match path.starts_with('/') {
            true => path,
            false => format!("/v1/{path}"),
        };
        ask(&self.address, Method::GET, &path, NONE).await
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: Option<&impl Serialize>,
    ) -> Result<A, Error> {
        ask(&self.address, method, &path, body).await
    }

    /// A pod of a lab.
    ///
    /// # Errors
    /// As of [`Client::series`].
    pub async fn pod(&self, lab: &str, pod: &str) -> Result<Pod, Error> {
        self.get(path(lab, &format!("/pods/{}", segment(pod))))
            .await
    }

    /// A path of a lab.
    ///
    /// # Errors
    /// As of [`Client::series`].
    pub async fn packet_path(&self, lab: &str, name: &str) -> Result<PacketPath, Error> {
        self.get(path(lab, &format!("/paths/{}", segment(name))))
            .await
    }
}

impl LabApi for Client {
    async fn lab(&self, lab: &str) -> Result<LabStatus, Error> {
        self.get(path(lab, "")).await
    }

    async fn put_lab(&self, lab: &str, wanted: &PutLab) -> Result<Applied, Error> {
        self.ask(Method::PUT, path(lab, ""), Some(wanted)).await
    }

    async fn spec(&self, lab: &str) -> Result<Lab, Error> {
        self.get(path(lab, "/spec")).await
    }

    async fn clock(&self, lab: &str) -> Result<Clock, Error> {
        self.get(path(lab, "/clock")).await
    }

    async fn change_clock(&self, lab: &str, change: &ChangeClock) -> Result<Clock, Error> {
        self.ask(Method::PATCH, path(lab, "/clock"), Some(change))
            .await
    }

    async fn run_clock(&self, lab: &str, run: &RunClock) -> Result<Clock, Error> {
        self.ask(Method::POST, path(lab, "/clock/run"), Some(run))
            .await
    }

    async fn machines(&self, lab: &str) -> Result<Vec<MachineSummary>, Error> {
        self.get(path(lab, "/machines")).await
    }

    async fn add_machine(&self, lab: &str, machine: &NewMachine) -> Result<Machine, Error> {
        self.ask(Method::POST, path(lab, "/machines"), Some(machine))
            .await
    }

    async fn machine(&self, lab: &str, machine: &str) -> Result<Machine, Error> {
        self.get(path(lab, &format!("/machines/{}", segment(machine))))
            .await
    }

    async fn remove_machine(&self, lab: &str, machine: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/machines/{}", segment(machine)));
        self.ask(Method::DELETE, path, NONE).await
    }

    async fn add_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &NewInterface,
    ) -> Result<Interface, Error> {
        let path = path(lab, &format!("/machines/{}/interfaces", segment(machine)));
        self.ask(Method::POST, path, Some(interface)).await
    }

    async fn change_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &str,
        change: &ChangeInterface,
    ) -> Result<Interface, Error> {
        self.ask(
            Method::PATCH,
            interface_path(lab, machine, interface),
            Some(change),
        )
        .await
    }

    async fn remove_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &str,
    ) -> Result<(), Error> {
        self.ask(
            Method::DELETE,
            interface_path(lab, machine, interface),
            NONE,
        )
        .await
    }

    async fn wires(&self, lab: &str) -> Result<Vec<Wire>, Error> {
        self.get(path(lab, "/wires")).await
    }

    async fn add_wire(&self, lab: &str, wire: &NewWire) -> Result<Wire, Error> {
        self.ask(Method::POST, path(lab, "/wires"), Some(wire))
            .await
    }

    async fn wire(&self, lab: &str, wire: &str) -> Result<Wire, Error> {
        self.get(path(lab, &format!("/wires/{}", segment(wire))))
            .await
    }

    async fn change_wire(&self, lab: &str, wire: &str, change: &ChangeWire) -> Result<Wire, Error> {
        let path = path(lab, &format!("/wires/{}", segment(wire)));
        self.ask(Method::PATCH, path, Some(change)).await
    }

    async fn remove_wire(&self, lab: &str, wire: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/wires/{}", segment(wire)));
        self.ask(Method::DELETE, path, NONE).await
    }

    async fn programs(&self, lab: &str) -> Result<Vec<Program>, Error> {
        self.get(path(lab, "/programs")).await
    }

    async fn start_program(&self, lab: &str, program: &NewProgram) -> Result<Program, Error> {
        self.ask(Method::POST, path(lab, "/programs"), Some(program))
            .await
    }

    async fn program(&self, lab: &str, program: &str) -> Result<Program, Error> {
        self.get(program_path(lab, program, "")).await
    }

    async fn end_program(&self, lab: &str, program: &str) -> Result<Program, Error> {
        self.ask(Method::DELETE, program_path(lab, program, ""), NONE)
            .await
    }

    async fn signal_program(
        &self,
        lab: &str,
        program: &str,
        signal: i32,
    ) -> Result<Program, Error> {
        let path = program_path(lab, program, "/signal");
        self.ask(Method::POST, path, Some(&SendSignal { signal }))
            .await
    }

    async fn output(&self, lab: &str, program: &str, query: &OutputQuery) -> Result<Log, Error> {
        let path = program_path(lab, program, "/output") + &with(query);
        let response = send(&self.address, Method::GET, &path, None).await?;
        let pieces = response.into_body().into_data_stream();
        Ok(Log::new(pieces.map_err(|error| Error::Connection {
            what: "went away",
            source: std::io::Error::other(error),
        })))
    }

    async fn attach(&self, lab: &str, program: u64) -> Result<Terminal, Error> {
        let path = program_path(lab, &program.to_string(), "/terminal");
        Ok(terminal::of_socket(open(&self.address, &path).await?))
    }

    async fn start_capture(&self, lab: &str, capture: &NewCapture) -> Result<Capture, Error> {
        self.ask(Method::POST, path(lab, "/captures"), Some(capture))
            .await
    }

    async fn stop_capture(&self, lab: &str, capture: u64) -> Result<Capture, Error> {
        let path = path(lab, &format!("/captures/{capture}"));
        self.ask(Method::DELETE, path, NONE).await
    }

    async fn filters(&self, lab: &str) -> Result<Vec<Filter>, Error> {
        self.get(path(lab, "/filters")).await
    }

    async fn filter(&self, lab: &str, place: &str) -> Result<FilterRules, Error> {
        self.get(filter_path(lab, place, "")).await
    }

    async fn put_filter(&self, lab: &str, place: &str, new: &NewFilter) -> Result<Filter, Error> {
        let path = filter_path(lab, place, "");
        self.ask(Method::PUT, path, Some(new)).await
    }

    async fn roll_back_filter(
        &self,
        lab: &str,
        place: &str,
        to: &Rollback,
    ) -> Result<Filter, Error> {
        let path = filter_path(lab, place, "/rollback");
        self.ask(Method::POST, path, Some(to)).await
    }

    async fn remove_filter(&self, lab: &str, place: &str) -> Result<(), Error> {
        let path = filter_path(lab, place, "");
        self.ask(Method::DELETE, path, NONE).await
    }

    async fn breakpoints(&self, lab: &str) -> Result<Breakpoints, Error> {
        self.get(path(lab, "/breakpoints")).await
    }

    async fn add_breakpoint(&self, lab: &str, new: &NewBreakpoint) -> Result<Breakpoint, Error> {
        self.ask(Method::POST, path(lab, "/breakpoints"), Some(new))
            .await
    }

    async fn enable_breakpoint(
        &self,
        lab: &str,
        breakpoint: &str,
        enabled: bool,
    ) -> Result<Breakpoint, Error> {
        let path = path(lab, &format!("/breakpoints/{}", segment(breakpoint)));
        let change = ChangeBreakpoint { enabled };
        self.ask(Method::PATCH, path, Some(&change)).await
    }

    async fn remove_breakpoint(&self, lab: &str, breakpoint: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/breakpoints/{}", segment(breakpoint)));
        self.ask(Method::DELETE, path, NONE).await
    }

    async fn pods(&self, lab: &str) -> Result<Vec<Pod>, Error> {
        self.get(path(lab, "/pods")).await
    }

    async fn load_pod(&self, lab: &str, new: &NewPod) -> Result<Pod, Error> {
        self.ask(Method::POST, path(lab, "/pods"), Some(new)).await
    }

    async fn revoke_pod(&self, lab: &str, pod: &str) -> Result<Pod, Error> {
        let path = path(lab, &format!("/pods/{}/revoke", segment(pod)));
        self.ask(Method::POST, path, NONE).await
    }

    async fn packet_paths(&self, lab: &str) -> Result<Vec<PacketPath>, Error> {
        self.get(path(lab, "/paths")).await
    }

    async fn remove_path(&self, lab: &str, name: &str) -> Result<PacketPath, Error> {
        let path = path(lab, &format!("/paths/{}", segment(name)));
        self.ask(Method::DELETE, path, NONE).await
    }

    async fn resume(&self, lab: &str) -> Result<(), Error> {
        self.ask(Method::POST, path(lab, "/continue"), NONE).await
    }

    async fn resume_machine(&self, lab: &str, machine: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/machines/{}/continue", segment(machine)));
        self.ask(Method::POST, path, NONE).await
    }

    async fn lab_events(&self, lab: &str) -> Result<Events, Error> {
        let filter = EventFilter {
            lab: Some(lab.to_owned()),
            watch: None,
        };
        self.events(&filter).await
    }
}

/// A path of a lab.
fn path(lab: &str, rest: &str) -> String {
    format!("/v1/labs/{}{rest}", segment(lab))
}

/// The path of a filter, and what is below it.
fn filter_path(lab: &str, place: &str, below: &str) -> String {
    path(lab, &format!("/filters/{}{below}", segment(place)))
}

fn interface_path(lab: &str, machine: &str, interface: &str) -> String {
    let rest = format!(
        "/machines/{}/interfaces/{}",
        segment(machine),
        segment(interface)
    );
    path(lab, &rest)
}

fn program_path(lab: &str, program: &str, rest: &str) -> String {
    path(lab, &format!("/programs/{}{rest}", segment(program)))
}

/// A query.
fn with(query: &impl Serialize) -> String {
    let text = serde_urlencoded::to_string(query).expect("plain data");
    if text.is_empty() {
        text
    } else {
        format!("?{text}")
    }
}
