//! Labs of a user's own control process, and what is left of them on the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::Place;

/// The runtime folder of a place. Everything is down when this is dropped.
pub struct Control<'a> {
    place: &'a Place,
}

impl Control<'_> {
    pub fn of(place: &Place) -> Control<'_> {
        Control { place }
    }

    /// Where and as which user they run.
    pub fn place(&self) -> &Place {
        self.place
    }

    /// Whether commands run as another user than the test.
    pub fn is_nobody(&self) -> bool {
        self.place.is_nobody()
    }

    /// Where the control process listens.
    pub fn runtime(&self) -> PathBuf {
        self.place.temporary().join("run")
    }

    /// The folder of lab files.
    pub fn folder(&self) -> PathBuf {
        self.place.temporary()
    }

    /// Any program, in that folder.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.place.command(program);
        command
            .current_dir(self.folder())
            .env("VINK_RUNTIME", self.runtime());
        command
    }

    /// What came of `vink` with these arguments.
    pub fn try_vink(&self, arguments: &[&str]) -> Output {
        let mut command = self.command("vink");
        command.args(arguments).stdin(Stdio::null());
        command.output().expect("vink")
    }

    /// The standard output of a `vink` that must succeed.
    pub fn vink(&self, arguments: &[&str]) -> String {
        let output = self.try_vink(arguments);
        assert!(
            output.status.success(),
            "{}: vink {}: {}\n{}{}",
            self.place.user(),
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// The same as JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.vink(arguments);
        serde_json::from_str(&text).expect(&text)
    }

    /// What a `vink` that must fail says, and its status.
    pub fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.try_vink(arguments);
        assert!(!output.status.success(), "vink {}", arguments.join(" "));
        let code = output.status.code().unwrap_or(-1);
        (code, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// A request to the control process: status, and answer.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut command = self.command("curl");
        let socket = self.runtime().join("control.sock");
        command.args(["-sS", "--path-as-is", "-g", "-X", method]);
        command.args(["-w", "\n%{http_code}"]);
        command.arg("--unix-socket").arg(socket);
        command.arg(format!("http://localhost{path}"));
        if !body.is_empty() {
            command.args(["-d", body]);
        }
        let output = command.output().expect("curl");
        let text = String::from_utf8(output.stdout).expect("text");
        let (answer, status) = text.rsplit_once('\n').expect(&text);
        let answer = serde_json::from_str(answer).unwrap_or(Value::Null);
        (status.parse().expect(&text), answer)
    }

    /// `vink` that goes on, with pipes.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command("vink");
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("vink")
    }

    /// Writes a file next to the lab files.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder().join(name), text).expect(name);
    }

    /// Processes that this place's user has started, by their environment: control process, workers, programs.
    pub fn processes(&self) -> BTreeSet<i32> {
        let mark = format!("VINK_RUNTIME={}", self.runtime().display());
        let mut found = BTreeSet::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let marked = environment.split(|byte| *byte == 0);
            if marked.into_iter().any(|one| one == mark.as_bytes()) {
                found.insert(pid);
            }
        }
        found
    }

    /// Network namespaces of the lab's programs: the host's empty ones that they are in.
    pub fn namespaces(&self) -> BTreeSet<PathBuf> {
        let own = fs::read_link("/proc/self/ns/net").expect("our own namespace");
        let links = self.processes().into_iter();
        links
            .filter_map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok())
            .filter(|namespace| *namespace != own)
            .collect()
    }

    /// None of these is there any more.
    pub fn namespaces_are_gone(&self, were: &BTreeSet<PathBuf>) {
        assert!(!were.is_empty(), "programs have a network namespace");
        let left: Vec<_> = network_namespaces().intersection(were).cloned().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Waits until there are none any more: those of a killed worker are being killed.
    pub fn wait_for_no_process(&self) {
        for pid in self.processes() {
            if let Ok(process) = vink_sys::pidfd::open(pid) {
                let ended = vink_sys::poll::is_readable(&process, 60_000);
                assert!(ended, "process {pid} does not end");
            }
        }
    }

    /// Nothing of the labs is left on the host.
    pub fn nothing_is_left(&self) {
        self.wait_for_no_process();
        let runtime = self.runtime();
        let left: Vec<_> = match fs::read_dir(&runtime) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(_) => Vec::new(),
        };
        let log = fs::read_to_string(runtime.join("log")).unwrap_or_default();
        assert!(left.is_empty(), "{left:?}\n{log}");
        assert!(!runtime.exists(), "{}", runtime.display());
    }
}

impl Drop for Control<'_> {
    fn drop(&mut self) {
        let _ = self.try_vink(&["lab", "down", "--all"]);
    }
}

/// Network namespaces of the host that some process is in.
fn network_namespaces() -> BTreeSet<PathBuf> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok())
        .collect()
}
