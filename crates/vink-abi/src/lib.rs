//! `stack/include/vink/abi.h` in Rust, and nothing else.
//!
//! Names are those of the header without their `vink_` prefix; what each thing means, which side calls it
//! and which errors it gives is said there, once. `tests/header.rs` holds the two together.
#![no_std]

use core::ffi::{c_char, c_int, c_void};

/// The version of the contract that this crate speaks.
pub const VINK_ABI_VERSION: u32 = 2;
/// Returned by any call once the kernel in the image has panicked.
pub const VINK_DEAD: c_int = -4095;
/// "No timer is armed", in the place of a deadline.
pub const VINK_NEVER: u64 = u64::MAX;
/// The arena's start and size are multiples of this many bytes.
pub const VINK_ARENA_ALIGN: u64 = 4 << 20;
/// The smallest arena that boots, in bytes.
pub const VINK_ARENA_MIN: u64 = 16 << 20;
/// The task that answers control calls.
pub const VINK_TASK_CONTROL: u64 = 1;
/// [`Call::space`]: the calling process's own memory.
pub const VINK_SPACE_SELF: u64 = 0;

/// The first call number that is not an x86-64 system call number.
pub const VINK_CALL_BASE: u32 = 0x10000;
/// Control task; name, length in bytes. Result: machine id.
pub const VINK_CALL_MACHINE_CREATE: u32 = VINK_CALL_BASE;
/// Control task; machine id. Result: 0.
pub const VINK_CALL_MACHINE_DESTROY: u32 = VINK_CALL_BASE + 1;
/// Any task; machine id. Result: a descriptor of the machine's network namespace.
pub const VINK_CALL_MACHINE_FD: u32 = VINK_CALL_BASE + 2;
/// Control task; machine id, `*const` [`TaskParams`]. Result: task id.
pub const VINK_CALL_TASK_CREATE: u32 = VINK_CALL_BASE + 3;
/// Remote task; `VINK_CLONE_*`, cookie. Result: task id.
pub const VINK_CALL_TASK_CLONE: u32 = VINK_CALL_BASE + 4;
/// Remote task; wait(2) status, whole group. Ends with [`Ops::gone`], never with [`Ops::done`].
pub const VINK_CALL_TASK_EXIT: u32 = VINK_CALL_BASE + 5;
/// Any task; descriptor, cookie, `EPOLL*`. Result: the events true now.
pub const VINK_CALL_WATCH: u32 = VINK_CALL_BASE + 6;
/// Any task; descriptor. Result: its `EPOLL*` mask.
pub const VINK_CALL_POLL: u32 = VINK_CALL_BASE + 7;
/// Any task; `VINK_TEST_*`. Panics the kernel.
pub const VINK_CALL_TEST: u32 = VINK_CALL_BASE + 8;
/// Any task; descriptor of a packet socket, cookie, `*mut` [`Block`], room. Result: number of blocks.
pub const VINK_CALL_RING_MAP: u32 = VINK_CALL_BASE + 9;
/// Any task; cookie. Result: 0.
pub const VINK_CALL_RING_UNMAP: u32 = VINK_CALL_BASE + 10;
/// Any task; cookie. Result: the socket's `EPOLL*` mask.
pub const VINK_CALL_RING_POLL: u32 = VINK_CALL_BASE + 11;
/// Control task; [`VINK_WIRE_BUS`] or 0. Result: wire id.
pub const VINK_CALL_WIRE_CREATE: u32 = VINK_CALL_BASE + 12;
/// Control task; wire id. Result: 0.
pub const VINK_CALL_WIRE_DESTROY: u32 = VINK_CALL_BASE + 13;
/// Control task; wire id, machine id, name, Ethernet address or null, MTU or 0. Result: end id.
pub const VINK_CALL_WIRE_ATTACH: u32 = VINK_CALL_BASE + 14;
/// Control task; end id. Result: 0.
pub const VINK_CALL_WIRE_DETACH: u32 = VINK_CALL_BASE + 15;
/// Control task; wire id, end id or 0, `*const` [`WireSettings`]. Result: 0.
pub const VINK_CALL_WIRE_SET: u32 = VINK_CALL_BASE + 16;
/// Control task; wire id, up. Result: 0.
pub const VINK_CALL_WIRE_STATE: u32 = VINK_CALL_BASE + 17;
/// Control task; end id, `*mut` [`WireStats`]. Result: 0.
pub const VINK_CALL_WIRE_STATS: u32 = VINK_CALL_BASE + 18;
/// Control task; end id, `VINK_PACKET_*` mask, snapshot length. Result: 0.
pub const VINK_CALL_WIRE_TRACE: u32 = VINK_CALL_BASE + 19;
/// Fiber task. The host has its turn although there is work. Result: 0.
pub const VINK_CALL_YIELD: u32 = VINK_CALL_BASE + 20;
/// Tells whenever the kernel passes one of its tracepoints.
pub const VINK_CALL_PROBE: u32 = VINK_CALL_BASE + 21;
/// Control task; wire id, `*const` [`Share`], end id or 0. Result: end id.
pub const VINK_CALL_WIRE_SHARE: u32 = VINK_CALL_BASE + 22;
/// Control task; end id, up. Result: 0.
pub const VINK_CALL_WIRE_CARRIER: u32 = VINK_CALL_BASE + 23;
/// Control task; end id. What [`Ops::verdict`] holds there goes on. Result: 0.
pub const VINK_CALL_WIRE_RELEASE: u32 = VINK_CALL_BASE + 24;
/// Have the image ask for frames ([`Ops::put`]).
pub const VINK_CALL_WIRE_PUT: u32 = VINK_CALL_BASE + 25;
/// Control task; `*const u64` ends, how many, `*mut` [`EndCounts`]. Result: 0.
pub const VINK_CALL_WIRE_COUNTS: u32 = VINK_CALL_BASE + 26;
/// The first number that is no call.
pub const VINK_CALL_END: u32 = VINK_CALL_BASE + 27;

