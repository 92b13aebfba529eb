//! From a configuration to a machine that is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use vink_kernel::{find_image_beside, image_named, Image, Kernel};
use vink_lab::{Machine, Network, Outside, Passt};
use vink_spec::Uplink;
use vink_trap::{Home, Site};

use crate::devices::Inside;
use crate::{Config, Error};

/// The way out's name on the machine.
const INTERFACE: &str = "eth0";

/// Descriptors of the program have numbers below this one, as a rule; ours have others.
const OWN: u64 = 1024;

/// What came of it.
pub(crate) struct Booted {
    pub inside: Inside,
    pub home: Home,
}

impl Booted {
    pub fn new(config: &Config) -> Result<Booted, Error> {
        if let Some(root) = config.root.as_deref().filter(|root| !root.is_dir()) {
            return Err(Error::Root(root.to_owned()));
        }
        with_own_numbers(|| Booted::with(config))?
    }

    fn with(config: &Config) -> Result<Booted, Error> {
        // First of all, since it takes as long as all the rest.
        let mut passt = match &config.uplink {
            Some(Uplink::Passt { .. }) => Some(Passt::start(&config.publish)?),
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
        let mut resolver = String::new();
        let mut addresses = config.addresses.clone();
        match (&config.uplink, &mut passt) {
            (_, Some(passt)) => {
                let route = passt.attach(&mut inside, &machine)?;
                (addresses, resolver) = (route.addresses, route.resolver);
                passt.wait()?;
            }
            (Some(uplink), None) => attach(&mut inside, &machine, uplink, config)?,
            (None, None) => {}
        }
        if let Some(passt) = passt {
            inside.keep(passt);
        }
        let addresses: Vec<_> = addresses.iter().map(|network| network.address).collect();
        let mut home = machine.home(&addresses, &resolver);
        if let Some(root) = &config.root {
            home = home.root(root);
        }
        Ok(Booted { inside, home })
    }
}

/// Gives the machine a way out that is not passt.
fn attach(
    inside: &mut Inside,
    machine: &Machine,
    uplink: &Uplink,
    config: &Config,
) -> Result<(), Error> {
    Outside::attach(inside, machine, INTERFACE, uplink)?;
    let (kernel, admin) = (inside.kernel(), machine.admin);
    for Network { address, prefix } in &config.addresses {
        admin.address(kernel, INTERFACE, *address, *prefix)?;
    }
    admin.up(kernel, INTERFACE)?;
    for gateway in &config.gateways {
        let all: IpAddr = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        admin.route(kernel, all, 0, *gateway)?;
    }
    Ok(())
}

/// The file that this code was loaded from, by dladdr(3).
fn library() -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: plain data.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
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

/// Has descriptors that are made meanwhile get numbers that no program comes upon: as many as it may have are taken.
/// Those above the limit stay open when that is lowered again (getrlimit(2)).
fn with_own_numbers<T>(make: impl FnOnce() -> T) -> Result<T, Error> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let most = limit.rlim_cur.saturating_add(64).min(limit.rlim_max);
    let raised = libc::rlimit {
        rlim_cur: most,
        ..limit
    };
    let first = OWN.min(most.saturating_sub(64));
    // SAFETY: reads the structure.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) };
    let taken = take_below(first);
    let made = taken.map(|taken| {
        let made = make();
        drop(taken);
        made
    });
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    made
}

/// Descriptors of all numbers below this one that are free.
fn take_below(first: u64) -> Result<Vec<OwnedFd>, Error> {
    let mut taken = Vec::new();
    // SAFETY: makes a descriptor.
    let mut last = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    loop {
        if last < 0 {
            return Err(Error::last("making descriptors"));
        }
        // SAFETY: new, and nobody else's.
        let made = unsafe { OwnedFd::from_raw_fd(last) };
        if u64::from(last as u32) >= first {
            return Ok(taken);
        }
        // SAFETY: makes a descriptor.
        last = unsafe { libc::fcntl(made.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
        taken.push(made);
    }
}
