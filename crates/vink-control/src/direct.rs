//! The engine as lines of the lab's own command it: by the trait of a client, without a connection.

use std::fmt;
use std::io;
use std::sync::Arc;

use futures_util::{sink, stream, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use vink_api::{
    Applied, Breakpoint, Breakpoints, Capture, ChangeClock, ChangeInterface, ChangeWire, Clock,
    Error, Events, Filter, FilterRules, Input, Interface, LabApi, LabStatus, Log, Machine,
    MachineSummary, NewBreakpoint, NewCapture, NewFilter, NewInterface, NewMachine, NewPod,
    NewProgram, NewWire, Output, OutputQuery, PacketPath, Pod, Program, PutLab, Rollback, RunClock,
    Terminal, Wire, STDOUT,
};

use crate::engine::{FromProgram, Giver, Lab, Labs, Requester, PIECES};
use crate::http_error::HttpError;

/// The engine's own requests, which a line of a lab makes. What it does is part of the line: it is
/// not written down in a record, and time passes for it while the line is carried out.
#[derive(Clone)]
pub struct DirectApi(Arc<Labs>);

impl fmt::Debug for DirectApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectApi")
    }
}

impl From<HttpError> for Error {
    fn from(error: HttpError) -> Error {
        Error::Refused {
            status: error.status.as_u16(),
            problem: *error.problem,
        }
    }
}

impl DirectApi {
    /// For a line of this lab; `None`: the control process is about to end.
    pub(crate) fn of(lab: &Lab) -> Option<DirectApi> {
        lab.labs.upgrade().map(DirectApi)
    }

    fn program_of(&self, lab: &str, program: &str) -> Result<(Arc<Lab>, u64), HttpError> {
        let lab = self.0.get(lab)?;
        let id = lab.state().program(program)?;
        Ok((lab, id))
    }
}

/// For `map_err`: the other half of a program's input or output is gone.
fn gone<E>(_: E) -> Error {
    Error::Connection {
        what: "does not take a program's input",
        source: io::ErrorKind::BrokenPipe.into(),
    }
}

