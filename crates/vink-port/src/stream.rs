//! Frames on a unix stream socket, each behind its length (4 bytes, big endian): as passt and QEMU
//! have them.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;

use vink_sys::rustix::net::{self, RecvFlags, SendFlags};

use super::backend::{Deliver, Stop, LARGEST};

/// A frame with its length in front fits into this.
const SLOT: usize = 4 + LARGEST;
/// Bytes that are moved at a time.
const BUFFER: usize = 8 * SLOT;

/// Bytes on their way: those between `start` and `end`.
struct Queue {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            bytes: vec![0; BUFFER].into(),
            start: 0,
            end: 0,
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Makes all the room at the end that there is.
    fn pack(&mut self) {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }
}

/// Where the stream is cut into sends.
///
/// passt takes the end of what it has read for the end of a frame, or reads the rest of that frame,
/// once. The host may let it read between any two pieces that a send is copied in, the first of
/// which has more than [`PIECE`] bytes. So a send has frames that fit into one piece together, or
/// one large frame, which makes two. To QEMU it makes no difference.
#[derive(Default)]
struct Cut {
    /// Bytes of the send under way that have not been taken.
    left: usize,
}

/// `UNIX_SKB_FRAGS_SZ` of net/unix/af_unix.c.
const PIECE: usize = 32 << 10;

impl Cut {
    /// What to send now, of a queue that is not empty.
    fn next<'a>(&mut self, queue: &'a Queue) -> &'a [u8] {
        let bytes = &queue.bytes[queue.start..queue.end];
        if self.left > 0 {
            // The rest of a send goes alone.
            return &bytes[..self.left];
        }
        while let Some((length, _)) = bytes[self.left..].split_first_chunk() {
            let frame = 4 + u32::from_be_bytes(*length) as usize;
            if self.left > 0 && self.left + frame > PIECE {
                break;
            }
            self.left += frame;
        }
        &bytes[..self.left]
    }

    fn sent(&mut self, count: usize) {
        self.left -= count;
    }
}

/// Why there is no more to be had from a stream.
#[derive(Debug)]
pub enum Gone {
    /// The other side has closed it.
    Closed,
    /// A frame of this length, which is more than there are.
    Malformed(u32),
    /// The host's word.
    Failed(io::Error),
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gone::Closed => f.write_str("it has closed its end"),
            Gone::Malformed(length) => write!(
                f,
                "it sent a frame of {length} bytes, which is more than {LARGEST}: each frame must come behind its length, 4 bytes, big endian"
            ),
            Gone::Failed(error) => error.fmt(f),
        }
    }
}

/// One connection.
pub struct Stream {
    socket: UnixStream,
    out: Queue,
    cut: Cut,
    come: Queue,
    /// It does not take what is sent, for now.
    full: bool,
}

impl Stream {
    /// Nothing has been sent or received yet.
    pub fn new(socket: UnixStream) -> Stream {
        Stream {
            socket,
            out: Queue::default(),
            cut: Cut::default(),
            come: Queue::default(),
            full: false,
        }
    }

    /// To be waited for.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Whether there was no room when something was sent last.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// See [`Backend::room`](crate::Backend::room).
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let queue = &mut self.out;
        if queue.is_empty() {
            (queue.start, queue.end) = (0, 0);
        }
        let slot = queue.bytes[queue.end..].get_mut(..SLOT)?;
        Some(&mut slot[4..])
    }

    /// That many bytes have been put where there was room.
    pub fn put(&mut self, length: usize) {
        let queue = &mut self.out;
        let frame = &mut queue.bytes[queue.end..][..4 + length];
        frame[..4].copy_from_slice(&(length as u32).to_be_bytes());
        queue.end += 4 + length;
    }

    /// Sends what has been put, as far as it is taken.
    ///
    /// # Errors
    /// [`Gone::Failed`].
    pub fn flush(&mut self) -> Result<(), Gone> {
        self.full = false;
        while !self.out.is_empty() {
            match send(&self.socket, self.cut.next(&self.out)) {
                Ok(sent) => {
                    self.out.start += sent;
                    self.cut.sent(sent);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.full = true;
                    return Ok(());
                }
                Err(e) => return Err(Gone::Failed(e)),
            }
        }
        Ok(())
    }

    /// Receives once, and delivers the frames that are whole; the stream's failure.
    ///
    /// # Errors
    /// [`Stop`], if `deliver` answers it.
    pub fn receive(&mut self, deliver: Deliver<'_>) -> Result<Result<(), Gone>, Stop> {
        let queue = &mut self.come;
        queue.pack();
        match receive(&self.socket, &mut queue.bytes[queue.end..]) {
            Ok(0) => return Ok(Err(Gone::Closed)),
            Ok(got) => queue.end += got,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Ok(Err(Gone::Failed(e))),
        }
        while let Some((length, rest)) = queue.bytes[queue.start..queue.end].split_first_chunk() {
            let length = u32::from_be_bytes(*length);
            if length as usize > LARGEST {
                return Ok(Err(Gone::Malformed(length)));
            }
            let Some(frame) = rest.get(..length as usize) else {
                break;
            };
            deliver(frame)?;
            queue.start += 4 + length as usize;
        }
        Ok(Ok(()))
    }
}

/// send(2), without waiting and without SIGPIPE.
fn send(socket: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(net::send(socket, bytes, flags)?)
}

/// recv(2), without waiting.
fn receive(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
    let (count, _) = net::recv(socket, bytes, RecvFlags::DONTWAIT)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of frames of these lengths, and the lengths of the sends that it makes, if each
    /// takes at most so many bytes.
    fn sends(frames: &[u32], most: usize) -> Vec<usize> {
        let mut queue = Queue::default();
        for frame in frames {
            queue.bytes[queue.end..][..4].copy_from_slice(&frame.to_be_bytes());
            queue.end += 4 + *frame as usize;
        }
        let (mut cut, mut found) = (Cut::default(), Vec::new());
        while !queue.is_empty() {
            let sent = cut.next(&queue).len().min(most);
            found.push(sent);
            queue.start += sent;
            cut.sent(sent);
        }
        found
    }

    #[test]
    fn a_send_ends_with_a_frame() {
        let all = usize::MAX;
        assert_eq!(sends(&[60], all), [64]);
        assert_eq!(sends(&[60, 60, 65530, 60], all), [128, 65534, 64]);
        assert_eq!(sends(&[65530, 65530], all), [65534, 65534]);
        assert_eq!(sends(&[16380, 16380, 16380], all), [32768, 16384]);
        // What was not taken is sent without what follows.
        assert_eq!(sends(&[65530, 60], 40000), [40000, 25534, 64]);
    }
}
