//! C programs that wait in all ways there are, in virtual time: each line that they print has its time in front, and
//! is known beforehand.

use std::path::{Path, PathBuf};
use std::process::Command;

use vink_kernel::Clock;
use vink_trap::Status;

use crate::lab::{as_both, Lab};

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waits")
}

/// Where all users find it; each test process has its own.
fn compile(name: &str) -> PathBuf {
    let program = std::env::temp_dir().join(format!("vink-waits-{name}-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
        ])
        .arg(&program)
        .arg(sources().join(format!("{name}.c")))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{name}.c: {errors}");
    program
}

fn prints_what_is_expected(name: &str) {
    let program = compile(name);
    let expected = std::fs::read_to_string(sources().join(format!("{name}.expected"))).unwrap();
    // Twice on one clock, which makes no difference. Its zero is never shown.
    let mut lab = Lab::on(Clock::Virtual);
    lab.ok("sleep 1");
    for _ in 0..2 {
        let output = lab.run(program.to_str().unwrap());
        assert_eq!(output.status, Status::Exited(0), "{output:?}");
        for (line, (found, expected)) in output.out.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "{name}.expected:{}", line + 1);
        }
        assert_eq!(output.out.lines().count(), expected.lines().count());
    }
    std::fs::remove_file(program).unwrap();
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            as_both(concat!("waits::", stringify!($name)), || {
                prints_what_is_expected(stringify!($name));
            });
        })*
    };
}

programs! { threads futexes robust timers children locks signals queues }
