//! Files that the user names: read whole, up to a size, and never waited for.
//!
//! A device may never end, and a file of `/proc` may wait for what never comes: neither has a size
//! that tells. A pipe is read as it is (`vink lab check <(...)`): its writer decides.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that a file which is read whole may have: lab files, and what they name.
pub const LARGEST_FILE: u64 = 256 << 20;

/// Opens a regular file or a pipe for reading (open(2)). What a regular file does not have at once
/// is `EAGAIN`.
///
/// # Errors
/// As open(2); `InvalidInput`: it is a folder, a device or a socket.
pub fn open_file(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            if kind.is_dir() {
                "it is a folder, not a file"
            } else {
                "it is a device or a socket, not a file"
            },
        ));
    }
    let flags = if kind.is_file() { libc::O_NONBLOCK } else { 0 };
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
}

/// The contents of a regular file or a pipe.
///
/// # Errors
/// As [`open_file`] and read(2); `FileTooLarge`: it has more than `most` bytes.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_most(open_file(path)?, most)
}

/// The same of what is open.
///
/// # Errors
/// As read(2); `FileTooLarge`: it has more than `most` bytes.
pub fn read_most(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(most + 1).read_to_end(&mut bytes);
    match read {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "it has no end: reading it would wait for what comes next",
        )),
        Err(error) => Err(error),
        Ok(read) if read as u64 > most => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes"),
        )),
        Ok(_) => Ok(bytes),
    }
}

/// As [`read_file`], of text.
///
/// # Errors
/// As [`read_file`]; `InvalidData`: it is not UTF-8.
pub fn read_text_file(path: &Path, most: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read_file(path, most)?).map_err(not_text)
}
