//! The Ethernet address of an interface, as a command line or an environment says it.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address that one interface may have: `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetAddress(pub [u8; 6]);

impl FromStr for EthernetAddress {
    type Err = String;

    /// Six bytes in hexadecimal. An address of a group of interfaces (the first byte is odd) is none.
    fn from_str(text: &str) -> Result<EthernetAddress, String> {
        let of_one = |bytes: &[u8; 6]| bytes[0] & 1 == 0 && *bytes != [0; 6];
        let bytes = mac_bytes(text).filter(of_one).ok_or_else(|| {
            format!("{text:?} is not the Ethernet address of one interface: write it like 02:00:00:00:00:01")
        })?;
        Ok(EthernetAddress(bytes))
    }
}

impl fmt::Display for EthernetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Six bytes of an Ethernet address such as `02:00:00:00:00:01`.
pub fn mac_bytes(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses() {
        let read: EthernetAddress = "02:00:00:00:00:0a".parse().expect("an address");
        assert_eq!(read.to_string(), "02:00:00:00:00:0a");
        for bad in [
            "",
            "02:00:00:00:00",
            "01:00:00:00:00:01",
            "00:00:00:00:00:00",
        ] {
            bad.parse::<EthernetAddress>().expect_err(bad);
        }
    }
}
