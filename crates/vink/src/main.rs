//! The command `vink`: reads the command line and says how it ended.

// print! panics where the reader has gone: print.rs does not.
#![warn(clippy::print_stdout)]

mod attach;
mod breakpoint;
mod capture;
mod cli_error;
mod client;
mod compile_filter;
mod confined;
mod daemon;
mod debug;
mod demo;
mod dissect;
mod doctor;
mod driver;
mod exec;
mod explore;
mod explore_against;
mod explore_coverage;
mod explored;
mod extcap;
mod filter;
mod hint;
mod image;
mod in_process;
mod interrupt;
mod lab;
mod lab_check;
mod lab_file;
mod lab_host;
mod lab_worker;
mod log;
mod machine;
mod packetdrill;
mod pages;
mod pcb;
mod plot;
mod pod;
mod print;
mod record;
mod relay;
mod replay;
mod rights;
mod run;
mod run_filter;
mod series;
mod shell;
mod signals;
mod trace;
mod ui;
mod version;
mod watchdog;
mod wire;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cli_error::CliError;

/// The real Linux network stack as a library, under unmodified programs.
#[derive(Parser)]
#[command(name = "vink", version, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "\
Exit status of `vink run`: the program's own; if a signal ended it, vink ends by the same signal.
121: the kernel panicked. 125: vink failed. 126: PROGRAM can't be executed. 127: PROGRAM not found.
Of the other commands: 0, 1 (doctor: something needed is missing; lab check: a mistake; lab diff, replay: a difference), 121 or 125; 2: a wrong command line.";

#[derive(Subcommand)]
enum Command {
    /// Show it: three machines, two wires, unmodified programs
    Demo,
    /// Run a program on a machine of its own
    Run(run::Arguments),
    /// Make, change, show and take down labs: machines, wires and programs described in a file
    Lab(lab::Arguments),
    /// Run a program on a machine of a lab
    Exec(exec::Arguments),
    /// Come back to a terminal of a lab that was kept, or list them
    Attach(attach::Arguments),
    /// Machines of a lab that runs
    Machine(machine::Arguments),
    /// Wires of a lab that runs
    Wire(wire::Arguments),
    /// Open the web page: labs as pictures, to be drawn, watched and commanded
    Ui(ui::Arguments),
    /// The control process, which runs labs; it is started when it is needed
    Daemon(daemon::Arguments),
    /// Make a lab file of a topology of containerlab, GraphML or GML
    Import(lab_file::Import),
    /// Write packets of a lab's interfaces as pcapng, to a file or a pipe
    Capture(capture::Arguments),
    /// Breakpoints of a lab that runs: which packets, where, and what becomes of them
    Break(breakpoint::Arguments),
    /// Pods of a lab that runs: code on packets' paths, in protection domains of their own
    Pod(pod::Pods),
    /// Paths of a lab that runs: which packets go through which pods, and what they use
    Path(pod::Paths),
    /// Relays of a lab that runs: what comes to an address of a machine goes on to a target, inside the worker
    Relay(relay::Arguments),
    /// Filters of a lab that runs: rules for nft(8), loaded in one transaction, compared, counted, rolled back
    Filter(filter::Arguments),
    /// Time series of a lab that runs: any of its numbers, by its clock or at events, to a file
    Series(series::Arguments),
    /// Wireshark's way into labs: lists interfaces, and captures from them
    Extcap(extcap::Arguments),
    /// Command a lab: at this terminal, by a line, or by a script
    Shell(shell::Arguments),
    /// Draw columns of files, such as time series, as a picture
    Plot(plot::Arguments),
    /// Repeat a recorded run, and tell whether the same has happened
    Replay(replay::Arguments),
    /// Search a lab's orders of events: every packet's fate is a choice, and what must hold is checked in every run
    Explore(explore::Arguments),
    /// Recorded runs, for other programs: Perfetto, Wireshark
    Trace(trace::Arguments),
    /// Watch TCP connections: every field of their control blocks, as it changes
    Pcb(pcb::Arguments),
    /// Run a program under gdb, which stops in the stack
    Debug(debug::Arguments),
    /// Build stacks of your own, list and compare them, give them back as patches
    Image(image::Arguments),
    /// Run packetdrill's scripts, which test TCP, each on a kernel of its own
    Packetdrill(packetdrill::Arguments),
    /// Print the versions of vink, of the contract with images, and of the images found
    Version,
    /// Tell what of the host's features is there, what each is needed for, and how to get it
    Doctor,
    /// Stand between a wire and the host: a process that opens a TAP device, an interface or a socket, and gives up all rights
    Driver(driver::Arguments),
    /// What a lab's control process starts for each of its images
    #[command(hide = true)]
    LabWorker(lab_worker::Arguments),
    /// What the control process starts on each other host of a lab
    #[command(hide = true)]
    LabHost,
    /// Compile an expression for the control process
    #[command(hide = true)]
    CompileFilter,
    /// Find what is in a packet, for the control process
    #[command(hide = true)]
    Dissect(dissect::Arguments),
    /// Run an explored lab with the schedules that the control process asks for
    #[command(hide = true)]
    Explored(explored::Arguments),
    /// Write man pages and shell completions, for `make install`
    #[command(hide = true)]
    Pages(pages::Arguments),
}

