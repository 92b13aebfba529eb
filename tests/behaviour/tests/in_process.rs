//! What a program meets that has the stack in its own process and goes on where the stack can't.

use std::path::PathBuf;
use std::process::{Command, Output};

use vink_tests::{image, preload, root, stage};

/// The program with the stack in its process, and nothing outside.
fn in_process(program: impl Into<PathBuf>) -> Command {
    let mut command = Command::new(program.into());
    command
        .env("LD_PRELOAD", preload())
        .env("VINK_UPLINK", "none")
        .env("VINK_IMAGE", image());
    command
}

/// One of `tests/behaviour/in_process`, compiled: for this test alone, since others run at the same time.
fn compiled(name: &str) -> PathBuf {
    let test = std::thread::current();
    let test = test.name().expect("a test has a name");
    let program = stage().join(format!("in-process-{name}-{test}"));
    let source = root().join("tests/behaviour/in_process").join(name);
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source.with_extension("c"))
        .status();
    assert!(compiled.expect("cc").success(), "{name}.c");
    program
}

/// Its status, what it wrote, and what was said on standard error.
fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it can be executed");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn a_fork_is_told_that_it_has_no_stack() {
    let (status, out, err) = ended(in_process(compiled("orphan")));
    let wanted = "send(p[0], \"x\", 1, 0): EIO\n\
                  recv(p[1], &p, 1, 0): EIO\n\
                  socket(AF_INET, SOCK_STREAM, 0): EIO\n\
                  dup(p[0]): EIO\n\
                  close(p[0]) = 0\n\
                  close(p[0]): EBADF\n\
                  socket(AF_UNIX, SOCK_STREAM, 0) = a descriptor\n\
                  open(\"/dev/null\", O_WRONLY) = a descriptor\n\
                  write(file, \"x\", 1) = 1\n\
                  child exited with 0\n\
                  send(p[0], \"x\", 1, 0) = 1\n\
                  recv(p[1], &file, 1, 0) = 1\n";
    assert_eq!((status, out.as_str()), (Some(0), wanted), "{err}");
    assert_eq!(err.matches("vink: ").count(), 1, "{err}");
    assert!(
        err.contains("is a fork of a program run with --in-process"),
        "{err}"
    );
}

#[test]
fn sockets_left_to_another_program_are_lost_not_in_silence() {
    let (status, out, err) = ended(in_process(compiled("successor")));
    assert_eq!(
        (status, out.as_str()),
        (Some(0), "the other one\n"),
        "{err}"
    );
    // Once, although execlp() tries the folders one after the other.
    let said = err.matches("cannot have its 1 open socket:").count();
    assert_eq!(said, 1, "{err}");
}

#[test]
fn a_panic_has_a_status_of_its_own() {
    let mut command = in_process(compiled("successor"));
    command.env("VINK_CMDLINE", "rdinit=/no init=/no");
    let (status, out, err) = ended(command);
    assert_eq!((status, out.as_str()), (Some(121), ""), "{err}");
    assert!(
        err.contains("kernel panic: Requested init /no failed"),
        "{err}"
    );
}

#[test]
fn nothing_is_allocated_where_the_c_library_allocates() {
    let (status, out, err) = ended(in_process(compiled("arenas")));
    assert_eq!((status, out.as_str()), (Some(0), "all ended\n"), "{err}");
}

#[test]
fn threads_that_go_on_do_not_change_the_end() {
    let program = compiled("ending");
    for _ in 0..10 {
        let (status, _, err) = ended(in_process(&program));
        assert_eq!((status, err.as_str()), (Some(7), ""));
    }
}

#[test]
fn what_has_no_socket_has_no_stack() {
    let mut command = in_process("sh");
    command
        .args(["-c", "echo some text | wc -l; exit 3"])
        .env("VINK_IMAGE", "/nowhere");
    let (status, out, err) = ended(command);
    assert_eq!((status, out.trim(), err.as_str()), (Some(3), "1", ""));
}

#[test]
fn what_has_a_socket_and_no_image_says_so() {
    let mut command = in_process(compiled("successor"));
    command.env("VINK_IMAGE", "/nowhere");
    let (status, out, err) = ended(command);
    assert_eq!((status, out.as_str()), (Some(125), ""), "{err}");
    assert!(
        err.starts_with("vink: ") && err.contains("/nowhere"),
        "{err}"
    );
}
