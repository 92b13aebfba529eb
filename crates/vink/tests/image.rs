//! `vink image`: stacks of one's own, from trees and patches and back.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::lab::copy_labs;
use common::{root, Place};

/// Says which congestion window a connection begins with.
const WINDOW: &str = "
import socket, struct
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
print(struct.unpack_from('I', info, 80)[0])
";

/// Images in the cache of the user that runs the tests, whose objects they share. Gone when dropped.
struct Images<'a> {
    place: &'a Place,
    names: Vec<String>,
}

impl Images<'_> {
    fn new<'a>(place: &'a Place) -> Images<'a> {
        copy_labs(place);
        let names = Vec::new();
        Images { place, names }
    }

    /// A name that no other test has.
    fn name(&mut self, name: &str) -> String {
        let name = format!("{name}-test-{}", std::process::id());
        self.names.push(name.clone());
        name
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.place.command(program);
        command
            .current_dir(self.place.temporary())
            .env("VINK_ROOT", root());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(program).args(arguments).output();
        output.expect(program)
    }

    /// What it writes, if it succeeds.
    fn done(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.run(program, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}\n{text}{errors}");
        text
    }

    fn vink(&self, arguments: &[&str]) -> String {
        self.done("vink", arguments)
    }

    /// What it says when it fails.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run("vink", arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// The congestion window that a connection begins with on an image.
    fn window(&self, name: &str) -> u32 {
        let line = [
            "run", "--uplink", "none", "--image", name, "--", "python3", "-c", WINDOW,
        ];
        self.vink(&line).trim().parse().expect("a number")
    }
}

impl Drop for Images<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // Some were never made.
            let _ = self.command("vink").args(["image", "rm", name]).output();
        }
    }
}

/// `$VINK_CACHE`.
fn cache() -> PathBuf {
    vink_kernel::cache().expect("a cache")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// A tree of the package's, in which each file may be replaced.
fn tree(images: &Images, name: &str) -> PathBuf {
    // Where links can be made.
    let to = cache().join(format!("{name}-{}", std::process::id()));
    let from = cache().join("linux-source-6.12");
    images.done(
        "cp",
        &[
            "-al",
            from.to_str().expect("a path"),
            to.to_str().expect("a path"),
        ],
    );
    to
}

/// Replaces a text by another one, as an editor that writes a new file. It may be an old one.
fn edit(file: &Path, from: &str, to: &str, long_ago: bool) {
    let text = fs::read_to_string(file).expect("a source");
    assert_eq!(text.matches(from).count(), 1, "{from}");
    fs::remove_file(file).expect("the old file");
    fs::write(file, text.replace(from, to)).expect("the new file");
    if long_ago {
        let file = fs::File::options()
            .write(true)
            .open(file)
            .expect("the new file");
        file.set_modified(std::time::UNIX_EPOCH).expect("its time");
    }
}

#[test]
fn what_the_page_shows_works() {
    let place = &Place::all()[0];
    let mut images = Images::new(place);
    let name = images.name("divider");
    let page = fs::read_to_string(root().join("docs/images.md")).expect("the page");
    let parts = page.split("```console\n").skip(1);
    let blocks = parts.map(|part| part.split("```").next().unwrap_or_default());
    let lines = blocks
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("$ "));
    // CI runs make stack.
    let commands: Vec<String> = lines
        .filter(|line| !line.starts_with("make "))
        .map(|line| line.replace("divider", &name))
        .collect();
    assert!(commands.len() > 6, "{commands:?}");
    for command in commands {
        let said = images.done("sh", &["-c", &command]);
        if command.contains("image diff") {
            assert!(
                said.starts_with("diff --git a/net/ipv4/tcp_output.c b/net/ipv4/tcp_output.c\n"),
                "{said}"
            );
        }
        if command.contains("image list") {
            let line = said
                .lines()
                .find(|line| line.starts_with(&name))
                .expect(&said);
            assert!(line.contains("ack-division.patch"), "{said}");
            let version = images.vink(&["version"]);
            let line = version.lines().find(|line| line.contains(&name));
            let line = line.expect(&version);
            assert!(line.ends_with(", ack-division.patch)"), "{version}");
        }
    }
    let patch = place.temporary().join(format!("{name}.patch"));
    let patch = fs::read_to_string(patch).expect("the patch");
    assert!(
        patch.contains("\nFrom: A. Programmer <a@example.org>\n"),
        "{patch}"
    );
    assert!(
        patch.contains("\nSubject: [PATCH] tcp: acknowledge in pieces\n"),
        "{patch}"
    );
    assert!(!images.vink(&["image", "list"]).contains(&name));
    for left in [format!("images/{name}"), format!("build/linux-6.12-{name}")] {
        assert!(!cache().join(&left).exists(), "{left}");
    }
}

