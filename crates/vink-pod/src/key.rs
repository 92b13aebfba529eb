//! The key wall: a pod in pages that the processor's protection keys set apart, called without a system
//! call or a copy of the processor's state.
//!
//! Theory of operation: a pod's object, its stack and its heap are pages with a key of its own. While
//! it runs, its thread's rights (PKRU) are those pages, and one that it can only read. [`gate`] changes
//! them. Whatever the pod jumps to, it runs with these rights, and there is no instruction in the process
//! that gives it others ([`scan`]): where there is one, no pod is loaded. It makes no system calls. What
//! it calls of `pod.h` and of libc comes back through the gate, and is done here, with addresses that are
//! checked against its pages.
//!
//! What this wall does not promise is in docs/design/pods.md.

mod branch;
mod clock;
mod elf;
mod gate;
mod heap;
mod poke;
pub(crate) mod scan;

use std::ops::Range;
use std::time::Duration;

use vink_sys::mapping::{Mapping, Pages};
use vink_sys::procfs::{kernel_release, kernel_version};

use crate::batch::lines;
use crate::calls::{check_version, CLOSE, PASS};
use crate::load::{cycles, initialised, Loaded, Source};
use crate::room::Room;
use crate::{file, Batch, Emitted, Entry, Fault, Limits, LoadError, Pod, Wall, COUNTERS, ROOM};
use gate::{Back, Told, Turn};
use heap::Heap;

const PAGE: u64 = 4096;
/// Bytes of a pod's stack, and of the pages before it that nothing may use.
const STACK: u64 = 256 << 10;
const GUARD: u64 = 64 << 10;
/// What a pod may export, as an [`Entry`] counts.
const ENTRIES: [&str; 4] = ["pod_init", "pod_packet", "pod_stream", "pod_timer"];
/// What a pod did that came back with a number of its own.
const MIDDLE: &str = "came back through the gate's middle";
/// The least that a pod gets for being loaded.
const LOAD_TIME: Duration = Duration::from_secs(5);

/// Whether pods can be loaded into this process: a line about it.
///
/// # Errors
/// The host has not what it takes, or the process has code that would open the wall.
pub fn probe() -> Result<String, String> {
    host()?;
    scan::process(false)?;
    Ok("the processor has keys, Linux is new enough, and no code here opens them".to_owned())
}

/// No pod is loaded, for this reason.
fn refused(why: &str) -> LoadError {
    LoadError::Host {
        wall: Wall::Key,
        why: format!("{why}; the process wall takes the same pods (`wall: process`), and `wasm` modules of the same source"),
    }
}

/// What the host must have.
fn host() -> Result<(), String> {
    let release = kernel_release().map_err(|error| error.to_string())?;
    missing(has_protection_keys(), &release)?;
    // SAFETY: reads a vector of numbers that the kernel has left.
    let more = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    const FSGSBASE: u64 = 1 << 1;
    if more & FSGSBASE == 0 || !std::arch::is_x86_feature_detected!("avx") {
        return Err("the processor has keys, but no AVX, or no RDFSBASE".to_owned());
    }
    Ok(())
}

/// A pod behind the key wall.
#[derive(Debug)]
struct KeyPod {
    /// `None` once it has ended.
    live: Option<Live>,
}

#[derive(Debug)]
struct Live {
    /// All of the pod's pages: the object, a window for what calls are about, the heap, the guard, the
    /// stack, a page for signals.
    memory: Mapping,
    key: u32,
    /// Bytes of the object, its names, and those that are called, as an [`Entry`] counts.
    object_len: u64,
    names: elf::Names,
    entries: [Option<u64>; 4],
    window: Range<u64>,
    heap: Heap,
    /// It got no memory.
    wants: bool,
    stack_end: u64,
    limits: Limits,
}

/// Loads a shared object that needs no library.
///
/// # Errors
/// [`LoadError`].
pub fn load(source: &Source<'_>) -> Result<Loaded, LoadError> {
    let loaded = load_here(source);
    // The thread that crosses it need not ask for the gate.
    gate::leave();
    loaded
}

