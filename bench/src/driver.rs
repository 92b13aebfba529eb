//! What a connection sees of the death of the driver process between it and its machine: the longest
//! round trip, while drivers are killed and started again.

use std::fs;
use std::time::Duration;

use crate::echo::{connect, round_trip};
use crate::host;
use crate::lab::Lab;
use crate::side::Round;
use crate::BoxError;

/// Labs of one round. A driver is killed once in each: one that dies again and again is started later each
/// time.
const KILLS: usize = 5;
/// Round trips before that, so that TCP knows how long one takes.
const PINGS: usize = 200;

/// Milliseconds of the longest round trip of each round.
pub(crate) fn restarts() -> Result<Round, BoxError> {
    let path = host::Path::direct()?;
    Ok(Box::new(move || {
        let mut longest = Duration::ZERO;
        for _ in 0..KILLS {
            longest = longest.max(restart(&path)?);
        }
        Ok(vec![Some(longest.as_secs_f64() * 1000.0)])
    }))
}

fn restart(path: &host::Path) -> Result<Duration, BoxError> {
    // The driver is where the lab's control process is.
    path.enter_server()?;
    let lab = Lab::up(
        "name: driver
machines:
  m: { interfaces: { eth0: { wire: out, addresses: [10.0.0.3/24] } } }
wires:
  out: { uplink: { driver: { interface: b0 } } }
",
    )?;
    lab.shell("exec m app echoserver &")?;
    path.enter_client()?;
    let mut peer = connect([10, 0, 0, 3])?;
    for _ in 0..PINGS {
        round_trip(&mut peer)?;
    }
    let killed = driver()?.ok_or("there is no driver process")?;
    // SAFETY: takes numbers.
    unsafe { libc::kill(killed, libc::SIGKILL) };
    let mut longest = Duration::ZERO;
    while driver()?.is_none_or(|pid| pid == killed) {
        longest = longest.max(round_trip(&mut peer)?);
    }
    Ok(longest.max(round_trip(&mut peer)?))
}

/// The driver process of the wire: it has a command line of its own.
fn driver() -> Result<Option<i32>, BoxError> {
    let here = fs::read_link("/proc/self/ns/pid")?;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(pid) = name.and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Processes that have ended meanwhile.
        let Ok(words) = fs::read(path.join("cmdline")) else {
            continue;
        };
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        let is_driver = words.contains(&&b"driver"[..]) && words.contains(&&b"interface:b0"[..]);
        if is_driver && fs::read_link(path.join("ns/pid")).is_ok_and(|its| its == here) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}
