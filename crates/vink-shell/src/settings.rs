//! What wires do to packets, as words of a line: `rate 10mbit delay 20ms loss 1%`.

use std::str::FromStr;

use vink_spec::{Burst, Settings, Share};

use crate::parse::Words;
use crate::ParseError;

/// The settings' names and what each is followed by.
pub(crate) const SETTINGS: [(&str, &str); 11] = [
    ("rate", "bits per second, such as 10mbit; 0: unlimited"),
    ("delay", "a time, such as 10ms"),
    ("jitter", "a time, such as 2ms"),
    ("overtake", "yes or no"),
    ("loss", "a share, such as 1%"),
    (
        "burst",
        "START,END[,LOSS[,GOOD-LOSS]], four shares such as 1%,20%,100%,0%",
    ),
    ("corrupt", "a share, such as 0.1%"),
    ("duplicate", "a share, such as 0.1%"),
    ("reorder", "a share, such as 5%"),
    ("limit", "a number of packets"),
    ("mtu", "a number of bytes"),
];

/// Whether this is the name of a wire's setting, such as `delay`.
pub fn is_setting(word: &str) -> bool {
    SETTINGS.iter().any(|(name, _)| *name == word)
}

/// All setting names, for messages.
pub(crate) fn names() -> String {
    SETTINGS.map(|(name, _)| name).join(", ")
}

/// Takes the setting of this name with its value.
pub(crate) fn take(
    settings: &mut Settings,
    name: &str,
    words: &mut Words,
) -> Result<(), ParseError> {
    let Some((_, expected)) = SETTINGS.iter().find(|(known, _)| *known == name) else {
        return Err(words.wrong(&format!("one of {}", names()), Some(name)));
    };
    let value = words.next(&format!("after '{name}' {expected}"))?;
    let settings_error = |why: String| words.mistake(&format!("{name}: {why}"));
    match name {
        "rate" => settings.rate = Some(read(&value).map_err(settings_error)?),
        "delay" => settings.delay = Some(read(&value).map_err(settings_error)?),
        "jitter" => settings.jitter = Some(read(&value).map_err(settings_error)?),
        "overtake" => {
            settings.overtake = Some(match value.as_str() {
                "yes" => true,
                "no" => false,
                _ => return Err(words.wrong("after 'overtake' yes or no", Some(&value))),
            })
        }
        "loss" => settings.loss = Some(read(&value).map_err(settings_error)?),
        "burst" => settings.burst = Some(burst(&value).map_err(settings_error)?),
        "corrupt" => settings.corrupt = Some(read(&value).map_err(settings_error)?),
        "duplicate" => settings.duplicate = Some(read(&value).map_err(settings_error)?),
        "reorder" => settings.reorder = Some(read(&value).map_err(settings_error)?),
        "limit" => settings.limit = Some(number(&value).map_err(settings_error)?),
        _ => settings.mtu = Some(number(&value).map_err(settings_error)?),
    }
    Ok(())
}

fn read<T: FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a whole number of at most {}", u32::MAX))
}

/// `p,r[,1-h[,1-k]]`.
fn burst(text: &str) -> Result<Burst, String> {
    let shares = text
        .split(',')
        .map(read)
        .collect::<Result<Vec<Share>, String>>()?;
    match shares[..] {
        [start, end, ref rest @ ..] if rest.len() <= 2 => Ok(Burst {
            start,
            end,
            loss: rest.first().copied().unwrap_or(Share(1.0)),
            good_loss: rest.get(1).copied().unwrap_or(Share(0.0)),
        }),
        _ => Err(format!(
            "{text:?} is not START,END[,LOSS[,GOOD-LOSS]]: write it like 1%,20%"
        )),
    }
}

/// As they are written in a line; empty if nothing is set.
pub(crate) fn written(settings: &Settings) -> String {
    let text = |name: &str, value: Option<&dyn std::fmt::Display>| {
        value.map(|value| format!("{name} {value}"))
    };
    fn of<T: std::fmt::Display>(value: &Option<T>) -> Option<&dyn std::fmt::Display> {
        value.as_ref().map(|value| value as &dyn std::fmt::Display)
    }
    let overtake = settings.overtake.map(|yes| if yes { "yes" } else { "no" });
    let burst = settings.burst.map(|b| {
        let shares = [b.start, b.end, b.loss, b.good_loss];
        shares.map(|share| share.to_string()).join(",")
    });
    [
        text("rate", of(&settings.rate)),
        text("delay", of(&settings.delay)),
        text("jitter", of(&settings.jitter)),
        text("overtake", of(&overtake)),
        text("loss", of(&settings.loss)),
        text("burst", of(&burst)),
        text("corrupt", of(&settings.corrupt)),
        text("duplicate", of(&settings.duplicate)),
        text("reorder", of(&settings.reorder)),
        text("limit", of(&settings.limit)),
        text("mtu", of(&settings.mtu)),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" ")
}
