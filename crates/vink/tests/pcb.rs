//! `vink pcb`: what it says of connections is what the kernel says of them, however it is asked.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use vink_sys::child::{prepare, Step};

use common::lab::Up;
use common::Place;
use serde_json::Value;

/// Until when something must have happened, on however busy a machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A connection of a program to itself, whose client's end then says by TCP_INFO (tcp(7)): srtt in us, window, bytes
/// acknowledged, segments received. With each `wait`, it goes on when a line is typed.
const PROGRAM: &str = "
import socket, struct, sys
listener = socket.create_server(('127.0.0.1', 8000))
client = socket.create_connection(('127.0.0.1', 8000))
server = listener.accept()[0]
for _ in range(20):
    client.sendall(b'x' * 20000)
    left = 20000
    while left:
        left -= len(server.recv(left))
    server.sendall(b'ok')
    client.recv(2)
info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 144)
numbers = struct.unpack('8x24I4Q2I', info)
print(numbers[15], numbers[18], numbers[26], numbers[29], flush=True)
if 'wait' in sys.argv:
    print('heard', input('say: '), flush=True)
client.close()
server.recv(1)
";

/// What the program has said.
struct Told {
    srtt: u64,
    window: u64,
    acknowledged: u64,
    segments: u64,
}

impl Told {
    fn read(line: &str) -> Told {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map(|word| word.parse().unwrap_or_else(|_| panic!("{line:?}")))
            .collect();
        let [srtt, window, acknowledged, segments] = numbers[..] else {
            panic!("{line:?}");
        };
        Told {
            srtt,
            window,
            acknowledged,
            segments,
        }
    }
}

/// `vink pcb`, with a cache of what images are like that all users of a test share: only the user that built the image can
/// read its debug information, which is beside the objects.
fn pcb(place: &Place, cache: &Path, arguments: &[&str]) -> Command {
    let mut command = place.vink(&["pcb"]);
    command
        .args(arguments)
        .current_dir(place.temporary())
        .env("VINK_CACHE", cache);
    command
}

const RUN: [&str; 6] = ["--", "--uplink", "none", "--", "python3", "-c"];

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Lines of a file of CSV, by column.
fn rows(path: &Path) -> Vec<Vec<(String, String)>> {
    let text = fs::read_to_string(path).expect("the samples");
    let mut lines = text.lines();
    let split = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let names = split(lines.next().expect("a line of names"));
    let row = |line| names.iter().cloned().zip(split(line)).collect();
    lines.map(row).collect()
}

fn cell<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    let found = row.iter().find(|(column, _)| column == name);
    &found.unwrap_or_else(|| panic!("no {name}")).1
}

fn number(row: &[(String, String)], name: &str) -> u64 {
    cell(row, name)
        .parse()
        .unwrap_or_else(|_| panic!("{name} {row:?}"))
}

#[test]
fn each_segment_gives_a_sample() {
    let places = Place::all();
    // Root's, which may be read by all.
    let cache = places[0].folder().parent().expect("/tmp");
    let cache = cache.join(format!("vink-pcb-cache-{}", std::process::id()));
    for place in &places {
        let arguments = [
            "--run",
            "--each",
            "ack,state",
            "--csv",
            "-o",
            "a.csv",
            "-c",
            ":8000",
            "-f",
            "snd_cwnd",
            "-f",
            "srtt_us",
            "-f",
            "bytes_acked",
            "-f",
            "segs_in",
        ];
        let mut command = pcb(place, &cache, &arguments);
        let output = command.args(RUN).arg(PROGRAM).output().expect("vink pcb");
        assert!(
            output.status.success(),
            "{}: {}",
            place.user(),
            said(&output)
        );
        let told = Told::read(&String::from_utf8_lossy(&output.stdout));

        let rows = rows(&place.temporary().join("a.csv"));
        let mine = |row: &&Vec<_>| {
            cell(row, "remote") == "127.0.0.1:8000" && cell(row, "machine") == "vink"
        };
        let client: Vec<_> = rows.iter().filter(mine).collect();
        // The program has closed it right after it has asked.
        let end =
            |row: &&Vec<_>| cell(row, "event") == "state" && cell(row, "state") == "ESTABLISHED";
        let at = client
            .iter()
            .position(end)
            .unwrap_or_else(|| panic!("{client:?}"));
        let last = client[at];
        assert_eq!(number(last, "srtt_us") >> 3, told.srtt, "{last:?}");
        assert_eq!(number(last, "snd_cwnd"), told.window, "{last:?}");
        assert_eq!(number(last, "bytes_acked"), told.acknowledged, "{last:?}");
        // All segments that have come so far but the SYN-ACK, which is for no connection yet.
        let acks: Vec<_> = client[..at]
            .iter()
            .filter(|row| cell(row, "event") == "ack")
            .collect();
        assert_eq!(acks.len() as u64, number(last, "segs_in") - 1, "{client:?}");
        assert!(number(last, "segs_in") >= told.segments, "{last:?}");
        for pair in acks.windows(2) {
            assert!(number(pair[0], "bytes_acked") <= number(pair[1], "bytes_acked"));
            let time = |row| cell(row, "time").parse::<f64>().expect("a time");
            assert!(time(pair[0]) <= time(pair[1]));
        }
    }
    fs::remove_dir_all(&cache).expect("the cache was used");
}

