//! From a configuration to a machine that is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vink_kernel::{find_image_beside, image_named, monotonic, DeviceHost, Image, Kernel};
use vink_lab::{Machine, Network, Passt, UplinkAttachment};
use vink_spec::Uplink;
use vink_sys::fd::duplicate;
use vink_sys::plain::Zeroed;

use crate::devices::Inside;
use crate::host::poll;
use crate::{Config, Error};

/// The way out's name on the machine.
const INTERFACE: &str = "eth0";

/// How long the other end of a wire may take to answer.
const ANSWER_TIMEOUT_NS: u64 = 2_000_000_000;

/// A kernel with its machine, on its way out.
pub(crate) fn boot(config: &Config) -> Result<Inside, Error> {
    // First of all, since it takes as long as all the rest.
    let mut passt = match &config.uplink {
        // No child that the program finds when it waits for its own.
        Some(Uplink::Passt { .. }) => Some(Passt::start_detached(&config.publish)?),
        _ => None,
    };
    let image = match &config.image {
        Some(name) => image_named(name)?,
        None => find_image_beside(library().as_deref())?,
    };
    let settings = vink_kernel::Config {
        arena_bytes: config.arena,
        cmdline: config.cmdline.clone(),
        ..vink_kernel::Config::default()
    };
    let mut kernel = Kernel::boot(Image::open(&image)?, settings)?;
    let machine = Machine::new(&mut kernel, &config.name)?;
    let mut inside = Inside::new(kernel, machine.clone())?;
    match (&config.uplink, &mut passt) {
        (_, Some(passt)) => {
            passt.attach(&mut inside, &machine)?;
            passt.wait()?;
        }
        (Some(uplink), None) => attach(&mut inside, &machine, uplink, config)?,
        (None, None) => {}
    }
    if let Some(passt) = passt {
        inside.keep(passt);
    }
    Ok(inside)
}

/// Gives the machine a way out that is not passt.
fn attach(
    inside: &mut Inside,
    machine: &Machine,
    uplink: &Uplink,
    config: &Config,
) -> Result<(), Error> {
    let outside = match config.broker {
        Some(socket) => {
            // The number stays for programs that this one executes.
            let socket = duplicate(socket, true).map_err(|error| Error::System {
                what: "the broker's socket (VINK_BROKER)",
                errno: error.raw_os_error().unwrap_or(libc::EBADF),
            })?;
            UplinkAttachment::attach_by_broker(inside, machine, INTERFACE, socket)?
        }
        None => UplinkAttachment::attach(inside, machine, INTERFACE, uplink)?,
    };
    let until = monotonic() + ANSWER_TIMEOUT_NS;
    while outside.is_coming() && monotonic() < until {
        let mut set: Vec<_> = inside.poll_set().collect();
        poll(&mut set, Some(until.saturating_sub(monotonic())));
        inside.serve_all()?;
    }
    let (kernel, network) = (inside.kernel(), machine.network);
    if let Some(mac) = config.mac {
        network.ethernet_address(kernel, INTERFACE, mac.0)?;
    }
    for Network { address, prefix } in &config.addresses {
        network.address(kernel, INTERFACE, *address, *prefix)?;
    }
    network.up(kernel, INTERFACE)?;
    for gateway in &config.gateways {
        let all: IpAddr = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        network.route(kernel, all, 0, *gateway)?;
    }
    Ok(())
}

/// The file that this code was loaded from, by dladdr(3).
fn library() -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = libc::Dl_info::zeroed();
    let here = library as *const () as *const libc::c_void;
    // SAFETY: an address, and a structure that is filled in; its name lives as long as the library.
    let name = unsafe {
        if libc::dladdr(here, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        std::ffi::CStr::from_ptr(found.dli_fname)
    };
    Some(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
}
