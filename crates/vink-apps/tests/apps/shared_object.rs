//! Apps in C.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lab::Lab;
use vink_apps::{App, AppError, Apps, Calls, Error, Report, State};
use vink_kernel::Clock;

/// A shared object that was made of a C program. Gone when dropped.
pub struct Built(PathBuf);

impl Built {
    /// Of a file of this folder.
    fn new(file: &str) -> Built {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps");
        Built::of(&std::fs::read_to_string(path.join(file)).expect("a C file"))
    }

    /// Of a text.
    pub fn of(source: &str) -> Built {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vink-apps-{}-{count}.so", std::process::id());
        let output = std::env::temp_dir().join(name);
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I"]);
        cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
        cc.arg("-o").arg(&output).args(["-x", "c", "-"]);
        let mut child = cc.stdin(Stdio::piped()).spawn().expect("cc");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(source.as_bytes()).expect("cc reads it");
        drop(input);
        assert!(child.wait().expect("cc").success(), "{cc:?}");
        Built(output)
    }

    /// A command line with arguments.
    pub fn words(&self, arguments: &str) -> String {
        format!("so:{} {arguments}", self.0.display())
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Asks a doubler twice.
struct Asks(&'static str);

impl App for Asks {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let socket = calls.datagrams("[::]:0".parse().expect("an address"))?;
        socket.connect(self.0.parse().expect("an address"))?;
        for text in ["a", "bc"] {
            socket.send_all(text.as_bytes())?;
            let mut answer = [0; 10];
            let got = socket.recv(&mut answer, 0)?;
            assert_eq!(&answer[..got], text.repeat(2).as_bytes());
        }
        calls.print("twice\n");
        Ok(0)
    }
}

#[test]
fn a_c_program_runs_as_an_app() {
    let mut lab = Lab::new(Clock::Virtual);
    let built = Built::new("doubler.c");
    let before = lab.used();
    assert!(Apps::knows(built.words("").trim()));
    // Two of one file, at the same time.
    let servers = [1000, 2000].map(|port| lab.serve(&built.words(&port.to_string())));
    for to in ["[fd00::2]:1000", "[fd00::2]:2000", "[::ffff:10.0.0.2]:2000"] {
        let id = lab.start_app(lab.client.id, Asks(to));
        lab.run_until(|lab| lab.has_ended(id));
        assert_eq!(lab.output(id), "twice\n");
        lab.end(id);
    }
    for (server, count) in servers.into_iter().zip([2, 4]) {
        let value = serde_json::json!({ "datagrams": count });
        assert_eq!(lab.report(server), Report::Other { value });
        lab.apps
            .stop(lab.worker.kernel(), server)
            .expect("it is told");
        lab.run_until(|lab| lab.has_ended(server));
        assert!(lab.output(server).starts_with("Interrupted system call\n"));
        let status = lab.end(server);
        assert!(matches!(status.state, State::Ended { status: 0, .. }));
    }
    assert_eq!(lab.used(), before);
}

#[test]
fn a_c_program_fails_as_it_likes() {
    let mut lab = Lab::new(Clock::Virtual);
    let built = Built::new("doubler.c");
    let id = lab.start(lab.server.id, &built.words(""));
    lab.run_until(|lab| lab.has_ended(id));
    assert!(lab.output(id).contains("usage: "));
    assert!(matches!(lab.end(id).state, State::Ended { status: 2, .. }));

    lab.serve("echoserver -u");
    let id = lab.start(lab.server.id, &built.words("7"));
    lab.run_until(|lab| lab.has_ended(id));
    assert_eq!(lab.output(id), "port 7: Address already in use\n");
}

#[test]
fn what_is_no_app_is_refused() {
    let mut lab = Lab::new(Clock::Virtual);
    let empty = Built::of("");
    for (words, why) in [
        (
            empty.words(""),
            "it defines no vink_app_main(): see vink/app.h",
        ),
        (
            "so:/nowhere.so".to_owned(),
            "/nowhere.so: No such file or directory",
        ),
        ("so:/etc/passwd".to_owned(), "/etc/passwd: "),
        ("so:".to_owned(), "No such file or directory"),
    ] {
        let list: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        let refused = lab
            .apps
            .start(lab.worker.kernel(), lab.server.id, &list)
            .expect_err(&words);
        assert!(matches!(refused, Error::Load { .. }));
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
