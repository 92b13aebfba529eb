//! `vink pages`: man pages and shell completions, made of the command's own definition.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli_error::CliError;

/// Where a shell looks for completions below `share`, and the name that it expects there.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/vink"),
    (Shell::Zsh, "zsh/site-functions/_vink"),
    (Shell::Fish, "fish/vendor_completions.d/vink.fish"),
];

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder that becomes PREFIX/share
    folder: PathBuf,
}

/// Writes them all.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let command = crate::Arguments::command();
    let manuals = arguments.folder.join("man/man1");
    fs::create_dir_all(&manuals)
        .map_err(CliError::host(format!("making {}", manuals.display())))?;
    clap_mangen::generate_to(command.clone(), &manuals)
        .map_err(CliError::host(format!("writing to {}", manuals.display())))?;
    for (shell, path) in COMPLETIONS {
        let path = arguments.folder.join(path);
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), "vink", &mut script);
        let folder = path.parent().expect("below share");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, script))
            .map_err(CliError::host(format!("writing {}", path.display())))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line's words; quotes keep words together.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        parts
            .flat_map(|(i, part)| match i % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(|help| help.to_string());
        let all = help.unwrap_or_default();
        // What stands behind more than one space is a comment.
        let lines = all.lines().filter_map(|line| line.strip_prefix("  "));
        let lines = lines.filter_map(|line| line.split("  ").next());
        let parts = lines.flat_map(|line| line.split(" | "));
        let own = parts.filter(|part| part.starts_with("vink "));
        let inner = command.get_subcommands().flat_map(examples);
        own.map(str::to_owned).chain(inner).collect()
    }

    #[test]
    fn examples_are_understood() {
        let all = examples(&crate::Arguments::command());
        for command in ["wire set", "capture", "shell", "exec"] {
            let its = format!("vink {command} ");
            assert!(all.iter().any(|line| line.starts_with(&its)), "{command}");
        }
        for line in all {
            let words = words(&line);
            if let Err(error) = crate::Arguments::command().try_get_matches_from(&words) {
                panic!("{line}: {error}");
            }
            if let ["vink", "wire", "set", rest @ ..] =
                &words.iter().map(String::as_str).collect::<Vec<_>>()[..]
            {
                let command = vink_shell::parse(&format!("wire {}", rest.join(" ")), None);
                assert!(command.is_ok(), "{line}: {command:?}");
            }
        }
    }

    #[test]
    fn pages_of_each_command() {
        let folder = std::env::temp_dir().join(format!("vink-pages-{}", std::process::id()));
        let arguments = Arguments {
            folder: folder.clone(),
        };
        run(&arguments).unwrap_or_else(|failure| panic!("{failure}"));
        let manual = fs::read_to_string(folder.join("man/man1/vink-wire-set.1")).expect("a page");
        assert!(manual.contains("limit 100"), "{manual}");
        assert!(!folder.join("man/man1/vink-pages.1").exists());
        for (_, path) in COMPLETIONS {
            let script = fs::read_to_string(folder.join(path)).expect("a script");
            assert!(script.contains("keep-going"), "{path}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
