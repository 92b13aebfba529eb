//! The WebAssembly wall: a pod is a module, which can name nothing but its own memory.
//!
//! Theory of operation: wasmtime compiles the module when it is loaded. The code checks each address
//! against the size of its memory, each indirect call's type, each function's room on the stack, and its
//! time at each loop. A crossing is a call of a function on the worker's own stack. What a call is about is
//! copied into pages that the host has grown the module's memory by; what the module names is checked
//! and copied out. No signal handler is needed: vink-kernel has its own, and the signal of its watchdog
//! would look like a bad address (docs/design/pods.md).
//!
//! Time is the thread's processor time, looked at each millisecond ([`Ticks`]). In a lab that repeats it
//! is fuel, an instruction each, so that it ends at the same instruction in each run. What a crossing
//! takes is counted in it there, too.

mod imports;

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

use object::{Object, ObjectSection, SectionKind};
use vink_sys::rustix::time::{clock_gettime, ClockId};
use wasmtime::{
    Config, Engine, Instance, Linker, Memory, Module, OptLevel, ResourceLimiter, Store, Trap,
    TypedFunc, UpdateDeadline, WasmBacktrace, WasmParams, WasmResults,
};

use crate::calls::{CLOSE, PASS, VERSION};
use crate::key::scan;
use crate::load::{cycles, initialised, Loaded, Source};
use crate::room::Room;
use crate::ticks::{Ticks, TICK};
use crate::{Batch, Emitted, Entry, Fault, Limits, LoadError, Pod, Wall, ROOM};

/// Fuel for a nanosecond of a limit, an instruction each. Compiled code makes 6 to 20 in one, so a limit
/// is somewhat smaller than in real time.
const FUEL_PER_NS: u64 = 4;
/// Fuel for a call of the host's, and for each vector that one looks at: they take time that is no
/// instruction of the module's.
const FUEL_PER_CALL: u64 = 200;
const FUEL_PER_VECTOR: u64 = 20;
/// Fuel does not know how long an instruction takes (`memory.fill` of all memory is one): processor
/// time is looked at as well, and so many times the limit is too much.
const FUEL_GRACE: u32 = 50;
/// Bytes of the caller's stack that a pod may use. Workers' threads have megabytes.
const STACK: usize = 256 << 10;
/// Bytes of address space for a module's memory. It is all that one can have: the memory never moves.
const RESERVED: u64 = 4 << 30;
/// Bytes of a file: compiling takes time, a second for one to two million.
const MOST_CODE: usize = 16 << 20;
/// Bytes of a page.
const PAGE: usize = 64 << 10;
/// What an element of a table takes.
const ELEMENT: usize = 16;

/// Whether time is fuel: an engine for each.
fn engine(repeats: bool) -> &'static Engine {
    static ENGINES: [OnceLock<Engine>; 2] = [const { OnceLock::new() }; 2];
    ENGINES[usize::from(repeats)].get_or_init(|| {
        let mut config = Config::new();
        config
            .signals_based_traps(false)
            .consume_fuel(repeats)
            .epoch_interruption(true)
            .max_wasm_stack(STACK)
            .memory_reservation(RESERVED)
            .memory_reservation_for_growth(0)
            .memory_guard_size(0)
            .memory_may_move(false)
            .memory_init_cow(false)
            .cranelift_opt_level(OptLevel::Speed)
            // The same bits on every processor. Code with floats takes up to four times as long.
            .cranelift_nan_canonicalization(repeats)
            .wasm_relaxed_simd(false)
            .wasm_multi_memory(false)
            .wasm_memory64(false);
        Engine::new(&config).expect("a configuration that holds on x86-64")
    })
}

/// Compiled code compares the engine's epoch with its store's deadline at each function and loop, and
/// calls back where it has passed.
static TICKS: Ticks = Ticks::new();

fn raise_epochs() -> Duration {
    for repeats in [false, true] {
        engine(repeats).increment_epoch();
    }
    TICK
}

/// A pod behind the WebAssembly wall.
struct WasmPod {
    /// `None` once it has ended.
    live: Option<Live>,
}

