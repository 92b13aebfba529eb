//! A machine's TAP interface: Ethernet frames to and from a descriptor of a task.

use vink_kernel::{Kernel, TaskId};

use vink_port::tun::{TUNSETOFFLOAD, TUN_F_TCP, TUN_F_UDP};
use vink_port::Offloads;

use crate::network_config::NetworkConfig;
use crate::{Error, Machine};

const TUN: &str = "/dev/net/tun\0";
/// Frames that wait to be read; each may have 64 KiB.
const QUEUE: u32 = 256;

/// Of linux/if_tun.h.
const TUNSETCARRIER: u64 = 0x4004_54e2;

/// An interface whose frames this process reads and writes. It is gone when its task is.
#[derive(Debug)]
pub(crate) struct Tap {
    network: NetworkConfig,
    name: String,
    /// Another interface of the machine, which is up as long as this one has a carrier.
    companion: Option<String>,
    pub(crate) task: TaskId,
    /// Of the task; does not block.
    pub(crate) file: i32,
}

impl Tap {
    /// Makes the interface, still down, whose frames have a header unless there are no offloads.
    pub(crate) fn new(
        kernel: &mut Kernel,
        machine: &Machine,
        name: &str,
        offloads: Offloads,
    ) -> Result<Tap, Error> {
        let network = NetworkConfig::new(kernel, machine.id)?;
        Tap::of(kernel, network, name, offloads).inspect_err(|_| {
            // What went wrong first is what matters.
            let _ = network.close(kernel);
        })
    }

    fn of(
        kernel: &mut Kernel,
        network: NetworkConfig,
        name: &str,
        offloads: Offloads,
    ) -> Result<Tap, Error> {
        let (header, features) = match offloads {
            Offloads::None => (0, 0),
            Offloads::Received => (libc::IFF_VNET_HDR, 0),
            Offloads::Tcp => (libc::IFF_VNET_HDR, TUN_F_TCP),
            Offloads::All => (libc::IFF_VNET_HDR, TUN_F_TCP | TUN_F_UDP),
        };
        let file = network.tap(kernel, TUN, name, header)?;
        let tap = Tap {
            network,
            name: name.to_owned(),
            companion: None,
            task: network.task(),
            file,
        };
        tap.ioctl(kernel, TUNSETOFFLOAD, features)
            // Machines of Linux 6.1 know nothing of UDP's segmentation.
            .or_else(|_| tap.ioctl(kernel, TUNSETOFFLOAD, features & TUN_F_TCP))?;
        network.queue(kernel, name, QUEUE)?;
        Ok(tap)
    }

    /// Has an interface of the machine, which is up, set down as long as this one has no carrier.
    pub(crate) fn with_companion(mut self, name: &str) -> Tap {
        self.companion = Some(name.to_owned());
        self
    }

    /// Reads a frame; `None` if there is none.
    pub(crate) fn read(
        &self,
        kernel: &mut Kernel,
        into: &mut [u8],
    ) -> Result<Option<usize>, vink_kernel::Error> {
        let [address, room] = [into.as_mut_ptr() as u64, into.len() as u64];
        let args = [self.file as u64, address, room, 0, 0, 0];
        let got = kernel.call(self.task, libc::SYS_read, args)?;
        Ok(usize::try_from(got).ok().filter(|got| *got > 0))
    }

    /// Writes a frame; false if the kernel would not have it.
    pub(crate) fn write(
        &self,
        kernel: &mut Kernel,
        frame: &[u8],
    ) -> Result<bool, vink_kernel::Error> {
        let [address, length] = [frame.as_ptr() as u64, frame.len() as u64];
        let args = [self.file as u64, address, length, 0, 0, 0];
        Ok(kernel.call(self.task, libc::SYS_write, args)? >= 0)
    }

    /// Has the interface show a carrier, or none.
    pub(crate) fn carrier(&self, kernel: &mut Kernel, on: bool) -> Result<(), vink_kernel::Error> {
        let value = i32::from(on);
        let address = (&raw const value) as u64;
        let args = [self.file as u64, TUNSETCARRIER, address, 0, 0, 0];
        kernel.call(self.task, libc::SYS_ioctl, args)?;
        // Asked for, it takes effect at once.
        let mut shown = self.network.carrier(kernel, &self.name).map(drop);
        if let Some(name) = &self.companion {
            shown = shown.and(match on {
                true => self.network.up(kernel, name),
                false => self.network.down(kernel, name),
            });
        }
        match shown {
            Err(Error::Kernel(error)) => Err(error),
            // A program may have renamed the interface, or removed it.
            _ => Ok(()),
        }
    }

    fn ioctl(&self, kernel: &mut Kernel, nr: u64, value: u64) -> Result<(), Error> {
        let args = [self.file as u64, nr, value, 0, 0, 0];
        let result = kernel.call(self.task, libc::SYS_ioctl, args)?;
        match result {
            0.. => Ok(()),
            _ => Err(Error::Refused {
                what: format!("ioctl {nr:#x} of a TAP interface"),
                errno: -result as i32,
                why: String::new(),
            }),
        }
    }
}