/// [`VINK_CALL_WIRE_CREATE`]: an Ethernet segment of any number of ends.
pub const VINK_WIRE_BUS: u64 = 1;

/// [`WireSettings::flags`]: jitter may change the order.
pub const VINK_WIRE_OVERTAKE: u32 = 1;
/// [`WireSettings::flags`]: loss is Gilbert's and Elliott's.
pub const VINK_WIRE_BURSTS: u32 = 2;

/// [`Packet::kind`]: the interface sends it.
pub const VINK_PACKET_DEPARTURE: u32 = 1;
/// [`Packet::kind`]: the interface receives it.
pub const VINK_PACKET_ARRIVAL: u32 = 2;
/// [`Packet::kind`]: the wire lost it.
pub const VINK_PACKET_LOSS: u32 = 4;
/// [`Packet::kind`]: the stack dropped it.
pub const VINK_PACKET_DROP: u32 = 8;

/// [`VINK_CALL_WIRE_TRACE`]: [`Ops::flight`] tells of packets that the interface sends.
pub const VINK_PACKET_FLIGHT: u32 = 0x400;
/// [`Flight::captured`]: at most.
pub const VINK_FLIGHT_BYTES: u32 = 256;

/// [`VINK_CALL_WIRE_TRACE`]: [`Ops::verdict`] is asked about departures.
pub const VINK_ASK_DEPARTURE: u32 = VINK_PACKET_DEPARTURE << 4;
/// ... about arrivals.
pub const VINK_ASK_ARRIVAL: u32 = VINK_PACKET_ARRIVAL << 4;
/// ... about what the wire lost.
pub const VINK_ASK_LOSS: u32 = VINK_PACKET_LOSS << 4;
/// ... about what the stack dropped.
pub const VINK_ASK_DROP: u32 = VINK_PACKET_DROP << 4;
/// ... about Ethernet frames that have their checksums, not about what was sent in one piece.
pub const VINK_ASK_FRAMES: u32 = 0x100;
/// ... with a departing packet's mark as its [`Packet::reason`].
pub const VINK_ASK_MARK: u32 = 0x200;

/// [`Packet::reason`] of a loss: by the loss that was set.
pub const VINK_LOST_RANDOM: u32 = 1;
/// [`Packet::reason`] of a loss: too many packets under way, or no memory.
pub const VINK_LOST_LIMIT: u32 = 2;
/// [`Packet::reason`] of a loss: larger than the wire's MTU.
pub const VINK_LOST_MTU: u32 = 3;
/// [`Packet::reason`] of a loss: the wire or the far interface is down.
pub const VINK_LOST_DOWN: u32 = 4;
/// [`Packet::reason`] of a loss: [`VINK_VERDICT_DROP`].
pub const VINK_LOST_VERDICT: u32 = 5;

