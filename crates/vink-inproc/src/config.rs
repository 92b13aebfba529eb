//! What the environment says of the stack: the variables `VINK_*` of docs/in-process.md.

use std::env;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;

use vink_lab::{Forward, Network, HELPER};
use vink_spec::{size, EthernetAddress, Uplink};

use crate::Error;

/// How a stack is booted.
#[derive(Clone, Debug)]
pub struct Config {
    /// The image; `None`: that of `VINK_IMAGE`, or the one that is found beside the library, or where `vink` looks.
    pub image: Option<PathBuf>,
    /// `VINK_ARENA`: the kernel's memory in bytes, such as 256M.
    pub arena: u64,
    /// `VINK_CMDLINE`: kernel parameters.
    pub cmdline: String,
    /// `VINK_NAME`: the machine's host name.
    pub name: String,
    /// `VINK_UPLINK`: what its interface `eth0` leads to; `None`: there is no such interface.
    pub uplink: Option<Uplink>,
    /// `VINK_MAC`: the interface's Ethernet address; `None`: any.
    pub mac: Option<EthernetAddress>,
    /// `VINK_BROKER`: an inherited socket by which the end of the uplink's wire is asked for, of a
    /// program that is confined (`vink run --in-process --rights user`).
    pub broker: Option<RawFd>,
    /// `VINK_ADDRESS`: the interface's addresses.
    pub addresses: Vec<Network>,
    /// `VINK_GATEWAY`: the default routes.
    pub gateways: Vec<IpAddr>,
    /// `VINK_PUBLISH`: ports of the host that passt leads to the machine.
    pub publish: Vec<Forward>,
    /// `VINK_SPIN`: for how many ns a thread that waits looks for packets before it sleeps.
    pub spin: u64,
}

/// Says [`Config::broker`].
pub const BROKER: &str = "VINK_BROKER";

/// How long it spins unless told otherwise, in microseconds.
const SPIN_US: u64 = 50;

impl Default for Config {
    fn default() -> Config {
        Config {
            image: None,
            arena: 256 << 20,
            cmdline: String::new(),
            name: "vink".to_owned(),
            uplink: Some(Uplink::Passt {
                publish: Vec::new(),
            }),
            mac: None,
            broker: None,
            addresses: Vec::new(),
            gateways: Vec::new(),
            publish: Vec::new(),
            spin: SPIN_US * 1000,
        }
    }
}

impl Config {
    /// Reads this process's environment. What is not there, or empty, is as it is by default.
    ///
    /// # Errors
    /// [`Error::Setting`]; [`Error::Helper`].
    pub fn from_environment() -> Result<Config, Error> {
        Config::read(|name| env::var_os(name))
    }

    /// [`Config::broker`] of this process's environment, if it says a number.
    pub fn broker_of_environment() -> Option<RawFd> {
        env::var(BROKER).ok()?.parse().ok()
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Config, Error> {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        let text = |name| given(name).map(|value| value.to_string_lossy().into_owned());
        if let Some(name) = text(HELPER) {
            return Err(Error::Helper(name));
        }
        let mut config = Config::default();
        if let Some(value) = text("VINK_ARENA") {
            config.arena = size(&value).map_err(|why| bad("VINK_ARENA", &value, why))?;
        }
        if let Some(value) = text("VINK_CMDLINE") {
            config.cmdline = value;
        }
        if let Some(value) = text("VINK_NAME") {
            config.name = value;
        }
        if let Some(value) = text("VINK_UPLINK") {
            config.uplink = match value.as_str() {
                "none" => None,
                _ => Some(read("VINK_UPLINK", &value)?),
            };
        }
        if let Some(value) = text("VINK_MAC") {
            config.mac = Some(read("VINK_MAC", &value)?);
        }
        if let Some(value) = text(BROKER) {
            config.broker = Some(read(BROKER, &value)?);
        }
        config.addresses = list("VINK_ADDRESS", text("VINK_ADDRESS"))?;
        config.gateways = list("VINK_GATEWAY", text("VINK_GATEWAY"))?;
        config.publish = list("VINK_PUBLISH", text("VINK_PUBLISH"))?;
        if let Some(value) = text("VINK_SPIN") {
            let us: u64 = read("VINK_SPIN", &value)?;
            config.spin = us.saturating_mul(1000);
        }
        Ok(config)
    }
}

fn bad(name: &'static str, value: &str, why: String) -> Error {
    Error::Setting {
        name,
        value: value.to_owned(),
        why,
    }
}

fn read<T: FromStr<Err: ToString>>(name: &'static str, value: &str) -> Result<T, Error> {
    value
        .parse()
        .map_err(|error: T::Err| bad(name, value, error.to_string()))
}

/// Words between commas.
fn list<T: FromStr<Err: ToString>>(
    name: &'static str,
    value: Option<String>,
) -> Result<Vec<T>, Error> {
    let value = value.unwrap_or_default();
    let words = value.split(',').filter(|word| !word.is_empty());
    words.map(|word| read(name, word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: &[(&str, &str)]) -> Result<Config, Error> {
        Config::read(|name| {
            let found = settings.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn variables() {
        let config = with(&[
            ("VINK_UPLINK", "tap:tap0"),
            ("VINK_ADDRESS", "10.0.0.1/24,fd00::1/64"),
            ("VINK_GATEWAY", ""),
            ("VINK_MAC", "02:00:00:00:00:01"),
            ("VINK_SPIN", "7"),
            ("VINK_ARENA", "32M"),
            ("VINK_BROKER", "1023"),
        ])
        .expect("a configuration");
        assert_eq!(config.uplink, Some(Uplink::Tap("tap0".to_owned())));
        assert_eq!(config.addresses.len(), 2);
        assert_eq!(config.mac, Some(EthernetAddress([2, 0, 0, 0, 0, 1])));
        assert_eq!(config.gateways, Vec::<IpAddr>::new());
        assert_eq!((config.spin, config.arena), (7000, 32 << 20));
        assert_eq!(config.broker, Some(1023));
        assert_eq!(with(&[("VINK_UPLINK", "none")]).expect("none").uplink, None);
        let passt = with(&[]).expect("the default").uplink;
        assert!(matches!(passt, Some(Uplink::Passt { .. })));
    }

    #[test]
    fn mistakes_name_the_variable() {
        for (name, value) in [
            ("VINK_UPLINK", "token-ring"),
            ("VINK_ADDRESS", "10.0.0.1/24,x"),
            ("VINK_MAC", "03:00:00:00:00:01"),
            ("VINK_SPIN", "long"),
            ("VINK_ARENA", "1.5M"),
        ] {
            let error = with(&[(name, value)]).expect_err(value).to_string();
            assert!(error.starts_with(&format!("{name}=")), "{error}");
        }
    }
}
