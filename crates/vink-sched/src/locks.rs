//! Locks of files (fcntl(2)): whether one would be granted at once, by the text of `/proc/locks`,
//! and whether a process that waits for one would wait for itself.

/// A lock of a range of a file that a process has, or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Exclusive.
    pub write: bool,
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub end: u64,
}

/// A file as `/proc/locks` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedFile {
    /// `08:01`, the device of the file system.
    pub device: String,
    /// Its number there.
    pub inode: u64,
}

/// What a flock structure says: fcntl(2). `position` and `size` are those of the open file. `None`:
/// not a lock to wait for, or nonsense, which the host refuses.
pub fn range_of(flock: &libc::flock, position: i64, size: i64) -> Option<Range> {
    let base = match i32::from(flock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => position,
        libc::SEEK_END => size,
        _ => return None,
    };
    let start = base.checked_add(flock.l_start)?;
    let (start, end) = match flock.l_len {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(flock.l_len - 1)?),
        _ => (start.checked_add(flock.l_len)?, start - 1),
    };
    Some(Range {
        write: match i32::from(flock.l_type) {
            libc::F_WRLCK => true,
            libc::F_RDLCK => false,
            _ => return None,
        },
        start: start.try_into().ok()?,
        end: end.try_into().ok()?,
    })
}

/// The owners of the locks that conflict with a wanted one: process ids, -1 for an open file's.
pub fn holders(locks: &str, pid: i32, place: &LockedFile, wanted: Range) -> Vec<i32> {
    let holder = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        // Those that wait have an arrow here.
        if !matches!(fields.next()?, "POSIX" | "OFDLCK") {
            return None;
        }
        let write = fields.nth(1)? == "WRITE";
        let holder: i32 = fields.next()?.parse().ok()?;
        let (device, inode) = fields.next()?.rsplit_once(':')?;
        let start: u64 = fields.next()?.parse().ok()?;
        let end = match fields.next()? {
            "EOF" => u64::MAX,
            end => end.parse().ok()?,
        };
        let conflicts = holder != pid
            && device == place.device
            && inode.parse() == Ok(place.inode)
            && (write || wanted.write)
            && start <= wanted.end
            && wanted.start <= end;
        conflicts.then_some(holder)
    };
    locks.lines().filter_map(holder).collect()
}

/// Whether a process that waits for these would wait for itself: `waits_for` says which processes a
/// process waits for.
pub fn is_deadlock(pid: i32, holders: Vec<i32>, waits_for: impl Fn(i32) -> Vec<i32>) -> bool {
    let (mut seen, mut open) = (Vec::new(), holders);
    while let Some(holder) = open.pop() {
        if holder == pid {
            return true;
        }
        if !seen.contains(&holder) {
            seen.push(holder);
            open.extend(waits_for(holder));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_sys::fd::range_lock;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 10 08:01:7 100 199\n\
                         1: -> POSIX  ADVISORY  WRITE 13 08:01:7 0 EOF\n\
                         2: OFDLCK ADVISORY  READ -1 08:01:7 300 EOF\n\
                         3: FLOCK  ADVISORY  WRITE 11 08:01:7 0 EOF\n\
                         4: POSIX  ADVISORY  READ 12 08:01:8 0 EOF\n";

    #[test]
    fn ranges() {
        let range = |kind, whence, start, length| {
            range_of(&range_lock(kind, whence, start, length), 50, 1000)
                .map(|r| (r.write, r.start, r.end))
        };
        let eof = i64::MAX as u64;
        let (read, write) = (libc::F_RDLCK, libc::F_WRLCK);
        assert_eq!(range(read, libc::SEEK_SET, 10, 5), Some((false, 10, 14)));
        assert_eq!(range(write, libc::SEEK_CUR, 10, 0), Some((true, 60, eof)));
        assert_eq!(range(write, libc::SEEK_END, 0, -10), Some((true, 990, 999)));
        assert_eq!(range(write, libc::SEEK_SET, 5, -10), None);
        assert_eq!(range(write, libc::SEEK_SET, i64::MAX, 2), None);
        assert_eq!(range(libc::F_UNLCK, libc::SEEK_SET, 0, 0), None);
        assert_eq!(range(read, 9, 0, 0), None);
    }

    #[test]
    fn what_is_in_the_way() {
        let place = |inode| LockedFile {
            device: "08:01".into(),
            inode,
        };
        let held = |pid, inode, write, start, end| {
            holders(LOCKS, pid, &place(inode), Range { write, start, end })
        };
        assert_eq!(held(1, 7, false, 0, 99), []);
        assert_eq!(held(1, 7, false, 0, 100), [10]);
        assert_eq!(held(1, 7, false, 199, 500), [10]);
        assert_eq!(held(1, 7, true, 0, 500), [10, -1]);
        assert_eq!(held(10, 7, true, 0, 299), []);
        assert_eq!(held(10, 7, true, 0, u64::MAX), [-1]);
        assert_eq!(held(1, 8, false, 0, 9), []);
        assert_eq!(held(1, 8, true, 5, 9), [12]);
        assert_eq!(held(1, 9, true, 5, 9), []);
    }

    #[test]
    fn a_thread_that_waits_for_itself() {
        let waits = |pid| match pid {
            2 => vec![3],
            3 => vec![4, 1],
            5 => vec![6],
            6 => vec![5],
            _ => Vec::new(),
        };
        assert!(is_deadlock(1, vec![-1, 2], waits));
        assert!(!is_deadlock(2, vec![5], waits));
        assert!(!is_deadlock(1, vec![4], waits));
    }
}
