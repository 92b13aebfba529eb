//! A worker without programs, such as a switch, spins for other processes' frames before it sleeps: being
//! woken costs it, and the process that wakes it, more than a frame does.
//!
//! It spins only while frames come often, and lets other threads run on its processor meanwhile. Once one
//! has run in vain, that processor is wanted: it backs off, and sleeps at once for some times. Beside a
//! thread that computes it does not begin to spin.

use vink_kernel::monotonic;
use vink_sys::give_way::GiveWay;

/// For how long at most, in ns.
const MOST: u64 = 50_000;
/// A sleep that lasts longer, in ns, says that frames come seldom.
const SELDOM: u64 = 200_000;
/// Looks at memory before others may run on the processor, and before descriptors are looked at.
const LOOKS_PER_YIELD: u32 = 8;
const LOOKS_PER_POLL: u32 = 64;
/// So many times it sleeps at once when it has given its processor away in vain.
const BACKOFF: u32 = 16;

/// What a worker knows of the frames that it waits for.
#[derive(Default)]
pub(crate) struct WireSpin {
    /// When it last began to sleep, in ns of `CLOCK_MONOTONIC`.
    slept: u64,
    /// It has not slept for long.
    is_busy: bool,
    /// How many times it is to sleep at once yet.
    backoff: u32,
    others: GiveWay,
}

impl WireSpin {
    /// Looks for frames for a while, if that is worth it: until there are some, until a descriptor is
    /// ready, or until `due`.
    pub(crate) fn spin(
        &mut self,
        due: u64,
        has_frames: impl Fn() -> bool,
        is_ready: impl Fn() -> bool,
    ) {
        let gives_way = |others: &GiveWay| others.give_way(monotonic);
        self.spin_and(due, has_frames, is_ready, gives_way);
    }

    /// The same; whether another thread has run when this one gives way.
    fn spin_and(
        &mut self,
        due: u64,
        has_frames: impl Fn() -> bool,
        is_ready: impl Fn() -> bool,
        gives_way: impl Fn(&GiveWay) -> bool,
    ) {
        let begun = monotonic();
        self.slept = begun;
        if !self.is_busy || !self.others.may(begun) {
            return;
        }
        if self.backoff > 0 {
            self.backoff -= 1;
            return;
        }
        let until = due.min(begun + MOST);
        for look in 1.. {
            if has_frames() || self.slept >= until {
                break;
            }
            if look % LOOKS_PER_POLL == 0 && is_ready() {
                break;
            }
            let others_ran = look % LOOKS_PER_YIELD == 0 && gives_way(&self.others);
            std::hint::spin_loop();
            self.slept = monotonic();
            if others_ran {
                if !has_frames() {
                    self.backoff = BACKOFF;
                }
                break;
            }
        }
    }

    /// It has slept, if it had to.
    pub(crate) fn woken(&mut self) {
        self.is_busy = monotonic() < self.slept + SELDOM;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How often the memory and the descriptors were looked at, if both have something at these looks.
    fn looks(spin: &mut WireSpin, due: u64, frames: u32, ready: u32) -> (u32, u32) {
        let (memory, descriptors) = (Cell::new(0), Cell::new(0));
        let next = |count: &Cell<u32>| {
            count.set(count.get() + 1);
            count.get()
        };
        spin.spin(
            due,
            || next(&memory) >= frames,
            || next(&descriptors) >= ready,
        );
        (memory.get(), descriptors.get())
    }

    /// One that has just been woken for a frame.
    fn busy() -> WireSpin {
        WireSpin {
            slept: u64::MAX - SELDOM,
            is_busy: true,
            ..WireSpin::default()
        }
    }

    #[test]
    fn a_worker_spins_while_frames_come_often() {
        let (never, none) = (u32::MAX, u64::MAX);
        assert_eq!(looks(&mut WireSpin::default(), none, never, never), (0, 0));
        assert_eq!(looks(&mut busy(), none, 1, never), (1, 0), "at once");
        assert_eq!(looks(&mut busy(), 0, never, never), (1, 0), "a timer");
        let (memory, descriptors) = looks(&mut busy(), none, never, never);
        assert!(memory > 0 && descriptors <= memory / LOOKS_PER_POLL);
        let mut spin = busy();
        spin.woken();
        assert!(spin.is_busy);
        spin.slept = monotonic() - SELDOM;
        spin.woken();
        assert!(!spin.is_busy);
    }

    #[test]
    fn it_sleeps_at_once_while_it_backs_off() {
        let (never, none) = (u32::MAX, u64::MAX);
        let mut spin = WireSpin {
            backoff: 2,
            ..busy()
        };
        assert_eq!(looks(&mut spin, none, never, never), (0, 0));
        assert_eq!(looks(&mut spin, none, never, never), (0, 0));
        assert_eq!(looks(&mut spin, none, 1, never), (1, 0));
        // Another thread runs at the first yield, and no frame comes.
        let mut spin = busy();
        spin.spin_and(none, || false, || false, |_| true);
        assert_eq!(spin.backoff, BACKOFF);
        let frames = Cell::new(0);
        let mut spin = busy();
        let comes = || frames.replace(frames.get() + 1) == LOOKS_PER_YIELD;
        spin.spin_and(none, comes, || false, |_| true);
        assert_eq!(spin.backoff, 0, "a frame has come meanwhile");
    }
}
