//! Stock images in the labs of tests/coverage and tests/mutants: no schedule breaks a property, but for a reason that
//! docs/mutants.md tells.
//!
//! By `make explore` (VINK_EXPLORE_HOURS) all labs have as many schedules as there is time for, on Linux 6.12 and 6.1: those
//! of one deviation first, then of two, then of three. What was tried is kept in build/explored, and a later `make explore`
//! goes on there. VINK_EXPLORE_PART=1/4 is each fourth of these searches, from the first on: the parts may run on several
//! machines. Here a few labs have two turns of that, and all schedules of one deviation on 6.1, as they have on 6.12
//! in `coverage`.

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::app::app;
use common::control::Control;
use common::stock::{is_explained, labs, properties, unexplained, STALL_TIMEOUT};
use common::{root, Place};
use serde_json::Value;

/// Labs that 6.1 has each time: with a mistake of Linux's own, with a reset that can be lost, and without.
const FEW: [&str; 4] = ["28-probe-no-backoff", "34-exact-reset", "asked", "tight"];
/// Deviations at most.
const DEVIATIONS: u64 = 3;
/// For how long a lab is searched before the next one is.
const SLICE: Duration = Duration::from_secs(60);

/// A lab on an image, and how far it was searched.
struct Search {
    lab: PathBuf,
    image: &'static str,
    /// Where that is written down.
    state: PathBuf,
    found: PathBuf,
    runs: u64,
    /// The number of deviations of which all schedules were tried; `None`: not even of none.
    complete: Option<u64>,
    /// Why it can't be searched.
    refused: Option<String>,
    broken: Vec<String>,
    explained: usize,
}

impl Search {
    fn of(lab: PathBuf, image: &'static str, folder: &std::path::Path) -> Search {
        let name = lab
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let folder = folder.join(image).join(name);
        Search {
            state: folder.join("state"),
            found: folder.join("found"),
            lab,
            image,
            runs: 0,
            complete: None,
            refused: None,
            broken: Vec::new(),
            explained: 0,
        }
    }

    fn name(&self) -> String {
        let name = self.lab.file_stem().expect("a name").to_string_lossy();
        format!("{name} on {}", self.image)
    }

    fn is_over(&self, deviations: u64) -> bool {
        self.refused.is_some() || self.complete >= Some(deviations)
    }

    /// Goes on with it for a while, up to so many deviations.
    fn go_on(&mut self, control: &Control<'_>, deviations: u64, budget: Duration) {
        let name = self
            .lab
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        control.write(&name, &fs::read_to_string(&self.lab).expect("a lab"));
        let (deviations, budget) = (deviations.to_string(), format!("{}ms", budget.as_millis()));
        let [state, found] = [&self.state, &self.found].map(|path| path.display().to_string());
        let _ = fs::remove_dir_all(&self.found);
        let arguments = [
            "explore",
            &name,
            "-k",
            &deviations,
            "--image",
            self.image,
            STALL_TIMEOUT,
            "--keep-going",
            "--json",
            "--budget",
            &budget,
            "--resume",
            &state,
            "--output",
            &found,
        ];
        let output = control.try_vink(&[&arguments, properties(&name)].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("has a search of another lab, image, vink") {
            fs::remove_dir_all(&self.state).expect("removed");
            return;
        }
        // What is found is told behind the numbers.
        let numbers = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers = numbers.lines().next().unwrap_or_default();
        let Ok(numbers) = serde_json::from_str::<Value>(numbers) else {
            self.refused = Some(said);
            return;
        };
        self.runs = numbers["runs"].as_u64().expect("a number");
        self.complete = numbers["complete"].as_u64();
        (self.broken, self.explained) = unexplained(&self.found);
    }
}

fn all_labs() -> Vec<PathBuf> {
    ["coverage", "mutants"].into_iter().flat_map(labs).collect()
}

fn few_labs() -> Vec<PathBuf> {
    let is_one =
        |lab: &PathBuf| FEW.contains(&&*lab.file_stem().expect("a name").to_string_lossy());
    all_labs().into_iter().filter(is_one).collect()
}

/// Prepares the app that labs have, and a search of each of them.
fn searches(control: &Control<'_>, labs: &[PathBuf], images: &[&'static str]) -> Vec<Search> {
    app(control, "tests/coverage/tcp.c", "tcp.so", &[]);
    let folder = match std::env::var_os("VINK_EXPLORE_HOURS") {
        Some(_) => root().join("build/explored"),
        None => control.folder().join("explored"),
    };
    let all = images
        .iter()
        .flat_map(|image| labs.iter().map(move |lab| (lab.clone(), *image)));
    all.map(|(lab, image)| Search::of(lab, image, &folder))
        .collect()
}

/// The number of a part, from 0 on, and of all parts: 1/4 is (0, 4).
fn parse_part(text: &str) -> Option<(usize, usize)> {
    let (part, parts) = text.split_once('/')?;
    let (part, parts): (usize, usize) = (part.parse().ok()?, parts.parse().ok()?);
    (1..=parts).contains(&part).then(|| (part - 1, parts))
}

