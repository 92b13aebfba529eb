//! The one table of x86-64's system calls: what each of them is, for all that decide about calls.
//!
//! A row (`table.rs`) has all facts about one system call. Filter, worker, scheduler, tracer and the
//! libraries in programs ask for one column each, by the call's number: an array's element. What a
//! row does not say is the careful answer: the call is not Vink's, may block, and conflicts with
//! any other.
//!
//! Where the answer depends on a call's arguments (fcntl(2), ioctl(2), clone(2)), the column has a
//! class for that, and its reader decides.
#![no_std]

mod class;
mod requests;
mod shape;
mod table;

pub use class::{
    Blocks, Conflict, FdRole, FileSignals, Kind, OpenFlags, Output, PathArgs, Polling, Restart,
    Sched, Sharing, Shim, Status,
};
pub use requests::{
    concerns_interfaces, FIOGETOWN, FIOSETOWN, F_SETOWN_EX, NATIVE_FCNTLS, SIOCGPGRP, SIOCSPGRP,
    TTY_IOCTLS,
};
pub use shape::{Names, Shape};

/// Above every number that the table has.
pub const NR_END: usize = 512;

/// Stands for the number of any system call that is not x86-64's.
pub const FOREIGN: i64 = 1 << 32;

/// All that is known of one system call.
#[derive(Clone, Copy)]
struct Syscall {
    name: Option<&'static str>,
    shapes: Option<&'static [Shape]>,
    fd: FdRole,
    kind: Kind,
    shim: Shim,
    blocks: Blocks,
    plain_io: bool,
    signals: FileSignals,
    sched: Sched,
    untrapped: bool,
    conflict: Conflict,
    sharing: Sharing,
    path: PathArgs,
    open_flags: OpenFlags,
    status: Status,
    output: Output,
    polling: Polling,
    marked: Option<u32>,
    marked_in_time: Option<u32>,
    linker: bool,
    restart: Restart,
}

/// What is assumed of a call that the table does not have.
const UNKNOWN: Syscall = Syscall {
    name: None,
    shapes: None,
    fd: FdRole::None,
    kind: Kind::Other,
    shim: Shim::Host,
    blocks: Blocks::Never,
    plain_io: false,
    signals: FileSignals::Never,
    sched: Sched::AsInRealTime,
    untrapped: false,
    conflict: Conflict::Any,
    sharing: Sharing::None,
    path: PathArgs::None,
    open_flags: OpenFlags::None,
    status: Status::None,
    output: Output::None,
    polling: Polling::None,
    marked: None,
    marked_in_time: None,
    linker: false,
    restart: Restart::Never,
};

/// A function for each column, which takes a call's number.
macro_rules! columns {
    ($($(#[$doc:meta])* $visibility:vis $name:ident = $field:ident: $type:ty;)*) => {
        $(
            $(#[$doc])*
            #[inline]
            $visibility const fn $name(nr: i64) -> $type {
                const COLUMN: &[$type; NR_END] = &{
                    let mut column = [UNKNOWN.$field; NR_END];
                    let mut nr = 0;
                    while nr < NR_END {
                        column[nr] = table::TABLE[nr].$field;
                        nr += 1;
                    }
                    column
                };
                if nr as u64 >= NR_END as u64 {
                    return UNKNOWN.$field;
                }
                COLUMN[nr as usize]
            }
        )*
    };
}

columns! {
    /// The call's name, without its section: `splice`.
    pub name = name: Option<&'static str>;
    /// What the call's parameters are; `None`: that is not known.
    pub shapes = shapes: Option<&'static [Shape]>;
    /// What the descriptor in the first argument is for.
    pub fd_role = fd: FdRole;
    /// What the in-process library does with the call.
    pub shim = shim: Shim;
    /// Whether the call may block on the host, and what ends that.
    pub blocks = blocks: Blocks;
    /// read(2), write(2) and these with vectors: calls that send no signal but by the file.
    pub is_plain_io = plain_io: bool;
    /// Whether the call may ask for signals that come with other calls.
    pub file_signals = signals: FileSignals;
    /// How virtual time treats the call.
    pub sched_class = sched: Sched;
    /// Whether the filter lets the host do the call without a notification in virtual time: it
    /// neither waits nor tells of time or chance. Calls that change files are not among them, since
    /// other machines may have these, too. The first calls that C libraries and Go make in a new
    /// thread (rseq(2), set_robust_list(2), gettid(2), sigaltstack(2)) are not among them: they stop
    /// it before it touches anything that it shares.
    pub is_untrapped = untrapped: bool;
    /// With what the call conflicts that other machines' threads do at the same time.
    pub conflict = conflict: Conflict;
    /// Whether a machine may come to share something with others by the call.
    pub sharing = sharing: Sharing;
    /// Where the call has a path.
    pub path_args = path: PathArgs;
    /// Where open(2) and its like have their flags.
    pub open_flags = open_flags: OpenFlags;
    /// Which form of stat(2) the call is.
    pub status = status: Status;
    /// What a call that looks up a path writes.
    pub output = output: Output;
    /// Which form of poll(2), select(2) or epoll_wait(2) the call is.
    pub polling = polling: Polling;
    /// In which argument programs with a shared ring mark the call as the host's business alone.
    pub marked = marked: Option<u32>;
    /// The same in virtual time. Of the flags' pairs of calls, that is the half of an argument that
    /// 64-bit hosts ignore.
    pub marked_in_time = marked_in_time: Option<u32>;
    /// Whether the dynamic linker makes the call on libraries.
    pub is_linkers = linker: bool;
    /// Whether the call is made again if a signal came before it began.
    pub restart = restart: Restart;
    /// As [`kind`], of calls of x86-64.
    kind_of_native = kind: Kind;
}

/// What the worker has to do with the call: its trap class.
#[inline]
pub const fn kind(nr: i64) -> Kind {
    match nr {
        FOREIGN => Kind::Foreign,
        _ => kind_of_native(nr),
    }
}
