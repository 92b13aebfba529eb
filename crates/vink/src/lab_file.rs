//! What is done with lab files alone: `vink lab check|graph|schema`, `vink import`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use vink_spec::{read_file, read_most, Format, ImportOptions, LARGEST_FILE};

use crate::cli_error::CliError;
use crate::lab_check;

/// The command line of `vink lab check`.
#[derive(clap::Args)]
pub(crate) struct Check {
    /// Lab files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print what is wrong as JSON: a list of objects with file, line, column, message and fix
    #[arg(long)]
    json: bool,
}

/// The command line of `vink lab graph`.
#[derive(clap::Args)]
pub(crate) struct Graph {
    /// A lab file
    file: PathBuf,
    /// For which program
    #[arg(long, value_enum, default_value = "dot")]
    format: Picture,
}

/// The program that draws it.
#[derive(Clone, Copy, ValueEnum)]
enum Picture {
    /// Graphviz: `vink lab graph FILE | dot -Tsvg -o lab.svg`
    Dot,
    /// Mermaid, in Markdown
    Mermaid,
    /// No picture: the lab as JSON, as the control API takes it, with all machines that `generate` makes
    Json,
}

/// The command line of `vink import`.
#[derive(clap::Args)]
pub(crate) struct Import {
    /// A topology of containerlab, or a graph in GraphML or GML; -: standard input
    file: PathBuf,
    /// What it is; told by its name otherwise
    #[arg(long, value_enum)]
    format: Option<From>,
    /// A network that a graph's wires get addresses of; may be repeated, for IPv6 say
    #[arg(long, value_name = "NETWORK", default_value = "10.0.0.0/8")]
    addresses: Vec<ipnet::IpNet>,
    /// How a graph's machines reach each other
    #[arg(long, value_enum, default_value = "static")]
    routes: Routes,
    /// The lab file; standard output otherwise
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum From {
    Containerlab,
    Graphml,
    Gml,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Routes {
    /// By static routes along shortest paths
    Static,
    /// Not at all: a routing daemon is to see to it
    None,
}

/// Prints to standard output.
fn print(text: &str) -> Result<ExitCode, CliError> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(CliError::host("writing to standard output"))?;
    Ok(ExitCode::SUCCESS)
}

/// Tells what is wrong; 1 if something is.
pub(crate) fn check(arguments: &Check) -> Result<ExitCode, CliError> {
    let mut all = Vec::new();
    let mut bad = false;
    for file in &arguments.files {
        match checked(file) {
            Ok(reading) => all.extend(reading.warnings),
            Err(mistakes) => {
                bad = true;
                all.extend(mistakes.0);
            }
        }
    }
    if arguments.json {
        let list: Vec<serde_json::Value> = all.iter().map(vink_spec::Diagnostic::to_json).collect();
        print(&format!("{:#}\n", serde_json::Value::Array(list)))?;
    } else if !all.is_empty() {
        eprintln!("{}", vink_spec::Diagnostics(all));
    }
    Ok(ExitCode::from(u8::from(bad)))
}

/// Prints the picture's text.
pub(crate) fn graph(arguments: &Graph) -> Result<ExitCode, CliError> {
    let lab = read(&arguments.file)?;
    print(&match arguments.format {
        Picture::Dot => lab.to_dot(),
        Picture::Mermaid => lab.to_mermaid(),
        Picture::Json => serde_json::to_string(&lab).expect("plain data") + "\n",
    })
}

/// Prints the schema.
pub(crate) fn schema() -> Result<ExitCode, CliError> {
    print(&format!("{:#}\n", vink_spec::schema()))
}

/// Reads a lab file, and looks for all that can be known to be wrong before it runs.
fn checked(file: &Path) -> Result<vink_spec::Reading, vink_spec::Diagnostics> {
    let folder = file.parent().unwrap_or(Path::new(""));
    vink_spec::read_and(file, &|lab| lab_check::look(lab, folder))
}

/// A lab file's lab, which `more` has nothing against, either. Warnings go to standard error.
pub(crate) fn read_and(
    file: &Path,
    more: impl Fn(&vink_spec::Lab) -> Vec<vink_spec::LabDiagnostic>,
) -> Result<vink_spec::Lab, CliError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let look = |lab: &vink_spec::Lab| {
        let mut found = lab_check::look(lab, folder);
        found.extend(more(lab));
        found
    };
    let reading = vink_spec::read_and(file, &look).map_err(CliError::LabFile)?;
    for warning in &reading.warnings {
        eprintln!("{warning}");
    }
    Ok(reading.lab)
}

/// A lab file's lab. Warnings go to standard error.
pub(crate) fn read(file: &Path) -> Result<vink_spec::Lab, CliError> {
    let reading = checked(file).map_err(CliError::LabFile)?;
    for warning in &reading.warnings {
        eprintln!("{warning}");
    }
    Ok(reading.lab)
}

/// Writes the lab.
pub(crate) fn import(arguments: &Import) -> Result<ExitCode, CliError> {
    let file = &arguments.file;
    let name = file.display().to_string();
    let what = format!("reading {name}");
    let bytes = match file.as_os_str() == "-" {
        true => read_most(io::stdin(), LARGEST_FILE),
        false => read_file(file, LARGEST_FILE),
    }
    .map_err(CliError::host(what))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        CliError::Other(format!("{name} is not UTF-8 text: convert it by iconv(1)"))
    })?;
    let format = match arguments.format {
        None => Format::of(&name, &text),
        Some(From::Containerlab) => Format::Containerlab,
        Some(From::Graphml) => Format::Graphml,
        Some(From::Gml) => Format::Gml,
    };
    let options = ImportOptions {
        addresses: arguments.addresses.clone(),
        routes: arguments.routes == Routes::Static,
    };
    let imported = vink_spec::import(&text, &name, format, &options).map_err(CliError::LabFile)?;
    for warning in &imported.warnings {
        eprintln!("{name}: warning: {warning}");
    }
    let lab = imported.lab.to_yaml();
    match &arguments.output {
        None => print(&lab),
        Some(output) => {
            let what = format!("writing {}", output.display());
            fs::write(output, lab).map_err(CliError::host(what))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