fn load_here(source: &Source<'_>) -> Result<Loaded, LoadError> {
    let refused = |why: String| refused(&why);
    let wrong = |why: String| LoadError::File {
        path: source.file.to_owned(),
        why,
    };
    host().map_err(refused)?;
    // Once: what is looked at is what is loaded.
    let bytes = file::start(source.file, elf::MOST + 1).map_err(wrong)?;
    file::kind(&bytes).map_err(wrong)?;
    if bytes.len() > elf::MOST {
        return Err(wrong(format!("it has more than {} bytes", elf::MOST)));
    }
    let object = elf::read(&bytes, gate::function).map_err(wrong)?;
    let Some(version) = object.names.find("pod_version") else {
        return Err(wrong(
            "it exports no pod_version(): a pod has the line POD(); of <vink/pod.h> in it"
                .to_owned(),
        ));
    };
    crate::alone::enter(Wall::Key).map_err(refused)?;
    clock::start().map_err(refused)?;
    // This thread may open keys from here on. Others cross their pods until this one's code runs.
    drop(gate::turn().map_err(refused)?);
    let constructors = object.constructors.clone();
    let live = Live::new(object, source.limits.clone()).map_err(|problem| match problem {
        Problem::Host(why) => refused(why),
        Problem::File(why) => wrong(why),
    })?;
    // With its own code. What is to be changed is changed while no thread is in a pod.
    let is_harmless = scan::is_harmless().map_err(refused)?;
    let turn = gate::turn().map_err(refused)?;
    if !is_harmless {
        scan::process(true).map_err(refused)?;
    }
    let mut pod = KeyPod { live: Some(live) };
    let found = pod
        .prepare(&turn, &constructors, version)
        .map_err(|fault| LoadError::File {
            path: source.file.to_owned(),
            why: format!("it was ended while it was loaded: it {fault}"),
        })?;
    drop(turn);
    check_version(source.file, found)?;
    initialised(Box::new(pod), source)
}

/// Why a pod gets no pages.
enum Problem {
    Host(String),
    File(String),
}

