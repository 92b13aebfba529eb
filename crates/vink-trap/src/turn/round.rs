//! Rounds: threads of different machines have the turn at once, so that they compute on all processors.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use vink_kernel::MachineId;

use super::{Ready, Turn, QUOTA};
use crate::worker::Worker;
use crate::Error;

/// How many may have the turn at once. Runs repeat, so it does not depend on the number of processors.
const WIDTH: usize = 32;

/// How many of the line are looked at for that.
const MOST_LOOKED_AT: usize = 4 * WIDTH;

/// Somebody who has the turn.
#[derive(Debug)]
struct Holder {
    tid: i32,
    machine: MachineId,
    /// Calls that it has made in a row.
    row: u32,
    /// Its last call makes a thread (true) or a process (false).
    forks: Option<bool>,
}

/// Who has the turn, or is about to have it before anything else is decided.
#[derive(Default)]
pub(super) struct Round {
    holders: Vec<Holder>,
    waiting: VecDeque<Ready>,
    /// Threads and processes that were made, with the places of who made them.
    born: Vec<(usize, i32)>,
    /// Processes and programs whose ends are known, but not taken in.
    dead: Vec<i32>,
    hung_up: Vec<usize>,
    /// Threads whose pipes have become ready (splice(2)).
    piped: Vec<i32>,
}

impl Round {
    /// Who is to be given the turn now, unless turns are held back.
    pub(super) fn next(&mut self, held: bool) -> Option<Ready> {
        match held {
            true => None,
            false => self.waiting.pop_front(),
        }
    }

    /// Somebody waits for the turn of this round.
    pub(super) fn has_begun(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Which of those who have the turn the thread is.
    pub(super) fn place_of(&self, tid: i32) -> Option<usize> {
        self.holders.iter().position(|holder| holder.tid == tid)
    }

    /// Whether this one may have the next turn, too, although others wait.
    pub(super) fn may_keep(&mut self, place: usize) -> bool {
        let holder = &mut self.holders[place];
        if holder.row < QUOTA {
            return true;
        }
        holder.row = 0;
        false
    }

    /// Others come before the thread's next turn.
    pub(super) fn use_up(&mut self, tid: i32) {
        for holder in self.holders.iter_mut().filter(|h| h.tid == tid) {
            holder.row = QUOTA;
        }
    }

    /// The turn is another thread's now.
    pub(super) fn rename(&mut self, from: i32, to: i32) {
        for holder in self.holders.iter_mut().filter(|h| h.tid == from) {
            holder.tid = to;
        }
    }

    /// The thread has not the turn any more.
    pub(super) fn leave(&mut self, tid: i32) {
        self.holders.retain(|holder| holder.tid != tid);
    }

    /// The thread is gone.
    pub(super) fn forget(&mut self, tid: i32) {
        self.waiting.retain(|ready| ready.tid() != tid);
        self.rename(tid, 0);
    }

    /// The thread's call makes a thread, or a process.
    pub(super) fn expect_birth(&mut self, tid: i32, thread: bool) {
        for holder in self.holders.iter_mut().filter(|h| h.tid == tid) {
            holder.forks = Some(thread);
        }
    }

    /// What the thread's call was to make, if nobody has asked that before.
    pub(super) fn take_birth(&mut self, tid: i32) -> Option<bool> {
        let mut holders = self.holders.iter_mut();
        holders.find(|holder| holder.tid == tid)?.forks.take()
    }

    /// Those whose calls make somebody.
    pub(super) fn parents(&self) -> Vec<i32> {
        let parents = self.holders.iter().filter(|holder| holder.forks.is_some());
        parents.map(|holder| holder.tid).collect()
    }

    /// This thread was made.
    pub(super) fn note_born(&mut self, parent: i32, child: i32) {
        let place = self.place_of(parent).unwrap_or(usize::MAX);
        self.born.push((place, child));
    }

    /// Ends the round: these have the turn next.
    fn begin(&mut self, chosen: VecDeque<Ready>, machines: &[MachineId]) {
        let before = std::mem::take(&mut self.holders);
        for (ready, machine) in chosen.iter().zip(machines) {
            let tid = ready.tid();
            let row = before.iter().find(|holder| holder.tid == tid);
            self.holders.push(Holder {
                tid,
                machine: *machine,
                row: row.map_or(0, |holder| holder.row) + 1,
                forks: None,
            });
        }
        self.waiting = chosen;
    }
}

impl Turn {
    /// Those who were made in this round get their places in the order of creation.
    pub(super) fn name_born(&mut self) {
        let mut born = std::mem::take(&mut self.round.born);
        born.sort_by_key(|(place, _)| *place);
        for (_, tid) in born {
            self.serial(tid);
        }
    }
}

impl Worker {
    /// Nobody is out: takes those who have the turn next out of the line. False: there is nobody.
    pub(super) fn begin_round(&mut self) -> Result<bool, Error> {
        let turn = self.turn.as_mut().expect("virtual time");
        let Some(first) = turn.next() else {
            turn.round.begin(VecDeque::new(), &[]);
            return Ok(false);
        };
        let tid = first.tid();
        let machine = self.machine_of(&first);
        let shares = self.waits_beside(machine) && self.may_share(tid);
        let goes_along = shares && self.goes_along(&first);
        let mut machines = vec![machine];
        let mut chosen = VecDeque::from([first]);
        if goes_along {
            self.find_company(&mut chosen, &mut machines);
        }
        let near = chosen.len() == 1;
        for ready in &chosen {
            if let Some(listener) = &self.trees[self.program_of(ready)].listener {
                listener.wake_near(near);
            }
        }
        let turn = self.turn.as_mut().expect("virtual time");
        turn.round.begin(chosen, &machines);
        if shares && !goes_along {
            // Those who wait behind it are done with such a call, too, before they go on together.
            turn.round.use_up(tid);
        }
        Ok(true)
    }

