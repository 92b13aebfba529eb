//! What programs may do on a machine, as their tasks have it, and what a machine needs for it.

use vink_kernel::{Credentials, Kernel};
use vink_spec::Rights;

use crate::{Error, Machine};

/// The credentials of programs with these rights.
pub fn credentials(rights: Rights) -> Credentials {
    match rights {
        Rights::Full => Credentials::ROOT,
        Rights::User => Credentials::USER,
    }
}

impl Machine {
    /// Gives users what they have on most hosts, and need without `CAP_NET_RAW`: they may send ICMP
    /// echo requests (icmp(7), `ping_group_range`), as ping(8) does.
    ///
    /// # Errors
    /// As [`NetworkConfig::sysctl`](crate::NetworkConfig::sysctl).
    pub fn allow_users(&self, kernel: &mut Kernel) -> Result<(), Error> {
        let range = "net/ipv4/ping_group_range";
        self.network.sysctl(kernel, range, "0 2147483647")
    }
}
