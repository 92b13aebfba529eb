//! Small C programs, each run on the host and on Vink: every line and the exit status must agree.
//!
//! All run in virtual time, too, and with calls in shared memory. Those that don't use sockets in a process of their own making also run with the stack
//! in the process.
//!
//! A program for something that the host's kernel may lack has its expected lines in a file beside
//! it, NAME.expected, and is run on Vink only.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use vink_tests::{
    difference, image, place, preload, quick, root, run, stage, vink, Ended, Network, User,
};

/// What several tests need, by name: the first makes it, and the others wait until it has.
struct Once<T>(Mutex<BTreeMap<String, Arc<OnceLock<T>>>>);

impl<T: Clone> Once<T> {
    const fn new() -> Once<T> {
        Once(Mutex::new(BTreeMap::new()))
    }

    fn get(&self, name: String, make: impl FnOnce() -> T) -> T {
        let cell = Arc::clone(self.0.lock().expect("no panic").entry(name).or_default());
        cell.get_or_init(make).clone()
    }
}

/// One test for each program and each way to run it on Vink, as the user that runs the tests, and again as `nobody`
/// for root.
macro_rules! programs {
    ($list:ident, $($form:ident $same_user:ident $nobody:ident),*: $names:tt) => {
        $(programs!(@tests $form $same_user $nobody $names);)*
        programs!(@list $list $names);
    };
    (@list $list:ident {$($name:ident)*}) => {
        const $list: &[&str] = &[$(stringify!($name)),*];
    };
    (@tests $form:ident $same_user:ident $nobody:ident {$($name:ident)*}) => {
        mod $same_user {
            use super::{agree, Form::$form, User::Same};
            $(#[test] fn $name() { agree(stringify!($name), $form, Same) })*
        }

        mod $nobody {
            use super::{agree, Form::$form, User::Nobody};
            $(#[test] fn $name() { agree(stringify!($name), $form, Nobody) })*
        }
    };
}

/// How a program is run on Vink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `vink run --calls trapped`.
    Trapped,
    /// `vink run --calls auto`.
    Auto,
    /// With `libvink_preload.so`.
    InProcess,
    /// `vink run --time virtual`.
    Virtual,
    /// `vink run --calls shared`.
    Quick,
}

/// Lines that must differ in virtual time: program, what the host says, and what is true there.
const BY_ANOTHER_CLOCK: &[(&str, &str, &str)] = &[
    // Over loopback there is nothing that takes time.
    ("tcp_info", "i.tcpi_rtt > 0 is 1", "i.tcpi_rtt > 0 is 0"),
];

programs! { IN_PROCESS, InProcess in_process_same_user in_process_nobody: {
    accept_flags aio_sockets bad_descriptors bad_families bad_lengths bad_pointers dual_stack dup_fcntl epoll_close
    epoll_edge epoll_edge_model epoll_edge_threads epoll_late epoll_level exhaustion faults file_calls helpers ioctls ip_options ipv6_options many_messages
    mptcp names netlink_events netlink_generic netlink_route odd_calls packet_loopback ping_socket proc_files
    raw_calls raw_icmp reuse sctp signal_stream signal_timeout sock_diag socket_options socket_protocols
    tcp_backlog tcp_congestion tcp_connect_nonblocking tcp_echo tcp_fill tcp_half_close tcp_info tcp_linger
    tcp_options tcp_refused tcp_reset tcp_urgent thread_signals thread_waits threads udp_broadcast udp_connected
    udp_control udp_cork udp_echo udp_errors_queued udp_multicast udp_truncation unix_ioctls unix_sockets zerocopy
}}

programs! { PROGRAMS, Trapped same_user nobody, Auto auto_same_user auto_nobody, Virtual virtual_same_user virtual_nobody,
    Quick quick_same_user quick_nobody: {
    accept_flags affinity aio aio_sockets bad_descriptors bad_families bad_lengths dual_stack dup_fcntl epoll_close
    epoll_edge epoll_edge_model epoll_edge_threads epoll_late epoll_level epoll_mixed epoll_modes epoll_sets exec_inherit exhaustion file_calls
    fork_inherit futex_wake_op
    helpers ioctls ip_options ipv6_options look_ups many_messages mptcp names netlink_events netlink_generic
    netlink_route network_namespaces own_filter packet_loopback packet_ring ping_socket poll_masks poll_mixed poll_streams proc_files
    raw_calls raw_icmp reuse sctp shared_files signal_owner signal_stream signal_timeout signals sock_diag
    socket_options socket_protocols spawn tcp_backlog tcp_bulk tcp_congestion tcp_connect_nonblocking
    tcp_echo tcp_fill tcp_flags tcp_half_close tcp_info tcp_linger tcp_options tcp_refused tcp_reset tcp_spin tcp_urgent
    thread_signals thread_waits threads tun udp_broadcast udp_connected udp_control udp_cork udp_echo
    udp_errors_queued udp_multicast udp_truncation unix_handover unix_handover_mixed unix_ioctls unix_listener
    unix_sockets wait_kinds zerocopy
}}

// As others, but that they have calls fail with pointers to nowhere, which the C library's functions don't live through
// that are replaced there while the worker polls: here calls come too seldom for that.
programs! { WITH_BAD_POINTERS, Trapped pointers_same_user pointers_nobody, Auto pointers_auto_same_user pointers_auto_nobody,
    Virtual pointers_virtual_same_user pointers_virtual_nobody: {
    bad_pointers faults odd_calls splice
}}

// As others, but that they need the host's clock: they make calls until signals have come.
programs! { BY_THE_HOSTS_CLOCK, Trapped clock_same_user clock_nobody, Auto clock_auto_same_user clock_auto_nobody: {
    signals_before
}}

#[test]
fn every_program_is_listed() {
    let folder = fs::read_dir(sources()).expect("tests/behaviour");
    let mut found: Vec<String> = folder
        .map(|entry| entry.expect("tests/behaviour").path())
        .filter(|path| path.extension().is_some_and(|e| e == "c"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into())
        .collect();
    found.sort();
    let mut listed = [PROGRAMS, WITH_BAD_POINTERS, BY_THE_HOSTS_CLOCK].concat();
    listed.sort_unstable();
    assert_eq!(found, listed, "the list in behaviour.rs");
    let unknown = IN_PROCESS.iter().find(|name| !listed.contains(name));
    assert_eq!(unknown, None, "a program that is not there");
}

fn agree(name: &str, form: Form, user: User) {
    // SAFETY: takes no arguments and can't fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if user == User::Nobody && !is_root {
        return; // the other test was run as an ordinary user
    }
    static PROGRAMS: Once<PathBuf> = Once::new();
    static EXPECTED: Once<Ended> = Once::new();
    let program = PROGRAMS.get(name.into(), || compile(name));
    let mut expected = EXPECTED.get(format!("{name}-{user:?}"), || {
        expected(name, &program, user)
    });
    for (_, hosts, own) in BY_ANOTHER_CLOCK.iter().filter(|(p, ..)| *p == name) {
        if form == Form::Virtual {
            assert!(expected.output.contains(hosts), "{name}: {hosts}");
            expected.output = expected.output.replace(hosts, own);
        }
    }

    let command = match form {
        Form::Trapped | Form::Auto | Form::Virtual | Form::Quick => {
            let mut command = Command::new(&staged().vink);
            command.args(["run", "--uplink", "none"]);
            match form {
                Form::Virtual => command.args(["--time", "virtual"]),
                Form::Quick => command.args(["--calls", "shared"]),
                Form::Trapped => command.args(["--calls", "trapped"]),
                Form::Auto | Form::InProcess => command.args(["--calls", "auto"]),
            };
            command.arg("--").arg(&program);
            command
        }
        Form::InProcess => {
            let mut command = Command::new(&program);
            command
                .env("LD_PRELOAD", &staged().preload)
                .env("VINK_UPLINK", "none");
            command
        }
    };
    let record = program.with_file_name(format!("{name}-{form:?}-{user:?}-vink.record"));
    let found =
        run_on_vink(command, user, &record).unwrap_or_else(|e| panic!("{name} on Vink: {e}"));
    if let Some(difference) = differ(&expected, &found) {
        panic!("{name}, {form:?}, {user:?}: {difference}\n{}", found.errors);
    }
}

/// What a program does on the host, or is to do.
fn expected(name: &str, program: &Path, user: User) -> Ended {
    if let Ok(output) = fs::read_to_string(sources().join(format!("{name}.expected"))) {
        return Ended {
            status: 0,
            output,
            errors: String::new(),
        };
    }
    let record = program.with_file_name(format!("{name}-{user:?}-host.record"));
    let ended = run(Command::new(program), user, Network::Empty, &record)
        .unwrap_or_else(|e| panic!("{name} on the host: {e}"));
    // What a set-up ends with that fails, and check.h's limit_life() what hangs.
    let nothing = [2, 128 + libc::SIGALRM];
    assert!(!nothing.contains(&ended.status), "on the host: {ended:?}");
    ended
}

fn run_on_vink(mut command: Command, user: User, record: &Path) -> io::Result<Ended> {
    command.env("VINK_IMAGE", &staged().image);
    run(command, user, Network::Same, record)
}

/// How two runs differ: a line, or the exit status.
fn differ(expected: &Ended, found: &Ended) -> Option<String> {
    let statuses = || {
        (expected.status != found.status).then(|| {
            format!(
                "exit status: {} expected, {} on Vink",
                expected.status, found.status
            )
        })
    };
    difference(&expected.output, &found.output).or_else(statuses)
}

fn sources() -> PathBuf {
    root().join("tests/behaviour")
}

fn compile(name: &str) -> PathBuf {
    let program = stage().join(name);
    let compiled = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
        ])
        .arg("-o")
        .arg(&program)
        .arg(sources().join(format!("{name}.c")))
        .output()
        .expect("cc");
    assert!(
        compiled.status.success(),
        "{name}.c: {}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    program
}

/// The command, the library and the image where every user can read them.
struct Staged {
    vink: PathBuf,
    preload: PathBuf,
    image: PathBuf,
}

fn staged() -> &'static Staged {
    static STAGED: OnceLock<Staged> = OnceLock::new();
    STAGED.get_or_init(|| Staged {
        // The library has to be beside it.
        vink: {
            place(&quick(), &stage());
            place(&vink(), &stage())
        },
        preload: place(&preload(), &stage()),

        image: place(&image(), &stage()),
    })
}
