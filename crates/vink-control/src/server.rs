//! What is served: each request's way to the engine.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::Router;
use schemars::SchemaGenerator;
use serde_json::{json, Value};
use vink_api::{
    CaptureQuery, CapturedQuery, ChangeBreakpoint, ChangeClock, ChangeInterface, ChangeWire,
    CheckSpec, CheckedSpec, ChoicesQuery, DifferenceQuery, EventFilter, ExploredCapture,
    ExploredChoice, ExploredQuery, ExploredQuestion, ExploredRun, FlightsQuery, FormatSpec,
    FormattedSpec, FromClient, FromServer, FromViewer, LabSummary, Mistake, NewBreakpoint,
    NewCapture, NewExplored, NewFilter, NewInterface, NewMachine, NewPod, NewProgram, NewRelay,
    NewRun, NewSeries, NewTicket, NewWire, NextEventQuery, OpenExplored, OpenRun, OutputQuery,
    PacketVerdict, ProgramInput, PutLab, Report, Restarted, Role, Rollback, RowsQuery, RunClock,
    RunEventsQuery, RunPacketsQuery, RunStateQuery, SampleQuery, SendSignal, Session, Statistics,
    StatisticsQuery, TimelineQuery, ToViewer, UseTicket, Version,
};

use crate::engine::{detail, CheckLab, Giver, Lab, Labs, Requester, PIECE};
use crate::explored::ExploredLab;
use crate::http_error::HttpError;
use crate::routes::{Call, RouteTable};
use crate::runs::{reading, reading_while_waited, Recording};
use crate::session::Access;
use crate::tcp::TcpServer;
use crate::{ready, sockets, views};

/// Bytes of a request: a lab of ten thousand machines has some ten million.
const LARGEST: usize = 256 << 20;

/// Bytes of what a viewer of a feed says.
const LARGEST_SUBSCRIPTION: usize = 256 << 10;

/// The path of a breakpoint.
const BREAKPOINT: &str = "/v1/labs/{lab}/breakpoints/{breakpoint}";

/// The path of a filter.
const FILTER: &str = "/v1/labs/{lab}/filters/{place}";

/// The path of a path.
const PACKET_PATH: &str = "/v1/labs/{lab}/paths/{path}";

/// What all handlers have.
pub(crate) struct Inner {
    pub(crate) labs: Arc<Labs>,
    pub(crate) executable: PathBuf,
    pub(crate) check: CheckLab,
    pub(crate) tcp: Arc<TcpServer>,
}

pub(crate) type App = Arc<Inner>;

impl Inner {
    fn lab<Q, B>(&self, call: &Call<Q, B>) -> Result<Arc<Lab>, HttpError> {
        self.labs.get(call.name("lab"))
    }

    fn run<Q, B>(&self, call: &Call<Q, B>) -> Result<Arc<Recording>, HttpError> {
        self.labs.runs.get(call.name("run"))
    }

    fn explored<Q, B>(&self, call: &Call<Q, B>) -> Result<Arc<ExploredLab>, HttpError> {
        self.labs.explored.get(call.name("explored"))
    }

    fn program<Q, B>(&self, call: &Call<Q, B>) -> Result<(Arc<Lab>, u64), HttpError> {
        let lab = self.lab(call)?;
        let id = lab.state().program(call.name("program"))?;
        Ok((lab, id))
    }
}

/// All of it.
pub(crate) fn router(app: App) -> Router {
    let mut table = RouteTable::new();
    sessions(&mut table);
    files(&mut table);
    views(&mut table);
    labs(&mut table);
    machines(&mut table);
    wires(&mut table);
    programs(&mut table);
    observation(&mut table);
    runs(&mut table);
    explored(&mut table);
    table.finish(app).layer(DefaultBodyLimit::max(LARGEST))
}

fn sessions(table: &mut RouteTable) {
    table.route(
        "post",
        "/v1/tickets",
        "Lets a page in: a ticket, and the address where it is used, over loopback TCP",
        |app, call: Call<(), NewTicket>| async move { app.tcp.new_ticket(&call.body).await },
    );
    table.route(
        "post",
        "/v1/session",
        "A session in exchange for a ticket, which is used up",
        |app, call: Call<(), UseTicket>| async move { app.tcp.sessions.enter(&call.body) },
    );
    table.route(
        "get",
        "/v1/session",
        "The session of this request",
        |_, call: Call| async move {
            let Access { role, actor, .. } = call.access;
            Ok(Session {
                role,
                actor: actor.to_string(),
            })
        },
    );
    table.route(
        "get",
        "/v1/sessions",
        "Sessions of pages",
        |app, _: Call| async move { Ok(app.tcp.sessions.all()) },
    );
    table.route(
        "delete",
        "/v1/sessions/{session}",
        "Ends a session, by its number, or all of a user, by their name; what they are connected by is cut",
        |app, call: Call| async move { app.tcp.sessions.revoke(call.name("session")) },
    );
}

