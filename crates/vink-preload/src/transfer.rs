//! sendfile(2) and splice(2) between a file of the host's and one of Vink's: the data is copied here.

use crate::descriptors::{self, Entry};
use crate::state::call;
use crate::thread::Thread;
use crate::{enter, host, signals};

const EFAULT: i64 = -(libc::EFAULT as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
const ESPIPE: i64 = -(libc::ESPIPE as i64);
/// Of splice(2).
const ALL_FLAGS: u32 =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;
/// At once.
const CHUNK: usize = 128 << 10;

/// sendfile(2).
pub(crate) fn sendfile(thread: &Thread, mut args: [u64; 6]) -> i64 {
    let [to, from, offset_at, count, ..] = args;
    match [to, from].map(descriptors::get) {
        [Entry::File(to), Entry::File(from)] => {
            args[0] = to as u64;
            args[1] = from as u64;
            call(thread, libc::SYS_sendfile, args)
        }
        [Entry::File(_), _] => {
            let mut offset = [-1i64];
            if offset_at != 0 && !host::read(&mut offset, offset_at) {
                return EFAULT;
            }
            let [mut offset] = offset;
            if offset_at != 0 && offset < 0 {
                return EINVAL;
            }
            let done = copy(to, from, (offset_at != 0).then_some(&mut offset), count);
            match offset_at == 0 || host::write(offset_at, &[offset]) {
                true => done,
                false => EFAULT,
            }
        }
        [_, Entry::File(_)] => EINVAL,
        _ => host::call(libc::SYS_sendfile, args),
    }
}

/// Moves up to `count` bytes; with an offset, from there, which moves on. What could not be written is not taken from
/// a file that can be read again.
fn copy(to: u64, from: u64, mut offset: Option<&mut i64>, count: u64) -> i64 {
    let mut buffer = vec![0u8; CHUNK.min(count as usize)];
    let at = buffer.as_mut_ptr() as u64;
    let mut done = 0;
    while done < count {
        let want = (count - done).min(CHUNK as u64);
        let got = match &offset {
            Some(offset) => {
                let args = [from, at, want, **offset as u64, 0, 0];
                host::call(libc::SYS_pread64, args)
            }
            None => host::call(libc::SYS_read, [from, at, want, 0, 0, 0]),
        };
        let mut put = 0;
        if got > 0 {
            put = enter::enter(libc::SYS_write, [to, at, got as u64, 0, 0, 0]);
        }
        let moved = put.max(0);
        match &mut offset {
            Some(offset) => **offset += moved,
            None if moved < got => {
                let back = (moved - got) as u64;
                host::call(
                    libc::SYS_lseek,
                    [from, back, libc::SEEK_CUR as u64, 0, 0, 0],
                );
            }
            None => {}
        }
        done += moved as u64;
        if got <= 0 || put < got {
            let error = if got < 0 { got } else { put };
            return if done > 0 { done as i64 } else { error };
        }
    }
    done as i64
}

/// splice(2).
pub(crate) fn splice(thread: &Thread, args: [u64; 6]) -> i64 {
    let [from, from_at, to, to_at, count, flags] = args;
    let mut kernel = args;
    match [from, to].map(descriptors::get) {
        [Entry::File(from), Entry::File(to)] => {
            kernel[0] = from as u64;
            kernel[2] = to as u64;
            call(thread, libc::SYS_splice, kernel)
        }
        // Neither a pipe nor a socket has offsets; the pipe says so first.
        [Entry::File(_), _] if to_at != 0 => ESPIPE,
        [_, Entry::File(_)] if from_at != 0 => ESPIPE,
        [Entry::File(_), _] | [_, Entry::File(_)] if from_at != 0 || to_at != 0 => EINVAL,
        [Entry::File(_), _] | [_, Entry::File(_)] => pipe(from, to, count, flags as u32),
        _ => host::call(libc::SYS_splice, args),
    }
}

/// splice(2) between one of Vink's and a pipe of the host's.
fn pipe(from: u64, to: u64, count: u64, flags: u32) -> i64 {
    let from_vink = matches!(descriptors::get(from), Entry::File(_));
    let waits = flags & libc::SPLICE_F_NONBLOCK == 0;
    let pipe = if from_vink { to } else { from };
    let size = host::call(
        libc::SYS_fcntl,
        [pipe, libc::F_GETPIPE_SZ as u64, 0, 0, 0, 0],
    );
    if size < 0 {
        let open = host::call(libc::SYS_fcntl, [pipe, libc::F_GETFD as u64, 0, 0, 0, 0]);
        return if open < 0 { open } else { EINVAL };
    }
    if flags & !ALL_FLAGS != 0 {
        return EINVAL;
    }
    if count == 0 {
        return 0;
    }
    let mut buffer = vec![0u8; CHUNK.min(count as usize).min(size as usize)];
    let at = buffer.as_mut_ptr() as u64;
    if from_vink {
        let room = match room(pipe, size, waits) {
            Ok(room) => room.min(buffer.len() as u64),
            Err(error) => return error,
        };
        let flags = if waits { 0 } else { libc::MSG_DONTWAIT as u64 };
        let got = enter::enter(libc::SYS_recvfrom, [from, at, room, flags, 0, 0]);
        if got > 0 {
            host::call(libc::SYS_write, [pipe, at, got as u64, 0, 0, 0]);
        }
        return got;
    }
    // What can't be sent stays in the pipe: a copy of its contents is sent, then as much is taken.
    let mut ends = [0i32; 2];
    let made = host::call(
        libc::SYS_pipe2,
        [ends.as_mut_ptr() as u64, libc::O_CLOEXEC as u64, 0, 0, 0, 0],
    );
    if made < 0 {
        return made;
    }
    let [out, into] = ends.map(|end| end as u64);
    let tee = libc::SPLICE_F_NONBLOCK * u32::from(!waits);
    let seen = [pipe, into, buffer.len() as u64, u64::from(tee), 0, 0];
    let mut done = host::call(libc::SYS_tee, seen);
    if done > 0 {
        done = host::call(libc::SYS_read, [out, at, done as u64, 0, 0, 0]);
        let flags = if waits { 0 } else { libc::MSG_DONTWAIT as u64 };
        done = enter::enter(libc::SYS_sendto, [to, at, done as u64, flags, 0, 0]);
        if done > 0 {
            host::call(libc::SYS_read, [pipe, at, done as u64, 0, 0, 0]);
        }
    }
    for end in [out, into] {
        descriptors::give_back(end);
    }
    done
}

/// How much can be written to a pipe of this size without waiting, when something can.
fn room(pipe: u64, size: i64, waits: bool) -> Result<u64, i64> {
    let mut poll = [libc::pollfd {
        fd: pipe as i32,
        events: libc::POLLOUT,
        revents: 0,
    }];
    let limit = if waits { -1i64 } else { 0 };
    let ready = host::call(
        libc::SYS_poll,
        [poll.as_mut_ptr() as u64, 1, limit as u64, 0, 0, 0],
    );
    if poll[0].revents & libc::POLLERR != 0 {
        signals::raise(1 << (libc::SIGPIPE - 1));
        return Err(-i64::from(libc::EPIPE));
    }
    if ready <= 0 {
        return Err(if ready < 0 {
            ready
        } else {
            -i64::from(libc::EAGAIN)
        });
    }
    let mut filled = [0i32];
    let at = filled.as_mut_ptr() as u64;
    host::call(libc::SYS_ioctl, [pipe, libc::FIONREAD, at, 0, 0, 0]);
    // Of a pipe that is not empty it is only known that an atomic write has room.
    Ok(if filled[0] == 0 {
        size as u64
    } else {
        libc::PIPE_BUF as u64
    })
}
