//! The client of a session: the source of its lines and the sink of its output.

use std::future::Future;
use std::io;

use vink_api::Size;

/// What a program's input and output are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// Its output is shown; it finds its input at an end.
    Output,
    /// What is typed is its input, line by line.
    Lines,
    /// A terminal of this size and, if known, type.
    Terminal(Size, Option<String>),
}

/// What a user does while a program is in the foreground, or a line waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Types.
    Input(Vec<u8>),
    /// Types ^C where that is not just another character.
    Interrupt,
    /// Types ^Z.
    Suspend,
    /// Has nothing more to type; it is told once.
    End,
    /// Has another window.
    Resize(Size),
    /// Has gone.
    Gone,
}

/// A user or script that commands a session.
pub(crate) trait Front: Send {
    /// How programs are connected to it.
    fn connection(&self) -> Connection;

    /// Shows output.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Shows what a program has written to its standard error.
    fn write_error(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        self.write(bytes)
    }

    /// A program has its terminal from now on.
    fn begin(&mut self) {}

    /// It has its terminal back.
    fn end(&mut self) {}

    /// Typed bytes that were not used: they belong to the next line.
    fn keep(&mut self, bytes: Vec<u8>) {
        drop(bytes);
    }

    /// What it does next. Nothing is lost when the future is dropped.
    fn act(&mut self) -> impl Future<Output = Act> + Send;
}
