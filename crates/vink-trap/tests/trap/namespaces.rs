//! The system around programs: host name, files of their machine, what all its programs share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::lab::{as_both, Lab};
use vink_trap::{Error, NamespaceConfig, Program, Status};

/// A folder for one test, readable by all. Gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("vink-namespaces-{}-{name}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0).unwrap();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    fn file(&self, path: &str, text: &str) -> &Folder {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test's failure matters more than what it leaves.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lab(config: NamespaceConfig) -> Lab {
    let mut lab = Lab::new();
    lab.worker
        .configure_namespaces(lab.machine, &config)
        .unwrap();
    lab
}

#[test]
fn programs_of_a_machine_share_its_name() {
    as_both("namespaces::programs_of_a_machine_share_its_name", || {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let mut lab = lab(NamespaceConfig::new().name("first"));
        assert_eq!(lab.ok("hostname"), "first\n");
        assert_eq!(lab.ok("uname -n"), "first\n");
        assert_eq!(lab.ok("cat /proc/sys/kernel/hostname"), "first\n");
        // Python's own call, not a program's.
        let script = "import socket; print(socket.gethostname())";
        assert_eq!(lab.python(script), "first\n");
        lab.ok("hostname second");
        assert_eq!(lab.ok("hostname"), "second\n");
        let now = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(now, host);
        let other = lab.worker.kernel().machine("other").unwrap();
        lab.worker
            .configure_namespaces(other, &NamespaceConfig::new().name("other"))
            .unwrap();
        lab.machine = other;
        assert_eq!(lab.ok("hostname"), "other\n");
    });
}

#[test]
fn files_of_its_own() {
    as_both("namespaces::files_of_its_own", || {
        let hosts = fs::read_to_string("/etc/hosts").unwrap();
        let own = "127.0.0.1 localhost\n192.0.2.7 seven\n";
        let mut lab = lab(NamespaceConfig::new()
            .file("/etc/hosts", own)
            .file("/no/such/file", "nothing"));
        assert_eq!(lab.ok("cat /etc/hosts"), own);
        assert!(lab.ok("getent hosts seven").starts_with("192.0.2.7 "));
        // What one program writes the next one reads.
        let written = lab.shell("echo 192.0.2.8 eight >> /etc/hosts");
        assert_eq!(written.status, Status::Exited(0), "{written:?}");
        assert!(lab.ok("getent hosts eight").starts_with("192.0.2.8 "));
        assert_eq!(fs::read_to_string("/etc/hosts").unwrap(), hosts);
        assert_eq!(lab.run("ls /no/such/file").status, Status::Exited(2));
        // The place where files were generated is the host's again.
        assert!(lab.ok("cat /proc/self/comm").starts_with("cat"));
    });
}

#[test]
fn a_root_folder() {
    as_both("namespaces::a_root_folder", || {
        // Characters that mean something to overlayfs.
        let folder = Folder::new("a b:c,d\\e");
        folder
            .file("etc/passwd", "just:me:0:0::/:\n")
            .file("etc/hosts", "192.0.2.9 nine\n")
            .file("usr/share/vink-test/new/file", "new\n")
            .file("usr/share/common-licenses/GPL-2", "short\n");
        let mut lab = lab(NamespaceConfig::new()
            .root(&folder.0)
            .file("/etc/hosts", "generated\n"));
        assert_eq!(lab.ok("cat /etc/passwd"), "just:me:0:0::/:\n");
        assert_eq!(lab.ok("cat /usr/share/vink-test/new/file"), "new\n");
        assert_eq!(lab.ok("cat /usr/share/common-licenses/GPL-2"), "short\n");
        // Beside them are the host's.
        assert!(lab
            .ok("head -2 /usr/share/common-licenses/GPL-3")
            .contains("GNU"));
        assert_eq!(
            lab.ok("cat /etc/group"),
            fs::read_to_string("/etc/group").unwrap()
        );
        assert_eq!(lab.ok("cat /etc/hosts"), "192.0.2.9 nine\n");
        let refused = lab.run("touch /usr/share/vink-test/new/other");
        assert!(refused.err.contains("Read-only file system"), "{refused:?}");
        assert!(!Path::new("/usr/share/vink-test").exists());
    });
}

