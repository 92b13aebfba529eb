//! `vink lab diff`: where two recorded runs part.

use std::path::PathBuf;
use std::process::ExitCode;

use vink_record::first_difference;

use crate::failure::Failure;
use crate::print;
use crate::record::open;
use crate::replay::CONTEXT;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Diff {
    /// A run: its manifest, its journal, or the folder that a lab was recorded to
    first: PathBuf,
    /// Another one
    second: PathBuf,
    /// Events that are shown before and after the first difference
    #[arg(long, value_name = "EVENTS", default_value_t = CONTEXT)]
    context: usize,
}

/// Tells the first event that is not the same. As diff(1), ends with 1 if there is one.
pub(crate) fn diff(arguments: &Diff) -> Result<ExitCode, Failure> {
    let (first, second) = (open(&arguments.first)?, open(&arguments.second)?);
    match first_difference(first, second, arguments.context)? {
        None => Ok(ExitCode::SUCCESS),
        Some(difference) => {
            print::text(&difference.to_string())?;
            Ok(ExitCode::FAILURE)
        }
    }
}
