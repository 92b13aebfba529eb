//! What a process has mapped, by lines of /proc/PID/maps: proc_pid_maps(5).

use std::ops::Range;

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapsLine<'a> {
    /// Its addresses.
    pub range: Range<u64>,
    /// As `rwxp`: `-` for what it lacks, `s` for shared.
    access: &'a str,
    /// Where in the file it starts, bytes.
    pub offset: u64,
    /// The file system's device: major and minor.
    pub device: (u32, u32),
    /// 0: it has no file.
    pub inode: u64,
    /// The file's path, which may end with ` (deleted)`, or a name in brackets, or nothing.
    pub name: &'a str,
}

impl<'a> MapsLine<'a> {
    /// What a line says; `None` if it is none of that file's.
    pub fn of(line: &'a str) -> Option<MapsLine<'a>> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        let access = words.next().filter(|word| word.len() == 4)?;
        Some(MapsLine {
            range,
            access,
            offset: number(words.next()?)?,
            device: {
                let (major, minor) = words.next()?.split_once(':')?;
                (number(major)? as u32, number(minor)? as u32)
            },
            inode: words.next()?.parse().ok()?,
            name: words.next().unwrap_or_default().trim_start(),
        })
    }

    /// `r`.
    pub fn is_readable(&self) -> bool {
        self.access.starts_with('r')
    }

    /// `w`.
    pub fn is_writable(&self) -> bool {
        self.access[1..].starts_with('w')
    }

    /// `x`.
    pub fn is_executable(&self) -> bool {
        self.access[2..].starts_with('x')
    }

    /// Not shared: what is written there is the process's own.
    pub fn is_private(&self) -> bool {
        self.access.ends_with('p')
    }

    /// Private, and it can be read and written.
    pub fn is_data(&self) -> bool {
        self.is_readable() && self.is_writable() && self.is_private()
    }

    /// Whether it is of a file, if only one in memory.
    pub fn is_file(&self) -> bool {
        self.inode != 0
    }

    /// The path or name, without the mark of a file that was deleted.
    pub fn name_as_mapped(&self) -> &'a str {
        self.name.strip_suffix(" (deleted)").unwrap_or(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = "7f0-800 r-xp 00001000 fe:01 5   /lib/a b.so (deleted)";
        let found = MapsLine::of(line).unwrap();
        assert_eq!((found.range.clone(), found.offset), (0x7f0..0x800, 0x1000));
        assert_eq!((found.device, found.inode), ((0xfe, 1), 5));
        assert_eq!(found.name, "/lib/a b.so (deleted)");
        assert_eq!(found.name_as_mapped(), "/lib/a b.so");
        assert!(found.is_readable() && !found.is_writable() && found.is_executable());
        assert!(found.is_private() && found.is_file());
        let stack = MapsLine::of("1000-2000 rw-s 00000000 00:00 0    [stack]").unwrap();
        assert!(stack.is_writable() && !stack.is_executable() && !stack.is_private());
        assert!(!stack.is_data());
        for (access, is_data) in [("rw-p", true), ("r--p", false), ("-w-p", false)] {
            let line = format!("1000-2000 {access} 0 00:00 0");
            assert_eq!(MapsLine::of(&line).unwrap().is_data(), is_data, "{access}");
        }
        assert!(!stack.is_file() && stack.name == "[stack]");
        assert_eq!(MapsLine::of("1000-2000 ---p 0 00:00 0").unwrap().name, "");
        for none in [
            "",
            "Size:   4 kB",
            "1000 rw-p 0 0 0",
            "1-g rw-p 0 00:00 0",
            "1-2 rw 0 00:00 0",
        ] {
            assert_eq!(MapsLine::of(none), None, "{none}");
        }
    }

    #[test]
    fn each_line_of_this_process_is_one() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = lines as fn() as usize as u64;
        let mut code = maps.lines().map(|line| MapsLine::of(line).expect(line));
        let code = code.find(|line| line.range.contains(&own)).unwrap();
        assert!(code.is_executable() && code.is_file() && code.name.starts_with('/'));
    }
}