/// Edited, built, run; edited again, built incrementally, run; exported, applied to a fresh tree, which
/// takes it for a real machine.
#[test]
fn a_change_comes_back_as_a_patch() {
    let place = &Place::all()[0];
    let mut images = Images::new(place);
    let name = images.name("window");
    let mine = tree(&images, "mine");
    let path = mine.to_str().expect("a path");
    let source = "net/ipv4/tcp_input.c";
    let line = "tcp_snd_cwnd_set(tp, tcp_init_cwnd(tp, __sk_dst_get(sk)));";
    let plus = |n: u32| line.replace("));", &format!(") + {n});"));
    // Older than any object, and yet it differs.
    edit(&mine.join(source), line, &plus(1), true);
    images.vink(&["image", "build", "--name", &name, "--tree", path]);
    assert_eq!(images.window(&name), 11);

    edit(&mine.join(source), &plus(1), &plus(2), false);
    images.vink(&["image", "build", "--name", &name]);
    assert_eq!(images.window(&name), 12);
    let log = cache().join(format!("build/linux-6.12-{name}/log"));
    let log = fs::read_to_string(log).expect("the log");
    let compiled: Vec<&str> = log
        .lines()
        .filter_map(|line| line.strip_prefix("  CC      "))
        .collect();
    assert_eq!(compiled, ["net/ipv4/tcp_input.o"]);

    let patch = place.temporary().join("window.patch");
    let to = patch.to_str().expect("a path");
    let author = "A. Programmer <a@example.org>";
    images.vink(&[
        "image",
        "export-patch",
        &name,
        "--from",
        author,
        "--signoff",
        "-o",
        to,
    ]);
    let fresh = tree(&images, "fresh");
    let at = fresh.to_str().expect("a path");
    images.done(
        "patch",
        &["-p1", "--fuzz=0", "--directory", at, "--input", to],
    );
    let read = |tree: &Path| fs::read(tree.join(source)).expect("the source");
    assert!(read(&fresh) == read(&mine));
    let objects = place.temporary().join("x86");
    fs::create_dir(&objects).expect("a folder");
    let output = format!("O={}", objects.display());
    for target in ["x86_64_defconfig", "net/ipv4/tcp_input.o"] {
        images.done(
            "make",
            &["-s", "-C", at, &output, "ARCH=x86_64", "-j2", target],
        );
    }
    let object = fs::read(objects.join("net/ipv4/tcp_input.o")).expect("an object");
    // elf(5): e_machine, of which 62 is x86-64.
    assert_eq!((&object[..4], object[18]), (&b"\x7fELF"[..], 62));

    images.vink(&["image", "rm", &name]);
    // An image goes, but not the tree.
    assert!(mine.join(source).exists());
    for tree in [mine, fresh] {
        fs::remove_dir_all(tree).expect("the tree goes");
    }
}

