//! Pods behind the WebAssembly wall: what they can do, that they are ended for all else, with the
//! others as they were, and that they do the same in each run. As root, and as an ordinary user.

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{
    ends, is_changed, push_frames, stream, takes_time, Bystander, Place, PACKETS, STREAM, WORK,
};
use vink_pod::{load, Batch, Entry, Fault, Limits, LoadError, Loaded, Pod, Source, Wall};

fn limits() -> Limits {
    Limits {
        // Others may use the processors, and this may not be optimised.
        time: Duration::from_millis(200),
        emit: 100_000,
        memory: 8 << 20,
    }
}

/// For what is to end well, on a machine with other work.
fn wide() -> Limits {
    Limits {
        time: Duration::from_secs(1),
        ..Limits::default()
    }
}

/// A module from its text.
fn text(place: &Place, text: &str) -> PathBuf {
    let pod = place.folder.join("pod.wasm");
    let version = "(func (export \"pod_version\") (result i32) i32.const 1)";
    let text = text.replace("VERSION", version);
    std::fs::write(&pod, wat::parse_str(&text).expect(&text)).expect("a module");
    pod
}

fn load_with(
    file: &Path,
    limits: Limits,
    repeats: bool,
    wall: Option<Wall>,
) -> Result<Loaded, LoadError> {
    load(&Source {
        file,
        config: b"text",
        limits,
        wall,
        now: 5,
        repeats,
    })
}

fn load_module(file: &Path) -> Result<Loaded, LoadError> {
    load_with(file, limits(), false, None)
}

#[test]
fn crossings_say_how_long_the_processor_works() {
    let place = Place::new("time");
    let wide = Limits {
        time: Duration::from_secs(60),
        ..Limits::default()
    };
    let (mut pod, _) = load_with(&place.compile_module(WORK), wide, false, None).unwrap();
    takes_time(&mut *pod);
}

/// All that a pod has said.
type Said = (
    Vec<i32>,
    Vec<(usize, u32, Vec<u8>)>,
    Vec<Vec<u8>>,
    [i64; 16],
    Option<u64>,
    Vec<String>,
);

fn said(batch: &Batch) -> Said {
    let bytes = |range: &std::ops::Range<usize>| batch.emitted_bytes[range.clone()].to_vec();
    let emitted = batch.emitted.iter();
    (
        batch.calls.iter().map(|call| call.answer).collect(),
        emitted
            .map(|it| (it.call, it.output, bytes(&it.bytes)))
            .collect(),
        batch
            .calls
            .iter()
            .map(|call| bytes(&call.changed))
            .collect(),
        batch.counted,
        batch.timer,
        batch.log.clone(),
    )
}

/// Two frames, two units and a timer, three times; the second unit is larger than a page.
fn conversation(pod: &mut dyn Pod) -> Vec<Said> {
    let large: Vec<u8> = (0..150_000u32).map(|n| n as u8).collect();
    let mut all = Vec::new();
    for round in 0..3u8 {
        let mut batch = Batch::default();
        batch.clear(1000 + u64::from(round));
        push_frames(&mut batch);
        batch.push(Entry::Stream, 0, b"unit");
        batch.push(Entry::Stream, 1, &large);
        batch.push(Entry::Timer, 0, b"");
        pod.cross(&mut batch).unwrap();
        assert!(batch.cycles > 0);
        all.push(said(&batch));
    }
    all
}

