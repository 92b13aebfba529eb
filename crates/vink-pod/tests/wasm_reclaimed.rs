//! What is left of a pod behind the WebAssembly wall when it is gone: nothing. Alone in its process,
//! whose memory it looks at.

use std::fs;
use std::path::Path;

use vink_pod::{load, Batch, Entry, Limits, Source};

/// A page of memory, all of which is written to. A unit that starts with 1 ends it.
const MODULE: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "pod_version") (result i32) i32.const 1)
    (func (export "pod_stream") (param i32 i32 i32) (result i32)
        (local i32)
        (loop
            (i32.store (local.get 3) (i32.const 7))
            (local.set 3 (i32.add (local.get 3) (i32.const 1024)))
            (br_if 0 (i32.lt_u (local.get 3) (i32.const 65536))))
        (if (i32.load8_u (local.get 0)) (then unreachable))
        i32.const 0))"#;

/// Mappings, kB of address space, kB of memory.
fn had() -> [i64; 3] {
    let maps = fs::read_to_string("/proc/self/maps").expect("mappings");
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.and_then(|word| word.parse().ok()).expect(name)
    };
    [
        maps.lines().count() as i64,
        number("VmSize:"),
        number("VmRSS:"),
    ]
}

fn round(file: &Path, n: usize) {
    let source = Source {
        file,
        config: b"",
        limits: Limits::default(),
        wall: None,
        now: 0,
        repeats: n % 4 < 2,
    };
    let (mut pod, _) = load(&source).expect("a pod");
    let mut batch = Batch::default();
    batch.push(Entry::Stream, 0, &[(n % 2) as u8]);
    assert_eq!(pod.cross(&mut batch).is_err(), n % 2 == 1);
}

#[test]
fn nothing_is_left() {
    let name = format!("vink-pod-{}.wasm", std::process::id());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, wat::parse_str(MODULE).expect("a module")).expect("a file");
    for n in 0..100 {
        round(&file, n);
    }
    let before = had();
    for n in 0..400 {
        round(&file, n);
    }
    let after = had();
    fs::remove_file(&file).expect("the file");
    // A memory has 4 GB of address space, and 128 kB of it were used.
    for ((after, before), most) in after.iter().zip(before).zip([8, 1 << 20, 8 << 10]) {
        assert!(after - before < most, "{after}, before {before}");
    }
}