fn views(table: &mut RouteTable) {
    let about = |_: &mut SchemaGenerator| {
        json!({
            "from-client": { "binary": "y-protocols: sync and awareness" },
            "from-server": { "binary": "y-protocols: sync and awareness; 100 and a text about saving" }
        })
    };
    table.socket(
        "/v1/labs/{lab}/views",
        "What the pages of a lab share: positions, drawings, notes, tasks, and where users are; changed with the role draw",
        about,
        |app, call: Call, upgrade| async move {
            let lab = app.lab(&call)?;
            let (seat, greetings) = lab.views.enter(call.access)?;
            let ending = lab.ending.subscribe();
            let upgrade = upgrade.max_message_size(views::LARGEST_MESSAGE);
            Ok(upgrade.on_upgrade(move |socket| views::serve(seat, greetings, ending, socket)))
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/views/save",
        "Writes a lab's views now, and as JSON",
        |app, call: Call| async move {
            let views = app.lab(&call)?.views.clone();
            let saved = tokio::task::spawn_blocking(move || views.save()).await;
            saved.unwrap_or_else(|error| Err(HttpError::conflict(error.to_string())))
        },
    );
}

fn files(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/ready",
        "The labs that come with Vink",
        |app, _: Call| async move { Ok(ready::labs(&app.executable)) },
    );
    table.route(
        "get",
        "/v1/ready/{name}",
        "A lab that comes with Vink, with its text",
        |app, call: Call| async move { ready::file(&app.executable, call.name("name")) },
    );
    table.route(
        "post",
        "/v1/spec/check",
        "Reads a lab file's text, and tells what is wrong in it and where",
        |app, call: Call<(), CheckSpec>| async move {
            let check = app.check.clone();
            // It reads files and compiles filters.
            let checked = tokio::task::spawn_blocking(move || check_spec(&call.body, &check));
            checked.await.map_err(|error| {
                let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
                HttpError::new(status, error.to_string())
            })
        },
    );
    table.route(
        "post",
        "/v1/spec/format",
        "The lab file of a lab",
        |_, call: Call<(), FormatSpec>| async move {
            Ok(FormattedSpec {
                text: call.body.spec.to_yaml(),
            })
        },
    );
}

fn check_spec(asked: &CheckSpec, check: &CheckLab) -> CheckedSpec {
    let name = asked.name.as_deref().unwrap_or("lab.yaml");
    let folder = asked.folder.as_deref().map(Path::new);
    let look = |lab: &vink_spec::Lab| match folder {
        Some(folder) => check(lab, folder),
        None => Vec::new(),
    };
    let (spec, found) = match vink_spec::read_text_and(&asked.text, name, folder, &look) {
        Ok(reading) => (Some(reading.lab), reading.warnings),
        Err(mistakes) => (None, mistakes.0),
    };
    let mistake = |found: vink_spec::Diagnostic| Mistake {
        line: found.span.line,
        column: found.span.column,
        length: found.span.length,
        path: found.path,
        message: found.message,
        fix: found.fix,
        warning: found.warning,
    };
    CheckedSpec {
        spec,
        mistakes: found.into_iter().map(mistake).collect(),
    }
}

