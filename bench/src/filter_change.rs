//! How long packets wait while a thousand rules are replaced under many datagrams, and how many of these are
//! lost: `vink filter` in a lab, and nft(8) in a network namespace of the host.

use std::fs;
use std::io;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vink_sys::socket::set_option;

use crate::host;
use crate::lab::Lab;
use crate::programs::Directory;
use crate::side::Round;
use crate::switch::number;
use crate::BoxError;

/// How often the rules are replaced.
const CHANGES: usize = 1000;
/// Datagrams a second meanwhile, and bytes of each.
const DATAGRAMS: u64 = 100_000;
const SIZE: u64 = 64;
/// Bytes of the sink's receive buffer, as `sink -w 8M` has it: more than comes while a thread waits for a
/// processor.
const BUFFER: libc::c_int = 8 << 20;
/// From one round trip's begin to the next one's, and how many there are without a change.
const INTERVAL: Duration = Duration::from_micros(100);
const UNCHANGED: u64 = 100_000;

/// Rules whose last one drops each datagram that their first one has not seen.
fn marked(version: usize) -> String {
    let mut text = format!(
        "table inet f {{\n  chain c {{\n    type filter hook input priority 0; policy accept;\n    udp dport 9 meta mark set {version}\n"
    );
    for at in 0..998 {
        text += &format!("    ip saddr 198.18.{}.{} drop\n", at / 250, at % 250);
    }
    text + &format!("    udp dport 9 meta mark != {version} drop\n  }}\n}}\n")
}

/// The longest round trip, in ms, while rules are replaced under a flood from another worker, and how many datagrams of
/// the flood were lost; and the longest one of some seconds without a change. An echo is always under way, so that none
/// of the waits is missed.
pub(crate) fn on_vink() -> Result<Round, BoxError> {
    let rate = DATAGRAMS * SIZE * 8;
    let lab = Lab::up(
        "name: changes
machines:
  a: { worker: left, interfaces: { eth0: { wire: w, addresses: [10.0.0.1/24] } } }
  b: { worker: right, interfaces: { eth0: { wire: w, addresses: [10.0.0.2/24] } } }
wires: { w: {} }
",
    )?;
    lab.write("odd.nft", &marked(1))?;
    lab.write("even.nft", &marked(2))?;
    Ok(Box::new(move || {
        lab.vink(&["filter", "set", "b", "even.nft"])?;
        for line in [
            "exec b app echoserver &".to_owned(),
            "exec b app sink -u -p 9 -w 8M &".to_owned(),
            format!("exec a app source -u -p 9 -t 1h -l {SIZE} -r {rate} 10.0.0.2 &"),
        ] {
            lab.shell(&line)?;
        }
        let unchanged = lab.shell("exec a app echo -u -c 100000 -i 100us 10.0.0.2")?;
        let unchanged = number(&unchanged, "\nmax: ")? * 1000.0;
        lab.shell("exec a app echo -u -c 1000000000 -i 100us 10.0.0.2 &")?;
        for change in 0..CHANGES {
            let file = ["odd.nft", "even.nft"][change % 2];
            lab.vink(&["filter", "set", "b", file])?;
        }
        // The flood ends first, so that what it sent has come when the sink is asked.
        lab.end("source")?;
        let echo = lab.end("echo")?;
        let sink = lab.end("sink")?;
        lab.end("echoserver")?;
        let times = echo.split("rtt min/avg/max/mdev = ").nth(1);
        let longest = times.and_then(|times| times.split('/').nth(2)?.parse().ok());
        let longest = longest.ok_or_else(|| format!("echo said {echo:?}"))?;
        let lost = number(&sink, "datagrams came, ")?;
        Ok([longest, lost, unchanged].map(Some).to_vec())
    }))
}

