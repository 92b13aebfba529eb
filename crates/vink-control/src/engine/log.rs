//! What a program writes: a file of bounded size, and the one before it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::{stream, Stream};
use tokio::sync::watch;
use vink_api::{Bytes, OutputQuery};

use super::lab::{is_over, Lab};
use super::terminal::Pipe;
use crate::http_error::HttpError;

/// Bytes of a file; when it is full it becomes the one before.
const FULL: u64 = 1 << 20;

/// Output is counted from a program's first byte; what is no longer there is skipped.
pub(crate) struct Log {
    path: PathBuf,
    /// What the program writes to, on our side.
    source: Mutex<Option<Arc<Pipe>>>,
    files: Mutex<Files>,
    /// Bytes written so far; `None` when nothing more will come.
    written: watch::Sender<(u64, bool)>,
}

#[derive(Default)]
struct Files {
    /// Made with the first byte, since most programs of a large lab write none.
    current: Option<File>,
    before: Option<File>,
    /// Where the current file begins, and the one before.
    begins: u64,
    before_begins: u64,
}

impl Log {
    pub(crate) fn new(path: PathBuf) -> Log {
        Log {
            path,
            source: Mutex::default(),
            files: Mutex::default(),
            written: watch::Sender::new((0, false)),
        }
    }

    /// From where [`Log::fetch`] has it.
    pub(crate) fn come_from(&self, source: Arc<Pipe>) {
        *self.source.lock().expect("no panic while it is held") = Some(source);
    }

    /// Appends what the program has written and is still under way, or some of it: its length, 0 at
    /// the end. A full disk does not stop the program.
    ///
    /// # Errors
    /// As read(2).
    pub(crate) fn fetch(&self) -> io::Result<usize> {
        // Held until the bytes are in the file: a reader that gets the lock finds all of them
        // there.
        let source = self.source.lock().expect("no panic while it is held");
        let Some(source) = source.as_ref() else {
            return Ok(0);
        };
        let mut buffer = [0; 1 << 14];
        let count = source.read_now(&mut buffer)?;
        if let Err(error) = self.write(&buffer[..count]) {
            tracing::warn!(target: "control", "a program's log: {error}");
        }
        Ok(count)
    }

    /// Whether this text has been written.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        while let Ok(1..) = self.fetch() {}
        let end = self.written().borrow().0;
        let (mut at, mut seen) = (0, Vec::new());
        while at < end {
            match self.read(at) {
                Ok((from, bytes)) if !bytes.is_empty() => {
                    at = from + bytes.len() as u64;
                    seen.extend(bytes);
                }
                _ => break,
            }
        }
        let text = text.as_bytes();
        seen.windows(text.len().max(1)).any(|part| part == text)
    }

    /// Appends.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files.lock().expect("no panic while it is held");
        let (at, _) = *self.written.borrow();
        if files.current.is_none() || at - files.begins >= FULL {
            if let Some(full) = files.current.take() {
                let before = self.path.with_extension("before");
                std::fs::rename(&self.path, before)?;
                files.before = Some(full);
                files.before_begins = files.begins;
            }
            let file = OpenOptions::new()
                .create_new(true)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(&self.path)?;
            files.current = Some(file);
            files.begins = at;
        }
        let file = files.current.as_mut().expect("just made");
        file.write_all(bytes)?;
        drop(files);
        self.written
            .send_modify(|(written, _)| *written += bytes.len() as u64);
        Ok(())
    }

    /// Nothing more will come, until the program is started again.
    pub(crate) fn end(&self, ended: bool) {
        self.written.send_modify(|(_, end)| *end = ended);
    }

    /// How much there is, and whether it ends there.
    pub(crate) fn written(&self) -> watch::Receiver<(u64, bool)> {
        self.written.subscribe()
    }

    /// Bytes from here on, at most 64 KiB, and where they begin: later if they are gone already.
    pub(crate) fn read(&self, from: u64) -> io::Result<(u64, Vec<u8>)> {
        let files = self.files.lock().expect("no panic while it is held");
        let (end, _) = *self.written.borrow();
        let first = match files.before {
            Some(_) => files.before_begins,
            None => files.begins,
        };
        let from = from.max(first);
        let (file, begins, end) = match &files.before {
            Some(before) if from < files.begins => {
                (Some(before), files.before_begins, files.begins)
            }
            _ => (files.current.as_ref(), files.begins, end),
        };
        let mut bytes = vec![0; end.saturating_sub(from).min(1 << 16) as usize];
        if let Some(file) = file {
            file.read_exact_at(&mut bytes, from - begins)?;
        }
        Ok((from, bytes))
    }

    /// Waits until this text has been written; `false` if it ends without.
    pub(crate) async fn says(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let mut written = self.written();
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            let (end, ended) = *written.borrow_and_update();
            while at < end {
                let Ok((from, bytes)) = self.read(at) else {
                    return false;
                };
                if bytes.is_empty() {
                    break;
                }
                at = from + bytes.len() as u64;
                seen.extend(bytes);
                if seen.windows(text.len().max(1)).any(|part| part == text) {
                    return true;
                }
                seen.drain(..seen.len().saturating_sub(text.len()));
            }
            if ended || written.changed().await.is_err() {
                return false;
            }
        }
    }
}

