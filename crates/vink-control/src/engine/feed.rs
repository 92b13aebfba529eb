//! Feeds: what workers tell of packets, counters and queues, given to viewers as it comes.
//!
//! Viewers that want the same share a feed: a worker makes its frames once, and they share the
//! bytes. A feed ends with its last viewer; its workers notice by their descriptors. Frames name ends
//! by the numbers of [`Lab::topology`], of which workers are told anew when it has changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::AbortHandle;
use vink_api::{Bytes, FeedSubscription};
use vink_protocol::{
    Action, EndNumber, FeedDetail, FeedHeader, FeedKind, FeedRequest, Filter, FEED_HEADER,
};

use super::lab::{Lab, State};
use super::spawn::pipe;
use super::terminal::Pipe;
use crate::http_error::HttpError;

/// Feeds of a lab: a class whose pages follow a flow each.
const MAX_FEEDS: usize = 64;
/// Classes of a feed, and characters of a filter.
const MAX_CLASSES: usize = 32;
const MAX_FILTER: usize = 1000;
/// Compiled filters that are kept.
const MAX_FILTERS: usize = 256;
const MAX_ENDS: usize = 400;
const MAX_BUDGET: u32 = 200_000;
const MAX_HZ: u32 = 10;
/// Frames that a viewer may be behind, those included that it does not get.
const FRAMES: usize = 256;
/// Frames of flights under way to one viewer: a virtual clock that jumps makes several at once.
const UNDER_WAY: usize = 16;
/// A lab that changes is settled for so long before ends are numbered again.
const SETTLED: Duration = Duration::from_millis(50);

/// The feeds of a lab.
#[derive(Default)]
pub(crate) struct Feeds {
    by_subscription: HashMap<String, Weak<Feed>>,
    /// By their texts.
    filters: HashMap<String, Filter>,
    /// A task numbers the ends when the lab has changed.
    numbers: bool,
}

/// What viewers that want the same share.
pub(crate) struct Feed {
    request: FeedRequest,
    outlet: Arc<Outlet>,
    /// By worker, what reads its frames.
    readers: Mutex<HashMap<usize, AbortHandle>>,
}

/// Numbers frames and gives them to viewers.
struct Outlet {
    frames: broadcast::Sender<Frame>,
    numbered: Mutex<Numbered>,
}

#[derive(Default)]
struct Numbered {
    seq: u32,
    flights: u64,
}

#[derive(Clone)]
struct Frame {
    header: FeedHeader,
    bytes: Bytes,
    /// Flights of the feed before it.
    before: u64,
}

/// One that looks at a feed.
pub(crate) struct Viewer {
    frames: broadcast::Receiver<Frame>,
    /// The numbers of frames of flights that are not acknowledged yet.
    under_way: Vec<u32>,
    /// Flights of the feed that it was given, or that are counted as missed.
    flights: Option<u64>,
    missed: u64,
    /// Its feed is there for as long as it is.
    feed: Arc<Feed>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        let readers = self.readers.get_mut();
        for reader in readers.unwrap_or_else(PoisonError::into_inner).values() {
            reader.abort();
        }
    }
}

impl Outlet {
    fn give(&self, header: FeedHeader, mut bytes: Vec<u8>) {
        let mut numbered = self.numbered.lock().unwrap_or_else(PoisonError::into_inner);
        numbered.seq = numbered.seq.wrapping_add(1);
        let before = numbered.flights;
        if header.kind == FeedKind::Flights {
            numbered.flights += u64::from(header.count);
        }
        let header = FeedHeader {
            seq: numbered.seq,
            ..header
        };
        bytes[..FEED_HEADER].copy_from_slice(&header.to_bytes());
        // Fails if no viewer is there any more.
        let _ = self.frames.send(Frame {
            header,
            bytes: bytes.into(),
            before,
        });
    }

    /// Gives what comes from a worker, until it ends.
    async fn read(self: Arc<Outlet>, from: Pipe) {
        let mut bytes = Vec::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            let count = match from.read(&mut piece).await {
                Ok(count @ 1..) => count,
                _ => return,
            };
            bytes.extend_from_slice(&piece[..count]);
            let mut at = 0;
            while bytes.len() - at >= FEED_HEADER {
                // A worker writes no other.
                let Some(header) = FeedHeader::read(&bytes[at..]) else {
                    return;
                };
                let end = at + FEED_HEADER + header.records();
                if bytes.len() < end {
                    break;
                }
                self.give(header, bytes[at..end].to_vec());
                at = end;
            }
            bytes.drain(..at);
        }
    }
}