impl Live {
    fn new(object: elf::Object<'_>, limits: Limits) -> Result<Live, Problem> {
        let host = |error: std::io::Error| Problem::Host(error.to_string());
        let memory_len = limits.memory / PAGE * PAGE;
        let window_len = (memory_len / 8).clamp(64 << 10, 4 << 20) / PAGE * PAGE;
        let least = object.len + window_len + GUARD + STACK + 2 * PAGE;
        if memory_len < least {
            return Err(Problem::File(format!(
                "its memory is too small for its code: it needs {least} bytes"
            )));
        }
        let memory = Mapping::new(memory_len as usize).map_err(host)?;
        let start = memory.start() as u64;
        let end = start + memory_len;
        let window = start + object.len..start + object.len + window_len;
        let stack_end = end - PAGE;
        let guard = stack_end - STACK - GUARD..stack_end - STACK;
        for segment in &object.segments {
            memory.write(segment.at as usize, segment.bytes);
        }
        for (at, value) in &object.relocations {
            let value = match value {
                elf::Value::Own(address) => start.wrapping_add(*address),
                elf::Value::As(address) => *address,
            };
            memory.write(*at as usize, &value.to_ne_bytes());
        }
        let key = gate::new_key()
            .ok_or_else(|| Problem::Host("all 15 keys of the processor are in use".to_owned()))?;
        let heap = Heap::new(window.end..guard.start);
        let live = Live {
            memory,
            key,
            window,
            heap,
            wants: false,
            stack_end,
            limits,
            object_len: object.len,
            entries: ENTRIES.map(|name| object.names.find(name)),
            names: object.names,
        };
        let guards = (guard.start - start) as usize..(guard.end - start) as usize;
        live.memory.replace(guards, Pages::Guard).map_err(host)?;
        let access = |is_writable| match is_writable {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        // What lies between the object's parts is read-only.
        let mut parts = vec![
            (start, live.object_len, access(false)),
            (
                live.window.start,
                guard.start - live.window.start,
                access(true),
            ),
            (guard.start, GUARD, libc::PROT_NONE),
            (guard.end, end - guard.end, access(true)),
        ];
        parts.extend(object.segments.iter().map(|segment| {
            let code = if segment.is_code { libc::PROT_EXEC } else { 0 };
            (
                start + segment.start,
                segment.len,
                access(segment.is_writable) | code,
            )
        }));
        for (from, len, access) in parts {
            // SAFETY: whole pages of the mapping, in which nothing has a reference.
            unsafe { gate::give(from, len as usize, access, live.key) }.map_err(host)?;
        }
        Ok(live)
    }

    fn at(&self, address: u64) -> usize {
        (address - self.memory.start() as u64) as usize
    }

    /// Whether so many bytes are the pod's.
    fn owns(&self, start: u64, len: u64) -> bool {
        let all = self.memory.start() as u64;
        let guard = self.stack_end - STACK - GUARD..self.stack_end - STACK;
        let end = start.checked_add(len);
        end.is_some_and(|end| {
            (start >= all && end <= guard.start) || (start >= guard.end && end <= self.stack_end)
        })
    }

    /// What a pod has given as an address and a length.
    fn given(&self, start: u64, len: u64, into: &mut Vec<u8>) -> Option<Range<usize>> {
        let from = into.len();
        if len == 0 {
            return Some(from..from);
        }
        if !self.owns(start, len) {
            return None;
        }
        into.resize(from + len as usize, 0);
        self.memory.read(self.at(start), &mut into[from..]);
        Some(from..into.len())
    }

    /// Calls a function of the pod's, and does what it calls.
    fn call(
        &mut self,
        turn: &Turn,
        function: u64,
        arguments: [u64; 4],
        time: Duration,
        said: &mut dyn FnMut(&mut Live, &Back) -> Result<u64, Fault>,
    ) -> Result<u64, Fault> {
        // Six registers, the function, and where it returns to.
        let mut stack = [0; 8];
        stack[6] = (self.memory.start() as u64).wrapping_add(function);
        stack[7] = gate::returned();
        let mut at = self.stack_end - 64;
        for (n, word) in stack.iter().enumerate() {
            self.memory
                .write(self.at(at) + 8 * n, &u64::to_ne_bytes(*word));
        }
        let mut value = 0;
        let mut arguments = arguments;
        turn.choose(self.key, self.stack_end);
        clock::begin(turn.thread, time);
        let done = loop {
            let back = turn.enter(at, value, arguments);
            match back.reason {
                gate::RETURNED => break Ok(back.arguments[3]),
                gate::FAULTED => break Err(self.fault(&turn.told())),
                // It was here whenever the thread looked.
                _ if clock::is_over() => break Err(Fault::Time(self.limits.time)),
                _ => match said(self, &back) {
                    Ok(answer) => value = answer,
                    Err(fault) => break Err(fault),
                },
            }
            at = back.stack;
            arguments = [0; 4];
        };
        clock::end();
        done
    }

    /// Memory, as the pod calls for it.
    fn memory_call(&mut self, back: &Back) -> Result<u64, Fault> {
        let [first, second, ..] = back.arguments;
        let bad = || Fault::Code("called abort(3)".to_owned());
        let taken = match back.reason {
            gate::FREE => {
                if first != 0 {
                    // As libc does it.
                    self.heap.give_back(first).ok_or_else(bad)?;
                }
                return Ok(0);
            }
            gate::MALLOC => self.heap.take(first),
            gate::CALLOC => first.checked_mul(second).and_then(|len| {
                let at = self.heap.take(len)?;
                let zeroes = vec![0; len as usize];
                self.memory.write(self.at(at), &zeroes);
                Some(at)
            }),
            _ if first == 0 => self.heap.take(second),
            _ => {
                let had = self.heap.size(first).ok_or_else(bad)?;
                self.heap.take(second).inspect(|at| {
                    let mut bytes = vec![0; had.min(second) as usize];
                    self.memory.read(self.at(first), &mut bytes);
                    self.memory.write(self.at(*at), &bytes);
                })
            }
        };
        if taken.is_some() && back.reason == gate::REALLOC && first != 0 {
            self.heap.give_back(first);
        }
        self.wants = taken.is_none();
        Ok(taken.unwrap_or(0))
    }

    /// What a pod calls that is not about a batch.
    fn other_call(&mut self, back: &Back) -> Result<u64, Fault> {
        match back.reason {
            gate::MALLOC | gate::FREE | gate::CALLOC | gate::REALLOC => self.memory_call(back),
            gate::ABORT if self.wants => Err(Fault::Memory(self.limits.memory)),
            gate::ABORT => Err(Fault::Code("called abort(3)".to_owned())),
            // While it is loaded.
            gate::EMIT => Ok(u64::MAX),
            gate::LOG | gate::NOW | gate::COUNT | gate::TIMER => Ok(0),
            _ => Err(Fault::Code(MIDDLE.to_owned())),
        }
    }

    fn fault(&self, told: &Told) -> Fault {
        let guard = self.stack_end - STACK - GUARD..self.stack_end - STACK;
        let place = match self.memory.start() as u64 {
            start if told.at >= start && told.at < start + self.object_len => {
                match self.names.name_of(told.at - start) {
                    Some((name, far)) => format!("in {name}+{far:#x}"),
                    None => format!("at {:#x}", told.at - start),
                }
            }
            _ => format!("at {:#x}", told.at),
        };
        if told.is_late || clock::is_over() {
            return Fault::Time(self.limits.time);
        }
        let address = told.address;
        let text = match told.signal {
            libc::SIGSYS => {
                const X86_64: u32 = 0xc000_003e;
                return Fault::SystemCall(match vink_syscalls::name(i64::from(told.call as i32)) {
                    _ if told.architecture != X86_64 => "of another architecture".to_owned(),
                    Some(name) => name.to_owned(),
                    None => format!("number {}", told.call),
                });
            }
            libc::SIGSEGV | libc::SIGBUS if address < PAGE && self.wants => {
                return Fault::Memory(self.limits.memory);
            }
            libc::SIGSEGV if guard.contains(&address) => {
                "overflowed its stack (SIGSEGV)".to_owned()
            }
            // SEGV_PKUERR
            libc::SIGSEGV if told.code == 4 => {
                format!("used address {address:#x}, which is not its own (SIGSEGV)")
            }
            libc::SIGSEGV => format!("used address {address:#x} (SIGSEGV)"),
            libc::SIGBUS => format!("used address {address:#x} (SIGBUS)"),
            libc::SIGILL => "executed what is no instruction (SIGILL)".to_owned(),
            libc::SIGFPE => "divided by zero (SIGFPE)".to_owned(),
            libc::SIGTRAP => "set a trap (SIGTRAP)".to_owned(),
            // It said that there was one.
            0 => return Fault::Code(MIDDLE.to_owned()),
            other => format!("ended by signal {other}"),
        };
        Fault::Code(format!("{text} {place}"))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // No page has the key any more: the next pod with it gets none of this one's.
        drop(std::mem::take(&mut self.memory));
        gate::free_key(self.key);
    }
}

impl KeyPod {
    /// Runs its constructors: its version.
    fn prepare(&mut self, turn: &Turn, constructors: &[u64], version: u64) -> Result<u32, Fault> {
        let Some(live) = &mut self.live else {
            return Err(Fault::Gone("before".to_owned()));
        };
        let time = live.limits.time.max(LOAD_TIME);
        let mut other = |live: &mut Live, back: &Back| live.other_call(back);
        for function in constructors {
            live.call(turn, *function, [0; 4], time, &mut other)?;
        }
        let found = live.call(turn, version, [0; 4], time, &mut other)?;
        Ok(found as u32)
    }

