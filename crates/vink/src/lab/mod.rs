//! `vink lab`: labs are made, changed, looked at and taken down, by requests to the control process.

mod clock;
mod diff;
mod events;
mod logs;
mod show;
mod up;

pub(crate) use events::line;
pub(crate) use show::stuck;

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli_error::CliError;
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
    #[command(visible_aliases = ["ls", "list"])]
    Ps(show::Ps),
    /// Write what runs now as a lab file
    Save(show::Save),
    /// Boot workers again, with all their machines and programs
    Restart(up::Restart),
    /// Tell how a lab's clock is
    Clock(clock::Plain),
    /// Stop a lab's clock, and with it the lab
    Pause(clock::Plain),
    /// Let a lab go on that was stopped
    Continue(clock::Continue),
    /// Let a lab's clock go a step
    Step(clock::Stepped),
    /// Let a lab's clock go until a time, or until something has happened
    Until(clock::Until),
    /// Say how fast a lab's clock may go, to watch it
    Speed(clock::Limit),
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
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    match &arguments.command {
        Command::Up(arguments) => up::up(arguments),
        Command::Apply(arguments) => up::apply(arguments),
        Command::Down(arguments) => up::down(arguments),
        Command::Ps(arguments) => show::ps(arguments),
        Command::Save(arguments) => show::save(arguments),
        Command::Restart(arguments) => up::restart(arguments),
        Command::Clock(arguments) => clock::clock(arguments),
        Command::Pause(arguments) => clock::pause(arguments),
        Command::Continue(arguments) => clock::go_on(arguments),
        Command::Step(arguments) => clock::step(arguments),
        Command::Until(arguments) => clock::until(arguments),
        Command::Speed(arguments) => clock::speed(arguments),
        Command::Logs(arguments) => logs::logs(arguments),
        Command::Events(arguments) => events::events(arguments),
        Command::Diff(arguments) => diff::diff(arguments),
        Command::Check(arguments) => lab_file::check(arguments),
        Command::Graph(arguments) => lab_file::graph(arguments),
        Command::Schema => lab_file::schema(),
    }
}