/// [`Verdict::flags`]: the wire loses it.
pub const VINK_VERDICT_DROP: u32 = 1;
/// [`Verdict::flags`]: one bit is another.
pub const VINK_VERDICT_CORRUPT: u32 = 2;
/// [`Verdict::flags`]: it is held until [`VINK_CALL_WIRE_RELEASE`], and asked about again then.
pub const VINK_VERDICT_AGAIN: u32 = 4;
/// [`Verdict::flags`]: the host has its bytes, and it is gone; [`Ops::put`] has what comes instead.
pub const VINK_VERDICT_TAKE: u32 = 8;
/// [`Verdict::flags`]: packets that go on behind others ([`Verdict::behind`]) do not count this one.
pub const VINK_VERDICT_UNCOUNTED: u32 = 16;

/// Same thread group and descriptors.
pub const VINK_CLONE_THREAD: u64 = 1;
/// Shared descriptor table.
pub const VINK_CLONE_FILES: u64 = 2;

/// `BUG()`.
pub const VINK_TEST_BUG: u64 = 1;
/// A write through a null pointer.
pub const VINK_TEST_NULL: u64 = 2;
/// Endless recursion.
pub const VINK_TEST_STACK: u64 = 3;

/// [`Call::state`]: never started, or done and taken.
pub const VINK_CALL_IDLE: u32 = 0;
/// [`Call::state`]: started; the call belongs to the image.
pub const VINK_CALL_RUNNING: u32 = 1;
/// [`Call::state`]: result and signals are valid.
pub const VINK_CALL_DONE: u32 = 2;

/// [`Call::flags`], by the host: report `poll_fd`'s mask in `events`.
pub const VINK_FLAG_POLL: u32 = 1;
/// [`Call::flags`], by the host: the task stays in the place of the idle one when the call is done.
pub const VINK_FLAG_STAY: u32 = 2;
/// A deferred send: its program has been told already that it succeeded, as an earlier call has reported credit for it.
pub const VINK_FLAG_DEFERRED: u32 = 4;
/// Report `poll_fd`'s send credit in `credit`, with [`VINK_FLAG_POLL`].
pub const VINK_FLAG_CREDIT: u32 = 8;
/// [`Call::flags`], by the image: `-EINTR` stands for `-ERESTART*`.
pub const VINK_FLAG_RESTART: u32 = 0x100;

/// `struct vink_task_params`: what a new task is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TaskParams {
    /// Given back in [`Ops::gone`].
    pub cookie: u64,
    /// A fiber task's function; `None` for a remote task.
    pub entry: Option<unsafe extern "C" fn(arg: *mut c_void) -> c_int>,
    /// The function's argument.
    pub arg: *mut c_void,
    /// The highest address of the fiber's stack; null for a remote task.
    pub stack_top: *mut c_void,
    /// Capabilities that it has not and can't get: bit n is capability n of capabilities(7).
    pub drop: u64,
    /// Its user; 0 is root.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// `struct vink_wire_settings`: what a wire does to the packets that one end sends. A probability is
/// p / 2^32, where 2^32 - 1 means always.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireSettings {
    /// Bit/s; 0: no limit.
    pub rate: u64,
    /// Ns.
    pub delay: u64,
    /// Ns to either side.
    pub jitter: u64,
    /// `VINK_WIRE_OVERTAKE`, `VINK_WIRE_BURSTS`.
    pub flags: u32,
    /// Probability of a loss; with bursts: in the good state.
    pub loss: u32,
    /// With bursts: in the bad state.
    pub loss_bad: u32,
    /// With bursts: to go from the good state to the bad one.
    pub to_bad: u32,
    /// With bursts: back.
    pub to_good: u32,
    /// Probability of a changed bit.
    pub corrupt: u32,
    /// Probability of a second copy.
    pub duplicate: u32,
    /// Probability of no delay.
    pub reorder: u32,
    /// Of every so many packets; 0 and 1: each.
    pub gap: u32,
    /// Packets under way at most; 0: while there is memory.
    pub limit: u32,
    /// Bytes behind the Ethernet header at most; 0: any.
    pub mtu: u32,
    /// Zero.
    pub reserved: u32,
}

