//! Captures: packets of interfaces, to a file or to a client.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use vink_api::{Capture, Happening, NewCapture};
use vink_protocol::{Action, Answer};

use super::captured::{Kept, MOST_KEPT};
use super::lab::Lab;
use super::spawn::pipe;
use super::terminal::Pipe;
use crate::http_error::HttpError;

/// How many captures are remembered after their end.
const MAX_ENDED_CAPTURES: usize = 64;

/// A capture of a lab.
pub(crate) struct ActiveCapture {
    of: NewCapture,
    worker: usize,
    number: u64,
    running: bool,
    error: Option<String>,
    counted: Option<(u64, u64)>,
    /// What it has written, if that can be read.
    kept: Option<Arc<Kept>>,
}

impl ActiveCapture {
    /// Its worker has died.
    pub(crate) fn died(&mut self, worker: usize) {
        if self.worker == worker && self.running {
            self.running = false;
            self.error = Some("its worker has died".to_owned());
        }
    }

    fn describe(&self, id: u64) -> Capture {
        Capture {
            id,
            interfaces: self.of.interfaces.clone(),
            filter: self.of.filter.clone(),
            path: Some(self.of.path.clone()).filter(|path| !path.is_empty()),
            readable: self.kept.is_some(),
            running: self.running,
            error: self.error.clone(),
            written: self.counted.map(|(written, _)| written),
            missed: self.counted.map(|(_, missed)| missed),
        }
    }
}

impl Lab {
    pub(crate) fn captures(&self) -> Vec<Capture> {
        let state = self.state();
        let all = state.captures.iter();
        all.map(|(id, capture)| capture.describe(*id)).collect()
    }