/// A pod with malloc(), whose blocks it looks at again: nothing else may have written to them.
const SOURCE: &str = "
static uint8_t *kept[40]; static int count; static float f = 0.1f;
int32_t pod_init(const char *config, uint32_t len)
{ vink_log(config, len); printf(\"printed %d %.6f\\n\", 5, 1 / 3.0); fflush(stdout); return 0; }
int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{
    uint32_t sum = 0;
    for (int n = 0; n < 3; n++) {
        kept[count] = malloc(50000);
        memset(kept[count], count + 1, 50000);
        count++;
    }
    for (int n = 0; n < count; n++)
        for (int i = 0; i < 50000; i++)
            if (kept[n][i] != n + 1) return 7;
    for (uint32_t i = 0; i < len; i++) { sum = sum * 31 + bytes[i]; f = f * 1.01f + bytes[i]; }
    vink_emit(sum, bytes, len > 10 ? 10 : len);
    vink_emit(1, &f, 4);
    vink_timer(vink_now() + 5);
    return 0;
}
";

/// One source, the same answers: as a module by both clocks, and behind the process wall.
#[test]
fn calls_and_what_they_say() {
    let place = Place::new("wasm-calls");
    let source = format!("{PACKETS} {SOURCE}");
    let file = place.compile_module(&source);
    let (mut pod, init) = load_with(&file, wide(), false, None).unwrap();
    assert_eq!(pod.wall(), Wall::Wasm);
    assert_eq!(init.log, ["text", "printed 5 0.333333"]);
    let memory = pod.memory();
    assert!(memory > 64 << 10, "{memory}");
    let first = conversation(&mut *pod);
    assert_eq!(first[0].0, [-1, 0, 316, 0, 0, 0]);
    is_changed(&first[0].2[2]);
    assert_eq!(first[0].1[0], (2, 1, vec![3]));
    assert_eq!(first[0].3[..3], [3, 64, 1000]);
    assert_eq!(first[0].4, Some(1005));
    assert!(pod.memory() > memory + 400_000);
    let (mut pod, _) = load_with(&file, wide(), true, None).unwrap();
    assert_eq!(conversation(&mut *pod), first, "by fuel");
    let libc = "#include <stdlib.h>\n#include <stdio.h>\n";
    let object = place.compile(&format!("{libc}{source}"), &[]);
    let wall = Some(Wall::Process);
    let (mut pod, _) = load_with(&object, wide(), false, wall).unwrap();
    assert_eq!(conversation(&mut *pod), first, "natively");
}

/// What is not exported is as if it did nothing.
#[test]
fn missing_functions() {
    let place = Place::new("wasm-missing");
    let (mut pod, _) = load_module(&place.compile_module("")).unwrap();
    let mut batch = Batch::default();
    batch.clear(1);
    batch.push(Entry::Packet, 0, b"frame");
    batch.push(Entry::Stream, 0, b"unit");
    batch.push(Entry::Timer, 0, b"");
    pod.cross(&mut batch).unwrap();
    let (answers, emitted, ..) = said(&batch);
    assert_eq!(answers, [-1, 0, 0]);
    assert_eq!(emitted, [(1, 0, b"unit".to_vec())]);
}

fn code(start: &str) -> Fault {
    Fault::Code(start.to_owned())
}

/// Whether it is this; of a fault of code, how it starts.
fn is(fault: &Fault, expected: &Fault) -> bool {
    match (fault, expected) {
        (Fault::Code(found), Fault::Code(start)) => found.starts_with(start),
        _ => fault == expected,
    }
}

#[test]
fn attacks_end_it() {
    let place = Place::new("wasm-attacks");
    let other = place.folder.join("other.wasm");
    std::fs::rename(place.compile_module(Bystander::SOURCE), &other).unwrap();
    let limits = limits();
    let time = Fault::Time(limits.time);
    let memory = Fault::Memory(limits.memory);
    let emit = Fault::Emit(limits.emit);
    let beyond = code("reached beyond its memory, in pod_stream() at 0x");
    let help = "
        typedef int32_t (*other_type)(const char *, int64_t);
        static int32_t one(const char *text) { return text[0]; }
        void *volatile functions[2] = { one, 0 };
        __attribute__((noinline)) int recurse(volatile int n) { return n ? recurse(n + 1) + n : 0; }
        __attribute__((noinline)) int deep(volatile int n) { volatile char a[1000]; a[0] = n; return deep(n + 1) + a[n % 1000]; }
        volatile int zero;";
    let cases: Vec<(&str, Fault)> = vec![
        ("return *(volatile int *)0x7fffffff;", beyond.clone()),
        ("*(volatile int *)-1 = 1;", beyond.clone()),
        (
            "*(volatile char *)(__builtin_wasm_memory_size(0) << 16) = 1;",
            beyond.clone(),
        ),
        ("((volatile char *)0xfffffff0)[15] = 1;", beyond.clone()),
        (
            "memset((void *)bytes, 1, 1 << 30);",
            code("reached beyond its memory, in memset()"),
        ),
        (
            "((other_type)functions[0])(\"\", 5);",
            code("called a function of another type"),
        ),
        (
            "((int (*)(void))(intptr_t)12345)();",
            code("called what is no function"),
        ),
        (
            "((int (*)(void))functions[1])();",
            code("called what is no function"),
        ),
        (
            "return 77 / zero;",
            code("divided by zero, in pod_stream()"),
        ),
        (
            "return (int)0x80000000 / (zero - 1);",
            code("did what it may not (integer overflow)"),
        ),
        ("__builtin_trap();", code("trapped, in pod_stream()")),
        ("abort();", code("called abort(3)")),
        ("exit(3);", code("called exit(3)")),
        (
            "return recurse(1);",
            code("used up its stack, in recurse()"),
        ),
        // Down from the bottom of its memory's stack.
        (
            "return deep(1);",
            code("reached beyond its memory, in deep()"),
        ),
        ("for (;;);", time.clone()),
        ("for (;;) vink_count(0, 1);", time.clone()),
        ("for (;;) vink_log(\"\", 0);", emit.clone()),
        ("for (;;) vink_emit(0, bytes, 0);", emit.clone()),
        ("for (;;) vink_emit(0, bytes, len);", emit.clone()),
        ("for (;;) vink_log(\"line\", 4);", emit.clone()),
        ("for (;;) printf(\"line\\n\");", emit.clone()),
        (
            "for (;;) { void *volatile p = malloc(100000); memset(p, 1, 100000); }",
            memory.clone(),
        ),
        ("__builtin_wasm_memory_grow(0, 60000); return 0;", memory),
        (
            "vink_emit(0, (void *)0xffffffff, 1);",
            Fault::Argument("vink_emit()"),
        ),
        (
            "vink_emit(0, bytes, 0xffffffff);",
            Fault::Argument("vink_emit()"),
        ),
        (
            "vink_emit(0, (void *)16, 0xfffffff8);",
            Fault::Argument("vink_emit()"),
        ),
        ("vink_emit(0, 0, 1);", Fault::Argument("vink_emit()")),
        (
            "vink_emit(0, bytes, (__builtin_wasm_memory_size(0) << 16) - (intptr_t)bytes + 1);",
            Fault::Argument("vink_emit()"),
        ),
        (
            "vink_log((char *)0xfffffff0, 32);",
            Fault::Argument("vink_log()"),
        ),
        ("vink_count(16, 1);", Fault::Argument("vink_count()")),
        ("return 3;", Fault::Refused("pod_stream()", 3)),
    ];
    let witness = |repeats| {
        let (pod, _) = load_with(&other, limits.clone(), repeats, None).unwrap();
        (repeats, Bystander::new(pod))
    };
    let mut witnesses = [false, true].map(witness);
    for (body, expected) in &cases {
        let file = place.compile_module(&format!("{help}\n{STREAM} {{ {body} return 0; }}"));
        for (repeats, witness) in &mut witnesses {
            let (mut pod, _) = load_with(&file, limits.clone(), *repeats, None).expect(body);
            let found = ends(&mut *pod, b"unit", body);
            assert!(is(&found, expected), "{body}: {found:?}");
            assert_eq!(pod.memory(), 0, "{body}");
            witness.goes_on(body);
        }
    }
}

/// What may be: the edge of its memory, of what it may emit, and what grows.
#[test]
fn edges_are_its_own() {
    let place = Place::new("wasm-edges");
    for body in [
        "uint32_t end = __builtin_wasm_memory_size(0) << 16; ((volatile char *)end)[-1] = 1; vink_emit(0, (char *)end - 1, 1);",
        "vink_emit(0, (void *)(__builtin_wasm_memory_size(0) << 16), 0);",
        "char *p = malloc(90000); memset(p, 1, 90000); vink_emit(0, p, 90000);",
        "vink_log(\"\", 0); vink_emit(0, 0, 0);",
    ] {
        let file = place.compile_module(&format!("{STREAM} {{ {body} return 0; }}"));
        let (mut pod, _) = load_module(&file).unwrap();
        stream(&mut *pod, b"unit").0.expect(body);
    }
    // A frame may not become longer than its room.
    let file = place.compile_module("int32_t pod_packet(uint8_t *f, uint32_t len, uint32_t room, uint32_t d) { return room + f[0]; }");
    for (more, ok) in [(0, true), (1, false)] {
        let (mut pod, _) = load_module(&file).unwrap();
        let mut batch = Batch::default();
        batch.push(Entry::Packet, 0, &[more; 60]);
        assert_eq!(pod.cross(&mut batch).is_ok(), ok, "{more}");
    }
}

/// With fuel a pod ends at the same instruction in each run: as many lines were logged.
#[test]
fn fuel_ends_at_the_same_instruction() {
    let place = Place::new("wasm-fuel");
    let file = place.compile_module(&format!("{STREAM} {{ for (int n = 0;; n++) {{ vink_count(n % 7, 1); if (n % 1000 == 0) vink_log(\".\", 1); }} }}"));
    let short = Limits {
        time: Duration::from_millis(20),
        ..limits()
    };
    let run = || {
        let (mut pod, _) = load_with(&file, short.clone(), true, None).unwrap();
        let (done, batch) = stream(&mut *pod, b"unit");
        assert_eq!(done, Err(Fault::Time(short.time)));
        (batch.counted, batch.log.len(), batch.cycles)
    };
    let first = run();
    assert!(first.1 > 100, "{first:?}");
    assert_eq!(run(), first);
    let took = || {
        let (mut pod, _) = load_with(&place.compile_module(SOURCE), wide(), true, None).unwrap();
        let (_, batch) = stream(&mut *pod, b"unit");
        batch.cycles
    };
    assert_eq!(took(), took());
    assert!(took() > 150_000);
}

/// In a lab that repeats, bits of a NaN that the processor chooses are not seen.
#[test]
fn a_nan_is_one_nan() {
    let place = Place::new("wasm-nan");
    let file = place.compile_module(&format!(
        "volatile float zero, minus = -1; {STREAM} {{
        float made[3] = {{ zero / zero, __builtin_sqrtf(minus), -(zero / zero) + 1 }};
        vink_emit(0, made, 12); return 0; }}"
    ));
    let (mut pod, _) = load_with(&file, limits(), true, None).unwrap();
    let (done, batch) = stream(&mut *pod, b"unit");
    done.unwrap();
    assert_eq!(batch.emitted_bytes, [0, 0, 0xc0, 0x7f].repeat(3));
}

