//! What a viewer of a lab costs its worker: while it looks, for each packet that it is told of, and
//! when it has gone.
//!
//! Costs are processor time of the worker, from the host's scheduler, so that what else runs counts
//! little. A lab that was never looked at and one whose viewer has gone send in turns.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use tokio::runtime::Runtime;
use vink_api::{
    Address, Client, FeedDetail, FeedOverview, FeedSubscription, FromFeed, FromViewer, ToViewer,
};
use vink_protocol::{FeedHeader, FeedKind};

use crate::lab::Lab;
use crate::side::Round;
use crate::switch::number;
use crate::BoxError;

const LAB: &str = "name: looked-at
machines:
  a: { interfaces: { eth0: { wire: w, addresses: [10.0.0.1/24] } } }
  b: { interfaces: { eth0: { wire: w, addresses: [10.0.0.2/24] } } }
";
/// Bytes of a datagram, and of its packet.
const DATAGRAM: u64 = 100;
/// Packets a second of `ui_detail_share`, and how many its viewer takes.
const PACKETS: u64 = 100_000;
const BUDGET: u32 = 200_000;
/// Seconds of a turn, and turns of a round.
const SECONDS: u64 = 1;
const TURNS: usize = 6;
/// Classes as the page has them.
const CLASSES: [&str; 6] = [
    "arp or (icmp6 and ip6[40] >= 133 and ip6[40] <= 137)",
    "icmp or icmp6",
    "ip proto 89 or ip6 proto 89 or port 179 or port 520",
    "tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0",
    "tcp",
    "udp",
];
/// After that time a worker knows that its viewer has gone: some ticks of a feed.
const GONE: Duration = Duration::from_millis(500);

/// One that takes what a page takes, until it is dropped.
struct Viewer {
    _runtime: Runtime,
    told: Arc<AtomicU64>,
}

impl Viewer {
    fn open(lab: &Lab) -> Result<Viewer, BoxError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let socket = lab.folder().join("run/control.sock");
        let client = Client::new(Address::Unix(socket));
        let subscription = FeedSubscription {
            classes: CLASSES.map(str::to_owned).to_vec(),
            overview: Some(FeedOverview { hz: 4 }),
            detail: Some(FeedDetail {
                ends: None,
                budget: BUDGET,
            }),
            follow: None,
            flow: None,
        };
        let mut feed = runtime.block_on(async {
            let mut feed = client.feed("looked-at").await?;
            feed.say(&FromViewer::Subscribe(subscription)).await?;
            match feed.next().await? {
                Some(FromFeed::Told(ToViewer::Subscribed)) => Ok::<_, BoxError>(feed),
                told => Err(format!("the feed begins with {told:?}").into()),
            }
        })?;
        let told = Arc::new(AtomicU64::new(0));
        let count = told.clone();
        runtime.spawn(async move {
            while let Ok(Some(message)) = feed.next().await {
                let FromFeed::Frame(frame) = message else {
                    continue;
                };
                let header = FeedHeader::read(&frame).filter(|it| it.kind == FeedKind::Flights);
                let Some(header) = header else { continue };
                count.fetch_add(u64::from(header.count), Ordering::Relaxed);
                if feed.say(&FromViewer::Ack(header.seq)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Viewer {
            _runtime: runtime,
            told,
        })
    }
}

/// Two machines of one worker.
fn lab() -> Result<Lab, BoxError> {
    let lab = Lab::up(LAB)?;
    lab.shell("exec b app sink -u &")?;
    send(&lab, "max")?;
    Ok(lab)
}

/// Sends for a turn at a rate: the worker's processor time in ns, and packets.
fn send(lab: &Lab, rate: &str) -> Result<(f64, f64), BoxError> {
    let pid = lab.pid("a")?;
    let before = processor_time(pid)?;
    let line = format!("exec a app source -u -r {rate} -t {SECONDS}s -l {DATAGRAM} 10.0.0.2");
    let said = lab.shell(&line)?;
    let used = processor_time(pid)? - before;
    Ok((used, number(&said, "arrived: {\"packets\":")?))
}

/// Of all threads of a process, ns.
fn processor_time(pid: libc::pid_t) -> Result<f64, BoxError> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let ns: f64 = text.split(' ').next().ok_or("schedstat")?.parse()?;
        sum += ns;
    }
    Ok(sum)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Processor time for a packet in a worker whose viewer has gone, to that of one that had none.
pub(crate) fn gone() -> Result<Round, BoxError> {
    Ok(Box::new(|| {
        // New ones each time: where their memory lies makes some difference, too.
        let labs = [lab()?, lab()?];
        drop(Viewer::open(&labs[1])?);
        sleep(GONE);
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            for (lab, costs) in labs.iter().zip(&mut costs) {
                let (used, packets) = send(lab, "max")?;
                costs.push(used / packets);
            }
        }
        let [never, gone] = costs.map(median);
        Ok(vec![Some(gone / never)])
    }))
}

/// The share of a processor that telling a viewer of 100,000 packets a second costs, and ns for
/// each packet.
pub(crate) fn detail() -> Result<Round, BoxError> {
    let lab = lab()?;
    let rate = (PACKETS * DATAGRAM * 8).to_string();
    Ok(Box::new(move || {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            let (used, packets) = send(&lab, &rate)?;
            costs[0].push(used / packets);
            let viewer = Viewer::open(&lab)?;
            let (used, packets) = send(&lab, &rate)?;
            costs[1].push(used / packets);
            // The last are told of at the next tick.
            sleep(GONE);
            let told = viewer.told.load(Ordering::Relaxed) as f64;
            if packets < 0.9 * (PACKETS * SECONDS) as f64 || told < 0.9 * packets {
                let error = format!("{packets} packets came, {told} were told of");
                return Err(error.into());
            }
            drop(viewer);
            sleep(GONE);
        }
        let [without, with] = costs.map(median);
        let each = with - without;
        Ok(vec![Some(each * PACKETS as f64 / 1e9), Some(each)])
    }))
}
