//! What a wire does to packets in one direction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Rate, Share, Span};

/// What happens to packets that are sent at one end of a wire. What is not named is ideal; with nothing named the
/// wire hands packets over whole. See docs/wires.md.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Bits per second of whole Ethernet frames; packets are sent one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long a packet travels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// The travel time varies by up to this much in either direction, evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// Whether jitter lets packets overtake each other (default: no).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtake: Option<bool>,
    /// Share of packets lost, each by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// Losses in bursts, in the place of `loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Share of packets in which one bit is turned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Share>,
    /// Share of packets that arrive twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Share>,
    /// Share of packets that are not delayed, and so overtake others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Share>,
    /// How many packets may be on the way at once; more are lost (default: as many as memory allows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The largest packet in bytes, without its Ethernet header, and the MTU of interfaces attached (default 1500).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// Losses by the model of Gilbert and Elliott: a wire is in a good or in a bad state, and changes between them with
/// each packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Burst {
    /// Probability of going from good to bad (p).
    pub start: Share,
    /// Probability of going from bad to good (r).
    pub end: Share,
    /// Share of packets lost in the bad state (1-h; default 100%).
    #[serde(default = "all")]
    pub loss: Share,
    /// Share of packets lost in the good state (1-k; default none).
    #[serde(default)]
    pub good_loss: Share,
}

fn all() -> Share {
    Share(1.0)
}

impl Settings {
    /// These, with what `change` names in the place of what is here. An explicit zero makes a setting ideal again.
    pub fn with(&self, change: &Settings) -> Settings {
        Settings {
            rate: change.rate.or(self.rate),
            delay: change.delay.or(self.delay),
            jitter: change.jitter.or(self.jitter),
            overtake: change.overtake.or(self.overtake),
            loss: change.loss.or(self.loss),
            burst: change.burst.or(match change.loss {
                Some(_) => None,
                None => self.burst,
            }),
            corrupt: change.corrupt.or(self.corrupt),
            duplicate: change.duplicate.or(self.duplicate),
            reorder: change.reorder.or(self.reorder),
            limit: change.limit.or(self.limit),
            mtu: change.mtu.or(self.mtu),
        }
    }

    /// The same without what is said and makes no difference, such as a loss of 0.
    pub fn plain(&self) -> Settings {
        let lossy = |share: &Share| share.0 > 0.0;
        Settings {
            rate: self.rate.filter(|rate| rate.0 > 0),
            delay: self.delay.filter(|delay| delay.0 > 0),
            jitter: self.jitter.filter(|jitter| jitter.0 > 0),
            overtake: self.overtake.filter(|overtake| *overtake),
            loss: self.loss.filter(lossy),
            burst: self
                .burst
                .filter(|burst| lossy(&burst.good_loss) || lossy(&burst.start)),
            corrupt: self.corrupt.filter(lossy),
            duplicate: self.duplicate.filter(lossy),
            reorder: self.reorder.filter(lossy),
            limit: self.limit,
            mtu: self.mtu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_the_rest() {
        let old = Settings {
            rate: Some(Rate(1000)),
            loss: Some(Share(0.5)),
            ..Settings::default()
        };
        let change = Settings {
            loss: Some(Share(0.0)),
            ..Settings::default()
        };
        let new = old.with(&change);
        assert_eq!(new.rate, Some(Rate(1000)));
        assert_eq!(new.loss, Some(Share(0.0)));
    }
}
