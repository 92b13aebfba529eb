//! Signals for commands that wait: those that ask them to end.

use tokio::signal::unix::{signal, Signal, SignalKind};

use vink_sys::signals::is_ignored;

use crate::cli_error::CliError;

/// SIGINT, SIGTERM and SIGHUP from now on, but those that this process was told to ignore (nohup(1)).
pub(crate) struct Interrupts(Vec<(i32, Signal)>);

impl Interrupts {
    /// Within a runtime.
    pub(crate) fn catch() -> Result<Interrupts, CliError> {
        let mut caught = Vec::new();
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            if !is_ignored(number) {
                let signal =
                    signal(SignalKind::from_raw(number)).map_err(CliError::host("sigaction"))?;
                caught.push((number, signal));
            }
        }
        Ok(Interrupts(caught))
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
