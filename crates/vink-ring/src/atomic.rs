//! The atomics of the ring, and sizes: the machine's, or loom's, small enough for a model to try all
//! orders of what two threads do (tests/models.rs).

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicU8, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicU8, Ordering},
};

/// The first size on a machine, the second one in a model.
pub(crate) const fn sized(real: usize, model: usize) -> usize {
    if cfg!(loom) {
        model
    } else {
        real
    }
}
