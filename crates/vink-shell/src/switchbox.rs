//! The switch box: telnet sessions on loopback, for the owner only.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use vink_api::{Client, LabApi, Size};

use crate::edit::{Editor, Screen, Step, LONGEST_LINE};
use crate::executor::USUAL;
use crate::front::{Act, Connection, Front};
use crate::peer;
use crate::session::{Flow, Session};
use crate::telnet::{Decoder, Encoder, Event, GREETING};
use crate::ShellError;

/// How often a client that has closed its sending side is checked to be still there.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pieces of input that may wait.
const PIECES: usize = 64;

/// Answers telnet sessions that command this lab, at this listener and at the same port of the IPv6
/// loopback address. All sessions end when the future is dropped.
///
/// Others than the user of this process are refused.
///
/// # Errors
/// The listener fails.
pub async fn serve(client: Client, lab: String, listener: TcpListener) -> io::Result<()> {
    let port = listener.local_addr()?.port();
    // Where there is no IPv6, or another program has that port, IPv4 has to do.
    let other = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok();
    let mut sessions = JoinSet::new();
    loop {
        let other = async {
            match &other {
                Some(other) => other.accept().await,
                None => std::future::pending().await,
            }
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            accepted = other => accepted,
            Some(_) = sessions.join_next() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                sessions.spawn(answer(stream, peer, client.clone(), lab.clone()));
            }
            // Of the connection, or for want of descriptors: neither is the listener's end
            // (accept(2)).
            Err(error) => {
                tracing::warn!(target: "shell", "the switch box of {lab}: a connection was not accepted: {error}");
                sleep(POLL_INTERVAL).await;
            }
        }
    }
}

/// One connection, before its user is known.
async fn answer(mut stream: TcpStream, theirs: SocketAddr, client: Client, lab: String) {
    // The only error here is that the client has gone.
    let _ = async {
        if let Some(refusal) = refuse(theirs, stream.local_addr()?) {
            stream.write_all(refusal.as_bytes()).await?;
            stream.shutdown().await?;
            // What is unread when a socket is closed would take the refusal back.
            let mut nowhere = tokio::io::sink();
            let rest = tokio::io::copy(&mut stream, &mut nowhere);
            let _ = timeout(POLL_INTERVAL, rest).await;
            return Ok(());
        }
        // Keys and what they show are small.
        stream.set_nodelay(true)?;
        let folder = match client.lab(&lab).await {
            Ok(status) => PathBuf::from(status.summary.folder),
            Err(error) => {
                stream
                    .write_all(format!("vink: {error}\r\n").as_bytes())
                    .await?;
                return stream.shutdown().await;
            }
        };
        let mut session = Session::new(client, &lab, folder, true);
        let mut caller = Caller::new(stream, theirs)?;
        let _ = converse(&mut caller, &mut session, &lab).await;
        caller.finish().await
    }
    .await;
}

/// Why a user may not command this lab.
fn refuse(theirs: SocketAddr, ours: SocketAddr) -> Option<String> {
    let owner = vink_sys::process::geteuid();
    match peer::find(theirs, ours) {
        Ok(Some(peer)) if peer.user == owner => None,
        Ok(Some(peer)) => Some(format!(
            "vink: this lab belongs to user {owner}, and you are user {}: start one of your own with vink lab up\r\n",
            peer.user
        )),
        Ok(None) => Some("vink: you closed the connection before its user was known\r\n".to_owned()),
        Err(error) => Some(format!("vink: can't tell which user you are: /proc/net/tcp: {error}\r\n")),
    }
}