fn main() -> ExitCode {
    // Wireshark finds vink by this name, and gives no subcommand.
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name).file_name() == Some(extcap::NAME.as_ref()) {
        return extcap::run(&extcap::Arguments::parse()).unwrap_or_else(CliError::report);
    }
    if let Err(failure) = log::begin() {
        return failure.report();
    }
    let arguments = Arguments::try_parse().unwrap_or_else(|wrong| hint::exit(wrong));
    let done: Result<ExitCode, CliError> = match arguments.command {
        Command::Demo => demo::run(),
        Command::Run(arguments) => run::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Exec(arguments) => exec::run(&arguments),
        Command::Attach(arguments) => attach::run(&arguments),
        Command::Machine(arguments) => machine::run(&arguments),
        Command::Wire(arguments) => wire::run(&arguments),
        Command::Ui(arguments) => ui::run(&arguments),
        Command::Daemon(arguments) => daemon::run(&arguments),
        Command::Import(arguments) => lab_file::import(&arguments),
        Command::Shell(arguments) => shell::run(&arguments),
        Command::Plot(arguments) => plot::run(&arguments),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Break(arguments) => breakpoint::run(&arguments),
        Command::Pod(arguments) => pod::run(&arguments),
        Command::Path(arguments) => pod::run_paths(&arguments),
        Command::Relay(arguments) => relay::run(&arguments),
        Command::Filter(arguments) => filter::run(&arguments),
        Command::Series(arguments) => series::run(&arguments),
        Command::Extcap(arguments) => extcap::run(&arguments),
        Command::Explore(arguments) => explore::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Pcb(arguments) => pcb::run(&arguments),
        Command::Debug(arguments) => debug::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Packetdrill(arguments) => packetdrill::run(&arguments),
        Command::Version => version::print(),
        Command::Doctor => doctor::print(),
        Command::Driver(arguments) => driver::run(&arguments),
        Command::LabWorker(arguments) => lab_worker::run(arguments),
        Command::LabHost => lab_host::run(),
        Command::CompileFilter => compile_filter::run(),
        Command::Dissect(arguments) => dissect::run(&arguments),
        Command::Explored(arguments) => explored::run(&arguments),
        Command::Pages(arguments) => pages::run(&arguments),
    };
    done.unwrap_or_else(CliError::report)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Users of `docker`, `ip` and `nft` write one or the other.
    #[test]
    fn what_lists_has_both_names() {
        let mut lists = 0;
        for group in Arguments::command().get_subcommands() {
            for command in group.get_subcommands() {
                let mut names: Vec<&str> = command.get_all_aliases().collect();
                names.push(command.get_name());
                let known = ["ls", "list"].map(|name| names.contains(&name));
                assert_eq!(known[0], known[1], "{} {names:?}", group.get_name());
                lists += usize::from(known[0]);
            }
        }
        assert!(lists >= 10, "{lists}");
    }
}
