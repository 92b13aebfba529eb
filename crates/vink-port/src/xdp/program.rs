//! What gives frames to a socket: a program at an interface (XDP), which sends those of one receive queue there, and leaves
//! the others to the host. It is made and attached by bpf(2), and goes when its descriptors are closed.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Of linux/bpf.h.
const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
const BPF_PSEUDO_MAP_FD: u8 = 1;
/// Of linux/if_link.h.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_PASS: i32 = 2;
/// Where `struct xdp_md` has the receive queue.
const RX_QUEUE_INDEX: i16 = 16;

/// A program at an interface. It is there until this is dropped.
pub struct Program {
    /// It runs in the interface's driver, before the host has made a packet of the frame.
    pub is_native: bool,
    _link: OwnedFd,
    _program: OwnedFd,
    _sockets: OwnedFd,
}

impl Program {
    /// Has the frames of this queue of the interface of this index go to the socket (AF_XDP).
    ///
    /// # Errors
    /// As bpf(2); `EBUSY`: the interface has such a program already.
    pub fn attach(index: u32, queue: u32, socket: &OwnedFd) -> io::Result<Program> {
        let sockets = bpf(
            BPF_MAP_CREATE,
            &mut MapCreate {
                kind: BPF_MAP_TYPE_XSKMAP,
                key_size: 4,
                value_size: 4,
                entries: queue + 1,
                flags: 0,
            },
        )?;
        put(&sockets, queue, socket)?;
        let program = load(&sockets)?;
        let link = |flags| {
            bpf(
                BPF_LINK_CREATE,
                &mut LinkCreate {
                    program: program.as_raw_fd() as u32,
                    index,
                    kind: BPF_XDP,
                    flags,
                },
            )
        };
        // In the driver if it can, else in the host's stack.
        let (link, is_native) = match link(XDP_FLAGS_DRV_MODE) {
            Ok(link) => (link, true),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(error),
            Err(_) => (link(XDP_FLAGS_SKB_MODE)?, false),
        };
        Ok(Program {
            is_native,
            _link: link,
            _program: program,
            _sockets: sockets,
        })
    }
}

/// Puts a socket into the map, by its queue.
fn put(sockets: &OwnedFd, queue: u32, socket: &OwnedFd) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let mut update = MapUpdate {
        map: sockets.as_raw_fd() as u32,
        _gap: 0,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    call(BPF_MAP_UPDATE_ELEM, &mut update).map(drop)
}

/// `return bpf_redirect_map(sockets, ctx->rx_queue_index, XDP_PASS);`
fn load(sockets: &OwnedFd) -> io::Result<OwnedFd> {
    let steps = [
        // r2 = *(u32 *)(r1 + RX_QUEUE_INDEX)
        Step::new(0x61, 2, 1, RX_QUEUE_INDEX, 0),
        // r1 = the map, in two steps
        Step::new(0x18, 1, BPF_PSEUDO_MAP_FD, 0, sockets.as_raw_fd()),
        Step::new(0, 0, 0, 0, 0),
        // r3 = XDP_PASS
        Step::new(0xb7, 3, 0, 0, XDP_PASS),
        Step::new(0x85, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        Step::new(0x95, 0, 0, 0, 0),
    ];
    bpf(
        BPF_PROG_LOAD,
        &mut ProgramLoad {
            kind: BPF_PROG_TYPE_XDP,
            count: steps.len() as u32,
            steps: steps.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log: [0; 4],
        },
    )
}

/// `struct bpf_insn`.
#[repr(C)]
struct Step {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

impl Step {
    fn new(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Step {
        Step {
            code,
            registers: from << 4 | to,
            offset,
            value,
        }
    }
}

/// Parts of `union bpf_attr`: what comes behind them is 0 to the host.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _gap: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    steps: u64,
    license: u64,
    /// Its level and size, and where: none.
    log: [u32; 4],
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    index: u32,
    kind: u32,
    flags: u32,
}

/// bpf(2), which makes a descriptor.
fn bpf<T>(command: i32, attributes: &mut T) -> io::Result<OwnedFd> {
    let made = call(command, attributes)?;
    // SAFETY: a new descriptor, closed on exec as all of bpf(2)'s.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

fn call<T>(command: i32, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: a part of `union bpf_attr`, and what it points to lives in the caller.
    let made = unsafe {
        let attributes = (&raw mut *attributes).cast::<libc::c_void>();
        libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>())
    };
    match made {
        0.. => Ok(made as i32),
        _ => Err(io::Error::last_os_error()),
    }
}