/// Two namespaces of the host with the same: what is sent, sent back and counted by threads of this process.
pub(crate) fn on_the_host() -> Result<Round, BoxError> {
    let path = host::Path::direct()?;
    path.enter_server()?;
    let [echo, sink] = ["0.0.0.0:7", "0.0.0.0:9"].map(UdpSocket::bind);
    let (echo, sink) = (echo?, sink?);
    path.enter_client()?;
    let [trips, flood] = ["10.0.0.2:7", "10.0.0.2:9"].map(|to| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(to)?;
        Ok::<_, io::Error>(socket)
    });
    let (trips, flood) = (trips?, flood?);
    for socket in [&echo, &sink, &trips] {
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    }
    let (level, buffer) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
    set_option(&sink, level, buffer, BUFFER)?;
    let directory = Directory::new()?;
    let change = move |version: usize| -> Result<(), BoxError> {
        let file = directory.path().join("rules.nft");
        let delete = "table inet f\ndelete table inet f\n";
        fs::write(&file, delete.to_owned() + &marked(1 + version % 2))?;
        let words = ["nft", "--optimize", "--file"].map(str::to_owned);
        let nft = host::command(&words)
            .arg(&file)
            .stdout(Stdio::null())
            .output()?;
        match nft.status.success() {
            true => Ok(()),
            false => Err(format!("nft: {}", String::from_utf8_lossy(&nft.stderr)).into()),
        }
    };
    Ok(Box::new(move || {
        path.enter_server()?;
        change(1)?;
        let (floods, changes) = (AtomicBool::new(true), AtomicBool::new(true));
        let is_over = AtomicBool::new(false);
        let (sent, came) = (AtomicU64::new(0), AtomicU64::new(0));
        let [unchanged, longest] = thread::scope(|scope| -> Result<_, BoxError> {
            scope.spawn(|| send_back(&echo, &is_over));
            scope.spawn(|| count(&sink, &is_over, &came));
            scope.spawn(|| send(&flood, &floods, &sent));
            let measured = (|| -> Result<_, BoxError> {
                let unchanged = longest_trip(&trips, |trips| trips < UNCHANGED)?;
                let waits =
                    scope.spawn(|| longest_trip(&trips, |_| changes.load(Ordering::Relaxed)));
                let changed = (0..CHANGES).try_for_each(&change);
                changes.store(false, Ordering::Relaxed);
                let longest = waits.join().map_err(|_| "a thread panicked")??;
                changed?;
                Ok([unchanged, longest])
            })();
            floods.store(false, Ordering::Relaxed);
            is_over.store(true, Ordering::Relaxed);
            measured
        })?;
        let lost = sent.into_inner().saturating_sub(came.into_inner());
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        Ok([ms(longest), lost as f64, ms(unchanged)].map(Some).to_vec())
    }))
}

/// Sends datagrams at a rate, those of a tenth of a millisecond at once.
fn send(socket: &UdpSocket, floods: &AtomicBool, sent: &AtomicU64) {
    let begun = Instant::now();
    while floods.load(Ordering::Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * DATAGRAMS as f64) as u64;
        while sent.load(Ordering::Relaxed) < due && socket.send(&[0; SIZE as usize]).is_ok() {
            sent.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(INTERVAL);
    }
}

/// Counts datagrams until none come and no more are sent.
pub(crate) fn count(socket: &UdpSocket, is_over: &AtomicBool, came: &AtomicU64) {
    let mut buffer = [0; SIZE as usize];
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => _ = came.fetch_add(1, Ordering::Relaxed),
            Err(_) if is_over.load(Ordering::Relaxed) => break,
            Err(_) => {}
        }
    }
}

/// Sends back what comes.
fn send_back(socket: &UdpSocket, is_over: &AtomicBool) {
    let mut buffer = [0; SIZE as usize];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => _ = socket.send_to(&buffer[..len], from),
            Err(_) if is_over.load(Ordering::Relaxed) => break,
            Err(_) => {}
        }
    }
}

/// The longest of round trips, which begin at intervals.
fn longest_trip(socket: &UdpSocket, goes_on: impl Fn(u64) -> bool) -> io::Result<Duration> {
    let mut longest = Duration::ZERO;
    let mut next = Instant::now();
    for trips in 0.. {
        if !goes_on(trips) {
            break;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next = Instant::now() + INTERVAL;
        let begun = Instant::now();
        socket.send(&[0; SIZE as usize])?;
        socket.recv(&mut [0; SIZE as usize])?;
        longest = longest.max(begun.elapsed());
    }
    Ok(longest)
}
