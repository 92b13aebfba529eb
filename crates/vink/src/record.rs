//! Journals and manifests of runs, as the command line names them.

use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use vink_lab::Journal;
use vink_record::{hash_file, Event, Manifest, Reader, Totals, What, FORMAT};
use vink_trap::{Status, Worker};

use crate::cli_error::CliError;

/// A manifest's name in a folder that a lab was recorded to.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The journal that is read of a manifest, of the folder that it is in, or of a journal itself.
pub(crate) fn open(path: &Path) -> Result<Reader<BufReader<File>>, CliError> {
    let journal = match manifest_of(path)? {
        Some(manifest) => beside(&manifest_at(path), &manifest.journal),
        None => path.to_owned(),
    };
    let name = journal.display().to_string();
    let file = vink_spec::open_file(&journal).map_err(CliError::host(&name))?;
    Ok(Reader::new(BufReader::new(file), name)?)
}

/// The manifest of a path that may be that of a folder.
pub(crate) fn manifest_at(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(MANIFEST),
        false => path.to_owned(),
    }
}

/// The manifest of a run that is given by it, or by the folder that it is in; none: by its journal.
pub(crate) fn manifest_of(path: &Path) -> Result<Option<Manifest>, CliError> {
    let path = manifest_at(path);
    Ok(match is_manifest(&path)? {
        true => Some(read_manifest(&path)?),
        false => None,
    })
}

/// Whether standard input, output and error are terminals.
pub(crate) fn terminals() -> [bool; 3] {
    [
        std::io::stdin().is_terminal(),
        std::io::stdout().is_terminal(),
        std::io::stderr().is_terminal(),
    ]
}

/// Reads a manifest.
pub(crate) fn read_manifest(path: &Path) -> Result<Manifest, CliError> {
    let name = path.display().to_string();
    let text = vink_spec::read_text_file(path, vink_spec::LARGEST_FILE);
    Ok(Manifest::parse(
        &text.map_err(CliError::host(&name))?,
        &name,
    )?)
}

fn is_manifest(path: &Path) -> Result<bool, CliError> {
    let mut first = [0];
    let read = vink_spec::open_file(path).and_then(|mut file| file.read(&mut first));
    let count = read.map_err(CliError::host(path.display().to_string()))?;
    Ok(count == 1 && first[0] == b'{')
}

/// A file that a manifest names.
pub(crate) fn beside(manifest: &Path, file: &Path) -> PathBuf {
    manifest.parent().unwrap_or(Path::new("")).join(file)
}

/// What is known of a run: its totals, by its manifest or, if it was cut short, by its journal; and whether it was.
pub(crate) fn totals(manifest: &Manifest, path: &Path) -> Result<(Totals, bool), CliError> {
    if let Some(totals) = &manifest.totals {
        return Ok((totals.clone(), false));
    }
    let mut reader = open(path)?;
    while reader.next_record()?.is_some() {}
    let tail = reader.tail().expect("it was read to its end");
    let cut = matches!(tail, vink_record::Tail::Cut(_));
    Ok((tail.totals().clone(), cut))
}

/// `vink run --record`: what is written down of a run.
pub(crate) struct Recording {
    path: PathBuf,
    manifest: Manifest,
    journal: Journal,
}

/// The only program's number.
const PROGRAM: u64 = 1;

impl Recording {
    /// Begins, before the program is started: writes the manifest to this path, and a journal beside it.
    pub(crate) fn start(
        worker: &mut Worker,
        path: &Path,
        image: &Path,
        machine: &str,
        program: &[std::ffi::OsString],
    ) -> Result<Recording, CliError> {
        let journal = path.with_extension("journal");
        let name = journal.display().to_string();
        let file = File::create(&journal).map_err(CliError::host(format!("creating {name}")))?;
        let here = std::env::current_dir().map_err(CliError::host("the current folder"))?;
        let manifest = Manifest {
            format: FORMAT,
            vink: env!("CARGO_PKG_VERSION").to_owned(),
            image_hash: hash_file(image)?,
            image: image.to_owned(),
            what: What::Run(arguments()?),
            lab_file: None,
            folder: here,
            env: environment()?,
            terminals: Some(terminals()),
            journal: journal.file_name().map(PathBuf::from).unwrap_or_default(),
            parent: None,
            inputs: false,
            changes: false,
            totals: None,
        };
        manifest.write(path)?;
        let mut journal = Journal::start(worker, file, name);
        let words = program.iter().map(|word| word.to_string_lossy());
        let started = Event::Started {
            program: PROGRAM,
            machine: machine.to_owned(),
            words: words.map(|word| word.into_owned()).collect(),
        };
        journal.event(worker.kernel().now(), started);
        Ok(Recording {
            path: path.to_owned(),
            manifest,
            journal,
        })
    }

    /// What has happened in a step.
    pub(crate) fn look_after(&mut self, worker: &mut Worker) {
        let kernel = worker.kernel();
        while let Some(packet) = kernel.next_packet() {
            self.journal.packet(None, &packet);
        }
        let missed = kernel.missed_packets();
        self.journal.caught_up(missed);
    }

    /// The program has ended.
    pub(crate) fn finish(mut self, worker: &mut Worker, status: Status) -> Result<(), CliError> {
        self.look_after(worker);
        let now = worker.kernel().now();
        let ended = Event::Ended {
            program: PROGRAM,
            code: status.code(),
            report: String::new(),
        };
        self.journal.event(now, ended);
        self.manifest.totals = Some(self.journal.finish(now)?);
        Ok(self.manifest.write(&self.path)?)
    }
}

/// This process's arguments behind `run`, without `--record`.
fn arguments() -> Result<Vec<String>, CliError> {
    let mut given = std::env::args_os().skip(2);
    let mut kept = Vec::new();
    let mut is_ours = true;
    while let Some(word) = given.next() {
        let word = text(word)?;
        match word.as_str() {
            "--record" if is_ours => drop(given.next()),
            _ if is_ours && word.starts_with("--record=") => {}
            _ => {
                is_ours &= word != "--";
                kept.push(word);
            }
        }
    }
    Ok(kept)
}

/// What programs inherit.
pub(crate) fn environment() -> Result<Vec<(String, String)>, CliError> {
    let all = std::env::vars_os();
    all.map(|(name, value)| Ok((text(name)?, text(value)?)))
        .collect()
}

fn text(word: std::ffi::OsString) -> Result<String, CliError> {
    word.into_string().map_err(|word| {
        CliError::Other(format!(
            "{word:?} can't be written to a manifest: it is no UTF-8; run it without --record, or without this"
        ))
    })
}
