//! `vink image`: stacks of one's own, built, listed, compared, given back as patches.

mod build;
mod note;
mod patch;
mod report;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use vink_kernel::{images, ImageFile};

use crate::cli_error::CliError;
use crate::print::{self, Table};
use note::{Note, Store};

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build an image of a kernel tree, of patches to the package's, or of a profile; or build it again
    Build(build::Arguments),
    /// List the images that --image takes by name
    #[command(visible_alias = "ls")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure images: code, source lines, system calls, time to boot, memory of a machine
    Report(report::Arguments),
    /// Remove images, with their objects and patched copies
    Rm {
        /// The images
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Show how an image's source differs from the package's, or from another image's
    Diff {
        /// An image
        a: String,
        /// Another one; none: A is compared with the package's source
        b: Option<String>,
    },
    /// Write an image's change as a patch for Linux, as git format-patch does
    ExportPatch(patch::Arguments),
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    match &arguments.command {
        Command::Build(arguments) => build::build(&Store::find()?, arguments)?,
        Command::List { json } => list(&Store::find()?, *json)?,
        Command::Report(arguments) => report::report(arguments)?,
        Command::Rm { names } => {
            let store = Store::find()?;
            names.iter().try_for_each(|name| store.remove(name))?;
        }
        Command::Diff { a, b } => diff(&Store::find()?, a, b.as_deref())?,
        Command::ExportPatch(arguments) => patch::export(&Store::find()?, arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// One image, as `vink image list --json` has it.
#[derive(Serialize)]
struct Listed {
    name: String,
    /// Of which kernel: "6.12".
    version: String,
    path: PathBuf,
    bytes: u64,
    /// How much is in it: `full`, `kvs`, ...
    profile: String,
    /// Bytes of code.
    text_bytes: u64,
    /// Of what it was made; none: of the package, or not by `vink image`.
    #[serde(flatten)]
    note: Option<Note>,
}

fn list(store: &Store, json: bool) -> Result<(), CliError> {
    let mut listed: Vec<Listed> = Vec::new();
    for path in images() {
        let named = vink_kernel::name_of_image(&path);
        let Some((version, name)) = named.map(|(v, n)| (v.to_owned(), n.to_owned())) else {
            continue;
        };
        // Only the first of a name is ever used.
        if listed.iter().any(|other| other.name == name) {
            continue;
        }
        // A file of that name may be none, which is said when it is used.
        let file = ImageFile::open(&path);
        let known = file.and_then(|file| Ok((file.profile()?, file.text_bytes()?)));
        let (profile, text_bytes) = known.unwrap_or_else(|_| ("?".to_owned(), 0));
        listed.push(Listed {
            profile,
            text_bytes,
            note: store
                .note(&name)?
                .filter(|_| path.starts_with(store.images())),
            bytes: fs::metadata(&path).map_or(0, |data| data.len()),
            name,
            version,
            path,
        });
    }
    if json {
        return print::json(&listed);
    }
    let mut table = Table::new(["NAME", "LINUX", "PROFILE", "TEXT", "MADE OF", "IMAGE"]);
    for image in listed {
        let made_of = match image.note {
            Some(note) => note.made_of(),
            None => "-".to_owned(),
        };
        let path = image.path.display().to_string();
        let text = kilobytes(image.text_bytes as f64);
        table.row([
            image.name,
            image.version,
            image.profile,
            text,
            made_of,
            path,
        ]);
    }
    print::text(&table.text())
}

fn diff(store: &Store, a: &str, b: Option<&str>) -> Result<(), CliError> {
    let (old, new) = match b {
        Some(b) => (store.source(a)?, store.source(b)?),
        None => (store.pristine(&store.noted(a)?.version)?, store.source(a)?),
    };
    let mut text = Vec::new();
    for change in tree::changes(&old, &new)? {
        text.extend(change.diff(&old, &new)?);
    }
    print::bytes(&text)
}

/// Of which patches or tree `vink image build` has made an image; none: of the package, or by something else.
pub(crate) fn made_of(image: &Path) -> Option<String> {
    let store = Store::find().ok()?;
    let (_, name) = vink_kernel::name_of_image(image)?;
    let note = store.note(name).ok()??;
    let is_of = image == store.image(name, &note.version) && note.is_changed();
    is_of.then(|| note.made_of())
}

/// `5720 kB`.
fn kilobytes(bytes: f64) -> String {
    format!("{:.0} kB", bytes / 1000.0)
}

/// Why a path could not be used.
fn cannot(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> CliError {
    CliError::host(format!("{what} {}", path.display()))
}
