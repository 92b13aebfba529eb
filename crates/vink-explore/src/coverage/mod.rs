//! What runs reach of the stack's own source: lines of `net/ipv4/tcp*.c`, states of TCP, ways between them.
//!
//! # How it works
//!
//! An image of the profile `coverage` has gcov's counters in these files, and a table of the steps that TCP makes
//! from state to state (`stack/arch/vink/kernel/coverage.c`). The notes that say what the counters count are in
//! the image's file, as sections `.gcno.NAME`. Each run is a copy of the lab, with its counters from the boot on.
//! At its end they are added to totals that all forks share. A sum of whole runs is still a flow: what has no
//! counter follows (`flow`). A run that has died is not counted.

mod edges;
mod flow;
mod notes;
mod report;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use serde::{Deserialize, Serialize};
use vink_pcb::image_of;
use vink_sys::memory;

use crate::forks::common;
use crate::Error;

pub use edges::{Edge, State, FIGURE, RESETS};
pub use report::{CoverageReport, FileCoverage};

/// The symbol of a function's counters, before its name.
const COUNTERS: &str = "__gcov0.";
/// Of the table of steps.
const STEPS: &str = "vink_tcp_steps";
/// Of the notes of an object, before its name.
const NOTES: &str = ".gcno.";
/// A counter's bytes.
const COUNTER: usize = size_of::<u64>();
/// Counters are read together that have no more bytes between them.
const NEAR: u64 = 4096;

/// An image's counters, and their totals over runs.
pub struct Coverage {
    /// The image's build id.
    image: String,
    objects: Vec<Counted>,
    /// Where counters are in the image.
    places: Vec<Place>,
    /// The table of steps.
    steps: Place,
    totals: &'static [AtomicU64],
    /// The labs that were run.
    labs: Vec<String>,
    /// Where this process and its forks have the image.
    base: u64,
}

/// An object that has counters.
struct Counted {
    /// `tcp_input.c`.
    file: String,
    /// Each with its counters; none: no code of it is left.
    functions: Vec<(notes::Function, Option<Place>)>,
}

/// Counters that lie side by side.
#[derive(Clone, Copy)]
struct Place {
    address: u64,
    count: usize,
    /// The first one's place among the totals.
    first: usize,
}

impl Place {
    fn end(&self) -> u64 {
        self.address + (self.count * COUNTER) as u64
    }
}

/// The totals as a file, to be added to.
#[derive(Serialize, Deserialize)]
struct Saved {
    image: String,
    labs: Vec<String>,
    counters: Vec<u64>,
}

impl Coverage {
    /// Of an image, with nothing reached yet.
    ///
    /// # Errors
    /// [`Error::Lab`]: it has no counters, or its notes can't be read. [`Error::Host`]: nor can the file.
    pub fn of_image(image: &Path) -> Result<Coverage, Error> {
        let shown = image.display();
        let bytes = fs::read(image).map_err(Error::host(format!("reading {shown}")))?;
        let elf = object::File::parse(&*bytes)
            .map_err(|error| Error::Lab(format!("{shown} is no image: {error}")))?;
        let id = elf.build_id().ok().flatten().unwrap_or_default();
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut counters = symbols(&elf);
        let Some(steps) = counters.remove(&(String::new(), STEPS.to_owned())) else {
            return Err(Error::Lab(format!(
                "{shown} has no counters of its source: build one that has by \
                 `vink image build --name coverage --profile coverage`, and name it by `--image coverage`"
            )));
        };
        let mut next = 0;
        let mut placed = |(address, size): (u64, u64)| {
            let first = next;
            let count = size as usize / COUNTER;
            next += count;
            Place {
                address,
                count,
                first,
            }
        };
        let mut objects = Vec::new();
        for section in elf.sections() {
            let Some(name) = section
                .name()
                .ok()
                .and_then(|name| name.strip_prefix(NOTES))
            else {
                continue;
            };
            let file = format!("{name}.c");
            let wrong = |why: String| Error::Lab(format!("the notes of {file} in {shown}: {why}"));
            let notes = section.data().map_err(|error| wrong(error.to_string()))?;
            let mut functions = Vec::new();
            for function in notes::read(notes).map_err(wrong)? {
                // What is of a header is no line of this file.
                if !function.file.ends_with(&format!("/{file}")) {
                    continue;
                }
                let found = counters.get(&(file.clone(), function.name.clone()));
                let place = found.copied().map(&mut placed);
                if place.is_some_and(|place| place.count != function.counters()) {
                    return Err(wrong(format!("{} has other counters", function.name)));
                }
                functions.push((function, place));
            }
            objects.push(Counted { file, functions });
        }
        objects.sort_by(|one, other| one.file.cmp(&other.file));
        let steps = placed(steps);
        let functions = objects.iter().flat_map(|object| &object.functions);
        let mut places: Vec<Place> = functions.filter_map(|(_, place)| *place).collect();
        places.push(steps);
        places.sort_by_key(|place| place.address);
        let totals = common(next * COUNTER)?.cast::<AtomicU64>();
        // SAFETY: so many zeroes, aligned to pages, never unmapped; all of it is atomic.
        let totals = unsafe { std::slice::from_raw_parts(totals, next) };
        Ok(Coverage {
            image: id,
            objects,
            places,
            steps,
            totals,
            labs: Vec::new(),
            base: 0,
        })
    }

