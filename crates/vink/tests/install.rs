//! `make install` and `make deb`: what is installed works by itself, wherever it is, and can be removed.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{root, Place};

/// `make` with these words, by ourselves.
fn make(words: &[String]) -> String {
    let mut command = Command::new("make");
    let output = command
        .args(["-s", "-C"])
        .arg(root())
        .args(words)
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make {words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Where cargo has put vink.
fn built() -> PathBuf {
    let vink = Path::new(env!("CARGO_BIN_EXE_vink"));
    vink.parent().expect("a folder").to_owned()
}

/// A command where neither the repository nor what was built there can be reached.
fn elsewhere(place: &Place, words: &[&str]) -> Command {
    const HIDE: &str = r#"
        for folder in "$1" "$2"; do
            [ ! -e "$folder" ] || mount -t tmpfs hidden "$folder"
        done
        [ ! -e "$1/Makefile" ] && [ ! -e "$2/vink" ]
        shift 2
        cd /
        exec "$@"
    "#;
    let is_root = vink_sys::process::is_root();
    let mut command = match place.is_nobody() {
        // Only root can mount; the program is nobody's.
        true => Command::new("unshare"),
        false => place.command("unshare"),
    };
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--", "sh", "-ec", HIDE, "sh"]);
    command.arg(root()).arg(built());
    if place.is_nobody() {
        command.args([
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]);
    }
    command
        .args(words)
        .env("HOME", "/nonexistent")
        .env("TMPDIR", place.temporary())
        .env("VINK_RUNTIME", place.temporary().join("run"))
        .env_remove("VINK_IMAGE")
        .env_remove("VINK_CACHE");
    command
}

fn output(mut command: Command) -> String {
    let output = command.output().expect("unshare");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// A pod of one's own, as docs/pods.md has it: its process is a program of its own.
fn pod(place: &Place, prefix: &Path) {
    const OWN: &str = "cd \"$1\"; PATH=$2/bin:$PATH
        vink pod new large >&2
        cmp pod.h \"$2/include/vink/pod.h\"
        cc -shared -fPIC -O2 -o large.so large.c
        trap 'vink lab down large >&2' EXIT
        vink lab up large.yaml >&2
        vink exec alice -- ping -c 1 10.0.0.2 >&2
        vink pod ls";
    let folder = place.temporary();
    let [folder, prefix] = [folder.as_path(), prefix].map(|path| path.to_str().expect("text"));
    let listed = output(elsewhere(place, &["sh", "-ec", OWN, "sh", folder, prefix]));
    assert!(
        listed.contains("large") && listed.contains("process"),
        "{}: {listed}",
        place.user()
    );
}

#[test]
fn what_is_installed_works_by_itself() {
    for place in Place::all() {
        let user = place.user();
        let to = place.folder().join("package");
        let installation = [
            format!("BUILT={}", built().display()),
            format!("DESTDIR={}", to.display()),
            "PREFIX=/opt/vink".to_owned(),
        ];
        let with = |target: &str| [&[target.to_owned()], &installation[..]].concat();
        make(&with("install"));
        // It may be moved.
        let prefix = place.folder().join("moved");
        fs::rename(to.join("opt/vink"), &prefix).expect("moved");
        let below = |path: &str| prefix.join(path).display().to_string();
        let vink = below("bin/vink");
        let on = |words: &[&str]| output(elsewhere(&place, words));

        let version = on(&[&vink, "version"]);
        let image = below("bin/../lib/vink/libvink-linux-6.12.so");
        let same = |path: &str| version.contains(path);
        assert!(
            same(&image) || same(&below("lib/vink/libvink-linux-6.12.so")),
            "{user}: {version}"
        );
        let run = |words: &[&str]| {
            let words = [&[&vink, "run", "--uplink", "none"], words].concat();
            output(elsewhere(&place, &words))
        };
        let addresses = run(&["--", "ip", "-brief", "address"]);
        assert!(addresses.contains("127.0.0.1/8"), "{user}: {addresses}");
        for (option, library) in [
            ("--in-process", "libvink_preload.so"),
            ("--quick", "libvink_quick.so"),
        ] {
            // As the program itself sees it.
            let pattern = format!("/[^ ]*/{library}");
            let mapped = run(&[option, "--", "grep", "-om1", &pattern, "/proc/self/maps"]);
            let found = fs::canonicalize(mapped.trim()).expect("a library");
            let installed = fs::canonicalize(below(&format!("lib/vink/{library}")));
            assert_eq!(found, installed.expect("installed"), "{user}");
        }
        let interfaces = on(&[
            &below("lib/wireshark/extcap/vink-extcap"),
            "--extcap-interfaces",
        ]);
        assert!(interfaces.starts_with("extcap {version="), "{interfaces}");
        let manual = fs::read_to_string(below("share/man/man1/vink-lab-up.1")).expect("a page");
        assert!(manual.contains(".SH SYNOPSIS"), "{manual}");
        let complete = format!(
            "source {} && complete -p vink",
            below("share/bash-completion/completions/vink")
        );
        assert!(on(&["bash", "-ec", &complete]).contains("_vink"));
        pod(&place, &prefix);

        // Back again: all of it is removed, and nothing else.
        fs::rename(&prefix, to.join("opt/vink")).expect("moved back");
        let own = to.join("opt/vink/lib/vink/libvink-linux-6.12-mine.so");
        fs::write(&own, "").expect("a file");
        make(&with("uninstall"));
        assert_eq!(files(&to), [own], "{user}");
    }
}

/// dpkg(1) with a root folder of its own. It wants to be root there, or to be taken for it.
fn dpkg(place: &Place, to: &Path, words: &[&str]) -> Command {
    let is_root = vink_sys::process::is_root() && !place.is_nobody();
    let mut command = match is_root {
        true => place.command("dpkg"),
        false => {
            let mut command = place.command("unshare");
            command.args(["--user", "--map-root-user", "dpkg"]);
            command
        }
    };
    // Its libraries are this machine's, which the folder has not. Of the path's folders dpkg wants
    // those of root's programs.
    command
        .arg(format!("--root={}", to.display()))
        .args(["--force-depends", "--force-not-root", "--log=/dev/null"])
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

#[test]
fn a_debian_package_is_installed_upgraded_and_removed() {
    let places = Place::all();
    let out = places[0].folder().join("out");
    let made = make(&[
        "deb".to_owned(),
        format!("BUILT={}", built().display()),
        format!("OUT={}", out.display()),
    ]);
    let bytes = fs::read(made.trim()).expect("a package");
    for place in places {
        let user = place.user();
        let package = place.folder().join("vink.deb");
        fs::write(&package, &bytes).expect("written");
        let package = package.to_str().expect("text");
        let field = |name: &str| {
            let mut command = Command::new("dpkg-deb");
            command.args(["--field", package, name]);
            output(command)
        };
        assert_eq!(field("Package").trim(), "vink");
        assert!(field("Depends").contains("libc6 (>= "), "{user}");

        let to = place.folder().join("system");
        for folder in ["info", "updates", "triggers"] {
            let mut command = place.command("mkdir");
            command.arg("-p").arg(to.join("var/lib/dpkg").join(folder));
            output(command);
        }
        let mut command = place.command("touch");
        command.arg(to.join("var/lib/dpkg/status"));
        output(command);
        // Once more is an upgrade.
        for _ in 0..2 {
            output(dpkg(&place, &to, &["--install", package]));
        }
        let below = |path: &str| to.join(path).display().to_string();
        let vink = below("usr/bin/vink");
        let on = |words: &[&str]| output(elsewhere(&place, words));
        assert!(on(&[&vink, "version"]).contains("libvink-linux-6.12.so"));
        let hello = below("usr/share/vink/labs/hello/lab.yaml");
        on(&[&vink, "lab", "check", &hello]);
        let run = |words: &[&str]| on(&[&[&vink, "run", "--uplink", "none", "--"], words].concat());
        assert!(run(&["ip", "-brief", "address"]).contains("127.0.0.1/8"));
        // The images' debug information is still there.
        let image = below("usr/lib/vink/libvink-linux-6.12.so");
        assert!(on(&["readelf", "-SW", &image]).contains(".debug_info"));
        let profile = elsewhere(&place, &[&vink, "image", "build", "--profile", "none"]).output();
        let errors = String::from_utf8(profile.expect("vink").stderr).expect("text");
        let known = below("usr/share/vink/stack/profiles: there are coverage, full, kvs");
        let known = known.replace(&place.folder().display().to_string(), "");
        assert!(errors.contains(&known), "{user}: {errors}");
        pod(&place, &to.join("usr"));

        output(dpkg(&place, &to, &["--purge", "vink"]));
        assert!(!to.join("usr").exists(), "{user}");
    }
}
