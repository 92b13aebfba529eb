//! What a flooded port of a switch leaves of the round trips between others: machines in workers of their own
//! at Vink's switch, and network namespaces at a bridge of the host.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::filter_change::count;
use crate::host::Bridged;
use crate::kvs;
use crate::lab::Lab;
use crate::side::Round;
use crate::switch::number;
use crate::work::{self, Host, Socket, ON};
use crate::BoxError;

/// From one round trip's begin to the next one's, and for how long there are some.
const INTERVAL: Duration = Duration::from_micros(200);
const MEASURED: Duration = Duration::from_secs(2);
/// Bytes of a datagram of the flood, as the app's.
const SIZE: usize = 1200;
/// Port of what is flooded.
const FLOODED: u16 = 9;

/// Those with what floods, what reads that, and what does not.
const FIVE: &str = "name: flood
machines:
  a: { worker: a, interfaces: { eth0: { switch: sw, addresses: [10.0.0.1/24] } } }
  b: { worker: b, interfaces: { eth0: { switch: sw, addresses: [10.0.0.2/24] } } }
  flood: { worker: flood, interfaces: { eth0: { switch: sw, addresses: [10.0.0.3/24] } } }
  reads: { worker: reads, interfaces: { eth0: { switch: sw, addresses: [10.0.0.4/24] } } }
  deaf: { worker: deaf, interfaces: { eth0: { switch: sw, addresses: [10.0.0.5/24] } } }
switches: { sw: {} }
";

/// By how much the 99th percentile of round trips of two machines grows while a third one sends as fast
/// as it can to a machine that reads, and to one that does not; the larger of the two.
pub(crate) fn on_vink() -> Result<Round, BoxError> {
    let lab = Lab::up(FIVE)?;
    for line in [
        "exec b app httpserver &",
        "exec reads app sink -u &",
        "exec flood app ping -c 1 deaf",
    ] {
        lab.shell(line)?;
    }
    Ok(Box::new(move || {
        let idle = p99(&lab)?;
        let beside = |to: &str| -> Result<f64, BoxError> {
            lab.shell(&format!("exec flood app source -u -r max -t 1h {to} &"))?;
            let found = p99(&lab);
            lab.end("source")?;
            found
        };
        let reads = beside("reads")?;
        let stopped = Stopped::new(lab.pid("deaf")?)?;
        let deaf = beside("deaf")?;
        drop(stopped);
        let worse = reads.max(deaf) / idle;
        Ok([worse, idle, reads, deaf].map(Some).to_vec())
    }))
}

/// Of round trips between two machines, us.
fn p99(lab: &Lab) -> Result<f64, BoxError> {
    let said = lab.shell("exec a app http -t 2s -k 200us -s 1 10.0.0.2")?;
    Ok(number(&said, "\"p99\":")? * 1e6)
}

/// The same on the host: what is sent, sent back and read by threads of this process.
pub(crate) fn on_the_host() -> Result<Round, BoxError> {
    let bridged = Bridged::without_rules(3)?;
    bridged.enter_server(0)?;
    let echo = Socket::listener(&Host)?;
    let mut flooded = Vec::new();
    for number in [1, 2] {
        bridged.enter_server(number)?;
        flooded.push(UdpSocket::bind(("0.0.0.0", FLOODED))?);
    }
    flooded[0].set_read_timeout(Some(Duration::from_secs(1)))?;
    bridged.enter_client(1)?;
    let mut floods = Vec::new();
    for number in [1, 2] {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((kvs::text(kvs::server(number)), FLOODED))?;
        floods.push(socket);
    }
    bridged.enter_client(0)?;
    thread::spawn(move || work::echo(&echo).map_err(|e| e.to_string()));
    let trips = Socket::connected(&Host, kvs::server(0))?;
    trips.option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &ON)?;
    Ok(Box::new(move || {
        // The namespaces live as long as these files.
        let _ = &bridged;
        let idle = p99_of(&trips)?;
        let beside = |flood: &UdpSocket, read: Option<&UdpSocket>| {
            let (is_over, came) = (AtomicBool::new(false), AtomicU64::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        // The one that does not read has the host lose them.
                        let _ = flood.send(&[0; SIZE]);
                    }
                });
                if let Some(read) = read {
                    scope.spawn(|| count(read, &is_over, &came));
                }
                let found = p99_of(&trips);
                is_over.store(true, Ordering::Relaxed);
                found
            })
        };
        let reads = beside(&floods[0], Some(&flooded[0]))?;
        let deaf = beside(&floods[1], None)?;
        let worse = reads.max(deaf) / idle;
        Ok([worse, idle, reads, deaf].map(Some).to_vec())
    }))
}

/// Of round trips of a byte, us.
fn p99_of(socket: &Socket<'_, Host>) -> Result<f64, BoxError> {
    let mut times = Vec::new();
    let begun = Instant::now();
    let mut next = begun;
    while begun.elapsed() < MEASURED {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += INTERVAL;
        let since = Instant::now();
        socket.write(b"x")?;
        socket.read(&mut [0])?;
        times.push(since.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() * 99 / 100].as_nanos() as f64 / 1000.0)
}

/// A process that does not run until this is dropped.
struct Stopped(libc::pid_t);

impl Stopped {
    fn new(pid: libc::pid_t) -> Result<Stopped, BoxError> {
        // SAFETY: takes numbers; the process is a worker of this benchmark's lab.
        match unsafe { libc::kill(pid, libc::SIGSTOP) } {
            0 => Ok(Stopped(pid)),
            _ => Err(format!("stopping a worker: {}", std::io::Error::last_os_error()).into()),
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
    }
}
