//! `vink dissect`: what Wireshark's sharkd finds in a packet. The control process starts it; it is not meant for users.
//!
//! sharkd is large, and reads what a stranger may have sent. So it has nothing but the packets: no network, no file but
//! programs and libraries, no rights, and little memory and time. It is there for one packet, and whatever becomes of it
//! is an error of that packet's.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;
use vink_api::PacketField;
use vink_confine::{Fork, Inside};
use vink_sys::child::{prepare, Step};
use vink_sys::fd::{in_memory, pipe};
use vink_sys::process::{exit_now, set_limit, waitpid};
use vink_sys::rustix::process::{set_parent_process_death_signal, Signal};

use crate::cli_error::CliError;
use crate::print;

/// Where it may be: nothing else of the host's is seen by it.
const PLACES: [&str; 2] = ["/usr/bin/sharkd", "/usr/local/bin/sharkd"];
/// What stays of the folders in `/`.
const SEEN: [&str; 8] = [
    "bin", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "usr",
];
/// Bytes of packets, and of an answer.
const MOST_INPUT: u64 = 64 << 20;
const MOST_OUTPUT: u64 = 16 << 20;
/// What sharkd may have: seconds of a processor, bytes of memory.
const BOUNDS: [(u32, u64); 4] = [
    (libc::RLIMIT_CPU, 10),
    (libc::RLIMIT_AS, 1 << 30),
    (libc::RLIMIT_FSIZE, 0),
    // The end of a process that was bounded is no crash.
    (libc::RLIMIT_CORE, 0),
];

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The packet, from 0 on
    packet: u32,
}

/// A line of sharkd's.
#[derive(Deserialize)]
struct Answer {
    id: u32,
    result: Option<Frame>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

/// What it says of a packet, or of a file (nothing of this).
#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    tree: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    /// What it says.
    #[serde(default, rename = "l")]
    label: String,
    #[serde(default, rename = "f")]
    filter: Option<String>,
    /// Where it begins, and its length.
    #[serde(default, rename = "h")]
    place: Option<(u32, u32)>,
    /// Of which bytes, if these are not the packet's own.
    #[serde(default, rename = "ds")]
    source: Option<u32>,
    #[serde(default, rename = "n")]
    nodes: Vec<Node>,
}

impl Node {
    fn field(self) -> PacketField {
        let place = self.place.filter(|_| self.source.is_none());
        let (start, length) = place.unwrap_or_default();
        PacketField {
            text: self.label,
            filter: self.filter,
            start,
            length,
            fields: self.nodes.into_iter().map(Node::field).collect(),
        }
    }
}

/// Reads a pcapng file from standard input; writes the packet's fields as JSON, or why there are none.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    print::json_line(&dissect(arguments.packet))?;
    Ok(ExitCode::SUCCESS)
}

fn dissect(packet: u32) -> Result<Vec<PacketField>, String> {
    let program = PLACES.into_iter().find(|path| Path::new(path).is_file());
    let program = program.ok_or("sharkd is not installed (Debian: wireshark-common)")?;
    let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    let mut file = in_memory(c"packets.pcapng").map_err(failed("memfd_create"))?;
    let input = std::io::stdin().take(MOST_INPUT);
    std::io::copy(&mut { input }, &mut file).map_err(failed("reading the packets"))?;
    let (to_child, mut asks) = pipe()
        .map(|(read, write)| (read, fs::File::from(write)))
        .map_err(failed("pipe"))?;
    let (answers, from_child) = pipe().map_err(failed("pipe"))?;
    let frame = packet.saturating_add(1);
    let requests = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"load\",\"params\":{{\"file\":\"/proc/self/fd/{}\"}}}}\n\
         {{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"frame\",\"params\":{{\"frame\":{frame},\"proto\":true}}}}\n",
        file.as_raw_fd()
    );
    asks.write_all(requests.as_bytes())
        .map_err(failed("a pipe"))?;
    drop(asks);
    let pid = match vink_confine::fork().map_err(failed("confining sharkd"))? {
        Fork::Parent(pid) => pid,
        Fork::Child(inside) => {
            drop(answers);
            let tells = from_child.try_clone();
            let mut command = Command::new(program);
            command
                .arg("-")
                .env_clear()
                .current_dir("/")
                .stdin(to_child)
                .stdout(from_child)
                // /dev is hidden: what this process has.
                .stderr(Stdio::inherit());
            let steps = [
                Step::UnblockAll,
                Step::CloseOthers,
                Step::Keep(file.as_raw_fd()),
            ];
            let error = become_it(inside, prepare(&mut command, steps));
            let said = serde_json::json!({ "id": 0, "error": { "message": error } });
            let _ = tells.and_then(|to| writeln!(fs::File::from(to), "{said}"));
            exit_now(1)
        }
    };
    drop((to_child, from_child));
    let mut said = Vec::new();
    let read = fs::File::from(answers)
        .take(MOST_OUTPUT)
        .read_to_end(&mut said);
    // It has closed its output, or has said too much.
    let _ = vink_sys::process::kill(pid, libc::SIGKILL);
    let _ = waitpid(pid, 0);
    read.map_err(failed("reading from sharkd"))?;
    fields(&said)
}

/// Becomes sharkd; returns why it could not.
fn become_it(inside: Inside, command: &mut Command) -> String {
    let folders = || {
        let all = fs::read_dir("/").ok()?.flatten();
        let hidden = all.filter(|entry| {
            SEEN.iter()
                .all(|seen| entry.file_name() != OsStr::new(seen))
        });
        Some(hidden.map(|entry| entry.path()).collect::<Vec<PathBuf>>())
    };
    let Some(hidden) = folders() else {
        return "reading /: no folder can be hidden from sharkd".to_owned();
    };
    let hidden: Vec<&Path> = hidden.iter().map(PathBuf::as_path).collect();
    if let Err(error) = inside.confine_to_reading(&hidden) {
        return format!("confining sharkd: {error}");
    }
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    for (what, most) in BOUNDS {
        let limit = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        if let Err(error) = set_limit(0, what, &limit) {
            return format!("bounding sharkd: {error}");
        }
    }
    format!("executing sharkd: {}", command.exec())
}

/// What it has said of the packet.
fn fields(said: &[u8]) -> Result<Vec<PacketField>, String> {
    let lines = said.split(|byte| *byte == b'\n');
    let answers = lines.filter_map(|line| serde_json::from_slice::<Answer>(line).ok());
    for answer in answers {
        if let Some(error) = answer.error {
            return Err(format!("sharkd: {}", error.message));
        }
        if let (2, Some(frame)) = (answer.id, answer.result) {
            // "Frame 1: ...": it has another number in the capture, whose line says the rest.
            let own = |node: &Node| node.filter.as_deref() != Some("frame");
            return Ok(frame
                .tree
                .into_iter()
                .filter(own)
                .map(Node::field)
                .collect());
        }
    }
    Err("sharkd has ended at this packet, or has found too much in it".to_owned())
}
