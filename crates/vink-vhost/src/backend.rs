//! The backend to a virtual machine: it listens at the path of a unix socket, to which QEMU
//! connects.
//!
//! There is one connection at a time; when it ends, the next one may come, with the same guest or
//! another one. The link is up while the guest's driver uses both queues. A request or a queue that
//! can not be ends the connection, and so does a peer that reads no replies: nothing here waits for
//! it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vhost::vhost_user::message::{FrontendReq, VhostUserHeaderFlag};
use vhost::vhost_user::{BackendReqHandler, VhostUserBackendReqHandlerMut};
use vink_port::{
    failure, take, Backend, Deliver, Error, LinkState, Offloads, Poll, Stop, HEADER, INPUT, LARGEST,
};
use vink_sys::poll::{events_of, is_readable};
use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::{recv, send, RecvFlags, SendFlags};
use vm_memory::Bytes;

use crate::queue::{Broken, Span};
use crate::session::{Session, RECEIVES, SENDS};

/// Frames that are received before others have their turn.
const FRAME_BUDGET: usize = 32;
/// Requests that are answered before others have their turn.
const REQUEST_BUDGET: usize = 64;
/// Bytes of a message's header: request, flags, size of what follows.
const MESSAGE: usize = 12;
/// The most that follows.
const MOST_MESSAGE: usize = 4096;
/// Bytes behind the header of 10 that say how many buffers a frame has.
const BUFFERS: usize = 2;
/// No frame of Ethernet is shorter.
const SHORTEST: usize = 14;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CSUM: u8 = 1;

/// A socket in the file system, to which QEMU connects.
pub struct VhostUserBackend {
    listener: UnixListener,
    path: PathBuf,
    poll: Poll,
    connection: Option<Connection>,
    /// Why there is none.
    why: String,
    /// It has ended since the link's state was last asked for.
    has_ended: bool,
    /// A frame on its way to the guest, of which the header is [`BUFFERS`] bytes longer there.
    frame: Box<[u8]>,
    /// Bytes of it, if there is one, as they are in the wire.
    pending: Option<usize>,
    /// A frame that has come from the guest.
    received: Box<[u8]>,
    /// The parts of a frame's buffers, and these: their numbers and lengths.
    spans: Vec<Span>,
    buffers: Vec<(u16, usize)>,
    lost: u64,
}

/// A front-end.
struct Connection {
    socket: UnixStream,
    handler: BackendReqHandler<Mutex<Session>>,
    session: Arc<Mutex<Session>>,
}

