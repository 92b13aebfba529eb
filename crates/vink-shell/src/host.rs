//! What the host has: which programs, and where they are found.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The virtualized processes that are built in; more come as `so:FILE`.
pub(crate) const APPS: [&str; 14] = [
    "echoserver",
    "echo",
    "discardserver",
    "discard",
    "source",
    "sink",
    "httpserver",
    "http",
    "ping",
    "dnsserver",
    "relay",
    "stream",
    "steps",
    "smoltcp",
];

/// Folders of programs for administrators, as which one is on a machine.
const ADMIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where programs of a machine are looked for: as here, and where those for administrators are.
pub(crate) fn path() -> String {
    let mut path = match env::var("PATH") {
        Ok(path) if !path.is_empty() => path,
        _ => "/usr/local/bin:/usr/bin:/bin".to_owned(),
    };
    for folder in ADMIN {
        if !path.split(':').any(|known| known == folder) {
            path = format!("{path}:{folder}");
        }
    }
    path
}

/// Whether the host has a program of this name.
pub(crate) fn has(program: &str) -> bool {
    let executable = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    path()
        .split(':')
        .any(|folder| executable(&Path::new(folder).join(program)))
}

/// The words of a line that starts a virtualized process without saying `app`: only if that is the
/// one thing of this name here.
pub(crate) fn app(line: &str) -> Option<Vec<String>> {
    let words = crate::words::split(line).ok()?;
    let name = words.first()?;
    let known = APPS.contains(&name.as_str()) || name.starts_with("so:");
    (known && !has(name)).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_apps() {
        let known: Vec<String> = vink_apps::Apps::help()
            .into_iter()
            .map(|help| help.name)
            .collect();
        let [mut known, mut apps] = [known, APPS.map(str::to_owned).to_vec()];
        known.sort();
        apps.sort();
        assert_eq!(known, apps);
    }

    #[test]
    fn whose_program() {
        assert_eq!(
            app("echoserver -p 7"),
            Some(["echoserver", "-p", "7"].map(str::to_owned).to_vec())
        );
        // These are the host's own.
        for line in ["echo x", "sh", "no-such-program", "", "'"] {
            assert_eq!(app(line), None, "{line}");
        }
        assert!(has("sh") && !has("no-such-program") && !has(""));
    }
}
