//! How far a search is, in a file, so that another process can go on with it.
//!
//! The schedules of so many deviations are the branches behind so many first deviations, which have numbers
//! ([`Claims`]). What is written is which of them are done, and what was found. A process says what it has found before
//! it says that it is done: so the parent looks first at what is done, and then takes what was said. What is lost with
//! a process that is killed is what was not done, which is tried again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::forks::Claims;
use crate::{Error, Found, Runner};

/// The file's name in its folder.
const FILE: &str = "search.json";
/// The version of such files.
const FORMAT: u32 = 1;
/// How often it is written, at most.
const EVERY: Duration = Duration::from_millis(200);

/// What is in the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Saved {
    format: u32,
    /// A hash of all on which it depends what a run does.
    of: String,
    /// The number of deviations of which all schedules were tried.
    pub complete: usize,
    /// Of those of one more: which first deviations are done, from and to.
    pub done: Vec<(usize, usize)>,
    /// Runs.
    pub runs: u64,
    /// Packets in them.
    pub packets: u64,
    /// The first schedule that was found to break each property.
    pub found: BTreeMap<String, Found>,
    /// The numbers of their first deviations, if they have as many as are tried now.
    pub first: HashMap<String, usize>,
}

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Saver {
    path: PathBuf,
    saved: RefCell<Saved>,
    written: Cell<Option<Instant>>,
}

impl Saver {
    /// Begins, or goes on with what is in the folder.
    ///
    /// # Errors
    /// [`Error::Lab`]: it is of another search. [`Error::Host`]: a file can't be read.
    pub fn open(folder: &Path, runner: &Runner) -> Result<Saver, Error> {
        let name = folder.display();
        fs::create_dir_all(folder).map_err(Error::host(format!("making {name}")))?;
        let path = folder.join(FILE);
        let of = identity(runner)?;
        let saved = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Saved>(&bytes).map_err(|error| {
                let name = path.display();
                Error::Lab(format!(
                    "{name} is not what `vink explore --resume` writes ({error}): give another folder"
                ))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => Saved {
                format: FORMAT,
                of: of.clone(),
                ..Saved::default()
            },
            Err(error) => return Err(Error::host(format!("reading {}", path.display()))(error)),
        };
        if saved.format != FORMAT || saved.of != of {
            return Err(Error::Lab(format!(
                "{name} has a search of another lab, image, vink, or with other properties or limits: give another folder"
            )));
        }
        Ok(Saver {
            path,
            saved: RefCell::new(saved),
            written: Cell::new(None),
        })
    }

    /// What is known.
    pub fn saved(&self) -> Saved {
        self.saved.borrow().clone()
    }

    /// Whether it is time to write.
    pub fn is_due(&self) -> bool {
        self.written
            .get()
            .is_none_or(|written| written.elapsed() >= EVERY)
    }

    /// Writes how far it is: as of the level, which first deviations were done before what was found was taken.
    ///
    /// # Errors
    /// [`Error::Host`]: the file can't be written.
    pub fn write(
        &self,
        done: Vec<(usize, usize)>,
        claims: &Claims,
        found: &BTreeMap<String, Found>,
        first: &HashMap<String, usize>,
    ) -> Result<(), Error> {
        let mut saved = self.saved.borrow_mut();
        saved.done = done;
        saved.runs = claims.runs.load(Ordering::Relaxed);
        saved.packets = claims.packets.load(Ordering::Relaxed);
        saved.found.clone_from(found);
        saved.first.clone_from(first);
        self.written.set(Some(Instant::now()));
        let new = self.path.with_extension("new");
        let bytes = serde_json::to_vec(&*saved).expect("plain data");
        let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &self.path));
        written.map_err(Error::host(format!("writing {}", self.path.display())))
    }

    /// All schedules of so many deviations were tried.
    ///
    /// # Errors
    /// As [`Saver::write`].
    pub fn completed(
        &self,
        deviations: usize,
        claims: &Claims,
        found: &BTreeMap<String, Found>,
    ) -> Result<(), Error> {
        self.saved.borrow_mut().complete = deviations;
        self.write(Vec::new(), claims, found, &HashMap::new())
    }
}

/// A hash of all on which it depends what a run does: this program, the image, the lab, its apps, what is checked.
fn identity(runner: &Runner) -> Result<String, Error> {
    let mut hasher = blake3::Hasher::new();
    let lab = runner.lab();
    let programs = lab.machines.values().flat_map(|its| its.programs.values());
    let objects = programs.filter_map(|program| {
        let app = program.app.as_deref()?;
        let file = app.split_whitespace().next()?.strip_prefix("so:")?;
        Some(runner.around().folder.join(file))
    });
    let own = PathBuf::from("/proc/self/exe");
    let files = [own, runner.image().to_owned()].into_iter().chain(objects);
    for file in files {
        let bytes = fs::read(&file).map_err(Error::host(format!("reading {}", file.display())))?;
        hasher.update(blake3::hash(&bytes).as_bytes());
    }
    let rest = serde_json::to_vec(&(lab, runner.wanted(), &runner.limits)).expect("plain data");
    hasher.update(&rest);
    Ok(hasher.finalize().to_hex().to_string())
}
