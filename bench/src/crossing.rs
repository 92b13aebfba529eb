//! What it costs to cross the process wall of a pod, and to come back: with the pod's process on the same
//! processor, and on another one.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use vink_pod::{load, Batch, Entry, Limits, Pod, Source, Wall};

use crate::pinning::{bind, processors};
use crate::side::Round;
use crate::BoxError;

/// Crossings of one figure.
const CROSSINGS: u32 = 20_000;
/// Each frame passes.
const SOURCE: &str = "
#include \"pod.h\"
POD();
int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
	return POD_PASS;
}
";

/// Microseconds of a crossing with one frame of 60 bytes. Where there is one processor only, there is no
/// second figure.
pub(crate) fn process() -> Result<Round, BoxError> {
    let folder = std::env::temp_dir().join(format!("vink-bench-crossing-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (text, object) = (folder.join("pod.c"), folder.join("pod.so"));
    fs::write(
        folder.join("pod.h"),
        include_str!("../../include/vink/pod.h"),
    )?;
    fs::write(&text, SOURCE)?;
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .args([&object, &text])
        .status()?;
    if !status.success() {
        return Err("cc has failed".into());
    }
    let open = || {
        let loaded = load(&Source {
            file: &object,
            config: b"",
            limits: Limits {
                time: Duration::from_secs(10),
                ..Limits::default()
            },
            wall: Some(Wall::Process),
            now: 0,
            repeats: false,
        });
        loaded.map(|(pod, _)| pod)
    };
    let processors = processors()?;
    // A process starts where its parent is, and stays there.
    let mut far = match processors[..] {
        [first, _, ..] => {
            bind(first)?;
            Some(open()?)
        }
        _ => None,
    };
    bind(processors[processors.len() - 1])?;
    let mut near = open()?;
    fs::remove_dir_all(&folder)?;
    Ok(Box::new(move || {
        let near = crossing(&mut *near)?;
        let far = far.as_mut().map(|pod| crossing(&mut **pod)).transpose()?;
        Ok(vec![Some(near), far])
    }))
}

fn crossing(pod: &mut dyn Pod) -> Result<f64, BoxError> {
    let mut batch = Batch::default();
    let start = Instant::now();
    for now in 0..CROSSINGS {
        batch.clear(now.into());
        batch.push(Entry::Packet, 0, &[7; 60]);
        pod.cross(&mut batch)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(CROSSINGS))
}
