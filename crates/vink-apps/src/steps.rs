//! An app that makes the socket calls that its words say, one after another.
//!
//! For labs in which each call counts: an abort at a moment, a connection from the same port again,
//! a reader that waits. What it sends is no two times the same, so that bytes of one connection are
//! not mistaken for those of another.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

use crate::arguments::{self, number, size, time, Arguments, Syntax};
use crate::calls::family;
use crate::{App, AppError, Calls, Names, Socket, Target};

/// What is read or written at once.
const BLOCK: u64 = 64 << 10;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "steps",
    purpose: "Makes TCP calls in order, with commas between them: listen PORT, accept, open [PORT], set OPTION VALUE, \
              connect HOST PORT, send SIZE [TIMES TIME], recv SIZE, drain, shutdown, close, abort, sleep TIME.",
    operands: "STEP...",
    options: &[arguments::IPV4, arguments::IPV6],
};

/// One call, or a few that belong together.
enum Step {
    /// A socket that listens.
    Listen(u16),
    /// The next connection of the socket that listens is the one of the steps behind it.
    Accept,
    /// A socket that has this address; port 0: any.
    Open(SocketAddr),
    /// setsockopt(2): level, name, value.
    Set(i32, i32, i32),
    Connect(Target, u16),
    /// So many bytes at once, so many times, with a pause behind each.
    Send(u64, u32, Duration),
    /// So many bytes in all.
    Recv(u64),
    /// All that comes.
    Drain,
    /// The sending side ends.
    Shutdown,
    Close,
    /// close(2) with a reset.
    Abort,
    Sleep(Duration),
}