    /// Takes those out of the line who may have the turn beside the first one.
    fn find_company(&mut self, chosen: &mut VecDeque<Ready>, machines: &mut Vec<MachineId>) {
        let mut index = 0;
        for _ in 0..MOST_LOOKED_AT {
            let turn = self.turn.as_mut().expect("virtual time");
            let Some(ready) = turn.line.remove(index) else {
                return;
            };
            let machine = self.machine_of(&ready);
            let is_other = !machines.contains(&machine);
            if is_other && self.may_share(ready.tid()) && self.goes_along(&ready) {
                machines.push(machine);
                chosen.push_back(ready);
                if chosen.len() == WIDTH {
                    return;
                }
            } else {
                let turn = self.turn.as_mut().expect("virtual time");
                turn.line.insert(index, ready);
                index += 1;
            }
        }
    }

    /// Whether somebody on another machine is among the first of the line.
    fn waits_beside(&self, machine: MachineId) -> bool {
        let turn = self.turn.as_ref().expect("virtual time");
        let mut first = turn.line.iter().take(MOST_LOOKED_AT);
        first.any(|ready| self.machine_of(ready) != machine)
    }

    /// The machine whose programs it is of, wherever among networks it has gone.
    pub(super) fn machine_of(&self, ready: &Ready) -> MachineId {
        self.trees[self.program_of(ready)].machine
    }

    /// The same of a process.
    pub(super) fn machine_of_process(&self, pid: i32) -> MachineId {
        self.trees[self.processes[&pid].program].machine
    }

    fn program_of(&self, ready: &Ready) -> usize {
        match ready {
            Ready::Heard(program, _) => *program,
            _ => self.processes[&self.threads[&ready.tid()].pid].program,
        }
    }

    /// Whether anybody may have the turn beside others now. Where time passes with calls, or by the host's clock, or somebody goes on in
    /// the host by himself, or programs do what they may do untrapped since they are out alone (`free`), one thread at a time has
    /// it.
    fn may_share(&self, tid: i32) -> bool {
        let turn = self.turn.as_ref().expect("virtual time");
        turn.counter.is_none()
            && turn.how.charge.call.is_zero()
            && turn.inside.is_empty()
            && turn.astray.limit().is_none()
            && !turn.parents.has_stopped()
            && !turn.mingled.all()
            && self.carrier.is_none()
            && self.mail.is_none()
            && !turn.is_restless(tid, MOST_LOOKED_AT as u64)
    }

    /// Of several threads those first that are on the machine of whoever has had the turn first; those of one machine stay in their
    /// order.
    pub(super) fn sort_by_round<T>(&self, all: &mut [T], tid: impl Fn(&T) -> i32) {
        let turn = self.turn.as_ref().expect("virtual time");
        all.sort_by_key(|one| {
            let pid = self.threads.get(&tid(one)).map(|thread| thread.pid);
            let machine = pid.map(|pid| self.machine_of_process(pid));
            let mut holders = turn.round.holders.iter();
            let place = holders.position(|holder| Some(holder.machine) == machine);
            place.unwrap_or(usize::MAX)
        });
    }

    /// A process has ended. True: that is to be taken in when nobody is out, in an order that does not depend on when it was
    /// told.
    pub(crate) fn put_off_end(&mut self, pid: i32) -> bool {
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.out.is_empty()) else {
            return false;
        };
        turn.out.retain(|out| out.pid != pid);
        turn.round.dead.push(pid);
        if let Some(process) = self.processes.get(&pid) {
            self.neglect(process.pidfd.as_raw_fd());
        }
        true
    }

    /// The same of a pipe that a thread waits for.
    pub(crate) fn put_off_pipe(&mut self, tid: i32) -> bool {
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.out.is_empty()) else {
            return false;
        };
        turn.round.piped.push(tid);
        true
    }

    /// The same of a program's last process.
    pub(crate) fn put_off_hang_up(&mut self, id: usize) -> bool {
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.out.is_empty()) else {
            return false;
        };
        turn.round.hung_up.push(id);
        true
    }

    /// Nobody is out: takes in what was put off.
    pub(super) fn take_in_ends(&mut self) -> Result<(), Error> {
        let turn = self.turn.as_mut().expect("virtual time");
        let round = &turn.round;
        if round.dead.is_empty() && round.hung_up.is_empty() && round.piped.is_empty() {
            return Ok(());
        }
        turn.name_born();
        let mut piped = std::mem::take(&mut turn.round.piped);
        let mut dead = std::mem::take(&mut turn.round.dead);
        dead.sort_by_key(|pid| (turn.serials.get(pid).copied().unwrap_or(u64::MAX), *pid));
        for pid in dead {
            self.died(pid)?;
            self.settle()?;
        }
        let turn = self.turn.as_mut().expect("virtual time");
        let mut hung_up = std::mem::take(&mut turn.round.hung_up);
        hung_up.sort_unstable();
        for id in hung_up {
            self.hang_up(id);
        }
        self.sort_by_round(&mut piped, |tid| *tid);
        for tid in piped {
            self.pipe_is_ready(tid);
        }
        Ok(())
    }
}