impl Viewer {
    /// The viewer has taken the frames of flights up to this one.
    pub(crate) fn acknowledge(&mut self, seq: u32) {
        let is_later = |of: &u32| (of.wrapping_sub(seq) as i32) > 0;
        self.under_way.retain(is_later);
    }

    /// The next frames that go to it.
    pub(crate) async fn next(&mut self) -> Option<Vec<Bytes>> {
        loop {
            let frame = match self.frames.recv().await {
                Ok(frame) => frame,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return None,
            };
            let given = self.take(frame);
            if !given.is_empty() {
                return Some(given);
            }
        }
    }

    /// What of a frame it gets: one that is slow gets no flights, and is told how many.
    fn take(&mut self, frame: Frame) -> Vec<Bytes> {
        let Frame {
            header,
            bytes,
            before,
        } = frame;
        let mut given = Vec::new();
        match header.kind {
            FeedKind::Flights => {
                let count = u64::from(header.count);
                self.missed += before - self.flights.unwrap_or(before);
                self.flights = Some(before + count);
                if self.under_way.len() >= UNDER_WAY {
                    self.missed += count;
                } else {
                    given.extend(self.tell_missed(header));
                    self.under_way.push(header.seq);
                    given.push(bytes);
                }
            }
            FeedKind::Clock => {
                given.extend(self.tell_missed(header));
                given.push(bytes);
            }
            _ => given.push(bytes),
        }
        given
    }

    /// A frame without flights that tells of those that it has missed, if there are some.
    fn tell_missed(&mut self, header: FeedHeader) -> Option<Bytes> {
        let missed = u32::try_from(std::mem::take(&mut self.missed)).unwrap_or(u32::MAX);
        let header = FeedHeader {
            kind: FeedKind::Flights,
            count: 0,
            missed,
            ..header
        };
        (missed > 0).then(|| header.to_bytes().to_vec().into())
    }
}

impl Lab {
    /// Begins to look at what the subscription says, instead of what the viewer looked at before.
    pub(crate) async fn view(
        self: &Arc<Lab>,
        subscription: &FeedSubscription,
        before: Option<&Viewer>,
    ) -> Result<Viewer, HttpError> {
        let request = self.feed_request(subscription).await?;
        let key = serde_json::to_string(subscription).expect("plain data");
        let (feed, is_new) = {
            let mut state = self.state();
            let feeds = &mut state.feeds.by_subscription;
            feeds.retain(|_, feed| feed.strong_count() > 0);
            // A feed that only this viewer has ends now.
            let ends = before.is_some_and(|viewer| Arc::strong_count(&viewer.feed) == 1);
            match feeds.get(&key).and_then(Weak::upgrade) {
                Some(feed) => (feed, false),
                None if feeds.len() - usize::from(ends) >= MAX_FEEDS => {
                    let error = format!(
                        "{MAX_FEEDS} viewers look at different things in this lab, and no more can"
                    );
                    let hint = "viewers with the same subscription count as one, such as pages \
                                that follow no flow or the same one";
                    return Err(HttpError::conflict(error).hint(hint));
                }
                None => {
                    let feed = Arc::new(Feed {
                        request,
                        outlet: Arc::new(Outlet {
                            frames: broadcast::Sender::new(FRAMES),
                            numbered: Mutex::default(),
                        }),
                        readers: Mutex::default(),
                    });
                    feeds.insert(key, Arc::downgrade(&feed));
                    (feed, true)
                }
            }
        };
        let viewer = Viewer {
            frames: feed.outlet.frames.subscribe(),
            under_way: Vec::new(),
            flights: None,
            missed: 0,
            feed: feed.clone(),
        };
        let workers = self.state().workers.len();
        if is_new {
            for worker in 0..workers {
                self.open_feed(worker, &feed).await?;
            }
        }
        // It has all workers begin with a keyframe, too.
        self.number_ends().await;
        self.follow_changes();
        Ok(viewer)
    }

    /// A worker has booted: it takes part in the feeds.
    pub(crate) async fn open_feeds(self: &Arc<Lab>, worker: usize) -> Result<(), HttpError> {
        let all: Vec<Arc<Feed>> = {
            let state = self.state();
            let feeds = state.feeds.by_subscription.values();
            feeds.filter_map(Weak::upgrade).collect()
        };
        for feed in all {
            self.open_feed(worker, &feed).await?;
        }
        Ok(())
    }

