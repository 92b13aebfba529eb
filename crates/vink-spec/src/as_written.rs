//! Objects of labs in requests: read from JSON by the same rules as lab files are, with what is wrong
//! in the same words. For `#[serde(deserialize_with)]`.

use std::cell::RefCell;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::diagnostic::Diagnostics;
use crate::node::Node;
use crate::read::Reader;
use crate::{
    Breakpoint, Interface, Lab, MachineSpec, PodSpec, RelaySpec, Series, Settings, WireSpec,
};

thread_local! {
    /// Serde's errors are texts: this is what the last one was made of.
    static REFUSED: RefCell<Option<Diagnostics>> = const { RefCell::new(None) };
}

/// Why the last object on this thread that was refused was so, with paths within it. It is told
/// once.
pub fn refused() -> Option<Diagnostics> {
    REFUSED.take()
}

fn object<'de, D: Deserializer<'de>, T>(
    from: D,
    read: fn(&mut Reader, &Node) -> Option<T>,
) -> Result<T, D::Error> {
    let node = Node::from(&Value::deserialize(from)?);
    let mut reader = Reader::default();
    match read(&mut reader, &node) {
        Some(object) if reader.mistakes.is_empty() => Ok(object),
        _ => {
            let mistakes = Diagnostics(reader.mistakes);
            let error = D::Error::custom(&mistakes);
            REFUSED.set(Some(mistakes));
            Err(error)
        }
    }
}

/// A function for each kind.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident -> $object:ty = $read:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// What is wrong; [`refused`] has it as it is.
            pub fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<$object, D::Error> {
                object(from, $read)
            }
        )*
    };
}

objects! {
    /// A lab, with what it generates. That its parts fit together is looked at by
    /// [`check_lab`](crate::check_lab).
    lab -> Lab = Reader::lab;
    /// A machine.
    machine -> MachineSpec = Reader::machine;
    /// An interface.
    interface -> Interface = Reader::interface;
    /// A wire.
    wire -> WireSpec = Reader::wire;
    /// What a wire does to packets.
    settings -> Settings = |r, n| r.fields(n, "`settings`", |r, f| r.settings(f));
    /// A breakpoint.
    breakpoint -> Breakpoint = Reader::breakpoint;
    /// A pod, or none.
    pod -> Option<PodSpec> = |r, n| match n.is_null() {
        true => Some(None),
        false => r.pod(n).map(Some),
    };
    /// A relay.
    relay -> RelaySpec = Reader::relay;
    /// A time series.
    series -> Series = Reader::series;
}
