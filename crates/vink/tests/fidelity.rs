//! TCP over a wire's impairments behaves as over Linux's own netem with the same settings.

mod common;

use common::lab::{slope, Up};
use common::Place;

/// Bits per second that a connection delivers from `east`, of whose wires one does by itself what netem(8) does
/// at the ends of the other.
fn rates(lab: &Up<'_>, congestion: &str) -> [f64; 2] {
    [("wire", "10.1.0.2"), ("netem", "10.2.0.2")].map(|(name, server)| {
        let file = format!("{congestion}-{name}.csv");
        let line = format!(
            "python3 ../../sample.py --seconds 8 --congestion {congestion} --server {server} >../../../{file}"
        );
        lab.on("east", &line);
        8.0 * slope(&lab.column(&file, "acked"))
    })
}

#[test]
fn a_wire_is_as_netem() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "tests/netem");
    let [wire, netem] = rates(&lab, "bbr");
    assert!(
        (0.8..1.25).contains(&(wire / netem)),
        "BBR: {wire}, {netem} bit/s"
    );
    // Some 30 losses in 8 s, each of which halves a window: a fifth of the rate is chance.
    let [wire, netem] = rates(&lab, "cubic");
    assert!(
        (0.4..2.5).contains(&(wire / netem)),
        "CUBIC: {wire}, {netem} bit/s"
    );
}
