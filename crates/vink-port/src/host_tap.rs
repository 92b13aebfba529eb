//! The backend to a TAP device of the host: its frames are the machine's.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use vink_sys::process::geteuid;

use super::backend::{Backend, Deliver, LinkState, Offloads, Stop, LARGEST};
use super::monitor::{HostLink, InterfaceRequest, Monitor};
use super::poll::{Poll, INPUT};
use super::tun::{TUNSETIFF, TUNSETOFFLOAD, TUN_F_TCP, TUN_F_UDP};
use crate::Error;

/// Frames received before it is the others' turn.
const FRAME_BUDGET: usize = 64;
const TUN: &str = "/dev/net/tun";

/// The device. It is gone with this, unless it was there before.
pub struct HostTap {
    file: File,
    monitor: Monitor,
    poll: Poll,
    name: String,
    offloads: Offloads,
    link: HostLink,
    /// The device has been deleted.
    deleted: bool,
    buffer: Box<[u8]>,
    lost: u64,
    mtu: u32,
}

impl HostTap {
    /// Opens the device of this name, or makes it.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open(name: &str) -> Result<HostTap, Error> {
        let user = geteuid();
        let remedy =
            format!("as root: ip tuntap add dev {name} mode tap user {user} vnet_hdr; ip link set {name} up");
        let fail = |what: &str, error: io::Error| {
            let why = match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) if what == TUN => {
                    "the host has no TUN/TAP driver: as root: modprobe tun".to_owned()
                }
                Some(libc::EACCES | libc::EPERM) if what == TUN => {
                    format!("as root: chmod 666 {TUN}")
                }
                Some(libc::EPERM | libc::EACCES) => format!(
                    "making a TAP device takes root (CAP_NET_ADMIN), using one that belongs to you does not: {remedy}"
                ),
                Some(libc::EBUSY) => "another program has it: end that, or take another name".to_owned(),
                Some(libc::EINVAL) => format!(
                    "there is an interface {name} that is no TAP device with one queue: take another name, or ip link delete {name}; {remedy}"
                ),
                _ => remedy.clone(),
            };
            Error::Uplink(format!("the uplink tap:{name}: {what}: {error}; {why}"))
        };
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            let what = "the name of an interface has 1 to 15 bytes";
            return Err(Error::Uplink(format!("the uplink tap:{name}: {what}")));
        }
        let mut options = File::options();
        options.read(true).write(true);
        let file = options.custom_flags(libc::O_NONBLOCK).open(TUN);
        let file = file.map_err(|e| fail(TUN, e))?;
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let mut value = [0; 24];
        value[..2].copy_from_slice(&(flags as i16).to_ne_bytes());
        let mut request = InterfaceRequest::new(name, value);
        let ioctl = |nr: u64, argument: u64| {
            // SAFETY: the descriptor is open, and the argument what this ioctl wants: a number, or
            // the address of a structure or number that lives long enough.
            match unsafe { libc::ioctl(file.as_raw_fd(), nr as _, argument) } {
                0.. => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        ioctl(TUNSETIFF, (&raw mut request) as u64).map_err(|e| fail("TUNSETIFF", e))?;
        // The program that made the device may have asked for longer headers.
        const TUNSETVNETHDRSZ: u64 = 0x4004_54d8;
        let size = super::backend::HEADER as i32;
        ioctl(TUNSETVNETHDRSZ, (&raw const size) as u64).map_err(|e| fail("TUNSETVNETHDRSZ", e))?;
        // Hosts before Linux 6.2 know nothing of UDP's segmentation.
        let offloads = match ioctl(TUNSETOFFLOAD, TUN_F_TCP | TUN_F_UDP) {
            Ok(()) => Offloads::All,
            Err(_) => {
                ioctl(TUNSETOFFLOAD, TUN_F_TCP).map_err(|e| fail("TUNSETOFFLOAD", e))?;
                Offloads::Tcp
            }
        };
        let other = |e| fail("waiting for it", e);
        let monitor = Monitor::new(name).map_err(other)?;
        let poll = Poll::new().map_err(other)?;
        poll.add(&file, INPUT).map_err(other)?;
        poll.add(&monitor, INPUT).map_err(other)?;
        Ok(HostTap {
            file,
            link: monitor.now(),
            mtu: monitor.mtu().map_err(other)?,
            monitor,
            poll,
            name: name.to_owned(),
            offloads,
            deleted: false,
            buffer: vec![0; LARGEST].into(),
            lost: 0,
        })
    }

    /// A read or write has failed.
    fn failed(&mut self, error: &io::Error) {
        if error.raw_os_error() == Some(libc::EBADFD) && !self.deleted {
            self.deleted = true;
            // It would always be ready. That it is no more in the set is no harm.
            let _ = self.poll.remove(&self.file);
        }
    }
}

impl Backend for HostTap {
    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        if let Some(link) = self.monitor.news() {
            self.link = link;
        }
        let name = &self.name;
        if self.deleted {
            return LinkState::Down(format!("the host's TAP device {name} has been deleted"));
        }
        match self.link {
            HostLink::Up { .. } => LinkState::Up,
            HostLink::Down(_) => LinkState::Down(format!(
                "the host's TAP device {name} is down: ip link set {name} up"
            )),
            // It has another name, or is in another namespace.
            HostLink::Missing => LinkState::Up,
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        for _ in 0..FRAME_BUDGET {
            match self.file.read(&mut self.buffer) {
                Ok(got) => deliver(&self.buffer[..got])?,
                Err(error) => {
                    self.failed(&error);
                    break;
                }
            }
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.buffer)
    }

    fn put(&mut self, length: usize) {
        if let Err(error) = self.file.write(&self.buffer[..length]) {
            self.failed(&error);
            self.lost += 1;
        }
    }

    fn flush(&mut self) -> bool {
        false
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn is_gone(&self) -> bool {
        self.deleted
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }
}
