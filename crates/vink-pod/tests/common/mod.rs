//! Pods compiled for a test, what they say, and what is left of them.

#![allow(dead_code, reason = "not all tests use all of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use vink_pod::{load, Batch, Entry, Fault, Limits, LoadError, Loaded, Pod, Source, Wall};

pub const STREAM: &str = "int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)";

/// What a pod says of frames and at its time, behind each wall.
pub const PACKETS: &str = "
void *memset(void *, int, unsigned long);
int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
    vink_count(direction, len);
    if (frame[0] == 0) return POD_PASS;
    if (frame[0] == 1) return POD_DROP;
    memset(frame + len, 9, room - len);
    frame[0] = 3;
    vink_emit(POD_BACK, frame, 1);
    return room;
}
void pod_timer(uint64_t now) { vink_count(2, now); }
";

/// And of units, whose bytes it counts from a constructor's number on.
pub const UNITS: &str = "
static int32_t total;
__attribute__((constructor)) static void first(void) { total = 1000; }
int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{ vink_emit(total += len, bytes, len); vink_emit(1, bytes, 1); vink_timer(vink_now() + 5); return 0; }
";

/// Frames for [`PACKETS`]: one passes, one is dropped, one is changed.
pub fn push_frames(batch: &mut Batch) {
    batch.push(Entry::Packet, 0, &[0, 1, 2]);
    batch.push(Entry::Packet, 1, &[1, 1, 2, 3]);
    batch.push(Entry::Packet, 1, &[2; 60]);
}

/// A frame as [`PACKETS`] has changed it.
pub fn is_changed(frame: &[u8]) {
    assert_eq!(frame.len(), 316);
    assert_eq!((frame[0], frame[315]), (3, 9));
    assert!(frame[1..60].iter().all(|byte| *byte == 2));
    assert!(frame[60..].iter().all(|byte| *byte == 9));
}

/// Crosses so often to a pod of [`PACKETS`] and [`UNITS`], and looks at all that it says.
pub fn converse(pod: &mut dyn Pod, rounds: u32) {
    let mut batch = Batch::default();
    for round in 0..rounds {
        batch.clear(1000);
        push_frames(&mut batch);
        batch.push(Entry::Stream, 0, b"unit");
        batch.push(Entry::Timer, 0, b"");
        pod.cross(&mut batch).unwrap();
        let answers: Vec<_> = batch.calls.iter().map(|call| call.answer).collect();
        assert_eq!(answers, [-1, 0, 316, 0, 0], "{round}");
        is_changed(&batch.emitted_bytes[batch.calls[2].changed.clone()]);
        let said = batch.emitted.iter();
        let said: Vec<_> = said
            .map(|it| (it.call, it.output, &batch.emitted_bytes[it.bytes.clone()]))
            .collect();
        let total = 1000 + 4 * (round + 1);
        assert_eq!(
            said,
            [(2, 1, &b"\x03"[..]), (3, total, b"unit"), (3, 1, b"u")]
        );
        assert_eq!(batch.counted[..3], [3, 64, 1000]);
        assert_eq!(batch.timer, Some(1005));
        assert!(batch.cycles > 0);
    }
}

/// One crossing with one call of `pod_stream()`.
pub fn stream(pod: &mut dyn Pod, bytes: &[u8]) -> (Result<(), Fault>, Batch) {
    let mut batch = Batch::default();
    batch.clear(7);
    batch.push(Entry::Stream, 0, bytes);
    let done = pod.cross(&mut batch);
    (done, batch)
}

/// Computes for as long as its unit says.
pub const WORK: &str = "
int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{ for (volatile uint32_t left = *(uint32_t *)bytes; left; left--); return 0; }
";

/// A crossing says how long the processor had to work for it, if that is asked, and for no other one.
pub fn takes_time(pod: &mut dyn Pod) {
    let mut time = |steps: u32, wants_time: bool| {
        let mut batch = Batch::default();
        batch.clear(7);
        batch.wants_time = wants_time;
        batch.push(Entry::Stream, 0, &steps.to_ne_bytes());
        pod.cross(&mut batch).expect("time enough");
        batch.time
    };
    const LONG: u32 = 200_000_000;
    let long = time(LONG, true);
    assert_eq!(time(LONG, false), 0);
    for _ in 0..2 {
        let short = time(1, true);
        assert!(0 < short && short < long / 2, "{short} of {long} ns");
    }
}

