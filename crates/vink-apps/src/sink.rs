//! The other end of `source`: reads everything and measures what has come, of each flow.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::arguments::{self, Arguments, Opt, Syntax};
use crate::arrivals::Arrivals;
use crate::report::{Arrived, Delay, Protocol};
use crate::series::Series;
use crate::server::{self, serve, Answer, ListenAddress, Service};
use crate::source::PORT;
use crate::stamp::{Receipt, Stamp};
use crate::{App, AppError, Calls, FlowReport, Names, Report, ServerReport, SinkReport};

/// So many flows that have ended are remembered one by one.
const MOST_ENDED: u64 = 1000;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "sink",
    purpose: "Reads what sources send and measures it, TCP and UDP; port 5001.",
    operands: "",
    options: &[
        server::PORT,
        server::BIND,
        server::TCP,
        server::UDP,
        Opt::new('n', "FLOWS", "ends when so many flows have (else never)"),
        Opt::new('i', "TIME", "also reports each interval of this length"),
        Opt::new(
            'w',
            "SIZE",
            "receive buffer of each socket (else the system's)",
        ),
    ],
};

struct SinkApp {
    address: ListenAddress,
    flows: Option<u64>,
    interval: Option<Duration>,
}

pub(crate) fn make(arguments: &Arguments<'_>, _: &Names) -> Result<Box<dyn App>, String> {
    Ok(Box::new(SinkApp {
        address: ListenAddress {
            receive_buffer: arguments.value('w', receive_buffer)?,
            ..ListenAddress::parse(arguments, PORT)?
        },
        flows: arguments.number('n', 1)?,
        interval: arguments.value('i', arguments::time)?,
    }))
}

/// Linux doubles it, in 32 bits with a sign.
fn receive_buffer(text: &str) -> Result<i32, String> {
    let bytes = i32::try_from(arguments::size(text)?);
    let bytes = bytes.ok().filter(|bytes| *bytes <= i32::MAX / 2);
    bytes.ok_or_else(|| format!("at most {} bytes", i32::MAX / 2))
}

impl App for SinkApp {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let flows = Rc::new(RefCell::new(Flows::default()));
        let statistics = Rc::new(RefCell::new(ServerReport::default()));
        let (seen, errors) = (Rc::clone(&flows), Rc::clone(&statistics));
        calls.publish(move || Report::Sink(seen.borrow().report(errors.borrow().errors)));
        let sink = Sink {
            flows,
            limit: self.flows,
            interval: self.interval,
        };
        serve(calls, &self.address, sink, &statistics)
    }
}

/// All flows so far.
#[derive(Default)]
struct Flows {
    /// By number, in the order of their start.
    known: BTreeMap<u64, Flow>,
    /// Of those that are not known any more, too.
    count: u64,
    ended: u64,
    bytes: u64,
    /// UDP flows, by the sender's address and its number for the flow.
    peers: HashMap<SocketAddr, (u32, u64)>,
}

struct Flow {
    from: SocketAddr,
    start: Duration,
    last: Duration,
    bytes: u64,
    series: Series,
    arrivals: Option<Arrivals>,
    /// How many datagrams were sent, once that is known.
    sent: Option<u64>,
    /// What is late still counts.
    ended: bool,
}

impl Flows {
    fn begin(&mut self, from: SocketAddr, now: Duration, series: Series, udp: bool) -> u64 {
        let number = self.count;
        self.count += 1;
        let flow = Flow {
            from,
            start: now,
            last: now,
            bytes: 0,
            series,
            arrivals: udp.then(Arrivals::new),
            sent: None,
            ended: false,
        };
        self.known.insert(number, flow);
        number
    }

    fn add(&mut self, number: u64, now: Duration, bytes: u64) {
        self.bytes += bytes;
        if let Some(flow) = self.known.get_mut(&number) {
            flow.bytes += bytes;
            flow.last = now;
            flow.series.add(now - flow.start, bytes);
        }
    }

    fn end(&mut self, number: u64) {
        let Some(flow) = self.known.get_mut(&number) else {
            return;
        };
        if std::mem::replace(&mut flow.ended, true) {
            return;
        }
        self.ended += 1;
        let open = self.count - self.ended;
        if self.known.len() as u64 > open + MOST_ENDED {
            let oldest = self.known.iter().find(|(_, flow)| flow.ended);
            if let Some((number, from)) = oldest.map(|(number, flow)| (*number, flow.from)) {
                self.known.remove(&number);
                if self.peers.get(&from).is_some_and(|(_, n)| *n == number) {
                    self.peers.remove(&from);
                }
            }
        }
    }

