//! What libraries log, on standard error: warnings, what the control process tells, and what `VINK_LOG` asks for.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::cli_error::CliError;

/// Which targets are logged, from which level on: `sched=debug,control=warn`.
const VARIABLE: &str = "VINK_LOG";

/// Has all that is logged from now on go to standard error.
///
/// # Errors
/// `VINK_LOG` is not understood.
pub(crate) fn begin() -> Result<(), CliError> {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let layer = tracing_subscriber::fmt::layer()
        .event_format(Lines)
        .with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(targets(&wanted)?)
        .with(layer)
        .init();
    Ok(())
}

/// All targets from `info` on, but for what is wanted.
fn targets(wanted: &str) -> Result<Targets, CliError> {
    let wrong = |_| {
        CliError::Other(format!(
            "{VARIABLE}={wanted}: write TARGET=LEVEL, separated by commas, such as sched=debug; \
             docs/debugging.md has the targets"
        ))
    };
    // An empty text would be understood as a target without a name, with all of its levels.
    let targets: Targets = match wanted.is_empty() {
        true => Targets::new(),
        false => wanted.parse().map_err(wrong)?,
    };
    let default = targets.default_level().unwrap_or(Level::INFO.into());
    Ok(targets.with_default(default))
}

/// A line for each event: `vink: ` and its text; below `info` also the target.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        match (about.target(), *about.level() <= Level::INFO) {
            ("control", true) => to.write_str("vink daemon: ")?,
            (_, true) => to.write_str("vink: ")?,
            (target, false) => write!(to, "vink {target}: ")?,
        }
        context.format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted() {
        let logs = |wanted: &str, target: &str, level: Level| {
            let targets = targets(wanted).unwrap_or_else(|failure| panic!("{failure}"));
            targets.would_enable(target, &level)
        };
        assert!(logs("", "control", Level::INFO) && !logs("", "sched", Level::DEBUG));
        assert!(logs("sched=debug", "sched", Level::DEBUG));
        assert!(!logs("sched=debug", "control", Level::DEBUG));
        assert!(logs("sched=debug", "control", Level::INFO));
        assert!(logs("debug", "shell", Level::DEBUG));
        assert!(!logs("control=off", "control", Level::WARN));
        let mistake = targets("sched=loud")
            .err()
            .map(|failure| failure.to_string());
        assert!(mistake.is_some_and(|text| text.contains("VINK_LOG=sched=loud")));
    }
}