    async fn open_feed(self: &Arc<Lab>, worker: usize, feed: &Arc<Feed>) -> Result<(), HttpError> {
        // One that has died is started again, or not.
        if self.state().workers[worker].client.is_none() {
            return Ok(());
        }
        let host = |error| HttpError::host("a pipe for the feed", error);
        let (ours, theirs) = pipe().map_err(host)?;
        let ours = Pipe::new(ours).map_err(host)?;
        let action = Action::Feed(feed.request.clone());
        self.have(worker, action, vec![theirs]).await?;
        let reader = tokio::spawn(feed.outlet.clone().read(ours)).abort_handle();
        let mut readers = feed.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = readers.insert(worker, reader) {
            old.abort();
        }
        Ok(())
    }

    /// What workers are asked for by a subscription.
    async fn feed_request(&self, of: &FeedSubscription) -> Result<FeedRequest, HttpError> {
        let mut request = FeedRequest::default();
        if of.classes.len() > MAX_CLASSES {
            let error = format!(
                "{} classes, and {MAX_CLASSES} are the most",
                of.classes.len()
            );
            return Err(HttpError::invalid(error).at("/classes"));
        }
        if let Some(overview) = &of.overview {
            if !(1..=MAX_HZ).contains(&overview.hz) {
                let error = format!("{} times a second: it is 1 to {MAX_HZ}", overview.hz);
                return Err(HttpError::invalid(error).at("/overview/hz"));
            }
            request.hz = overview.hz;
        }
        if let Some(detail) = &of.detail {
            if !(1..=MAX_BUDGET).contains(&detail.budget) {
                let error = format!("a budget of {}: it is 1 to {MAX_BUDGET}", detail.budget);
                return Err(HttpError::invalid(error).at("/detail/budget"));
            }
            if let Some(ends) = &detail.ends {
                if ends.len() > MAX_ENDS {
                    let error = format!("{} ends, and {MAX_ENDS} are the most", ends.len());
                    let hint = "leave `ends` out: that is all of them";
                    return Err(HttpError::invalid(error).hint(hint).at("/detail/ends"));
                }
                self.ends_are_there(ends)?;
            }
            request.detail = Some(FeedDetail {
                ends: detail.ends.clone(),
                budget: detail.budget,
            });
        }
        for (place, text) in of.classes.iter().enumerate() {
            let filter = self.feed_filter("class", text).await;
            let filter = filter.map_err(|error| error.at(format!("/classes/{place}")))?;
            request.classes.push(filter);
        }
        if let Some(text) = &of.follow {
            let filter = self.feed_filter("what is followed", text).await;
            request.follow = Some(filter.map_err(|error| error.at("/follow"))?);
        }
        request.flow = of.flow;
        Ok(request)
    }

    fn ends_are_there(&self, ends: &[String]) -> Result<(), HttpError> {
        let known: Vec<String> = {
            let state = self.state();
            let numbered = numbered_ends(&state);
            numbered.into_iter().map(|(end, _)| end).collect()
        };
        for (place, end) in ends.iter().enumerate() {
            if !known.contains(end) {
                let known = known.iter().map(String::as_str);
                let error = HttpError::no("end", end, known, "in the lab");
                return Err(error.at(format!("/detail/ends/{place}")));
            }
        }
        Ok(())
    }

    async fn feed_filter(&self, what: &str, text: &str) -> Result<Filter, HttpError> {
        if text.len() > MAX_FILTER {
            let error = format!(
                "{what}: {} bytes, and {MAX_FILTER} are the most",
                text.len()
            );
            return Err(HttpError::invalid(error));
        }
        if let Some(filter) = self.state().feeds.filters.get(text) {
            return Ok(filter.clone());
        }
        let filter = self.compile(what, text).await?;
        let filters = &mut self.state().feeds.filters;
        if filters.len() >= MAX_FILTERS {
            filters.clear();
        }
        filters.insert(text.to_owned(), filter.clone());
        Ok(filter)
    }

