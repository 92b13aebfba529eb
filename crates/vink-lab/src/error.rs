//! What can go wrong while a box is set up.

use std::net::IpAddr;

/// An error of this crate. Each says what was tried and what the kernel answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel could not be driven.
    #[error(transparent)]
    Kernel(#[from] vink_kernel::Error),
    /// The kernel refused a request.
    #[error("{what}: {}{}", std::io::Error::from_raw_os_error(*.errno), because(.why))]
    Refused {
        /// What was asked for.
        what: String,
        /// A positive errno(3) value.
        errno: i32,
        /// The kernel's own explanation, if it gave one (`NLMSGERR_ATTR_MSG`), or nothing.
        why: String,
    },
    /// The worker could not be set up.
    #[error(transparent)]
    Trap(#[from] vink_trap::Error),
    /// There is no way to the outside: what was tried and what was found.
    #[error("{0}")]
    Uplink(String),
    /// The control process could not be talked to, or spoke otherwise than
    /// [`protocol`](crate::worker::protocol) says.
    #[error("{0}")]
    Protocol(String),
    /// A processor that the worker may not use.
    #[error("core {missing} can't be used: the control process may use {there}; see taskset(1)")]
    Core {
        /// Its number.
        missing: usize,
        /// Those that may be used, as taskset(1) has them.
        there: String,
    },
    /// Programs' calls can't have the form that was asked for.
    #[error("{0}")]
    Calls(String),
    /// What happened could not be written down.
    #[error(transparent)]
    Record(#[from] vink_record::Error),
    /// Not a forward as [`Forward`](crate::Forward) reads it.
    #[error("{text:?} is not a forward such as 8080:80, 127.0.0.1:8080:80 or 5353:53/udp")]
    Forward {
        /// What was given.
        text: String,
    },
    /// Not an address as [`Network`](crate::Network) reads it.
    #[error("{text:?} is not an address such as 10.0.0.1/24 or fd00::1/64")]
    Address {
        /// What was given.
        text: String,
    },
}

impl Error {
    /// The error of a request that names this address, which says so if the image has no such
    /// addresses.
    pub(crate) fn of_address(mut self, address: IpAddr) -> Error {
        if let Error::Refused { errno, why, .. } = &mut self {
            let is_unknown = matches!(*errno, libc::EOPNOTSUPP | libc::EAFNOSUPPORT);
            if address.is_ipv6() && is_unknown && why.is_empty() {
                "the image has no IPv6".clone_into(why);
            }
        }
        self
    }

    /// Whether the kernel does not have the file that was asked for.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(
            self,
            Error::Refused {
                errno: libc::ENOENT,
                ..
            }
        )
    }
}

impl From<vink_port::Error> for Error {
    fn from(error: vink_port::Error) -> Error {
        Error::Uplink(error.to_string())
    }
}

fn because(why: &str) -> String {
    if why.is_empty() {
        String::new()
    } else {
        format!(" ({why})")
    }
}