/// Waits until the file has a line that is wanted.
fn line_of(path: &Path, wanted: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        // The last line may not be there as a whole.
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        if let Some(line) = lines.into_iter().find(&wanted) {
            return line;
        }
        assert!(start.elapsed() < TIMEOUT, "{text}");
        std::thread::yield_now();
    }
}

/// A program with pipes.
fn start(mut command: Command) -> (Child, BufReader<std::process::ChildStdout>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let output = child.stdout.take().expect("a pipe");
    (child, BufReader::new(output))
}

/// The first line that it writes.
fn first_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("a line");
    line
}

/// Lets it go on, and end.
fn let_go(mut child: Child) {
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"go\n").expect("it listens");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn by_time_all_fields_are_told_when_one_has_changed() {
    let place = &Place::all()[0];
    let cache = place.temporary().join("cache");
    let mut command = pcb(
        place,
        &cache,
        &["--run", "--every", "5ms", "--json", "-o", "t.json"],
    );
    command.args(RUN).args([PROGRAM, "wait"]);
    let (child, mut output) = start(command);
    let told = Told::read(&first_line(&mut output));
    // What is read while the kernel changes it may be of before and after: the next line is not.
    let line = line_of(&place.temporary().join("t.json"), |line| {
        let fields = &line["fields"];
        let srtt = fields["srtt_us"].as_u64().map(|us| us >> 3);
        line["remote"] == "127.0.0.1:8000"
            && fields["bytes_acked"] == told.acknowledged
            && fields["snd_cwnd"] == told.window
            && srtt == Some(told.srtt)
    });
    let_go(child);
    assert_eq!(line["machine"], "vink");
    assert_eq!(line["event"], "time");
    assert_eq!(line["state"], "ESTABLISHED");
    let fields = line["fields"].as_object().expect("fields");
    assert!(fields.len() > 300, "{}", fields.len());
    assert_eq!(fields["icsk_ca_ops"], "cubictcp");
    assert_eq!(fields["sk_protocol"], 6);
}

#[test]
fn another_process_is_looked_at_once() {
    let place = &Place::all()[0];
    let cache = place.temporary().join("cache");
    let mut command = place.vink(&["run", "--uplink", "none", "--machine", "alice", "--"]);
    command.args(["python3", "-c", PROGRAM, "wait"]);
    let (child, mut output) = start(command);
    let told = Told::read(&first_line(&mut output));
    let pid = child.id().to_string();
    let look = |arguments: &[&str]| {
        let mut command = pcb(place, &cache, &["--pid", &pid]);
        command.args(arguments).output().expect("vink pcb")
    };
    let output = look(&["-f", "snd_cwnd", "-f", "rx_opt.*", "-c", ":8000", "alice"]);
    assert!(output.status.success(), "{output:?}");
    let text = said(&output);
    assert!(
        text.contains(&format!("\n  snd_cwnd = {}\n", told.window)),
        "{text}"
    );
    assert!(text.contains("\n  rx_opt.sack_ok = "), "{text}");
    assert!(text.contains("> 127.0.0.1:8000 ESTABLISHED"), "{text}");
    assert_eq!(text.matches("alice 127.0.0.1").count(), 2, "{text}");
    for (arguments, what) in [
        (&["bob"][..], "has no machine bob; it has alice"),
        (&["-f", "cwnd"], "no field cwnd; '*cwnd*' takes"),
        (&["--each", "ack"], "--each is for --run and for labs"),
    ] {
        let output = look(arguments);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(said(&output).contains(what), "{}", said(&output));
    }
    let_go(child);
}

