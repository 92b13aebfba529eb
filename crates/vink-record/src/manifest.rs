//! The manifest of a run: what was run, by hashes, and what came of it.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Hash;
use crate::record::{Event, Record};
use crate::Error;

/// The version of manifests.
pub const FORMAT: u32 = 1;

/// A run, as a JSON file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of vink.
    pub vink: String,
    /// The image's file.
    pub image: PathBuf,
    /// Of its contents.
    pub image_hash: Hash,
    /// What was run.
    pub what: What,
    /// The lab file, if there was one, and the hash of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab_file: Option<(PathBuf, Hash)>,
    /// The folder that relative paths are meant from.
    pub folder: PathBuf,
    /// The environment of programs.
    pub env: Vec<(String, String)>,
    /// Whether standard input, output and error were terminals; none: programs had none of these,
    /// or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminals: Option<[bool; 3]>,
    /// The journal's file, from the manifest's folder.
    pub journal: PathBuf,
    /// The moment of another run from which this one went its own way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// What clients have given programs of a lab is in the journal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inputs: bool,
    /// What becomes of a lab's machines and wires is in the journal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
    /// What came of it; none while it runs, or if it was cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
}

/// A moment of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Parent {
    /// Its manifest.
    pub manifest: PathBuf,
    /// When, ns on its clock.
    pub at: u64,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// `vink run` with these arguments.
    Run(Vec<String>),
    /// A lab: as in its file, checked and complete.
    Lab(Value),
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// When it ended, on its own clock, ns.
    pub end: u64,
    /// How often a packet was sent, received or lost.
    pub packets: u64,
    /// Packets that were not seen, since too many came at once: the digest says nothing then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// It was ended by force while something was still to be done at that time: what happened last
    /// is a matter of chance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// System calls.
    pub calls: u64,
    /// The files that were executed, by path.
    pub programs: Vec<Executed>,
    /// Of all records.
    pub digest: Option<Hash>,
}

/// A file that was executed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Executed {
    /// As the program had it.
    pub path: String,
    /// Of its contents; none if it could not be read.
    pub hash: Option<Hash>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Totals {
    pub(crate) fn count(&mut self, record: &Record) {
        match record.event {
            Event::Packet { .. } => self.packets += 1,
            Event::Call { .. } => self.calls += 1,
            _ => {}
        }
        self.end = self.end.max(record.time);
    }
}

impl Manifest {
    /// Reads one.
    ///
    /// # Errors
    /// [`Error::Host`]; [`Error::Format`]: the file is no manifest, or of another version.
    pub fn read(path: &Path) -> Result<Manifest, Error> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(Error::host(&name))?;
        Manifest::parse(&text, &name)
    }

    /// Reads the text of one; the name is for errors.
    ///
    /// # Errors
    /// [`Error::Format`]: this is no manifest, or one of another version.
    pub fn parse(text: &str, name: &str) -> Result<Manifest, Error> {
        let wrong = |why: String| Error::Format {
            what: name.to_owned(),
            why,
        };
        let value: Value = serde_json::from_str(text)
            .map_err(|error| wrong(format!("this is no manifest: {error}")))?;
        match value.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(wrong(format!(
                    "a manifest of format {format}; this vink reads format {FORMAT}"
                )))
            }
            None => return Err(wrong("this is no manifest: it has no format".to_owned())),
        }
        serde_json::from_value(value)
            .map_err(|error| wrong(format!("this is no manifest: {error}")))
    }

    /// Writes it, in the place of what is there: for its owner only, since it has the environment.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let name = path.display().to_string();
        let mut text = serde_json::to_string_pretty(self).expect("texts and numbers");
        text.push('\n');
        // A device or a pipe must not be replaced: "/dev/stdout" would be gone for all processes.
        let special = std::fs::metadata(path).is_ok_and(|about| !about.is_file());
        let new = match special {
            true => path.to_owned(),
            false => path.with_extension("new"),
        };
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| match special {
                true => Ok(()),
                false => std::fs::rename(&new, path),
            })
            .map_err(Error::host(name))
    }

    /// Which of standard input, output and error are terminals for one run and not for the other,
    /// which programs see. A line about each, with these names for the runs.
    pub fn terminals_differ(&self, other: Option<[bool; 3]>, runs: [&str; 2]) -> Vec<String> {
        let (Some(one), Some(two)) = (self.terminals, other) else {
            return Vec::new();
        };
        let names = ["input", "output", "error"];
        let all = names.into_iter().zip(one.into_iter().zip(two));
        all.filter(|(_, (one, two))| one != two)
            .map(|(name, (one, _))| {
                let [is, is_not] = if one { runs } else { [runs[1], runs[0]] };
                format!("standard {name} was a terminal {is} and none {is_not}: programs see that, and may do otherwise")
            })
            .collect()
    }

    /// What on this host is not as it was: the image, the lab file, each of the programs. A line
    /// each; none: all is.
    pub fn changes(&self) -> Vec<String> {
        let mut changes = Vec::new();
        let mut compare = |what: &str, path: &Path, was: &Hash| {
            let path_text = path.display();
            match hash_file(path) {
                Ok(now) if now == *was => {}
                Ok(now) => changes.push(format!(
                    "{what} {path_text} is another one: {} now, {} then",
                    now.short(),
                    was.short()
                )),
                Err(error) => changes.push(format!("{what} {error}")),
            }
        };
        compare("the image", &self.image, &self.image_hash);
        if let Some((path, was)) = &self.lab_file {
            compare("the lab file", path, was);
        }
        let programs = self.totals.iter().flat_map(|totals| &totals.programs);
        for Executed { path, hash } in programs {
            if let Some(was) = hash {
                compare("the program", Path::new(path), was);
            }
        }
        changes
    }
}

