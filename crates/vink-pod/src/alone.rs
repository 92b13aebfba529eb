//! What a process with pods behind the key wall must not have: code that came later.
//!
//! The key wall looks at all code of the process when it loads a pod. Code that another wall adds, and
//! that a pod of its own had a say in, could be what opens it. So one process has the one or the other.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use crate::Wall;

const KEY: u8 = 1;
const OTHER: u8 = 2;

static FIRST: AtomicU8 = AtomicU8::new(0);

/// A pod is about to be loaded behind this wall, into this process.
///
/// # Errors
/// A sentence: there are such behind another wall.
pub(crate) fn enter(wall: Wall) -> Result<(), String> {
    let own = match wall {
        Wall::Key => KEY,
        _ => OTHER,
    };
    match FIRST.compare_exchange(0, own, SeqCst, SeqCst) {
        Err(first) if first != own => Err(match first {
            KEY => format!("this worker has pods behind the key wall, and the {wall} wall would add code to it that they could use"),
            _ => "this worker has code of pods behind other walls, which pods behind the key wall could use".to_owned(),
        }),
        _ => Ok(()),
    }
}
