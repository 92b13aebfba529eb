//! What sharing the host's address costs: a machine that has an interface of the host, and one that
//! shares the address of the same interface, in one lab and in turns.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::echo::{connect, round_trip};
use crate::host;
use crate::lab::Lab;
use crate::side::Round;
use crate::BoxError;

/// Round trips of a turn, and turns.
const PINGS: usize = 500;
const TURNS: usize = 8;
/// Bytes that are echoed.
const BULK: usize = 32 << 20;

const LAB: &str = "name: share
machines:
  own: { interfaces: { eth0: { wire: plug, addresses: [10.0.0.3/24] } } }
  shared: { interfaces: { eth0: { wire: share } } }
wires:
  plug: { uplink: { interface: b0 } }
  share: { uplink: { share: { addresses: [10.0.0.2], ports: [7], ephemeral: 16 } } }
";

/// By how many microseconds a round trip is longer with `share` than with AF_PACKET (medians), the two
/// times, and what both echo of a stream, in Gbit/s.
pub(crate) fn beside_packet() -> Result<Round, BoxError> {
    let path = host::Path::direct()?;
    Ok(Box::new(move || {
        path.enter_server()?;
        let lab = Lab::up(LAB)?;
        for machine in ["own", "shared"] {
            lab.shell(&format!("exec {machine} app echoserver &"))?;
        }
        path.enter_client()?;
        let addresses = [[10, 0, 0, 2], [10, 0, 0, 3]];
        let mut times = [Vec::new(), Vec::new()];
        let mut peers = [connect(addresses[0])?, connect(addresses[1])?];
        for turn in 0..=TURNS {
            for (peer, times) in peers.iter_mut().zip(&mut times) {
                for _ in 0..PINGS {
                    let time = round_trip(peer)?;
                    // The first turn is for warming up.
                    if turn > 0 {
                        times.push(time);
                    }
                }
            }
        }
        let [share, packet] = times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1e6
        });
        let mut rates = [0.0, 0.0];
        for (peer, rate) in peers.iter_mut().zip(&mut rates) {
            *rate = echoed(peer)?;
        }
        let figures = [share - packet, share, packet, rates[0], rates[1]];
        Ok(figures.map(Some).to_vec())
    }))
}

/// Gbit/s of a stream there and back.
fn echoed(peer: &mut TcpStream) -> Result<f64, BoxError> {
    let mut writer = peer.try_clone()?;
    let since = Instant::now();
    let sent = std::thread::spawn(move || {
        let piece = vec![7; 64 << 10];
        for _ in 0..BULK / piece.len() {
            writer.write_all(&piece)?;
        }
        Ok::<(), std::io::Error>(())
    });
    let (mut piece, mut left) = (vec![0; 64 << 10], BULK);
    while left > 0 {
        match peer.read(&mut piece)? {
            0 => return Err("the echo has ended".into()),
            got => left -= got,
        }
    }
    sent.join().map_err(|_| "the writer panicked")??;
    Ok(BULK as f64 * 8.0 / since.elapsed().as_secs_f64() / 1e9)
}
