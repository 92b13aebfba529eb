//! Terminals that are kept: programs stay without a client, clients see the same, and one types.

mod common;

use std::future::Future;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use common::control::Control;
use common::Place;
use serde_json::json;
use vink_api::{
    Address, Client, Error, FromServer, Input, LabApi, NewProgram, Output, Size, TerminalInput,
    TerminalOutput,
};

const ONE: &str = "
name: kept
machines:
  m1: { interfaces: { eth0: { addresses: [10.0.0.1/24] } } }
";

fn up(place: &Place) -> Control<'_> {
    let control = Control::of(place);
    control.write("kept.yaml", ONE);
    control.vink(&["lab", "up", "kept.yaml"]);
    control
}

/// The user of requests over its own socket.
fn user(place: &Place) -> String {
    match place.is_nobody() {
        true => "nobody".to_owned(),
        false => vink_sys::process::user_name(),
    }
}

/// A command at a terminal: what is typed, and what comes.
struct Typist {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Typist {
    fn new(mut child: Child) -> Typist {
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        Typist {
            child,
            input,
            output,
        }
    }

    fn types(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("input");
    }

    fn sees(&mut self, until: &str) -> String {
        let mut came = String::new();
        while !came.contains(until) {
            let mut piece = [0; 1000];
            let count = self.output.read(&mut piece).expect("output");
            assert!(count > 0, "no {until:?} in {came:?}");
            came += &String::from_utf8_lossy(&piece[..count]);
        }
        came
    }

    /// Its exit status, when the program has ended: what is typed goes on until then.
    fn sees_the_end(mut self) -> Option<i32> {
        self.child.wait().expect("vink").code()
    }

    /// Its exit status, when what is typed ends.
    fn ended(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().expect("vink").code()
    }
}

#[test]
fn a_shell_stays_when_it_is_left() {
    for place in Place::all() {
        let control = up(&place);
        let shell = ["exec", "-it", "--keep", "m1", "--", "sh"];
        let mut first = Typist::new(control.start(&shell));
        first.types("x=4; echo \"first $((x + 38))\"\r");
        first.sees("first 42");
        // Left by its keys, and by the end of what is typed.
        first.types("\x10\x11");
        assert_eq!(first.ended(), Some(0));
        let mut second = Typist::new(control.start(&["attach", "kept", "m1"]));
        second.sees("first 42");
        second.types("x=$((x + 1)); echo \"second $x\"\r");
        second.sees("second 5");
        assert_eq!(second.ended(), Some(0));
        // A client that is killed.
        let mut killed = Typist::new(control.start(&["attach", "kept", "1"]));
        killed.sees("second 5");
        killed.child.kill().expect("kill");
        killed.child.wait().expect("vink");
        let listed = loop {
            let listed = control.json(&["attach", "kept", "--json"]);
            if listed[0]["viewers"] == json!([]) {
                break listed;
            }
        };
        let user = user(&place);
        assert_eq!(
            listed,
            json!([{
                "program": 1, "machine": "m1", "words": ["sh"], "actor": user,
                "size": { "rows": 24, "columns": 80 }, "viewers": [], "keyboard": null,
            }]),
        );
        let (_, said) = control.fails(&["attach", "kept", "9"]);
        assert!(said.contains("no kept terminal 9"), "{said}");
        // It has the status of its program, which takes no input from one that only looks.
        let mut looks = Typist::new(control.start(&["attach", "kept", "1", "--read-only"]));
        looks.sees("second 5");
        looks.types("exit 3\r");
        let mut last = Typist::new(control.start(&["attach", "kept", "1"]));
        last.types("exit 7\r");
        assert_eq!(last.sees_the_end(), Some(7));
        assert_eq!(looks.sees_the_end(), Some(7));
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn nothing_is_left_of_it() {
    for place in Place::all() {
        let control = up(&place);
        let mut shell = Typist::new(control.start(&["exec", "-it", "--keep", "m1", "--", "sh"]));
        // What ignores the end of its terminal ends, too.
        shell.types("trap '' HUP; sleep 1000 & echo \"here $((1 + 1))\"\r");
        shell.sees("here 2");
        shell.types("\x10\x11");
        assert_eq!(shell.ended(), Some(0));
        let is_daemon = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"daemon")
        };
        let daemon = control.processes().into_iter().find(is_daemon);
        let daemon = daemon.expect("a control process");
        vink_sys::process::kill(daemon, libc::SIGKILL).expect("it is there");
        control.wait_for_no_process();
    }
}

/// A client of a terminal.
struct Viewer {
    input: TerminalInput,
    output: TerminalOutput,
    /// What it was told last.
    viewers: Vec<String>,
    keyboard: Option<String>,
    yours: bool,
    size: Size,
    missed: u64,
    text: String,
}

impl Viewer {
    /// One that has joined: the control process has told it of the viewers.
    async fn new(client: &Client, program: u64) -> Viewer {
        let (input, output) = client.attach("kept", program).await.expect("one").split();
        let mut viewer = Viewer {
            input,
            output,
            viewers: Vec::new(),
            keyboard: None,
            yours: false,
            size: Size::default(),
            missed: 0,
            text: String::new(),
        };
        viewer.until(|viewer| !viewer.viewers.is_empty()).await;
        viewer
    }

