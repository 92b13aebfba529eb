//! The names of a lab's machines: for apps that are told to go somewhere, and for `dnsserver`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

/// A table of names and their addresses. All clones are the same table, which may change at any
/// time.
#[derive(Clone, Debug, Default)]
pub struct Names(Rc<RefCell<BTreeMap<String, Vec<IpAddr>>>>);

impl Names {
    /// Gives a name these addresses and no others. Names differ in more than the case of their
    /// letters, and have no dot at their end.
    pub fn set(&self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses = addresses.into_iter().collect();
        self.0.borrow_mut().insert(key(name), addresses);
    }

    /// Takes a name out of the table.
    pub fn remove(&self, name: &str) {
        self.0.borrow_mut().remove(&key(name));
    }

    /// All of the table anew.
    pub fn replace(&self, table: impl IntoIterator<Item = (String, Vec<IpAddr>)>) {
        let table = table.into_iter().map(|(name, list)| (key(&name), list));
        *self.0.borrow_mut() = table.collect();
    }

    /// A name's addresses; `None`: there is no such name.
    pub fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.0.borrow().get(&key(name)).cloned()
    }

    /// The names of an address, in the order of the alphabet.
    pub fn names(&self, address: IpAddr) -> Vec<String> {
        let table = self.0.borrow();
        let has =
            |(name, list): (&String, &Vec<IpAddr>)| list.contains(&address).then(|| name.clone());
        table.iter().filter_map(has).collect()
    }
}

fn key(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}
