//! What a pod's wall costs: crossings of WebAssembly and of protection keys, and code beside native code.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use vink_pod::{cycles, load, Batch, Entry, Limits, Pod, Source, Wall};

use crate::side::Round;
use crate::BoxError;

/// Crossings of one figure.
const CROSSINGS: u64 = 200_000;
/// Bytes of the unit that is computed over.
const UNIT: usize = 1 << 20;
/// A frame passes; of a unit the checksum (CRC-32) is computed by a table.
const SOURCE: &str = "
#include \"pod.h\"
POD();
static uint32_t table[256];
int32_t pod_init(const char *config, uint32_t len)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320 ^ (c >> 1) : c >> 1;
		table[i] = c;
	}
	return 0;
}
int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
	return POD_PASS;
}
int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{
	uint32_t c = ~0u;
	while (len--)
		c = table[(c ^ *bytes++) & 255] ^ (c >> 8);
	vink_emit(0, &c, 4);
	return 0;
}
";

/// Cycles of the time stamp counter for a batch of one frame of 60 bytes, from its filling on, and how
/// many times as long the checksum takes as behind the process wall.
pub(crate) fn wasm() -> Result<Round, BoxError> {
    let folder = source()?;
    let clang = ["--target=wasm32-wasi", "-mexec-model=reactor"];
    let module = compiled(&folder, "clang-16", &clang, "pod.wasm");
    let object = compiled(&folder, "clang-16", &["-shared", "-fPIC"], "pod.so");
    let (mut module, mut object) = (open(&module?, Wall::Wasm)?, open(&object?, Wall::Process)?);
    fs::remove_dir_all(&folder)?;
    Ok(Box::new(move || {
        let crossing = crossing(&mut *module)?;
        let ratio = compute(&mut *module)?.as_secs_f64() / compute(&mut *object)?.as_secs_f64();
        Ok(vec![Some(crossing), Some(ratio)])
    }))
}

/// The same cycles by protection keys; none where the host has no keys.
pub(crate) fn key() -> Result<Round, BoxError> {
    if let Err(why) = vink_pod::key::probe() {
        eprintln!("pod_cross_key_cycles: no keys: {why}");
        return Ok(Box::new(|| Ok(vec![None])));
    }
    let folder = source()?;
    let options = ["-shared", "-fPIC", "-fno-stack-protector"];
    let object = compiled(&folder, "clang-16", &options, "pod.so");
    let mut pod = open(&object?, Wall::Key)?;
    fs::remove_dir_all(&folder)?;
    Ok(Box::new(move || Ok(vec![Some(crossing(&mut *pod)?)])))
}

/// A folder with the pod's source.
fn source() -> Result<PathBuf, BoxError> {
    let folder = std::env::temp_dir().join(format!("vink-bench-pods-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let header = include_str!("../../include/vink/pod.h");
    fs::write(folder.join("pod.h"), header)?;
    fs::write(folder.join("pod.c"), SOURCE)?;
    Ok(folder)
}

fn compiled(
    folder: &Path,
    compiler: &str,
    options: &[&str],
    name: &str,
) -> Result<PathBuf, BoxError> {
    let pod = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(options).args(["-O2", "-o"]);
    command.args([&pod, &folder.join("pod.c")]);
    let status = command
        .status()
        .map_err(|error| format!("{compiler}: {error}; make setup installs it"))?;
    match status.success() {
        true => Ok(pod),
        false => Err(format!("{compiler} has failed").into()),
    }
}

fn open(file: &Path, wall: Wall) -> Result<Box<dyn Pod>, BoxError> {
    let limits = Limits {
        time: Duration::from_secs(10),
        ..Limits::default()
    };
    let (pod, _) = load(&Source {
        file,
        config: b"",
        limits,
        wall: Some(wall),
        now: 0,
        repeats: false,
    })?;
    Ok(pod)
}

fn crossing(pod: &mut dyn Pod) -> Result<f64, BoxError> {
    let frame = black_box([7; 60]);
    let mut batch = Batch::default();
    let start = cycles();
    for now in 0..CROSSINGS {
        batch.clear(now);
        batch.push(Entry::Packet, 0, &frame);
        pod.cross(&mut batch)?;
    }
    Ok((cycles() - start) as f64 / CROSSINGS as f64)
}

fn compute(pod: &mut dyn Pod) -> Result<Duration, BoxError> {
    let mut batch = Batch::default();
    let mut best = Duration::MAX;
    for now in 0..10 {
        batch.clear(now);
        batch.push(Entry::Stream, 0, &[7; UNIT]);
        let start = Instant::now();
        pod.cross(&mut batch)?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}
