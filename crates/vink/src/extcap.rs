//! The plugin for Wireshark: lists the interfaces of all labs, and captures from them; see extcap(4).

use std::fs::OpenOptions;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use vink_api::{CaptureQuery, Client, Error, LabApi, RuntimeDir};

use crate::capture::{follow, Blocks, Ended, Output};
use crate::cli_error::CliError;
use crate::client::runtime;
use crate::print::say;

/// The name under which Wireshark finds vink.
pub(crate) const NAME: &str = "vink-extcap";

/// What Wireshark says, of which it wants one thing at a time.
#[derive(Parser)]
#[command(name = NAME, version, about = "Vink's plugin for Wireshark")]
pub(crate) struct Arguments {
    /// List interfaces
    #[arg(long)]
    extcap_interfaces: bool,
    /// Wireshark's version
    #[arg(long, value_name = "VERSION")]
    extcap_version: Option<String>,
    /// List an interface's link types
    #[arg(long)]
    extcap_dlts: bool,
    /// List what can be set for an interface
    #[arg(long)]
    extcap_config: bool,
    /// The interface that is meant: vink:LAB:MACHINE:INTERFACE
    #[arg(long, value_name = "INTERFACE")]
    extcap_interface: Option<String>,
    /// Which packets, as in pcap-filter(7)
    #[arg(long, value_name = "FILTER")]
    extcap_capture_filter: Option<String>,
    /// Capture
    #[arg(long)]
    capture: bool,
    /// Where to
    #[arg(long, value_name = "FILE")]
    fifo: Option<PathBuf>,
    /// Bytes of each packet; 0: all
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    snap: u32,
    /// Make Wireshark find it: puts a link to vink into your folder of plugins
    #[arg(long)]
    install: bool,
}

/// Does what Wireshark wants.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.install {
        return install();
    }
    if arguments.extcap_interfaces {
        say!("extcap {{version={}}}", env!("CARGO_PKG_VERSION"))?;
        for (value, display) in runtime()?.block_on(interfaces())? {
            say!("interface {{value={value}}}{{display={display}}}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(interface) = &arguments.extcap_interface else {
        let text = "nothing to do: Wireshark calls this; `vink extcap --install` makes it do so";
        return Err(CliError::Other(text.to_owned()));
    };
    if arguments.extcap_dlts {
        say!("dlt {{number=1}}{{name=EN10MB}}{{display=Ethernet}}")?;
    } else if arguments.extcap_config {
        say!(
            "arg {{number=0}}{{call=--snap}}{{display=Bytes of each packet}}\
             {{tooltip=0: all of it}}{{type=integer}}{{default=0}}"
        )?;
    } else if arguments.capture {
        let Some(fifo) = &arguments.fifo else {
            return Err(CliError::Other("--capture needs --fifo FILE".to_owned()));
        };
        capture(arguments, interface, fifo)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All interfaces of all labs: what they are called, and how they are shown. None if no lab runs.
async fn interfaces() -> Result<Vec<(String, String)>, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let labs = match client.labs().await {
        Err(Error::NotRunning(_)) => return Ok(Vec::new()),
        labs => labs?,
    };
    let mut all = Vec::new();
    for lab in labs {
        for machine in client.machines(&lab.name).await? {
            for interface in machine.interfaces.keys() {
                let (lab, machine) = (&lab.name, &machine.name);
                all.push((
                    format!("vink:{lab}:{machine}:{interface}"),
                    format!("{machine} {interface}, Vink's lab {lab}"),
                ));
            }
        }
    }
    Ok(all)
}

/// Writes packets of the interface to Wireshark's pipe until Wireshark has enough.
fn capture(arguments: &Arguments, interface: &str, fifo: &Path) -> Result<(), CliError> {
    let mut parts = interface.splitn(4, ':').skip(1);
    let (Some(lab), Some(machine), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        let text = format!("{interface:?} is no interface: vink:LAB:MACHINE:INTERFACE");
        return Err(CliError::Other(text));
    };
    let to = OpenOptions::new()
        .write(true)
        .open(fifo)
        .map_err(CliError::host(format!("opening {}", fifo.display())))?;
    let mut output = Output {
        to: Box::new(to),
        blocks: Blocks::default(),
        most: u64::MAX,
    };
    let query = CaptureQuery {
        interfaces: format!("{machine}:{name}"),
        filter: arguments
            .extcap_capture_filter
            .clone()
            .filter(|text| !text.is_empty()),
        snap: arguments.snap,
    };
    let client = Client::of(&RuntimeDir::find());
    match runtime()?.block_on(follow(&client, lab, &query, &mut output)) {
        // Wireshark closes its end when it stops.
        Ok(()) | Err(Ended::Write(_)) => Ok(()),
        Err(Ended::CliError(failure)) => Err(failure),
    }
}

/// Links vink into the user's folder of plugins.
fn install() -> Result<ExitCode, CliError> {
    let Some(home) = std::env::var_os("HOME") else {
        let text =
            "HOME is not set: link vink-extcap into Wireshark's folder of extcap plugins yourself";
        return Err(CliError::Other(text.to_owned()));
    };
    let vink = std::env::current_exe().map_err(CliError::host("finding vink"))?;
    // Wireshark 4 looks into the first, older ones into the second.
    for folder in [".local/lib/wireshark/extcap", ".config/wireshark/extcap"] {
        let folder = Path::new(&home).join(folder);
        let link = folder.join(NAME);
        let what = |what: &str| format!("{what} {}", link.display());
        std::fs::create_dir_all(&folder).map_err(CliError::host(what("making the folder of")))?;
        if link.symlink_metadata().is_ok_and(|m| m.is_symlink()) {
            std::fs::remove_file(&link).map_err(CliError::host(what("replacing")))?;
        }
        symlink(&vink, &link).map_err(CliError::host(what("making")))?;
        say!("{} -> {}", link.display(), vink.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
