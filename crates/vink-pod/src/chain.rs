//! Pods that units of a stream pass one after the other: what one emits is what the next one gets.

use std::mem::swap;

use crate::{Batch, Entry, Fault, Pod, Stack, COUNTERS};

/// `POD_END` of `pod.h`.
pub(crate) const END: u32 = 1;

/// A pod of a stream, and what it has taken.
pub struct Stage {
    /// The pod's name.
    pub name: String,
    pod: Box<dyn Pod>,
    /// Crossings of its wall.
    pub crossings: u64,
    /// Cycles of them.
    pub cycles: u64,
    /// What it has counted.
    pub counters: [i64; COUNTERS],
}

/// Pods in a row. Without one, units pass as they are.
#[derive(Default)]
pub struct Chain {
    /// The pods.
    pub stages: Vec<Stage>,
    /// What has ended it; what was said last goes with it.
    pub ended: Option<String>,
    /// For each call of the last crossing: the first answer of a pod that is not 0.
    pub answers: Vec<i32>,
    /// A processor's time of the last crossing of all of them, ns.
    pub(crate) time: u64,
    /// What the one before has emitted.
    next: Batch,
    /// For each call: which of the first one's it comes from.
    of: Vec<usize>,
}

/// A pod without which the stream can't go on has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pod {pod} has ended: it {fault}")]
pub struct StreamEnded {
    /// The pod's name.
    pub pod: String,
    /// What it did.
    pub fault: Fault,
}

impl Stage {
    /// A pod by its name.
    pub fn new(name: String, pod: Box<dyn Pod>) -> Stage {
        Stage {
            name,
            pod,
            crossings: 0,
            cycles: 0,
            counters: [0; COUNTERS],
        }
    }

    /// The pod.
    pub fn pod(&self) -> &dyn Pod {
        &*self.pod
    }

    /// Has the pod make the calls of a batch.
    ///
    /// # Errors
    /// The pod has ended.
    pub fn cross(&mut self, batch: &mut Batch, stack: &mut Stack) -> Result<(), Fault> {
        let crossed = stack.run(|| self.pod.cross(batch));
        self.crossings += 1;
        self.cycles += batch.cycles;
        for (counter, more) in self.counters.iter_mut().zip(batch.counted) {
            *counter = counter.wrapping_add(more);
        }
        crossed
    }
}

impl Chain {
    /// Of pods.
    pub fn new(stages: Vec<Stage>) -> Chain {
        Chain {
            stages,
            ..Chain::default()
        }
    }

    /// Crossings of all walls.
    pub fn crossings(&self) -> u64 {
        self.stages.iter().map(|stage| stage.crossings).sum()
    }

    /// Has units, which are the calls of a batch, pass all pods. What the last one has emitted is then
    /// what the batch has emitted, each by the call of the unit that it comes from.
    ///
    /// # Errors
    /// [`StreamEnded`]: it has ended.
    pub fn cross(&mut self, batch: &mut Batch, stack: &mut Stack) -> Result<(), StreamEnded> {
        self.time = 0;
        self.answers.clear();
        self.answers.resize(batch.calls.len(), 0);
        if self.stages.is_empty() {
            pass(batch);
            return Ok(());
        }
        let mut cycles = 0;
        self.of.clear();
        self.of.extend(0..batch.calls.len());
        for at in 0..self.stages.len() {
            if at > 0 {
                self.hand_on(batch);
            }
            let stage = &mut self.stages[at];
            batch.wants_time = true;
            let crossed = stage.cross(batch, stack);
            self.time += batch.time;
            cycles += batch.cycles;
            if let Err(fault) = crossed {
                batch.cycles = cycles;
                let mut why = format!("pod {} has ended: it {fault}", stage.name);
                // What it said last may be why.
                if let Some(line) = batch.log.last() {
                    why = format!("{why} ({line})");
                }
                self.ended = Some(why);
                let pod = stage.name.clone();
                return Err(StreamEnded { pod, fault });
            }
            for (call, of) in batch.calls.iter().zip(&self.of) {
                if self.answers[*of] == 0 {
                    self.answers[*of] = call.answer;
                }
            }
        }
        batch.cycles = cycles;
        for emitted in &mut batch.emitted {
            emitted.call = self.of[emitted.call];
        }
        Ok(())
    }

    /// What a pod has emitted becomes the calls of the next one.
    fn hand_on(&mut self, batch: &mut Batch) {
        self.next.clear(batch.now);
        let mut of = Vec::with_capacity(batch.emitted.len());
        let mut emitted = batch.emitted.iter().peekable();
        for (at, call) in batch.calls.iter().enumerate() {
            // All but the end hold of each piece of it.
            let flags = call.argument & !END;
            while let Some(piece) = emitted.next_if(|piece| piece.call <= at) {
                let bytes = &batch.emitted_bytes[piece.bytes.clone()];
                self.next.push(Entry::Stream, flags, bytes);
                of.push(self.of[at]);
            }
            if call.argument & END != 0 {
                self.next.push(Entry::Stream, call.argument, &[]);
                of.push(self.of[at]);
            }
        }
        self.of = of;
        swap(batch, &mut self.next);
    }
}

/// All units leave as they have come.
fn pass(batch: &mut Batch) {
    for (at, call) in batch.calls.iter().enumerate() {
        if call.bytes.is_empty() {
            continue;
        }
        let start = batch.emitted_bytes.len();
        batch
            .emitted_bytes
            .extend_from_slice(&batch.bytes[call.bytes.clone()]);
        batch.emitted.push(crate::Emitted {
            call: at,
            output: 0,
            bytes: start..batch.emitted_bytes.len(),
        });
    }
}
