//! What an image shows of itself: the calls of abi.h and nothing else.

use std::collections::BTreeSet;

use object::{Object, ObjectSymbol};

mod common;

const HEADER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../stack/include/vink/abi.h"
);

#[test]
fn only_the_calls_of_the_header_are_exported() {
    let header = std::fs::read_to_string(HEADER).expect("read abi.h");
    let declared: BTreeSet<String> = header
        .split("VINK_API ")
        .skip(2) // What comes before the macro, and the macro's own value.
        .filter_map(|text| {
            Some(
                text.split_once('(')?
                    .0
                    .rsplit([' ', '*'])
                    .next()?
                    .to_owned(),
            )
        })
        .collect();
    assert!(declared.contains("vink_boot"), "{declared:?}");

    let bytes = std::fs::read(common::image().path()).expect("read the image");
    let image = object::File::parse(&*bytes).expect("an ELF file");
    let exported: BTreeSet<String> = image
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.name() != Ok("VINK_1"))
        .map(|symbol| symbol.name().expect("a name").to_owned())
        .collect();
    assert_eq!(exported, declared);
}
