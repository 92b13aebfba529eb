//! Accepts connections: a limit for each listener, and errors that neither spin nor fill the log.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The pause after an error, as for want of descriptors or memory.
const ERROR_PAUSE: Duration = Duration::from_millis(200);
/// The least time between two lines of the log about errors.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Accepts the connections of one listener.
pub(crate) struct Acceptor {
    name: &'static str,
    places: Arc<Semaphore>,
    logged_at: Option<Instant>,
    not_logged: u64,
}

impl Acceptor {
    /// For at most so many connections at once. More wait in the host's queue.
    pub(crate) fn new(name: &'static str, places: usize) -> Acceptor {
        Acceptor {
            name,
            places: Arc::new(Semaphore::new(places)),
            logged_at: None,
            not_logged: 0,
        }
    }

    /// The next connection that `accept` gives, with its place, which is to be kept as long as it
    /// is open. May be dropped at any time, as `accept` may.
    pub(crate) async fn next<T, F>(&mut self, accept: impl Fn() -> F) -> (T, OwnedSemaphorePermit)
    where
        F: Future<Output = io::Result<T>>,
    {
        loop {
            let place = self.places.clone().acquire_owned().await;
            let place = place.expect("it is never closed");
            match accept().await {
                Ok(connection) => return (connection, place),
                // The client has gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.complain(&error);
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            self.not_logged += 1;
            return;
        }
        let more = match std::mem::take(&mut self.not_logged) {
            0 => String::new(),
            more => format!(" ({more} more since it was told last)"),
        };
        tracing::warn!(target: "control", "{}: accept: {error}{more}", self.name);
        self.logged_at = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn errors_pause_and_places_are_given_back() {
        let calls = AtomicU32::new(0);
        let accept = || {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            async move {
                match call {
                    0..10 => Err(io::Error::from_raw_os_error(libc::EMFILE)),
                    call => Ok(call),
                }
            }
        };
        let mut acceptor = Acceptor::new("test", 2);
        let began = tokio::time::Instant::now();
        let (first, place) = acceptor.next(accept).await;
        assert_eq!((first, acceptor.not_logged), (10, 9));
        assert!(began.elapsed() >= 10 * ERROR_PAUSE);
        let (_, second) = acceptor.next(accept).await;
        let full = tokio::time::timeout(LOG_INTERVAL, acceptor.next(accept)).await;
        assert!(full.is_err() && calls.load(Ordering::Relaxed) == 12);
        drop(place);
        let third = acceptor.next(accept).await;
        drop((second, third));
    }
}
