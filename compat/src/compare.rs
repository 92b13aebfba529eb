//! Both sides of a program, as each user: do they agree?

use std::process::Command;

use vink_tests::difference;

use crate::program::Program;
use crate::side::Side;
use crate::stage::{Folder, Stage};
use crate::Failure;

/// Who runs the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum User {
    /// The superuser.
    Root,
    /// An ordinary user: `nobody` if root runs the suite, else whoever does.
    Nobody,
}

impl User {
    pub fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Nobody => "nobody",
        }
    }
}

/// What came out for a program and a user.
#[derive(Debug)]
pub(crate) struct Row {
    pub program: String,
    pub user: User,
    /// Whether the program did its work on the host; `None` if the host wasn't asked.
    pub host: Option<bool>,
    /// Whether it did on Vink.
    pub vink: bool,
    /// What is wrong.
    pub why: Option<String>,
}

impl Row {
    /// It did its work on Vink as it does on the host.
    pub fn ok(&self) -> bool {
        self.why.is_none()
    }

    /// Prints a line for it.
    pub fn print(&self) {
        let Row { program, user, .. } = self;
        match &self.why {
            None => println!("{program:<20}{:<8}ok", user.name()),
            Some(why) => println!("{program:<20}{:<8}NOT OK: {why}", user.name()),
        }
    }
}

/// Runs a program as all users, or as the one that is asked for.
pub(crate) fn compare(
    stage: &Stage,
    program: &Program,
    only: Option<User>,
) -> Result<Vec<Row>, Failure> {
    // SAFETY: takes no arguments and can't fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let users = match is_root {
        true => vec![User::Root, User::Nobody],
        false => vec![User::Nobody],
    };
    let users = users.into_iter().filter(|u| only.is_none_or(|o| o == *u));
    let prepared = stage.prepare(program);
    let rows = users.map(|user| {
        let mut row = Row {
            program: program.name.clone(),
            user,
            host: None,
            vink: false,
            why: None,
        };
        match &prepared {
            Ok(prepared) => judge(stage, program, prepared, &mut row)?,
            Err(e) => row.why = Some(e.to_string()),
        }
        Ok(row)
    });
    rows.collect()
}

/// Runs both sides and fills in the row.
fn judge(
    stage: &Stage,
    program: &Program,
    prepared: &Folder,
    row: &mut Row,
) -> Result<(), Failure> {
    let host = match &program.expected {
        None => run(stage, program, prepared, Side::Host, row.user)?,
        Some(_) => Ok(prepared.read("expected")?),
    };
    if program.expected.is_none() {
        row.host = Some(host.is_ok());
    }
    let vink = run(stage, program, prepared, Side::Vink, row.user)?;
    row.vink = vink.is_ok();
    row.why = match (host, vink) {
        (Err(e), _) => Some(format!("on the host, {e}")),
        (_, Err(e)) => Some(e),
        (Ok(host), Ok(vink)) => difference(&host, &vink),
    };
    Ok(())
}

/// A run: what it has to show, or why it failed.
fn run(
    stage: &Stage,
    program: &Program,
    prepared: &Folder,
    side: Side,
    user: User,
) -> Result<Result<String, String>, Failure> {
    let folder = stage.folder(prepared, program, side, user)?;
    let mut command = Command::new(&stage.suite);
    let side = match side {
        Side::Host => "host",
        Side::Vink => "vink",
    };
    command
        .args(["side", side, &program.name])
        .args(&program.ready)
        .current_dir(&folder.path)
        .env("VINK_IMAGE", &stage.image)
        .env("HOME", &folder.path)
        .env("PATH", &stage.path)
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    let record = folder.path.with_extension("record");
    let ended = vink_tests::run(
        command,
        stage.become_user(user),
        vink_tests::Network::Same,
        &record,
    );
    let result = match ended {
        Ok(ended) if ended.status == 0 => {
            Ok(folder.read("client.out")? + &folder.read("server.status").unwrap_or_default())
        }
        Ok(ended) => {
            let why = ended.errors.trim_start_matches("vink-compat: ").trim();
            Err(match why {
                "" => format!("the run ended with {}", ended.status),
                why => why.to_owned(),
            })
        }
        Err(e) => Err(e.to_string()),
    };
    if result.is_err() {
        folder.keep();
    }
    Ok(result)
}