fn labs(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/version",
        "The version, and the control process that answers",
        |app, _: Call| async move {
            Ok(Version {
                vink: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                executable: app.executable.display().to_string(),
            })
        },
    );
    table.route("get", "/v1/labs", "All labs", |app, _: Call| async move {
        let labs = app.labs.all();
        Ok(labs
            .iter()
            .map(|lab| lab.summary())
            .collect::<Vec<LabSummary>>())
    });
    table.route(
        "put",
        "/v1/labs/{lab}",
        "Makes a lab, or changes the one that runs so that it is as asked for",
        |app, call: Call<(), PutLab>| async move {
            let name = call.name("lab").to_owned();
            app.labs.put(&name, call.body).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}",
        "How a lab is",
        |app, call: Call| async move { Ok(app.lab(&call)?.status()) },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/spec",
        "What runs now, as a lab file has it",
        |app, call: Call| async move { Ok(app.lab(&call)?.saved()) },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/topology",
        "What its picture is drawn from: nodes, wires, and the numbers of their ends",
        |app, call: Call| async move { Ok(app.lab(&call)?.topology()) },
    );
    table.route(
        "delete",
        "/v1/labs/{lab}",
        "Takes a lab down; one that is being made too",
        |app, call: Call| async move {
            let lab = app.lab(&call)?;
            let labs = app.labs.clone();
            // Carried out even if the client goes away.
            let task = tokio::spawn(async move { labs.end(&lab).await });
            task.await.unwrap_or_else(|error| {
                let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
                Err(HttpError::new(status, error.to_string()))
            })
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/clock",
        "How a lab's clock is",
        |app, call: Call| async move { app.lab(&call)?.clock().await },
    );
    table.route(
        "patch",
        "/v1/labs/{lab}/clock",
        "Stops a lab's clock, lets it go on, or says how fast it may go",
        |app, call: Call<(), ChangeClock>| async move { app.lab(&call)?.change_clock(call.body).await },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/clock/run",
        "Lets a lab's clock go so far, and answers when it is there",
        |app, call: Call<(), RunClock>| async move {
            app.lab(&call)?
                .run_clock(call.body, Requester::Client)
                .await
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/restart",
        "Boots all workers of a lab again, with what should run there",
        |app, call: Call| async move { restart(app.lab(&call)?, None).await },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/machines/{machine}/restart",
        "Boots the worker of a machine again, with all machines of its image",
        |app, call: Call| async move {
            let machine = call.name("machine").to_owned();
            restart(app.lab(&call)?, Some(machine)).await
        },
    );
}

async fn restart(lab: Arc<Lab>, machine: Option<String>) -> Result<Restarted, HttpError> {
    let task = tokio::spawn(async move { lab.restart(machine.as_deref()).await });
    task.await
        .unwrap_or_else(|error| Err(HttpError::conflict(error.to_string())))
}

fn machines(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/labs/{lab}/machines",
        "All machines of a lab",
        |app, call: Call| async move { Ok(app.lab(&call)?.machines()) },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/machines",
        "Makes a machine with its interfaces, and starts its programs",
        |app, call: Call<(), NewMachine>| async move { app.lab(&call)?.new_machine(call.body).await },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/machines/{machine}",
        "How a machine is: its interfaces with addresses and counters",
        |app, call: Call| async move { app.lab(&call)?.machine(call.name("machine")).await },
    );
    table.route(
        "delete",
        "/v1/labs/{lab}/machines/{machine}",
        "Ends a machine's programs and gives it up",
        |app, call: Call| async move { app.lab(&call)?.remove_machine(call.name("machine")).await },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/machines/{machine}/interfaces",
        "Gives a machine an interface",
        |app, call: Call<(), NewInterface>| async move {
            let lab = app.lab(&call)?;
            let machine = call.name("machine").to_owned();
            lab.new_interface(&machine, call.body).await
        },
    );
    const INTERFACE: &str = "/v1/labs/{lab}/machines/{machine}/interfaces/{interface}";
    table.route(
        "get",
        INTERFACE,
        "How an interface is",
        |app, call: Call| async move {
            let lab = app.lab(&call)?;
            let (machine, interface) = (call.name("machine"), call.name("interface"));
            lab.interface(machine, interface).await
        },
    );
    table.route(
        "patch",
        INTERFACE,
        "Attaches an interface to a wire, detaches it, or changes its addresses",
        |app, call: Call<(), ChangeInterface>| async move {
            let lab = app.lab(&call)?;
            let machine = call.name("machine").to_owned();
            let interface = call.name("interface").to_owned();
            lab.change_interface(&machine, &interface, call.body).await
        },
    );
    table.route(
        "delete",
        INTERFACE,
        "Takes an interface from a machine",
        |app, call: Call| async move {
            let lab = app.lab(&call)?;
            let (machine, interface) = (call.name("machine"), call.name("interface"));
            lab.remove_interface(machine, interface).await
        },
    );
}

fn wires(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/labs/{lab}/wires",
        "All wires of a lab, without counters",
        |app, call: Call| async move { Ok(app.lab(&call)?.wires()) },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/wires",
        "Makes a wire without ends",
        |app, call: Call<(), NewWire>| async move { app.lab(&call)?.new_wire(call.body).await },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/wires/{wire}",
        "How a wire is, with the counters of its ends",
        |app, call: Call| async move { app.lab(&call)?.wire(call.name("wire")).await },
    );
    table.route(
        "patch",
        "/v1/labs/{lab}/wires/{wire}",
        "Changes what a wire does to packets from now on, or plugs it in or out",
        |app, call: Call<(), ChangeWire>| async move {
            let lab = app.lab(&call)?;
            let wire = call.name("wire").to_owned();
            lab.change_wire(&wire, call.body).await
        },
    );
    table.route(
        "delete",
        "/v1/labs/{lab}/wires/{wire}",
        "Gives a wire up; interfaces at it stay, without a carrier",
        |app, call: Call| async move { app.lab(&call)?.remove_wire(call.name("wire")).await },
    );
}

