//! Recorded runs: repeated, compared, shown.

mod common;

use std::fs;
use std::process::Command;

use common::Place;
use serde_json::Value;

/// Status, standard output, standard error.
fn outcome(mut command: Command) -> (i32, String, String) {
    let output = command.output().expect("running it");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = output.status.code().expect("a status");
    (status, text(&output.stdout), text(&output.stderr))
}

struct Recorder(Place);

impl Recorder {
    fn path(&self, name: &str) -> String {
        self.0.temporary().join(name).display().to_string()
    }

    /// Records a run on a virtual clock, which succeeds: what it has said.
    fn record(&self, name: &str, program: &[&str]) -> String {
        let manifest = self.path(name);
        let mut command = self
            .0
            .vink(&["run", "--time", "virtual", "--record", &manifest, "--"]);
        command.args(program);
        let (status, out, err) = outcome(command);
        assert_eq!((status, err.as_str()), (0, ""), "{program:?}: {out}");
        out
    }

    fn vink(&self, arguments: &[&str]) -> (i32, String, String) {
        outcome(self.0.vink(arguments))
    }
}

fn recorders() -> impl Iterator<Item = Recorder> {
    Place::all().into_iter().map(Recorder)
}

#[test]
fn a_run_repeats() {
    for r in recorders() {
        let lines = "echo before; sleep 100; echo after | cat; exec sleep 0.5";
        assert_eq!(
            r.record("run.json", &["sh", "-c", lines]),
            "before\nafter\n"
        );
        let manifest = fs::read_to_string(r.path("run.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["what"]["run"][0], "--time");
        let totals = &manifest["totals"];
        assert_eq!(totals["end"], 100_500_000_000_u64);
        let programs = totals["programs"].as_array().expect("programs");
        let ends = |end: &str| {
            let path = |p: &Value| p["path"].as_str().is_some_and(|path| path.ends_with(end));
            programs.iter().any(path)
        };
        assert!(ends("/sleep") && ends("/cat"), "{programs:?}");

        let (status, out, err) = r.vink(&["replay", &r.path("run.json")]);
        assert_eq!((status, err.as_str()), (0, ""), "{}: {out}", r.0.user());
        let digest = totals["digest"].as_str().expect("a digest");
        assert!(out.starts_with("before\nafter\nthe run repeats: "), "{out}");
        assert!(
            out.ends_with(&format!(" 100.500000000 s; digest {digest}\n")),
            "{out}"
        );

        let (status, out, _) =
            r.vink(&["lab", "diff", &r.path("run.json"), &r.path("run.journal")]);
        assert_eq!((status, out.as_str()), (0, "the runs are the same\n"));
    }
}

#[test]
fn where_a_program_has_something_does_not_count() {
    let r = Recorder(Place::all().remove(0));
    // Another variable of the environment, as long as it may be: all that is on the stack lies elsewhere.
    let lines = "import os, socket; os.uname(); os.pipe(); s = socket.socket(); \
                 s.setsockopt(1, 2, 1); s.getsockname(); print(os.getrandom(8) is not None)";
    for (name, variable) in [
        ("one.json", "x"),
        ("two.json", "a much longer one than that"),
    ] {
        let manifest = r.path(name);
        let mut command =
            r.0.vink(&["run", "--time", "virtual", "--record", &manifest]);
        command.args(["--", "python3", "-c", lines]);
        let (status, _, err) = outcome({
            command.env("VARIABLE", variable);
            command
        });
        assert_eq!((status, err.as_str()), (0, ""));
    }
    let (status, out, _) = r.vink(&["lab", "diff", &r.path("one.json"), &r.path("two.json")]);
    assert_eq!((status, out.as_str()), (0, "the runs are the same\n"));
}

/// A connection over loopback, whose client sends `BYTES` bytes, and waits.
const CONNECTION: &str = "
import os, socket, time
listener = socket.create_server(('127.0.0.1', 80))
client = socket.create_connection(('127.0.0.1', 80))
server, peer = listener.accept()
assert peer == client.getsockname()
key = os.urandom(int(os.environ['BYTES']))
client.sendall(key)
assert server.recv(100) == key
time.sleep(1)";

#[test]
fn runs_of_two_images_are_compared_by_behaviour() {
    let r = Recorder(Place::all().remove(0));
    // To vink an image with another byte behind its end is another one; that it draws otherwise is up to the seed.
    let image = vink_kernel::find_image()
        .unwrap_or_else(|_| common::root().join("build/libvink-linux-6.12.so"));
    let other = r.path("other.so");
    let mut bytes = fs::read(&image).expect("an image");
    bytes.push(0);
    fs::write(&other, bytes).expect("another one");
    let image = image.display().to_string();
    for (name, image, seed, bytes) in [
        ("one", &image, "1", "8"),
        ("two", &other, "2", "8"),
        ("more", &other, "2", "9"),
    ] {
        let manifest = r.path(name);
        let mut command = r.0.vink(&["run", "--time", "virtual", "--image", image]);
        command.args(["--seed", seed, "--record", &manifest]);
        command.args(["--", "python3", "-c", CONNECTION]);
        command.env("BYTES", bytes);
        let (status, _, err) = outcome(command);
        assert_eq!((status, err.as_str()), (0, ""));
    }
    let [one, two, more] = ["one", "two", "more"].map(|name| r.path(name));
    let (status, out, _) = r.vink(&["lab", "diff", "--exact", &one, &two]);
    assert!(
        status == 1 && out.starts_with("the runs part after "),
        "{out}"
    );
    let head = "the runs are of two images: what is chance is left aside (--exact compares all)\n";
    let (status, out, _) = r.vink(&["lab", "diff", &one, &two]);
    assert_eq!(
        (status, out.as_str()),
        (0, &*(head.to_owned() + "the runs behave the same\n"))
    );
    // The first difference in behaviour are the lengths of the keys.
    let (status, out, _) = r.vink(&["lab", "diff", &one, &more]);
    assert!(status == 1 && out.starts_with(head), "{out}");
    assert!(out.contains(" of thread 1:\n"), "{out}");
    let bar = out.lines().find(|line| line.contains(" | "));
    let (left, right) = bar.and_then(|bar| bar.split_once(" | ")).expect("a bar");
    assert!(
        left.contains(", 8, ") && left.contains(" getrandom("),
        "{out}"
    );
    assert!(
        right.contains(", 9, ") && right.contains(" getrandom("),
        "{out}"
    );
    // Of one image, if that is asked for.
    let (status, out, _) = r.vink(&["lab", "diff", "--behaviour", &two, &two]);
    assert_eq!((status, out.as_str()), (0, "the runs behave the same\n"));
}

#[test]
fn a_terminal_that_is_none_when_it_is_repeated_is_told() {
    let r = Recorder(Place::all().remove(0));
    let manifest = r.path("run.json");
    let vink = r.0.vink(&[]);
    let line = format!(
        "{} run --time virtual --record {manifest} -- sh -c 'test -t 1 && echo terminal'",
        vink.get_program().to_string_lossy()
    );
    let mut script = r.0.command("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .stdin(std::process::Stdio::null());
    let (status, out, err) = outcome(script);
    assert_eq!((status, out.trim_end()), (0, "terminal"), "{err}");
    let (status, out, _) = r.vink(&["replay", &manifest]);
    assert_eq!(status, 1, "{out}");
    assert!(
        out.contains("\nstandard output was a terminal then and none now: ")
            && out.contains("script -qc"),
        "{out}"
    );
}

#[test]
fn what_is_not_as_it_was_is_named() {
    for r in recorders() {
        let program = r.path("program");
        fs::copy("/bin/true", &program).expect("a copy");
        r.record("run.json", &[&program]);
        fs::remove_file(&program).expect("it is there");
        fs::copy("/bin/echo", &program).expect("a copy");
        let (status, out, err) = r.vink(&["replay", &r.path("run.json")]);
        assert_eq!((status, out.as_str()), (125, ""), "{err}");
        let named = format!("\nthe program {program} is another one: ");
        assert!(err.contains(&named) && !err.contains("the image"), "{err}");

        let kept = r.path("kept");
        let anyway = ["replay", "--anyway", "--keep", &kept, &r.path("run.json")];
        let (status, out, err) = r.vink(&anyway);
        assert_eq!((status, err.as_str()), (1, ""), "{out}");
        assert!(out.contains("\nthe runs part after 2 events:\n"), "{out}");
        let line = |sign| format!("\n{sign} 0.000000000 thread 1: runs {program} [");
        assert!(
            out.contains(&line('-')) && out.contains(&line('+')),
            "{out}"
        );
        let (status, difference, _) = r.vink(&["lab", "diff", &r.path("run.json"), &kept]);
        assert_eq!(status, 1);
        assert!(out.ends_with(&difference), "{difference}");
    }
}

#[test]
fn two_runs_part_where_they_differ() {
    let r = Recorder(Place::all().remove(0));
    let lines = |seconds| format!("sleep 1; sleep {seconds}; echo end");
    r.record("one.json", &["sh", "-c", &lines(1), "x"]);
    r.record(
        "two.json",
        &["sh", "-c", "sleep $1; sleep $2; echo end", "x", "1", "1"],
    );
    let diff = [
        "lab",
        "diff",
        "--context",
        "0",
        &r.path("one.json"),
        &r.path("two.json"),
    ];
    let (status, out, _) = r.vink(&diff);
    assert_eq!(status, 1);
    let found: Vec<_> = out.lines().skip(1).collect();
    assert_eq!(found.len(), 2, "{out}");
    assert!(found[0].starts_with("- ") && found[0].contains("\"sleep 1; sleep 1; echo end\""));
    assert!(found[1].starts_with("+ ") && found[1].contains("\"sleep $1; sleep $2; echo end\""));
}

#[test]
fn a_journal_that_was_cut_short() {
    let r = Recorder(Place::all().remove(0));
    r.record("run.json", &["sleep", "1"]);
    let journal = r.path("run.journal");
    let bytes = fs::read(&journal).expect("a journal");
    let cut = r.path("cut.journal");
    fs::write(&cut, &bytes[..bytes.len() - 1]).expect("a file");
    let (status, out, err) = r.vink(&["trace", "export", "--format", "text", &cut]);
    assert_eq!(status, 0, "{err}");
    assert!(err.contains("cut short"), "{err}");
    let (_, whole, err) = r.vink(&["trace", "export", "--format", "text", &journal]);
    assert_eq!((out.as_str(), err.as_str()), (whole.as_str(), ""));
    assert!(whole.contains("thread 1: clock_nanosleep("), "{whole}");
    fs::write(&cut, &bytes[..30]).expect("a file");
    let (status, out, _) = r.vink(&["lab", "diff", &journal, &cut]);
    assert_eq!(status, 1);
    assert!(out.ends_with("+ the journal is cut short here\n"), "{out}");
    let (status, _, err) = r.vink(&["lab", "diff", &journal, "/etc/hostname"]);
    assert_eq!(status, 125);
    assert!(err.contains("/etc/hostname: this is no journal"), "{err}");
}

#[test]
fn shown_by_other_programs() {
    let r = Recorder(Place::all().remove(0));
    r.record("run.json", &["sleep", "1"]);
    for (format, magic) in [("perfetto", &[0x0a][..]), ("pcapng", b"\x0a\x0d\x0d\x0a")] {
        let file = r.path(format);
        let export = [
            "trace",
            "export",
            "--format",
            format,
            "-o",
            &file,
            &r.path("run.json"),
        ];
        assert_eq!(r.vink(&export), (0, String::new(), String::new()));
        let bytes = fs::read(&file).expect("a file");
        assert!(bytes.starts_with(magic), "{format}");
    }
}