#[test]
fn mistakes() {
    let place = &Place::all()[0];
    let mut images = Images::new(place);
    let name = images.name("none");
    let start = ["image", "build", "--name", name.as_str()];
    let build = |more: &[&'static str]| [&start[..], more].concat();
    let text = images.refused(&build(&[]));
    assert!(text.contains("by --tree, --patch or --profile"), "{text}");
    let text = images.refused(&build(&["--profile", "tiny"]));
    assert!(text.contains("no profile \"tiny\""), "{text}");
    assert!(
        text.contains("there are coverage, full, kvs, router, udp"),
        "{text}"
    );
    let text = images.refused(&build(&["--tree", "/usr"]));
    assert!(text.contains("/usr/Makefile"), "{text}");
    let text = images.refused(&build(&["--patch", "/nowhere"]));
    assert!(text.contains("/nowhere"), "{text}");
    let text = images.refused(&["image", "build", "--name", "6.12", "--tree", "/usr"]);
    assert!(text.contains("a letter comes first"), "{text}");

    fs::write(
        place.temporary().join("bad.patch"),
        "--- a/net/ipv4/tcp.c\n+++ b/net/ipv4/tcp.c\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n",
    )
    .expect("a patch");
    let text = images.refused(&build(&["--patch", "bad.patch"]));
    assert!(text.contains("bad.patch does not apply to "), "{text}");
    for part in [
        "/linux-source-6.12:",
        "net/ipv4/tcp.c",
        "Hunk #1 FAILED at 1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for command in ["rm", "diff", "export-patch"] {
        let text = images.refused(&["image", command, &name]);
        assert!(text.contains("no image"), "{text}");
    }
    let text = images.refused(&["run", "--uplink", "none", "--image", &name, "--", "true"]);
    assert!(text.contains("vink image build --name"), "{text}");
    assert!(!cache().join("images").join(&name).exists());
}

#[test]
fn a_removal_that_ends_halfway() {
    let place = &Place::all()[0];
    let mut images = Images::new(place);
    let name = images.name("halfway");
    // What is built is of no account here, only what it would be built of.
    let root = place.temporary().join("root");
    fs::create_dir_all(root.join("stack")).expect("a folder");
    let script = root.join("stack/build");
    fs::write(&script, "#!/bin/sh\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    let patch = "--- /dev/null\n+++ b/net/ipv4/halfway.h\n@@ -0,0 +1 @@\n+/* Nothing. */\n";
    fs::write(place.temporary().join("halfway.patch"), patch).expect("a patch");
    let build = || {
        let mut vink = images.command("vink");
        vink.args([
            "image",
            "build",
            "--name",
            &name,
            "--patch",
            "halfway.patch",
        ]);
        let output = vink.env("VINK_ROOT", &root).output().expect("vink");
        assert!(output.status.success(), "{output:?}");
    };
    let folder = cache().join("images").join(&name);
    build();
    // The 1,000th file can't be removed.
    let mut strace = images.command("strace");
    strace.args([
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "inject=unlinkat:error=EIO:when=1000",
    ]);
    let line = ["vink", "image", "rm", &name];
    let output = strace.args(line).output().expect("strace");
    assert!(!output.status.success(), "{output:?}");
    assert!(folder.join("note.json").exists() && !folder.join("tree").exists());
    build();
    for path in [
        "Makefile",
        "virt/Makefile",
        "arch/x86/Kbuild",
        "net/ipv4/halfway.h",
    ] {
        assert!(folder.join("tree").join(path).exists(), "{path}");
    }
    images.vink(&["image", "rm", &name]);
    assert!(!folder.exists());
}

/// Every profile against the Kconfig of both kernels.
#[test]
fn profiles_fit() {
    let place = &Place::all()[0];
    let images = Images::new(place);
    let build = root().join("stack/build");
    let build = build.to_str().expect("a path");
    for version in ["6.12", "6.1"] {
        for profile in ["full", "router", "kvs", "udp", "coverage"] {
            let fits = ["--linux", version, "--profile", profile, "--check"];
            let said = images.done(build, &fits);
            let told = format!("profile {profile} fits Linux {version}: ");
            assert!(said.contains(&told), "{said}");
        }
    }
}

/// A line that Kconfig would drop without a word.
#[test]
fn lines_of_a_profile_without_effect() {
    let place = &Place::all()[0];
    let images = Images::new(place);
    let stack = place.temporary().join("stack");
    let from = root().join("stack");
    images.done("cp", &["-r", path(&from), path(&stack)]);
    let refused = |lines: &str| {
        fs::write(stack.join("profiles/odd.config"), lines).expect("a profile");
        let build = stack.join("build");
        let output = images.run(path(&build), &["--profile", "odd", "--check"]);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // Another line needs what is switched off.
    let text = refused("# CONFIG_IPV6 is not set\n");
    assert!(text.contains("no effect on Linux 6.12:\n"), "{text}");
    assert!(text.contains("\nCONFIG_IPV6_ROUTER_PREF=y\n"), "{text}");
    // Another line brings it back.
    let text = refused("# CONFIG_NET_UDP_TUNNEL is not set\n");
    assert!(
        text.contains("CONFIG_NET_UDP_TUNNEL=y is still on"),
        "{text}"
    );
    let text = refused("# CONFIG_IPV7 is not set\n");
    assert!(
        text.contains("CONFIG_IPV7 is switched off, and was not on"),
        "{text}"
    );
}
