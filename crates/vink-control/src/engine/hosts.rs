//! The names of a lab's machines, as hosts(5): one text for all of them.

use std::fmt::Write;
use std::sync::Arc;

use vink_protocol::Action;
use vink_spec::Lab as Spec;

use super::lab::Lab;
use crate::http_error::HttpError;

/// A machine's name stands for its first address of either family, `machine-interface` for all of
/// one interface.
pub(crate) fn hosts(spec: &Spec) -> String {
    let mut text = String::new();
    for (machine, spec) in &spec.machines {
        let (mut v4, mut v6) = (false, false);
        for (interface, spec) in &spec.interfaces {
            for address in &spec.addresses {
                let address = address.addr();
                let first = match address.is_ipv4() {
                    true => !std::mem::replace(&mut v4, true),
                    false => !std::mem::replace(&mut v6, true),
                };
                let name = if first { machine } else { "" };
                let gap = if first { " " } else { "" };
                writeln!(text, "{address}\t{name}{gap}{machine}-{interface}")
                    .expect("writing to a string");
            }
        }
    }
    text
}

impl Lab {
    /// Sees to it that a worker has all names before a program is started there: when machines come
    /// one by one, workers get them when a program or a client could read them.
    pub(crate) fn tell_hosts(self: &Arc<Lab>, worker: usize) -> Result<(), HttpError> {
        let mut state = self.state();
        if state.workers[worker].knows_hosts {
            return Ok(());
        }
        // Sent before the lock is let go: what others ask for then comes after it, too.
        let text = hosts(&state.spec);
        self.ask_in(&state, worker, Action::Hosts { text }, Vec::new())?;
        state.workers[worker].knows_hosts = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_spec::{Interface, MachineSpec};

    #[test]
    fn first_addresses_and_all() {
        let mut machine = MachineSpec::default();
        for (name, addresses) in [
            ("eth0", ["10.0.0.1/24", "fd00::1/64"]),
            ("eth1", ["10.0.1.1/24", "10.0.1.2/24"]),
        ] {
            let addresses = addresses.map(|a| a.parse().unwrap()).to_vec();
            let interface = Interface {
                addresses,
                ..Interface::default()
            };
            machine.interfaces.insert(name.to_owned(), interface);
        }
        let mut spec = Spec::default();
        spec.machines.insert("r1".to_owned(), machine);
        assert_eq!(
            hosts(&spec),
            "10.0.0.1\tr1 r1-eth0\nfd00::1\tr1 r1-eth0\n10.0.1.1\tr1-eth1\n10.0.1.2\tr1-eth1\n"
        );
    }
}
