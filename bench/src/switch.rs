//! A switch with machines in workers of their own: throughput, frames per second, and what a flooded
//! port leaves of the round trips between others.

use crate::lab::Lab;
use crate::side::Round;
use crate::work::{BULK, DATAGRAM, FLOOD};
use crate::BoxError;

/// Two machines at a switch, each of the three in a worker of its own.
const PAIR: &str = "name: switch
machines:
  a: { worker: a, interfaces: { eth0: { switch: sw, addresses: [10.0.0.1/24] } } }
  b: { worker: b, interfaces: { eth0: { switch: sw, addresses: [10.0.0.2/24] } } }
switches: { sw: {} }
";

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

/// Throughput of a TCP stream from one to the other, Gbit/s.
pub(crate) fn transfer() -> Result<Round, BoxError> {
    let lab = Lab::up(PAIR)?;
    lab.shell("exec b app sink &")?;
    Ok(Box::new(move || {
        let said = lab.shell(&format!("exec a app source -n {BULK} 10.0.0.2"))?;
        let rate = number(&said, "\nrate: ")?;
        Ok(vec![Some(rate / 1e9)])
    }))
}

/// Thousands of small frames a second that come through.
pub(crate) fn datagrams() -> Result<Round, BoxError> {
    let lab = Lab::up(PAIR)?;
    lab.shell("exec b app sink -u &")?;
    Ok(Box::new(move || {
        let time = FLOOD.as_secs();
        let line = format!("exec a app source -u -r max -t {time}s -l {DATAGRAM} 10.0.0.2");
        let said = lab.shell(&line)?;
        let came = number(&said, "arrived: {\"packets\":")?;
        Ok(vec![Some(came / FLOOD.as_secs_f64() / 1000.0)])
    }))
}

/// By how much the 99th percentile of round trips of two machines grows while a third one sends as fast
/// as it can to a machine that reads, and to one that does not; the larger of the two.
pub(crate) fn flood() -> Result<Round, BoxError> {
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

/// The number behind a text, of an app's report.
pub(crate) fn number(said: &str, before: &str) -> Result<f64, BoxError> {
    let is_of_number = |c: char| c.is_ascii_digit() || ".-+e".contains(c);
    let found = said.split(before).nth(1);
    let found = found.and_then(|rest| rest.split(|c| !is_of_number(c)).next()?.parse().ok());
    found.ok_or_else(|| format!("an app said {said:?}").into())
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
