//! An address with the size of its network: `10.0.0.1/24`, `fd00::1/64`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::Error;

/// An interface's address, or the destination of a route, as `ip` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// The number of leading bits that name the network: at most 32 or 128.
    pub prefix: u8,
}

impl FromStr for Network {
    type Err = Error;

    /// Reads `ADDRESS/PREFIX`; without a prefix, all bits. Fails with [`Error::Address`].
    fn from_str(text: &str) -> Result<Network, Error> {
        let bad = || Error::Address {
            text: text.to_owned(),
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), |p| p.parse().map_err(|_| bad()))?;
        if prefix > bits {
            return Err(bad());
        }
        Ok(Network { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in ["10.0.0.1/24", "0.0.0.0/0", "fd00::1/64", "::/0", "::1/128"] {
            assert_eq!(text.parse::<Network>().expect(text).to_string(), text);
        }
        assert_eq!("10.0.0.1".parse::<Network>().expect("no prefix").prefix, 32);
        assert_eq!("fd00::1".parse::<Network>().expect("no prefix").prefix, 128);
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "/24",
            "10.0.0.1/",
            "10.0.0.1/33",
            "fd00::1/129",
            "10.0.0/8",
            "host/24",
            "10.0.0.1/-1",
        ] {
            let error = text.parse::<Network>().expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
