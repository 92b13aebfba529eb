//! `vink attach`: terminals of a lab that are kept, listed, looked at and typed to.

use std::process::ExitCode;

use vink_api::{Client, FromServer, KeptTerminal, RuntimeDir};

use crate::cli_error::CliError;
use crate::client::{attentively, lab_or_only, runtime};
use crate::exec::{attached, Attached};
use crate::print::{self, Table};

/// The command line.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The lab; may be left away if only one runs
    lab: Option<String>,
    /// The number of the terminal's program, or its machine if there is one terminal; without it, terminals are listed
    terminal: Option<String>,
    /// Only look: do not take the keyboard
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    leave: Leave,
    /// List terminals as JSON
    #[arg(long, conflicts_with = "terminal")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vink exec -it --keep alice -- bash      a shell that stays: Ctrl-P Ctrl-Q leaves it
  vink attach hello                       the kept terminals of the lab hello
  vink attach hello alice                 back to the one on alice
  vink attach hello 3 --read-only         look at that of program 3

Exit status: as of vink exec; 0 if the terminal was left.";

/// How a kept terminal is left.
#[derive(clap::Args)]
pub(crate) struct Leave {
    /// What is typed to leave a terminal that is kept: letters, or ctrl- and one of them, separated by commas
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q", value_parser = Keys::read)]
    detach_keys: Keys,
}

impl Leave {
    /// As a terminal sends them.
    pub fn keys(&self) -> Vec<u8> {
        self.detach_keys.0.clone()
    }
}

#[derive(Clone)]
struct Keys(Vec<u8>);

impl Keys {
    fn read(text: &str) -> Result<Keys, String> {
        let key = |word: &str| match (word.strip_prefix("ctrl-"), word.as_bytes()) {
            (Some(word), _) => match word.as_bytes() {
                [key @ (b'a'..=b'z' | b'@'..=b'_')] => Some(key & 0x1f),
                _ => None,
            },
            (None, [key]) => Some(*key),
            (None, _) => None,
        };
        let keys: Option<Vec<u8>> = text.split(',').map(key).collect();
        keys.map(Keys).ok_or_else(|| {
            "letters and ctrl-LETTER are expected, separated by commas: ctrl-p,ctrl-q".to_owned()
        })
    }
}

/// Looks for the keys that leave a terminal. The first ones of them wait for the next key.
pub(crate) struct Leaving {
    keys: Vec<u8>,
    seen: usize,
}

impl Leaving {
    /// By these keys.
    pub fn by(keys: Vec<u8>) -> Leaving {
        Leaving { keys, seen: 0 }
    }

    /// What of this is for the program, and whether the terminal is left.
    pub fn without_keys(&mut self, typed: &[u8]) -> (Vec<u8>, bool) {
        let mut rest = Vec::with_capacity(typed.len());
        for byte in typed {
            if self.keys[self.seen] != *byte {
                rest.extend(&self.keys[..self.seen]);
                self.seen = 0;
            }
            if self.keys[self.seen] != *byte {
                rest.push(*byte);
                continue;
            }
            self.seen += 1;
            if self.seen == self.keys.len() {
                return (rest, true);
            }
        }
        (rest, false)
    }
}

/// Says on standard error what a viewer of a kept terminal is told. The terminal may be raw.
#[derive(Default)]
pub(crate) struct Teller {
    had_keyboard: bool,
}

impl Teller {
    /// Says this, if it is news.
    pub fn tell(&mut self, told: FromServer) {
        match told {
            FromServer::Terminal {
                keyboard, yours, ..
            } => {
                if let (true, false, Some(user)) = (self.had_keyboard, yours, keyboard) {
                    let text = format!("{user} has the keyboard; vink attach takes it back");
                    eprint!("\r\nvink: {}\r\n", text.escape_debug());
                }
                self.had_keyboard = yours;
            }
            FromServer::Missed { bytes } => eprint!("\r\nvink: {bytes} bytes were missed\r\n"),
            FromServer::Refused(problem) => {
                eprint!("\r\nvink: {}\r\n", problem.to_string().escape_debug());
            }
            FromServer::Ended { .. } => {}
        }
    }
}

/// Goes back to a terminal, or lists them.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        let terminals = client.terminals(&lab).await?;
        let Some(wanted) = &arguments.terminal else {
            list(&terminals, arguments.json)?;
            return Ok(0);
        };
        let id = find(&terminals, wanted)?;
        let input = !arguments.read_only;
        let terminal = Attached {
            input,
            tty: true,
            keep: true,
            detach_keys: input.then(|| arguments.leave.keys()),
        };
        attentively(&client, &lab, attached(&client, &lab, id, terminal)).await
    });
    // The thread that reads standard input may still wait for it.
    runtime.shutdown_background();
    Ok(ExitCode::from(u8::try_from(done?).unwrap_or(u8::MAX)))
}

fn find(terminals: &[KeptTerminal], wanted: &str) -> Result<u64, CliError> {
    let of = |terminal: &&KeptTerminal| {
        terminal.program.to_string() == wanted || terminal.machine == wanted
    };
    let found: Vec<u64> = terminals.iter().filter(of).map(|one| one.program).collect();
    match found.as_slice() {
        [id] => Ok(*id),
        [] => Err(CliError::Other(format!(
            "no kept terminal {wanted}; vink attach LAB lists those that there are, and vink exec -it --keep makes one"
        ))),
        several => Err(CliError::Other(format!(
            "{wanted} has several terminals: name one of them by its number, {several:?}"
        ))),
    }
}

fn list(terminals: &[KeptTerminal], json: bool) -> Result<(), CliError> {
    if json {
        return print::json(&terminals);
    }
    let mut table = Table::new([
        "terminal", "machine", "by", "size", "viewers", "keyboard", "program",
    ]);
    for one in terminals {
        table.row([
            one.program.to_string(),
            one.machine.clone(),
            one.actor.clone(),
            format!("{}x{}", one.size.columns, one.size.rows),
            one.viewers.join(","),
            one.keyboard.clone().unwrap_or("-".to_owned()),
            one.words.join(" ").escape_debug().to_string(),
        ]);
    }
    print::text(&table.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leave_and_all_else_is_typed() {
        let Keys(keys) = Keys::read("ctrl-p,ctrl-q").expect("keys");
        assert_eq!(keys, [16, 17]);
        assert!(
            Keys::read("ctrl-").is_err() && Keys::read("").is_err() && Keys::read("pq").is_err()
        );
        let mut leaving = Leaving::by(keys);
        // Over two reads, after a first key that another follows, and after the first key twice.
        assert_eq!(leaving.without_keys(b"ls\x10"), (b"ls".to_vec(), false));
        assert_eq!(
            leaving.without_keys(b"x\x10\x10"),
            (b"\x10x\x10".to_vec(), false)
        );
        assert_eq!(leaving.without_keys(b"\x11rest"), (b"".to_vec(), true));
    }
}