    /// Makes the calls of a batch in order.
    fn make(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        let Some(live) = &mut self.live else {
            return Err(Fault::Gone("before".to_owned()));
        };
        let turn = gate::turn().map_err(Fault::Gone)?;
        let unkept = |why| Fault::Code(format!("can't be kept any more: {why}"));
        scan::what_came().map_err(unkept)?;
        let limits = live.limits.clone();
        let mut room = Room::new(&limits);
        for index in 0..batch.calls.len() {
            let (entry, argument) = (batch.calls[index].entry, batch.calls[index].argument);
            let bytes = batch.calls[index].bytes.clone();
            let len = bytes.len();
            let Some(function) = live.entries[entry as usize] else {
                match entry {
                    Entry::Packet => batch.calls[index].answer = PASS,
                    Entry::Stream => {
                        room.emit(len).ok_or(Fault::Emit(limits.emit))?;
                        let start = batch.emitted_bytes.len();
                        batch.emitted_bytes.extend_from_slice(&batch.bytes[bytes]);
                        batch.emitted.push(Emitted {
                            call: index,
                            output: 0,
                            bytes: start..start + len,
                        });
                    }
                    Entry::Init | Entry::Timer => {}
                }
                batch.done = index + 1;
                continue;
            };
            let all = len + ROOM;
            if all as u64 > live.window.end - live.window.start {
                let most = live.window.end - live.window.start;
                return Err(Fault::Code(format!(
                    "got {len} bytes, and has room for {most}: give it more memory"
                )));
            }
            let window = live.window.start;
            live.memory.write(live.at(window), &batch.bytes[bytes]);
            let (len, argument) = (len as u64, u64::from(argument));
            let arguments = match entry {
                Entry::Init => [window, len, 0, 0],
                Entry::Packet => [window, len, all as u64, argument],
                Entry::Stream => [window, len, argument, 0],
                Entry::Timer => [batch.now, 0, 0, 0],
            };
            let mut said = |live: &mut Live, back: &Back| say(live, back, batch, index, &mut room);
            let answer = live.call(&turn, function, arguments, limits.time, &mut said)? as i32;
            batch.calls[index].answer = match entry {
                Entry::Timer => 0,
                _ => answer,
            };
            match (entry, answer) {
                (Entry::Packet, 1..) => {
                    if answer as usize > all {
                        return Err(Fault::Refused("pod_packet()", answer));
                    }
                    let changed = live.given(window, answer as u64, &mut batch.emitted_bytes);
                    batch.calls[index].changed = changed.unwrap_or_default();
                }
                (Entry::Packet, PASS..=0) | (Entry::Stream, CLOSE) | (Entry::Timer, _) | (_, 0) => {
                }
                (Entry::Packet, _) => return Err(Fault::Refused("pod_packet()", answer)),
                (Entry::Init, _) => return Err(Fault::Refused("pod_init()", answer)),
                (Entry::Stream, _) => return Err(Fault::Refused("pod_stream()", answer)),
            }
            batch.done = index + 1;
        }
        Ok(())
    }
}

/// What a pod calls in a crossing.
fn say(
    live: &mut Live,
    back: &Back,
    batch: &mut Batch,
    call: usize,
    room: &mut Room,
) -> Result<u64, Fault> {
    let [first, second, third, _] = back.arguments;
    let over = Fault::Emit(live.limits.emit);
    match back.reason {
        gate::EMIT => {
            let len = u64::from(third as u32);
            room.emit(len as usize).ok_or(over)?;
            let bytes = live.given(second, len, &mut batch.emitted_bytes);
            let bytes = bytes.ok_or(Fault::Argument("vink_emit()"))?;
            batch.emitted.push(Emitted {
                call,
                output: first as u32,
                bytes,
            });
        }
        gate::LOG => {
            let len = u64::from(second as u32);
            if len > live.limits.emit as u64 {
                return Err(over);
            }
            let mut text = Vec::new();
            live.given(first, len, &mut text)
                .ok_or(Fault::Argument("vink_log()"))?;
            room.log(&text).ok_or(over)?;
            batch.log.extend(lines(&text));
        }
        gate::NOW => return Ok(batch.now),
        gate::COUNT => {
            let counter = first as u32 as usize;
            if counter >= COUNTERS {
                return Err(Fault::Argument("vink_count()"));
            }
            batch.counted[counter] = batch.counted[counter].wrapping_add(second as i64);
        }
        gate::TIMER => batch.timer = Some(first),
        _ => return live.other_call(back),
    }
    Ok(0)
}

impl Pod for KeyPod {
    fn cross(&mut self, batch: &mut Batch) -> Result<(), Fault> {
        batch.timed(|batch| {
            let begin = cycles();
            let made = self.make(batch);
            if made.is_err() {
                self.live = None;
            }
            batch.cycles = cycles() - begin;
            made
        })
    }