impl VhostUserBackend {
    /// Listens at this path, at which no other process may listen. Only this user may connect.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn listen(path: &Path) -> Result<VhostUserBackend, Error> {
        let made = || {
            let listener = take(path, || UnixListener::bind(path))?;
            listener.set_nonblocking(true)?;
            let poll = Poll::new()?;
            poll.add(&listener, INPUT)?;
            Ok((listener, poll))
        };
        let (listener, poll) = made().map_err(|error| failure(path, error))?;
        Ok(VhostUserBackend {
            listener,
            path: path.to_owned(),
            poll,
            connection: None,
            why: "no virtual machine has connected yet".to_owned(),
            has_ended: false,
            frame: vec![0; BUFFERS + LARGEST].into(),
            pending: None,
            received: vec![0; BUFFERS + LARGEST].into(),
            spans: Vec::new(),
            buffers: Vec::new(),
            lost: 0,
        })
    }

    /// Serves the connection, and takes the next one after its end.
    fn serve_connections(&mut self) {
        self.answer();
        while let Ok((socket, _)) = self.listener.accept() {
            // The one before it may have ended just now.
            self.answer();
            // One that comes while another one is there finds its connection closed.
            if self.connection.is_none() {
                match Connection::new(socket, &self.poll) {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) => self.why = error.to_string(),
                }
            }
        }
    }

    fn answer(&mut self) {
        let answered = self.connection.as_mut().map(Connection::answer);
        if let Some(Err(why)) = answered {
            self.end(why);
        }
    }

    fn end(&mut self, why: String) {
        self.connection = None;
        self.has_ended = true;
        self.why = why;
        self.lost += u64::from(self.pending.take().is_some());
    }

    /// What `serve` makes of the connection, which a broken queue ends.
    fn serve<T>(
        &mut self,
        serve: impl FnOnce(&mut Self, &mut Session) -> Result<T, Broken>,
    ) -> Option<T> {
        let session = self.connection.as_ref()?.session.clone();
        let served = serve(self, &mut locked(&session));
        match served {
            Ok(served) => Some(served),
            Err(broken) => {
                self.end(format!("the guest has spoiled a queue: {broken}"));
                None
            }
        }
    }

    /// Puts the pending frame into the guest's buffers; false if there are too few.
    fn place(&mut self, session: &mut Session) -> Result<bool, Broken> {
        let Some(length) = self.pending else {
            return Ok(true);
        };
        let (longer, is_merging) = (session.header() - HEADER, session.is_merging());
        let Some((memory, queue)) = session.queue(RECEIVES) else {
            // No driver is there for it.
            self.pending = None;
            self.lost += 1;
            return Ok(true);
        };
        let needed = length + longer;
        let (mut there, mut room) = (queue.available(memory)?, 0);
        self.spans.clear();
        self.buffers.clear();
        while room < needed {
            let count = self.buffers.len() as u16;
            let is_too_long = count == queue.size() || count > 0 && !is_merging;
            if is_too_long {
                self.pending = None;
                self.lost += 1;
                return Ok(true);
            }
            if count == there {
                if queue.listen(memory, there)? {
                    return Ok(false);
                }
                there = queue.available(memory)?;
            }
            let buffer = queue.buffer(memory, count, true, &mut self.spans)?;
            room += buffer.1;
            self.buffers.push(buffer);
        }
        queue.be_quiet(memory)?;
        // The frame with the guest's header.
        let start = BUFFERS - longer;
        if longer > 0 {
            self.frame.copy_within(BUFFERS..BUFFERS + HEADER, 0);
            let count = self.buffers.len() as u16;
            self.frame[HEADER..HEADER + BUFFERS].copy_from_slice(&count.to_le_bytes());
        }
        let mut rest = &self.frame[start..BUFFERS + length];
        for span in &self.spans {
            let (part, behind) = rest.split_at(span.length.min(rest.len()));
            memory.write_slice(part, span.at)?;
            rest = behind;
        }
        let mut left = needed;
        for (number, bytes) in &self.buffers {
            let written = left.min(*bytes);
            left -= written;
            queue.put_used(memory, *number, written as u32)?;
        }
        queue.publish(memory)?;
        self.pending = None;
        Ok(true)
    }

    /// Takes frames out of the guest's queue, up to a budget: whether there may be more, and whether
    /// `deliver` has stopped it.
    fn take_frames(
        &mut self,
        session: &mut Session,
        deliver: Deliver<'_>,
    ) -> Result<(bool, Result<(), Stop>), Broken> {
        let header = session.header();
        let Some((memory, queue)) = session.queue(SENDS) else {
            return Ok((false, Ok(())));
        };
        let (mut more, mut delivered, mut count) = (false, Ok(()), 0);
        let mut there = queue.available(memory)?;
        if there > 0 {
            queue.be_quiet(memory)?;
        }
        while delivered.is_ok() {
            if there == 0 {
                if queue.listen(memory, 0)? {
                    break;
                }
                there = queue.available(memory)?;
            }
            if count == FRAME_BUDGET {
                more = true;
                break;
            }
            self.spans.clear();
            let (number, bytes) = queue.buffer(memory, 0, false, &mut self.spans)?;
            if (header + SHORTEST..=header + LARGEST - HEADER).contains(&bytes) {
                let mut rest = &mut self.received[..bytes];
                for span in &self.spans {
                    let (part, behind) = rest.split_at_mut(span.length);
                    memory.read_slice(part, span.at)?;
                    rest = behind;
                }
                // The header without the number of buffers; and of what it says what a guest may.
                let start = header - HEADER;
                self.received.copy_within(0..HEADER, start);
                self.received[start] &= NEEDS_CSUM;
                delivered = deliver(&self.received[start..bytes]);
            } else {
                self.lost += 1;
            }
            queue.put_used(memory, number, 0)?;
            queue.publish(memory)?;
            count += 1;
            there -= 1;
        }
        session.tell(SENDS)?;
        Ok((more, delivered))
    }
}

