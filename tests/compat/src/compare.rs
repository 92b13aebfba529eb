//! Both sides of a program, as each user: do they agree?

use std::process::Command;

use clap::ValueEnum;
use vink_tests::difference;

use crate::program::Program;
use crate::side::{self, Side};
use crate::stage::{Folder, Stage};
use crate::BoxError;

/// The user that runs the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum User {
    /// The superuser.
    Root,
    /// An ordinary user: `nobody` if root runs the suite, else the user that does.
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

/// How programs are brought onto Vink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Trapped, for a worker.
    Trap,
    /// The same with calls posted in shared memory.
    Shared,
    /// With the stack in their own process.
    InProcess,
}

impl Form {
    pub const ALL: [Form; 3] = [Form::Trap, Form::Shared, Form::InProcess];

    pub fn name(self) -> &'static str {
        match self {
            Form::Trap => "trap",
            Form::Shared => "shared",
            Form::InProcess => "in-process",
        }
    }

    /// The host's side, and Vink's.
    fn sides(self) -> [Side; 2] {
        match self {
            Form::Trap => [Side::Host, Side::Vink],
            Form::Shared => [Side::Host, Side::Shared],
            Form::InProcess => [Side::HostAlone, Side::InProcess],
        }
    }
}

/// What came out for a program, a user and a form.
#[derive(Debug)]
pub(crate) struct Row {
    pub program: String,
    pub user: User,
    pub form: Form,
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
        let outcome = match &self.why {
            None => "ok".to_owned(),
            Some(why) => format!("NOT OK: {why}"),
        };
        let (user, form) = (self.user.name(), self.form.name());
        println!("{:<20}{user:<8}{form:<12}{outcome}", self.program);
    }
}

/// Runs a program as all users, or as the one that is asked for, and in these forms.
pub(crate) fn compare(
    stage: &Stage,
    program: &Program,
    only: Option<User>,
    forms: &[Form],
) -> Result<Vec<Row>, BoxError> {
    // SAFETY: takes no arguments and can't fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let users = match is_root {
        true => vec![User::Root, User::Nobody],
        false => vec![User::Nobody],
    };
    let users = users.into_iter().filter(|u| only.is_none_or(|o| o == *u));
    let mut forms = forms.to_vec();
    forms.retain(|f| *f != Form::InProcess || program.not_in_process.is_none());
    let prepared = stage.prepare(program);
    // Two forms have the same host's side.
    let mut hosts: Vec<(User, Side, Outcome)> = Vec::new();
    let each = users.flat_map(|user| forms.iter().map(move |form| (user, *form)));
    let rows = each.map(|(user, form)| {
        let mut row = Row {
            program: program.name.clone(),
            user,
            form,
            host: None,
            vink: false,
            why: None,
        };
        match &prepared {
            Ok(prepared) => judge(stage, program, prepared, &mut hosts, &mut row)?,
            Err(e) => row.why = Some(e.to_string()),
        }
        Ok(row)
    });
    rows.collect()
}

/// A program with `vink run`'s default form of calls beside the same trapped, as this user: a run of each for each line of standard input, after
/// which the seconds that the client took are printed. The first line is printed when all is prepared.
pub(crate) fn rounds(name: &str) -> Result<(), BoxError> {
    let program = vink_tests::root().join(format!("tests/compat/programs/{name}.sh"));
    let program = Program::read(&program)?;
    let stage = Stage::new(false)?;
    let prepared = stage.prepare(&program)?;
    println!("prepared");
    let mut order = [Side::Vink, Side::Auto];
    for line in std::io::stdin().lines() {
        line?;
        let mut taken = Vec::new();
        for side in order {
            // SAFETY: takes no arguments and can't fail.
            let user = match unsafe { libc::geteuid() } {
                0 => User::Root,
                _ => User::Nobody,
            };
            let folder = stage.folder(&prepared, &program, side, user)?;
            run_in(&stage, &program, &folder, side, user)??;
            taken.push((side == Side::Auto, folder.read(side::SECONDS)?));
        }
        taken.sort();
        println!("{} {}", taken[0].1, taken[1].1);
        order.reverse();
    }
    Ok(())
}

/// What a run has to show, or why it failed.
type Outcome = Result<String, String>;

/// Runs both sides, the host's if it has not run yet, and fills in the row.
fn judge(
    stage: &Stage,
    program: &Program,
    prepared: &Folder,
    hosts: &mut Vec<(User, Side, Outcome)>,
    row: &mut Row,
) -> Result<(), BoxError> {
    let [host, vink] = row.form.sides();
    let known = hosts
        .iter()
        .find(|known| (known.0, known.1) == (row.user, host));
    let host = match (&program.expected, known) {
        (Some(_), _) => Ok(prepared.read("expected")?),
        (None, Some((.., outcome))) => outcome.clone(),
        (None, None) => {
            let outcome = run(stage, program, prepared, host, row.user)?;
            hosts.push((row.user, host, outcome.clone()));
            outcome
        }
    };
    if program.expected.is_none() {
        row.host = Some(host.is_ok());
    }
    let vink = run(stage, program, prepared, vink, row.user)?;
    row.vink = vink.is_ok();
    row.why = match (host, vink) {
        (Err(e), _) => Some(format!("on the host, {e}")),
        (_, Err(e)) => Some(e),
        (Ok(host), Ok(vink)) => difference(&host, &vink),
    };
    Ok(())
}

/// A run.
fn run(
    stage: &Stage,
    program: &Program,
    prepared: &Folder,
    side: Side,
    user: User,
) -> Result<Outcome, BoxError> {
    let folder = stage.folder(prepared, program, side, user)?;
    run_in(stage, program, &folder, side, user)
}

/// The same in a folder that is there.
fn run_in(
    stage: &Stage,
    program: &Program,
    folder: &Folder,
    side: Side,
    user: User,
) -> Result<Outcome, BoxError> {
    let mut command = Command::new(&stage.suite);
    let side = side.to_possible_value().expect("none is hidden");
    command
        .args(["side", side.get_name(), &program.name])
        .args(&program.ready)
        .current_dir(&folder.path)
        .env("VINK_IMAGE", &stage.image)
        .env("VINK_PRELOAD", &stage.preload)
        .env("VINK_QUICK", &stage.quick)
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