fn programs(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/labs/{lab}/programs",
        "Programs that run, those of the lab file, and the last ones that have ended",
        |app, call: Call| async move { Ok(app.lab(&call)?.programs()) },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/programs",
        "Starts a program, or has it ready to be started with its terminal",
        |app, call: Call<(), NewProgram>| async move {
            app.lab(&call)?.new_program(call.body).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/programs/{program}",
        "How a program is: by its number, or its name as machine.name",
        |app, call: Call| async move {
            let (lab, id) = app.program(&call)?;
            lab.described(id)
        },
    );
    table.route(
        "delete",
        "/v1/labs/{lab}/programs/{program}",
        "Ends a program: a virtualized process by asking it to, any other by SIGKILL",
        |app, call: Call| async move {
            let (lab, id) = app.program(&call)?;
            lab.end_program(id).await?;
            lab.described(id)
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/programs/{program}/signal",
        "Sends a signal to a program's process group",
        |app, call: Call<(), SendSignal>| async move {
            let (lab, id) = app.program(&call)?;
            lab.signal(id, call.body.signal).await?;
            lab.described(id)
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/programs/{program}/input",
        "Gives an attached program input, as its client does; answers when it is given",
        |app, call: Call<(), ProgramInput>| async move {
            let (lab, id) = app.program(&call)?;
            let giver = giver(&call.access);
            lab.input(id, call.body, &giver).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/programs/{program}/report",
        "What a virtualized process has found out so far",
        |app, call: Call| async move {
            let (lab, id) = app.program(&call)?;
            let report = lab.report(id).await?;
            Ok(Report { report })
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/machines/{machine}/relays",
        "Adds a relay to a machine; answers when it listens",
        |app, call: Call<(), NewRelay>| async move {
            let lab = app.lab(&call)?;
            let machine = call.name("machine").to_owned();
            lab.new_relay(&machine, call.body).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/relays",
        "Relays of a lab, with what they have counted",
        |app, call: Call| async move { Ok(app.lab(&call)?.relays().await) },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/relays/{relay}",
        "How a relay is: by its name as machine.name",
        |app, call: Call| async move { app.lab(&call)?.relay(call.name("relay")).await },
    );
    table.route(
        "delete",
        "/v1/labs/{lab}/relays/{relay}",
        "Ends a relay and its connections",
        |app, call: Call| async move { app.lab(&call)?.remove_relay(call.name("relay")).await },
    );
    table.stream(
        "/v1/labs/{lab}/programs/{program}/output",
        "What a program has written that is not attached; with `follow` until it ends",
        |app, call: Call<OutputQuery>| async move {
            let (lab, id) = app.program(&call)?;
            Ok(Body::from_stream(lab.output(id, &call.query)?))
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/terminals",
        "Terminals that are kept, the users that look at them, and which has the keyboard",
        |app, call: Call| async move { Ok(app.lab(&call)?.terminals()) },
    );
    let about = |generator: &mut SchemaGenerator| {
        json!({
            "from-client": {
                "binary": "0 and bytes of the standard input; 0 alone at its end",
                "text": generator.subschema_for::<FromClient>()
            },
            "from-server": {
                "binary": "1 and bytes of the standard output, 2 and bytes of the standard error",
                "text": generator.subschema_for::<FromServer>()
            }
        })
    };
    table.socket(
        "/v1/labs/{lab}/programs/{program}/terminal",
        "Starts a program that was made with `attach`, and carries its input and output; or shows a terminal that is kept",
        about,
        |app, call: Call, upgrade| async move {
            let (lab, id) = app.program(&call)?;
            lab.is_attachable(id)?;
            if !lab.is_kept(id) {
                call.access.must_be(Role::Operate)?;
            }
            let giver = giver(&call.access);
            Ok(upgrade.on_upgrade(move |socket| sockets::terminal(lab, id, giver, socket)))
        },
    );
}

fn observation(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/labs/{lab}/captures",
        "Captures that go on, and the last ones that have ended",
        |app, call: Call| async move { Ok(app.lab(&call)?.captures()) },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/captures",
        "Writes packets to a file from now on, as pcapng, with the role own; without a path the lab keeps them",
        |app, call: Call<(), NewCapture>| async move {
            let lab = app.lab(&call)?;
            if call.body.path.is_empty() {
                return lab.capture_here(call.body).await;
            }
            call.access.must_be(Role::Own)?;
            lab.capture_to_file(call.body).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/captures/{capture}/packets",
        "Packets of a capture, a line each, also while it goes on",
        |app, call: Call<CapturedQuery>| async move {
            let kept = app.lab(&call)?.kept_of_capture(call.name("capture"))?;
            reading(move || kept.packets(&call.query)).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/captures/{capture}/packets/{packet}",
        "A packet of a capture: its bytes, and what Wireshark's dissectors find in it, where these are installed",
        |app, call: Call| async move {
            let lab = app.lab(&call)?;
            let kept = lab.kept_of_capture(call.name("capture"))?;
            lab.packet_detail(kept, call.name("packet")).await
        },
    );
    table.stream(
        "/v1/labs/{lab}/captures/{capture}/file",
        "A capture as pcapng, as far as it is written",
        |app, call: Call<NoQuery>| async move {
            let kept = app.lab(&call)?.kept_of_capture(call.name("capture"))?;
            let (file, length) = reading(move || kept.whole()).await?;
            Ok(Body::from_stream(pieces(file, length)))
        },
    );
    table.route(
        "delete",
        "/v1/labs/{lab}/captures/{capture}",
        "Ends a capture",
        |app, call: Call| async move {
            let lab = app.lab(&call)?;
            let id = call.name("capture").parse().unwrap_or(0);
            if lab
                .captures()
                .iter()
                .any(|one| one.id == id && one.path.is_some())
            {
                call.access.must_be(Role::Own)?;
            }
            lab.stop_capture(id).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/breakpoints",
        "Breakpoints, what they have counted, and what they have stopped",
        |app, call: Call| async move { app.lab(&call)?.breakpoints().await },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/breakpoints",
        "Sets a breakpoint",
        |app, call: Call<(), NewBreakpoint>| async move {
            app.lab(&call)?.new_breakpoint(call.body).await
        },
    );
    table.route(
        "patch",
        BREAKPOINT,
        "Has a breakpoint do something, or nothing for a while",
        |app, call: Call<(), ChangeBreakpoint>| async move {
            let lab = app.lab(&call)?;
            let name = call.name("breakpoint").to_owned();
            lab.enable_breakpoint(&name, call.body.enabled).await
        },
    );
    table.route(
        "post",
        &format!("{BREAKPOINT}/verdict"),
        "Decides about the packet that has stopped the lab",
        |app, call: Call<(), PacketVerdict>| async move {
            let lab = app.lab(&call)?;
            let name = call.name("breakpoint").to_owned();
            lab.decide_packet(&name, call.body).await
        },
    );
    table.route(
        "delete",
        BREAKPOINT,
        "Removes a breakpoint; what waits because of it goes on",
        |app, call: Call| async move {
            let name = call.name("breakpoint").to_owned();
            app.lab(&call)?.remove_breakpoint(&name).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/pods",
        "Pods, what they have used and counted, and why some have ended",
        |app, call: Call| async move { app.lab(&call)?.pods().await },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/pods",
        "Loads a pod, in the place of one of its name",
        |app, call: Call<(), NewPod>| async move { app.lab(&call)?.new_pod(call.body).await },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/pods/{pod}",
        "A pod",
        |app, call: Call| async move { app.lab(&call)?.pod(call.name("pod")).await },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/pods/{pod}/revoke",
        "Ends a pod, and takes back all that it has; it can be loaded again",
        |app, call: Call| async move { app.lab(&call)?.revoke_pod(call.name("pod")).await },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/paths",
        "Paths of packets, and what they have used and counted",
        |app, call: Call| async move { app.lab(&call)?.packet_paths().await },
    );
    table.route("get", PACKET_PATH, "A path", |app, call: Call| async move {
        app.lab(&call)?.packet_path(call.name("path")).await
    });
    table.route(
        "delete",
        PACKET_PATH,
        "Removes a path: its packets take none any more",
        |app, call: Call| async move { app.lab(&call)?.remove_path(call.name("path")).await },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/filters",
        "Filters in force",
        |app, call: Call| async move { Ok(app.lab(&call)?.filters()) },
    );
    table.route(
        "get",
        FILTER,
        "A filter with its rules as they were given and as the kernel has them, counters and versions",
        |app, call: Call| async move { app.lab(&call)?.filter(call.name("place")).await },
    );
    table.route(
        "put",
        FILTER,
        "Has rules for nft(8) in force at a machine or an interface, in one transaction; or checks them",
        |app, call: Call<(), NewFilter>| async move {
            let place = call.name("place").to_owned();
            app.lab(&call)?.put_filter(&place, call.body).await
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/filters/{place}/rollback",
        "Has an earlier version of a filter in force, as a new version",
        |app, call: Call<(), Rollback>| async move {
            let place = call.name("place").to_owned();
            app.lab(&call)?.roll_back(&place, call.body).await
        },
    );
    table.route(
        "delete",
        FILTER,
        "Removes a filter: its tables go",
        |app, call: Call| async move {
            let place = call.name("place").to_owned();
            app.lab(&call)?.remove_filter(&place).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/series",
        "Time series, and how many rows they have",
        |app, call: Call| async move { app.lab(&call)?.all_series().await },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/series",
        "Writes numbers to a file from now on, by the lab's clock or at events",
        |app, call: Call<(), NewSeries>| async move { app.lab(&call)?.new_series(call.body).await },
    );
    table.route(
        "delete",
        "/v1/labs/{lab}/series/{series}",
        "Ends a time series; its file stays",
        |app, call: Call| async move {
            let name = call.name("series").to_owned();
            app.lab(&call)?.remove_series(&name).await
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/series/{series}/rows",
        "Rows of a time series, also while it grows",
        |app, call: Call<RowsQuery>| async move {
            let lab = app.lab(&call)?;
            let name = call.name("series").to_owned();
            lab.rows_of_series(&name, call.query).await
        },
    );
    table.stream(
        "/v1/labs/{lab}/series/{series}/file",
        "The file of a time series, as far as it is written",
        |app, call: Call<NoQuery>| async move {
            let lab = app.lab(&call)?;
            let file = lab.series_as_file(call.name("series")).await?;
            Ok(Body::from_stream(pieces(file, u64::MAX)))
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/continue",
        "Lets the lab go on, if a breakpoint has stopped it",
        |app, call: Call| async move {
            let lab = app.lab(&call)?;
            lab.resume().await?;
            lab.tell_clock().await.map(drop)
        },
    );
    table.route(
        "post",
        "/v1/labs/{lab}/machines/{machine}/continue",
        "Lets a machine go on that a breakpoint has stopped",
        |app, call: Call| async move {
            let machine = call.name("machine").to_owned();
            app.lab(&call)?.resume_machine(&machine).await
        },
    );
    let pcapng =
        |_: &mut SchemaGenerator| json!({ "from-server": { "binary": "a pcapng file in pieces" } });
    table.socket(
        "/v1/labs/{lab}/captures/stream",
        "Packets as they come, as pcapng",
        pcapng,
        |app, call: Call<CaptureQuery>, upgrade| async move {
            let lab = app.lab(&call)?;
            let capture = NewCapture {
                interfaces: listed(&call.query.interfaces),
                filter: call.query.filter,
                snap: call.query.snap,
                path: String::new(),
            };
            let (capture, packets) = lab.capture_to_client(capture).await?;
            Ok(
                upgrade
                    .on_upgrade(move |socket| sockets::packets(lab, capture.id, packets, socket)),
            )
        },
    );
    let viewing = |generator: &mut SchemaGenerator| {
        json!({
            "from-client": { "text": generator.subschema_for::<FromViewer>() },
            "from-server": {
                "binary": "frames of flights, counters, queues and the time: docs/api.md has the format",
                "text": generator.subschema_for::<ToViewer>()
            }
        })
    };
    table.socket(
        "/v1/labs/{lab}/feed",
        "Packets, counters and queues as they are now, for a picture of the lab",
        viewing,
        |app, call: Call, upgrade| async move {
            let lab = app.lab(&call)?;
            let upgrade = upgrade.max_message_size(LARGEST_SUBSCRIPTION);
            Ok(upgrade.on_upgrade(move |socket| sockets::feed(lab, socket)))
        },
    );
    let samples =
        |_: &mut SchemaGenerator| json!({ "from-server": { "binary": "sockets, for vink pcb" } });
    table.socket(
        "/v1/labs/{lab}/samples/stream",
        "Sockets as they are when the kernel passes its tracepoints",
        samples,
        |app, call: Call<SampleQuery>, upgrade| async move {
            let samples = app.lab(&call)?.samples_to_client(call.query).await?;
            Ok(upgrade.on_upgrade(move |socket| sockets::bytes(samples, socket)))
        },
    );
    let event = |generator: &mut SchemaGenerator| told::<vink_api::Event>(generator);
    table.socket(
        "/v1/events",
        "Events from now on",
        event,
        |app, call: Call<EventFilter>, upgrade| async move {
            // Before the client is answered, so that it misses nothing of what it asks for next.
            let watched = listed(call.query.watch.as_deref().unwrap_or_default());
            let events = app.labs.events(call.query.lab.clone(), watched.clone());
            let watching = match (&call.query.lab, watched.is_empty()) {
                (_, true) => None,
                (Some(lab), false) => {
                    let lab = app.labs.get(lab)?;
                    lab.watch(&watched, true).await?;
                    Some((lab, watched))
                }
                (None, false) => {
                    return Err(HttpError::invalid("packets of which lab?")
                        .hint("name it by lab=NAME")
                        .at("?lab"))
                }
            };
            // An open page keeps the control process, another client does not.
            let page = call.access.is_page.then(|| app.tcp.page());
            Ok(upgrade.on_upgrade(move |socket| async move {
                sockets::events(events, watching, socket).await;
                drop(page);
            }))
        },
    );
    table.route(
        "get",
        "/v1/labs/{lab}/statistics",
        "Figures of a lab",
        |app, call: Call| async move { app.lab(&call)?.statistics().await },
    );
    let statistics = |generator: &mut SchemaGenerator| told::<Statistics>(generator);
    table.socket(
        "/v1/labs/{lab}/statistics/stream",
        "Figures of a lab at an interval",
        statistics,
        |app, call: Call<StatisticsQuery>, upgrade| async move {
            let lab = app.lab(&call)?;
            let interval = call.query.interval.duration();
            if interval.as_millis() < 10 {
                return Err(HttpError::invalid("an interval is at least 10ms").at("?interval"));
            }
            Ok(upgrade.on_upgrade(move |socket| sockets::statistics(lab, interval, socket)))
        },
    );
}

fn runs(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/runs",
        "Recorded runs: those of this control process's labs, and what was listed since",
        |app, _: Call| async move {
            let labs = app.labs.clone();
            reading(move || Ok(labs.runs.all())).await
        },
    );
    table.route(
        "post",
        "/v1/runs",
        "Lists what was recorded at a path, for all sessions",
        |app, call: Call<(), NewRun>| async move {
            let labs = app.labs.clone();
            reading(move || labs.runs.add(&call.body)).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}",
        "A recorded run, with the topology that its lab was made with",
        |app, call: Call| async move {
            let (labs, run) = (app.labs.clone(), app.run(&call)?);
            reading(move || run.run(&labs.runs)).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/timeline",
        "How much of which kind happened when",
        |app, call: Call<TimelineQuery>| async move {
            let run = app.run(&call)?;
            reading_while_waited(move |stop| run.timeline(&call.query, stop)).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/events",
        "What happened, packets included, each in a line",
        |app, call: Call<RunEventsQuery>| async move {
            let run = app.run(&call)?;
            reading_while_waited(move |stop| run.events(&call.query, stop)).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/packets",
        "Packets that departed, arrived or were lost, a line each",
        |app, call: Call<RunPacketsQuery>| async move {
            let run = app.run(&call)?;
            reading_while_waited(move |stop| run.packets(&call.query, stop)).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/packets/{packet}",
        "A packet: its first bytes, and what Wireshark's dissectors find in it, where these are installed",
        |app, call: Call| async move {
            let run = app.run(&call)?;
            run.packet_detail(&app.executable, call.name("packet")).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/next",
        "The next event of some kinds, or the last one before; a list of one, or empty",
        |app, call: Call<NextEventQuery>| async move {
            let run = app.run(&call)?;
            reading_while_waited(move |stop| run.next(&call.query, stop)).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/state",
        "What was counted, and which programs ran, at a moment",
        |app, call: Call<RunStateQuery>| async move {
            let run = app.run(&call)?;
            reading_while_waited(move |stop| run.state(call.query.at, stop)).await
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/topology",
        "Machines and wires as they were at a moment, and until when they stay so",
        |app, call: Call<RunStateQuery>| async move {
            let run = app.run(&call)?;
            reading_while_waited(move |stop| run.topology_at(call.query.at, stop)).await
        },
    );
    table.stream(
        "/v1/runs/{run}/flights",
        "Packets under way, as frames of the page's picture one behind the other",
        |app, call: Call<FlightsQuery>| async move {
            let run = app.run(&call)?;
            let frames = reading_while_waited(move |stop| run.flights(&call.query, stop)).await?;
            Ok(Body::from(frames))
        },
    );
    let about = |_: &mut SchemaGenerator| {
        json!({
            "from-client": { "binary": "y-protocols: awareness" },
            "from-server": { "binary": "y-protocols: awareness" }
        })
    };
    table.socket(
        "/v1/runs/{run}/views",
        "Where the users are that look at a run, and at which time of it: as views of a lab, without their document",
        about,
        |app, call: Call, upgrade| async move {
            let run = app.run(&call)?;
            let (seat, greetings) = run.views.enter(call.access)?;
            let ending = run.ending.subscribe();
            let upgrade = upgrade.max_message_size(views::LARGEST_MESSAGE);
            Ok(upgrade.on_upgrade(move |socket| views::serve(seat, greetings, ending, socket)))
        },
    );
    table.route(
        "get",
        "/v1/runs/{run}/difference",
        "Where a run and another one part",
        |app, call: Call<DifferenceQuery>| async move {
            let run = app.run(&call)?;
            let other = app.labs.runs.get(&call.query.with)?;
            reading_while_waited(move |stop| run.difference(&other, &call.query, stop)).await
        },
    );
    table.route(
        "post",
        "/v1/runs/{run}/open",
        "Makes a lab that is as a run was at a moment; answers when it is there",
        |app, call: Call<(), OpenRun>| async move {
            let run = app.run(&call)?;
            app.labs.open_run(run, call.body).await
        },
    );
}

fn explored(table: &mut RouteTable) {
    table.route(
        "get",
        "/v1/explored",
        "What vink explore has found, as far as it was listed",
        |app, _: Call| async move { Ok(app.labs.explored.all()) },
    );
    table.route(
        "post",
        "/v1/explored",
        "Lists what vink explore has written at a path, for all sessions",
        |app, call: Call<(), NewExplored>| async move {
            app.labs.explored.add(&call.body, &app.executable).await
        },
    );
    table.route(
        "get",
        "/v1/explored/{explored}",
        "What was explored and found",
        |app, call: Call| async move { Ok(app.explored(&call)?.about.clone()) },
    );
    table.route(
        "get",
        "/v1/explored/{explored}/run",
        "The run with a schedule, which is made for this request: what happens in it, and what it breaks",
        |app, call: Call<ExploredQuery>| async move {
            let question = ExploredQuestion::Run(call.query.clone());
            app.explored(&call)?.ask::<ExploredRun>(&question).await
        },
    );
    table.route(
        "get",
        "/v1/explored/{explored}/choices",
        "What comes of a run if one more of its packets has each of the fates: runs that are made for this request",
        |app, call: Call<ChoicesQuery>| async move {
            let question = ExploredQuestion::Choices(call.query.clone());
            app.explored(&call)?
                .ask::<Vec<ExploredChoice>>(&question)
                .await
        },
    );
    table.route(
        "get",
        "/v1/explored/{explored}/packets/{packet}",
        "A packet of a run: its bytes, and what Wireshark's dissectors find in it, where these are installed",
        |app, call: Call<ExploredQuery>| async move {
            let name = call.name("packet");
            let number: u64 = name
                .parse()
                .map_err(|_| HttpError::no("packet", name, [], "in the run"))?;
            let question = ExploredQuestion::Packet(call.query.clone(), number);
            let found: ExploredCapture = app.explored(&call)?.ask(&question).await?;
            let ExploredCapture {
                packet,
                bytes,
                file,
            } = found;
            Ok(detail(&app.executable, packet, &bytes, (file, number)).await)
        },
    );
    table.route(
        "post",
        "/v1/explored/{explored}/open",
        "Makes a lab in which packets have the fates of a schedule, as it is at a moment; answers when it is there",
        |app, call: Call<(), OpenExplored>| async move {
            let explored = app.explored(&call)?;
            app.labs.open_explored(explored, call.body).await
        },
    );
}

/// The query of a stream that has none.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoQuery {}

/// A file in pieces, as many bytes as it has, and so many at most.
fn pieces(
    file: std::fs::File,
    length: u64,
) -> impl futures_util::Stream<Item = std::io::Result<Vec<u8>>> {
    let file = Arc::new(file);
    futures_util::stream::try_unfold(0, move |at| {
        let file = file.clone();
        async move {
            let read = tokio::task::spawn_blocking(move || {
                let most = (length - at).min(PIECE as u64) as usize;
                let mut piece = vec![0; most];
                let count = file.read_at(&mut piece, at)?;
                piece.truncate(count);
                Ok((!piece.is_empty()).then_some((piece, at + count as u64)))
            });
            read.await
                .unwrap_or_else(|error| Err(std::io::Error::other(error)))
        }
    })
}

fn giver(access: &Access) -> Giver {
    Giver {
        requester: Requester::Client,
        actor: access.actor.clone(),
        role: access.role,
    }
}

fn told<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({ "from-server": { "text": generator.subschema_for::<T>() } })
}

/// Names separated by commas.
fn listed(text: &str) -> Vec<String> {
    let names = text.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}
