//! The user that runs vink in a test, and the folder.
#![allow(dead_code)] // Each test file uses a part.

pub mod app;
pub mod control;
pub mod lab;
pub mod packetdrill;
pub mod page;
pub mod pod;
pub mod stock;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use vink_sys::child::{prepare, Step};

/// `nobody` on Debian.
const NOBODY: u32 = 65534;

/// The least nice that a program can be; setpriority(2).
const LEAST_NICE: libc::c_int = -20;

/// A folder with vink and its image in it, and a user. Gone when dropped.
pub struct Place {
    folder: PathBuf,
    nobody: bool,
    urgent: bool,
}

impl Place {
    fn new(nobody: bool) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "vink-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        let place = Place {
            folder,
            nobody,
            urgent: false,
        };
        let image = vink_kernel::find_image().or_else(|_| {
            // Tests run in their crate's folder, the image is in the workspace's.
            let built = root().join("build/libvink-linux-6.12.so");
            if built.exists() {
                Ok(built)
            } else {
                Err("no image: run make stack")
            }
        });
        let image = fs::canonicalize(image.expect("an image")).expect("the image's path");
        fs::create_dir_all(place.temporary()).expect("a folder for the test");
        for folder in [&place.folder, &place.temporary()] {
            let mode = if nobody { 0o777 } else { 0o700 };
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("its mode");
        }
        let vink = Path::new(env!("CARGO_BIN_EXE_vink"));
        // `cargo build` makes them, and no test of another thing needs them.
        let library = vink.with_file_name("libvink_preload.so");
        let quick = vink.with_file_name("libvink_quick.so");
        let pods = vink.with_file_name("vink-pod-process");
        let old = root().join("build/libvink-linux-6.1.so");
        let kvs = root().join("build/libvink-linux-6.12-kvs.so");
        // What is below root's home or the target folder, other users may be unable to read.
        for (from, to) in [
            (vink, "vink"),
            (&image, "libvink-linux-6.12.so"),
            (&old, "libvink-linux-6.1.so"),
            (&kvs, "libvink-linux-6.12-kvs.so"),
            (&library, "libvink_preload.so"),
            (&quick, "libvink_quick.so"),
            (&pods, "vink-pod-process"),
        ] {
            if !from.exists() {
                continue;
            }
            let to = place.folder.join(to);
            fs::hard_link(from, &to)
                .or_else(|_| fs::copy(from, &to).map(drop))
                .expect("a copy");
        }
        place
    }

    /// Ourselves; and if we are root, an ordinary user too.
    pub fn all() -> Vec<Place> {
        let root = vink_sys::process::is_root();
        if root {
            vec![Place::new(false), Place::new(true)]
        } else {
            vec![Place::new(false)]
        }
    }

    /// Ourselves, served before whatever else this machine does: for what is measured by the host's clock. A user that may
    /// not ask for that (`setpriority(2)`) is served as all are.
    pub fn urgent() -> Place {
        let mut place = Place::new(false);
        place.urgent = true;
        place
    }

    /// Whether commands run as another user than the test.
    pub fn is_nobody(&self) -> bool {
        self.nobody
    }

    /// For messages.
    pub fn user(&self) -> &str {
        if self.nobody {
            "as nobody"
        } else {
            "as ourselves"
        }
    }

    /// Where vink is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A folder that the user may write to; vink's TMPDIR.
    pub fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Any program as this user, with vink in its PATH.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut path = self.folder.display().to_string();
        if self.nobody {
            path += ":/usr/bin:/bin:/usr/sbin:/sbin";
        } else {
            path = format!("{path}:{}", std::env::var("PATH").expect("PATH"));
        }
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("PATH", path)
            .env("TMPDIR", self.temporary())
            // A control process of its own.
            .env("VINK_RUNTIME", self.temporary().join("run"));
        command.env_remove("VINK_IMAGE");
        // A shell that was told to test in the background has some of them ignored, nohup(1) another.
        let ended_by = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
        prepare(&mut command, ended_by.map(Step::DefaultSignal));
        if self.urgent {
            // Real-time policies would do it better, but programs that end under them can spin for each other in the host's
            // kernel for ever.
            prepare(&mut command, [Step::Nice(LEAST_NICE)]);
        }
        if self.nobody {
            command
                .uid(NOBODY)
                .gid(NOBODY)
                .env("HOME", self.temporary());
        }
        command
    }

    /// vink, as this user.
    pub fn vink(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.folder.join("vink"));
        command.args(arguments);
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test's failure matters more than what it leaves.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Processor time of a process, in ticks.
pub fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let words = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let times = words.split_ascii_whitespace().skip(14 - 3).take(2);
    times.filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// Waits until a process has a handler for a signal; proc_pid_status(5).
pub fn catches(pid: i32, signal: i32) {
    loop {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("a set").trim(), 16).expect("a number");
        if caught >> (signal - 1) & 1 == 1 {
            return;
        }
        std::thread::yield_now();
    }
}

/// The workspace's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace's folder")
}

/// Whether within half a minute there is something to be read, or an end.
pub fn is_readable(from: &impl std::os::fd::AsFd) -> bool {
    vink_sys::poll::is_readable(from, 30_000)
}
