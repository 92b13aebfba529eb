//! The switch box: telnet sessions as a user types them, and scripts of its lines.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use common::control::Control;
use common::Place;

const IAC: u8 = 255;

/// As long as a test may wait for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A lab without machines, and the port of its switch box.
fn up(place: &Place) -> (Control<'_>, u16) {
    let control = Control::of(place);
    control.write("box.yaml", "name: box\n");
    let made = control.json(&["lab", "up", "box.yaml", "--switchbox", "0", "--json"]);
    let address = made["switchbox"].as_str().expect("an address");
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    (control, port.expect("a port"))
}

/// The other end of a session, whatever it is made of.
struct Session {
    input: Box<dyn Write>,
    output: Box<dyn Read>,
    /// Read, and not yet waited for.
    seen: Vec<u8>,
    _child: Option<Killed>,
}

/// A program that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Session {
    /// A connection of TCP that says nothing by itself.
    fn plain(host: &str, port: u16) -> Session {
        let stream = TcpStream::connect((host, port)).expect("the switch box");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        Session {
            input: Box::new(stream.try_clone().expect("dup")),
            output: Box::new(stream),
            seen: Vec::new(),
            _child: None,
        }
    }

    /// One that speaks telnet as a terminal of 100 columns and 30 rows does.
    fn telnet(port: u16) -> Session {
        let mut session = Session::plain("127.0.0.1", port);
        // DO ECHO, DO SGA, WILL SGA, WILL NAWS with its size, WILL TTYPE.
        session.send(&[IAC, 253, 1, IAC, 253, 3, IAC, 251, 3]);
        session.send(&[
            IAC, 251, 31, IAC, 250, 31, 0, 100, 0, 30, IAC, 240, IAC, 251, 24,
        ]);
        // It asks for the terminal's type.
        session.until(&[IAC, 250, 24, 1, IAC, 240]);
        session.send(&[IAC, 250, 24, 0]);
        session.send(b"XTERM");
        session.send(&[IAC, 240]);
        session.send(b"\r\0");
        session.until(b"vink> ");
        session
    }

    fn send(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).expect("sent");
        self.input.flush().expect("sent");
    }

    /// What comes up to this and with it.
    fn until(&mut self, expected: &[u8]) -> String {
        loop {
            let found = self
                .seen
                .windows(expected.len())
                .position(|part| part == expected);
            if let Some(at) = found {
                let rest = self.seen.split_off(at + expected.len());
                let seen = std::mem::replace(&mut self.seen, rest);
                return String::from_utf8_lossy(&seen).into_owned();
            }
            let mut buffer = [0; 4096];
            let count = self.output.read(&mut buffer).unwrap_or_else(|error| {
                let seen = String::from_utf8_lossy(&self.seen);
                panic!(
                    "{error} in the place of {:?} after {seen:?}",
                    String::from_utf8_lossy(expected)
                )
            });
            let seen = String::from_utf8_lossy(&self.seen);
            assert!(
                count > 0,
                "the end in the place of {:?} after {seen:?}",
                String::from_utf8_lossy(expected)
            );
            self.seen.extend(&buffer[..count]);
        }
    }

    /// Types a line and reads on to the next prompt.
    fn line(&mut self, line: &str, prompt: &str) -> String {
        self.send(line.as_bytes());
        self.send(b"\r\0");
        self.until(format!("\n{prompt}").as_bytes())
    }

    /// All that still comes.
    fn rest(&mut self) -> String {
        let mut bytes = std::mem::take(&mut self.seen);
        self.output.read_to_end(&mut bytes).expect("the end");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The example of the ENTRAPID paper, and what it leads to: a wire between two machines that answer each other.
fn entrapid(session: &mut Session) {
    assert_eq!(
        session.line("new machine m1", "vink> "),
        "new machine m1\r\nvink> "
    );
    assert_eq!(
        session.line("new wire w1", "vink> "),
        "new wire w1\r\nvink> "
    );
    assert_eq!(session.line("connect m1", "m1# "), "connect m1\r\nm1# ");
    assert_eq!(session.line("addif vx0", "m1# "), "addif vx0\r\nm1# ");
    let ifconfig = "ifconfig vx0 inet 128.84.254.1 netmask 255.255.255.0";
    assert_eq!(
        session.line(ifconfig, "m1# "),
        format!("{ifconfig}\r\nm1# ")
    );
    assert_eq!(
        session.line("wireup m1 vx0 w1", "m1# "),
        "wireup m1 vx0 w1\r\nm1# "
    );
    let started = session.line("echoserver&", "m1# ");
    assert!(started.starts_with("echoserver&\r\n[1] "), "{started}");
    assert_eq!(session.line("exit", "vink> "), "exit\r\nvink> ");
    for line in ["new machine m2", "exec m2 addif vx0", "wireup m2 vx0 w1"] {
        assert_eq!(session.line(line, "vink> "), format!("{line}\r\nvink> "));
    }
    let ifconfig = "exec m2 ifconfig vx0 inet 128.84.254.2 netmask 255.255.255.0";
    session.line(ifconfig, "vink> ");
    let pinged = session.line("exec m2 ping -c 1 128.84.254.1", "vink> ");
    assert!(pinged.contains(" 0% packet loss"), "{pinged}");
    let shown = session.line("show m1", "vink> ");
    assert!(
        shown.contains("vx0: wire w1, up") && shown.contains("128.84.254.1/24"),
        "{shown}"
    );
}

#[test]
fn the_session_of_the_paper() {
    for place in Place::all() {
        let (control, port) = up(&place);
        let mut session = as_user(&place, port);
        entrapid(&mut session);
        session.send(b"exit\r\0");
        assert!(session.rest().contains("exit\r\n"));
        // What runs in the background goes on without it.
        let programs = control.vink(&["shell", "-c", "ps"]);
        assert!(programs.contains("running"), "{programs}");
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

/// Telnet of the place's user: as ourselves directly, and else by the program.
fn as_user(place: &Place, port: u16) -> Session {
    match place.is_nobody() {
        false => Session::telnet(port),
        true => by_program(place, port),
    }
}

/// Debian's telnet, in a terminal.
fn by_program(place: &Place, port: u16) -> Session {
    let mut session = in_a_terminal(place.command("script"), &format!("telnet localhost {port}"));
    session.until(b"vink> ");
    // What it was told about modes comes before the prompt, and what it answers before this.
    session.send(b"\r");
    session.until(b"vink> ");
    session
}

/// A program in a terminal, which script(1) makes.
fn in_a_terminal(mut script: Command, line: &str) -> Session {
    script
        .args(["-qec", &format!("exec {line}"), "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = script.spawn().expect("script(1) of util-linux");
    Session {
        input: Box::new(child.stdin.take().expect("a pipe")),
        output: Box::new(child.stdout.take().expect("a pipe")),
        seen: Vec::new(),
        _child: Some(Killed(child)),
    }
}

#[test]
fn a_terminal_of_our_own() {
    for place in Place::all() {
        let (control, _) = up(&place);
        control.vink(&["shell", "-c", "new machine m1"]);
        let state = control.folder().join("state");
        let mut script = control.command("script");
        script.env("XDG_STATE_HOME", &state);
        let mut session = in_a_terminal(script, "vink shell");
        session.until(b"vink> ");
        // Completed twice: the command and the machine.
        session.send(b"conn\tm\t\r");
        session.until(b"m1# ");
        session.send(b"tty; echo begun; exec cat\r");
        session.until(b"begun\r\n");
        session.send(b"a line\r");
        session.until(b"a line\r\na line\r\n");
        session.send(b"\x1a");
        session.until(b"[1] stopped  tty; echo begun; exec cat");
        session.until(b"m1# ");
        session.send(b"fg\r");
        session.until(b"exec cat\r\n");
        session.send(b"again\r");
        session.until(b"again\r\nagain\r\n");
        session.send(b"\x03");
        session.until(b"ended by signal 2");
        session.until(b"m1# ");
        // A line that is given up; one that is edited; output of the background above what is typed.
        session.send(b"no such line\x03");
        session.until(b"^C\r\nm1# ");
        session.send(b"echo x\x01\x1bfy\x17echo\x05yz\r");
        session.until(b"xyz\r\nm1# ");
        session.send(b"echo behind &\r");
        session.until(b"behind\r\n");
        session.until(b"m1# ");
        // As many lines before the last one.
        session.send(b"\x10\x10\x10\x10\r");
        session.until(b"begun\r\n");
        session.send(b"\x04");
        session.until(b"m1# ");
        session.send(b"exit\r");
        session.until(b"vink> ");
        session.send(b"exit\r");
        session.rest();
        let history = state.join("vink/history");
        let mode = fs::metadata(&history)
            .expect("a history")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let lines = fs::read_to_string(&history).expect("a history");
        assert!(lines.contains("connect m1"), "{lines}");
    }
}

#[test]
fn telnet_the_program() {
    let place = &Place::all()[0];
    let (_control, port) = up(place);
    let mut session = by_program(place, port);
    entrapid(&mut session);
    // A terminal of its own, with ^C for the program and not for telnet.
    session.line("connect m1", "m1# ");
    let tty = session.line("tty; echo $TERM", "m1# ");
    assert!(tty.contains("/dev/pts/") && tty.contains("xterm"), "{tty}");
    session.send(b"sh -c 'echo begun; exec sleep 1000'\r");
    session.until(b"begun\r\n");
    session.send(b"\x03");
    let ended = session.until(b"m1# ");
    assert!(ended.contains("ended by signal 2"), "{ended}");
}

#[test]
fn two_sessions_at_once() {
    let place = &Place::all()[0];
    let (_control, port) = up(place);
    let [mut one, mut two] = [Session::telnet(port), Session::telnet(port)];
    one.line("new machine m1", "vink> ");
    two.line("new machine m2", "vink> ");
    one.line("connect m2", "m2# ");
    two.line("connect m1", "m1# ");
    // A program of one keeps the other from nothing.
    one.send(b"cat\r\0");
    assert_eq!(two.line("hostname", "m1# "), "hostname\r\nm1\r\nm1# ");
    one.send(b"still here\r\0");
    one.until(b"still here\r\nstill here\r\n");
    one.send(b"\x04");
    one.until(b"m2# ");
    assert_eq!(one.line("hostname", "m2# "), "hostname\r\nm2\r\nm2# ");
    // IPv6, too.
    let mut three = Session::plain("::1", port);
    three.send(b"show machines\n");
    let shown = three.until(b"m2 ");
    assert!(shown.contains("m1 "), "{shown}");
}

#[test]
fn jobs() {
    let place = &Place::all()[0];
    let (_control, port) = up(place);
    let mut session = Session::telnet(port);
    session.line("new machine m1", "vink> ");
    session.line("connect m1", "m1# ");
    let size = session.line("stty size; echo $TERM; tty", "m1# ");
    assert!(size.contains("30 100\r\nxterm\r\n/dev/pts/"), "{size}");
    let failed = session.line("exit_status() { return 7; }; exit_status", "m1# ");
    assert!(failed.contains("exit status 7\r\n"), "{failed}");
    session.send(b"sh -c 'echo begun; exec cat'\r\0");
    session.until(b"begun\r\n");
    session.send(b"\x1a");
    let stopped = session.until(b"m1# ");
    assert!(stopped.contains("[1] stopped  sh -c"), "{stopped}");
    assert!(session.line("jobs", "m1# ").contains("[1] stopped  sh -c"));
    session.send(b"fg\r\0");
    session.until(b"exec cat'\r\n");
    session.send(b"a line\r\0");
    session.until(b"a line\r\na line\r\n");
    session.send(b"\x03");
    assert!(session.until(b"m1# ").contains("ended by signal 2"));
    // In the background, with its output and its end told.
    session.send(b"sh -c 'echo through; exit 3' &\r\0");
    session.until(b"\r\n[1] ");
    session.until(b"through");
    session.until(b"[1] exit status 3  sh -c");
    session.until(b"m1# ");
    // One that is ended by its number.
    session.send(b"sleep 1000 &\r\0");
    session.until(b"\r\n[1] ");
    session.until(b"m1# ");
    session.send(b"kill %1\r\0");
    session.until(b"[1] ended by signal 15  sleep 1000");
    session.line("exit", "vink> ");
    assert!(session
        .line("fg", "vink> ")
        .contains("this session has no job"));
}

#[test]
fn line_by_line() {
    let place = &Place::all()[0];
    let (_control, port) = up(place);
    let mut session = Session::plain("127.0.0.1", port);
    // A telnet that echoes by itself.
    session.send(&[IAC, 254, 1, IAC, 252, 31, IAC, 252, 24]);
    session.send(b"new machine m1\r\nconnect m1\r\n");
    session.until(b"m1# ");
    session.send(b"tty; cat\r\n");
    session.until(b"not a tty\r\n");
    session.send(b"typed\r\n");
    assert_eq!(session.until(b"typed\r\n"), "typed\r\n");
    // Interrupt Process.
    session.send(&[IAC, 244]);
    session.until(b"ended by signal 2\r\n");
    session.send(b"echo begun; cat; echo over\r\n");
    session.until(b"begun\r\n");
    session.send(b"more\r\n");
    session.until(b"more\r\n");
    // End of File.
    session.send(&[IAC, 236]);
    session.until(b"over\r\nm1# ");
    // Are You There; and Timing Mark, which is answered at its place.
    session.send(&[IAC, 246]);
    session.until(b"[vink: yes]");
    session.send(&[IAC, 253, 6]);
    session.until(&[IAC, 251, 6]);
}

#[test]
fn a_script_over_nc() {
    let place = &Place::all()[0];
    let (_control, port) = up(place);
    let lines = "new machine m1\nconnect m1\nread x; echo \"read '$x'\"\nhostname\nexit\nshow nothing\nshow machines";
    let output = nc(port, lines);
    // A program does not get lines of the script, and a line that fails is not its end.
    let found = [
        "read ''\r\n",
        "m1\r\n",
        "no machine and no wire 'nothing'",
        "m1       running",
    ];
    assert!(found.iter().all(|text| output.contains(text)), "{output}");
    let output = nc(
        port,
        "errors stop\nshow machines\nshow nothing\nnew machine m2\n",
    );
    assert!(
        output.contains("line 3: lab box has no machine and no wire 'nothing'"),
        "{output}"
    );
    assert!(!nc(port, "show machines\n").contains("m2"));
}

/// What the switch box says to lines that nc(1) sends.
fn nc(port: u16, lines: &str) -> String {
    let mut child = Command::new("nc")
        .args(["-N", "127.0.0.1", &port.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nc of netcat-openbsd");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(lines.as_bytes()).expect("sent");
    drop(input);
    let output = child.wait_with_output().expect("its output");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn bytes_that_are_no_line() {
    let place = &Place::all()[0];
    let (_control, port) = up(place);
    let mut session = Session::plain("127.0.0.1", port);
    session.until(b"vink> ");
    // Every byte, IAC doubled.
    let mut bytes: Vec<u8> = (0..=255)
        .filter(|byte| !matches!(byte, 3 | 4 | 10 | 13))
        .collect();
    bytes.push(IAC);
    bytes.push(b'\n');
    session.send(&bytes);
    session.until(b"there is no command ");
    session.until(b"vink> ");
    // An option without end, and one that is cut off.
    session.send(&[IAC, 250, 31, 1, 2, 3, IAC, 240]);
    session.send(&[IAC, 250, 200]);
    session.send(&vec![b'x'; 1_000_000]);
    session.send(&[IAC, 240]);
    let long = vec![b'y'; 1_000_000];
    session.send(&long);
    session.send(b"\n");
    session.until(b"is longer than 65536 bytes: it was not carried out\r\n");
    session.send(b"show wires\n");
    session.until(b"WIRE");
    // A browser that was told to send commands.
    let mut browser = Session::plain("127.0.0.1", port);
    browser.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nnew machine evil\n");
    let said = browser.rest();
    assert!(said.contains("this is no web server"), "{said}");
    session.send(b"show machines\nexit\n");
    assert!(!session.rest().contains("evil"));
}

#[test]
fn a_session_takes_its_program_along() {
    let place = &Place::all()[0];
    let (control, port) = up(place);
    control.vink(&["shell", "-c", "new machine m1"]);
    let mut session = Session::telnet(port);
    session.line("connect m1", "m1# ");
    session.send(b"echo begun; exec sleep 1000\r\0");
    session.until(b"begun\r\n");
    drop(session);
    // The next one waits for its end.
    let programs = control.json(&["shell", "--json", "-c", "ps"]);
    let sleeper = programs["result"].as_array().and_then(|programs| {
        programs
            .iter()
            .find(|p| p["words"][2].as_str().is_some_and(|w| w.contains("begun")))
    });
    let id = sleeper.expect("the program")["id"].to_string();
    let (status, said) = control.fails(&["shell", "-c", &format!("wait {id}")]);
    assert!(
        status == 137 && said.contains("ended by signal 9"),
        "{status} {said}"
    );
    // A client that sends lines, and is gone for good.
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the switch box");
    (&stream)
        .write_all(b"exec m1 echo started; exec sleep 1001\n")
        .expect("sent");
    let mut seen = Vec::new();
    let mut buffer = [0; 512];
    while !String::from_utf8_lossy(&seen).contains("started") {
        let count = (&stream).read(&mut buffer).expect("its output");
        seen.extend(&buffer[..count]);
    }
    stream.shutdown(Shutdown::Write).expect("shutdown");
    drop(stream);
    let programs = control.json(&["shell", "--json", "-c", "ps"]);
    let id = programs["result"]
        .as_array()
        .and_then(|p| p.last())
        .expect("a program")["id"]
        .to_string();
    let (status, _) = control.fails(&["shell", "-c", &format!("wait {id}")]);
    assert_eq!(status, 137);
}

#[test]
fn others_are_refused() {
    let places = Place::all();
    let Some(nobody) = places.iter().find(|place| place.is_nobody()) else {
        // An ordinary user can't be another one; CI is root.
        return;
    };
    let (control, port) = up(&places[0]);
    for host in ["127.0.0.1", "::1"] {
        let mut command = Command::new("nc");
        command
            .args([host, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(65534)
            .gid(65534);
        let mut child = command.spawn().expect("nc");
        let _ = child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(b"new machine evil\n");
        let output = child.wait_with_output().expect("its output");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            said,
            "vink: this lab belongs to user 0, and you are user 65534: start one of your own with vink lab up\r\n"
        );
    }
    assert!(!control
        .vink(&["shell", "-c", "show machines"])
        .contains("evil"));
    // Of nobody's lab, root is another user, too.
    let (_theirs, port) = up(nobody);
    let said = Session::plain("127.0.0.1", port).rest();
    assert!(
        said.contains("this lab belongs to user 65534, and you are user 0"),
        "{said}"
    );
}

#[test]
fn scripts_stop_at_the_line_that_fails() {
    for place in Place::all() {
        let (control, _) = up(&place);
        control.write(
            "good",
            "# two machines\nnew machine m1\n\nnew machine m2 forward\n",
        );
        assert_eq!(control.vink(&["shell", "good"]), "");
        control.write("bad", "show machines\nsource inner\nnew machine m9\n");
        control.write(
            "inner",
            "connect m1\nhostname\nnonsense of an app; exit 4\n",
        );
        let output = control.try_vink(&["shell", "bad"]);
        let (said, why) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(output.status.code(), Some(125));
        assert!(
            said.starts_with("MACHINE") && said.ends_with("\nm1\n"),
            "{said}"
        );
        assert!(
            why.ends_with("vink: bad:2: inner:3: exit status 4\n"),
            "{why}"
        );
        let (status, said) = control.fails(&["shell", "-c", "exec m1 sh -c 'exit 7'"]);
        assert_eq!((status, said.as_str()), (7, "vink: -c:1: exit status 7\n"));
        // Piped, and told to go on; a line of JSON for each line.
        let mut child = control.start(&["shell", "--keep-going", "--json"]);
        let mut input = child.stdin.take().expect("a pipe");
        input
            .write_all(
                b"# nothing\nexec m1 echo out; echo err >&2\nconect m1\nnew wire w1 rate 10mbit\n",
            )
            .expect("sent");
        drop(input);
        let output = child.wait_with_output().expect("its output");
        assert_eq!(output.status.code(), Some(125));
        let lines: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0]["output"], "out\n");
        assert_eq!(lines[0]["error-output"], "err\n");
        assert_eq!(lines[0]["result"]["status"], 0);
        assert_eq!(
            (&lines[1]["line"], &lines[1]["ok"]),
            (&3.into(), &false.into())
        );
        assert!(lines[1]["error"]
            .as_str()
            .is_some_and(|e| e.contains("did you mean 'connect'?")));
        assert_eq!(lines[2]["result"]["name"], "w1");
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

/// A session's lines and what they tell, as they are.
#[test]
fn golden() {
    let place = &Place::all()[0];
    let (control, _) = up(place);
    let golden = include_str!("switchbox.golden");
    let mut lines = String::new();
    let mut expected = String::new();
    for line in golden.lines() {
        match line.strip_prefix("> ") {
            Some(command) => lines += &format!("{command}\n"),
            None => expected += &format!("{line}\n"),
        }
    }
    control.write("lines", &lines);
    let output = control.try_vink(&["shell", "--keep-going", "lines"]);
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(told, expected);
    let saved = fs::read_to_string(control.folder().join("saved.yaml")).expect("saved.yaml");
    assert!(
        saved.contains("m1:") && saved.contains("loss: 1%"),
        "{saved}"
    );
}