#[test]
fn root_folders_that_cannot_be() {
    as_both("namespaces::root_folders_that_cannot_be", || {
        let error = |folder: &Path| {
            let mut lab = Lab::new();
            match lab
                .worker
                .configure_namespaces(lab.machine, &NamespaceConfig::new().root(folder))
            {
                Err(error @ Error::Folder { .. }) => error.to_string(),
                other => panic!("{other:?}"),
            }
        };
        let missing = error(Path::new("/no/such/folder"));
        assert!(
            missing.contains("/no/such/folder: No such file"),
            "{missing}"
        );
        let file = error(Path::new("/etc/passwd"));
        assert!(file.contains("/etc/passwd: Not a directory"), "{file}");

        let top = Folder::new("top");
        top.file("no-such-folder/file", "");
        let text = error(&top.0);
        assert!(text.contains("the host has no /no-such-folder"), "{text}");

        let kinds = Folder::new("kinds");
        kinds.file("etc", "");
        let text = error(&kinds.0);
        assert!(
            text.contains("is a file, but the host's /etc is a folder"),
            "{text}"
        );

        let link = Folder::new("link");
        std::os::unix::fs::symlink("/no/such/target", link.0.join("etc")).unwrap();
        assert!(error(&link.0).contains("etc: No such file"));

        // Mounted at /dev/pts, for one.
        let hiding = Folder::new("hiding");
        hiding.file("dev/no-such-file", "");
        let text = error(&hiding.0);
        assert!(text.contains("is mounted there"), "{text}");
    });
}

#[test]
fn a_mount_that_fails_is_named() {
    as_both("namespaces::a_mount_that_fails_is_named", || {
        let folder = Folder::new("gone");
        folder.file("etc/passwd", "");
        let mut lab = lab(NamespaceConfig::new().root(&folder.0));
        fs::remove_file(folder.0.join("etc/passwd")).unwrap();
        let error = lab.worker.spawn(lab.machine, Program::new("true"));
        let text = error.err().unwrap().to_string();
        assert!(text.contains("over /etc/passwd: No such file"), "{text}");
        let mut lab = self::lab(NamespaceConfig::new().name("n".repeat(65)));
        let error = lab.worker.spawn(lab.machine, Program::new("true"));
        let text = error.err().unwrap().to_string();
        assert!(text.contains("sethostname("), "{text}");
    });
}

#[test]
fn programs_start_where_they_should() {
    as_both("namespaces::programs_start_where_they_should", || {
        let folder = Folder::new("where");
        folder.file("usr/share/common-licenses/GPL-2", "short\n");
        let mut lab = lab(NamespaceConfig::new().root(&folder.0));
        // The first one makes the namespaces, the second joins them.
        for _ in 0..2 {
            let program = Program::new("cat").arg("GPL-2");
            let program = lab.start_program(program.current_dir("/usr/share/common-licenses"));
            assert_eq!(lab.finish(program).out, "short\n");
            let here = std::env::current_dir().unwrap();
            assert_eq!(lab.ok("pwd").trim_end(), here.to_str().unwrap());
        }
    });
}

#[test]
fn what_a_program_may_do_on_its_machine() {
    as_both("namespaces::what_a_program_may_do_on_its_machine", || {
        let mut lab = Lab::new();
        let set = lab.ok("grep CapEff /proc/self/status");
        let set = u64::from_str_radix(set.split_whitespace().nth(1).unwrap(), 16).unwrap();
        // CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN
        for bit in [10, 12, 13, 21] {
            assert!(set & 1 << bit != 0, "{set:x}");
        }
        lab.ok("mount -t tmpfs none /mnt");
        lab.ok("ls /mnt");
        if !vink_sys::process::is_root() {
            // As on the host, one's own files are protected from oneself.
            let folder = Folder::new("own");
            folder.file("closed", "");
            let closed = folder.0.join("closed");
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
            let refused = lab.run(&format!("cat {}", closed.display()));
            assert!(refused.err.contains("Permission denied"), "{refused:?}");
        }
    });
}
