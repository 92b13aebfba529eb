//! The path of a relay: what passes goes through its pods, several pieces by one crossing of a wall.
//!
//! A piece is what was read from a connection at once, or a datagram. Each goes through all pods; what
//! one makes of it is what the next one gets, and what one emits backwards meets no other pod.

use std::mem::take;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use vink_pod::{Account, Batch, Entry, Meter, PathNumbers, Stack, Stage};

use crate::{AppError, Calls};

/// `POD_PASS`, `POD_DROP`, `POD_CLOSE`, `POD_END`, `POD_BACKWARD` and `POD_BACK` of vink/pod.h.
const PASS: i32 = -1;
const DROP: i32 = 0;
const CLOSE: i32 = -1;
const END: u32 = 1;
const BACKWARD: u32 = 2;
const BACK: u32 = 1;

/// Of all relays of a worker, so that a pod of several knows their connections apart.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// A number for a connection (`POD_CONNECTION()`).
pub(super) fn new_connection() -> u32 {
    CONNECTIONS.fetch_add(1, Relaxed) & 0xff_ffff
}

/// A relay's path.
pub(super) struct RelayPath {
    stages: Vec<Stage>,
    account: Account,
    passes_on_fault: bool,
    meter: Box<dyn Meter>,
    numbers: PathNumbers,
    batch: Batch,
    stack: Stack,
    /// Pieces that are to cross.
    pieces: Vec<Piece>,
    came: usize,
}

/// A piece on its way.
struct Piece {
    /// Which one of those that came together.
    of: usize,
    entry: Entry,
    argument: u32,
    bytes: Vec<u8>,
}

/// What became of a piece.
#[derive(Default)]
pub(super) struct Outcome {
    /// What goes on, each piece by itself.
    pub onward: Vec<Vec<u8>>,
    /// What goes back.
    pub back: Vec<Vec<u8>>,
    /// The connection ends.
    pub closes: bool,
}

impl RelayPath {
    /// Opens the path of this name.
    pub fn open(calls: &Calls<'_>, name: &str) -> Result<RelayPath, AppError> {
        let mut stack = Stack::new().map_err(AppError::during("map a stack for pods"))?;
        let mut opened = calls.open_paths(&[name.to_owned()], false, &mut stack)?;
        let path = opened.remove(0);
        Ok(RelayPath {
            stages: path.pods,
            account: path.account,
            passes_on_fault: path.passes_on_fault,
            meter: path.meter,
            numbers: PathNumbers::default(),
            batch: Batch::default(),
            stack,
            pieces: Vec::new(),
            came: 0,
        })
    }

    /// Until when nothing may pass, by the machine's clock; `None`: something may.
    pub fn waits(&mut self, now: Duration) -> Option<Duration> {
        let now = now.as_nanos() as u64;
        (self.account.admits(now) == Some(0)).then(|| Duration::from_nanos(self.account.opens()))
    }

    /// Something had to wait.
    pub fn waited(&mut self) {
        self.numbers.waited += 1;
        self.numbers.overdrafts += 1;
        self.meter.count(self.numbers);
    }

    /// Something was lost for want of a budget.
    pub fn lost(&mut self) {
        self.numbers.lost += 1;
        self.numbers.overdrafts += 1;
        self.meter.count(self.numbers);
    }

    /// A piece of a connection is to cross, by the way it takes (0: to the target).
    pub fn stream(&mut self, connection: u32, way: usize, bytes: &[u8], is_end: bool) {
        let way = if way == 0 { 0 } else { BACKWARD };
        let end = if is_end { END } else { 0 };
        self.enter(Entry::Stream, connection << 8 | way | end, bytes);
    }

    /// A datagram is to cross, by the way it takes (0: to the target).
    pub fn datagram(&mut self, way: usize, bytes: &[u8]) {
        self.enter(Entry::Packet, way as u32, bytes);
    }

    fn enter(&mut self, entry: Entry, argument: u32, bytes: &[u8]) {
        let is_something = entry == Entry::Packet || !bytes.is_empty();
        self.numbers.packets += u64::from(is_something);
        self.numbers.bytes += bytes.len() as u64;
        self.account.enter(bytes.len());
        self.pieces.push(Piece {
            of: self.came,
            entry,
            argument,
            bytes: bytes.to_vec(),
        });
        self.came += 1;
    }

    /// All pieces cross all pods: what became of each. `None`: a pod has ended, and they are lost.
    pub fn cross(&mut self, now: Duration) -> Option<Vec<Outcome>> {
        let mut outcomes: Vec<Outcome> = Vec::new();
        outcomes.resize_with(take(&mut self.came), Outcome::default);
        let mut pieces = take(&mut self.pieces);
        let mut cycles = 0;
        for at in 0..self.stages.len() {
            if pieces.is_empty() {
                break;
            }
            self.batch.clear(now.as_nanos() as u64);
            for piece in &pieces {
                self.batch.push(piece.entry, piece.argument, &piece.bytes);
            }
            let crossed = self.stages[at].cross(&mut self.batch, &mut self.stack);
            self.numbers.crossings += 1;
            cycles += self.batch.cycles;
            if crossed.is_err() {
                if self.passes_on_fault {
                    break;
                }
                self.numbers.lost += outcomes.len() as u64;
                self.meter.count(self.numbers);
                return None;
            }
            pieces = self.hand_on(pieces, &mut outcomes);
        }
        self.numbers.cycles += cycles;
        self.account.charge(cycles, outcomes.len());
        for piece in pieces {
            // The end of a stream is known.
            if piece.entry == Entry::Packet || !piece.bytes.is_empty() {
                self.numbers.passed += 1;
                outcomes[piece.of].onward.push(piece.bytes);
            }
        }
        self.meter.count(self.numbers);
        Some(outcomes)
    }

    /// What a pod has made of pieces is what the next one gets.
    fn hand_on(&mut self, pieces: Vec<Piece>, outcomes: &mut [Outcome]) -> Vec<Piece> {
        let mut next = Vec::with_capacity(pieces.len());
        let mut emitted = self.batch.emitted.iter().peekable();
        for (call, mut piece) in pieces.into_iter().enumerate() {
            let answer = &self.batch.calls[call];
            while let Some(its) = emitted.next_if(|its| its.call <= call) {
                let bytes = self.batch.emitted_bytes[its.bytes.clone()].to_vec();
                if its.output == BACK {
                    self.numbers.emitted += 1;
                    outcomes[piece.of].back.push(bytes);
                    continue;
                }
                self.numbers.emitted += u64::from(piece.entry == Entry::Packet);
                next.push(Piece {
                    argument: piece.argument & !END,
                    bytes,
                    ..piece
                });
            }
            match (piece.entry, answer.answer) {
                (Entry::Stream, answer) => {
                    outcomes[piece.of].closes |= answer == CLOSE;
                    let is_end = piece.argument & END != 0;
                    piece.bytes.clear();
                    next.extend(is_end.then_some(piece));
                }
                (_, PASS) => next.push(piece),
                (_, DROP) => self.numbers.dropped += 1,
                _ => {
                    self.numbers.changed += 1;
                    piece.bytes = self.batch.emitted_bytes[answer.changed.clone()].to_vec();
                    next.push(piece);
                }
            }
        }
        next
    }
}