impl Backend for VhostUserBackend {
    fn offloads(&self) -> Offloads {
        let takes_large = |connection: &Connection| locked(&connection.session).takes_large();
        match self.connection.as_ref().is_some_and(takes_large) {
            true => Offloads::Tcp,
            false => Offloads::Received,
        }
    }

    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        self.has_ended = false;
        // One system call, if there is nothing.
        if is_readable(&self.poll, 0) {
            self.serve_connections();
        }
        let why = match &self.connection {
            Some(connection) if locked(&connection.session).is_running() => return LinkState::Up,
            Some(_) => "the guest has no driver for the interface yet",
            None => &self.why,
        };
        let down = format!("{}: {why}", self.path.display());
        self.lost += u64::from(self.pending.take().is_some());
        LinkState::Down(down)
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        let taken = self.serve(|backend, session| backend.take_frames(session, deliver));
        let (more, delivered) = taken.unwrap_or((false, Ok(())));
        delivered.map(|()| more | self.has_ended)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        if self.pending.is_some() {
            self.flush();
        }
        match self.pending {
            Some(_) => None,
            None => Some(&mut self.frame[BUFFERS..]),
        }
    }

    fn put(&mut self, length: usize) {
        self.pending = Some(length);
        self.serve(VhostUserBackend::place);
    }

    fn flush(&mut self) -> bool {
        self.serve(|backend, session| {
            backend.place(session)?;
            session.tell(RECEIVES)
        });
        self.has_ended
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for VhostUserBackend {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Connection {
    fn new(socket: UnixStream, poll: &Poll) -> io::Result<Connection> {
        let session = Session::new()?;
        poll.add(&socket, INPUT)?;
        poll.add(session.kicks(), INPUT)?;
        let session = Arc::new(Mutex::new(session));
        Ok(Connection {
            handler: BackendReqHandler::from_stream(socket.try_clone()?, session.clone()),
            socket,
            session,
        })
    }

    /// Answers the requests that have come, up to a budget, and takes the kicks.
    ///
    /// # Errors
    /// Why the connection is over.
    fn answer(&mut self) -> Result<(), String> {
        for _ in 0..REQUEST_BUDGET {
            let Some(request) = self.next_request()? else {
                break;
            };
            // The handler would wait for room.
            if events_of(self.socket.as_raw_fd(), libc::POLLOUT, 0) & libc::POLLOUT == 0 {
                return Err("it reads no replies".to_owned());
            }
            let answered = match request {
                FrontendReq::SET_VRING_ENABLE => self.enable(),
                _ => self.handler.handle_request(),
            };
            if let Err(error) = answered {
                let why = locked(&self.session).why.take();
                return Err(why.unwrap_or_else(|| format!("{request:?} that can not be: {error}")));
            }
        }
        let mut session = locked(&self.session);
        if !is_readable(session.kicks(), 0) {
            return Ok(());
        }
        let taken = session.take_kicks();
        taken.map_err(|error| format!("the kick of a queue is none: {error}"))
    }

    /// What is asked for next, if all of the request is there: the handler waits for the rest of one.
    fn next_request(&self) -> Result<Option<FrontendReq>, String> {
        let mut bytes = [0; MESSAGE + MOST_MESSAGE];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let got = match recv(&self.socket, &mut bytes, flags) {
            Ok((0, _)) => return Err("the virtual machine is gone".to_owned()),
            Ok((got, _)) => got,
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let [code, _, size] = words(&bytes);
        if got < MESSAGE || got - MESSAGE < size as usize {
            return Err(format!("a request that is cut off, or of {size} bytes"));
        }
        let request = FrontendReq::try_from(code);
        let request = request.map_err(|_| format!("{code} is no request"))?;
        Ok(Some(request))
    }

    /// Answers `SET_VRING_ENABLE`: the handler refuses it before features were set, and QEMU asks
    /// for it already then.
    fn enable(&mut self) -> vhost::vhost_user::Result<()> {
        let mut bytes = [0; MESSAGE + 8];
        let got = recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT);
        let [code, flags, size, index, enable] = words(&bytes);
        if !matches!(got, Ok((20, _))) || size != 8 || enable > 1 {
            return Err(vhost::vhost_user::Error::InvalidMessage);
        }
        let enabled = locked(&self.session).set_vring_enable(index, enable == 1);
        if flags & VhostUserHeaderFlag::NEED_REPLY.bits() != 0 {
            let reply = VhostUserHeaderFlag::REPLY.bits() | 1;
            let reply = [code, reply, 8, enabled.is_err().into(), 0];
            let bytes = reply.map(u32::to_le_bytes).concat();
            // There is room for it; that the peer is gone is found next.
            let _ = send(
                &self.socket,
                &bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
        }
        enabled
    }
}

/// The words that bytes start with.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    std::array::from_fn(|n| {
        let word = bytes[4 * n..].first_chunk().expect("as long as it is");
        u32::from_le_bytes(*word)
    })
}

/// No thread can have panicked with it: there is one.
fn locked(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