impl LabApi for DirectApi {
    async fn lab(&self, lab: &str) -> Result<LabStatus, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.status())
    }

    async fn put_lab(&self, lab: &str, wanted: &PutLab) -> Result<Applied, Error> {
        Ok(self.0.put(lab, wanted.clone()).await?)
    }

    async fn spec(&self, lab: &str) -> Result<vink_spec::Lab, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.saved())
    }

    async fn clock(&self, lab: &str) -> Result<Clock, Error> {
        Ok(self.0.get(lab)?.clock().await?)
    }

    async fn change_clock(&self, lab: &str, change: &ChangeClock) -> Result<Clock, Error> {
        Ok(self.0.get(lab)?.change_clock(change.clone()).await?)
    }

    async fn run_clock(&self, lab: &str, run: &RunClock) -> Result<Clock, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.run_clock(run.clone(), Requester::Line).await?)
    }

    async fn machines(&self, lab: &str) -> Result<Vec<MachineSummary>, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.machines())
    }

    async fn add_machine(&self, lab: &str, machine: &NewMachine) -> Result<Machine, Error> {
        Ok(self.0.get(lab)?.new_machine(machine.clone()).await?)
    }

    async fn machine(&self, lab: &str, machine: &str) -> Result<Machine, Error> {
        Ok(self.0.get(lab)?.machine(machine).await?)
    }

    async fn remove_machine(&self, lab: &str, machine: &str) -> Result<(), Error> {
        Ok(self.0.get(lab)?.remove_machine(machine).await?)
    }

    async fn add_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &NewInterface,
    ) -> Result<Interface, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.new_interface(machine, interface.clone()).await?)
    }

    async fn change_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &str,
        change: &ChangeInterface,
    ) -> Result<Interface, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab
            .change_interface(machine, interface, change.clone())
            .await?)
    }

    async fn remove_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &str,
    ) -> Result<(), Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.remove_interface(machine, interface).await?)
    }

    async fn wires(&self, lab: &str) -> Result<Vec<Wire>, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.wires())
    }

    async fn add_wire(&self, lab: &str, wire: &NewWire) -> Result<Wire, Error> {
        Ok(self.0.get(lab)?.new_wire(wire.clone()).await?)
    }

    async fn wire(&self, lab: &str, wire: &str) -> Result<Wire, Error> {
        Ok(self.0.get(lab)?.wire(wire).await?)
    }

    async fn change_wire(&self, lab: &str, wire: &str, change: &ChangeWire) -> Result<Wire, Error> {
        Ok(self.0.get(lab)?.change_wire(wire, change.clone()).await?)
    }

    async fn remove_wire(&self, lab: &str, wire: &str) -> Result<(), Error> {
        Ok(self.0.get(lab)?.remove_wire(wire).await?)
    }

    async fn programs(&self, lab: &str) -> Result<Vec<Program>, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.programs())
    }

    async fn start_program(&self, lab: &str, program: &NewProgram) -> Result<Program, Error> {
        Ok(self.0.get(lab)?.new_program(program.clone()).await?)
    }

    async fn program(&self, lab: &str, program: &str) -> Result<Program, Error> {
        let (lab, id) = self.program_of(lab, program)?;
        Ok(lab.described(id)?)
    }

    async fn end_program(&self, lab: &str, program: &str) -> Result<Program, Error> {
        let (lab, id) = self.program_of(lab, program)?;
        lab.end_program(id).await?;
        Ok(lab.described(id)?)
    }

    async fn signal_program(
        &self,
        lab: &str,
        program: &str,
        signal: i32,
    ) -> Result<Program, Error> {
        let (lab, id) = self.program_of(lab, program)?;
        lab.signal(id, signal).await?;
        Ok(lab.described(id)?)
    }

    async fn output(&self, lab: &str, program: &str, query: &OutputQuery) -> Result<Log, Error> {
        let (lab, id) = self.program_of(lab, program)?;
        let pieces = lab.output(id, query)?;
        let what = "went away";
        Ok(Log::new(
            pieces.map_err(move |source| Error::Connection { what, source }),
        ))
    }

    async fn attach(&self, lab: &str, program: u64) -> Result<Terminal, Error> {
        let (lab, id) = self.program_of(lab, &program.to_string())?;
        lab.is_attachable(id)?;
        let (told, output) = mpsc::channel(PIECES);
        let (input, inputs) = mpsc::channel(PIECES);
        // The client is there for as long as something reads the output.
        let reader = told.clone();
        let inputs = stream::unfold((inputs, reader), |(mut inputs, reader)| async move {
            let input = inputs.recv().await;
            if input.is_none() {
                reader.closed().await;
            }
            input.map(|input| (input, (inputs, reader)))
        });
        let told = sink::unfold(told, |told, what| async move {
            told.send(output_of(what)).await.map_err(gone)?;
            Ok::<_, Error>(told)
        });
        let input = sink::unfold(input, |to: mpsc::Sender<Input>, input| async move {
            to.send(input).await.map_err(gone)?;
            Ok(to)
        });
        let output = stream::unfold(output, |mut output| async move {
            output.recv().await.map(|what| (Ok(what), output))
        });
        tokio::spawn(lab.carry(id, Giver::line(), told, inputs));
        Ok(Terminal::new(input, output))
    }

    async fn start_capture(&self, lab: &str, capture: &NewCapture) -> Result<Capture, Error> {
        Ok(self.0.get(lab)?.capture_to_file(capture.clone()).await?)
    }

    async fn stop_capture(&self, lab: &str, capture: u64) -> Result<Capture, Error> {
        Ok(self.0.get(lab)?.stop_capture(capture).await?)
    }

    async fn breakpoints(&self, lab: &str) -> Result<Breakpoints, Error> {
        Ok(self.0.get(lab)?.breakpoints().await?)
    }

    async fn filters(&self, lab: &str) -> Result<Vec<Filter>, Error> {
        Ok(self.0.get(lab)?.filters())
    }

    async fn filter(&self, lab: &str, place: &str) -> Result<FilterRules, Error> {
        Ok(self.0.get(lab)?.filter(place).await?)
    }

    async fn put_filter(&self, lab: &str, place: &str, new: &NewFilter) -> Result<Filter, Error> {
        Ok(self.0.get(lab)?.put_filter(place, new.clone()).await?)
    }

    async fn roll_back_filter(
        &self,
        lab: &str,
        place: &str,
        to: &Rollback,
    ) -> Result<Filter, Error> {
        Ok(self.0.get(lab)?.roll_back(place, to.clone()).await?)
    }

    async fn remove_filter(&self, lab: &str, place: &str) -> Result<(), Error> {
        Ok(self.0.get(lab)?.remove_filter(place).await?)
    }

    async fn add_breakpoint(&self, lab: &str, new: &NewBreakpoint) -> Result<Breakpoint, Error> {
        Ok(self.0.get(lab)?.new_breakpoint(new.clone()).await?)
    }

    async fn enable_breakpoint(
        &self,
        lab: &str,
        breakpoint: &str,
        enabled: bool,
    ) -> Result<Breakpoint, Error> {
        let lab = self.0.get(lab)?;
        Ok(lab.enable_breakpoint(breakpoint, enabled).await?)
    }

    async fn remove_breakpoint(&self, lab: &str, breakpoint: &str) -> Result<(), Error> {
        Ok(self.0.get(lab)?.remove_breakpoint(breakpoint).await?)
    }

    async fn pods(&self, lab: &str) -> Result<Vec<Pod>, Error> {
        Ok(self.0.get(lab)?.pods().await?)
    }

    async fn load_pod(&self, lab: &str, new: &NewPod) -> Result<Pod, Error> {
        Ok(self.0.get(lab)?.new_pod(new.clone()).await?)
    }

    async fn revoke_pod(&self, lab: &str, pod: &str) -> Result<Pod, Error> {
        Ok(self.0.get(lab)?.revoke_pod(pod).await?)
    }

    async fn packet_paths(&self, lab: &str) -> Result<Vec<PacketPath>, Error> {
        Ok(self.0.get(lab)?.packet_paths().await?)
    }

    async fn remove_path(&self, lab: &str, path: &str) -> Result<PacketPath, Error> {
        Ok(self.0.get(lab)?.remove_path(path).await?)
    }

    async fn resume(&self, lab: &str) -> Result<(), Error> {
        let lab = self.0.get(lab)?;
        lab.resume().await?;
        lab.tell_clock().await?;
        Ok(())
    }

    async fn resume_machine(&self, lab: &str, machine: &str) -> Result<(), Error> {
        Ok(self.0.get(lab)?.resume_machine(machine).await?)
    }

    async fn lab_events(&self, lab: &str) -> Result<Events, Error> {
        let events = self.0.events(Some(lab.to_owned()), Vec::new());
        Ok(Events::new(events.map(Ok)))
    }
}

fn output_of(what: FromProgram) -> Output {
    match what {
        FromProgram::Frame(frame) if frame[0] == STDOUT => Output::Stdout(frame.slice(1..)),
        FromProgram::Frame(frame) => Output::Stderr(frame.slice(1..)),
        FromProgram::Told(told) => told.into(),
    }
}
