//! `--rights`, as several commands have it.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vink_spec::Rights;

/// The rights that programs can have, with what each of them is.
pub(crate) fn rights_parser() -> impl TypedValueParser<Value = Rights> {
    let one = |(name, rights): (&'static str, Rights)| {
        PossibleValue::new(name).help(match rights {
            Rights::Full => "Root's: programs may configure the machine's network",
            Rights::User => "A user's: they may use the network and change nothing of it",
        })
    };
    PossibleValuesParser::new(Rights::NAMES.map(one))
        .map(|name| name.parse().expect("one of the names"))
}
