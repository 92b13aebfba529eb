//! Events of a lab file: lines of the switch box that are carried out at their time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;
use vink_api::Happening;
use vink_spec::Event;

use super::lab::Lab;

/// Those that wait for their time.
#[derive(Default)]
pub(crate) struct Timed(Vec<AbortHandle>);

impl Timed {
    /// None is carried out any more.
    pub(crate) fn stop(&mut self) {
        for task in self.0.drain(..) {
            task.abort();
        }
    }
}

impl Lab {
    /// Starts the lab's events anew. Those whose time has passed are not carried out again.
    pub(crate) fn start_timed(self: &Arc<Lab>) {
        let mut state = self.state();
        let Some(up) = state.up else {
            return;
        };
        state.timed.stop();
        let events = state.spec.events.clone();
        state.timed.0 = events
            .into_iter()
            .filter_map(|event| {
                let at = first(&event, up.elapsed())?;
                Some(tokio::spawn(carry_out(self.clone(), event, up, at)).abort_handle())
            })
            .collect();
    }
}

/// When an event is carried out next, if it is.
fn first(event: &Event, elapsed: Duration) -> Option<Duration> {
    let at = event.at.duration();
    if at >= elapsed || elapsed < Duration::from_millis(100) {
        return Some(at);
    }
    let every = event.every?.duration();
    if every.is_zero() {
        return None;
    }
    let rounds = (elapsed - at).as_nanos().div_ceil(every.as_nanos());
    Some(at + every * u32::try_from(rounds).ok()?)
}

async fn carry_out(lab: Arc<Lab>, event: Event, up: Instant, mut at: Duration) {
    loop {
        tokio::time::sleep_until((up + at).into()).await;
        let ran = (lab.hooks.run_line)(lab.name.clone(), event.line.clone()).await;
        lab.tell(Happening::Timed {
            line: event.line.clone(),
            error: ran.err(),
        });
        match event.every.map(|every| every.duration()) {
            Some(every) if !every.is_zero() => at += every,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_spec::Span;

    #[test]
    fn next_time() {
        let mut event = Event {
            at: Span(2_000_000_000),
            every: None,
            line: String::new(),
        };
        let seconds = Duration::from_secs;
        assert_eq!(first(&event, seconds(1)), Some(seconds(2)));
        assert_eq!(first(&event, seconds(3)), None);
        event.every = Some(Span(5_000_000_000));
        assert_eq!(first(&event, seconds(3)), Some(seconds(7)));
        assert_eq!(first(&event, seconds(12)), Some(seconds(12)));
    }
}
