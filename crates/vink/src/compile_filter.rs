//! `vink compile-filter`: compiles the expression of a filter in a process of its own, which libpcap may keep busy for minutes.
//! The control process and `vink lab check` start it; it is not meant for users.

use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Output, Stdio};

use vink_lab::worker::compile_filter_bounded;
use vink_protocol::Filter;

use crate::cli_error::CliError;
use crate::print;

/// Reads the expression from standard input; writes the filter as JSON, or why there is none.
pub(crate) fn run() -> Result<ExitCode, CliError> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(CliError::host("reading the expression"))?;
    print::json_line(&compile_filter_bounded(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether this is an expression as in pcap-filter(7).
///
/// # Errors
/// libpcap's own words, or that compiling it takes too long.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let output = compile(text).map_err(|error| format!("vink compile-filter: {error}"))?;
    let filter: Result<Filter, String> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| Err(Filter::too_long()));
    filter.map(drop)
}

fn compile(text: &str) -> io::Result<Output> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("compile-filter")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().expect("a pipe");
    // A child that was ended reads no more; its output tells why.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    child.wait_with_output()
}
