//! What a process with pods behind the key wall must not have: code that opens keys.
//!
//! The key wall looks at all code of the process when it loads a pod. Code without a wall, which comes
//! later, can have anything in it. A module's compiled code is looked at when it comes, and mostly has
//! nothing: then it may be there. So one process has pods behind keys, or code that may open them.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use crate::Wall;

const KEY: u8 = 1;
const OTHER: u8 = 2;

static FIRST: AtomicU8 = AtomicU8::new(0);

/// A pod behind the key wall is about to be loaded into this process, or code of another wall's that may
/// open keys.
///
/// # Errors
/// A sentence: there is the other one.
pub(crate) fn enter(wall: Wall) -> Result<(), String> {
    let own = match wall {
        Wall::Key => KEY,
        _ => OTHER,
    };
    match FIRST.compare_exchange(0, own, SeqCst, SeqCst) {
        Err(first) if first != own => Err(match first {
            KEY => format!("this worker has pods behind the key wall, which could use code of the {wall} wall"),
            _ => "this worker has code that pods behind the key wall could use: of a pod without a wall, or of a module that has the bytes of WRPKRU or XRSTOR by chance".to_owned(),
        }),
        _ => Ok(()),
    }
}
