//! What `--so_flags` may say: words of the form `name=value`, with commas in between.

use std::net::IpAddr;
use std::path::PathBuf;

use vink_kernel::Clock;

/// How the machine is to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `image=PATH`; otherwise where `vink` finds one.
    pub(crate) image: Option<PathBuf>,
    /// `clock=virtual` (the default) or `clock=real`.
    pub(crate) clock: Clock,
    /// `local=ADDRESS/BITS`, any number of times; otherwise those of the kernel's own scripts.
    pub(crate) local: Vec<(IpAddr, u8)>,
    /// `mtu=BYTES`.
    pub(crate) mtu: u32,
    /// `patience=SECONDS`, by the clock: a packet or the end of a call that has not come by then does not come.
    pub(crate) patience: u64,
}

/// packetdrill's `--local_ip` as tools/testing/selftests/net/packetdrill/ksft_runner.sh of Linux has it.
const LOCAL: [&str; 2] = ["192.168.0.1/16", "fd3d:a0b:17d6::1/48"];

impl Flags {
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Flags, String> {
        let mut flags = Flags {
            image: None,
            clock: Clock::Virtual,
            local: Vec::new(),
            mtu: 1500,
            patience: 3600,
        };
        let mut patience = None;
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let wrong = || {
                format!("{word:?} is none of image=PATH, clock=virtual, clock=real, local=ADDRESS/BITS, mtu=BYTES, patience=SECONDS")
            };
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            match (name, value) {
                ("image", path) => flags.image = Some(path.into()),
                ("clock", "virtual") => flags.clock = Clock::Virtual,
                ("clock", "real") => flags.clock = Clock::Real,
                ("local", value) => flags.local.push(network(value).ok_or_else(wrong)?),
                ("mtu", value) => flags.mtu = value.parse().map_err(|_| wrong())?,
                ("patience", value) => patience = Some(value.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        if flags.local.is_empty() {
            flags.local = LOCAL.iter().filter_map(|text| network(text)).collect();
        }
        // Nobody waits an hour.
        let usual = if flags.clock == Clock::Real { 60 } else { 3600 };
        flags.patience = patience.unwrap_or(usual);
        Ok(flags)
    }
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits = bits.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_ones() {
        let flags = Flags::parse("").unwrap();
        assert_eq!(
            (flags.clock, flags.mtu, flags.patience),
            (Clock::Virtual, 1500, 3600)
        );
        assert_eq!(flags.local.len(), 2);
    }

    #[test]
    fn all_of_them() {
        let flags =
            Flags::parse("clock=real,local=10.0.0.1/8,mtu=1520,image=/a/b.so,patience=5").unwrap();
        let local = vec![("10.0.0.1".parse().unwrap(), 8)];
        let image = Some(PathBuf::from("/a/b.so"));
        let wanted = Flags {
            image,
            clock: Clock::Real,
            local,
            mtu: 1520,
            patience: 5,
        };
        assert_eq!(flags, wanted);
    }

    #[test]
    fn mistakes_are_named() {
        for text in [
            "clock",
            "clock=slow",
            "local=10.0.0.1",
            "local=10.0.0.1/33",
            "mtu=x",
            "a=b",
        ] {
            let error = Flags::parse(&format!("mtu=1500,{text}")).unwrap_err();
            assert!(
                error.starts_with(&format!("{text:?} is none of")),
                "{error}"
            );
        }
    }
}
