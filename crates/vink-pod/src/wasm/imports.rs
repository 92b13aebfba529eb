//! What a module can call: `pod.h`'s functions, and those of WASI that say no.
//!
//! wasi-libc calls WASI where a program would make system calls. There is nothing behind it here but
//! the pod's log, for what it prints. A module whose libc may call what has no answer is refused.

use wasmtime::{Caller, ExternType, FuncType, Linker, Module, Trap, Val};

use super::{Emitted, Fault, State, FUEL_PER_CALL, FUEL_PER_VECTOR};
use crate::batch::lines;
use crate::{Batch, COUNTERS};

const WASI: &str = "wasi_snapshot_preview1";
/// `EBADF` and `ENOSYS` of WASI.
const EBADF: i32 = 8;
const ENOSYS: i32 = 52;

/// A pod's state while it calls, and its memory.
struct Call<'a> {
    memory: &'a mut [u8],
    state: &'a mut State,
}

impl<'a> Call<'a> {
    #[inline]
    fn new(caller: &'a mut Caller<'_, State>) -> wasmtime::Result<Call<'a>> {
        charge(caller, FUEL_PER_CALL)?;
        let Some(memory) = caller.data().memory else {
            // Its memory is known once it has started.
            let why = "called Vink before it was started".to_owned();
            caller.data_mut().fault = Some(Fault::Code(why));
            return Err(wasmtime::Error::msg("the pod is ended"));
        };
        let (memory, state) = memory.data_and_store_mut(caller);
        Ok(Call { memory, state })
    }

    /// The batch, while one is crossing: not in a constructor.
    #[inline]
    fn batch(&mut self) -> Option<&mut Batch> {
        // SAFETY: not null while `Live::make()` waits for the module, which does not use it
        // meanwhile; and one call of Vink's is made at a time.
        unsafe { self.state.batch.as_mut() }
    }

    #[cold]
    fn ends(&mut self, fault: Fault) -> wasmtime::Error {
        self.state.fault = Some(fault);
        wasmtime::Error::msg("the pod is ended")
    }

    /// Where so many bytes are in the module's memory.
    #[inline]
    fn bytes(
        &mut self,
        function: &'static str,
        at: u32,
        len: u32,
    ) -> wasmtime::Result<std::ops::Range<usize>> {
        let bytes = at as usize..at as usize + len as usize;
        match bytes.end > self.memory.len() || (at == 0 && len > 0) {
            true => Err(self.ends(Fault::Argument(function))),
            false => Ok(bytes),
        }
    }

    /// What was said is as much as may be, or too much.
    #[inline]
    fn taken(&mut self, taken: Option<()>) -> wasmtime::Result<()> {
        match taken {
            Some(()) => Ok(()),
            None => {
                let limit = self.state.limits.emit;
                Err(self.ends(Fault::Emit(limit)))
            }
        }
    }
}

/// Takes so much fuel, if time is fuel: what the host does for a module is its time, too, and in a
/// loop of calls most of it.
#[inline]
fn charge(caller: &mut Caller<'_, State>, fuel: u64) -> wasmtime::Result<()> {
    if !caller.data().repeats {
        return Ok(());
    }
    let left = caller.get_fuel()?.checked_sub(fuel);
    caller.set_fuel(left.unwrap_or(0))?;
    left.map(drop).ok_or_else(|| Trap::OutOfFuel.into())
}

/// Links what the module imports.
///
/// # Errors
/// A sentence: an import that is not there.
pub fn link(linker: &mut Linker<State>, module: &Module) -> Result<(), String> {
    own(linker).map_err(|error| super::words(&error))?;
    for import in module.imports() {
        let (place, name) = (import.module(), import.name());
        let ExternType::Func(kind) = import.ty() else {
            return Err(format!("it imports {name} from {place}, which is no function: a pod has a memory and tables of its own (clang does that unless told otherwise)"));
        };
        match place {
            "vink" if ["emit", "log", "now", "count", "timer"].contains(&name) => {}
            "vink" => {
                return Err(format!("it calls {name} of Vink's, which is not in vink/pod.h of this version: compile it with this one"))
            }
            WASI => wasi(linker, name, kind)?,
            _ => {
                return Err(format!("it calls {name} of {place}, which a pod does not have: link a library that has {name}() (clang -l), or leave it out"))
            }
        }
    }
    Ok(())
}

/// `pod.h`'s.
fn own(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap("vink", "emit", emit)?;
    linker.func_wrap("vink", "log", log)?;
    linker.func_wrap("vink", "now", |mut caller: Caller<'_, State>| {
        let mut call = Call::new(&mut caller)?;
        Ok(call.batch().map_or(0, |batch| batch.now))
    })?;
    linker.func_wrap("vink", "count", count)?;
    linker.func_wrap("vink", "timer", |mut caller: Caller<'_, State>, at: u64| {
        let mut call = Call::new(&mut caller)?;
        if let Some(batch) = call.batch() {
            batch.timer = Some(at);
        }
        Ok(())
    })?;
    Ok(())
}

