//! What a process can still do that has given up its rights: as root, and as an ordinary user.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NOBODY: u32 = 65534;

/// A folder with a socket and a secret in it, and a user. Gone when dropped.
struct Place {
    folder: PathBuf,
    program: PathBuf,
    nobody: bool,
    _sockets: Vec<UnixListener>,
}

impl Place {
    fn all() -> Vec<Place> {
        match vink_sys::process::is_root() {
            true => vec![Place::new(false), Place::new(true)],
            false => vec![Place::new(false)],
        }
    }

    fn new(nobody: bool) -> Place {
        let name = format!(
            "vink-confine-{}-{nobody}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let name = name.replace(['(', ')'], "");
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        let elsewhere = folder.with_extension("elsewhere");
        let address = SocketAddr::from_abstract_name(folder.display().to_string());
        let sockets = vec![
            UnixListener::bind(folder.join("socket")).expect("a socket"),
            UnixListener::bind(&elsewhere).expect("a socket"),
            UnixListener::bind_addr(&address.expect("a name")).expect("a socket"),
        ];
        fs::write(folder.join("secret"), "secret").expect("a file");
        for path in [&folder, &folder.join("socket"), &elsewhere] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("its mode");
        }
        // What is below the target folder, other users may be unable to read.
        let program = folder.with_extension("program");
        fs::copy(env!("CARGO_BIN_EXE_vink-confined"), &program).expect("a copy");
        Place {
            folder,
            program,
            nobody,
            _sockets: sockets,
        }
    }

    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.folder).arg(what).current_dir("/");
        if self.nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn tries(&self, what: &str) -> std::process::ExitStatus {
        self.command(what).status().expect("a process")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        for extension in ["elsewhere", "program"] {
            let _ = fs::remove_file(self.folder.with_extension(extension));
        }
    }
}

#[test]
fn what_ends_it() {
    for place in Place::all() {
        for what in [
            "socket-inet",
            "socket-packet",
            "socket-netlink",
            "execve",
            "execveat",
            "fork",
            "clone",
            "kill",
            "ptrace",
            "memory",
            "pidfd",
            "setns",
            "unshare",
            "mount",
            "bpf",
            "io_uring",
            "tun",
            "prctl",
            "x32",
            "code",
            "make-code",
        ] {
            let status = place.tries(what);
            assert_eq!(status.signal(), Some(libc::SIGSYS), "{what}: {status}");
        }
    }
}

#[test]
fn what_is_not_there_for_it() {
    for place in Place::all() {
        for what in [
            "read-host",
            "list-root",
            "make-file",
            "read-file",
            "connect-elsewhere",
            "connect-abstract",
        ] {
            let status = place.tries(what);
            assert!(matches!(status.code(), Some(1..)), "{what}: {status}");
        }
        assert!(!place.folder.join("file").exists());
    }
}

#[test]
fn what_it_keeps() {
    for place in Place::all() {
        for what in ["connect-kept", "bind-kept"] {
            let status = place.tries(what);
            assert_eq!(status.code(), Some(0), "{what}: {status}");
        }
        assert!(!place.folder.join("own").exists());
    }
}

fn link(pid: u32, namespace: &str) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap_or_default()
}

#[test]
fn what_others_see() {
    for place in Place::all() {
        let mut command = place.command("wait");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let pid = child.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(
                u64::from_str_radix(&field(set), 16),
                Ok(0),
                "{set} {status}"
            );
        }
        assert_eq!(
            (field("NoNewPrivs:"), field("Seccomp:")),
            ("1".to_owned(), "2".to_owned())
        );
        if vink_sys::process::is_root() {
            // Others may not look.
            for namespace in ["net", "ipc", "uts", "mnt"] {
                let own = link(std::process::id(), namespace);
                assert_ne!(link(pid, namespace), own, "{namespace}");
            }
            let top = Path::new("/proc").join(pid.to_string()).join("root");
            let names: Vec<_> = fs::read_dir(&top).expect("its files").flatten().collect();
            assert_eq!(names.len(), 1, "{names:?}");
        }
        // Not dumpable: what /proc tells of its memory is root's.
        let owner = fs::metadata(format!("/proc/{pid}/environ")).expect("its file");
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), 0);
        drop(child.stdin.take());
        assert!(child.wait().expect("its end").success());
    }
}