/// `struct vink_wire_stats`: numbers of one end, of packets that it sent unless said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireStats {
    /// By the interface.
    pub sent: u64,
    /// By the interface, in bytes.
    pub sent_bytes: u64,
    /// Packets of the other ends that this one received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// `VINK_LOST_RANDOM`.
    pub lost_random: u64,
    /// `VINK_LOST_LIMIT`.
    pub lost_limit: u64,
    /// `VINK_LOST_MTU`.
    pub lost_mtu: u64,
    /// `VINK_LOST_DOWN`.
    pub lost_down: u64,
    /// With a changed bit.
    pub corrupted: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Sent without the delay.
    pub reordered: u64,
    /// Being sent or delayed now.
    pub under_way: u64,
}

/// `struct vink_end_counts`: what is asked of many ends often, of packets that each sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndCounts {
    /// By the interface.
    pub sent: u64,
    /// By the interface, in bytes.
    pub sent_bytes: u64,
    /// Whatever for.
    pub lost: u64,
    /// Being sent or delayed now.
    pub under_way: u32,
    /// In the interface's queueing discipline now.
    pub queued: u32,
}

/// `struct vink_packet`: an event of a traced end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// On [`Ops::clock`], ns.
    pub time: u64,
    /// The end.
    pub end: u64,
    /// One of `VINK_PACKET_*`.
    pub kind: u32,
    /// Of a loss, `VINK_LOST_*`; of a drop, the kernel's `enum skb_drop_reason`.
    pub reason: u32,
    /// The reason's name, NUL-terminated, or null.
    pub name: *const c_char,
    /// The first bytes.
    pub bytes: *const c_void,
    /// How many of them.
    pub captured: u32,
    /// How many the packet has.
    pub len: u32,
    /// 1: dropped before it had an Ethernet header.
    pub headless: u32,
    /// 1: the host has put it there ([`Ops::put`]).
    pub put: u32,
    /// For [`Ops::verdict`]: the `struct sock` of a TCP segment's connection, or null.
    pub sock: *const c_void,
}

/// `struct vink_flight`: a packet under way.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// Names it, also when it is lost later; 0: it is lost, and was not told before.
    pub id: u64,
    /// The end that sends it.
    pub end: u64,
    /// When the interface sent it, on [`Ops::clock`], ns.
    pub sent: u64,
    /// When it will arrive, or was lost.
    pub arrives: u64,
    /// `VINK_LOST_*`, or 0.
    pub lost: u32,
    /// Its bytes, from the Ethernet header on.
    pub len: u32,
    /// The first ones of them.
    pub bytes: *const c_void,
    /// So many.
    pub captured: u32,
    /// Zero.
    pub reserved: u32,
}

/// `struct vink_verdict`: what becomes of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// `VINK_VERDICT_*`.
    pub flags: u32,
    /// How many copies go on with it.
    pub copies: u32,
    /// ns until it goes on, or [`VINK_NEVER`].
    pub delay: u64,
    /// It goes on behind so many that come after it.
    pub behind: u32,
    /// Which bit is another.
    pub bit: u32,
}

/// `struct vink_put`: a frame of the host's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// The end.
    pub end: u64,
    /// [`VINK_PACKET_DEPARTURE`] or [`VINK_PACKET_ARRIVAL`].
    pub kind: u32,
    /// How many bytes it has.
    pub len: u32,
    /// They stay until [`Ops::put`] is called again.
    pub bytes: *const c_void,
}

/// `struct vink_pipe`: the control words of one direction of a wire between two processes.
#[repr(C)]
#[derive(Debug)]
pub struct Pipe {
    /// Bytes put in.
    pub head: u64,
    /// Nothing.
    pub pad0: [u64; 15],
    /// Bytes taken out.
    pub tail: u64,
    /// Nothing.
    pub pad1: [u64; 15],
    /// The receiver's host is about to sleep.
    pub asleep: u32,
    /// Nothing.
    pub pad2: [u32; 31],
    /// The sender waits for room.
    pub starved: u32,
    /// Nothing.
    pub pad3: [u32; 31],
    /// Bytes of a frame that the receiver takes.
    pub most: u32,
    /// Nothing.
    pub pad4: [u32; 31],
}