/// A module that has its memory.
struct Live {
    store: Store<State>,
    memory: Memory,
    /// Fuel for a crossing, if that limits its time.
    fuel: Option<u64>,
    init: Option<TypedFunc<(u32, u32), i32>>,
    packet: Option<TypedFunc<(u32, u32, u32, u32), i32>>,
    stream: Option<TypedFunc<(u32, u32, u32), i32>>,
    timer: Option<TypedFunc<u64, ()>>,
    /// Where the host's pages start in its memory, and how many bytes they are.
    window: usize,
    room: usize,
}

/// What the functions find that a module calls.
struct State {
    /// Null while it is not crossed.
    batch: *mut Batch,
    /// Which call is made.
    call: usize,
    room: Room,
    memory: Option<Memory>,
    limits: Limits,
    /// Bytes of code and tables.
    fixed: usize,
    fault: Option<Fault>,
    /// Processor time of its thread when the crossing was first interrupted.
    since: Option<Duration>,
    /// As much of it is too much.
    time: Duration,
    /// Time is fuel.
    repeats: bool,
}

// SAFETY: `batch` is used during a crossing only, by the thread that crosses.
unsafe impl Send for State {}

/// Loads a module.
///
/// # Errors
/// [`LoadError`].
pub fn load(source: &Source<'_>) -> Result<Loaded, LoadError> {
    TICKS
        .start("pod-ticks", raise_epochs)
        .map_err(|why| LoadError::Host {
            wall: Wall::Wasm,
            why,
        })?;
    let live = Live::new(source).map_err(|problem| match problem {
        Problem::Why(why) => LoadError::File {
            path: source.file.to_owned(),
            why,
        },
        Problem::Version(found) => LoadError::Version {
            path: source.file.to_owned(),
            found,
            expected: VERSION,
        },
    })?;
    initialised(Box::new(WasmPod { live: Some(live) }), source)
}

/// Why a module can't be loaded.
enum Problem {
    Why(String),
    Version(u32),
}

impl From<String> for Problem {
    fn from(why: String) -> Problem {
        Problem::Why(why)
    }
}

impl Live {
    fn new(source: &Source<'_>) -> Result<Live, Problem> {
        let module = compiled(source)?;
        let limits = source.limits.clone();
        let code = module.image_range();
        let state = State {
            batch: null_mut(),
            call: 0,
            room: Room::new(&limits),
            memory: None,
            fixed: code.end as usize - code.start as usize,
            fault: None,
            since: None,
            time: match source.repeats {
                true => limits.time.saturating_mul(FUEL_GRACE),
                false => limits.time,
            },
            repeats: source.repeats,
            limits: limits.clone(),
        };
        let mut store = Store::new(module.engine(), state);
        store.limiter(|state| state);
        store.epoch_deadline_callback(|mut context| Ok(context.data_mut().interrupted()));
        let mut linker = Linker::new(module.engine());
        imports::link(&mut linker, &module)?;
        let linked = linker.instantiate_pre(&module);
        let linked = linked.map_err(|error| format!("it can't be linked: {}", words(&error)))?;

        let time = limits.time.as_nanos() as u64;
        let fuel = source.repeats.then(|| time.saturating_mul(FUEL_PER_NS));
        let ended = |what: &str, fault: Fault| format!("the pod was ended in {what}: it {fault}");
        start(&mut store, fuel);
        let instance = match linked.instantiate(&mut store) {
            Ok(instance) => instance,
            Err(error) => {
                let fault = fault(&mut store, &error);
                return Err(ended("its start function", fault).into());
            }
        };
        let memory = instance.get_memory(&mut store, "memory").ok_or_else(|| {
            "it exports no memory named \"memory\", where its calls' bytes could be: clang exports it, with another linker say so".to_owned()
        })?;
        store.data_mut().memory = Some(memory);
        let mut live = Live {
            memory,
            fuel,
            init: function(&mut store, &instance, "pod_init")?,
            packet: function(&mut store, &instance, "pod_packet")?,
            stream: function(&mut store, &instance, "pod_stream")?,
            timer: function(&mut store, &instance, "pod_timer")?,
            window: 0,
            room: 0,
            store,
        };
        // Constructors; then its malloc() must have seen its memory before the host makes it larger.
        for name in ["_initialize", "pod_prepare"] {
            if let Some(call) = function::<(), ()>(&mut live.store, &instance, name)? {
                live.call(&call, ())
                    .map_err(|fault| ended(&format!("{name}()"), fault))?;
            }
        }
        let version: TypedFunc<(), u32> = function(&mut live.store, &instance, "pod_version")?
            .ok_or_else(|| {
                "it is no pod: it has no pod_version(); write POD(); in it, and export its functions as vink/pod.h does".to_owned()
            })?;
        let found = live
            .call(&version, ())
            .map_err(|fault| ended("pod_version()", fault))?;
        if found != VERSION {
            return Err(Problem::Version(found));
        }
        live.make_room(PAGE)
            .map_err(|fault| ended("being given the page for its calls", fault))?;
        Ok(live)
    }

