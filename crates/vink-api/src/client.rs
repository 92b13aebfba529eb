//! The client: a method for each request.

use std::path::Path;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde::Serialize;
use vink_spec::Lab;

use crate::http::{ask, segment, send};
use crate::socket::open;
use crate::{
    start, Address, Applied, Breakpoint, Breakpoints, Bytes, Capture, CaptureQuery,
    ChangeBreakpoint, ChangeClock, ChangeInterface, ChangeWire, Clock, Error, EventFilter, Events,
    Interface, LabStatus, LabSummary, Machine, MachineSummary, NewBreakpoint, NewCapture,
    NewInterface, NewMachine, NewProgram, NewSeries, NewWire, OutputQuery, Packets, Place, Program,
    PutLab, Report, Restarted, RunClock, SampleQuery, SendSignal, Series, Statistics,
    StatisticsQuery, StatisticsStream, Terminal, Version, Wire,
};

/// A client of the control process. Each request has a connection of its own, so that one client may be used for
/// many requests at once, and clones are cheap. Methods that answer `()` answer when it is done.
///
/// All methods must be called within a tokio runtime with I/O and time enabled.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
}

/// No body.
const NONE: Option<&()> = None;

impl Client {
    /// A client of whoever listens at this address. Does not connect yet.
    pub fn new(address: Address) -> Client {
        Client { address }
    }

    /// A client of the user's control process, if one runs: otherwise requests fail with [`Error::NotRunning`].
    pub fn of(place: &Place) -> Client {
        Client::new(Address::Unix(place.socket()))
    }

    /// A client of the user's control process, which is started in the background if none runs: `executable` is
    /// `vink`. Blocks until it listens. It ends by itself after its last lab, or when none comes for a while.
    pub fn start(place: &Place, executable: &Path) -> Result<Client, Error> {
        start::start(place, executable)?;
        Ok(Client::of(place))
    }

    /// The same client for a line that a lab's own event or breakpoint carries out: its requests are part of that.
    pub fn of_line(&self) -> Client {
        Client::new(match self.address.clone() {
            Address::Unix(path) => Address::OfLine(path),
            other => other,
        })
    }

    /// Where requests go.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Who answers.
    pub async fn version(&self) -> Result<Version, Error> {
        self.get("version".to_owned()).await
    }

    /// All labs.
    pub async fn labs(&self) -> Result<Vec<LabSummary>, Error> {
        self.get("labs".to_owned()).await
    }

    /// How a lab is.
    pub async fn lab(&self, lab: &str) -> Result<LabStatus, Error> {
        self.get(path(lab, "")).await
    }

    /// Makes a lab, or changes it. [`Client::events`] tells how far it is.
    pub async fn put_lab(&self, lab: &str, wanted: &PutLab) -> Result<Applied, Error> {
        self.ask(Method::PUT, path(lab, ""), Some(wanted)).await
    }

    /// As a lab file, what runs now.
    pub async fn spec(&self, lab: &str) -> Result<Lab, Error> {
        self.get(path(lab, "/spec")).await
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

    /// How a lab's clock is.
    pub async fn clock(&self, lab: &str) -> Result<Clock, Error> {
        self.get(path(lab, "/clock")).await
    }

    /// Stops a lab's clock, lets it go on, or says how fast it may go.
    pub async fn change_clock(&self, lab: &str, change: &ChangeClock) -> Result<Clock, Error> {
        self.ask(Method::PATCH, path(lab, "/clock"), Some(change))
            .await
    }

    /// Lets a lab's clock go so far, and answers when it is there. It goes no further when this is dropped.
    pub async fn run_clock(&self, lab: &str, run: &RunClock) -> Result<Clock, Error> {
        self.ask(Method::POST, path(lab, "/clock/run"), Some(run))
            .await
    }

    /// All machines of a lab.
    pub async fn machines(&self, lab: &str) -> Result<Vec<MachineSummary>, Error> {
        self.get(path(lab, "/machines")).await
    }

    /// Makes a machine, and answers when its setup commands are done and its programs are started.
    pub async fn add_machine(&self, lab: &str, machine: &NewMachine) -> Result<Machine, Error> {
        self.ask(Method::POST, path(lab, "/machines"), Some(machine))
            .await
    }

    /// How a machine is.
    pub async fn machine(&self, lab: &str, machine: &str) -> Result<Machine, Error> {
        self.get(path(lab, &format!("/machines/{}", segment(machine))))
            .await
    }

    /// Ends a machine's programs and gives it up.
    pub async fn remove_machine(&self, lab: &str, machine: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/machines/{}", segment(machine)));
        self.ask(Method::DELETE, path, NONE).await
    }

    /// Gives a machine an interface.
    pub async fn add_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &NewInterface,
    ) -> Result<Interface, Error> {
        let path = path(lab, &format!("/machines/{}/interfaces", segment(machine)));
        self.ask(Method::POST, path, Some(interface)).await
    }