/// Reads lines and carries them out, until one side has enough.
async fn converse(
    caller: &mut Caller,
    session: &mut Session<Client>,
    lab: &str,
) -> Result<(), ShellError> {
    caller.send(&GREETING).await?;
    let welcome = format!("Vink, lab {lab}. `help` lists the commands.\n");
    caller.write(welcome.as_bytes()).await?;
    let mut number = 0;
    loop {
        caller.editor.prompt(&session.prompt());
        let step = caller.line(session).await?;
        number += 1;
        let line = match step {
            Step::Line(line) => line,
            Step::TooLong => {
                let text = format!(
                    "line {number} is longer than {LONGEST_LINE} bytes: it was not carried out\n"
                );
                caller.write(text.as_bytes()).await?;
                if session.stops {
                    return Ok(());
                }
                continue;
            }
            Step::Interrupt => continue,
            Step::End if session.machine.is_some() && caller.echoes == Some(true) => {
                session.machine = None;
                continue;
            }
            _ => return Ok(()),
        };
        if number == 1 && is_http(&line) {
            let text = "vink: this is no web server; `telnet` is what it understands\n";
            return Ok(caller.write(text.as_bytes()).await?);
        }
        match session.line(&line, caller).await {
            Ok(Flow::Next(reply)) => caller.write(reply.text.as_bytes()).await?,
            Ok(Flow::End) => return Ok(()),
            Err(ShellError::Gone) => return Err(ShellError::Gone),
            Err(failure) if session.stops => {
                let text = format!("line {number}: {failure}\n");
                return Ok(caller.write(text.as_bytes()).await?);
            }
            Err(failure) => caller.write(format!("{failure}\n").as_bytes()).await?,
        }
        let past = session.past();
        caller.write(&past).await?;
    }
}

/// Whether this is the first line of a request that a browser sends. Any web page can make one send
/// a form to a port of loopback, and its text would be carried out: the browser is the owner's.
fn is_http(line: &str) -> bool {
    let mut words = line.split(' ');
    words
        .next_back()
        .is_some_and(|last| last.starts_with("HTTP/"))
}

/// What comes off the network.
enum Arrival {
    Event(Event),
    /// An answer that the protocol demands.
    Answer(Vec<u8>),
    End,
}

/// A connected client.
struct Caller {
    arrivals: mpsc::Receiver<Arrival>,
    write: OwnedWriteHalf,
    encoder: Encoder,
    editor: Editor,
    /// Encoded, and not yet sent.
    unsent: Vec<u8>,
    /// Typed, and not yet read.
    typed: VecDeque<u8>,
    /// Whether we echo what is typed; none: it speaks no telnet, but sends lines.
    echoes: Option<bool>,
    size: Size,
    terminal: Option<String>,
    ended: bool,
    theirs: SocketAddr,
    ours: SocketAddr,
    _reader: JoinSet<()>,
}

impl Caller {
    fn new(stream: TcpStream, theirs: SocketAddr) -> io::Result<Caller> {
        let ours = stream.local_addr()?;
        let (read, write) = stream.into_split();
        let (sender, arrivals) = mpsc::channel(PIECES);
        let mut reader = JoinSet::new();
        reader.spawn(receive(read, sender));
        Ok(Caller {
            arrivals,
            write,
            encoder: Encoder::default(),
            editor: Editor::new(),
            unsent: Vec::new(),
            typed: VecDeque::new(),
            echoes: None,
            size: USUAL,
            terminal: None,
            ended: false,
            theirs,
            ours,
            _reader: reader,
        })
    }

    /// Sends the bytes themselves. Nothing is lost, and nothing sent twice, when the future is
    /// dropped.
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unsent.extend(bytes);
        while !self.unsent.is_empty() {
            let sent = self.write.write(&self.unsent).await?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Shows what editing has led to.
    async fn show(&mut self) -> io::Result<()> {
        let output = self.editor.output();
        match output.is_empty() {
            true => Ok(()),
            false => self.write(&output).await,
        }
    }

    /// Reads a line, while what happens in the background is shown.
    async fn line(&mut self, session: &mut Session<Client>) -> Result<Step, ShellError> {
        loop {
            let step = session.edit(&mut self.editor, &mut self.typed).await;
            self.show().await?;
            if let Some(step) = step {
                return Ok(step);
            }
            if self.ended {
                return Ok(self.editor.rest());
            }
            tokio::select! {
                arrival = self.arrivals.recv() => match arrival {
                    Some(Arrival::Event(event)) => self.take(event).await?,
                    Some(Arrival::Answer(bytes)) => self.send(&bytes).await?,
                    Some(Arrival::End) | None => self.ended = true,
                },
                told = session.news() => {
                    let shown = session.shown(told);
                    let bytes = self.editor.above(&shown);
                    self.write(&bytes).await?;
                }
            }
        }
    }

    /// Takes note of what has come; what is typed waits to be read.
    async fn take(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Data(bytes) => self.typed.extend(bytes),
            Event::Key(byte) => self.typed.push_back(byte),
            Event::AreYouThere => self.write(b"\n[vink: yes]\n").await?,
            Event::Size(columns, rows) => {
                self.size = Size {
                    rows: if rows == 0 { USUAL.rows } else { rows },
                    columns: if columns == 0 { USUAL.columns } else { columns },
                };
            }
            Event::Terminal(name) => self.terminal = Some(name),
            Event::Echo(echoes) => self.echoes = Some(echoes),
        }
        let knows_more = |name: &String| !matches!(name.as_str(), "dumb" | "unknown" | "network");
        self.editor.screen = match self.echoes {
            Some(true) if self.terminal.as_ref().is_some_and(knows_more) => {
                Screen::Full(usize::from(self.size.columns))
            }
            Some(true) => Screen::Plain,
            _ => Screen::None,
        };
        Ok(())
    }

