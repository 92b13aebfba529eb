//! Models of what a program's thread and the worker do to a ring at once: loom tries every order of
//! their steps that the memory model allows. Run by `.ci/models`; empty otherwise.
#![cfg(loom)]

use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

use loom::sync::atomic::Ordering;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use vink_ring::{Edges, Request, SharedRing};

const SLOT: usize = 1;
const REQUEST: Request = Request {
    nr: libc::SYS_sendto,
    fd: 7,
    flags: 0,
    len: 3,
};
const IN: u32 = libc::EPOLLIN as u32;

/// Explores a model; it must have had several executions, or it models nothing.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    loom::model(move || {
        counted.fetch_add(1, StdOrdering::Relaxed);
        model();
    });
    let executions = executions.load(StdOrdering::Relaxed);
    assert!(executions > 1, "{executions} executions");
}

fn ring() -> Arc<SharedRing> {
    let ring = SharedRing::default();
    ring.set_polling(true);
    Arc::new(ring)
}

/// A thread of the program's. The worker is the model's main thread: loom explores no order in which
/// another thread's load comes before a store if the storing thread has loaded the same word just
/// before, unless that one is the first to run.
fn spawn<T: 'static>(
    ring: &Arc<SharedRing>,
    job: impl FnOnce(&SharedRing) -> T + 'static,
) -> JoinHandle<T> {
    let ring = ring.clone();
    thread::spawn(move || job(&ring))
}

/// The worker's way into sleep: nothing is left when it is over.
fn serve_and_sleep(ring: &SharedRing, mut serve: impl FnMut()) {
    loop {
        serve();
        ring.set_polling(false);
        if ring.is_empty() {
            return;
        }
        ring.set_polling(true);
    }
}

#[test]
fn a_request_is_served_once_or_was_never_made() {
    explore(|| {
        let ring = ring();
        let program = spawn(&ring, |ring| {
            let slot = &ring.slots[SLOT];
            slot.write(REQUEST);
            // The thread looks once, and then gives up.
            let is_posted = ring.post(SLOT) && (slot.answer().is_some() || !ring.take(SLOT));
            if is_posted {
                assert_eq!(slot.wait(), 3);
            }
            is_posted
        });
        let mut served = 0;
        serve_and_sleep(&ring, || {
            if ring.take(SLOT) {
                assert_eq!(ring.slots[SLOT].read(), REQUEST);
                served += 1;
                ring.slots[SLOT].set_answer(3);
            }
        });
        assert_eq!(served, u32::from(program.join().unwrap()));
        assert!(ring.is_empty());
    });
}

#[test]
fn a_deferred_send_is_made_before_the_worker_sleeps_or_its_thread_knows() {
    explore(|| {
        let ring = ring();
        let program = spawn(&ring, |ring| {
            let sends = &ring.slots[SLOT].deferred_sends;
            let mut seen = Vec::new();
            for fd in [4, 5] {
                let send = sends.free().expect("there is room for two");
                send.set_header(fd, 0, 1);
                sends.push();
                if !ring.post_deferred(SLOT) {
                    // The thread makes a trapped call, before which the worker sends, and makes it again if a signal
                    // interrupts it: the worker may be sending already.
                    break;
                }
                seen.push(fd);
            }
            seen
        });
        let sends = &ring.slots[SLOT].deferred_sends;
        let mut sent = Vec::new();
        serve_and_sleep(&ring, || {
            ring.deferred.0.fetch_and(!(1 << SLOT), Ordering::SeqCst);
            if let Some(send) = sends.first() {
                sent.push(send.read().0);
                sends.pop();
            }
            if sends.first().is_some() {
                ring.deferred.0.fetch_or(1 << SLOT, Ordering::SeqCst);
            }
        });
        let seen = program.join().unwrap();
        assert!(sent.starts_with(&seen), "{seen:?} is to be in {sent:?}");
        // The trapped call of the thread that was told.
        while let Some(send) = sends.first() {
            sent.push(send.read().0);
            sends.pop();
        }
        assert!(sent == [4] || sent == [4, 5], "{sent:?}");
        assert!(sent.len() <= seen.len() + 1);
    });
}

#[test]
fn credit_is_taken_once_and_not_after_a_trapped_call() {
    explore(|| {
        let ring = ring();
        ring.readiness[0].publish_credit(0, 100);
        let take = |ring: &SharedRing| {
            let seq = ring.syscall_seq.load(Ordering::Acquire);
            ring.readiness[0].take_credit(seq, 60)
        };
        let threads = [spawn(&ring, take), spawn(&ring, take)];
        ring.syscall_seq.fetch_add(1, Ordering::AcqRel);
        let taken = threads.map(|thread| thread.join().unwrap());
        assert_ne!(taken, [true, true]);
        assert!(!take(&ring));
    });
}

#[test]
fn readiness_that_an_answered_call_has_caused_is_seen_after_the_wait() {
    explore(|| {
        let ring = ring();
        ring.slots[SLOT].write(REQUEST);
        let program = spawn(&ring, |ring| {
            let is_answered = ring.slots[SLOT].answer().is_some();
            if is_answered && ring.wait_published() {
                assert_eq!(ring.readiness[0].read().events, Some(IN));
            }
        });
        ring.publish_pending.0.store(1, Ordering::SeqCst);
        ring.slots[SLOT].set_answer(0);
        ring.readiness[0].publish(IN, IN, false);
        ring.publish_pending.0.store(0, Ordering::SeqCst);
        program.join().unwrap();
    });
}

#[test]
fn events_are_no_older_than_the_edges_read_with_them() {
    explore(|| {
        let ring = ring();
        let program = spawn(&ring, |ring| {
            let readiness = ring.readiness[0].read();
            if readiness.edges.has_any_since(Edges::FIRST, IN) {
                assert_eq!(readiness.events, Some(IN));
            }
        });
        ring.readiness[0].publish(IN, IN, false);
        program.join().unwrap();
    });
}

#[test]
fn a_thread_that_polls_on_the_host_misses_no_readiness() {
    explore(|| {
        let ring = ring();
        let program = spawn(&ring, |ring| {
            ring.host_waiters.fetch_add(1, Ordering::SeqCst);
            let slot = &ring.slots[SLOT];
            slot.write(Request::FLUSH);
            if ring.post(SLOT) {
                slot.wait();
            }
            // It polls on the host now.
        });
        let mut is_served = false;
        let mut serve = |is_stale: &mut bool| {
            if ring.take(SLOT) {
                (*is_stale, is_served) = (false, true);
                ring.slots[SLOT].set_answer(0);
            }
            is_served
        };
        serve(&mut false);
        // The stream becomes ready: its placeholder may be stale if no thread polls on the host.
        ring.readiness[0].publish(IN, IN, false);
        let mut is_stale = ring.host_waiters.load(Ordering::SeqCst) == 0;
        while !serve(&mut is_stale) {
            thread::yield_now();
        }
        assert!(!is_stale);
        program.join().unwrap();
    });
}