    /// Names a lab whose runs will be added.
    pub fn count_lab(&mut self, name: &str) {
        if !self.labs.iter().any(|known| known == name) {
            self.labs.push(name.to_owned());
        }
    }

    /// Adds what is in a file, if there is one.
    ///
    /// # Errors
    /// [`Error::Lab`]: it is another image's, or no such file. [`Error::Host`]: it can't be read.
    pub fn load(&mut self, file: &Path) -> Result<(), Error> {
        let shown = file.display();
        let text = match fs::read(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(Error::host(format!("reading {shown}")))?,
        };
        let saved: Saved = serde_json::from_slice(&text)
            .map_err(|error| Error::Lab(format!("{shown} has not what was reached: {error}")))?;
        if saved.image != self.image || saved.counters.len() != self.totals.len() {
            return Err(Error::Lab(format!(
                "{shown} is of another image, which may have other lines: name another file"
            )));
        }
        for lab in &saved.labs {
            self.count_lab(lab);
        }
        for (total, count) in self.totals.iter().zip(saved.counters) {
            total.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes a file for [`Coverage::load`].
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn save(&self, file: &Path) -> Result<(), Error> {
        let saved = Saved {
            image: self.image.clone(),
            labs: self.labs.clone(),
            counters: self.totals(),
        };
        let text = serde_json::to_vec(&saved).expect("plain data");
        let new = file.with_extension("new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
        written.map_err(Error::host(format!("writing {}", file.display())))
    }

    /// What all runs have reached.
    pub fn report(&self) -> CoverageReport {
        let totals = self.totals();
        let of = |place: &Place| &totals[place.first..place.first + place.count];
        let files = self.objects.iter().map(|object| {
            let mut file = FileCoverage::new(&object.file);
            for (function, place) in &object.functions {
                if let Some(place) = place {
                    file.add(function, &flow::blocks(function, of(place)));
                }
            }
            file
        });
        let files = files.filter(|file| !file.lines.is_empty()).collect();
        CoverageReport::new(
            self.labs.clone(),
            files,
            &edges::Steps::new(of(&self.steps)),
        )
    }

    fn totals(&self) -> Vec<u64> {
        let totals = self.totals.iter();
        totals.map(|total| total.load(Ordering::Relaxed)).collect()
    }

    /// The image is loaded in this process, which will fork.
    pub(crate) fn find(&mut self) -> Result<(), Error> {
        (self.base, _) = image_of(std::process::id())?;
        Ok(())
    }

    /// Adds the counters of a run that is over, in this process.
    pub(crate) fn add(&self) -> Result<(), Error> {
        let pid = std::process::id() as i32;
        for near in self
            .places
            .chunk_by(|one, next| next.address < one.end() + NEAR)
        {
            let (Some(first), Some(last)) = (near.first(), near.last()) else {
                continue;
            };
            let size = (last.end() - first.address) as usize;
            let mut bytes = vec![0; size];
            memory::try_read(pid, self.base + first.address, &mut bytes)
                .map_err(Error::host("reading the image's counters"))?;
            for place in near {
                let from = (place.address - first.address) as usize;
                let counters = bytes[from..].chunks_exact(COUNTER).take(place.count);
                for (total, counter) in self.totals[place.first..].iter().zip(counters) {
                    let count = u64::from_ne_bytes(counter.try_into().expect("eight bytes"));
                    if count != 0 {
                        total.fetch_add(count, Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Addresses and sizes, by the source file and the function; those of no function by their own names.
fn symbols(elf: &object::File<'_>) -> HashMap<(String, String), (u64, u64)> {
    let mut all = HashMap::new();
    let mut file = String::new();
    for symbol in elf.symbols() {
        let name = symbol.name().unwrap_or_default();
        let place = (symbol.address(), symbol.size());
        if symbol.kind() == SymbolKind::File {
            name.clone_into(&mut file);
        } else if let Some(function) = name.strip_prefix(COUNTERS) {
            all.insert((file.clone(), function.to_owned()), place);
        } else if name == STEPS {
            all.insert((String::new(), name.to_owned()), place);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    const PROGRAM: &str = r#"
#include <stdlib.h>
int main(int argc, char **argv)
{
	int sum = 0, i;

	for (i = 0; i < argc; i++) {
		switch (argv[i][0]) {
		case 'a':
			sum += 2;
			break;
		case 'b':
			if (sum > 100)
				abort();
			sum--;
			continue;
		default:
			while (sum > 7)
				sum -= 3;
		}
		if (sum && argv[i][1] == 'z')
			goto out;
	}
	sum = 0;
out:
	return sum ? sum > 9 : 0;
}
"#;

    /// Of a file of libgcov's (`.gcda`) with one function.
    fn counters(bytes: &[u8]) -> Vec<u64> {
        const COUNTERS: u32 = 0x01a1_0000;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        // Behind the head of four words.
        let mut at = 16;
        while word(at) != COUNTERS {
            at += 8 + word(at + 4) as usize;
        }
        let values = bytes[at + 8..]
            .chunks_exact(8)
            .take(word(at + 4) as usize / 8);
        let values = values.map(|value| u64::from_le_bytes(value.try_into().expect("eight")));
        values.collect()
    }

    /// Lines that gcov has an opinion of: whether they were reached.
    fn told_by_gcov(folder: &Path) -> BTreeMap<u32, bool> {
        let gcov = Command::new("gcov")
            .args(["-t", "p.gcda"])
            .current_dir(folder)
            .output();
        let text = String::from_utf8(gcov.expect("gcov").stdout).expect("text");
        let line = |line: &str| {
            let (count, rest) = line.split_once(':')?;
            let number = rest.split(':').next()?.trim().parse().ok()?;
            let count = count.trim();
            (count != "-").then(|| (number, !count.starts_with('#')))
        };
        text.lines().filter_map(line).collect()
    }

    #[test]
    fn lines_are_those_that_gcov_tells() {
        let folder = std::env::temp_dir().join(format!("vink-coverage-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str| -> PathBuf { folder.join(name) };
        fs::write(file("p.c"), PROGRAM).expect("a program");
        let run = |command: &mut Command| {
            let status = command.current_dir(&folder).status().expect("to start");
            assert!(status.success(), "{command:?}");
        };
        run(Command::new("gcc").args(["-O2", "-fprofile-arcs", "-ftest-coverage", "-c", "p.c"]));
        run(Command::new("gcc").args(["--coverage", "-o", "p", "p.o"]));
        let notes = fs::read(file("p.gcno")).expect("notes");
        let functions = notes::read(&notes).expect("notes");
        let [function] = &functions[..] else {
            panic!("{functions:?}");
        };
        for arguments in [
            &[][..],
            &["a", "b"],
            &["a", "a", "a", "a", "a", "x", "az"],
            &["b", "xz"],
        ] {
            let _ = fs::remove_file(file("p.gcda"));
            run(Command::new(file("p")).args(arguments));
            let counters = counters(&fs::read(file("p.gcda")).expect("counters"));
            assert_eq!(counters.len(), function.counters());
            let mut own = FileCoverage::new("p.c");
            own.add(function, &flow::blocks(function, &counters));
            assert_eq!(own.lines, told_by_gcov(&folder), "{arguments:?}");
        }
        fs::remove_dir_all(&folder).expect("it can be removed");
        assert!(notes::read(b"").is_err() && notes::read(&notes[..notes.len() - 9]).is_err());
    }
}