    /// Writes packets to a file.
    pub(crate) async fn capture_to_file(
        self: &Arc<Lab>,
        new: NewCapture,
    ) -> Result<Capture, HttpError> {
        if !Path::new(&new.path).is_absolute() {
            let error = format!("{:?} is not an absolute path", new.path);
            return Err(HttpError::invalid(error).at("/path"));
        }
        // The worker checks the rest; nothing is to be emptied for a wrong name.
        self.capture_worker(&new.interfaces)?;
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new.path)
            .map_err(|error| HttpError::invalid(format!("{}: {error}", new.path)).at("/path"))?;
        // By its descriptor: another file may get its name. A pipe can't be read by two.
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let read = File::open(again).ok().filter(|_| is_file);
        let kept = read.map(|file| Arc::new(Kept::new(file)));
        self.capture(new, file.into(), kept).await
    }

    /// Keeps packets in the lab.
    pub(crate) async fn capture_here(
        self: &Arc<Lab>,
        new: NewCapture,
    ) -> Result<Capture, HttpError> {
        {
            let mut state = self.state();
            let is_kept =
                |capture: &ActiveCapture| capture.kept.is_some() && capture.of.path.is_empty();
            let kept = state.captures.values().filter(|one| is_kept(one)).count();
            if kept >= MOST_KEPT {
                // The oldest one that has ended.
                let mut all = state.captures.values_mut();
                let Some(old) = all.find(|one| is_kept(one) && !one.running) else {
                    let error = format!("{MOST_KEPT} captures are kept here already");
                    return Err(HttpError::conflict(error).hint("end one of them"));
                };
                old.kept = None;
            }
        }
        let memory = vink_sys::fd::in_memory(c"capture");
        let kept = Arc::new(Kept::new(
            memory.map_err(|error| HttpError::host("memfd_create", error))?,
        ));
        let (ours, theirs) = pipe().map_err(|error| HttpError::host("pipe", error))?;
        let ours = Pipe::new(ours).map_err(|error| HttpError::host("pipe", error))?;
        let capture = self.capture(new, theirs, Some(kept.clone())).await?;
        let (lab, id) = (self.clone(), capture.id);
        tokio::spawn(async move {
            if let Some(why) = kept.fill(ours).await {
                let _ = lab.stop_capture(id).await;
                lab.capture_is_cut(id, why);
            }
        });
        Ok(capture)
    }

    fn capture_is_cut(&self, id: u64, why: String) {
        if let Some(capture) = self.state().captures.get_mut(&id) {
            capture.error = Some(why.clone());
        }
        self.tell(Happening::CaptureEnded {
            capture: id,
            error: why,
        });
    }

    /// What a capture has written.
    pub(crate) fn kept_of_capture(&self, id: &str) -> Result<Arc<Kept>, HttpError> {
        let state = self.state();
        let found = id.parse().ok().and_then(|id| state.captures.get(&id));
        let Some(found) = found else {
            let names: Vec<String> = state.captures.keys().map(u64::to_string).collect();
            let names = names.iter().map(String::as_str);
            return Err(HttpError::no("capture", id, names, "in the lab"));
        };
        found.kept.clone().ok_or_else(|| {
            let error = format!("the packets of capture {id} are not here");
            HttpError::conflict(error)
                .hint("those that go to a client or to a pipe are not, nor old ones")
        })
    }

    /// Gives packets to a client.
    pub(crate) async fn capture_to_client(
        self: &Arc<Lab>,
        new: NewCapture,
    ) -> Result<(Capture, Pipe), HttpError> {
        let (ours, theirs) = pipe().map_err(|error| HttpError::host("pipe", error))?;
        let ours = Pipe::new(ours).map_err(|error| HttpError::host("pipe", error))?;
        Ok((self.capture(new, theirs, None).await?, ours))
    }

    fn capture_worker(&self, interfaces: &[String]) -> Result<usize, HttpError> {
        let mut place = None;
        for end in interfaces {
            let worker = self
                .worker_of_end(end)
                .map_err(|fault| fault.at("/interfaces"))?;
            if place.is_some_and(|place| place != worker) {
                return Err(HttpError::invalid(format!(
                    "{end} is in another worker than {}",
                    interfaces[0]
                ))
                .hint("capture them by one capture for each worker")
                .at("/interfaces"));
            }
            place = Some(worker);
        }
        place.ok_or_else(|| HttpError::invalid("no interface is named").at("/interfaces"))
    }

    async fn capture(
        self: &Arc<Lab>,
        of: NewCapture,
        to: OwnedFd,
        kept: Option<Arc<Kept>>,
    ) -> Result<Capture, HttpError> {
        let worker = self.capture_worker(&of.interfaces)?;
        let filter = of.filter.as_deref();
        let filter = match filter.filter(|text| !text.trim().is_empty()) {
            Some(text) => Some(self.compile("the filter", text).await?),
            None => None,
        };
        let action = Action::Capture {
            interfaces: of.interfaces.clone(),
            filter,
            snap: of.snap,
        };
        let number = match self.have(worker, action, vec![to]).await? {
            Answer::Capture(number) => number,
            other => return Err(HttpError::invalid(format!("the worker answered {other:?}"))),
        };
        let mut state = self.state();
        state.next_capture += 1;
        let id = state.next_capture;
        let active = ActiveCapture {
            of,
            worker,
            number,
            running: true,
            error: None,
            counted: None,
            kept,
        };
        let capture = active.describe(id);
        state.captures.insert(id, active);
        let over = |(id, capture): (&u64, &ActiveCapture)| (!capture.running).then_some(*id);
        let over: Vec<u64> = state.captures.iter().filter_map(over).collect();
        for id in &over[..over.len().saturating_sub(MAX_ENDED_CAPTURES)] {
            state.captures.remove(id);
        }
        Ok(capture)
    }

    /// Ends a capture.
    pub(crate) async fn stop_capture(self: &Arc<Lab>, id: u64) -> Result<Capture, HttpError> {
        let (worker, capture, running) = {
            let state = self.state();
            let Some(found) = state.captures.get(&id) else {
                let names: Vec<String> = state.captures.keys().map(u64::to_string).collect();
                let names = names.iter().map(String::as_str);
                return Err(HttpError::no(
                    "capture",
                    &id.to_string(),
                    names,
                    "in the lab",
                ));
            };
            (found.worker, found.number, found.running)
        };
        let stopped = match running {
            true => Some(
                self.have(worker, Action::StopCapture { capture }, Vec::new())
                    .await,
            ),
            false => None,
        };
        let mut state = self.state();
        let Some(capture) = state.captures.get_mut(&id) else {
            return Err(HttpError::conflict(format!("capture {id} was forgotten")));
        };
        capture.running = false;
        match stopped {
            Some(Ok(Answer::Captured { written, missed })) => {
                capture.counted = Some((written, missed));
            }
            Some(Err(fault)) => capture.error = Some(fault.problem.error),
            _ => {}
        }
        Ok(capture.describe(id))
    }

    /// A capture has ended by itself.
    pub(crate) fn capture_ended(&self, worker: usize, number: u64, error: String) {
        let mut state = self.state();
        let found = state
            .captures
            .iter_mut()
            .find(|(_, capture)| capture.worker == worker && capture.number == number);
        let Some((&id, capture)) = found else {
            return;
        };
        capture.running = false;
        capture.error = Some(error.clone());
        self.tell(Happening::CaptureEnded { capture: id, error });
    }
}
