//! `vink explore --coverage`: what runs reach of the stack's source, over several searches.

use std::path::{Path, PathBuf};

use vink_explore::Coverage;

use crate::cli_error::CliError;
use crate::print;

/// The image's profile, and its name where none is given.
pub(crate) const PROFILE: &str = "coverage";

/// The command line.
#[derive(clap::Args)]
pub(crate) struct CoverageArguments {
    /// Add to this file what all runs reach of TCP's source, and print what it has; the image is one of the profile `coverage`. Without LAB it is only printed
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    coverage: Option<PathBuf>,
    /// With --coverage: print which lines were not reached, too
    #[arg(long, requires = "coverage")]
    missing: bool,
}

impl CoverageArguments {
    /// What was reached before, if that is asked for.
    pub(crate) fn read(&self, image: &Path) -> Result<Option<Coverage>, CliError> {
        let Some(file) = &self.coverage else {
            return Ok(None);
        };
        let mut coverage = Coverage::of_image(image)?;
        coverage.load(file)?;
        Ok(Some(coverage))
    }

    /// Keeps it, and prints it.
    pub(crate) fn write(&self, coverage: Option<&Coverage>, json: bool) -> Result<(), CliError> {
        if let (Some(file), Some(coverage)) = (&self.coverage, coverage) {
            coverage.save(file)?;
        }
        self.print(coverage, json)
    }

    /// Prints it: a page, or JSON on a line.
    pub(crate) fn print(&self, coverage: Option<&Coverage>, json: bool) -> Result<(), CliError> {
        match coverage.map(Coverage::report) {
            Some(report) if json => print::json_line(&report),
            Some(report) => print::text(&report.text(self.missing)),
            None => Ok(()),
        }
    }
}