/// Options that are integers.
const OPTIONS: [(&str, i32, i32); 6] = [
    ("rcvbuf", libc::SOL_SOCKET, libc::SO_RCVBUF),
    ("sndbuf", libc::SOL_SOCKET, libc::SO_SNDBUF),
    ("maxseg", libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    ("nodelay", libc::IPPROTO_TCP, libc::TCP_NODELAY),
    ("quickack", libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    ("user-timeout", libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
];

struct Steps {
    steps: Vec<(String, Step)>,
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let steps = steps(arguments, names)?;
    Ok(Box::new(Steps { steps }))
}

/// Each with its words.
fn steps(arguments: &Arguments<'_>, names: &Names) -> Result<Vec<(String, Step)>, String> {
    let text = arguments.operands().join(" ");
    let read = |step: &str| {
        let step = step.trim();
        let words: Vec<_> = step.split_whitespace().collect();
        match parse(&words, names, arguments.ipv6()?) {
            Ok(read) => Ok((step.to_owned(), read)),
            Err(why) => Err(format!("'{step}': {why}")),
        }
    };
    text.split(',').map(read).collect()
}

fn parse(words: &[&str], names: &Names, ipv6: Option<bool>) -> Result<Step, String> {
    let any = |port| match ipv6 {
        Some(true) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    };
    Ok(match words {
        ["listen", port] => Step::Listen(number(port, 1)?),
        ["accept"] => Step::Accept,
        ["open"] => Step::Open(any(0)),
        ["open", port] => Step::Open(any(number(port, 1)?)),
        ["set", option, value] => {
            let known = OPTIONS.iter().find(|(name, ..)| name == option);
            let known = known.ok_or_else(|| {
                let names: Vec<_> = OPTIONS.iter().map(|(name, ..)| *name).collect();
                format!("an option is one of {}", names.join(", "))
            })?;
            Step::Set(known.1, known.2, number(value, 0)?)
        }
        ["connect", host, port] => {
            Step::Connect(Target::parse(host, names, ipv6)?, number(port, 1)?)
        }
        ["send", bytes] => Step::Send(size(bytes)?, 1, Duration::ZERO),
        ["send", bytes, times, pause] => Step::Send(size(bytes)?, number(times, 1)?, time(pause)?),
        ["recv", bytes] => Step::Recv(size(bytes)?),
        ["drain"] => Step::Drain,
        ["shutdown"] => Step::Shutdown,
        ["close"] => Step::Close,
        ["abort"] => Step::Abort,
        ["sleep", long] => Step::Sleep(time(long)?),
        _ => return Err("there is no such step: `help steps` has all".to_owned()),
    })
}

impl App for Steps {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let (mut listener, mut connection) = (None::<Socket<'_>>, None::<Socket<'_>>);
        // How many bytes have been sent on all connections.
        let mut sent = 0;
        for (text, step) in &self.steps {
            let during = || AppError::during(text);
            let missing = || AppError::new(format!("{text}: there is no socket yet"));
            match step {
                Step::Listen(port) => {
                    let at = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                    listener = Some(calls.listen(at).map_err(during())?);
                    calls.ready();
                }
                Step::Accept => {
                    let listener = listener.as_ref().ok_or_else(missing)?;
                    connection = Some(listener.accept().map_err(during())?.0);
                }
                Step::Open(at) => connection = Some(open(calls, *at).map_err(during())?),
                Step::Connect(host, port) => {
                    let to = host.at(calls, *port).map_err(during())?;
                    let socket = match connection.take() {
                        Some(socket) => socket,
                        None => calls
                            .socket(family(to), libc::SOCK_STREAM, 0)
                            .map_err(during())?,
                    };
                    socket.connect(to).map_err(during())?;
                    connection = Some(socket);
                }
                Step::Sleep(long) => calls.sleep(*long).map_err(during())?,
                // A socket that listens, for options that its connections have from the start.
                Step::Set(level, name, value) => {
                    let socket = connection.as_ref().or(listener.as_ref());
                    let socket = socket.ok_or_else(missing)?;
                    socket.set_option(*level, *name, value).map_err(during())?;
                }
                Step::Close => drop(connection.take().ok_or_else(missing)?),
                Step::Abort => {
                    let socket = connection.take().ok_or_else(missing)?;
                    let at_once = libc::linger {
                        l_onoff: 1,
                        l_linger: 0,
                    };
                    socket
                        .set_option(libc::SOL_SOCKET, libc::SO_LINGER, &at_once)
                        .map_err(during())?;
                }
                step => {
                    let socket = connection.as_ref().ok_or_else(missing)?;
                    transfer(calls, socket, step, &mut sent).map_err(during())?;
                }
            }
        }
        Ok(0)
    }
}

/// A socket that is not connected, with this address.
fn open<'c>(calls: &'c Calls<'c>, at: SocketAddr) -> io::Result<Socket<'c>> {
    let socket = calls.socket(family(at), libc::SOCK_STREAM, 0)?;
    socket.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
    socket.bind(at)?;
    Ok(socket)
}

/// What goes over a connection.
fn transfer(calls: &Calls<'_>, socket: &Socket<'_>, step: &Step, sent: &mut u64) -> io::Result<()> {
    match step {
        Step::Send(bytes, times, pause) => {
            for _ in 0..*times {
                let data: Vec<u8> = (*sent..*sent + bytes).map(byte).collect();
                socket.send_all(&data)?;
                *sent += bytes;
                if !pause.is_zero() {
                    calls.sleep(*pause)?;
                }
            }
            Ok(())
        }
        Step::Recv(bytes) => {
            let mut left = *bytes;
            let mut buffer = vec![0; (*bytes).min(BLOCK) as usize];
            while left > 0 {
                let room = left.min(BLOCK) as usize;
                match socket.recv(&mut buffer[..room], 0)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    some => left -= some as u64,
                }
            }
            Ok(())
        }
        Step::Drain => {
            let mut buffer = vec![0; BLOCK as usize];
            while socket.recv(&mut buffer, 0)? > 0 {}
            Ok(())
        }
        _ => socket.shutdown(Shutdown::Write),
    }
}

/// The byte at a place of all that is sent: a multiplicative hash, so that no two places a window
/// apart look alike for long.
pub(crate) fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(line: &str) -> Result<usize, String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        let arguments = SYNTAX.parse(&words)?;
        Ok(steps(&arguments, &Names::default())?.len())
    }

    #[test]
    fn steps_are_read() {
        assert_eq!(made("listen 7, accept, recv 1k, sleep 5ms, abort"), Ok(5));
        assert_eq!(
            made("open 9, set rcvbuf 4000, connect 10.0.0.1 7, send 1k 3 1ms"),
            Ok(4)
        );
        for (line, why) in [
            ("", "STEP... is missing"),
            ("accept, jump", "'jump': there is no such step"),
            ("set colour 1", "an option is one of rcvbuf,"),
            ("connect nowhere 7", "neither an address nor a name"),
        ] {
            let found = made(line).expect_err(line);
            assert!(found.contains(why), "{found}");
        }
    }
}
