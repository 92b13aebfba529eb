//! A machine's TAP interface: Ethernet frames to and from a descriptor of a task.

use vink_kernel::{Kernel, TaskId};

use crate::admin::Admin;
use crate::{Error, Machine};

/// `makedev(10, 200)`.
const TUN_DEVICE: u64 = 10 << 8 | 200;
const TUN: &str = "/dev/net/tun\0";
/// Frames that wait to be read; each may have 64 KiB.
const QUEUE: u32 = 256;

/// An interface whose frames this process reads and writes. It is gone when its task is.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) task: TaskId,
    /// Of the task; does not block.
    pub(crate) file: i32,
}

impl Tap {
    /// Makes the interface, still down, with this address of its own and this MTU in bytes.
    pub(crate) fn new(
        kernel: &mut Kernel,
        machine: &Machine,
        name: &str,
        hardware: [u8; 6],
        mtu: u32,
    ) -> Result<Tap, Error> {
        let admin = Admin::new(kernel, machine.id)?;
        for folder in ["/dev\0", "/dev/net\0"] {
            let args = [folder.as_ptr() as u64, 0o755, 0, 0, 0, 0];
            admin.make_file(kernel, libc::SYS_mkdir, args, folder)?;
        }
        let mode = u64::from(libc::S_IFCHR | 0o666);
        let args = [TUN.as_ptr() as u64, mode, TUN_DEVICE, 0, 0, 0];
        admin.make_file(kernel, libc::SYS_mknod, args, TUN)?;
        let file = admin.tap(kernel, TUN, name)?;
        admin.hardware(kernel, name, hardware)?;
        admin.mtu(kernel, name, mtu)?;
        admin.queue(kernel, name, QUEUE)?;
        Ok(Tap {
            task: admin.task(),
            file,
        })
    }
}
