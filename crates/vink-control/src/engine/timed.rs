//! Events of a lab file: lines of the switch box that are carried out at their time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;
use vink_api::Happening;
use vink_protocol::Noted;
use vink_spec::Event;

use super::clock::{Priority, TimeRequest, WakeCondition};
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
        let actor = self.new_actor();
        let mut state = self.state();
        let Some(up) = state.up else {
            return;
        };
        state.timed.stop();
        let events = state.spec.events.clone();
        if let Some(actor) = actor {
            let elapsed = state.clock.up_for();
            let lab = self.clone();
            let running = actor.run(async move { run_events(lab, events, elapsed).await });
            state.timed.0 = vec![tokio::spawn(running).abort_handle()];
            return;
        }
        state.timed.0 = events
            .into_iter()
            .filter_map(|event| {
                let at = first(&event, up.elapsed())?;
                Some(tokio::spawn(run_event(self.clone(), event, up, at)).abort_handle())
            })
            .collect();
    }

    pub(super) async fn run_noted_line(self: &Arc<Lab>, line: &str) {
        let line = line.to_owned();
        let error = self.run_line(line.clone()).await.err();
        self.note(Noted::Line {
            line: line.clone(),
            error: error.clone(),
        })
        .await;
        self.tell(Happening::Timed { line, error });
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

async fn run_event(lab: Arc<Lab>, event: Event, up: Instant, mut at: Duration) {
    loop {
        tokio::time::sleep_until((up + at).into()).await;
        lab.run_noted_line(&event.line).await;
        match event.every.map(|every| every.duration()) {
            Some(every) if !every.is_zero() => at += every,
            _ => return,
        }
    }
}

/// By the lab's own clock: one after the other, in the order of their times and of the file. The
/// clock goes as far as the last of those that are carried out once.
async fn run_events(lab: Arc<Lab>, events: Vec<Event>, elapsed: Duration) {
    let mut waiting: BTreeMap<(Duration, usize), Event> = BTreeMap::new();
    for (place, event) in events.into_iter().enumerate() {
        if let Some(at) = first(&event, elapsed) {
            waiting.insert((at, place), event);
        }
    }
    let up = lab.state().clock.up_at;
    let by_clock = |at: Duration| up.saturating_add(at.as_nanos() as u64);
    let once = waiting.iter().filter(|(_, event)| event.every.is_none());
    let last = once.map(|((at, _), _)| by_clock(*at)).max();
    let mut demand = last.map(|until| {
        lab.request_time(TimeRequest {
            until,
            stop: None,
            reached: None,
            priority: Priority::Normal,
        })
    });
    while let Some(((at, place), event)) = waiting.pop_first() {
        lab.wait_until(vec![WakeCondition::At(by_clock(at))]).await;
        lab.run_noted_line(&event.line).await;
        match event.every.map(|every| every.duration()) {
            Some(every) if !every.is_zero() => {
                waiting.insert((at + every, place), event);
            }
            _ => {}
        }
        if last.is_some_and(|last| lab.state().clock.now >= last) {
            demand = None;
        }
    }
    drop(demand);
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
