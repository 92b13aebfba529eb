//! The frames between a TAP interface and passt, each behind its length (4 bytes, big endian).

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use vink_kernel::{Kernel, TaskId};
use vink_trap::{Device, Wants};

use super::handshake::Handshakes;
use super::tap::Tap;

/// A frame with its length in front fits into this.
const SLOT: usize = 4 + 14 + 65535;
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

/// Where the stream to passt is cut into sends.
///
/// passt takes the end of what it has read for the end of a frame, or reads the rest of that frame, once.
/// The host may let it read between any two pieces that a send is copied in, the first of which has more
/// than [`PIECE`] bytes. So a send has frames that fit into one piece together, or one large frame, which
/// makes two.
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

/// The frames between a TAP interface and passt.
pub(crate) struct Link {
    socket: UnixStream,
    tap: Tap,
    to_passt: Queue,
    cut: Cut,
    handshakes: Handshakes,
    from_passt: Queue,
    ended: Rc<Cell<bool>>,
}

impl Link {
    /// Between this interface and passt. `ended` becomes true when passt has ended.
    pub(crate) fn new(socket: UnixStream, tap: Tap, ended: Rc<Cell<bool>>) -> Link {
        Link {
            socket,
            tap,
            to_passt: Queue::default(),
            cut: Cut::default(),
            handshakes: Handshakes::default(),
            from_passt: Queue::default(),
            ended,
        }
    }
}

/// passt has ended, or its stream makes no sense.
struct Broken;

impl Link {
    /// Reads frames of the machine until there are none. True if passt does not take them.
    fn outwards(
        &mut self,
        kernel: &mut Kernel,
    ) -> Result<Result<bool, Broken>, vink_kernel::Error> {
        loop {
            let queue = &mut self.to_passt;
            if queue.is_empty() {
                (queue.start, queue.end) = (0, 0);
            }
            let mut more = true;
            while more && queue.end + SLOT <= queue.bytes.len() {
                let slot = &mut queue.bytes[queue.end..][..SLOT];
                let into = slot[4..].as_mut_ptr() as u64;
                let args = [self.tap.file as u64, into, (SLOT - 4) as u64, 0, 0, 0];
                let got = kernel.call(self.tap.task, libc::SYS_read, args)?;
                match u32::try_from(got) {
                    Ok(got) if got > 0 => {
                        slot[..4].copy_from_slice(&got.to_be_bytes());
                        queue.end += 4 + got as usize;
                        if let Some(frame) = self.handshakes.answer(&slot[4..][..got as usize]) {
                            let (from, length) = (frame.as_ptr() as u64, frame.len() as u64);
                            let args = [self.tap.file as u64, from, length, 0, 0, 0];
                            kernel.call(self.tap.task, libc::SYS_write, args)?;
                        }
                    }
                    _ => more = false,
                }
            }
            while !queue.is_empty() {
                match send(&self.socket, self.cut.next(queue)) {
                    Ok(sent) => {
                        queue.start += sent;
                        self.cut.sent(sent);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Ok(true)),
                    Err(_) => return Ok(Err(Broken)),
                }
            }
            if !more {
                return Ok(Ok(false));
            }
        }
    }

    /// Writes to the machine what has come from passt, once.
    fn inwards(&mut self, kernel: &mut Kernel) -> Result<Result<(), Broken>, vink_kernel::Error> {
        let queue = &mut self.from_passt;
        queue.pack();
        match receive(&self.socket, &mut queue.bytes[queue.end..]) {
            Ok(0) => return Ok(Err(Broken)),
            Ok(got) => queue.end += got,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Ok(Err(Broken)),
        }
        while let Some((length, rest)) = queue.bytes[queue.start..queue.end].split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > SLOT - 4 {
                return Ok(Err(Broken));
            }
            let Some(frame) = rest.get(..length) else {
                break;
            };
            let args = [
                self.tap.file as u64,
                frame.as_ptr() as u64,
                length as u64,
                0,
                0,
                0,
            ];
            // One that is not taken is lost, as on any wire.
            kernel.call(self.tap.task, libc::SYS_write, args)?;
            queue.start += 4 + length;
        }
        Ok(Ok(()))
    }
}

impl Device for Link {
    fn host(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn file(&self) -> (TaskId, i32) {
        (self.tap.task, self.tap.file)
    }

    fn serve(&mut self, kernel: &mut Kernel) -> Result<Wants, vink_kernel::Error> {
        let mut wants = match self.inwards(kernel)? {
            Ok(()) => Wants::Input,
            Err(Broken) => Wants::Nothing,
        };
        if wants == Wants::Input {
            wants = match self.outwards(kernel)? {
                Ok(true) => Wants::Room,
                Ok(false) => Wants::Input,
                Err(Broken) => Wants::Nothing,
            };
        }
        if wants == Wants::Nothing {
            // The interface goes with its descriptor.
            kernel.exit_task(self.tap.task, 0, true)?;
            self.ended.set(true);
        }
        Ok(wants)
    }
}

/// send(2), without waiting and without SIGPIPE.
fn send(socket: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes are as many as said.
    let sent = unsafe {
        let from = bytes.as_ptr().cast();
        libc::send(socket.as_raw_fd(), from, bytes.len(), flags)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// recv(2), without waiting.
fn receive(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: there is room for as many bytes as said.
    let got = unsafe {
        let into = bytes.as_mut_ptr().cast();
        libc::recv(socket.as_raw_fd(), into, bytes.len(), libc::MSG_DONTWAIT)
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of frames of these lengths, and the lengths of the sends that it makes, if each takes at
    /// most so many bytes.
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