/// What a unit ends a pod with. It stays so, and says so.
pub fn ends(pod: &mut dyn Pod, bytes: &[u8], what: &str) -> Fault {
    let fault = stream(pod, bytes).0.expect_err(what);
    let again = stream(pod, bytes).0;
    assert_eq!(again, Err(Fault::Gone("before".to_owned())), "{what}");
    fault
}

/// Beside each attack another pod goes on with its work.
pub struct Bystander {
    pod: Box<dyn Pod>,
    /// Bytes of units so far.
    total: u32,
}

impl Bystander {
    pub const SOURCE: &str = "
int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{ static int total; total += len; vink_emit(total, bytes, len); return 0; }
";

    /// Of [`Bystander::SOURCE`].
    pub fn new(pod: Box<dyn Pod>) -> Bystander {
        Bystander { pod, total: 0 }
    }

    pub fn goes_on(&mut self, after: &str) {
        self.total += 4;
        let (done, batch) = stream(&mut *self.pod, b"unit");
        done.expect(after);
        let said = batch.emitted.iter();
        let said: Vec<_> = said
            .map(|it| (it.output, &batch.emitted_bytes[it.bytes.clone()]))
            .collect();
        assert_eq!(said, [(self.total, &b"unit"[..])], "{after}");
    }
}

/// A folder for a test's pods, which goes with it.
pub struct Place {
    pub folder: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Place {
        let name = format!("vink-pod-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("its mode");
        Place { folder }
    }

    /// Compiles this behind `pod.h` and `POD();`.
    pub fn compile(&self, source: &str, options: &[&str]) -> PathBuf {
        self.compile_bare(&format!("POD();\n{source}"), options)
    }

    /// Compiles this behind `pod.h`.
    pub fn compile_bare(&self, source: &str, options: &[&str]) -> PathBuf {
        let to = ["-shared", "-fPIC", "-O1", "-w", "-o", "pod.so"];
        self.by("cc", &[&to, options].concat(), source);
        self.folder.join("pod.so")
    }

    /// Compiles this as a module, behind `pod.h`, some of libc and `POD();`.
    pub fn compile_module(&self, source: &str) -> PathBuf {
        let source = format!(
            "#include <stdlib.h>\n#include <stdio.h>\n#include <string.h>\nPOD();\n{source}"
        );
        let options = [
            "--target=wasm32-wasi",
            "-mexec-model=reactor",
            "-O1",
            "-w",
            "-Wl,-z,stack-size=1000000",
            "-o",
            "pod.wasm",
        ];
        self.by("clang-16", &options, &source);
        self.folder.join("pod.wasm")
    }

    /// A pipe with a name.
    pub fn pipe(&self, name: &str) -> PathBuf {
        let pipe = self.folder.join(name);
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        pipe
    }

    fn by(&self, compiler: &str, options: &[&str], source: &str) {
        let head = format!("#define _GNU_SOURCE\n#include \"pod.h\"\n{source}\n");
        fs::write(self.folder.join("pod.c"), head).expect("a source");
        fs::write(self.folder.join("pod.h"), POD_H).expect("pod.h");
        let output = Command::new(compiler)
            .arg("pod.c")
            .args(options)
            .current_dir(&self.folder)
            .output()
            .expect("a compiler: make setup installs it");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{source}");
    }

    pub fn load(&self, source: &str, config: &[u8], limits: Limits) -> Result<Loaded, LoadError> {
        load_file(&self.compile(source, &[]), config, limits)
    }
}

const POD_H: &str = include_str!("../../../../include/vink/pod.h");

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn load_file(file: &Path, config: &[u8], limits: Limits) -> Result<Loaded, LoadError> {
    load_with(file, config, limits, Wall::Process)
}

pub fn load_with(
    file: &Path,
    config: &[u8],
    limits: Limits,
    wall: Wall,
) -> Result<Loaded, LoadError> {
    load(&Source {
        file,
        config,
        limits,
        wall: Some(wall),
        now: 0,
        repeats: false,
    })
}
