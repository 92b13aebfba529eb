//! Descriptors sent over a unix socket (`SCM_RIGHTS`; unix(7)): by the worker, its client and the control process.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors that a message may carry.
pub(crate) const MOST_DESCRIPTORS: usize = 16;

/// Control data of so many: more than unix(7) lets one message have (`SCM_MAX_FD`).
const ROOM: usize = 256 * size_of::<RawFd>() + 64;

#[repr(align(8))]
struct Control([u8; ROOM]);

/// sendmsg(2): as many of the bytes as there is room for, and with the first of them the descriptors. Answers how
/// many bytes were sent.
///
/// # Errors
/// Those of sendmsg(2), without a `SIGPIPE`; `InvalidInput` for more than 16 descriptors.
pub fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[impl AsRawFd],
) -> io::Result<usize> {
    if descriptors.len() > MOST_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut control = Control([0; ROOM]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: plain data, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let size = (descriptors.len() * size_of::<RawFd>()) as u32;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the buffer has room for so many descriptors and is aligned as a cmsghdr.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size) as usize;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for (i, fd) in descriptors.iter().enumerate() {
                data.add(i).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    // SAFETY: the message and what it points to are valid and outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// recvmsg(2): fills in as many bytes as there are, or as there is room for, and adds the descriptors that come with
/// them. Answers how many bytes were received.
///
/// # Errors
/// Those of recvmsg(2); [`ErrorKind::InvalidData`]: descriptors were lost for lack of room for them.
pub(crate) fn receive_with(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    descriptors: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    let mut control = Control([0; ROOM]);
    let mut part = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: plain data, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = ROOM;
    let socket = socket.as_raw_fd();
    // SAFETY: the message points to buffers that are as long as it says.
    let got = unsafe { libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has filled in the control data; each descriptor in it is new and owned once.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while let Some(h) = header.as_ref() {
            if (h.cmsg_level, h.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = h.cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    let fd = data.add(i).read_unaligned();
                    descriptors.push_back(OwnedFd::from_raw_fd(fd));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        let why =
            "descriptors were lost: more came at once than there is room for (RLIMIT_NOFILE?)";
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    Ok(got)
}