    /// Says that all has been said.
    async fn finish(&mut self) -> io::Result<()> {
        self.write.shutdown().await?;
        // What is unread when a socket is closed would take the last words back.
        let rest =
            async { while !matches!(self.arrivals.recv().await, Some(Arrival::End) | None) {} };
        let _ = timeout(POLL_INTERVAL, rest).await;
        Ok(())
    }
}

/// Reads and decodes until the other side's end.
async fn receive(mut read: OwnedReadHalf, arrivals: mpsc::Sender<Arrival>) {
    let mut decoder = Decoder::new();
    let mut buffer = [0; 4096];
    loop {
        let (events, answer) = match read.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => decoder.decode(&buffer[..count]),
        };
        let events = events.into_iter().map(Arrival::Event);
        let answer = (!answer.is_empty()).then_some(Arrival::Answer(answer));
        for arrival in events.chain(answer) {
            if arrivals.send(arrival).await.is_err() {
                return;
            }
        }
    }
    // Fails if the session has ended.
    let _ = arrivals.send(Arrival::End).await;
}

impl Front for Caller {
    fn connection(&self) -> Connection {
        match self.echoes {
            None => Connection::Output,
            Some(false) => Connection::Lines,
            Some(true) => Connection::Terminal(self.size, self.terminal.clone()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let encoded = self.encoder.encode(bytes);
        self.send(&encoded).await
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        self.typed.extend(bytes);
    }

    async fn act(&mut self) -> Act {
        // A client that speaks no telnet sends lines, all of which are for the switch box, and may have sent
        // the last one. That it is gone altogether shows only by its socket.
        if self.echoes.is_none() {
            loop {
                sleep(POLL_INTERVAL).await;
                if matches!(peer::find(self.theirs, self.ours), Ok(None)) {
                    return Act::Gone;
                }
            }
        }
        loop {
            match self.arrivals.recv().await {
                Some(Arrival::Event(Event::Data(bytes))) => {
                    if let Some(at) = bytes.iter().position(|&byte| byte == 0x1a) {
                        // What was typed before it is of no use to a program that stops.
                        self.typed.extend(&bytes[at + 1..]);
                        return Act::Suspend;
                    }
                    return match self.echoes {
                        Some(true) => Act::Input(bytes),
                        _ if bytes.contains(&0x03) => Act::Interrupt,
                        _ => Act::Input(
                            bytes
                                .into_iter()
                                .map(|b| if b == b'\r' { b'\n' } else { b })
                                .collect(),
                        ),
                    };
                }
                Some(Arrival::Event(Event::Key(0x03))) => return Act::Interrupt,
                Some(Arrival::Event(Event::Key(0x1a))) => return Act::Suspend,
                Some(Arrival::Event(Event::Key(0x04))) if self.echoes != Some(true) => {
                    return Act::End
                }
                Some(Arrival::Event(Event::Key(byte))) => return Act::Input(vec![byte]),
                Some(Arrival::Event(event)) => {
                    let resized = matches!(event, Event::Size(..));
                    if self.take(event).await.is_err() {
                        return Act::Gone;
                    }
                    if resized {
                        return Act::Resize(self.size);
                    }
                }
                Some(Arrival::Answer(bytes)) => {
                    if self.send(&bytes).await.is_err() {
                        return Act::Gone;
                    }
                }
                Some(Arrival::End) | None => {
                    self.ended = true;
                    return Act::Gone;
                }
            }
        }
    }
}
