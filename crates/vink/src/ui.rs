//! `vink ui`: opens the page of the labs that run, prints a link for another user's browser, or ends what such a link
//! was good for.
//!
//! A ticket must not be seen in a command line, which all users of the host can read: the browser is given a file that
//! only the owner can read, and which leads it on.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use vink_api::{Client, LabApi, NewExplored, NewTicket, Revoked, Role, RuntimeDir};

use crate::cli_error::CliError;
use crate::client::runtime;
use crate::print::{self, Table};

/// How long a link for others may be used, in seconds.
const SHARED_SECONDS: u32 = 60 * 60;

/// The command line of `vink ui`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The lab that is shown first
    lab: Option<String>,
    /// Show what `vink explore` has written into this folder first
    #[arg(long, value_name = "FOLDER", conflicts_with = "lab")]
    explored: Option<PathBuf>,
    /// The loopback port where the page is answered; any, if left away
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Print a link for a user of this name, and open nothing; the link is good once, for an hour
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// What the page may do: all, or for others only look
    #[arg(long, value_enum)]
    role: Option<RoleWord>,
    /// List the sessions of pages, and open nothing
    #[arg(long, conflicts_with_all = ["lab", "explored", "port", "share", "role"])]
    sessions: bool,
    /// End a session by its number, or all of a user by the name: their pages are cut off at once
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lab", "explored", "port", "share", "role", "sessions"])]
    revoke: Option<String>,
    /// With --sessions: as JSON
    #[arg(long, requires = "sessions")]
    json: bool,
}

/// What a page may do.
#[derive(Clone, Copy, ValueEnum)]
enum RoleWord {
    /// Look at everything
    View,
    /// Move and draw in the picture
    Draw,
    /// Change labs that run, and run programs on their machines
    Operate,
    /// Everything
    Own,
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Role {
        match word {
            RoleWord::View => Role::View,
            RoleWord::Draw => Role::Draw,
            RoleWord::Operate => Role::Operate,
            RoleWord::Own => Role::Own,
        }
    }
}

impl From<Role> for RoleWord {
    fn from(role: Role) -> RoleWord {
        match role {
            Role::View => RoleWord::View,
            Role::Draw => RoleWord::Draw,
            Role::Operate => RoleWord::Operate,
            Role::Own => RoleWord::Own,
        }
    }
}

/// Opens the page.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let dir = RuntimeDir::find();
    if arguments.sessions {
        return list(&Client::of(&dir), arguments.json);
    }
    if let Some(session) = &arguments.revoke {
        let revoked = runtime()?.block_on(Client::of(&dir).revoke(session))?;
        let Revoked { sessions, tickets } = revoked;
        return say(&format!(
            "{session}: {} and {} ended",
            print::count(sessions, "session"),
            print::count(tickets, "unused link"),
        ));
    }
    let executable = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    let client = Client::start(&dir, &executable)?;
    let share = arguments.share.clone();
    let default = share.as_ref().map_or(Role::Own, |_| Role::View);
    let wanted = NewTicket {
        role: arguments.role.map_or(default, Role::from),
        seconds: share.as_ref().map(|_| SHARED_SECONDS),
        name: share,
        port: arguments.port,
    };
    let url = runtime()?.block_on(async {
        let mut view = String::new();
        if let Some(lab) = &arguments.lab {
            client.lab(lab).await?;
            view = format!("&/lab/{lab}");
        }
        if let Some(folder) = &arguments.explored {
            let what = format!("finding {}", folder.display());
            let path = std::path::absolute(folder).map_err(CliError::host(what))?;
            let path = path.display().to_string();
            let listed = client.add_explored(&NewExplored { path }).await?;
            // Of several the page lists them.
            if let [one] = &listed[..] {
                view = format!("&/explored/{}", one.id);
            }
        }
        let url = client.new_ticket(&wanted).await?.url;
        Ok::<_, CliError>(url + &view)
    })?;
    if arguments.share.is_some() {
        return say(&url);
    }
    let page = dir.page();
    write_page(&page, &url).map_err(CliError::host(format!("writing {}", page.display())))?;
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .into_iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let opened = has_display
        && Command::new("xdg-open")
            .arg(&page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
    match (io::stdout().is_terminal(), opened) {
        (true, _) => say(&url),
        // What comes into a file or a log is no secret any more.
        (false, true) => Ok(ExitCode::SUCCESS),
        (false, false) => say(&page.display().to_string()),
    }
}

/// Sessions, one a line.
fn list(client: &Client, as_json: bool) -> Result<ExitCode, CliError> {
    let sessions = runtime()?.block_on(client.sessions())?;
    if as_json {
        print::json(&sessions)?;
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        print::text("no page has a session\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["SESSION", "NAME", "ROLE", "CONNECTIONS", "SINCE"]);
    for session in &sessions {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(session.since);
        let role = RoleWord::from(session.role).to_possible_value();
        table.row([
            session.session.to_string(),
            session.actor.clone(),
            role.map_or_else(String::new, |role| role.get_name().to_owned()),
            session.connections.to_string(),
            print::seconds(since.elapsed().unwrap_or_default().as_secs_f64()),
        ]);
    }
    print::text(&table.text())?;
    Ok(ExitCode::SUCCESS)
}

fn say(line: &str) -> Result<ExitCode, CliError> {
    writeln!(io::stdout(), "{line}").map_err(CliError::host("writing to standard output"))?;
    Ok(ExitCode::SUCCESS)
}

/// A page that only the owner can read, and which leads to `url`.
fn write_page(path: &Path, url: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // A lab's name has letters, digits and "._-" only; the rest is vink's own.
    let url = url.replace('&', "&amp;");
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Vink</title><meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<a href=\"{url}\">Vink</a>\n"
    )
}