/// Fails with what has no explanation.
fn assert_explained(all: &[Search]) {
    let broken: Vec<_> = all
        .iter()
        .flat_map(|search| {
            search
                .broken
                .iter()
                .map(|story| format!("{}: {story}", search.name()))
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn linux_6_1_breaks_nothing_without_a_reason() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let mut all = searches(&control, &few_labs(), &["6.1"]);
    assert_eq!(all.len(), FEW.len());
    for search in &mut all {
        search.go_on(&control, 1, Duration::from_secs(600));
        assert_eq!(
            search.complete,
            Some(1),
            "{}: {:?}",
            search.name(),
            search.refused
        );
    }
    assert_explained(&all);
    assert!(all.iter().any(|search| search.explained > 0));
}

#[test]
fn stock_images_break_nothing_without_a_reason() {
    let hours = std::env::var("VINK_EXPLORE_HOURS").ok();
    let hours = hours.map(|text| text.parse::<f64>().expect("a number of hours"));
    let (labs, slice) = match hours {
        Some(_) => (all_labs(), SLICE),
        None => (few_labs(), Duration::from_millis(300)),
    };
    let end = hours.map(|hours| Instant::now() + Duration::from_secs_f64(hours * 3600.0));
    let place = &Place::all()[0];
    let control = Control::of(place);
    let mut all = searches(&control, &labs, &["6.12", "6.1"]);
    if let Ok(text) = std::env::var("VINK_EXPLORE_PART") {
        let (part, parts) = parse_part(&text).expect("VINK_EXPLORE_PART as 1/4");
        all = all.into_iter().skip(part).step_by(parts).collect();
    }
    // Without an end, each has some turns.
    let mut turns = 2 * all.len();
    'search: for deviations in 1..=DEVIATIONS {
        while all.iter().any(|search| !search.is_over(deviations)) {
            for search in all.iter_mut().filter(|search| !search.is_over(deviations)) {
                let budget = match end {
                    Some(end) => end.saturating_duration_since(Instant::now()).min(slice),
                    None if turns == 0 => Duration::ZERO,
                    None => slice,
                };
                if budget.is_zero() {
                    break 'search;
                }
                turns = turns.saturating_sub(1);
                search.go_on(&control, deviations, budget);
                let state = match (&search.refused, search.complete) {
                    (Some(why), _) => why.trim().to_owned(),
                    (None, complete) => format!(
                        "{} runs, all of {} deviations; {} explained, {} not",
                        search.runs,
                        complete.unwrap_or(0),
                        search.explained,
                        search.broken.len()
                    ),
                };
                println!("{}: {state}", search.name());
            }
        }
    }
    for image in ["6.12", "6.1"] {
        let of: Vec<_> = all.iter().filter(|search| search.image == image).collect();
        let runs: u64 = of.iter().map(|search| search.runs).sum();
        let complete = |deviations| {
            of.iter()
                .filter(|search| search.complete >= Some(deviations))
                .count()
        };
        println!(
            "note: Linux {image}: {runs} runs in {} labs, all schedules of 1 deviation in {}, of 2 in {}, of 3 in {}; \
             {} reports explained, {} not; {} labs refused",
            of.len(), complete(1), complete(2), complete(3),
            of.iter().map(|search| search.explained).sum::<usize>(),
            of.iter().map(|search| search.broken.len()).sum::<usize>(),
            of.iter().filter(|search| search.refused.is_some()).count(),
        );
    }
    assert_explained(&all);
    if hours.is_none() {
        assert!(all
            .iter()
            .all(|search| search.runs > 0 && search.refused.is_none()));
    }
}

#[test]
fn parts_have_a_number_and_a_count() {
    assert_eq!(parse_part("1/4"), Some((0, 4)));
    assert_eq!(parse_part("4/4"), Some((3, 4)));
    for text in ["0/4", "5/4", "0/0", "1", "1/", "a/4"] {
        assert_eq!(parse_part(text), None, "{text}");
    }
}

#[test]
fn a_story_is_explained_by_its_reason_only() {
    let story = |lab: &str, property: &str, line: &str| {
        format!("Lab {lab} on 6.12: the property \"{property}\" does not hold.\n{line}\n")
    };
    let reset = "server:eth0 loses (TCP_RESET): TCP 10.0.0.2:80 > 10.0.0.1:9 [R.] seq 1 ack 1";
    let lost = "packet 9 of server:eth0 is lost: TCP 10.0.0.2:80 > 10.0.0.1:9 [R] seq 1 ack 0";
    let data = "packet 9 of server:eth0 is lost: TCP 10.0.0.2:80 > 10.0.0.1:9 [P.] seq 1 ack 1";
    let given_up = "steps: drain: Connection timed out (os error 110)";
    for line in [reset, lost] {
        assert!(is_explained(&story("ends", "stall", line)));
        assert!(!is_explained(&story("ends", "stream", line)));
    }
    assert!(!is_explained(&story("ends", "stall", data)));
    assert!(is_explained(&story("zero-window", "stall", given_up)));
    assert!(!is_explained(&story("closed-window", "stall", given_up)));
}
