//! What is left of a pod behind the process wall when it is gone: nothing. Alone in its process, which it counts in.

mod common;

use common::{load_file, Place};
use vink_pod::{Batch, Entry, Limits};

/// Descriptors, mappings and children of this process.
fn had() -> (usize, usize, String) {
    let count = |folder: &str| std::fs::read_dir(folder).expect("a folder").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
    let maps = maps
        .lines()
        .filter(|line| line.contains("vink-pod"))
        .count();
    let own = vink_sys::process::gettid();
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    (count("/proc/self/fd"), maps, children.expect("children"))
}

#[test]
fn nothing_is_left() {
    let place = Place::new("reclaimed");
    let good = place.compile("", &[]);
    let kept = place.folder.join("good.so");
    std::fs::rename(good, &kept).unwrap();
    let ends = [
        "for (;;);",
        "*(volatile int *)8 = 1;",
        "__builtin_trap();",
        "vink_emit(0, (void *)8, 1);",
    ];
    let bad = ends
        .iter()
        .enumerate()
        .map(|(n, body)| format!("if (bytes[0] == {n}) {{ {body} }}"));
    let bad = bad.collect::<String>();
    let bad = place.compile(
        &format!("int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags) {{ {bad} return 1; }}"),
        &[],
    );
    let limits = Limits {
        time: std::time::Duration::from_millis(5),
        ..Limits::default()
    };
    let broken = place.folder.join("pod.h");
    let round = |n: u8| {
        let (pod, _) = load_file(&kept, b"", limits.clone()).unwrap();
        let (mut ended, _) = load_file(&bad, b"", limits.clone()).unwrap();
        let mut batch = Batch::default();
        batch.push(Entry::Stream, 0, &[n % 5]);
        ended.cross(&mut batch).unwrap_err();
        load_file(&broken, b"", limits.clone())
            .map(drop)
            .unwrap_err();
        drop((pod, ended));
    };
    round(0);
    let before = had();
    assert_eq!((before.1, before.2.as_str()), (0, ""));
    for n in 0..60 {
        round(n);
    }
    assert_eq!(had(), before);
}
