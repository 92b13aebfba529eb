//! The programs that run on the worker: this executable again, trapped.

mod fuzz;
mod memory;
mod soak;

use std::process::ExitCode;

/// What a program is told to do, by its arguments.
#[derive(clap::Subcommand)]
pub(crate) enum Role {
    /// Random system calls.
    Fuzz { seed: u64, calls: u64, forks: u32 },
    /// Short TCP connections to a server that forks for each.
    Connections { seed: u64 },
    /// A long TCP stream under signals.
    Stream { seed: u64 },
    /// UDP datagrams, there and back.
    Datagrams { seed: u64 },
    /// Programs that start programs, each with a connection.
    Tree { seed: u64, depth: u32 },
    /// Connections whose descriptors are passed to another process.
    Passing { seed: u64 },
}

/// Does it. What is wrong is said on standard error.
pub(crate) fn run(role: &Role) -> ExitCode {
    let done = match *role {
        Role::Fuzz { seed, calls, forks } => {
            fuzz::run(seed, calls, forks);
            Ok(())
        }
        Role::Connections { seed } => soak::connections(seed),
        Role::Stream { seed } => soak::stream(seed),
        Role::Datagrams { seed } => soak::datagrams(seed),
        Role::Tree { seed, depth } => soak::tree(seed, depth),
        Role::Passing { seed } => soak::passing(seed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vink-stress: program: {error}");
            ExitCode::FAILURE
        }
    }
}
