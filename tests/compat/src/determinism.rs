//! What it takes to be sure that something repeats: the runs that are compared, and on what computer; the table of all that was tried.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{json, Value};
use vink_record::{first_difference, pcapng, Event, PacketOutcome, Reader, Totals};

use crate::stage::Stage;
use crate::BoxError;

/// How long a run may take, on the host's clock, in seconds.
const TIMEOUT_SECONDS: &str = "600";
/// What keeps processors busy meanwhile.
const BUSY: [&str; 2] = ["while :; do :; done", "while :; do /bin/true; done"];
/// Events that are told around the first difference.
const CONTEXT: usize = 3;

/// How a run is made: the first two must be the same, the third must not.
#[derive(Clone, Copy)]
pub(crate) struct Conditions {
    /// Of everything random.
    pub seed: u64,
    /// On one processor, which others want as well.
    busy: bool,
}

impl Conditions {
    pub const ALL: [Conditions; 3] = [
        Conditions {
            seed: 1,
            busy: false,
        },
        Conditions {
            seed: 1,
            busy: true,
        },
        Conditions {
            seed: 2,
            busy: false,
        },
    ];

    /// A program that is run so, in a folder of its own, and finds nothing else of the user that runs this.
    pub fn command(&self, stage: &Stage, program: &Path, folder: &Path) -> Command {
        let processors = if self.busy { "0" } else { "0-1023" };
        let mut command = Command::new("timeout");
        command
            .args([TIMEOUT_SECONDS, "taskset", "-c", processors])
            .arg(program)
            .current_dir(folder)
            .env_clear()
            .env("VINK_IMAGE", &stage.image)
            .env("HOME", folder)
            .env("PATH", &stage.path)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    /// What else goes on for as long as the answer is kept.
    pub fn load(&self) -> Result<Vec<Load>, BoxError> {
        let lines = if self.busy { &BUSY[..] } else { &[] };
        let loads = lines.iter().map(|line| Load::new(line));
        Ok(loads.collect::<Result<_, _>>()?)
    }
}

/// A loop of a shell's, as long as this is there.
pub(crate) struct Load(Child);

impl Load {
    fn new(line: &str) -> std::io::Result<Load> {
        let child = Command::new("sh").args(["-c", line]).spawn()?;
        Ok(Load(child))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is left of a run.
pub(crate) struct Recorded {
    pub totals: Totals,
    pub journal: Vec<u8>,
    /// What was captured meanwhile, as pcapng.
    pub captures: Vec<u8>,
}

/// What was run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Program,
    Lab,
}

/// What came of it.
pub(crate) struct Finding {
    kind: Kind,
    name: String,
    title: String,
    verdict: Verdict,
    totals: Option<Totals>,
    /// How many packets were lost at random, with either seed.
    lost: [usize; 2],
}

enum Verdict {
    Repeats,
    /// It was run, and this is wrong.
    Differs(String),
    /// It was not run, and why.
    LeftOut(String),
}

impl Finding {
    pub fn new(kind: Kind, name: &str, title: &str) -> Finding {
        Finding {
            kind,
            name: name.to_owned(),
            title: title.to_owned(),
            verdict: Verdict::Repeats,
            totals: None,
            lost: [0; 2],
        }
    }

    pub fn left_out(self, why: &str) -> Finding {
        let verdict = Verdict::LeftOut(why.to_owned());
        Finding { verdict, ..self }
    }

    /// A run of it had no good end.
    pub fn fails(self, why: &str) -> Finding {
        self.differs(&format!("fails: {why}"))
    }

    fn differs(self, why: &str) -> Finding {
        let verdict = Verdict::Differs(why.to_owned());
        Finding { verdict, ..self }
    }

    /// Nothing is wrong with it.
    pub fn is_good(&self) -> bool {
        !matches!(self.verdict, Verdict::Differs(_))
    }

