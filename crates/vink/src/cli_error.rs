//! How a command fails: what is said on standard error, and the exit status.

use std::process::ExitCode;

use crate::signals::die_by;

/// vink itself failed, as with env(1) and docker-run(1).
const FAILED: u8 = 125;
/// The kernel panicked. A status that neither shells nor signals use.
pub(crate) const PANICKED: u8 = 121;

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Kernel(#[from] vink_kernel::Error),
    #[error(transparent)]
    Trap(vink_trap::Error),
    #[error(transparent)]
    Lab(vink_lab::Error),
    /// The control process, or the way to it.
    #[error(transparent)]
    Control(Box<vink_api::Error>),
    #[error(transparent)]
    Pcb(#[from] vink_pcb::Error),
    #[error(transparent)]
    Record(#[from] vink_record::Error),
    #[error(transparent)]
    Explore(vink_explore::Error),
    #[error("{what}: {source}")]
    Host {
        what: String,
        source: std::io::Error,
    },
    /// It names file, line and column itself.
    #[error(transparent)]
    LabFile(vink_spec::Diagnostics),
    #[error("{0}")]
    Other(String),
    /// Not an error of ours: a signal asks vink to end.
    #[error("interrupted by signal {0}")]
    Signal(i32),
}

// A kernel's failure is the same through whichever crate it comes.
impl From<vink_trap::Error> for CliError {
    fn from(error: vink_trap::Error) -> CliError {
        match error {
            vink_trap::Error::Kernel(error) => CliError::Kernel(error),
            error => CliError::Trap(error),
        }
    }
}

impl From<vink_lab::Error> for CliError {
    fn from(error: vink_lab::Error) -> CliError {
        match error {
            vink_lab::Error::Kernel(error) => CliError::Kernel(error),
            error => CliError::Lab(error),
        }
    }
}

impl From<vink_explore::Error> for CliError {
    fn from(error: vink_explore::Error) -> CliError {
        match error {
            vink_explore::Error::Kernel(error) => CliError::Kernel(error),
            error => CliError::Explore(error),
        }
    }
}

impl From<vink_api::Error> for CliError {
    fn from(error: vink_api::Error) -> CliError {
        CliError::Control(Box::new(error))
    }
}

impl CliError {
    /// For `map_err`: a system call of this process failed while `what` was done.
    pub(crate) fn host(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> CliError {
        let what = what.into();
        move |source| CliError::Host { what, source }
    }

    /// Says it, and gives the status to exit with.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            CliError::Signal(number) => {
                die_by(number);
                ExitCode::from(128 + number as u8)
            }
            CliError::Kernel(vink_kernel::Error::Panic(panic)) => {
                eprint!("{}", panic.log);
                eprintln!("vink: {panic}");
                ExitCode::from(PANICKED)
            }
            CliError::Trap(error) => {
                eprintln!("vink: {error}");
                ExitCode::from(error.exit_status() as u8)
            }
            CliError::LabFile(mistakes) => {
                eprintln!("{mistakes}");
                ExitCode::from(FAILED)
            }
            error => {
                eprintln!("vink: {error}");
                ExitCode::from(FAILED)
            }
        }
    }
}
