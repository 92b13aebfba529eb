//! The seccomp filter: a cBPF program that sends the calls of interest to the worker.
//!
//! The call number is found by binary search over ranges of equal treatment, so that any call is
//! decided in about seven instructions; the kernel caches numbers that are allowed whatever their
//! arguments are, and never runs the program for those.

use libc::sock_filter;

use crate::sched::determinism::ld_so::LdSo;
use vink_ring::UNTRAPPED;
use vink_syscalls::{
    file_signals, is_untrapped, kind, marked, marked_in_time, sched_class, FileSignals, Kind,
    Sched, NATIVE_FCNTLS, NR_END, TTY_IOCTLS,
};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JEQ: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JGE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JSET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RET: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const OFFSET_NR: u32 = 0;
const OFFSET_ARCH: u32 = 4;
/// Of the low half of the address behind the system call's instruction; the high half follows.
const OFFSET_ADDRESS: u32 = 8;
/// Of the low half of an argument.
const fn offset_arg(n: u32) -> u32 {
    16 + 8 * n
}

/// The only architecture whose numbers `calls` knows.
pub(crate) const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Set in the numbers of the x32 ABI, which no filter of this kind can tell apart by arch.
const X32_BIT: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// What the filter does with a number: decide, or compare an argument.
#[derive(Clone, PartialEq, Eq)]
enum Leaf {
    Return(u32),
    Socket,
    Fcntl,
    Ioctl,
    Mmap,
    Sigaction,
    Futex,
    Kill,
    Setns,
    /// Allowed if it is made at one of these addresses, which have the same high half.
    Sites(Vec<u64>),
    /// Allowed if it is marked in this argument as the host's business alone.
    Marked(u32, Box<Leaf>),
}

/// The last argument of futex(2) calls of a child that is not yet a program: no worker serves it
/// then.
pub(crate) const OWN_FUTEX: u32 = 0x564e_4b00;

/// What a filter is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    Plain,
    /// Virtual time, with the linker that programs are expected to have: its calls are untrapped.
    Time(Option<&'a LdSo>),
    /// Programs with shared rings.
    SharedRing,
    /// ... in virtual time.
    TimeAndSharedRing(Option<&'a LdSo>),
}

impl Purpose<'_> {
    /// Whether time is virtual.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Purpose::Time(_) | Purpose::TimeAndSharedRing(_))
    }
}

