//! A switch with machines in workers of their own: throughput and frames per second.

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

/// The number behind a text, of an app's report.
pub(crate) fn number(said: &str, before: &str) -> Result<f64, BoxError> {
    let is_of_number = |c: char| c.is_ascii_digit() || ".-+e".contains(c);
    let found = said.split(before).nth(1);
    let found = found.and_then(|rest| rest.split(|c| !is_of_number(c)).next()?.parse().ok());
    found.ok_or_else(|| format!("an app said {said:?}").into())
}
