//! A relay in the middle: Vink's, and processes that relay on the host between two veth pairs.
//!
//! On Vink, both ends are apps of the relay's own worker, which has one thread; the host's ends are
//! processes, on one processor with the relay or on all of them. `relay_flat` is about Vink alone: the
//! same beside processes that only compute, with the worker under the policy SCHED_FIFO and as it is.

use std::fs;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use crate::beside::Busy;
use crate::host::{self, Relayed, Server};
use crate::lab::Lab;
use crate::programs::Directory;
use crate::side::Round;
use crate::switch::number;
use crate::work::{BULK, DATAGRAM, FLOOD};
use crate::BoxError;

/// Busy processes of `relay_flat`.
const BUSY: usize = 16;
/// The port of the ends and of the relays.
const PORT: u16 = crate::work::PORT;

/// Three machines of one worker.
fn lab() -> Result<Lab, BoxError> {
    let lab = Lab::up(&format!(
        "name: relay
machines:
  client: {{ interfaces: {{ eth0: {{ wire: w1, addresses: [10.0.0.1/24] }} }} }}
  r:
    interfaces:
      west: {{ wire: w1, addresses: [10.0.0.2/24] }}
      east: {{ wire: w2, addresses: [10.0.1.1/24] }}
    relays:
      tcp: {{ listen: {PORT}, to: server:5001 }}
      udp: {{ protocol: udp, listen: {PORT}, to: server:5001 }}
      echo: {{ protocol: udp, listen: 7, to: server:7 }}
  server: {{ interfaces: {{ eth0: {{ wire: w2, addresses: [10.0.1.2/24] }} }} }}
"
    ))?;
    lab.shell("exec server app sink &")?;
    lab.shell("exec server app echoserver &")?;
    Ok(lab)
}

/// Gbit/s of a stream.
fn stream(lab: &Lab, bytes: u64) -> Result<f64, BoxError> {
    let said = lab.shell(&format!(
        "exec client app source -p {PORT} -n {bytes} 10.0.0.2"
    ))?;
    Ok(number(&said, "\nrate: ")? / 1e9)
}

/// Vink's side: Gbit/s, once for each process that it is compared with, or thousands of datagrams a
/// second.
pub(crate) fn on_vink(group: &str) -> Result<Round, BoxError> {
    let lab = lab()?;
    if group == "relay_tcp" {
        return Ok(Box::new(move || {
            Ok(vec![Some(stream(&lab, BULK)?); RELAYS.len()])
        }));
    }
    Ok(Box::new(move || {
        let time = FLOOD.as_secs();
        let said = lab.shell(&format!(
            "exec client app source -u -p {PORT} -r max -t {time}s -l {DATAGRAM} 10.0.0.2"
        ))?;
        let came = number(&said, "arrived: {\"packets\":")?;
        Ok(vec![Some(came / FLOOD.as_secs_f64() / 1000.0)])
    }))
}

/// What relays TCP on the host: what must be installed, and a command line. `{}` is a folder.
const RELAYS: [(&str, &str); 3] = [
    (
        "socat",
        "exec socat -b 65536 TCP-LISTEN:PORT,fork,reuseaddr,nodelay TCP:10.0.1.2:PORT,nodelay",
    ),
    ("haproxy", "exec haproxy -db -f haproxy.conf"),
    ("nginx", "exec nginx -p . -e stderr -c nginx.conf"),
];

/// One thread, and splice(2) where it can.
const HAPROXY: &str = "global
  nbthread 1
defaults
  mode tcp
  option splice-auto
  option tcp-smart-accept
  timeout connect 5s
  timeout client 1m
  timeout server 1m
listen relay
  bind 10.0.0.2:PORT
  server s 10.0.1.2:PORT
";

const NGINX: &str = "load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events { }
stream {
  tcp_nodelay on;
  server { listen 10.0.0.2:PORT; proxy_buffer_size 64k; proxy_pass 10.0.1.2:PORT; }
}
";

/// Starts a process that relays.
fn start_relay(path: &Relayed, folder: &Directory, line: &str) -> Result<Server, BoxError> {
    path.enter_relay()?;
    let line = line.replace("PORT", &PORT.to_string());
    let words = ["sh", "-c", &line].map(str::to_owned);
    let mut command = host::command(&words);
    command
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut relay = Server::spawn(&mut command)?;
    // It listens after a moment: what counts begins later.
    std::thread::sleep(Duration::from_millis(500));
    match relay.ended()? {
        Some(status) => Err(format!("{line}: {status}").into()),
        None => Ok(relay),
    }
}

/// The host's side.
pub(crate) fn on_the_host(group: &str) -> Result<Round, BoxError> {
    let path = Relayed::new()?;
    let folder = Directory::new()?;
    for (name, text) in [("haproxy.conf", HAPROXY), ("nginx.conf", NGINX)] {
        fs::write(
            folder.path().join(name),
            text.replace("PORT", &PORT.to_string()),
        )?;
    }
    if group == "relay_udp" {
        let line = "exec socat -b 65536 UDP-LISTEN:PORT,fork,reuseaddr UDP:10.0.1.2:PORT";
        return Ok(Box::new(move || {
            // Its child for the last round's client would go on.
            let _relay = start_relay(&path, &folder, line)?;
            Ok(vec![Some(path.datagrams()?)])
        }));
    }
    Ok(Box::new(move || {
        let mut rates = Vec::new();
        for (name, line) in RELAYS {
            let is_there = std::process::Command::new(name).arg("-v").output();
            if is_there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                eprintln!("relay_tcp: no {name} here: apt-get install {name}");
                rates.push(None);
                continue;
            }
            let _relay = start_relay(&path, &folder, line)?;
            rates.push(Some(path.transfer(BULK / 4)?));
        }
        Ok(rates)
    }))
}

/// What 16 busy processes leave: of throughput, and of the deviation of round trips, with the worker
/// under SCHED_FIFO; of throughput with the worker as it is; then the figures without them, Gbit/s and us.
pub(crate) fn flat() -> Result<Round, BoxError> {
    let lab = lab()?;
    let pid = lab.pid("r")?;
    Ok(Box::new(move || {
        let beside = |busy: usize| -> Result<(f64, f64), BoxError> {
            let _busy = Busy::start(busy)?;
            Ok((stream(&lab, BULK)?, deviation(&lab)?))
        };
        let as_it_is = [beside(0)?, beside(BUSY)?];
        let fifo = match policy(pid, libc::SCHED_FIFO, 10) {
            Ok(()) => Some([beside(0)?, beside(BUSY)?]),
            Err(error) => {
                eprintln!("relay_flat: SCHED_FIFO: {error}: it is root's");
                None
            }
        };
        if fifo.is_some() {
            policy(pid, libc::SCHED_OTHER, 0)?;
        }
        let [alone, busy] = as_it_is;
        Ok(vec![
            fifo.map(|[alone, busy]| busy.0 / alone.0),
            fifo.map(|[alone, busy]| busy.1 / alone.1),
            Some(busy.0 / alone.0),
            fifo.map(|[alone, _]| alone.0),
            fifo.map(|[alone, _]| alone.1),
        ])
    }))
}

/// The standard deviation of round trips through the relay, us.
fn deviation(lab: &Lab) -> Result<f64, BoxError> {
    let said = lab.shell("exec client app echo -u -c 20000 -i 50us 10.0.0.2")?;
    Ok(number(&said, "\nmdev: ")? * 1e6)
}

fn policy(pid: libc::pid_t, policy: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: numbers, and a structure that is read.
    match unsafe { libc::sched_setscheduler(pid, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
