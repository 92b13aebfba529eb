//! Frames: the codec of both sides.

use std::io::{self, ErrorKind};

use serde::de::DeserializeOwned;
use serde::Serialize;

/// The most bytes of a message.
pub const MAX_FRAME: usize = 64 << 20;

/// Bytes of a message's length.
pub(crate) const PREFIX: usize = 4;
/// Bytes received at once.
const PIECE: usize = 64 << 10;

/// Appends a message's frame.
pub fn encode(message: &impl Serialize, to: &mut Vec<u8>) {
    let start = to.len();
    to.extend([0; PREFIX]);
    serde_json::to_writer(&mut *to, message).expect("plain data, and memory");
    let length = (to.len() - start - PREFIX) as u32;
    to[start..][..PREFIX].copy_from_slice(&length.to_be_bytes());
}

/// Messages from a stream of bytes, which comes in pieces of any size.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    /// Received bytes; those before `taken` are decoded.
    bytes: Vec<u8>,
    taken: usize,
}

impl FrameDecoder {
    /// Has `receive` write the next piece into a buffer, and returns how many bytes it has written.
    ///
    /// # Errors
    /// Those of `receive`.
    pub fn fill(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > PIECE {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        let len = self.bytes.len();
        self.bytes.resize(len + PIECE, 0);
        let got = receive(&mut self.bytes[len..]);
        self.bytes.truncate(len + *got.as_ref().unwrap_or(&0));
        got
    }

    /// The next message, if all of it has come.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`]: it is longer than [`MAX_FRAME`], or no message of this type.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let bad = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        let input = &self.bytes[self.taken..];
        let Some((length, rest)) = input.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME {
            let why = format!("a message of {length} bytes, where {MAX_FRAME} are the most");
            return Err(bad(why));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(body).map_err(|e| {
            bad(format!(
                "a message that can't be read: {e}: {}",
                start_of(body)
            ))
        })?;
        self.taken += PREFIX + length;
        Ok(Some(message))
    }
}

/// The beginning of a message, for an error.
fn start_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    format!("{text:?}")
}
