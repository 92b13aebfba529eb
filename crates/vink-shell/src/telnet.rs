//! The telnet protocol (RFC 854, 855, 857, 858, 860, 1073, 1091), as two machines without I/O of
//! their own.
//!
//! A client that answers to what is asked at the start speaks telnet. If it lets us echo, it sends
//! each character as it is typed. One that answers nothing (nc(1), a script) sends lines, and never
//! learns of any of this.

use std::mem::take;

const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
const SB: u8 = 250;
const EL: u8 = 248;
const EC: u8 = 247;
const AYT: u8 = 246;
const IP: u8 = 244;
const BRK: u8 = 243;
const SE: u8 = 240;
const ABORT: u8 = 238;
const SUSP: u8 = 237;
const EOF: u8 = 236;

const ECHO: u8 = 1;
const SGA: u8 = 3;
const TIMING_MARK: u8 = 6;
const TTYPE: u8 = 24;
const NAWS: u8 = 31;

/// What a client may be told about in one go; a window's size has 4 bytes, a terminal's name at
/// most 40.
const LONGEST_OPTION: usize = 128;

/// What is sent first: we would like to echo, and to know the terminal's size and type.
pub(crate) const GREETING: [u8; 15] = [
    IAC, WILL, ECHO, IAC, WILL, SGA, IAC, DO, SGA, IAC, DO, NAWS, IAC, DO, TTYPE,
];

/// What a client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Characters; the end of a line is `\r` from a terminal and `\n` from a file.
    Data(Vec<u8>),
    /// A key of the keyboard that has no character in this protocol, as the control character that
    /// it usually is.
    Key(u8),
    /// Asks whether we are there.
    AreYouThere,
    /// Its window has so many columns and rows.
    Size(u16, u16),
    /// Its terminal's type, in lower case, as in terminfo(5).
    Terminal(String),
    /// It answered: it lets us echo, or it does so itself.
    Echo(bool),
}

/// The state of an option's negotiation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Negotiated {
    Off,
    Asked,
    On,
}

enum State {
    Data,
    Command,
    Negotiation(u8),
    Sub,
    SubCommand,
}

/// Reads what a client sends.
pub(crate) struct Decoder {
    state: State,
    after_cr: bool,
    sub: Vec<u8>,
    /// Of ours: echo, and that we don't send go-aheads.
    ours: [(u8, Negotiated); 2],
    /// Of the client's.
    theirs: [(u8, Negotiated); 3],
    events: Vec<Event>,
    replies: Vec<u8>,
}

