//! Planted bugs: an image of each patch of stack/mutants differs from the stock one where its packetdrill script says, and
//! `vink explore` finds in its lab what its patch says: a property that is broken, and a difference from the stock image.
//!
//! An image takes some ten seconds, so that five are built here, and all by `make mutants`. Where packetdrill's source is not
//! (common/packetdrill.rs), only labs are explored.

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{packetdrill, root, Place};

/// Those of every run: issue 21's.
const FIVE: [&str; 5] = ["01", "02", "05", "06", "10"];

/// A patch and what shows it.
struct Mutant {
    /// As in `01-ack-of-unsent`.
    name: String,
    patch: PathBuf,
    /// The property that `vink explore` finds broken, by so many deviations.
    seen: Option<(String, u32)>,
    /// With so many deviations `--against` finds a difference from the stock image.
    differs: Option<usize>,
}

impl Mutant {
    fn read(patch: &Path) -> Mutant {
        let name = patch.file_stem().expect("a name").to_string_lossy();
        let text = fs::read_to_string(patch).expect("a patch");
        let said = |words: &str| {
            let said = text.lines().find_map(|line| line.strip_prefix(words));
            said.unwrap_or_else(|| panic!("{name}: no {words:?}"))
        };
        let number = |deviations: &str| match deviations {
            "no deviation" => 0,
            "one deviation" => 1,
            "two deviations" => 2,
            other => panic!("{name}: {other:?}"),
        };
        let seen = said("Seen by: ").split_once(", ");
        let seen = seen.map(|(property, by)| (property.to_owned(), number(by) as u32));
        let differs = Some(said("Differs: ")).filter(|by| *by != "none");
        let differs = differs.map(number);
        Mutant {
            name: name.into_owned(),
            patch: patch.to_owned(),
            seen,
            differs,
        }
    }

    /// A file of tests/mutants.
    fn file(&self, extension: &str) -> PathBuf {
        root()
            .join("tests/mutants")
            .join(format!("{}.{extension}", self.name))
    }
}

/// All of them, in order of their names.
fn mutants() -> Vec<Mutant> {
    let entries = fs::read_dir(root().join("stack/mutants")).expect("the patches");
    let mut patches: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    patches.sort();
    patches.iter().map(|patch| Mutant::read(patch)).collect()
}

/// An image that is made again and again, in the cache of the user that runs the tests. Gone when dropped.
struct Built<'a> {
    place: &'a Place,
    name: String,
}

impl Built<'_> {
    fn vink(&self, arguments: &[&str]) -> Output {
        vink(self.place, arguments)
    }
}

