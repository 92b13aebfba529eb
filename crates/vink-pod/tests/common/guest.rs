//! A guest of QEMU's whose processor has protection keys: what is put into it, and what it prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A guest that has not been started.
pub struct Guest {
    folder: PathBuf,
}

impl Guest {
    /// Its files are kept in this folder.
    pub fn new(folder: &Path) -> Guest {
        let folder = folder.to_owned();
        fs::create_dir_all(folder.join("root")).unwrap();
        Guest { folder }
    }

    /// Where a file is put that has this path in the guest. Its folder is there.
    pub fn place(&self, path: &str) -> PathBuf {
        let to = self.folder.join("root").join(&path[1..]);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        to
    }

    /// Puts an object there without its symbols: fewer bytes are to be unpacked.
    pub fn put_stripped(&self, object: &Path, path: &str) {
        let status = Command::new("strip")
            .arg("-o")
            .args([&self.place(path), object])
            .status();
        assert!(status.expect("strip").success());
    }

    /// Puts a program there, and the libraries that it needs.
    pub fn put_program(&self, program: &Path, path: &str) {
        self.put_stripped(program, path);
        let needs = Command::new("ldd").arg(program).output().expect("ldd");
        let needs = String::from_utf8(needs.stdout).unwrap();
        for library in needs.split_whitespace().filter(|it| it.starts_with('/')) {
            fs::copy(library, self.place(library)).unwrap();
        }
    }

    /// Starts it with this script and so many MiB of memory: what it has printed when it ends.
    pub fn run(&self, script: &str, memory: u32) -> String {
        fs::write(self.place("/script"), script).unwrap();
        let cache = std::env::var_os("VINK_CACHE").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache/vink");
        let cache = cache.unwrap_or_else(home).join("guest");
        let archive = Command::new("sh")
            .args(["-c", "find . | cpio --quiet -o -H newc"])
            .current_dir(self.folder.join("root"))
            .output()
            .expect("cpio");
        let base = fs::read(cache.join("initrd"));
        let base =
            base.unwrap_or_else(|error| panic!("{}: {error}: run .ci/guest", cache.display()));
        fs::write(self.folder.join("initrd"), [base, archive.stdout].concat()).unwrap();
        let output = Command::new("qemu-system-x86_64")
            // With SMAP, QEMU 7.2 takes what IRET reads in a program for an access of the kernel's. With a
            // thread for each processor, code that Linux changes is at times executed half changed.
            .args(["-machine", "q35", "-accel", "tcg,thread=single"])
            .args([
                "-cpu",
                "max,-smap",
                "-smp",
                "2",
                "-m",
                &format!("{memory}M"),
            ])
            .args(["-nodefaults", "-no-reboot"])
            .args(["-display", "none", "-serial", "stdio"])
            .args(["-append", "console=ttyS0 quiet oops=panic panic=-1"])
            .arg("-kernel")
            .arg(cache.join("vmlinuz-6.12"))
            .arg("-initrd")
            .arg(self.folder.join("initrd"))
            .output()
            .expect("qemu-system-x86_64");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