    fn wall(&self) -> Wall {
        Wall::Key
    }

    fn memory(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| {
            live.object_len
                + STACK
                + PAGE
                + (live.window.end - live.window.start)
                + live.heap.used()
        })
    }
}

/// Whether the host's kernel has switched them on: OSPKE, bit 4 of ECX in leaf 7 of CPUID, which the
/// processor sets when CR4.PKE is. pkey_alloc(2) may fail for other reasons, and a flag in /proc/cpuinfo
/// may be another processor's.
fn has_protection_keys() -> bool {
    const OSPKE: u32 = 1 << 4;
    let leaves = std::arch::x86_64::__cpuid(0).eax;
    leaves >= 7 && std::arch::x86_64::__cpuid_count(7, 0).ecx & OSPKE != 0
}

fn missing(has_keys: bool, release: &str) -> Result<(), String> {
    let mut missing = Vec::new();
    if !has_keys {
        missing.push(
            "the processor has no keys, or the host does not let them through (OSPKE in CPUID)"
                .to_owned(),
        );
    }
    // Before, the kernel could not write a signal's frame while a pod ran.
    if kernel_version(release) < (Some(6), Some(12)) {
        missing.push(format!("Linux {release} is older than 6.12"));
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(missing.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        for (release, is_new) in [
            ("6.12.0", true),
            ("6.12-rc1", true),
            ("7.0.3-amd64", true),
            ("6.11.9", false),
            ("5.19.0-50-generic", false),
            ("", false),
        ] {
            assert_eq!(missing(true, release).is_ok(), is_new, "{release}");
            let said = missing(false, release).expect_err(release);
            assert!(said.contains("no keys"), "{said}");
            assert_eq!(!said.contains("older than 6.12"), is_new, "{said}");
        }
    }
}
