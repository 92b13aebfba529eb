//! An open Vink file, as the worker has it: its placeholder, and what calls on it differ by.

use std::cell::Cell;
use std::ffi::CStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use crate::placeholder::Placeholder;
use crate::process_ring::ProcessRing;
use crate::stale::Stale;
use crate::Error;

/// What a file is, as far as calls on it differ.
pub(crate) enum FileKind {
    /// A socket, or another one whose calls are the kernel's as they are.
    Plain,
    /// An rtnetlink socket.
    Rtnetlink,
    /// One of the machine's own files, of which the kernel knows more than the placeholder shows.
    Procfs,
    /// ... whose contents the placeholder is a copy of: the same for writing.
    Copy(fs::File),
}

/// An open Vink file: what several descriptors of several processes may share.
pub(crate) struct File {
    pub(crate) placeholder: Placeholder,
    pub(crate) kind: FileKind,
    /// The name of its watch in the kernel; 0 as long as no thread waits on the host.
    pub(crate) cookie: Cell<u64>,
    /// Some epoll instance may have it: the placeholder must follow every change at once.
    pub(crate) mirrors_edges: Cell<bool>,
    /// It has, or had, an owner or `O_ASYNC`: what it shows may be a signal.
    pub(crate) owned: Cell<bool>,
    /// In virtual time: it is a timer by this clock, or tells when that began (`/proc/uptime`,
    /// `/proc/stat`).
    pub(crate) timer: Cell<i32>,
}

impl File {
    /// A socket or the like, for tests.
    #[cfg(test)]
    pub(crate) fn new(below: i32) -> Result<Rc<File>, Error> {
        File::of_kind(below, FileKind::Plain)
    }

    /// Of descriptors below `below`.
    pub(crate) fn of_kind(below: i32, kind: FileKind) -> Result<Rc<File>, Error> {
        Ok(File::of(Placeholder::new(below)?, kind))
    }

    pub(crate) fn directory(pid: i32, path: &CStr) -> Result<Rc<File>, Error> {
        Ok(File::of(
            Placeholder::directory(pid, path)?,
            FileKind::Procfs,
        ))
    }

    /// `copy` has the contents, and `readable` is the same file opened for reading.
    pub(crate) fn copied(copy: fs::File, readable: OwnedFd) -> Rc<File> {
        File::of(Placeholder::fixed(readable), FileKind::Copy(copy))
    }

    /// Whether it is one of the machine's own files.
    pub(crate) fn is_procfs(&self) -> bool {
        matches!(self.kind, FileKind::Procfs | FileKind::Copy(_))
    }

    /// What the placeholder is a copy of, to write to it.
    pub(crate) fn copy(&self) -> Option<&fs::File> {
        match &self.kind {
            FileKind::Copy(copy) => Some(copy),
            _ => None,
        }
    }

    fn of(placeholder: Placeholder, kind: FileKind) -> Rc<File> {
        Rc::new(File {
            placeholder,
            kind,
            cookie: Cell::new(0),
            mirrors_edges: Cell::new(false),
            owned: Cell::new(false),
            timer: Cell::new(-1),
        })
    }

    /// From now on its readiness is published in this number's entry, if nowhere else.
    pub(crate) fn publish_on(self: &Rc<File>, ring: &Rc<ProcessRing>, fd: i32) {
        if self.mirrors_edges.get() {
            self.publish_credit_on(ring, fd);
        }
    }

    /// From now on its send credit is published there.
    pub(crate) fn publish_credit_on(self: &Rc<File>, ring: &Rc<ProcessRing>, fd: i32) {
        let owner: Weak<File> = Rc::downgrade(self);
        self.placeholder.readiness.publish_on(ring, fd, owner);
    }

    /// The number of this process is not the file's any more.
    pub(crate) fn unpublish(&self, ring: &Rc<ProcessRing>, fd: i32) {
        self.placeholder.readiness.unpublish(ring, fd);
        self.placeholder.flush();
    }
}

impl Stale for File {
    fn flush(&self) {
        self.placeholder.flush();
    }
}
