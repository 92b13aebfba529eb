//! A pod's file becomes a pod: which wall, and its first crossing.

use std::path::Path;

use crate::{key, none, process, wasm, Batch, Entry, Limits, LoadError, Pod, Wall};

/// A pod to be loaded.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// Its file: a shared object, or a WebAssembly module (`.wasm`).
    pub file: &'a Path,
    /// What `pod_init()` gets.
    pub config: &'a [u8],
    /// What it may use.
    pub limits: Limits,
    /// The wall; `None`: the one for the file.
    pub wall: Option<Wall>,
    /// The lab's clock, ns.
    pub now: u64,
    /// It lives by a virtual clock: what it may use must not depend on the host's time.
    pub repeats: bool,
}

/// A pod, and what it said in `pod_init()`: its log, its counters and its timer.
pub type Loaded = (Box<dyn Pod>, Batch);

/// Loads a pod behind a wall, and initialises it.
///
/// # Errors
/// [`LoadError`].
pub fn load(source: &Source<'_>) -> Result<Loaded, LoadError> {
    let is_module = source.file.extension().is_some_and(|ext| ext == "wasm");
    let wall = source.wall.unwrap_or(match is_module {
        true => Wall::Wasm,
        false => Wall::Process,
    });
    match wall {
        Wall::Wasm => wasm::load(source),
        Wall::None | Wall::Process | Wall::Key if is_module => Err(LoadError::File {
            path: source.file.to_owned(),
            why: format!("the {wall} wall takes shared objects, and this is a module: cc -shared -fPIC makes one of the pod's source"),
        }),
        Wall::None => none::load(source),
        Wall::Process => process::load(source),
        Wall::Key => key::load(source),
    }
}

/// For the walls: calls `pod_init()`.
///
/// # Errors
/// [`LoadError::Init`].
pub fn initialised(mut pod: Box<dyn Pod>, source: &Source<'_>) -> Result<Loaded, LoadError> {
    let mut batch = Batch::default();
    batch.clear(source.now);
    batch.push(Entry::Init, 0, source.config);
    match pod.cross(&mut batch) {
        Ok(()) => Ok((pod, batch)),
        Err(fault) => Err(LoadError::Init {
            path: source.file.to_owned(),
            fault,
        }),
    }
}

/// The processor's time stamp counter.
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}