fn emit(mut caller: Caller<'_, State>, output: u32, at: u32, len: u32) -> wasmtime::Result<i32> {
    let mut call = Call::new(&mut caller)?;
    let bytes = call.bytes("vink_emit()", at, len)?;
    let taken = call.state.room.emit(bytes.len());
    call.taken(taken)?;
    let Call { memory, state } = call;
    // SAFETY: as in `Call::batch()`; the memory is the module's.
    let Some(batch) = (unsafe { state.batch.as_mut() }) else {
        return Ok(-1);
    };
    let start = batch.emitted_bytes.len();
    batch.emitted_bytes.extend_from_slice(&memory[bytes]);
    batch.emitted.push(Emitted {
        call: state.call,
        output,
        bytes: start..batch.emitted_bytes.len(),
    });
    Ok(0)
}

fn log(mut caller: Caller<'_, State>, at: u32, len: u32) -> wasmtime::Result<()> {
    let mut call = Call::new(&mut caller)?;
    let bytes = call.bytes("vink_log()", at, len)?;
    let taken = call.state.room.log(&call.memory[bytes.clone()]);
    call.taken(taken)?;
    let Call { memory, state } = call;
    // SAFETY: as in `Call::batch()`; the memory is the module's.
    if let Some(batch) = unsafe { state.batch.as_mut() } {
        batch.log.extend(lines(&memory[bytes]));
    }
    Ok(())
}

fn count(mut caller: Caller<'_, State>, counter: u32, more: i64) -> wasmtime::Result<()> {
    let mut call = Call::new(&mut caller)?;
    if counter as usize >= COUNTERS {
        return Err(call.ends(Fault::Argument("vink_count()")));
    }
    if let Some(batch) = call.batch() {
        let counted = &mut batch.counted[counter as usize];
        *counted = counted.wrapping_add(more);
    }
    Ok(())
}

/// A function of WASI's.
fn wasi(linker: &mut Linker<State>, name: &str, kind: FuncType) -> Result<(), String> {
    let defined = match name {
        "fd_write" => linker.func_wrap(WASI, name, fd_write).map(drop),
        "proc_exit" => linker.func_wrap(WASI, name, proc_exit).map(drop),
        "environ_sizes_get" | "args_sizes_get" => linker.func_wrap(WASI, name, none).map(drop),
        "sched_yield" | "environ_get" | "args_get" => says(linker, name, kind, 0),
        "clock_time_get" | "clock_res_get" | "random_get" | "poll_oneoff" => {
            says(linker, name, kind, ENOSYS)
        }
        _ if name.starts_with("fd_") || name.starts_with("path_") => {
            says(linker, name, kind, EBADF)
        }
        _ => {
            return Err(format!(
                "it calls {name} of {WASI}, which a pod does not have: leave out what calls it"
            ))
        }
    };
    defined.map_err(|error| super::words(&error))
}

/// A function that always says this.
fn says(
    linker: &mut Linker<State>,
    name: &str,
    kind: FuncType,
    answer: i32,
) -> wasmtime::Result<()> {
    let made = linker.func_new(WASI, name, kind, move |mut caller, _, results| {
        charge(&mut caller, FUEL_PER_CALL)?;
        if let [result] = results {
            *result = Val::I32(answer);
        }
        Ok(())
    });
    made.map(drop)
}

/// No arguments, and no environment.
fn none(mut caller: Caller<'_, State>, count: u32, size: u32) -> wasmtime::Result<i32> {
    let call = Call::new(&mut caller)?;
    for at in [count, size] {
        if let Some(place) = call.memory.get_mut(at as usize..at as usize + 4) {
            place.fill(0);
        }
    }
    Ok(0)
}

/// What is printed is a line of the log.
fn fd_write(
    mut caller: Caller<'_, State>,
    fd: i32,
    vectors: u32,
    count: u32,
    written: u32,
) -> wasmtime::Result<i32> {
    charge(&mut caller, u64::from(count) * FUEL_PER_VECTOR)?;
    let mut call = Call::new(&mut caller)?;
    if !(1..=2).contains(&fd) {
        return Ok(EBADF);
    }
    let number = |call: &Call<'_>, at: usize| {
        let bytes = call.memory.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let mut text = Vec::new();
    let mut end = vectors as usize;
    for _ in 0..count {
        let (Some(at), Some(len)) = (number(&call, end), number(&call, end + 4)) else {
            return Err(call.ends(Fault::Argument("fd_write()")));
        };
        let bytes = call.bytes("fd_write()", at, len)?;
        let taken = call.state.room.log(&call.memory[bytes.clone()]);
        call.taken(taken)?;
        text.extend_from_slice(&call.memory[bytes]);
        end += 8;
    }
    if let Some(place) = call.memory.get_mut(written as usize..written as usize + 4) {
        place.copy_from_slice(&(text.len() as u32).to_le_bytes());
    }
    if let Some(batch) = call.batch() {
        batch.log.extend(lines(&text));
    }
    Ok(0)
}

fn proc_exit(mut caller: Caller<'_, State>, status: i32) -> wasmtime::Result<()> {
    Err(Call::new(&mut caller)?.ends(Fault::Code(format!("called exit({status})"))))
}
