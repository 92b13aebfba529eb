//! A machine's echo server, as a process of the host reaches it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::BoxError;

/// How long a round trip may take: far more than a bar allows.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection to a machine's echo server, once that listens.
pub(crate) fn connect(address: [u8; 4]) -> Result<TcpStream, BoxError> {
    let to = SocketAddr::from((address, 7));
    let since = Instant::now();
    loop {
        match TcpStream::connect_timeout(&to, TIMEOUT) {
            Ok(peer) => {
                peer.set_nodelay(true)?;
                peer.set_read_timeout(Some(TIMEOUT))?;
                return Ok(peer);
            }
            Err(error) if since.elapsed() > TIMEOUT => return Err(format!("{to}: {error}").into()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// How long a byte takes there and back.
pub(crate) fn round_trip(peer: &mut TcpStream) -> Result<Duration, BoxError> {
    let since = Instant::now();
    peer.write_all(b"x")?;
    peer.read_exact(&mut [0])?;
    Ok(since.elapsed())
}
