//! Sockets beyond what std has: pairs that keep messages apart, options by number, and descriptors
//! in messages (`SCM_RIGHTS`; unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::net::{
    recvmsg, sendmsg, socketpair, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage,
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::done;
use crate::plain::Zeroed;

/// Two ends of a unix socket that no executed program inherits.
///
/// # Errors
/// As socketpair(2).
pub fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

/// The same, which keeps messages apart, and knows of their end.
///
/// # Errors
/// As socketpair(2).
pub fn seqpacket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::SEQPACKET)
}

/// The same, a stream.
///
/// # Errors
/// As socketpair(2).
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::STREAM)
}

/// What an option's value may be.
///
/// # Safety
/// There is no address in it that the kernel would read from or write to.
pub unsafe trait OptionValue: Zeroed {}

// SAFETY: integers.
unsafe impl OptionValue for i32 {}
// SAFETY: integers.
unsafe impl OptionValue for [u32; 2] {}
// SAFETY: integers.
unsafe impl OptionValue for libc::packet_mreq {}
// SAFETY: integers.
unsafe impl OptionValue for libc::ucred {}

/// Sets an option (setsockopt(2)).
///
/// # Errors
/// As setsockopt(2).
pub fn set_option<T: OptionValue>(
    socket: impl AsFd,
    level: i32,
    option: i32,
    value: T,
) -> io::Result<()> {
    let (fd, size) = (socket.as_fd().as_raw_fd(), size_of::<T>() as u32);
    // SAFETY: the value is of that size and outlives the call.
    done(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size) }.into())
        .map(|_| ())
}

/// An option's value (getsockopt(2)).
///
/// # Errors
/// As getsockopt(2).
pub fn option<T: OptionValue>(socket: RawFd, level: i32, option: i32) -> io::Result<T> {
    let (mut value, mut size) = (T::zeroed(), size_of::<T>() as u32);
    let to = (&raw mut value).cast();
    // SAFETY: the value is of that size; any integers are one.
    done(unsafe { libc::getsockopt(socket, level, option, to, &mut size) }.into()).map(|_| value)
}

/// The process at the other end of a unix socket, or that made both ends, with its user and group;
/// all 0 if it is of another namespace.
///
/// # Errors
/// As `SO_PEERCRED`: this is no unix socket.
pub fn peer(socket: RawFd) -> io::Result<libc::ucred> {
    option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED)
}

/// The process at the other end of a unix socket, as [`peer`] has it, whose number can't become
/// another one's meanwhile; `None` before Linux 6.5.
///
/// # Errors
/// As `SO_PEERPIDFD`: that process has ended.
pub fn peer_pidfd(socket: RawFd) -> io::Result<Option<OwnedFd>> {
    const SO_PEERPIDFD: i32 = 77;
    match option::<i32>(socket, libc::SOL_SOCKET, SO_PEERPIDFD) {
        // SAFETY: the kernel has just made it, for this caller.
        Ok(number) => Ok(Some(unsafe { OwnedFd::from_raw_fd(number) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Descriptors that one message may have (`SCM_MAX_FD`).
const MAX_RIGHTS: usize = 253;

/// Sends as many of the bytes as there is room for, and with the first of them the descriptors: how
/// many bytes. No `SIGPIPE`.
///
/// # Errors
/// As sendmsg(2); `InvalidInput` for more descriptors than a message may have.
pub fn send_with(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_RIGHTS))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL;
    Ok(sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

/// Receives as many bytes as there are, or as there is room for, and the descriptors that come with
/// them: how many bytes, 0 at the end.
///
/// # Errors
/// As recvmsg(2); `InvalidData` if descriptors were lost for lack of room for them.
pub fn receive_with(
    socket: impl AsFd,
    into: &mut [u8],
    descriptors: &mut impl Extend<OwnedFd>,
) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_RIGHTS))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut data = [IoSliceMut::new(into)];
    let got = recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.flags.contains(rustix::net::ReturnFlags::CTRUNC) {
        let why =
            "descriptors were lost: more came at once than there is room for (RLIMIT_NOFILE?)";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(got.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_their_descriptors() {
        let (a, b) = seqpacket_pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(
            send_with(&a, b"first", &[file.as_fd(), a.as_fd()]).unwrap(),
            5
        );
        send_with(&a, b"second", &[]).unwrap();
        drop(a);
        let (mut text, mut came) = ([0; 8], Vec::new());
        assert_eq!(receive_with(&b, &mut text, &mut came).unwrap(), 5);
        let identity = |fd: &OwnedFd| crate::fd::identity(fd.as_raw_fd());
        assert_eq!(identity(&came[0]), identity(&file.into()));
        assert_eq!(came.len(), 2);
        assert_eq!(receive_with(&b, &mut text, &mut came).unwrap(), 6);
        came.clear();
        assert_eq!(receive_with(&b, &mut text, &mut came).unwrap(), 0);
        let many = vec![b.as_fd(); MAX_RIGHTS + 1];
        assert!(send_with(&b, b"x", &many).is_err());
    }

    #[test]
    fn options_and_peers() {
        let (a, b) = stream_pair().unwrap();
        assert_eq!(peer(a.as_raw_fd()).unwrap().pid, std::process::id() as i32);
        if let Some(pidfd) = peer_pidfd(a.as_raw_fd()).unwrap() {
            assert!(!crate::poll::is_readable(&pidfd, 0));
        }
        let (level, buffer) = (libc::SOL_SOCKET, libc::SO_SNDBUF);
        set_option(&a, level, buffer, 100_000).unwrap();
        assert_eq!(
            option::<i32>(a.as_raw_fd(), level, buffer).unwrap(),
            200_000
        );
        assert!(option::<i32>(-1, level, buffer).is_err() && set_option(&b, -1, 0, 0).is_err());
    }
}