impl Lab {
    /// What a program has written that is not attached; with `follow` until it ends.
    pub(crate) fn output(
        &self,
        id: u64,
        query: &OutputQuery,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, HttpError> {
        let known = self.state().tasks.get(&id).and_then(|task| {
            let log = task.log.clone()?;
            Some((log, task.phase.subscribe()))
        });
        let (log, phase) = known.ok_or_else(|| {
            HttpError::conflict(format!("program {id} is attached, and has no log"))
                .hint("its output goes to its client")
        })?;
        let follow = query.follow;
        let written = log.written();
        let (end, _) = *written.borrow();
        let at = end.saturating_sub(query.tail.unwrap_or(u64::MAX));
        let pieces = stream::unfold(
            (log, written, phase, at),
            move |(log, mut written, mut phase, at)| async move {
                loop {
                    let (end, ended) = *written.borrow_and_update();
                    if at < end {
                        let (from, bytes) = match log.read(at) {
                            Ok(read) => read,
                            Err(error) => {
                                return Some((Err(error), (log, written, phase, u64::MAX)))
                            }
                        };
                        if !bytes.is_empty() {
                            let at = from + bytes.len() as u64;
                            return Some((Ok(Bytes::from(bytes)), (log, written, phase, at)));
                        }
                    }
                    if follow && ended {
                        // A program that has closed its output may still run; its exit status comes
                        // later.
                        let _ = phase.wait_for(is_over).await;
                    }
                    if !follow || ended || written.changed().await.is_err() {
                        return None;
                    }
                }
            },
        );
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bounded_and_read_from_anywhere() {
        let folder = std::env::temp_dir().join(format!("vink-test-log-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let log = Log::new(folder.join("m.p"));
        assert_eq!(log.read(0).unwrap(), (0, Vec::new()));
        let piece = [b'x'; 1000];
        for _ in 0..3000 {
            log.write(&piece).unwrap();
        }
        log.write(b"the end").unwrap();
        log.end(true);
        let (from, _) = log.read(0).unwrap();
        assert!(from > 0 && from <= 1_000_000 + FULL, "{from}");
        let (mut at, mut all) = (from, Vec::new());
        loop {
            let (_, bytes) = log.read(at).unwrap();
            if bytes.is_empty() {
                break;
            }
            at += bytes.len() as u64;
            all.extend(bytes);
        }
        assert_eq!(at, 3_000_007);
        assert_eq!(all.len() as u64, at - from);
        assert!(all.ends_with(b"xthe end"));
        assert!(log.says("xthe e").await);
        assert!(!log.says("never").await);
        let kept: u64 = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(kept <= 2 * FULL + 2000);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
