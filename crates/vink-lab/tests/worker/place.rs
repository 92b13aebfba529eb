//! The user that runs a worker in a test, and the folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// `nobody` on Debian.
const NOBODY: u32 = 65534;

/// A folder with a worker and its image in it, and a user. Gone when dropped.
pub struct Place {
    folder: PathBuf,
    nobody: bool,
}

impl Place {
    fn new(nobody: bool) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vink-worker-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let place = Place { folder, nobody };
        fs::create_dir_all(place.temporary()).expect("a folder for the test");
        for folder in [&place.folder, &place.temporary()] {
            let mode = if nobody { 0o777 } else { 0o700 };
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("its mode");
        }
        // Tests run in their crate's folder, the image is in the workspace's.
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
        let image = vink_kernel::find_image().unwrap_or(built);
        let image = fs::canonicalize(image).expect("an image: run make stack");
        // What is below root's home or the target folder, other users may be unable to read.
        for (from, to) in [
            (Path::new(env!("CARGO_BIN_EXE_vink-lab-worker")), "worker"),
            (&image, "libvink-linux-6.12.so"),
        ] {
            let to = place.folder.join(to);
            fs::hard_link(from, &to)
                .or_else(|_| fs::copy(from, &to).map(drop))
                .expect("a copy");
        }
        place
    }

    /// Ourselves; and if we are root, an ordinary user too.
    pub fn all() -> Vec<Place> {
        match vink_sys::process::is_root() {
            true => vec![Place::new(false), Place::new(true)],
            false => vec![Place::new(false)],
        }
    }

    /// Where the worker and its image are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A folder that the user may write to; the worker's TMPDIR.
    pub fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// A worker, as this user.
    pub fn worker(&self) -> Command {
        let mut command = Command::new(self.folder.join("worker"));
        command
            .current_dir(&self.folder)
            .env("TMPDIR", self.temporary())
            .env_remove("VINK_IMAGE");
        if self.nobody {
            command
                .uid(NOBODY)
                .gid(NOBODY)
                .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
                .env("HOME", self.temporary());
        }
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test's failure matters more than what it leaves.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
