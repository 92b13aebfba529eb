//! `vink lab diff`: where two recorded runs part.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use vink_record::{first_difference, first_difference_in_behaviour};

use crate::cli_error::CliError;
use crate::exec;
use crate::print;
use crate::record::{manifest_of, open};
use crate::replay::CONTEXT;

/// As wide as two runs side by side are without a terminal.
const COLUMNS: u16 = 200;

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
    /// Leave chance aside (ephemeral ports, sequence numbers, data), and show both runs side by side: usual for runs of two images
    #[arg(long)]
    behaviour: bool,
    /// Compare everything, for runs of two images too
    #[arg(long, conflicts_with = "behaviour")]
    exact: bool,
}

/// Tells the first event that is not the same. As diff(1), ends with 1 if there is one.
pub(crate) fn diff(arguments: &Diff) -> Result<ExitCode, CliError> {
    let manifests = (
        manifest_of(&arguments.first)?,
        manifest_of(&arguments.second)?,
    );
    let mut two_images = false;
    let mut terminals = Vec::new();
    if let (Some(first), Some(second)) = &manifests {
        two_images = first.image_hash != second.image_hash;
        terminals = first.terminals_differ(second.terminals, ["for the first", "for the second"]);
    }
    let by_behaviour = arguments.behaviour || (two_images && !arguments.exact);
    let difference = match by_behaviour {
        true => behaviour(arguments)?,
        false => {
            let (first, second) = (open(&arguments.first)?, open(&arguments.second)?);
            first_difference(first, second, arguments.context)?.map(|found| found.to_string())
        }
    };
    let mut text = String::new();
    if two_images && by_behaviour {
        text += "the runs are of two images: what is chance is left aside (--exact compares all)\n";
    }
    match &difference {
        None if by_behaviour => text += "the runs behave the same\n",
        None => text += "the runs are the same\n",
        Some(difference) => {
            for line in terminals {
                text += &line;
                text.push('\n');
            }
            text += difference;
        }
    }
    print::text(&text)?;
    Ok(ExitCode::from(u8::from(difference.is_some())))
}

fn behaviour(arguments: &Diff) -> Result<Option<String>, CliError> {
    let columns = match std::io::stdout().is_terminal() {
        true => exec::size().map_or(COLUMNS, |size| size.columns),
        false => COLUMNS,
    };
    let runs: [&dyn Fn() -> _; 2] = [&|| open(&arguments.first), &|| open(&arguments.second)];
    let found = first_difference_in_behaviour(runs, arguments.context)?;
    Ok(found.map(|found| found.side_by_side(columns.into())))
}