/// Of mmap(2)'s flags those that matter, and how they must be: of a file, and shared.
const SHARED_FILE: (u32, u32) = (
    (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u32,
    libc::MAP_SHARED as u32,
);

fn leaf(nr: i64, purpose: Purpose<'_>) -> Leaf {
    let sites = match purpose {
        Purpose::Time(linker) => linker.map_or(Vec::new(), |linker| linker.sites(nr)),
        Purpose::TimeAndSharedRing(linker) => {
            let other = leaf(nr, Purpose::Time(linker));
            return match marked_in_time(nr) {
                Some(place) => Leaf::Marked(place, Box::new(other)),
                None => other,
            };
        }
        Purpose::SharedRing => match marked(nr) {
            Some(place) => return Leaf::Marked(place, Box::new(Leaf::Return(NOTIFY))),
            None => Vec::new(),
        },
        Purpose::Plain => Vec::new(),
    };
    let time = purpose.is_virtual();
    match kind(nr) {
        Kind::Other if time && sched_class(nr) == Sched::Futex => Leaf::Futex,
        Kind::Io if file_signals(nr) == FileSignals::Ioctl => Leaf::Ioctl,
        Kind::Socket => Leaf::Socket,
        Kind::Fcntl => Leaf::Fcntl,
        Kind::Mmap => Leaf::Mmap,
        // Virtual time has other code behind the vDSO; its signals come while their threads are
        // blocked.
        Kind::Sigaction if time => Leaf::Return(ALLOW),
        Kind::Sigaction => Leaf::Sigaction,
        Kind::Uring => Leaf::Return(ENOSYS),
        Kind::Setns => Leaf::Setns,
        Kind::Kill if !time => Leaf::Kill,
        Kind::Other if !time || is_untrapped(nr) => Leaf::Return(ALLOW),
        _ if !sites.is_empty() => Leaf::Sites(sites),
        _ => Leaf::Return(NOTIFY),
    }
}

fn op(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn emit_leaf(leaf: &Leaf) -> Vec<sock_filter> {
    // "In the list: `hit`, else `miss`", with the value in the accumulator.
    let among = |list: &[u32], hit: u32, miss: u32| {
        let mut code = Vec::new();
        for (i, k) in list.iter().enumerate() {
            code.push(op(JEQ, *k, (list.len() - i) as u8, 0));
        }
        code.extend([op(RET, miss, 0, 0), op(RET, hit, 0, 0)]);
        code
    };
    match leaf {
        Leaf::Return(action) => vec![op(RET, *action, 0, 0)],
        Leaf::Socket => {
            let mut code = vec![op(LOAD, offset_arg(0), 0, 0)];
            code.extend(among(&[libc::AF_UNIX as u32], ALLOW, NOTIFY));
            code
        }
        Leaf::Fcntl => {
            let mut code = vec![op(LOAD, offset_arg(1), 0, 0)];
            code.extend(among(&NATIVE_FCNTLS, ALLOW, NOTIFY));
            code
        }
        Leaf::Futex => {
            let mut code = vec![op(LOAD, offset_arg(5), 0, 0)];
            code.extend(among(&[OWN_FUTEX], ALLOW, NOTIFY));
            code
        }
        // Of the caller's own group.
        Leaf::Kill => {
            let mut code = vec![op(LOAD, offset_arg(0), 0, 0)];
            code.extend(among(&[0], NOTIFY, ALLOW));
            code
        }
        // A user namespace is the host's business alone.
        Leaf::Setns => {
            let mut code = vec![op(LOAD, offset_arg(1), 0, 0)];
            code.extend(among(&[libc::CLONE_NEWUSER as u32], ALLOW, NOTIFY));
            code
        }
        Leaf::Sites(sites) => {
            let mut code = vec![
                op(LOAD, OFFSET_ADDRESS + 4, 0, 0),
                op(JEQ, (sites[0] >> 32) as u32, 1, 0),
                op(RET, NOTIFY, 0, 0),
                op(LOAD, OFFSET_ADDRESS, 0, 0),
            ];
            let sites: Vec<u32> = sites.iter().map(|site| *site as u32).collect();
            code.extend(among(&sites, ALLOW, NOTIFY));
            code
        }
        Leaf::Marked(place, other) => {
            let [low, high] = [UNTRAPPED as u32, (UNTRAPPED >> 32) as u32];
            let mut code = vec![
                op(LOAD, offset_arg(*place), 0, 0),
                op(JEQ, low, 0, 3),
                op(LOAD, offset_arg(*place) + 4, 0, 0),
                op(JEQ, high, 0, 1),
                op(RET, ALLOW, 0, 0),
            ];
            code.extend(emit_leaf(other));
            code
        }
        Leaf::Mmap => {
            let (looked_at, shared_file) = SHARED_FILE;
            let mut code = vec![op(LOAD, offset_arg(3), 0, 0), op(AND, looked_at, 0, 0)];
            code.extend(among(&[shared_file], NOTIFY, ALLOW));
            code
        }
        // With a new action: its address is not NULL.
        Leaf::Sigaction => vec![
            op(LOAD, offset_arg(1), 0, 0),
            op(JEQ, 0, 0, 2),
            op(LOAD, offset_arg(1) + 4, 0, 0),
            op(JEQ, 0, 1, 0),
            op(RET, NOTIFY, 0, 0),
            op(RET, ALLOW, 0, 0),
        ],
        Leaf::Ioctl => {
            let mut code = vec![
                op(LOAD, offset_arg(1), 0, 0),
                op(AND, 0xffff_ff00, 0, 0),
                op(JEQ, 0x5400, 1, 0),
                op(RET, NOTIFY, 0, 0),
                op(LOAD, offset_arg(1), 0, 0),
            ];
            code.extend(among(&TTY_IOCTLS, NOTIFY, ALLOW));
            code
        }
    }
}

/// Binary search over `ranges` (first number, leaf), with the number in the accumulator.
fn emit_search(ranges: &[(u32, Leaf)]) -> Vec<sock_filter> {
    if let [(_, only)] = ranges {
        return emit_leaf(only);
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let low_code = emit_search(low);
    let jump = u8::try_from(low_code.len()).expect("half of the filter is within a jump");
    let mut code = vec![op(JGE, high[0].0, jump, 0)];
    code.extend(low_code);
    code.extend(emit_search(high));
    code
}

/// The whole program, ready for seccomp(2).
pub(crate) fn program(purpose: Purpose<'_>) -> Vec<sock_filter> {
    let mut ranges: Vec<(u32, Leaf)> = Vec::new();
    for nr in 0..=NR_END as i64 {
        let leaf = leaf(nr, purpose);
        if ranges.last().is_none_or(|last| last.1 != leaf) {
            ranges.push((nr as u32, leaf));
        }
    }
    let mut code = vec![
        op(LOAD, OFFSET_ARCH, 0, 0),
        op(JEQ, AUDIT_ARCH_X86_64, 1, 0),
        op(RET, NOTIFY, 0, 0), // to be refused, but not in silence
        op(LOAD, OFFSET_NR, 0, 0),
        op(JSET, X32_BIT, 0, 1),
        op(RET, ENOSYS, 0, 0),
    ];
    code.extend(emit_search(&ranges));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel would; also counts instructions.
    fn run(arch: u32, nr: i64, args: [u64; 6]) -> (u32, usize) {
        run_at(&program(Purpose::Plain), 0, arch, nr, args)
    }

    fn run_at(
        code: &[sock_filter],
        address: u64,
        arch: u32,
        nr: i64,
        args: [u64; 6],
    ) -> (u32, usize) {
        let (mut pc, mut acc, mut steps) = (0, 0u32, 0);
        loop {
            let i = code[pc];
            pc += 1;
            steps += 1;
            let jump = |yes: bool| usize::from(if yes { i.jt } else { i.jf });
            match i.code {
                LOAD => {
                    acc = match i.k {
                        OFFSET_NR => nr as u32,
                        OFFSET_ARCH => arch,
                        OFFSET_ADDRESS => address as u32,
                        k if k == OFFSET_ADDRESS + 4 => (address >> 32) as u32,
                        k if k % 8 == 4 => (args[(k as usize - 16) / 8] >> 32) as u32,
                        k => args[(k as usize - 16) / 8] as u32,
                    }
                }
                AND => acc &= i.k,
                JEQ => pc += jump(acc == i.k),
                JGE => pc += jump(acc >= i.k),
                JSET => pc += jump(acc & i.k != 0),
                RET => return (i.k, steps),
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    fn on(nr: i64, args: [u64; 6]) -> u32 {
        run(AUDIT_ARCH_X86_64, nr, args).0
    }

    #[test]
    fn every_number_gets_its_leaf() {
        for nr in 0..600 {
            if let Leaf::Return(action) = leaf(nr, Purpose::Plain) {
                assert_eq!(on(nr, [0; 6]), action, "call {nr}");
            }
        }
    }

    #[test]
    fn arguments_decide() {
        let arg1 = |x: u64| [3, x, 0, 0, 0, 0];
        assert_eq!(on(libc::SYS_socket, [1, 1, 0, 0, 0, 0]), ALLOW);
        assert_eq!(on(libc::SYS_socket, [2, 1, 0, 0, 0, 0]), NOTIFY);
        assert_eq!(on(libc::SYS_socket, [16, 3, 0, 0, 0, 0]), NOTIFY);
        assert_eq!(on(libc::SYS_kill, [0, 9, 0, 0, 0, 0]), NOTIFY);
        assert_eq!(on(libc::SYS_kill, [u64::MAX, 9, 0, 0, 0, 0]), ALLOW);
        assert_eq!(on(libc::SYS_setns, arg1(libc::CLONE_NEWUSER as u64)), ALLOW);
        assert_eq!(on(libc::SYS_setns, arg1(0)), NOTIFY);
        // What a signal must not be able to interrupt.
        assert_eq!(on(libc::SYS_exit_group, [0; 6]), ALLOW);
        assert_eq!(on(libc::SYS_fcntl, arg1(libc::F_GETFD as u64)), ALLOW);
        assert_eq!(on(libc::SYS_fcntl, arg1(libc::F_SETFD as u64)), ALLOW);
        assert_eq!(on(libc::SYS_fcntl, arg1(libc::F_GETFL as u64)), NOTIFY);
        assert_eq!(on(libc::SYS_fcntl, arg1(libc::F_DUPFD as u64)), NOTIFY);
        let mmap = |flags: i32| on(libc::SYS_mmap, [0, 4096, 3, flags as u64, 3, 0]);
        assert_eq!(mmap(libc::MAP_SHARED), NOTIFY);
        assert_eq!(mmap(libc::MAP_SHARED_VALIDATE | libc::MAP_FIXED), NOTIFY);
        assert_eq!(mmap(libc::MAP_PRIVATE | libc::MAP_DENYWRITE), ALLOW);
        assert_eq!(mmap(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS), ALLOW);
        assert_eq!(mmap(libc::MAP_SHARED | libc::MAP_ANONYMOUS), ALLOW);
        for (action, answer) in [(0, ALLOW), (1 << 32, NOTIFY), (64, NOTIFY)] {
            assert_eq!(on(libc::SYS_rt_sigaction, arg1(action)), answer);
        }
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::TCGETS)), ALLOW);
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::TIOCGPGRP)), ALLOW);
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::TIOCSPGRP)), NOTIFY);
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::FIOCLEX)), ALLOW);
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::FIONBIO)), NOTIFY);
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::FIONREAD)), NOTIFY);
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::TIOCOUTQ)), NOTIFY);
        assert_eq!(on(libc::SYS_ioctl, arg1(libc::FIOASYNC)), NOTIFY);
        assert_eq!(on(libc::SYS_ioctl, arg1(0x8912)), NOTIFY); // SIOCGIFCONF
    }

    #[test]
    fn marks_count_for_programs_with_rings() {
        let arch = AUDIT_ARCH_X86_64;
        let read = |purpose, mark| {
            run_at(
                &program(purpose),
                0,
                arch,
                libc::SYS_read,
                [3, 0, 0, 0, 0, mark],
            )
            .0
        };
        assert_eq!(read(Purpose::SharedRing, UNTRAPPED), ALLOW);
        for mark in [
            0,
            UNTRAPPED as u32 as u64,
            UNTRAPPED & !0xffff_ffff,
            UNTRAPPED + 1,
        ] {
            assert_eq!(read(Purpose::SharedRing, mark), NOTIFY);
        }
        assert_eq!(read(Purpose::Plain, UNTRAPPED), NOTIFY);
        assert_eq!(read(Purpose::Time(None), UNTRAPPED), NOTIFY);
        let place = |nr, args| {
            let code = program(Purpose::TimeAndSharedRing(None));
            run_at(&code, 0, arch, nr, args).0
        };
        for nr in [
            libc::SYS_preadv2,
            libc::SYS_pwritev2,
            libc::SYS_read,
            libc::SYS_close,
        ] {
            assert_eq!(place(nr, [3, 0, 0, 0, UNTRAPPED, 8]), ALLOW);
            assert_eq!(place(nr, [3, 0, 0, 0, 0, UNTRAPPED]), NOTIFY);
        }
        let flags = |mark| place(libc::SYS_fcntl, [3, libc::F_GETFL as u64, 0, 0, 0, mark]);
        assert_eq!((flags(UNTRAPPED), flags(0)), (ALLOW, NOTIFY));
        let own = [3, libc::F_GETFD as u64, 0, 0, 0, 0];
        assert_eq!(place(libc::SYS_fcntl, own), ALLOW);
        assert_eq!(place(libc::SYS_read, [3, 0, 0, 0, 0, UNTRAPPED]), NOTIFY);
        let connect = [3, 0, 0, 0, 0, UNTRAPPED];
        assert_eq!(
            run_at(
                &program(Purpose::SharedRing),
                0,
                arch,
                libc::SYS_connect,
                connect
            )
            .0,
            NOTIFY
        );
    }

    #[test]
    fn other_architectures_are_refused() {
        assert_eq!(run(0x4000_0003, libc::SYS_getpid, [0; 6]).0, NOTIFY);
        assert_eq!(on(libc::SYS_read | X32_BIT as i64, [0; 6]), ENOSYS);
        assert_eq!(on(libc::SYS_io_uring_setup, [0; 6]), ENOSYS);
    }

    #[test]
    fn the_linker_is_known_by_its_place() {
        let linker = LdSo::expected().unwrap();
        let code = program(Purpose::Time(Some(linker)));
        let at = |nr, address| run_at(&code, address, AUDIT_ARCH_X86_64, nr, [0; 6]).0;
        let all = [libc::SYS_read, libc::SYS_close, libc::SYS_openat];
        for nr in all {
            for site in linker.sites(nr) {
                assert_eq!(at(nr, site), ALLOW);
                assert_eq!(at(nr, site + 1), NOTIFY);
                assert_eq!(at(nr, site & 0xffff_ffff), NOTIFY);
                assert_eq!(at(libc::SYS_futex, site), NOTIFY);
                assert_eq!(at(libc::SYS_access, site), NOTIFY);
            }
            let none = program(Purpose::Time(None));
            let (action, _) = run_at(&none, linker.sites(nr)[0], AUDIT_ARCH_X86_64, nr, [0; 6]);
            assert_eq!(action, NOTIFY);
        }
    }

    #[test]
    fn no_call_takes_long() {
        for nr in 0..600 {
            let (_, steps) = run(AUDIT_ARCH_X86_64, nr, [0; 6]);
            assert!(steps <= 18, "call {nr} takes {steps} instructions");
        }
        assert!(program(Purpose::Time(LdSo::expected())).len() < 4096 / 8);
    }
}