    /// Says it.
    pub fn print(&self) {
        let said = match &self.verdict {
            Verdict::Repeats => "repeats".to_owned(),
            Verdict::Differs(why) => why.clone(),
            Verdict::LeftOut(why) => format!("is left out: {why}"),
        };
        println!("{:16} {said}", self.name);
    }
}

/// Whether the runs are what [`Conditions::ALL`] says of them.
pub(crate) fn compare(finding: Finding, runs: &[Recorded]) -> Result<Finding, BoxError> {
    let [one, again, other] = runs else {
        return Err(format!("{} runs were made, not three", runs.len()).into());
    };
    let totals = one.totals.clone();
    let finding = Finding {
        totals: Some(totals),
        ..finding
    };
    if runs.iter().any(|run| run.totals.missed > 0) {
        return Ok(finding.differs("packets came faster than they were recorded"));
    }
    fn reader(run: &Recorded) -> Result<Reader<&[u8]>, vink_record::Error> {
        Reader::new(&run.journal[..], "a journal")
    }
    if let Some(difference) = first_difference(reader(one)?, reader(again)?, CONTEXT)? {
        return Ok(finding.differs(&format!("does not repeat: {difference}")));
    }
    if one.totals.digest != again.totals.digest {
        return Ok(finding.differs("its digests differ"));
    }
    let packets = |run| {
        let mut file = Vec::new();
        pcapng(reader(run)?, &mut file, "memory").map(|_| file)
    };
    if packets(one)? != packets(again)? || one.captures != again.captures {
        return Ok(finding.differs("its captures differ"));
    }
    // Addresses of interfaces come from the seed, and what a wire loses.
    if first_difference(reader(one)?, reader(other)?, 0)?.is_none() {
        return Ok(finding.differs("is the same with another seed"));
    }
    let (ours, others) = (lost(reader(one)?)?, lost(reader(other)?)?);
    if !ours.is_empty() && ours == others {
        return Ok(finding.differs("loses the same packets with another seed"));
    }
    Ok(Finding {
        lost: [ours.len(), others.len()],
        ..finding
    })
}

/// Which packets were lost at random: where, and the how manieth of that place.
fn lost(mut journal: Reader<&[u8]>) -> Result<Vec<(String, u64)>, vink_record::Error> {
    let mut sent = HashMap::new();
    let mut lost = Vec::new();
    while let Some(record) = journal.next_record()? {
        let Event::Packet { place, outcome, .. } = record.event else {
            continue;
        };
        let count: &mut u64 = sent.entry(place.clone()).or_default();
        match outcome {
            PacketOutcome::Departure => *count += 1,
            PacketOutcome::Loss(reason) if reason == "random" => lost.push((place, *count)),
            PacketOutcome::Loss(_) | PacketOutcome::Arrival => {}
        }
    }
    Ok(lost)
}

/// Writes all as a JSON list.
pub(crate) fn write_json(path: &Path, findings: &[Finding]) -> Result<(), BoxError> {
    let row = |finding: &Finding| {
        let totals = finding.totals.as_ref();
        let (repeats, why) = match &finding.verdict {
            Verdict::Repeats => (json!(true), None),
            Verdict::Differs(why) => (json!(false), Some(why)),
            Verdict::LeftOut(why) => (Value::Null, Some(why)),
        };
        json!({
            "kind": match finding.kind { Kind::Program => "program", Kind::Lab => "lab" },
            "name": finding.name,
            "repeats": repeats,
            "why": why,
            "packets": totals.map(|totals| totals.packets),
            "calls": totals.map(|totals| totals.calls),
            "lost": totals.map(|_| finding.lost),
            "seconds": totals.map(|totals| totals.end as f64 / 1e9),
        })
    };
    let list = Value::Array(findings.iter().map(row).collect());
    let text = serde_json::to_string_pretty(&list)? + "\n";
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()).into())
}

const HEAD: &str = "\
# Which programs and labs repeat

Written by `make determinism`, here by that of commit COMMIT. Each program or lab ran three times
[in virtual time](virtual-time.md) as root:

- with one seed, on all processors of the host,
- with the same seed, on one processor that two other programs kept busy,
- with another seed.

Of the first two runs everything that is recorded ([replay.md](replay.md)) must be the same: each
packet with its time and its bytes; each system call with its time, its arguments and its result;
all output; and the digest of all that. The pcapng made of it must be the same byte for byte, and so
must the output of `vink capture` beside a lab. The run with the other seed must be another one, and
where packets are lost at random, other packets must be lost. `bench/determinism.json` has the
results as a list.

";

/// What this was built of, as git names it: with `-dirty` if it had been changed since.
fn commit() -> Result<String, BoxError> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .current_dir(vink_tests::root())
        .output()
        .map_err(|e| format!("git describe: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?.trim().to_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("git describe: {}", said.trim()).into())
        }
    }
}

/// Writes the page.
pub(crate) fn write_page(path: &Path, findings: &[Finding]) -> Result<(), BoxError> {
    let mut page = HEAD.replace("COMMIT", &commit()?);
    let mut notes = String::new();
    let parts = [
        (
            Kind::Program,
            "The programs are those of [compatibility.md](compatibility.md): a server on one machine and\na client on the other, 10 ms apart.",
        ),
        (
            Kind::Lab,
            "The ready labs. The commands of their pages are timed events, and the labs run for longer.",
        ),
    ];
    for (kind, what) in parts {
        write!(page, "{what}\n\n| | what it does | repeats | virtual seconds | packet events | system calls |\n|---|---|---|---|---|---|\n")?;
        for finding in findings.iter().filter(|finding| finding.kind == kind) {
            let (name, title) = (&finding.name, &finding.title);
            let cell = match &finding.verdict {
                Verdict::Repeats => "yes",
                Verdict::Differs(why) => {
                    let why = why.lines().next().unwrap_or_default();
                    writeln!(notes, "- {name}: {why}")?;
                    "**no**"
                }
                Verdict::LeftOut(why) => {
                    writeln!(notes, "- {name}: not run: {why}.")?;
                    "–"
                }
            };
            let [ours, others] = finding.lost;
            if ours != 0 {
                writeln!(notes, "- {name}: {ours} packets were lost at random with the one seed, {others} and not the same ones with the other.")?;
            }
            write!(page, "| {name} | {title} | {cell} |")?;
            match &finding.totals {
                Some(totals) => writeln!(
                    page,
                    " {:.3} | {} | {} |",
                    totals.end as f64 / 1e9,
                    totals.packets,
                    totals.calls
                )?,
                None => writeln!(page, " – | – | – |")?,
            }
        }
        writeln!(page)?;
    }
    if !notes.is_empty() {
        page += &notes;
        page.push('\n');
    }
    page += "[repeatable.md](repeatable.md) says what may still differ from run to run.\n";
    fs::write(path, page).map_err(|e| format!("{}: {e}", path.display()).into())
}
