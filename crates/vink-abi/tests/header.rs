//! Holds this crate and abi.h together: a C program says what the header means, Rust compares.

use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

use vink_abi::*;

/// A C expression and the value that Rust has for it.
struct Fact(String, u64);

macro_rules! layout {
    ($facts:ident, $rust:ty, $c:literal: $($field:ident),*) => {
        $facts.push(Fact(format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
        $facts.push(Fact(format!("_Alignof(struct {})", $c), align_of::<$rust>() as u64));
        $(
            let field = stringify!($field);
            $facts.push(Fact(
                format!("offsetof(struct {}, {field})", $c),
                offset_of!($rust, $field) as u64,
            ));
            $facts.push(Fact(
                format!("sizeof(((struct {} *)0)->{field})", $c),
                field_size(|s: &$rust| &s.$field),
            ));
        )*
    };
}

macro_rules! constants {
    ($facts:ident: $($name:ident),*) => {
        $($facts.push(Fact(stringify!($name).into(), $name as u64));)*
    };
}

fn field_size<S, F>(_: fn(&S) -> &F) -> u64 {
    size_of::<F>() as u64
}

fn facts() -> Vec<Fact> {
    let mut f = Vec::new();
    layout!(f, TaskParams, "vink_task_params": cookie, entry, arg, stack_top, drop, uid, gid);
    layout!(f, Block, "vink_block": start, len);
    layout!(f, Call, "vink_call":
        nr, flags, args, space, cookie, result, signals, poll_fd, events, state, credit);
    layout!(f, Panic, "vink_panic": message, trace, depth, reserved);
    layout!(f, Counters, "vink_counters":
        tasks, machines, sockets, files, arena_pages, free_pages, switches, calls);
    layout!(f, Ops, "vink_ops":
        clock, console, panic, user_read, user_write, done, ready, gone, release, packet, probe, bell, verdict, put, flight);
    layout!(f, EndCounts, "vink_end_counts": sent, sent_bytes, lost, under_way, queued);
    layout!(f, Flight, "vink_flight": id, end, sent, arrives, lost, len, bytes, captured, reserved);
    layout!(f, Pipe, "vink_pipe": head, tail, asleep, starved, most);
    layout!(f, Frame, "vink_frame": len, reserved, header);
    layout!(f, Share, "vink_share": out, inward, out_bytes, in_bytes, size, cookie);
    layout!(f, WireSettings, "vink_wire_settings": rate, delay, jitter, flags, loss, loss_bad, to_bad,
        to_good, corrupt, duplicate, reorder, gap, limit, mtu, reserved);
    layout!(f, WireStats, "vink_wire_stats": sent, sent_bytes, received, received_bytes, lost_random,
        lost_limit, lost_mtu, lost_down, corrupted, duplicated, reordered, under_way);
    layout!(f, Packet, "vink_packet": time, end, kind, reason, name, bytes, captured, len, headless,
        put, sock);
    layout!(f, Put, "vink_put": end, kind, len, bytes);
    layout!(f, Verdict, "vink_verdict": flags, copies, delay, behind, bit);
    layout!(f, Boot, "vink_boot":
        abi_version, size, ops, host, arena, arena_size, cmdline, seed, realtime);
    layout!(f, Info, "vink_info": abi_version, size, release, version, text_start, text_end);
    layout!(f, Fault, "vink_fault":
        rip, rsp, rbp, rdi, rsi, rcx, rax, rdx, address, signal, reserved);
    constants!(f: VINK_ABI_VERSION, VINK_DEAD, VINK_NEVER, VINK_ARENA_ALIGN, VINK_ARENA_MIN,
        VINK_TASK_CONTROL, VINK_SPACE_SELF, VINK_CALL_BASE, VINK_CALL_MACHINE_CREATE,
        VINK_CALL_MACHINE_DESTROY, VINK_CALL_MACHINE_FD, VINK_CALL_TASK_CREATE,
        VINK_CALL_TASK_CLONE, VINK_CALL_TASK_EXIT, VINK_CALL_WATCH, VINK_CALL_POLL,
        VINK_CALL_TEST, VINK_CALL_RING_MAP, VINK_CALL_RING_UNMAP, VINK_CALL_RING_POLL,
        VINK_CALL_WIRE_CREATE, VINK_CALL_WIRE_DESTROY, VINK_CALL_WIRE_ATTACH,
        VINK_CALL_WIRE_DETACH, VINK_CALL_WIRE_SET, VINK_CALL_WIRE_STATE, VINK_CALL_WIRE_STATS,
        VINK_CALL_WIRE_TRACE, VINK_CALL_YIELD, VINK_CALL_PROBE, VINK_CALL_WIRE_SHARE, VINK_CALL_WIRE_CARRIER,
        VINK_CALL_WIRE_RELEASE, VINK_CALL_WIRE_PUT, VINK_CALL_WIRE_COUNTS, VINK_PACKET_FLIGHT, VINK_FLIGHT_BYTES, VINK_ASK_FRAMES, VINK_ASK_MARK, VINK_VERDICT_TAKE, VINK_ASK_DEPARTURE, VINK_ASK_ARRIVAL, VINK_ASK_LOSS, VINK_ASK_DROP,
        VINK_VERDICT_DROP, VINK_VERDICT_CORRUPT, VINK_VERDICT_AGAIN, VINK_VERDICT_UNCOUNTED, VINK_LOST_VERDICT,
        VINK_SHARE_MIN, VINK_CALL_END, VINK_WIRE_BUS, VINK_WIRE_OVERTAKE, VINK_WIRE_BURSTS,
        VINK_PACKET_DEPARTURE, VINK_PACKET_ARRIVAL, VINK_PACKET_LOSS, VINK_PACKET_DROP,
        VINK_LOST_RANDOM, VINK_LOST_LIMIT, VINK_LOST_MTU, VINK_LOST_DOWN, VINK_CLONE_THREAD,
        VINK_CLONE_FILES, VINK_TEST_BUG,
        VINK_TEST_NULL, VINK_TEST_STACK, VINK_CALL_IDLE, VINK_CALL_RUNNING, VINK_CALL_DONE,
        VINK_FLAG_POLL, VINK_FLAG_STAY, VINK_FLAG_DEFERRED, VINK_FLAG_CREDIT, VINK_FLAG_RESTART);
    f
}

fn header() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stack/include/vink/abi.h");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Compiles and runs a C program made of the header and `body`; its standard output.
fn run_c(body: &str) -> String {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header");
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let (source, program) = (dir.join("facts.c"), dir.join("facts"));
    std::fs::write(&source, body).expect("the C program");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stack/include");
    let cc = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-o"])
        .args([&program, &source])
        .arg("-I")
        .arg(include)
        .output()
        .expect("cc (apt-get install gcc)");
    assert!(
        cc.status.success(),
        "cc: {}",
        String::from_utf8_lossy(&cc.stderr)
    );
    let out = Command::new(&program).output().expect("the C program runs");
    std::fs::remove_dir_all(&dir).expect("the temporary directory goes");
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn layouts_and_constants_agree_with_the_header() {
    let facts = facts();
    let mut body = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <vink/abi.h>\nint main(void)\n{\n",
    );
    for Fact(c, _) in &facts {
        body += &format!("\tprintf(\"%llu\\n\", (unsigned long long)({c}));\n");
    }
    // The prototypes, as the fn types of this crate have them.
    body += "\tconst struct vink_info *(*info)(void) = vink_info;\n\
             \tint (*boot)(const struct vink_boot *) = vink_boot;\n\
             \tint (*run)(uint64_t *) = vink_run;\n\
             \tint (*start)(uint64_t, struct vink_call *) = vink_call_start;\n\
             \tint (*cancel)(uint64_t) = vink_call_cancel;\n\
             \tint64_t (*fiber)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,\n\
             \t\tuint64_t) = vink_fiber_call;\n\
             \tint (*fault)(struct vink_fault *) = vink_fault;\n\
             \tint (*counters)(struct vink_counters *) = vink_counters;\n\
             \treturn !info + !boot + !run + !start + !cancel + !fiber + !fault + !counters;\n}\n";
    // The image is not there: weak references satisfy the linker.
    for name in [
        "info",
        "boot",
        "run",
        "call_start",
        "call_cancel",
        "fiber_call",
        "fault",
        "counters",
    ] {
        body += &format!("#pragma weak vink_{name}\n");
    }
    let out = run_c(&body);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), facts.len());
    for (Fact(c, rust), line) in facts.iter().zip(lines) {
        assert_eq!(
            line.parse::<u64>().expect("a number"),
            *rust,
            "{c}: abi.h says {line}"
        );
    }
}

#[test]
fn nothing_of_the_header_is_missing_here() {
    let header = header();
    let facts = facts();
    let mut seen = 0;
    for line in header.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("#define"), Some(name), Some(_)) if name != "VINK_API" => {
                assert!(
                    facts.iter().any(|Fact(c, _)| c == name),
                    "{name} is not in this crate"
                );
                seen += 1;
            }
            (Some("struct"), Some(name), Some("{")) => {
                let size = format!("sizeof(struct {name})");
                assert!(
                    facts.iter().any(|Fact(c, _)| *c == size),
                    "{name} is not in this crate"
                );
                seen += 1;
            }
            _ => {}
        }
    }
    assert!(seen > 30, "abi.h was understood: {seen} definitions");
    assert_eq!(
        header.matches("\nVINK_API ").count(),
        8,
        "the exports of abi.h"
    );
}
