//! Filters of captures and breakpoints: compiled by a process of their own, so that the lab goes on
//! meanwhile.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use vink_protocol::Filter;
use vink_spec::{Change, NamedChange};

use super::lab::Lab;
use crate::http_error::HttpError;

/// Filters compiled at once.
const MAX_PARALLEL: usize = 2;
/// How long it may take altogether: the host bounds the processor's time.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of an expression that an error shows.
const MAX_SHOWN: usize = 100;

static PERMITS: Semaphore = Semaphore::const_new(MAX_PARALLEL);

impl Lab {
    /// Compiles an expression as in pcap-filter(7); `what` it is of.
    pub(crate) async fn compile(&self, what: &str, text: &str) -> Result<Filter, HttpError> {
        let _seat = PERMITS.acquire().await.expect("it is never closed");
        let mut command = Command::new(&self.hooks.executable);
        command
            .arg("compile-filter")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let done = async {
            let mut child = command.spawn()?;
            let mut input = child.stdin.take().expect("a pipe");
            // It may have been ended; what it has written tells.
            let _ = input.write_all(text.as_bytes()).await;
            drop(input);
            child.wait_with_output().await
        };
        let compiled = match tokio::time::timeout(COMPILE_TIMEOUT, done).await {
            Ok(Ok(output)) => {
                serde_json::from_slice(&output.stdout).unwrap_or_else(|_| Err(Filter::too_long()))
            }
            Ok(Err(error)) => return Err(HttpError::host("vink compile-filter", error)),
            Err(_) => Err(Filter::too_long()),
        };
        compiled.map_err(|why: String| {
            let mut shown: String = text.chars().take(MAX_SHOWN).collect();
            if shown.len() < text.len() {
                shown += "...";
            }
            HttpError::invalid(format!("{what} {shown:?}: {why}; see pcap-filter(7)"))
        })
    }

    /// Compiles the filters of breakpoints and paths that these steps make.
    pub(super) async fn compile_filters(
        self: &Arc<Lab>,
        steps: &[Change],
    ) -> Result<(), HttpError> {
        for step in steps {
            let (what, text) = match step {
                Change::Breakpoint(NamedChange::Add {
                    name: breakpoint,
                    spec,
                }) => (format!("breakpoint {breakpoint}: filter"), &spec.filter),
                Change::Path(NamedChange::Add { name: path, spec }) => {
                    (format!("path {path}: filter"), &spec.filter)
                }
                _ => continue,
            };
            let Some(text) = text else { continue };
            if self.state().filters.contains_key(text) {
                continue;
            }
            let filter = self.compile(&what, text).await?;
            self.state().filters.insert(text.clone(), filter);
        }
        let mut state = self.state();
        let state = &mut *state;
        // Those of what is there, and of what comes.
        let coming = steps.iter().filter_map(|step| match step {
            Change::Breakpoint(NamedChange::Add { spec, .. }) => spec.filter.as_ref(),
            Change::Path(NamedChange::Add { spec, .. }) => spec.filter.as_ref(),
            _ => None,
        });
        let set = state.spec.breakpoints.values();
        let set = set.filter_map(|spec| spec.filter.as_ref());
        let paths = state.spec.paths.values();
        let used: Vec<&String> = set
            .chain(paths.filter_map(|spec| spec.filter.as_ref()))
            .chain(coming)
            .collect();
        state.filters.retain(|text, _| used.contains(&text));
        Ok(())
    }
}