/// `struct vink_frame`: what is in front of a frame in a ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Of its bytes.
    pub len: u32,
    /// Zero.
    pub reserved: u32,
    /// A `struct virtio_net_hdr`.
    pub header: [u8; 16],
}

/// `struct vink_share`: the two rings of an end that leads to another process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Of frames that the wire carries to the end.
    pub out: *mut Pipe,
    /// Of frames that the end sends.
    pub inward: *mut Pipe,
    /// Mapped twice, one behind the other.
    pub out_bytes: *mut c_void,
    /// As well.
    pub in_bytes: *mut c_void,
    /// Of a ring, once; a power of two.
    pub size: u64,
    /// For [`Ops::bell`].
    pub cookie: u64,
}

/// The smallest [`Share::size`].
pub const VINK_SHARE_MIN: u64 = 1 << 20;

/// `struct vink_block`: a piece of a packet socket's ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// In the arena, page-aligned.
    pub start: *mut c_void,
    /// Bytes.
    pub len: u64,
}

/// `struct vink_call`: one system call of a remote task.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// An x86-64 system call number or a `VINK_CALL_*`.
    pub nr: u32,
    /// `VINK_FLAG_*`.
    pub flags: u32,
    /// The arguments.
    pub args: [u64; 6],
    /// Whose memory the pointers among them are in.
    pub space: u64,
    /// The host's own.
    pub cookie: u64,
    /// As from the system call instruction.
    pub result: i64,
    /// Bit n-1: signal n was sent to the task meanwhile.
    pub signals: u64,
    /// In, with [`VINK_FLAG_POLL`].
    pub poll_fd: i32,
    /// Out, with [`VINK_FLAG_POLL`]: `EPOLL*`.
    pub events: u32,
    /// `VINK_CALL_IDLE`, `_RUNNING` or `_DONE`.
    pub state: u32,
    /// Out, with [`VINK_FLAG_CREDIT`]: bytes that a send can't fail to take.
    pub credit: u32,
}

/// `struct vink_panic`: what a panic leaves.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Panic {
    /// One line, NUL-terminated.
    pub message: *const c_char,
    /// Code addresses, innermost first.
    pub trace: *const u64,
    /// The length of `trace`.
    pub depth: u32,
    /// Zero.
    pub reserved: u32,
}

/// `struct vink_counters`: numbers for leak checks and dashboards.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Remote and fiber tasks alive.
    pub tasks: u64,
    /// Machines not yet destroyed.
    pub machines: u64,
    /// Sockets in use, of all machines.
    pub sockets: u64,
    /// Open descriptors of all processes.
    pub files: u64,
    /// Pages of 4 KiB under the allocator.
    pub arena_pages: u64,
    /// Of them, free.
    pub free_pages: u64,
    /// Context switches since boot.
    pub switches: u64,
    /// Remote calls started since boot.
    pub calls: u64,
}

/// `struct vink_ops`: what the host gives; all called with the token, on a stack of the kernel's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ops {
    /// Nanoseconds on a clock that never goes back.
    pub clock: Option<unsafe extern "C" fn(host: *mut c_void) -> u64>,
    /// Kernel log text, whole lines.
    pub console: Option<unsafe extern "C" fn(host: *mut c_void, text: *const c_char, len: u64)>,
    /// The kernel has panicked.
    pub panic: Option<unsafe extern "C" fn(host: *mut c_void, panic: *const Panic)>,
    /// Copies from another address space; returns the bytes copied.
    pub user_read: Option<
        unsafe extern "C" fn(
            host: *mut c_void,
            space: u64,
            dst: *mut c_void,
            src: u64,
            len: u64,
        ) -> u64,
    >,
    /// Copies to another address space; returns the bytes copied.
    pub user_write: Option<
        unsafe extern "C" fn(
            host: *mut c_void,
            space: u64,
            dst: u64,
            src: *const c_void,
            len: u64,
        ) -> u64,
    >,
    /// A remote call is done.
    pub done: Option<unsafe extern "C" fn(host: *mut c_void, call: *mut Call)>,
    /// A watched file has these events now.
    pub ready: Option<unsafe extern "C" fn(host: *mut c_void, cookie: u64, events: u32)>,
    /// A task is gone.
    pub gone:
        Option<unsafe extern "C" fn(host: *mut c_void, task: u64, cookie: u64, status: c_int)>,
    /// Pages of the arena may go back to the system; may be `None`.
    pub release: Option<unsafe extern "C" fn(host: *mut c_void, start: *mut c_void, len: u64)>,
    /// Something happened to a packet; may be `None`.
    pub packet: Option<unsafe extern "C" fn(host: *mut c_void, packet: *const Packet)>,
    /// The kernel passes a tracepoint, whose first three arguments these are; may be `None`.
    pub probe: Option<unsafe extern "C" fn(host: *mut c_void, cookie: u64, args: *const u64)>,
    /// Wake the host of the other process; or that one has spoiled the memory. May be `None`.
    pub bell: Option<unsafe extern "C" fn(host: *mut c_void, cookie: u64, spoiled: u32)>,
    /// What is to become of a packet? May be `None`.
    pub verdict: Option<
        unsafe extern "C" fn(host: *mut c_void, packet: *const Packet, verdict: *mut Verdict),
    >,
    /// The next frame that the host has; 0: there are no more. May be `None`.
    pub put: Option<unsafe extern "C" fn(host: *mut c_void, put: *mut Put) -> c_int>,
    /// A packet is under way, or was lost; may be `None`.
    pub flight: Option<unsafe extern "C" fn(host: *mut c_void, flight: *const Flight)>,
}

