//! A lab that is up during a test, and numbers about it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::{root, Place};

/// Until when something that needs a while must have happened, on however busy a machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A lab that is up, of a copy of labs/. Down again when dropped.
pub struct Up<'a> {
    place: &'a Place,
    /// The lab's.
    pub name: &'static str,
}

pub fn labs(place: &Place) -> PathBuf {
    place.temporary().join("labs")
}

/// Copies labs/ to where an ordinary user can read it, the place's temporary folder, and the sources of pods beside it.
pub fn copy_labs(place: &Place) {
    if labs(place).exists() {
        return;
    }
    for folder in ["labs", "pods", "include"] {
        let to = place.temporary().join(folder);
        let copied = Command::new("cp")
            .arg("-r")
            .args([&root().join(folder), &to])
            .status();
        assert!(copied.expect("cp").success(), "{folder}/ can't be copied");
        if place.is_nobody() {
            let opened = Command::new("chmod").args(["-R", "a+rwX"]).arg(to).status();
            assert!(opened.expect("chmod").success());
        }
    }
}

impl Up<'_> {
    /// Puts up `labs/PATH/lab.yaml`, whose lab has that folder's name, as this place's user.
    pub fn new<'a>(place: &'a Place, path: &'static str) -> Up<'a> {
        copy_labs(place);
        let up = Up {
            place,
            name: path.rsplit('/').next().unwrap_or(path),
        };
        up.vink(&["lab", "up", &format!("labs/{path}/lab.yaml")]);
        up
    }

    /// The same of `tests/labs/NAME/lab.yaml`, which no reader is told of; its copy is `labs/tests/NAME`.
    pub fn of_tests<'a>(place: &'a Place, name: &'static str) -> Up<'a> {
        copy_labs(place);
        let folder = labs(place).join("tests").join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let from = root().join("tests/labs").join(name).join("lab.yaml");
        fs::copy(from, folder.join("lab.yaml")).expect("a lab for tests");
        let up = Up { place, name };
        up.vink(&["lab", "up", &format!("labs/tests/{name}/lab.yaml")]);
        up
    }

    /// A program outside, of this place's user.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.place.command(program);
        command
            .current_dir(self.place.temporary())
            .env("VINK_RUNTIME", self.place.temporary().join("run"));
        command
    }

    /// What `vink` says, which must succeed.
    pub fn vink(&self, arguments: &[&str]) -> String {
        text(
            self.command("vink").args(arguments).output(),
            &arguments.join(" "),
        )
    }

    /// What a shell command on a machine writes; it must succeed.
    pub fn on(&self, machine: &str, line: &str) -> String {
        text(self.exec(machine, line), line)
    }

    fn exec(&self, machine: &str, line: &str) -> std::io::Result<Output> {
        self.command("vink")
            .args(["exec", "--lab", self.name, machine, "--", "sh", "-c", line])
            .output()
    }

    pub fn succeeds(&self, machine: &str, line: &str) -> bool {
        self.exec(machine, line)
            .is_ok_and(|output| output.status.success())
    }

    /// How long it took until a command succeeded.
    pub fn until(&self, machine: &str, line: &str) -> Duration {
        let begin = Instant::now();
        while !self.succeeds(machine, line) {
            assert!(
                begin.elapsed() < TIMEOUT,
                "{}, {machine}: {line}: not within {TIMEOUT:?}",
                self.name
            );
        }
        begin.elapsed()
    }

    /// Runs the lab's script, for so many seconds.
    pub fn measure(&self, seconds: u32) -> String {
        let script = format!("labs/{}/measure.sh", self.name);
        text(
            self.command("sh")
                .args([&script, &seconds.to_string(), "."])
                .output(),
            &script,
        )
    }

    /// A column of a CSV file that the script has made, with the time of each value.
    pub fn column(&self, file: &str, name: &str) -> Vec<(f64, f64)> {
        let text = fs::read_to_string(self.place.temporary().join(file)).expect(file);
        let mut lines = text.lines();
        let header = lines.next().expect("a header");
        let at = header.split(',').position(|n| n == name).expect(name);
        lines
            .filter_map(|line| {
                let cells: Vec<&str> = line.split(',').collect();
                Some((cells[0].parse().ok()?, cells[at].parse().ok()?))
            })
            .collect()
    }

    /// Packets sent and lost at a wire's end.
    pub fn sent_and_lost(&self, wire: &str, end: &str) -> (f64, f64) {
        let text = self.vink(&["wire", "show", "--lab", self.name, wire, "--json"]);
        let wire: serde_json::Value = serde_json::from_str(&text).expect(&text);
        let ends = wire["ends"].as_array().expect(&text);
        let end = ends.iter().find(|e| e["end"] == end).expect(&text);
        let counter = |name: &str| end["counters"][name].as_f64().expect(&text);
        (counter("sent"), counter("lost"))
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let down = self
            .command("vink")
            .args(["lab", "down", self.name])
            .output();
        if !std::thread::panicking() {
            text(down, "vink lab down");
        }
    }
}

/// Standard output of what must have succeeded.
fn text(output: std::io::Result<Output>, what: &str) -> String {
    let output = output.expect(what);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{what}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// The shortest round trip that ping(8) tells, in ms.
pub fn shortest(ping: &str) -> f64 {
    let times = ping.split("time=").skip(1);
    let times = times.filter_map(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let shortest = times.fold(f64::INFINITY, f64::min);
    assert!(shortest.is_finite(), "{ping}");
    shortest
}

/// Within so many hundredths of what it should be.
pub fn within(percent: f64, value: f64, target: f64) -> bool {
    (value - target).abs() <= target * percent / 100.0
}

pub fn median(values: &[(f64, f64)]) -> f64 {
    let mut values: Vec<f64> = values.iter().map(|v| v.1).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Bytes per second between the second and the last but one of the values.
pub fn slope(values: &[(f64, f64)]) -> f64 {
    let (first, last) = (values[values.len() / 3], values[values.len() - 2]);
    (last.1 - first.1) / (last.0 - first.0)
}