/// Modules that are refused, and what to do about it.
#[test]
fn bad_modules() {
    let place = Place::new("wasm-bad");
    let memory = "(memory (export \"memory\") 1)";
    for (module, says) in [
        ("(module)".to_owned(), "it exports no memory named \"memory\""),
        (format!("(module {memory})"), "write POD(); in it"),
        (format!("(module {memory} (func (export \"pod_version\") (result i32) i32.const 9))"), "for version 9 of vink/pod.h, and Vink has 1"),
        (format!("(module (import \"vink\" \"open\" (func)) {memory} VERSION)"), "it calls open of Vink's, which is not in vink/pod.h of this version"),
        (format!("(module (import \"env\" \"cos\" (func)) {memory} VERSION)"), "link a library that has cos() (clang -l)"),
        (format!("(module (import \"vink\" \"now\" (func)) {memory} VERSION)"), "can't be linked"),
        ("(module (import \"env\" \"memory\" (memory 1)) VERSION)".to_owned(), "a pod has a memory and tables of its own"),
        (format!("(module (import \"wasi_snapshot_preview1\" \"sock_accept\" (func (param i32 i32 i32) (result i32))) {memory} VERSION)"), "leave out what calls it"),
        (format!("(module {memory} (memory 1) VERSION)"), "multi"),
        (format!("(module {memory} VERSION (func $s unreachable) (start $s))"), "ended in its start function: it trapped, in s()"),
        (format!("(module {memory} VERSION (func $s (loop br 0)) (start $s))"), "ended in its start function: it took longer than 200ms"),
        (format!("(module (import \"vink\" \"now\" (func $now (result i64))) {memory} VERSION (func $s (drop (call $now))) (start $s))"), "ended in its start function: it called Vink"),
        (format!("(module {memory} VERSION (func (export \"_initialize\") (loop br 0)))"), "ended in _initialize(): it took longer than 200ms"),
        (format!("(module {memory} VERSION (func (export \"pod_init\") (param i32 i32) (result i32) i32.const 4))"), "it refused: pod_init() returned 4"),
        (format!("(module {memory} VERSION (func (export \"pod_packet\") (param i64)))"), "its pod_packet() is not as vink/pod.h declares it"),
        ("(module (memory (export \"memory\") 2000) VERSION)".to_owned(), "wanted more than 8388608 bytes of memory"),
        (format!("(module {memory} (table 9000000 funcref) VERSION)"), "wanted more than 8388608 bytes of memory"),
        (format!("(module {memory} VERSION (data (i32.const 65535) \"ab\"))"), "ended in its start function: it reached beyond its memory"),
        ("(component)".to_owned(), "no module of WebAssembly's version 1"),
    ] {
        let file = text(&place, &module);
        let error = load_module(&file).map(drop).expect_err(&module).to_string();
        let starts = error.starts_with(&format!("{}: ", file.display()));
        assert!(starts && error.contains(says), "{module}: {error}");
    }
    let file = place.folder.join("pod.wasm");
    for (bytes, says) in [
        (b"\x7fELF".to_vec(), "no WebAssembly module: clang-16"),
        (b"\0asm\x01\0\0\0\x7f".to_vec(), "can't be compiled"),
        (
            [&b"\0asm\x01\0\0\0"[..], &[0; 17 << 20]].concat(),
            "a module may have 16777216",
        ),
    ] {
        std::fs::write(&file, &bytes).unwrap();
        let error = load_module(&file).map(drop).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = load_module(&place.pipe("pipe.wasm")).map(drop).unwrap_err();
    assert!(error.to_string().contains("is no file"), "{error}");
    // Files for other walls.
    let error = load_with(&file, limits(), false, Some(Wall::Process)).map(drop);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the process wall takes"), "{error}");
    let object = place.compile("", &[]);
    let error = load_with(&object, limits(), false, Some(Wall::Wasm)).map(drop);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no WebAssembly module: clang-16"), "{error}");
}
