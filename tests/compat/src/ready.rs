//! Waits until a server is ready; runs on the server's own machine, or at the other end of the wire.
//!
//! There is nothing to be woken by when another process's socket begins to listen, so this looks again and
//! again. Its parent ends it if that takes too long.

use std::fs;
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::Duration;

use crate::{probe, BoxError};

/// The file where a server's output goes.
pub(crate) const OUTPUT: &str = "server.out";

/// Waits for a socket (`tcp/8080`, `udp/53`), or for a text in the server's output; `there`: for one at the other end,
/// by TCP.
pub(crate) fn wait(what: &str, there: bool) -> Result<(), BoxError> {
    while !holds(what, there)? {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn holds(what: &str, there: bool) -> Result<bool, BoxError> {
    let Some((protocol @ ("tcp" | "udp"), port)) = what.split_once('/') else {
        let output = fs::read(OUTPUT).map_err(|e| format!("{OUTPUT}: {e}"))?;
        return Ok(String::from_utf8_lossy(&output).contains(what));
    };
    let port: u16 = port.parse().map_err(|e| format!("{what}: {e}"))?;
    if there {
        let [client, server] = ["CLIENT", "SERVER"]
            .map(|name| -> Result<Ipv4Addr, BoxError> { Ok(std::env::var(name)?.parse()?) });
        return Ok(probe::is_open(client?, server?, port).unwrap_or(false));
    }
    for family in ["", "6"] {
        let path = format!("/proc/net/{protocol}{family}");
        let sockets = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        if sockets.lines().any(|line| is_open(line, protocol, port)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A line of /proc/net/tcp: number, local address and port, remote ones, state (proc(5)).
fn is_open(line: &str, protocol: &str, port: u16) -> bool {
    let fields: Vec<_> = line.split_whitespace().collect();
    let &[_, local, _, state, ..] = fields.as_slice() else {
        return false;
    };
    let listening = protocol == "udp" || state == "0A";
    listening && local.ends_with(&format!(":{port:04X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let listening = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000";
        let connected = "   0: 0100007F:1F90 0100007F:B01A 01 00000000:00000000 00:00000000";
        assert!(is_open(listening, "tcp", 8080));
        assert!(!is_open(listening, "tcp", 8081));
        assert!(!is_open(connected, "tcp", 8080));
        assert!(!is_open(
            "  sl  local_address rem_address   st",
            "tcp",
            8080
        ));
    }

    #[test]
    fn own_socket() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        wait(&format!("tcp/{port}"), false).unwrap();
        drop(socket);
        assert!(!holds(&format!("tcp/{port}"), false).unwrap());
    }
}