    /// Attaches an interface to a wire, detaches it, or changes its addresses.
    pub async fn change_interface(
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

    /// Takes an interface from a machine.
    pub async fn remove_interface(
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

    /// All wires of a lab, without counters.
    pub async fn wires(&self, lab: &str) -> Result<Vec<Wire>, Error> {
        self.get(path(lab, "/wires")).await
    }

    /// Makes a wire without ends.
    pub async fn add_wire(&self, lab: &str, wire: &NewWire) -> Result<Wire, Error> {
        self.ask(Method::POST, path(lab, "/wires"), Some(wire))
            .await
    }

    /// How a wire is.
    pub async fn wire(&self, lab: &str, wire: &str) -> Result<Wire, Error> {
        self.get(path(lab, &format!("/wires/{}", segment(wire))))
            .await
    }

    /// Changes what a wire does to packets from now on, or plugs it in or out.
    pub async fn change_wire(
        &self,
        lab: &str,
        wire: &str,
        change: &ChangeWire,
    ) -> Result<Wire, Error> {
        let path = path(lab, &format!("/wires/{}", segment(wire)));
        self.ask(Method::PATCH, path, Some(change)).await
    }

    /// Gives a wire up. Interfaces at it stay, without a carrier.
    pub async fn remove_wire(&self, lab: &str, wire: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/wires/{}", segment(wire)));
        self.ask(Method::DELETE, path, NONE).await
    }

    /// Programs of a lab: those that run, those of the lab file, and the last ones that have ended.
    pub async fn programs(&self, lab: &str) -> Result<Vec<Program>, Error> {
        self.get(path(lab, "/programs")).await
    }

    /// Starts a program, or with `attach` has it ready to be started by [`Client::attach`].
    pub async fn start_program(&self, lab: &str, program: &NewProgram) -> Result<Program, Error> {
        self.ask(Method::POST, path(lab, "/programs"), Some(program))
            .await
    }

    /// How a program is: its number, or its name as `machine.name`.
    pub async fn program(&self, lab: &str, program: &str) -> Result<Program, Error> {
        self.get(program_path(lab, program, "")).await
    }

    /// Ends a program: a virtualized process by asking it to, any other with all its processes by SIGKILL.
    pub async fn end_program(&self, lab: &str, program: &str) -> Result<Program, Error> {
        self.ask(Method::DELETE, program_path(lab, program, ""), NONE)
            .await
    }

    /// Sends a signal to a program's process group.
    pub async fn signal_program(
        &self,
        lab: &str,
        program: &str,
        signal: i32,
    ) -> Result<Program, Error> {
        let path = program_path(lab, program, "/signal");
        self.ask(Method::POST, path, Some(&SendSignal { signal }))
            .await
    }

    /// What a virtualized process has found out so far.
    pub async fn report(&self, lab: &str, program: &str) -> Result<Report, Error> {
        self.get(program_path(lab, program, "/report")).await
    }

    /// The output of a program that is not attached.
    pub async fn output(
        &self,
        lab: &str,
        program: &str,
        query: &OutputQuery,
    ) -> Result<Log, Error> {
        let path = program_path(lab, program, "/output") + &with(query);
        let response = send(&self.address, Method::GET, &path, None).await?;
        Ok(Log(response.into_body()))
    }

    /// Starts a program that was made with `attach`, and carries its input and output.
    pub async fn attach(&self, lab: &str, program: u64) -> Result<Terminal, Error> {
        let path = program_path(lab, &program.to_string(), "/terminal");
        Ok(Terminal::new(open(&self.address, &path).await?))
    }

    /// Captures of a lab: those that go on, and the last ones that have ended.
    pub async fn captures(&self, lab: &str) -> Result<Vec<Capture>, Error> {
        self.get(path(lab, "/captures")).await
    }

    /// Writes packets to a file from now on.
    pub async fn start_capture(&self, lab: &str, capture: &NewCapture) -> Result<Capture, Error> {
        self.ask(Method::POST, path(lab, "/captures"), Some(capture))
            .await
    }

    /// Ends a capture, and tells how many packets there were.
    pub async fn stop_capture(&self, lab: &str, capture: u64) -> Result<Capture, Error> {
        let path = path(lab, &format!("/captures/{capture}"));
        self.ask(Method::DELETE, path, NONE).await
    }

    /// Packets as they come. The capture ends when the stream is dropped.
    pub async fn capture(&self, lab: &str, capture: &CaptureQuery) -> Result<Packets, Error> {
        let path = path(lab, "/captures/stream") + &with(capture);
        Ok(Packets(open(&self.address, &path).await?))
    }

    /// Breakpoints of a lab, with what they have counted.
    pub async fn breakpoints(&self, lab: &str) -> Result<Breakpoints, Error> {
        self.get(path(lab, "/breakpoints")).await
    }

    /// Sets a breakpoint.
    pub async fn add_breakpoint(
        &self,
        lab: &str,
        new: &NewBreakpoint,
    ) -> Result<Breakpoint, Error> {
        self.ask(Method::POST, path(lab, "/breakpoints"), Some(new))
            .await
    }

    /// Has a breakpoint do something, or nothing for a while.
    pub async fn enable_breakpoint(
        &self,
        lab: &str,
        breakpoint: &str,
        enabled: bool,
    ) -> Result<Breakpoint, Error> {
        let path = path(lab, &format!("/breakpoints/{}", segment(breakpoint)));
        let change = ChangeBreakpoint { enabled };
        self.ask(Method::PATCH, path, Some(&change)).await
    }

    /// Removes a breakpoint.
    pub async fn remove_breakpoint(&self, lab: &str, breakpoint: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/breakpoints/{}", segment(breakpoint)));
        self.ask(Method::DELETE, path, NONE).await
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

    /// Lets a lab go on that a breakpoint has stopped.
    pub async fn goes_on(&self, lab: &str) -> Result<(), Error> {
        self.ask(Method::POST, path(lab, "/continue"), NONE).await
    }

    /// Lets a machine go on that a breakpoint has stopped.
    pub async fn machine_goes_on(&self, lab: &str, machine: &str) -> Result<(), Error> {
        let path = path(lab, &format!("/machines/{}/continue", segment(machine)));
        self.ask(Method::POST, path, NONE).await
    }

    /// Samples of sockets as they come. They end when the stream is dropped.
    pub async fn samples(&self, lab: &str, query: &SampleQuery) -> Result<Packets, Error> {
        let path = path(lab, "/samples/stream") + &with(query);
        Ok(Packets(open(&self.address, &path).await?))
    }

    /// Events from now on.
    pub async fn events(&self, filter: &EventFilter) -> Result<Events, Error> {
        let path = format!("/v1/events{}", with(filter));
        Ok(Events(open(&self.address, &path).await?))
    }

    /// Figures of a lab.
    pub async fn statistics(&self, lab: &str) -> Result<Statistics, Error> {
        self.get(path(lab, "/statistics")).await
    }

    /// Figures of a lab at an interval.
    pub async fn statistics_stream(
        &self,
        lab: &str,
        query: &StatisticsQuery,
    ) -> Result<StatisticsStream, Error> {
        let path = path(lab, "/statistics/stream") + &with(query);
        Ok(StatisticsStream(open(&self.address, &path).await?))
    }

    /// Any request, with a body of JSON, as it was written down when a lab was recorded: the answer as it is.
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
}

/// A log in pieces.
pub struct Log(Incoming);

impl Log {
    /// The next piece; none at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => {
                    return Err(Error::Connection {
                        what: "went away",
                        source: std::io::Error::other(error),
                    })
                }
            }
        }
    }
}

/// A path of a lab.
fn path(lab: &str, rest: &str) -> String {
    format!("/v1/labs/{}{rest}", segment(lab))
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
