//! A value that threads can share because none can look at it: access takes a unique reference.
//!
//! axum, axum-core and tower use [`SyncWrapper`] of the crate `sync_wrapper`, which is Apache-2.0 only.
//! docs/design/licences.md tells why the same executable may not have it. This one has the same
//! interface, as far as they use it, and stands in its place by `[patch]` in the workspace's manifest.

use std::fmt;
use std::pin::Pin;

/// Is `Sync` whatever `T` is: a shared reference to it gives no access to the value.
#[derive(Default)]
pub struct SyncWrapper<T>(T);

// SAFETY: no method takes `&self` but `Debug`'s, which does not look at the value. So threads that share
// a reference to the wrapper can do nothing with the value.
unsafe impl<T> Sync for SyncWrapper<T> {}

impl<T> SyncWrapper<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        SyncWrapper(value)
    }

    /// The value, reached through a unique borrow of the wrapper.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// The same of a wrapper that does not move any more.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut T> {
        // SAFETY: the value is pinned with the wrapper: `get_mut` takes a wrapper that may move, and
        // there is no `Drop` that moves the value.
        unsafe { self.map_unchecked_mut(|wrapper| &mut wrapper.0) }
    }

    /// The value again.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for SyncWrapper<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("SyncWrapper")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;

    use super::*;

    fn shared_by_threads<T: Sync>(value: T) -> T {
        value
    }

    #[test]
    fn what_is_not_sync_can_be_wrapped() {
        let mut wrapper = shared_by_threads(SyncWrapper::new(Cell::new(1)));
        wrapper.get_mut().set(2);
        assert_eq!(wrapper.into_inner().get(), 2);
        let mut pinned = pin!(SyncWrapper::new(3));
        *pinned.as_mut().get_pin_mut() += 1;
        assert_eq!(*pinned.as_mut().get_pin_mut(), 4);
    }
}