    /// A call with a crossing's time.
    fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        function: &TypedFunc<P, R>,
        parameters: P,
    ) -> Result<R, Fault> {
        start(&mut self.store, self.fuel);
        let result = function.call(&mut self.store, parameters);
        result.map_err(|error| fault(&mut self.store, &error))
    }

    /// Makes the host's pages in the module's memory at least so large.
    fn make_room(&mut self, len: usize) -> Result<(), Fault> {
        let refused = Fault::Memory(self.store.data().limits.memory);
        let size = self.memory.data_size(&self.store);
        // If the module has not grown it since, they go on.
        let start = match self.window + self.room == size && self.room > 0 {
            true => self.window,
            false => size,
        };
        // Twice as much at least, or it were wasted again and again.
        let room = len.max(2 * self.room).next_multiple_of(PAGE);
        let pages = (start + room - size) / PAGE;
        if self.memory.grow(&mut self.store, pages as u64).is_err() {
            return Err(self.store.data_mut().fault.take().unwrap_or(refused));
        }
        (self.window, self.room) = (start, room);
        Ok(())
    }

    /// Puts bytes into the host's pages, with room behind them: their address.
    #[inline]
    fn put(&mut self, bytes: &[u8], room: usize) -> Result<u32, Fault> {
        if bytes.len() + room > self.room {
            self.make_room(bytes.len() + room)?;
        }
        let memory = self.memory.data_mut(&mut self.store);
        memory[self.window..][..bytes.len()].copy_from_slice(bytes);
        Ok(self.window as u32)
    }

    /// Makes the calls of a batch in order.
    fn make(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        start(&mut self.store, self.fuel);
        let state = self.store.data_mut();
        state.room = Room::new(&state.limits);
        for index in 0..batch.calls.len() {
            let call = &batch.calls[index];
            let (entry, argument) = (call.entry, call.argument);
            let bytes = &batch.bytes[call.bytes.clone()];
            let len = bytes.len() as u32;
            let state = self.store.data_mut();
            state.call = index;
            let result = match entry {
                Entry::Init if self.init.is_some() => {
                    let at = self.put(bytes, 0)?;
                    self.enter(batch);
                    let init = self.init.as_ref().expect("looked at above");
                    init.call(&mut self.store, (at, len))
                }
                Entry::Packet if self.packet.is_some() => {
                    let at = self.put(bytes, ROOM)?;
                    self.enter(batch);
                    let packet = self.packet.as_ref().expect("looked at above");
                    packet.call(&mut self.store, (at, len, len + ROOM as u32, argument))
                }
                Entry::Stream if self.stream.is_some() => {
                    let at = self.put(bytes, 0)?;
                    self.enter(batch);
                    let stream = self.stream.as_ref().expect("looked at above");
                    stream.call(&mut self.store, (at, len, argument))
                }
                Entry::Timer if self.timer.is_some() => {
                    let now = batch.now;
                    self.enter(batch);
                    let timer = self.timer.as_ref().expect("looked at above");
                    timer.call(&mut self.store, now).map(|()| 0)
                }
                Entry::Packet => Ok(PASS),
                Entry::Stream => {
                    let start = batch.emitted_bytes.len();
                    let taken = state.room.emit(bytes.len());
                    taken.ok_or(Fault::Emit(state.limits.emit))?;
                    batch.emitted_bytes.extend_from_slice(bytes);
                    batch.emitted.push(Emitted {
                        call: index,
                        output: 0,
                        bytes: start..batch.emitted_bytes.len(),
                    });
                    Ok(0)
                }
                Entry::Init | Entry::Timer => Ok(0),
            };
            self.store.data_mut().batch = null_mut();
            let answer = result.map_err(|error| fault(&mut self.store, &error))?;
            let call = &mut batch.calls[index];
            call.answer = answer;
            match (entry, answer) {
                (Entry::Packet, 1..) => {
                    let len = answer as usize;
                    if len > call.bytes.len() + ROOM {
                        return Err(Fault::Refused("pod_packet()", answer));
                    }
                    let start = batch.emitted_bytes.len();
                    let frame = &self.memory.data(&self.store)[self.window..][..len];
                    batch.emitted_bytes.extend_from_slice(frame);
                    call.changed = start..start + len;
                }
                (Entry::Packet, PASS..=0) | (Entry::Stream, CLOSE) | (_, 0) => {}
                (Entry::Packet, _) => return Err(Fault::Refused("pod_packet()", answer)),
                (Entry::Init, _) => return Err(Fault::Refused("pod_init()", answer)),
                (Entry::Stream, _) => return Err(Fault::Refused("pod_stream()", answer)),
                (Entry::Timer, _) => {}
            }
            batch.done = index + 1;
        }
        Ok(())
    }

    /// The module's calls of Vink are about this batch now.
    #[inline]
    fn enter(&mut self, batch: &mut Batch) {
        self.store.data_mut().batch = batch;
    }
}

