//! Terminals: pairs (pty(7)), sizes, and modes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pty::{ioctl_tiocgptpeer, openpt, unlockpt, OpenptFlags};
use rustix::termios::{self, OptionalActions, OutputModes, Termios, Winsize};

/// A pseudo-terminal's master, which no executed program inherits.
///
/// # Errors
/// As posix_openpt(3).
pub fn open_master() -> io::Result<File> {
    let master = openpt(flags())?;
    unlockpt(&master)?;
    Ok(master.into())
}

/// The other side, by the master, not by a path below `/dev`. No executed program inherits it.
///
/// # Errors
/// As `TIOCGPTPEER`.
pub fn slave_of(master: impl AsFd) -> io::Result<OwnedFd> {
    Ok(ioctl_tiocgptpeer(master, flags())?)
}

fn flags() -> OpenptFlags {
    OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC
}

/// Both sides of a new one, of this size: the master, and what a program gets.
///
/// # Errors
/// As above.
pub fn open(rows: u16, columns: u16) -> io::Result<(File, OwnedFd)> {
    let master = open_master()?;
    resize(&master, rows, columns)?;
    let slave = slave_of(&master)?;
    Ok((master, slave))
}

/// Sets a terminal's size; the foreground group is sent `SIGWINCH` if it is another.
///
/// # Errors
/// As `TIOCSWINSZ`: this is no terminal.
pub fn resize(terminal: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(termios::tcsetwinsize(terminal, size)?)
}

/// Rows and columns; `None` if this is no terminal, or one that has none.
pub fn size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = termios::tcgetwinsize(terminal).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// A terminal's mode (termios(3)).
#[derive(Clone)]
pub struct Mode(Termios);

impl Mode {
    /// As it is.
    ///
    /// # Errors
    /// As tcgetattr(3).
    pub fn of(terminal: impl AsFd) -> io::Result<Mode> {
        Ok(Mode(termios::tcgetattr(terminal)?))
    }

    /// Keys come one by one, ^C and ^D as others, and nothing is done to output.
    pub fn raw(&self) -> Mode {
        let mut raw = self.clone();
        raw.0.make_raw();
        raw
    }

    /// Output goes on as usual: a line's end returns to its beginning.
    pub fn with_output_processing(mut self) -> Mode {
        self.0.output_modes |= OutputModes::OPOST;
        self
    }

    /// Sets it, at once or when all has been written.
    ///
    /// # Errors
    /// As tcsetattr(3).
    pub fn set(&self, terminal: impl AsFd, when: When) -> io::Result<()> {
        let when = match when {
            When::Now => OptionalActions::Now,
            When::Written => OptionalActions::Drain,
        };
        Ok(termios::tcsetattr(terminal, when, &self.0)?)
    }
}

/// When a mode is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// When all that was written has gone.
    Written,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn sizes_and_modes() {
        let (mut master, slave) = open(24, 80).unwrap();
        assert_eq!(size(&slave), Some((24, 80)));
        resize(&master, 50, 100).unwrap();
        assert_eq!(size(&slave), Some((50, 100)));
        let mut program = File::from(slave);
        let before = Mode::of(&program).unwrap();
        let raw = before.raw();
        raw.set(&program, When::Now).unwrap();
        program.write_all(b"a\n").unwrap();
        let mut text = [0; 8];
        assert_eq!(master.read(&mut text).unwrap(), 2);
        let cooked = raw.with_output_processing();
        cooked.set(&program, When::Written).unwrap();
        before.set(&program, When::Now).unwrap();
        program.write_all(b"a\n").unwrap();
        assert_eq!(master.read(&mut text).unwrap(), 3);
        assert!(size(File::open("/dev/null").unwrap()).is_none());
    }
}
