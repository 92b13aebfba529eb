//! Descriptors over a unix socket (`SCM_RIGHTS`; unix(7)).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vink_sys::socket;

/// Descriptors that a message may carry.
pub(crate) const MAX_DESCRIPTORS: usize = 16;

/// sendmsg(2): as many of the bytes as there is room for, and with the first of them the
/// descriptors. Answers how many bytes were sent.
///
/// # Errors
/// Those of sendmsg(2), without a `SIGPIPE`; `InvalidInput` for more than 16 descriptors.
pub fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[impl AsFd],
) -> io::Result<usize> {
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    socket::send_with(socket, bytes, &descriptors)
}

/// recvmsg(2): fills in as many bytes as there are, or as there is room for, and adds the
/// descriptors that come with them. Answers how many bytes were received.
///
/// # Errors
/// Those of recvmsg(2); `InvalidData`: descriptors were lost for lack of room for
/// them.
pub fn receive_with(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    descriptors: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    socket::receive_with(socket, room, descriptors)
}