    /// Numbers the ends again whenever the lab has changed, while there are feeds.
    fn follow_changes(self: &Arc<Lab>) {
        if std::mem::replace(&mut self.state().feeds.numbers, true) {
            return;
        }
        let mut changes = self.changes.subscribe();
        let lab = Arc::downgrade(self);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                tokio::time::sleep(SETTLED).await;
                changes.borrow_and_update();
                let Some(lab) = lab.upgrade() else { return };
                let is_viewed = {
                    let state = lab.state();
                    let mut feeds = state.feeds.by_subscription.values();
                    feeds.any(|feed| feed.strong_count() > 0)
                };
                if is_viewed {
                    lab.number_ends().await;
                }
            }
        });
    }

    /// Tells all workers the numbers of their ends.
    pub(crate) async fn number_ends(self: &Arc<Lab>) {
        let (revision, lists) = {
            let state = self.state();
            let mut lists = vec![Vec::new(); state.workers.len()];
            for (number, (end, worker)) in numbered_ends(&state).into_iter().enumerate() {
                let list = worker.and_then(|worker| lists.get_mut(worker));
                if let Some(list) = list {
                    let number = number as u32;
                    list.push(EndNumber { end, number });
                }
            }
            (state.revision, lists)
        };
        for (worker, ends) in lists.into_iter().enumerate() {
            // Fails for a worker that has died.
            let action = Action::NumberEnds { revision, ends };
            let _ = self.have(worker, action, Vec::new()).await;
        }
    }
}

/// All ends, in the order of their numbers: their names in a feed, and their workers.
fn numbered_ends(state: &State) -> Vec<(String, Option<usize>)> {
    let mut all = Vec::new();
    for (wire, ends) in state.spec.ends_of_wires() {
        for end in ends {
            all.push(match end {
                Some((machine, interface)) => (
                    format!("{machine}:{interface}"),
                    state.worker_of.get(machine).copied(),
                ),
                None => {
                    let placed = state.wires.get(wire);
                    let worker = placed.and_then(|placement| placement.uplink);
                    (format!(":{wire}"), worker)
                }
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flights(outlet: &Outlet, count: u16) {
        let header = FeedHeader {
            kind: FeedKind::Flights,
            revision: 0,
            count,
            seq: 0,
            base: 0,
            missed: 0,
            one_in: 1,
        };
        let bytes = vec![0; FEED_HEADER + header.records()];
        outlet.give(header, bytes);
    }

    fn clock(outlet: &Outlet) {
        let header = FeedHeader {
            kind: FeedKind::Clock,
            revision: 0,
            count: 0,
            seq: 0,
            base: 5,
            missed: 0,
            one_in: 1,
        };
        outlet.give(header, vec![0; FEED_HEADER]);
    }

    fn headers(frames: Option<Vec<Bytes>>) -> Vec<(FeedKind, u16, u32)> {
        let frames = frames.expect("frames");
        let read = frames.iter().map(|bytes| FeedHeader::read(bytes));
        read.map(|header| header.expect("a header"))
            .map(|header| (header.kind, header.count, header.missed))
            .collect()
    }

    #[tokio::test]
    async fn a_slow_viewer_gets_no_flights_and_is_told_how_many() {
        let feed = Arc::new(Feed {
            request: FeedRequest::default(),
            outlet: Arc::new(Outlet {
                frames: broadcast::Sender::new(8),
                numbered: Mutex::default(),
            }),
            readers: Mutex::default(),
        });
        let mut viewer = Viewer {
            frames: feed.outlet.frames.subscribe(),
            under_way: Vec::new(),
            flights: None,
            missed: 0,
            feed: feed.clone(),
        };
        let outlet = &feed.outlet;
        for _ in 0..UNDER_WAY {
            flights(outlet, 10);
            let one = (FeedKind::Flights, 10, 0);
            assert_eq!(headers(viewer.next().await), [one]);
        }
        flights(outlet, 20);
        clock(outlet);
        let told = [(FeedKind::Flights, 0, 20), (FeedKind::Clock, 0, 0)];
        assert_eq!(headers(viewer.next().await), told);
        flights(outlet, 1);
        viewer.acknowledge(2);
        flights(outlet, 2);
        clock(outlet);
        // Acknowledged before it was looked at.
        assert_eq!(headers(viewer.next().await), [(FeedKind::Flights, 1, 0)]);
        // It does not come for so long that frames are dropped: 20 of 28, with 2 flights before.
        for _ in 0..13 {
            flights(outlet, 1);
            clock(outlet);
        }
        viewer.acknowledge(100);
        let told = headers(viewer.next().await);
        assert_eq!(told[0], (FeedKind::Flights, 0, 2 + 9), "{told:?}");
    }
}
