//! `vink run --filter`: rules for nft(8), loaded on the machine before its program starts.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use vink_kernel::MachineId;
use vink_spec::{nft_messages, Ruleset, WITH_SBIN};
use vink_trap::{Program, Status, Stdio, Worker};

use crate::cli_error::CliError;

/// Bytes of nft's messages that are shown.
const MAX_SHOWN: u64 = 4000;

/// Has the rules of a file in force on a machine, in one transaction.
///
/// # Errors
/// The file can't be read, or its rules are not good: with its name and line.
pub(crate) fn load(
    worker: &mut Worker,
    machine: MachineId,
    name: &str,
    file: &Path,
) -> Result<(), CliError> {
    let shown = file.display().to_string();
    let text = vink_spec::read_text_file(file, vink_spec::LARGEST_FILE);
    let text = text.map_err(CliError::host(format!("reading the rules in {shown}")))?;
    let rules = Ruleset::read(&text, name, None).map_err(|error| {
        let (line, message, fix) = (error.line, error.message, error.fix);
        CliError::Other(format!("{shown}:{line}: {message}; {fix}"))
    })?;
    // The machine is new, and has no rules. Lists that nft cannot make sets of are loaded as they
    // are written, and what nft says of those is what the user is told.
    let (status, _) = nft(worker, machine, &["--optimize", "--file", "-"], &rules.text)?;
    if status.code() == 0 {
        return Ok(());
    }
    let (status, said) = nft(worker, machine, &["--file", "-"], &rules.text)?;
    match status.code() {
        0 => Ok(()),
        126 | 127 => Err(CliError::Other(format!(
            "--filter needs nft(8): {}; apt-get install nftables",
            said.trim_end()
        ))),
        _ => Err(CliError::Other(format!(
            "--filter: {}",
            nft_messages(&said, &shown, 0)
        ))),
    }
}

/// Runs nft(8) to its end: its status, and what it wrote.
fn nft(
    worker: &mut Worker,
    machine: MachineId,
    words: &[&str],
    input: &str,
) -> Result<(Status, String), CliError> {
    let failed = |error| CliError::host("a file in memory for nft(8)".to_owned())(error);
    let file = |text: &str| -> std::io::Result<File> {
        let mut file = vink_sys::fd::in_memory(c"nft")?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file)
    };
    let mut output = file("").map_err(failed)?;
    let copy = || output.try_clone().map(|file| Stdio::Fd(file.into()));
    let program = Program::new(WITH_SBIN[0])
        .args(&WITH_SBIN[1..])
        .arg("nft")
        .args(words)
        .stdin(Stdio::Fd(file(input).map_err(failed)?.into()))
        .stdout(copy().map_err(failed)?)
        .stderr(copy().map_err(failed)?);
    let id = worker.spawn(machine, program)?;
    let status = loop {
        if let Some(status) = worker.status(id)? {
            break status;
        }
        worker.step(None)?;
    };
    let mut said = Vec::new();
    output.rewind().map_err(failed)?;
    output
        .take(MAX_SHOWN)
        .read_to_end(&mut said)
        .map_err(failed)?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}