/// `struct vink_boot`: how to boot.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Boot {
    /// [`VINK_ABI_VERSION`].
    pub abi_version: u32,
    /// `size_of::<Boot>()`.
    pub size: u32,
    /// Valid for the kernel's life.
    pub ops: *const Ops,
    /// The first argument of every op.
    pub host: *mut c_void,
    /// Zeroed memory, [`VINK_ARENA_ALIGN`] aligned.
    pub arena: *mut c_void,
    /// Bytes, a multiple of [`VINK_ARENA_ALIGN`].
    pub arena_size: u64,
    /// Kernel parameters added to the image's own, NUL-terminated.
    pub cmdline: *const c_char,
    /// Of the kernel's random numbers.
    pub seed: [u8; 32],
    /// `CLOCK_REALTIME` when the clock is at 0, ns since 1970.
    pub realtime: u64,
}

/// `struct vink_info`: what an image is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The version of the contract that the image speaks.
    pub abi_version: u32,
    /// `size_of::<Info>()`.
    pub size: u32,
    /// As `uname -r`.
    pub release: *const c_char,
    /// As `uname -v`.
    pub version: *const c_char,
    /// The image's code, its first byte.
    pub text_start: *const c_void,
    /// The first byte behind it.
    pub text_end: *const c_void,
}

/// `struct vink_fault`: the registers of a hardware fault met inside the image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    /// Instruction pointer.
    pub rip: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Frame pointer.
    pub rbp: u64,
    /// First argument register.
    pub rdi: u64,
    /// Second argument register.
    pub rsi: u64,
    /// Count register.
    pub rcx: u64,
    /// Accumulator.
    pub rax: u64,
    /// Third argument register.
    pub rdx: u64,
    /// `si_addr`.
    pub address: u64,
    /// The signal's number.
    pub signal: u32,
    /// Zero.
    pub reserved: u32,
}

/// `vink_info()`.
pub type InfoFn = unsafe extern "C" fn() -> *const Info;
/// `vink_boot()`.
pub type BootFn = unsafe extern "C" fn(boot: *const Boot) -> c_int;
/// `vink_run()`.
pub type RunFn = unsafe extern "C" fn(deadline: *mut u64) -> c_int;
/// `vink_call_start()`.
pub type CallStartFn = unsafe extern "C" fn(task: u64, call: *mut Call) -> c_int;
/// `vink_call_cancel()`.
pub type CallCancelFn = unsafe extern "C" fn(task: u64) -> c_int;
/// `vink_fiber_call()`.
pub type FiberCallFn =
    unsafe extern "C" fn(nr: u64, a0: u64, a1: u64, a2: u64, a3: u64, a4: u64, a5: u64) -> i64;
/// `vink_fault()`.
pub type FaultFn = unsafe extern "C" fn(fault: *mut Fault) -> c_int;
/// `vink_counters()`.
pub type CountersFn = unsafe extern "C" fn(counters: *mut Counters) -> c_int;
