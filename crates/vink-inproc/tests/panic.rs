//! A kernel that panics while the program runs: it ends the program, and says why.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;

use vink_abi::{VINK_CALL_TEST, VINK_TEST_BUG, VINK_TEST_NULL};
use vink_inproc::{Config, Stack};

/// What the child is to do.
const KIND: &str = "VINK_TEST_PANIC";

/// The program: one thread waits in the kernel, the other one makes it panic.
fn panic(kind: u64) -> ! {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
    let image = std::env::var_os("VINK_IMAGE").map_or(built, PathBuf::from);
    let config = || {
        Ok(Config {
            image: Some(image),
            uplink: None,
            ..Config::default()
        })
    };
    let stack = Stack::boot_with(config).expect("a stack");
    let mut ends = [-1i32; 2];
    let kind_of_socket = libc::SOCK_STREAM as u64;
    let at = ends.as_mut_ptr() as u64;
    let family = libc::AF_UNIX as u64;
    let made = stack.call(libc::SYS_socketpair, [family, kind_of_socket, 0, at, 0, 0]);
    assert_eq!(made.result, 0);
    let (here, there) = channel();
    std::thread::spawn(move || {
        here.send(()).expect("a listener");
        let mut byte = 0u8;
        let at = (&raw mut byte) as u64;
        stack.call(libc::SYS_read, [ends[0] as u64, at, 1, 0, 0, 0])
    });
    there.recv().expect("a thread");
    let returned = stack.call(VINK_CALL_TEST.into(), [kind, 0, 0, 0, 0, 0]);
    unreachable!("the kernel went on: {returned:?}");
}

#[test]
fn a_panic_ends_the_program() {
    if let Ok(kind) = std::env::var(KIND) {
        panic(kind.parse().expect("a number"));
    }
    for (kind, says) in [
        (VINK_TEST_BUG, "BUG!"),
        (VINK_TEST_NULL, "a fault (signal 11)"),
    ] {
        let own = std::env::current_exe().expect("this test");
        let output = Command::new(own)
            .args(["--exact", "a_panic_ends_the_program", "--nocapture"])
            .env(KIND, kind.to_string())
            .output()
            .expect("this test");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(121), "{said}");
        for text in [
            "vink: kernel panic",
            says,
            "Linux version",
            "vink_control_call",
        ] {
            assert!(said.contains(text), "{text}: {said}");
        }
    }
}