fn vink(place: &Place, arguments: &[&str]) -> Output {
    let mut command: Command = place.vink(arguments);
    command
        .current_dir(place.temporary())
        .env("VINK_ROOT", root());
    command.output().expect("vink")
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        self.vink(&["image", "rm", &self.name]);
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Whether the script of a mutant fails on an image, though it is to pass, or the other way round: what it says then.
fn run_script(built: &Built, mutant: &Mutant, image: &str, passes: bool) -> Option<String> {
    let script = mutant.file("pkt");
    let output = built.vink(&["packetdrill", "--ip=4", "--image", image, path(&script)]);
    let text = String::from_utf8_lossy(&output.stderr);
    (output.status.success() != passes).then(|| format!("{} on {image}: {text}", mutant.name))
}

/// Explores the lab of a mutant with so many deviations; what is found is put there.
fn search(
    built: &Built,
    mutant: &Mutant,
    deviations: &str,
    arguments: &[&str],
) -> (Output, PathBuf) {
    let found = built.place.temporary().join("found");
    let _ = fs::remove_dir_all(&found);
    let lab = mutant.file("yaml");
    // Some wait for a quarter of an hour.
    let common = ["explore", path(&lab), "--stall-timeout=1500s"];
    let where_to = ["--deviations", deviations, "--output", path(&found)];
    let output = built.vink(&[&common[..], &where_to, arguments].concat());
    (output, found)
}

/// The same of its lab, with an engine.
fn explore(
    built: &Built,
    mutant: &Mutant,
    image: &str,
    engine: &str,
    holds: bool,
) -> Option<String> {
    let (property, deviations) = mutant.seen.as_ref()?;
    let arguments = ["--image", image, "--engine", engine];
    let (output, _) = search(built, mutant, &deviations.to_string(), &arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    let summary = text
        .lines()
        .find(|line| line.contains(", among them "))
        .unwrap_or_default();
    writeln!(
        std::io::stderr(),
        "note: {} on {image}, {engine}: {summary}",
        mutant.name
    )
    .expect("standard error");
    let is_good = match holds {
        true => output.status.code() == Some(0) && summary.ends_with("no property is broken"),
        false => summary
            .split_once("broken: ")
            .is_some_and(|(_, broken)| broken.split(", ").any(|name| name == property)),
    };
    (!is_good).then(|| format!("{} on {image}, {property}, {engine}: {text}", mutant.name))
}

/// Whether the stock image differs in its lab as its patch says, without any property: what is said if it does not.
fn differ(built: &Built, mutant: &Mutant) -> Option<String> {
    let deviations = mutant.differs?;
    let arguments = ["--image=6.12", "--against", &built.name, "--json"];
    let (output, found) = search(built, mutant, &deviations.to_string(), &arguments);
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let numbers: serde_json::Value =
        serde_json::from_str(told.lines().next().unwrap_or_default()).unwrap_or_default();
    let differences = numbers["differences"].as_object();
    let differences = differences.cloned().unwrap_or_default();
    let repeats = |(kind, its): (&String, &serde_json::Value)| {
        let folder = found.join(format!("difference-{kind}"));
        let repeated = built.vink(&["explore", "--replay", path(&folder)]);
        let now = String::from_utf8_lossy(&repeated.stdout);
        // It ends with the fewest that make a difference.
        let schedule = its["schedule"].as_array().map(Vec::len);
        schedule == Some(deviations) && now.starts_with("the runs repeat: ")
    };
    let is_good = output.status.code() == Some(1)
        && differences.len() == 1
        && differences.iter().all(repeats);
    (!is_good).then(|| format!("{} against {}: {said}{told}", mutant.name, built.name))
}

#[test]
fn planted_bugs_are_found_and_the_stock_kernel_has_none() {
    let are_all = std::env::var_os("VINK_MUTANTS").is_some_and(|wanted| wanted == "all");
    let place = &Place::all()[0];
    let has_packetdrill = packetdrill::source().map(|source| packetdrill::build(place, &source));
    let name = format!("mutant-test-{}", std::process::id());
    let built = Built { place, name };
    let mut wrong = Vec::new();
    let mut count = 0;
    for mutant in mutants() {
        if !are_all && !FIVE.iter().any(|number| mutant.name.starts_with(number)) {
            continue;
        }
        count += 1;
        let made = built.vink(&[
            "image",
            "build",
            "--name",
            &built.name,
            "--patch",
            path(&mutant.patch),
        ]);
        assert!(
            made.status.success(),
            "{}: {}",
            mutant.name,
            String::from_utf8_lossy(&made.stderr)
        );
        wrong.extend(differ(&built, &mutant));
        for (image, is_stock) in [("6.12", true), (built.name.as_str(), false)] {
            if has_packetdrill.is_some() {
                wrong.extend(run_script(&built, &mutant, image, is_stock));
            }
            for engine in ["fork", "pages"] {
                wrong.extend(explore(&built, &mutant, image, engine, is_stock));
            }
        }
    }
    assert!(count >= FIVE.len(), "{count} patches");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What docs/mutants.md tells of Linux's own mistakes: each script of tests/found fails in its last line, on the images that
/// its head names.
#[test]
fn linux_makes_the_mistakes_that_are_told() {
    let Some(source) = packetdrill::source() else {
        return;
    };
    let place = &Place::all()[0];
    packetdrill::build(place, &source);
    for (name, fails_on_6_1) in [("one-lost-probe", false), ("undo-by-a-probe", true)] {
        let script = root().join(format!("tests/found/{name}.pkt"));
        let lines = fs::read_to_string(&script)
            .expect("a script")
            .lines()
            .count();
        for (image, fails) in [("6.12", true), ("6.1", fails_on_6_1)] {
            let arguments = ["packetdrill", "--ip=4", "--image", image, path(&script)];
            let output = vink(place, &arguments);
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), !fails, "{name} on {image}: {text}");
            let at = format!("{name}.pkt:{lines}: error");
            assert!(!fails || text.contains(&at), "{name} on {image}: {text}");
        }
    }
}