impl Decoder {
    /// For a client that was sent [`GREETING`].
    pub(crate) fn new() -> Decoder {
        Decoder {
            state: State::Data,
            after_cr: false,
            sub: Vec::new(),
            ours: [ECHO, SGA].map(|option| (option, Negotiated::Asked)),
            theirs: [SGA, NAWS, TTYPE].map(|option| (option, Negotiated::Asked)),
            events: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Takes bytes off the network; says what they mean, and what is to be answered.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> (Vec<Event>, Vec<u8>) {
        for &byte in bytes {
            self.byte(byte);
        }
        (take(&mut self.events), take(&mut self.replies))
    }

    fn byte(&mut self, byte: u8) {
        self.state = match self.state {
            State::Data if byte == IAC => State::Command,
            State::Data => {
                self.data(byte);
                State::Data
            }
            State::Command => match byte {
                IAC => {
                    self.data(IAC);
                    State::Data
                }
                DO | DONT | WILL | WONT => State::Negotiation(byte),
                SB => {
                    self.sub.clear();
                    State::Sub
                }
                other => {
                    self.command(other);
                    State::Data
                }
            },
            State::Negotiation(verb) => {
                self.negotiate(verb, byte);
                State::Data
            }
            State::Sub if byte == IAC => State::SubCommand,
            State::Sub => {
                self.sub_byte(byte);
                State::Sub
            }
            State::SubCommand => match byte {
                IAC => {
                    self.sub_byte(IAC);
                    State::Sub
                }
                // Anything but its end is a client's mistake; what it wants to say is lost then.
                SE => {
                    self.option();
                    State::Data
                }
                _ => State::Data,
            },
        };
    }

    fn data(&mut self, byte: u8) {
        // RFC 854: a carriage return is followed by a line feed or by NUL.
        if std::mem::replace(&mut self.after_cr, byte == b'\r') && matches!(byte, b'\n' | 0) {
            return;
        }
        match self.events.last_mut() {
            Some(Event::Data(data)) => data.push(byte),
            _ => self.events.push(Event::Data(vec![byte])),
        }
    }

    fn command(&mut self, command: u8) {
        self.events.push(match command {
            IP | BRK => Event::Key(0x03),
            SUSP => Event::Key(0x1a),
            ABORT => Event::Key(0x1c),
            EOF => Event::Key(0x04),
            EC => Event::Key(0x7f),
            EL => Event::Key(0x15),
            AYT => Event::AreYouThere,
            // NOP, GA, the data mark of urgent data ...
            _ => return,
        });
    }

    fn negotiate(&mut self, verb: u8, option: u8) {
        let known = match verb {
            DO | DONT => self.ours.iter_mut().find(|(o, _)| *o == option),
            _ => self.theirs.iter_mut().find(|(o, _)| *o == option),
        };
        let on = matches!(verb, DO | WILL);
        let (yes, no) = if matches!(verb, DO | DONT) {
            (WILL, WONT)
        } else {
            (DO, DONT)
        };
        let Some((_, state)) = known else {
            // RFC 860: that is how a client learns that all before it was seen.
            if (verb, option) == (DO, TIMING_MARK) {
                self.replies.extend([IAC, WILL, option]);
            } else if on {
                self.replies.extend([IAC, no, option]);
            }
            return;
        };
        let before = std::mem::replace(state, if on { Negotiated::On } else { Negotiated::Off });
        // Only changes are answered, and answers are not (RFC 854).
        match (before, on) {
            (Negotiated::Off, true) => self.replies.extend([IAC, yes, option]),
            (Negotiated::On, false) => self.replies.extend([IAC, no, option]),
            _ => {}
        }
        if before == Negotiated::On && on {
            return;
        }
        match (option, verb) {
            (ECHO, DO | DONT) => self.events.push(Event::Echo(on)),
            (TTYPE, WILL) => self.replies.extend([IAC, SB, TTYPE, 1, IAC, SE]),
            _ => {}
        }
    }

    fn sub_byte(&mut self, byte: u8) {
        if self.sub.len() < LONGEST_OPTION {
            self.sub.push(byte);
        }
    }

    fn option(&mut self) {
        match self.sub[..] {
            [NAWS, a, b, c, d] => {
                let columns = u16::from_be_bytes([a, b]);
                let rows = u16::from_be_bytes([c, d]);
                self.events.push(Event::Size(columns, rows));
            }
            [TTYPE, 0, ref name @ ..] => {
                // It becomes an environment variable.
                let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.+".contains(b);
                if !name.is_empty() && name.iter().all(plain) {
                    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                    self.events.push(Event::Terminal(name));
                }
            }
            _ => {}
        }
    }
}

/// Writes what a client is to see.
#[derive(Default)]
pub(crate) struct Encoder {
    after_cr: bool,
}

impl Encoder {
    /// Bytes for the network. A bare line feed begins a new line, as on a terminal of Unix.
    pub(crate) fn encode(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(bytes.len() + bytes.len() / 16 + 2);
        for &byte in bytes {
            match (self.after_cr, byte) {
                (true, b'\n') => {}
                (true, _) => encoded.push(0),
                (false, b'\n') => encoded.push(b'\r'),
                (false, _) => {}
            }
            if byte == IAC {
                encoded.push(IAC);
            }
            encoded.push(byte);
            self.after_cr = byte == b'\r';
        }
        encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &str) -> Event {
        Event::Data(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_of_terminals_and_files() {
        let mut decoder = Decoder::new();
        let (events, replies) = decoder.decode(b"a\r\0b\r\nc\nd\r");
        assert_eq!(events, [data("a\rb\rc\nd\r")]);
        assert_eq!(decoder.decode(b"\ne").0, [data("e")]);
        assert!(replies.is_empty());
    }

    #[test]
    fn negotiation_ends() {
        let mut decoder = Decoder::new();
        let answers = [
            IAC, DO, ECHO, IAC, DO, SGA, IAC, WILL, SGA, IAC, WILL, NAWS, IAC, WILL, TTYPE,
        ];
        let (events, replies) = decoder.decode(&answers);
        assert_eq!(events, [Event::Echo(true)]);
        assert_eq!(replies, [IAC, SB, TTYPE, 1, IAC, SE]);
        // What is on is on.
        assert_eq!(
            decoder.decode(&[IAC, DO, ECHO, IAC, WILL, NAWS]),
            (vec![], vec![])
        );
        // It may change its mind, which is confirmed.
        assert_eq!(
            decoder.decode(&[IAC, DONT, ECHO, IAC, DONT, ECHO]),
            (
                vec![Event::Echo(false), Event::Echo(false)],
                vec![IAC, WONT, ECHO]
            )
        );
        assert_eq!(
            decoder.decode(&[IAC, DO, ECHO]),
            (vec![Event::Echo(true)], vec![IAC, WILL, ECHO])
        );
    }

    #[test]
    fn refusals() {
        let mut decoder = Decoder::new();
        assert_eq!(
            decoder.decode(&[IAC, DONT, ECHO, IAC, WONT, NAWS]),
            (vec![Event::Echo(false)], vec![])
        );
        // Linemode, binary, something unknown.
        assert_eq!(
            decoder
                .decode(&[IAC, WILL, 34, IAC, DO, 0, IAC, DO, 200, IAC, DONT, 200, IAC, WONT, 7]),
            (vec![], vec![IAC, DONT, 34, IAC, WONT, 0, IAC, WONT, 200])
        );
        assert_eq!(
            decoder.decode(&[IAC, DO, TIMING_MARK]).1,
            [IAC, WILL, TIMING_MARK]
        );
    }

    #[test]
    fn options() {
        let mut decoder = Decoder::new();
        // 255 columns: IAC within is doubled.
        let bytes = [IAC, SB, NAWS, 0, IAC, IAC, 0, 24, IAC, SE];
        assert_eq!(decoder.decode(&bytes).0, [Event::Size(255, 24)]);
        let mut bytes = vec![IAC, SB, TTYPE, 0];
        bytes.extend(b"XTERM-256color");
        bytes.extend([IAC, SE]);
        let name = "xterm-256color".to_owned();
        assert_eq!(decoder.decode(&bytes).0, [Event::Terminal(name)]);
        // Nothing that a shell would see something in, and nothing without end.
        let mut bytes = vec![IAC, SB, TTYPE, 0];
        bytes.extend(b"$(reboot)");
        bytes.extend([IAC, SE, IAC, SB, NAWS]);
        bytes.extend([1; 100_000]);
        bytes.extend([IAC, SE]);
        bytes.extend(b"x");
        assert_eq!(decoder.decode(&bytes), (vec![data("x")], vec![]));
        assert!(decoder.sub.capacity() <= 2 * LONGEST_OPTION);
    }

    #[test]
    fn keys_and_bytes() {
        let bytes = [
            b'a', IAC, IAC, b'b', IAC, IP, IAC, SUSP, IAC, EOF, IAC, EC, IAC, EL, IAC, ABORT, IAC,
            AYT, IAC, 241, b'c',
        ];
        let expected = [
            Event::Data(vec![b'a', 255, b'b']),
            Event::Key(0x03),
            Event::Key(0x1a),
            Event::Key(0x04),
            Event::Key(0x7f),
            Event::Key(0x15),
            Event::Key(0x1c),
            Event::AreYouThere,
            data("c"),
        ];
        let (events, replies) = Decoder::new().decode(&bytes);
        assert_eq!(events, expected);
        assert!(replies.is_empty());
        // The same, however the network cuts it.
        let mut decoder = Decoder::new();
        let mut events = Vec::new();
        for byte in bytes {
            for event in decoder.decode(&[byte]).0 {
                match (events.last_mut(), event) {
                    (Some(Event::Data(before)), Event::Data(more)) => before.extend(more),
                    (_, event) => events.push(event),
                }
            }
        }
        assert_eq!(events, expected);
    }

    #[test]
    fn what_is_seen() {
        for (text, bytes) in [
            (&b"a\nb"[..], &b"a\r\nb"[..]),
            (b"a\r\nb", b"a\r\nb"),
            (b"50%\r60%", b"50%\r\x0060%"),
            (b"\r\r\n", b"\r\x00\r\n"),
            (b"\xffx", b"\xff\xffx"),
        ] {
            assert_eq!(Encoder::default().encode(text), bytes);
            let mut encoder = Encoder::default();
            let cut: Vec<u8> = text.iter().flat_map(|&b| encoder.encode(&[b])).collect();
            assert_eq!(cut, bytes);
        }
    }
}