#[test]
fn a_program_ends_as_it_would_without() {
    let place = &Place::all()[0];
    let cache = place.temporary().join("cache");
    let run = |words: &[&str]| {
        let mut command = pcb(place, &cache, &["--run", "--json", "-o", "x.json"]);
        command.args(["--", "--uplink", "none", "--"]).args(words);
        command.output().expect("vink pcb")
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    let missing = run(&["no-such-program"]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    use std::os::unix::process::ExitStatusExt;
    let killed = run(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(libc::SIGTERM), "{killed:?}");

    // What can't be is said before anything runs.
    let own = std::process::id().to_string();
    for (arguments, what) in [
        (
            &["--run", "--json", "--", "true"][..],
            "standard output is the program's",
        ),
        (&["--run", "--", "true"], "no terminal to draw on"),
        (&["-o", "x", "alice"], "goes with --json or --csv"),
        (&["--pid", &own], "has no image loaded"),
    ] {
        let output = pcb(place, &cache, arguments).output().expect("vink pcb");
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(said(&output).contains(what), "{}", said(&output));
    }
}

#[test]
fn a_machine_of_a_lab() {
    for place in &Place::all()[..1] {
        let lab = Up::new(place, "hello");
        let mut command = lab.command("vink");
        command.args([
            "exec", "-i", "--lab", lab.name, "alice", "--", "python3", "-c", PROGRAM, "wait",
        ]);
        let (child, mut output) = start(command);
        let told = Told::read(&first_line(&mut output));
        let text = lab.vink(&["pcb", "alice", "-c", ":8000", "-f", "snd_cwnd"]);
        assert!(text.contains("alice 127.0.0.1:8000 > "), "{text}");
        assert!(
            text.contains(&format!("snd_cwnd = {}\n", told.window)),
            "{text}"
        );
        assert_eq!(lab.vink(&["pcb", "bob"]), "");
        let_go(child);

        // Of one machine only, though both ends are in the same kernel; and it ends when it has enough.
        let each = [
            "pcb", "--each", "ack", "--json", "-f", "snd_cwnd", "-n", "30", "alice",
        ];
        let mut command = lab.command("vink");
        let mut watching = command
            .args(each)
            .stdout(Stdio::piped())
            .spawn()
            .expect("vink pcb");
        while watching.try_wait().expect("its state").is_none() {
            let ping =
                "python3 -c 'import socket; s = socket.create_connection((\"10.0.0.2\", 9), 1)'";
            assert!(!lab.succeeds("alice", ping), "no server listens");
            let program = PROGRAM.replace("127.0.0.1", "10.0.0.1");
            lab.on("alice", &format!("python3 -c \"{program}\""));
        }
        let output = watching.wait_with_output().expect("what it says");
        let text = said(&output);
        assert!(output.status.success(), "{text}");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 30);
        for line in &lines {
            assert_eq!(
                (&line["machine"], &line["event"]),
                (&"alice".into(), &"ack".into())
            );
        }
        let no_such = lab
            .command("vink")
            .args(["pcb", "carol"])
            .output()
            .expect("vink pcb");
        assert!(said(&no_such).contains("carol"), "{no_such:?}");
        assert!(!no_such.status.success());
    }
}

/// A terminal of its own for a command: our side.
fn in_a_terminal(mut command: Command, rows: u16, columns: u16) -> (Child, fs::File) {
    let (ours, theirs) = vink_sys::terminal::open(rows, columns).expect("a terminal");
    let copy = || Stdio::from(theirs.try_clone().expect("a copy"));
    command.stdin(copy()).stdout(copy()).stderr(copy());
    prepare(&mut command, [Step::Session, Step::Terminal]);
    (command.spawn().expect("it starts"), ours)
}

/// What is on a screen, as far as it has come.
struct Screen {
    terminal: fs::File,
    parser: vt100::Parser,
}

impl Screen {
    fn new(terminal: fs::File, rows: u16, columns: u16) -> Screen {
        let some = |n| std::num::NonZeroU16::new(n).expect("a size");
        Screen {
            terminal,
            parser: vt100::Parser::new(some(rows), some(columns), 0),
        }
    }

    fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Reads until this is to be seen.
    fn until(&mut self, wanted: impl Fn(&vt100::Screen) -> bool) {
        let start = Instant::now();
        let mut buffer = vec![0; 1 << 12];
        while !wanted(self.parser.screen()) {
            let count = self.terminal.read(&mut buffer).unwrap_or(0);
            assert!(count > 0 && start.elapsed() < TIMEOUT, "{}", self.text());
            self.parser.process(&buffer[..count]);
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.terminal.write_all(keys).expect("it reads");
    }

    /// What is left when all have closed it.
    fn rest(mut self) -> String {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = self.terminal.read(&mut buffer) {
            self.parser.process(&buffer[..count]);
        }
        self.text()
    }
}

#[test]
fn a_program_and_its_connections_side_by_side() {
    let place = &Place::all()[0];
    let cache = place.temporary().join("cache");
    let fields = ["-f", "snd_*", "-f", "bytes_acked"];
    let mut command = pcb(place, &cache, &["--run", "--every", "10ms"]);
    command.args(fields).args(RUN).args([PROGRAM, "wait"]);
    let (rows, columns) = (40, 120);
    let (mut child, terminal) = in_a_terminal(command, rows, columns);
    let mut screen = Screen::new(terminal, rows, columns);
    // The program's text is on the left, the fields on the right, in the same lines.
    screen.until(|screen| {
        let text = screen.contents();
        let on_the_left = text.lines().any(|line| line.starts_with("say:"));
        let fields = text.lines().any(|line| line.contains("│ snd_cwnd"));
        let title = text.contains("vink 127.0.0.1:8000 > ");
        on_the_left && fields && title && text.contains("1 of 2,")
    });
    screen.press(b"hello\r");
    screen.until(|screen| {
        let text = screen.contents();
        text.contains("heard hello") && text.contains("exit status: 0; q: end")
    });
    // Both ends can still be seen; all that the client's has sent was acknowledged. Linux counts
    // the SYN among bytes_acked, and the FIN if the last sample came after its acknowledgement.
    let sent = 20 * 20_000 + 1;
    let sent = [sent, sent + 1].map(|bytes: u32| bytes.to_string());
    let has_sent = |screen: &vt100::Screen| {
        let text = screen.contents();
        let mut lines = text.lines().filter(|line| line.contains("│ bytes_acked"));
        lines.any(|line| sent.iter().any(|bytes| line.contains(bytes)))
    };
    if !has_sent(screen.parser.screen()) {
        screen.press(b"\t");
        screen.until(has_sent);
    }
    screen.press(b"q");
    let left = screen.rest();
    assert!(child.wait().expect("it ends").success());
    // The terminal is as it was, with what the program has written.
    assert!(left.contains("heard hello"), "{left}");
    assert!(!left.contains("snd_cwnd"), "{left}");
}

#[test]
fn what_has_changed_stands_out() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "hello");
    let mut command = lab.command("vink");
    command.args([
        "pcb",
        "alice",
        "--each",
        "ack",
        "-f",
        "snd_nxt",
        "-f",
        "bytes_acked",
    ]);
    let (rows, columns) = (12, 100);
    let (mut child, terminal) = in_a_terminal(command, rows, columns);
    let mut screen = Screen::new(terminal, rows, columns);
    screen.until(|screen| screen.contents().contains("no connection yet"));
    let mut traffic = lab.command("vink");
    let again = format!("while :; do python3 -c \"{PROGRAM}\" > /dev/null; done");
    traffic.args(["exec", "--lab", lab.name, "alice", "--", "sh", "-c", &again]);
    let mut traffic = traffic.spawn().expect("vink exec");
    // A number that the terminal shows in reverse.
    screen.until(|screen| {
        let (rows, columns) = (0..rows, 0..columns);
        let mut cells = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
        cells.any(|(row, column)| {
            let cell = screen.cell(row, column);
            cell.is_some_and(|cell| cell.inverse() && cell.contents().parse::<u8>().is_ok())
        })
    });
    traffic.kill().expect("it is killed");
    traffic.wait().expect("it ends");
    screen.press(b"q");
    screen.rest();
    assert!(child.wait().expect("it ends").success());
}