    /// The flow that a datagram is of.
    fn of(&mut self, from: SocketAddr, id: u32, now: Duration, series: Series) -> u64 {
        match self.peers.get(&from).copied() {
            Some((known, number)) if known == id => number,
            other => {
                // The same port, used again: what was there before is over.
                if let Some((_, old)) = other {
                    self.end(old);
                }
                let number = self.begin(from, now, series, true);
                self.peers.insert(from, (id, number));
                number
            }
        }
    }

    fn report(&self, errors: u64) -> SinkReport {
        SinkReport {
            flows: self.count,
            open: self.count - self.ended,
            errors,
            bytes: self.bytes,
            list: self.known.values().map(Flow::report).collect(),
        }
    }
}

impl Flow {
    fn report(&self) -> FlowReport {
        let seconds = (self.last - self.start).as_secs_f64();
        let arrivals = self.arrivals.as_ref();
        FlowReport {
            from: self.from.to_string(),
            protocol: match arrivals {
                Some(_) => Protocol::Udp,
                None => Protocol::Tcp,
            },
            bytes: self.bytes,
            seconds,
            rate: match seconds {
                0.0 => 0.0,
                seconds => self.bytes as f64 * 8.0 / seconds,
            },
            ended: self.ended,
            arrived: arrivals.map(|a| Arrived {
                packets: a.packets,
                lost: a.lost(self.sent),
                reordered: a.reordered,
                duplicates: a.duplicates,
                jitter: a.jitter / 1e9,
            }),
            delay: arrivals.filter(|a| a.packets > 0).map(|a| Delay {
                min: a.delays[0] as f64 / 1e9,
                avg: a.delays[2] as f64 / 1e9 / a.packets as f64,
                max: a.delays[1] as f64 / 1e9,
            }),
            intervals: self.series.intervals(),
        }
    }
}

struct Sink {
    flows: Rc<RefCell<Flows>>,
    limit: Option<u64>,
    interval: Option<Duration>,
}

impl Service for Sink {
    /// The flow's number.
    type Talk = u64;

    fn opened(&mut self, calls: &Calls<'_>, from: SocketAddr) -> io::Result<u64> {
        let now = calls.now()?;
        let series = Series::new(self.interval);
        Ok(self.flows.borrow_mut().begin(from, now, series, false))
    }

    fn received(
        &mut self,
        calls: &Calls<'_>,
        flow: &mut u64,
        data: &[u8],
        _: &mut Answer,
    ) -> io::Result<bool> {
        let now = calls.now()?;
        self.flows.borrow_mut().add(*flow, now, data.len() as u64);
        Ok(true)
    }

    fn closed(&mut self, _: &Calls<'_>, flow: &mut u64) -> io::Result<()> {
        self.flows.borrow_mut().end(*flow);
        Ok(())
    }

    fn datagram(
        &mut self,
        calls: &Calls<'_>,
        data: &[u8],
        from: SocketAddr,
        answer: &mut Vec<u8>,
    ) -> io::Result<bool> {
        // What no source has sent is not counted.
        let Some(stamp) = Stamp::read(data) else {
            return Ok(false);
        };
        let now = calls.now()?;
        let flows = &mut *self.flows.borrow_mut();
        let number = flows.of(from, stamp.flow, now, Series::new(self.interval));
        if !stamp.end {
            flows.add(number, now, data.len() as u64);
        }
        let flow = flows.known.get_mut(&number);
        let Some((sent, arrivals)) =
            flow.and_then(|flow| Some((&mut flow.sent, flow.arrivals.as_mut()?)))
        else {
            return Ok(false);
        };
        if !stamp.end {
            arrivals.add(&stamp, now.as_nanos() as u64);
            return Ok(false);
        }
        *sent = Some(stamp.number);
        let receipt = Receipt {
            flow: stamp.flow,
            packets: arrivals.packets,
            reordered: arrivals.reordered,
            duplicates: arrivals.duplicates,
            jitter: arrivals.jitter as u64,
        };
        answer.extend_from_slice(&receipt.write());
        flows.end(number);
        Ok(true)
    }

    fn is_done(&self) -> bool {
        let flows = self.flows.borrow();
        self.limit.is_some_and(|limit| flows.ended >= limit)
    }
}
