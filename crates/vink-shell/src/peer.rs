//! The user at the other end of a TCP connection over loopback.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A socket at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The user that made it.
    pub(crate) user: u32,
}

/// Finds the socket whose own address is `theirs` and which is connected to `ours`, in the tables
/// of proc(5). None: it is closed, and its user can't be known any more.
pub(crate) fn find(theirs: SocketAddr, ours: SocketAddr) -> io::Result<Option<Peer>> {
    // A socket of IPv6 may speak IPv4.
    let tables: &[&str] = match theirs.ip().to_canonical() {
        IpAddr::V4(_) => &["/proc/net/tcp", "/proc/net/tcp6"],
        IpAddr::V6(_) => &["/proc/net/tcp6"],
    };
    for table in tables {
        match fs::read_to_string(table) {
            Ok(text) => {
                if let Some(peer) = text.lines().skip(1).find_map(|l| matching(l, theirs, ours)) {
                    return Ok(Some(peer));
                }
            }
            // Without IPv6 there is no table.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// A line of /proc/net/tcp, if it is about this connection and the socket is open: a closed
/// one has no inode, and root as its user, whichever it was.
fn matching(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<Peer> {
    let mut fields = line.split_whitespace().skip(1);
    let same = |text: &str, address: SocketAddr| {
        parse(text)
            .is_some_and(|(ip, port)| (ip, port) == (address.ip().to_canonical(), address.port()))
    };
    if !same(fields.next()?, local) || !same(fields.next()?, remote) {
        return None;
    }
    // State, queues, timer, retransmissions; then user, timeout, inode.
    let user = fields.nth(4)?.parse().ok()?;
    let inode: u64 = fields.nth(1)?.parse().ok()?;
    (inode != 0).then_some(Peer { user })
}

/// `0100007F:1F90`: 32-bit words of an address in the processor's byte order, and a port.
fn parse(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        _ => <[u8; 16]>::try_from(bytes).ok()?.into(),
    };
    Some((ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn ourselves() {
        let user = vink_sys::process::geteuid();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("loopback");
            let client =
                TcpStream::connect(listener.local_addr().expect("its address")).expect("connect");
            let (server, theirs) = listener.accept().expect("accept");
            let ours = server.local_addr().expect("our address");
            assert_eq!(find(theirs, ours).expect("proc"), Some(Peer { user }));
            // Half closed, it still has its user.
            client
                .shutdown(std::net::Shutdown::Write)
                .expect("shutdown");
            assert_eq!(find(theirs, ours).expect("proc"), Some(Peer { user }));
            drop(client);
            assert_eq!(find(theirs, ours).expect("proc"), None);
        }
    }

    #[test]
    fn an_ipv6_socket_that_speaks_ipv4() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("its address").port();
        let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{port}")
            .parse()
            .expect("an address");
        let _client = TcpStream::connect(mapped).expect("connect");
        let (server, theirs) = listener.accept().expect("accept");
        let ours = server.local_addr().expect("our address");
        assert!(find(theirs, ours).expect("proc").is_some());
    }

    #[test]
    fn orphans_are_nobodys() {
        let line = "  12: 0100007F:C350 0100007F:3A98 05 00000000:00000000 00:00000000 00000000     0        0 0 2 0 20 4 30 10 -1";
        let (theirs, ours) = ("127.0.0.1:50000", "127.0.0.1:15000");
        let [theirs, ours] = [theirs, ours].map(|a| a.parse().expect("an address"));
        assert_eq!(matching(line, theirs, ours), None);
        let line = line.replace("     0        0 0 2", "  1000        0 4711 2");
        assert_eq!(matching(&line, theirs, ours), Some(Peer { user: 1000 }));
        assert_eq!(matching(&line, ours, theirs), None);
    }
}
