//! Pods compiled for a test, and what is left of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use vink_pod::{load, Limits, LoadError, Loaded, Source, Wall};

/// A folder for a test's pods, which goes with it.
pub struct Place {
    pub folder: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Place {
        let name = format!("vink-pod-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("its mode");
        Place { folder }
    }

    /// Compiles this behind `pod.h` and `POD();`.
    pub fn compile(&self, source: &str, options: &[&str]) -> PathBuf {
        self.compile_bare(&format!("POD();\n{source}"), options)
    }

    /// Compiles this behind `pod.h`.
    pub fn compile_bare(&self, source: &str, options: &[&str]) -> PathBuf {
        let (text, pod) = (self.folder.join("pod.c"), self.folder.join("pod.so"));
        let head = format!("#define _GNU_SOURCE\n#include \"pod.h\"\n{source}\n");
        fs::write(&text, head).expect("a source");
        fs::write(self.folder.join("pod.h"), POD_H).expect("pod.h");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
            .args([&pod, &text])
            .args(options)
            .output()
            .expect("a compiler");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{source}");
        pod
    }

    #[allow(dead_code, reason = "not all tests use it")]
    pub fn load(&self, source: &str, config: &[u8], limits: Limits) -> Result<Loaded, LoadError> {
        load_file(&self.compile(source, &[]), config, limits)
    }
}

const POD_H: &str = include_str!("../../../../include/vink/pod.h");

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn load_file(file: &Path, config: &[u8], limits: Limits) -> Result<Loaded, LoadError> {
    load(&Source {
        file,
        config,
        limits,
        wall: Some(Wall::Process),
        now: 0,
        repeats: false,
    })
}