/// Of a file's contents.
///
/// # Errors
/// [`Error::Host`].
pub fn hash_file(path: &Path) -> Result<Hash, Error> {
    let hash = || Hash::of_reader(&mut File::open(path)?);
    hash().map_err(Error::host(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_named() {
        let folder = std::env::temp_dir().join(format!("vink-manifest-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str| {
            let path = folder.join(name);
            std::fs::write(&path, name).unwrap();
            let hash = hash_file(&path).unwrap();
            assert_eq!(hash, Hash::of(name.as_bytes()));
            (path, hash)
        };
        let (image, image_hash) = file("image");
        let (program, program_hash) = file("program");
        let lab = file("lab");
        let manifest = Manifest {
            format: FORMAT,
            vink: "1".to_owned(),
            image: image.clone(),
            image_hash,
            what: What::Run(vec!["true".to_owned()]),
            lab_file: Some(lab.clone()),
            folder: folder.clone(),
            env: Vec::new(),
            terminals: Some([true, false, true]),
            journal: "j".into(),
            parent: None,
            inputs: false,
            changes: false,
            totals: Some(Totals {
                programs: vec![Executed {
                    path: program.display().to_string(),
                    hash: Some(program_hash),
                }],
                ..Totals::default()
            }),
        };
        let path = folder.join("run.json");
        manifest.write(&path).unwrap();
        assert_eq!(Manifest::read(&path).unwrap(), manifest);
        assert_eq!(manifest.changes(), Vec::<String>::new());
        let told = |other| manifest.terminals_differ(other, ["then", "now"]);
        assert!(told(Some([true, false, true])).is_empty() && told(None).is_empty());
        let both = told(Some([true, true, false])).join("\n");
        assert!(
            both.starts_with("standard output was a terminal now and none then: "),
            "{both}"
        );
        assert!(
            both.contains("\nstandard error was a terminal then and none now: "),
            "{both}"
        );
        std::fs::write(&image, "other").unwrap();
        std::fs::write(&lab.0, "other").unwrap();
        std::fs::remove_file(&program).unwrap();
        let changes = manifest.changes();
        let starts = ["the image ", "the lab file ", "the program "];
        assert_eq!(changes.len(), starts.len(), "{changes:?}");
        for (change, start) in changes.iter().zip(starts) {
            assert!(change.starts_with(start), "{change}");
        }
        for wrong in ["", "{}", "[1]", r#"{"format": 2}"#, r#"{"format": 1}"#] {
            std::fs::write(&path, wrong).unwrap();
            Manifest::read(&path).unwrap_err();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
