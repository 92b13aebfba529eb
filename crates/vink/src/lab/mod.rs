//! `vink lab`: labs are made, changed, looked at and taken down, by requests to the control process.

mod diff;
mod events;
mod logs;
mod show;
mod up;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;
use crate::lab_file;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a lab as a file describes it
    Up(up::Up),
    /// Change a running lab so that it is as its file says, and tell what was changed
    Apply(up::Apply),
    /// Take a lab down
    Down(up::Down),
    /// List labs, or what is in one
    Ps(show::Ps),
    /// Write what runs now as a lab file
    Save(show::Save),
    /// Boot workers again, with all their machines and programs
    Restart(up::Restart),
    /// Show what a program of the lab has written
    Logs(logs::Logs),
    /// Show what happens, while it does
    Events(events::Events),
    /// Tell the first event at which two recorded runs part
    Diff(diff::Diff),
    /// Look for mistakes in lab files
    Check(lab_file::Check),
    /// Draw a lab file's machines and wires, for Graphviz or Mermaid
    Graph(lab_file::Graph),
    /// Print the JSON Schema of lab files, for editors
    Schema,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Up(arguments) => up::up(arguments),
        Command::Apply(arguments) => up::apply(arguments),
        Command::Down(arguments) => up::down(arguments),
        Command::Ps(arguments) => show::ps(arguments),
        Command::Save(arguments) => show::save(arguments),
        Command::Restart(arguments) => up::restart(arguments),
        Command::Logs(arguments) => logs::logs(arguments),
        Command::Events(arguments) => events::events(arguments),
        Command::Diff(arguments) => diff::diff(arguments),
        Command::Check(arguments) => lab_file::check(arguments),
        Command::Graph(arguments) => lab_file::graph(arguments),
        Command::Schema => lab_file::schema(),
    }
}