impl Pod for WasmPod {
    fn cross(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        batch.timed(|batch| {
            let begin = cycles();
            let Some(live) = &mut self.live else {
                return Err(Fault::Gone("before".to_owned()));
            };
            let done = live.make(batch);
            // Where a run repeats, what a crossing takes must repeat as well.
            batch.cycles = match live.fuel {
                Some(fuel) => fuel - live.store.get_fuel().unwrap_or(0),
                None => cycles() - begin,
            };
            if done.is_err() {
                self.live = None;
            }
            done
        })
    }

    fn wall(&self) -> Wall {
        Wall::Wasm
    }

    fn memory(&self) -> u64 {
        let bytes = |live: &Live| live.store.data().fixed + live.memory.data_size(&live.store);
        self.live.as_ref().map_or(0, bytes) as u64
    }
}

impl State {
    /// Its thread has run for up to a tick since the crossing began, or for a tick more.
    fn interrupted(&mut self) -> UpdateDeadline {
        TICKS.crossing();
        let now = clock_gettime(ClockId::ThreadCPUTime);
        let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        let since = *self.since.get_or_insert(now.saturating_sub(TICK));
        if now - since < self.time {
            return UpdateDeadline::Continue(1);
        }
        self.fault = Some(Fault::Time(self.limits.time));
        UpdateDeadline::Interrupt
    }

    fn may_have(&mut self, memory: usize) -> wasmtime::Result<bool> {
        if (self.fixed + memory) as u64 <= self.limits.memory {
            return Ok(true);
        }
        self.fault = Some(Fault::Memory(self.limits.memory));
        Err(wasmtime::Error::msg("its limit of memory"))
    }
}

impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.may_have(desired)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.fixed += (desired - current).saturating_mul(ELEMENT);
        self.may_have(0)
    }
}

/// A crossing begins.
#[inline]
fn start(store: &mut Store<State>, fuel: Option<u64>) {
    TICKS.crossing();
    store.data_mut().since = None;
    store.set_epoch_deadline(1);
    if let Some(fuel) = fuel {
        store.set_fuel(fuel).expect("an engine with fuel");
    }
}

/// A function that the module exports, if it does.
fn function<P: WasmParams, R: WasmResults>(
    store: &mut Store<State>,
    instance: &Instance,
    name: &str,
) -> Result<Option<TypedFunc<P, R>>, String> {
    let Some(found) = instance.get_func(&mut *store, name) else {
        return Ok(None);
    };
    let typed = found.typed(&*store);
    typed.map(Some).map_err(|error| {
        format!(
            "its {name}() is not as vink/pod.h declares it: {}",
            words(&error)
        )
    })
}