    async fn says(&mut self, input: Input) {
        self.input.send(input).await.expect("it goes on");
    }

    async fn types(&mut self, text: &str) {
        self.says(Input::Bytes(text.as_bytes().to_vec().into()))
            .await;
    }

    /// Reads until something holds; the exit status of the program if it ends before.
    async fn until(&mut self, holds: impl Fn(&Viewer) -> bool) -> Option<i32> {
        while !holds(self) {
            match self.output.next().await.expect("output") {
                Output::Stdout(bytes) => self.text += &String::from_utf8_lossy(&bytes),
                Output::Told(FromServer::Terminal {
                    size,
                    viewers,
                    keyboard,
                    yours,
                }) => {
                    (self.viewers, self.keyboard) = (viewers, keyboard);
                    (self.yours, self.size) = (yours, size);
                }
                Output::Told(FromServer::Missed { bytes }) => self.missed += bytes,
                Output::Ended { code, .. } => return Some(code),
                other => panic!("{other:?}"),
            }
        }
        None
    }

    async fn sees(&mut self, text: &str) {
        let ended = self.until(|viewer| viewer.text.contains(text)).await;
        assert_eq!(ended, None, "no {text:?} in {:?}", self.text);
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

#[test]
fn all_see_it_and_one_types() {
    let place = &Place::all()[0];
    let control = up(place);
    run(async {
        let client = Client::new(Address::Unix(control.runtime().join("control.sock")));
        let mut new = NewProgram {
            machine: "m1".to_owned(),
            words: vec!["sh".to_owned()],
            attach: true,
            keep: true,
            ..NewProgram::default()
        };
        let refused = client.start_program("kept", &new).await;
        assert!(
            matches!(refused, Err(Error::Refused { status: 422, .. })),
            "{refused:?}"
        );
        let size = |rows, columns| Size { rows, columns };
        new.terminal = Some(size(24, 80));
        let program = client.start_program("kept", &new).await.expect("a shell");
        let mut one = Viewer::new(&client, program.id).await;
        let mut other = Viewer::new(&client, program.id).await;
        // Without the keyboard nothing is typed, and the size stays.
        other.types("echo \"not $((1 + 1))\"\r").await;
        other.says(Input::Resize(size(33, 101))).await;
        one.says(Input::Keyboard(true)).await;
        one.until(|one| one.yours).await;
        assert_eq!((one.viewers.len(), one.size), (2, size(24, 80)));
        one.types("stty size; echo \"one $((2 + 2))\"\r").await;
        for viewer in [&mut one, &mut other] {
            viewer.sees("24 80\r\none 4").await;
            assert!(!viewer.text.contains("not 2"), "{}", viewer.text);
            assert_eq!(viewer.keyboard, Some(user(place)));
        }
        // The keyboard is taken, and with it the window has the size of the one that took it.
        other.says(Input::Keyboard(true)).await;
        other.until(|other| other.yours).await;
        one.until(|one| !one.yours && one.size == size(33, 101))
            .await;
        other.types("stty size\r").await;
        one.sees("33 101\r\n").await;
        one.types("echo \"late $((3 + 3))\"\r").await;
        // One that does not read keeps neither the program nor the others waiting.
        let slow = Viewer::new(&client, program.id).await;
        other
            .types("head -c 9000000 /dev/zero | tr '\\0' x; echo \"done $((4 + 4))\"\r")
            .await;
        let slow = {
            other.sees("done 8").await;
            one.sees("done 8").await;
            let mut slow = slow;
            slow.sees("done 8").await;
            slow
        };
        assert!(slow.missed > 4_000_000, "{}", slow.missed);
        assert!(!other.text.contains("late 6"), "{}", other.text);
        // A joiner sees what is kept, without questions that were for others.
        other
            .types("printf '\\033[6n'; echo \"asked $((5 + 5))\"\r")
            .await;
        other.sees("\x1b[6nasked 10").await;
        let mut joiner = Viewer::new(&client, program.id).await;
        joiner.sees("asked 10").await;
        assert!(!joiner.text.contains("\x1b[6n") && joiner.missed == 0);
        let listed = client.terminals("kept").await.expect("a list");
        assert_eq!(
            (listed.len(), listed[0].viewers.len(), listed[0].size),
            (1, 4, size(33, 101))
        );
        // It goes without the keyboard's client, and with its program.
        drop(other);
        one.until(|one| one.keyboard.is_none()).await;
        one.says(Input::Keyboard(true)).await;
        one.types("exit 5\r").await;
        for mut viewer in [one, slow, joiner] {
            assert_eq!(viewer.until(|_| false).await, Some(5));
        }
        assert_eq!(client.terminals("kept").await.expect("a list"), []);
        let mut late = Viewer::new(&client, program.id).await;
        assert_eq!(late.until(|_| false).await, Some(5));
        assert!(late.text.contains("asked 10"), "{}", late.text);
    });
}
