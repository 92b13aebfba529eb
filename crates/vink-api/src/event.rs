//! What happens, told when it does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::{Settings, Stop};

use crate::{Clock, HostState, LabState};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// In which lab.
    pub lab: String,
    /// Seconds since 1970.
    pub time: f64,
    /// The user by whose request; none: it happened by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// What.
    #[serde(flatten)]
    pub what: Happening,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Happening {
    /// A lab is made or changed: so much of it is done.
    Progress {
        /// What is done now: `machines`, `programs` ...
        step: String,
        /// How many are done.
        done: usize,
        /// Of how many.
        total: usize,
    },
    /// A lab is in another state.
    Lab {
        /// Which.
        state: LabState,
    },
    /// A user has asked for a change.
    Asked {
        /// `POST` and so on.
        method: String,
        /// With everything from `/v1` on.
        path: String,
        /// JSON; none if it is long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// Something of the lab was changed.
    Changed {
        /// What.
        change: crate::Change,
        /// How many changes of the lab there were by now.
        revision: u64,
    },
    /// A lab's clock was told something. Breakpoints tell of themselves.
    Clock {
        /// How it is now.
        clock: Clock,
    },
    /// A program was started.
    Started {
        /// Its number.
        program: u64,
        /// Its machine.
        machine: String,
        /// Its name, if it has one.
        name: Option<String>,
    },
    /// A program is ready.
    Ready {
        /// Its number.
        program: u64,
        /// Its machine.
        machine: String,
        /// Its name, if it has one.
        name: Option<String>,
    },
    /// A program has ended.
    Ended {
        /// Its number.
        program: u64,
        /// Its machine.
        machine: String,
        /// Its name, if it has one.
        name: Option<String>,
        /// 0 to 255, or 128 + a signal.
        code: i32,
        /// Why it could not be executed, or how it failed.
        error: Option<String>,
    },
    /// At a kept terminal, a client has come, gone, taken the keyboard or given it up.
    Terminal {
        /// The number of its program.
        program: u64,
        /// Its machine.
        machine: String,
        /// How many clients look at it.
        viewers: usize,
        /// The user of the client that has the keyboard.
        keyboard: Option<String>,
    },
    /// A wire has other settings.
    Wire {
        /// Which.
        wire: String,
        /// Of this end only.
        from: Option<String>,
        /// All of them.
        settings: Settings,
        /// Whether it is plugged in.
        up: bool,
    },
    /// A wire's uplink has failed, or works again.
    Uplink {
        /// The wire.
        wire: String,
        /// What is wrong; none: nothing any more.
        error: Option<String>,
    },
    /// The line of a timed event or of a breakpoint was carried out, or failed.
    Timed {
        /// Its line.
        line: String,
        /// How it failed.
        error: Option<String>,
    },
    /// A worker has died, and its machines with it.
    Dead {
        /// The machines.
        machines: Vec<String>,
        /// Why.
        message: String,
        /// Symbols, innermost first.
        backtrace: Vec<String>,
        /// The end of the kernel's log.
        log: String,
    },
    /// A host is there, or is lost, and its machines with it.
    Host {
        /// Its name.
        host: String,
        /// Whether it is there.
        state: HostState,
        /// Why it is lost.
        error: Option<String>,
    },
    /// The kernel of a worker has not returned for long, or has returned after that.
    Kernel {
        /// The worker's place in the lab's list.
        worker: usize,
        /// Its process.
        pid: u32,
        /// For how long, with a backtrace; or that it has.
        message: String,
    },
    /// A line of a kernel's log.
    Log {
        /// The image's name.
        image: Option<String>,
        /// The line.
        line: String,
    },
    /// A capture has ended by itself.
    CaptureEnded {
        /// Its number.
        capture: u64,
        /// Why.
        error: String,
    },
    /// A packet of a watched interface.
    Packet(Packet),
    /// A breakpoint was met.
    Breakpoint {
        /// Its name.
        breakpoint: String,
        /// How often it was met by now.
        number: u64,
        /// By which packet.
        packet: Packet,
        /// What has stopped.
        stopped: Option<Stop>,
        /// The packet's bytes from its Ethernet header on, two hexadecimal digits each: if all of
        /// the lab has stopped before it passes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<String>,
    },
    /// A pod was ended by what it did.
    PodEnded {
        /// Its name.
        pod: String,
        /// The path whose packets it had then; none: of no path.
        path: Option<String>,
        /// What it did.
        fault: String,
    },
    /// A line of a pod's log.
    PodLog {
        /// Its name.
        pod: String,
        /// The line.
        line: String,
    },
    /// Events came faster than they were read.
    Missed {
        /// How many are not told.
        events: u64,
    },
}

/// What happened to a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Packet {
    /// Nanoseconds of the kernel's clock.
    pub nanoseconds: u64,
    /// `machine:interface`.
    pub end: String,
    /// `departure`, `arrival` or `loss`.
    pub what: String,
    /// Why it was lost.
    pub reason: Option<String>,
    /// Bytes, with its Ethernet header.
    pub length: u32,
    /// A line such as tcpdump's about it.
    pub summary: String,
}

/// Which events are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EventFilter {
    /// Of this lab only, which may come later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
    /// Also packets of these interfaces of it: `machine:interface`, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
}
