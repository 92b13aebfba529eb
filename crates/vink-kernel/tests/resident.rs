//! The host has memory back that a kernel frees. Alone in its process: it is the resident memory of a process that counts.

mod common;

use common::boot;
use vink_kernel::{Clock, Config};

/// Resident memory of this process in bytes: proc(5), statm.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("read statm");
    let pages: i64 = statm
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("pages");
    pages * 4096
}

#[test]
fn memory_of_machines_goes_back_to_the_host() {
    let mut kernel = boot(Config {
        arena_bytes: 256 << 20,
        clock: Clock::Virtual,
        ..Config::default()
    });
    let before = resident();
    let machines: Vec<_> = (0..300)
        .map(|_| kernel.machine("passing").expect("a machine"))
        .collect();
    let grown = resident() - before;
    for machine in machines {
        kernel.destroy_machine(machine).expect("it goes");
    }
    // Namespaces end in the background, and free memory is reported two seconds later.
    let end = kernel.now() + 60_000_000_000;
    while kernel.now() < end {
        let next = kernel.run().expect("it runs").unwrap_or(end);
        kernel.wait(next.min(end));
    }
    let left = resident() - before;
    assert!(left < grown / 2, "{left} of {grown} bytes are still here");
}