/// The module in a pod's file.
fn compiled(source: &Source<'_>) -> Result<Module, String> {
    let bytes = crate::file::start(source.file, MOST_CODE + 1)?;
    let make = "clang-16 --target=wasm32-wasi -mexec-model=reactor makes one";
    if !bytes.starts_with(b"\0asm") {
        return Err(format!("it is no WebAssembly module: {make}"));
    }
    if bytes.get(4..8) != Some(&[1, 0, 0, 0]) {
        return Err(format!(
            "it is no module of WebAssembly's version 1 (a component?): {make}"
        ));
    }
    if bytes.len() > MOST_CODE {
        return Err(format!("it has more bytes, and a module may have {MOST_CODE}: strip it of debug information (clang -s), or use the process wall"));
    }
    let engine = engine(source.repeats);
    let code = engine
        .precompile_module(&bytes)
        .map_err(|error| format!("it can't be compiled: {}", words(&error)))?;
    // It is looked at before it can be executed.
    if let Some(what) = opens_keys(&code)? {
        crate::alone::enter(Wall::Wasm)
            .map_err(|why| format!("its compiled code has the bytes of {what} by chance, and {why}: take the process wall, or another number in the source"))?;
    }
    // SAFETY: what this engine has compiled just now.
    unsafe { Module::deserialize(engine, &code) }.map_err(|error| words(&error))
}

/// What opens protection keys in compiled code: an instruction's name.
fn opens_keys(code: &[u8]) -> Result<Option<&'static str>, String> {
    let wrong = |error: object::Error| format!("its compiled code can't be read: {error}");
    let file = object::File::parse(code).map_err(wrong)?;
    for section in file.sections() {
        if section.kind() == SectionKind::Text {
            let found = scan::find(section.data().map_err(wrong)?).next();
            if let Some(found) = found {
                return Ok(Some(found.what));
            }
        }
    }
    Ok(None)
}

/// All that an error of wasmtime's says, in a line.
fn words(error: &wasmtime::Error) -> String {
    let words: Vec<String> = error.chain().map(ToString::to_string).collect();
    words.join(": ").replace('\n', " ")
}

/// Why a call of the module did not return.
#[cold]
fn fault(store: &mut Store<State>, error: &wasmtime::Error) -> Fault {
    let state = store.data_mut();
    if let Some(fault) = state.fault.take() {
        return fault;
    }
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map(WasmBacktrace::frames);
    let frames = frames.unwrap_or_default();
    let Some(trap) = error.downcast_ref::<Trap>() else {
        return Fault::Code(format!("could not go on: {}", words(error)));
    };
    let is_abort = frames
        .iter()
        .any(|frame| frame.func_name() == Some("abort"));
    let what = match trap {
        Trap::OutOfFuel | Trap::Interrupt => return Fault::Time(state.limits.time),
        Trap::UnreachableCodeReached if is_abort => "called abort(3)".to_owned(),
        Trap::UnreachableCodeReached => "trapped".to_owned(),
        Trap::StackOverflow => "used up its stack".to_owned(),
        Trap::MemoryOutOfBounds => "reached beyond its memory".to_owned(),
        Trap::BadSignature => "called a function of another type".to_owned(),
        Trap::TableOutOfBounds | Trap::IndirectCallToNull => {
            "called what is no function".to_owned()
        }
        Trap::IntegerDivisionByZero => "divided by zero".to_owned(),
        other => format!("did what it may not ({other})").replace("wasm trap: ", ""),
    };
    let Some(frame) = frames.first() else {
        return Fault::Code(what);
    };
    let function = match frame.func_name() {
        Some(name) => format!("{name}()"),
        None => format!("function {}", frame.func_index()),
    };
    let at = frame
        .module_offset()
        .map_or(String::new(), |at| format!(" at {at:#x} of the module"));
    Fault::Code(format!("{what}, in {function}{at}"))
}
