//! Programs in C, compiled for a test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A program made of a source, where all users find it; gone when dropped.
pub struct Built(PathBuf);

impl Built {
    /// From a file.
    pub fn of(source: &Path, flags: &[&str]) -> Built {
        // Several tests may have it at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = source.file_stem().unwrap().to_str().unwrap();
        let name = format!("vink-built-{}-{count}-{name}", std::process::id());
        let built = Built(std::env::temp_dir().join(name));
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"])
            .args(flags)
            .arg("-o")
            .arg(&built.0)
            .arg(source)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{}: {errors}", source.display());
        fs::set_permissions(&built.0, fs::Permissions::from_mode(0o755)).unwrap();
        built
    }

    /// From a text, which is to have a name of its own.
    pub fn new(name: &str, source: &str, flags: &[&str]) -> Built {
        let folder =
            std::env::temp_dir().join(format!("vink-source-{}-{name}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join(name).with_extension("c");
        fs::write(&file, source).unwrap();
        let built = Built::of(&file, flags);
        fs::remove_dir_all(folder).unwrap();
        built
    }

    /// The program as a command line.
    pub fn line(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        // A test's failure matters more than what it leaves.
        let _ = fs::remove_file(&self.0);
    }
}
