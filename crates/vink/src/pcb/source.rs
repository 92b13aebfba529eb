//! Where connections come from: a machine of a lab, or a process with a kernel in it.

use std::collections::HashMap;
use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::thread;

use vink_api::{Client, LabApi, RuntimeDir, SampleQuery};
use vink_lab::SampleDecoder;
use vink_pcb::{Machine, Process};
use vink_sys::poll::is_readable;

use super::session::{Message, Session};
use super::{Arguments, Form};
use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime};
use crate::signals::Signals;

/// Messages that wait for the loop.
const WAITING: usize = 1024;

/// What the kernel does to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Event {
    /// A segment has come for a connection, and is about to be looked at: an acknowledgement, data, or both
    Ack,
    /// A segment is sent again
    Retransmit,
    /// The congestion control's state is another: Open, Disorder, CWR, Recovery, Loss
    Congestion,
    /// The connection's state is about to be another
    State,
    /// The program has read, so that the receive buffer may grow
    Read,
    /// The connection is gone
    End,
}

impl Event {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Event::Ack => "ack",
            Event::Retransmit => "retransmit",
            Event::Congestion => "congestion",
            Event::State => "state",
            Event::Read => "read",
            Event::End => "end",
        }
    }

    /// The kernel's tracepoint, whose first argument is the socket.
    pub fn point(self) -> &'static str {
        match self {
            Event::Ack => "tcp_probe",
            Event::Retransmit => "tcp_retransmit_skb",
            Event::Congestion => "tcp_cong_state_set",
            Event::State => "inet_sock_set_state",
            Event::Read => "tcp_rcv_space_adjust",
            Event::End => "tcp_destroy_sock",
        }
    }
}

/// The tracepoints of some events.
pub(super) fn points(events: &[Event]) -> String {
    let points: Vec<&str> = events.iter().map(|event| event.point()).collect();
    points.join(",")
}

/// A kernel, and which of its machines are meant.
pub(super) struct Found {
    process: Process,
    machines: HashMap<u64, String>,
    /// The lab, and the machine in it.
    lab: Option<(Client, String, String)>,
}

/// The machine or process that is meant.
pub(super) fn find(arguments: &Arguments) -> Result<Found, CliError> {
    let machine = arguments.machine.as_deref();
    if let Some(pid) = arguments.pid {
        let process = Process::open(pid)?;
        let mut machines = process.machines()?;
        if let Some(name) = machine {
            let names: Vec<String> = machines.iter().map(|m| m.name.clone()).collect();
            machines.retain(|machine| machine.name == name);
            if machines.is_empty() {
                return Err(CliError::Other(format!(
                    "process {pid} has no machine {name}; it has {}",
                    names.join(", ")
                )));
            }
        }
        return Ok(Found {
            process,
            machines: by_net(machines),
            lab: None,
        });
    }
    let Some(machine) = machine else {
        return Err(CliError::Other(
            "of which machine? vink pcb MACHINE; or vink pcb --run -- PROGRAM".to_owned(),
        ));
    };
    let client = Client::of(&RuntimeDir::find());
    let (lab, status) = runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        // It says so if there is no such machine.
        let found = client.machine(&lab, machine).await?;
        if let Some(host) = found.host {
            let text = format!(
                "machine {machine} is on host {host}: its memory is read there, not from here"
            );
            return Err(CliError::Other(text));
        }
        let status = client.lab(&lab).await?;
        Ok::<_, CliError>((lab, status))
    })?;
    let here = status.workers.iter().filter(|worker| worker.host.is_none());
    for pid in here.filter_map(|worker| worker.pid) {
        let process = Process::open(pid)?;
        let mut machines = process.machines()?;
        machines.retain(|found| found.name == machine);
        if !machines.is_empty() {
            return Ok(Found {
                process,
                machines: by_net(machines),
                lab: Some((client, lab, machine.to_owned())),
            });
        }
    }
    Err(CliError::Other(format!(
        "no worker of lab {lab} has machine {machine} any more; vink lab show {lab} tells"
    )))
}

/// By the address of their network.
pub(super) fn by_net(machines: Vec<Machine>) -> HashMap<u64, String> {
    let machines = machines.into_iter();
    machines
        .map(|machine| (machine.net, machine.name))
        .collect()
}

/// Watches it until it ends, or a signal ends this.
pub(super) fn watch(
    arguments: &Arguments,
    form: Form,
    start: u64,
    found: Found,
) -> Result<ExitCode, CliError> {
    let signals = Signals::catch(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGWINCH]);
    let signals = signals.map_err(CliError::host("signalfd"))?;
    let (to, messages) = sync_channel(WAITING);
    pass_signals(signals, to.clone());
    if form == Form::Screen {
        pass_keys(to.clone());
    }
    let layout = found.process.layout();
    if let (Some((client, lab, machine)), false) = (found.lab, arguments.each.is_empty()) {
        let query = SampleQuery {
            machine,
            points: points(&arguments.each),
            bytes: layout.tcp.size,
            offset: Some(layout.net),
            number: found.machines.keys().next().copied(),
        };
        let to = to.clone();
        thread::spawn(move || {
            let error = pass_samples(&client, &lab, &query, &to).err();
            to.send(Message::NoMore(error.map(|error| error.to_string())))
        });
    }
    let (process, machines) = (found.process, found.machines);
    let mut session = Session::new(arguments, form, start, process, machines, false)?;
    let done = session.run(&messages, None);
    session.close()?;
    done.map(|_| ExitCode::SUCCESS)
}

/// From a lab to the loop, until the lab ends.
fn pass_samples(
    client: &Client,
    lab: &str,
    query: &SampleQuery,
    to: &SyncSender<Message>,
) -> Result<(), CliError> {
    runtime()?.block_on(async {
        let mut pieces = client.samples(lab, query).await?;
        let mut samples = SampleDecoder::default();
        while let Some(piece) = pieces.next().await? {
            samples.push(&piece);
            while let Some(sample) = samples.pop() {
                if to.send(Message::Sample(sample)).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// From a descriptor to the loop, until its end.
pub(super) fn pass_samples_of(mut from: impl Read + Send + 'static, to: SyncSender<Message>) {
    thread::spawn(move || {
        let mut samples = SampleDecoder::default();
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            samples.push(&buffer[..count]);
            while let Some(sample) = samples.pop() {
                if to.send(Message::Sample(sample)).is_err() {
                    return;
                }
            }
        }
        let _ = to.send(Message::NoMore(None));
    });
}

/// What is typed.
pub(super) fn pass_keys(to: SyncSender<Message>) {
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = std::io::stdin().read(&mut buffer) {
            if to.send(Message::Keys(buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
}

/// Signals for us.
pub(super) fn pass_signals(signals: Signals, to: SyncSender<Message>) {
    thread::spawn(move || loop {
        while let Some(signal) = signals.next() {
            if to.send(Message::Signal(signal.number)).is_err() {
                return;
            }
        }
        wait_for(&signals);
    });
}

/// Until there is something to be read; see poll(2).
fn wait_for(what: &Signals) {
    is_readable(what, -1);
}
