//! TCP over a wire's impairments behaves as over Linux's own netem with the same settings, and in virtual time as by the host's clock.

#[path = "../common/mod.rs"]
mod common;

mod compare;
mod page;
mod transfer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::lab::{slope, Up};
use common::{root, Place};
use compare::{compare, Bound};
use transfer::{transfer, Lab, Run, Time, LABS};

/// A test that measures by the host's clock runs alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    let _alone = alone();
    let place = Place::urgent();
    let lab = Up::of_tests(&place, "netem");
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

/// How many seeds there are runs of, and how many by the host's clock with each.
struct Plan {
    seeds: u32,
    each: usize,
}

/// Times that a run by the host's clock is repeated, on average, before its host is too slow for this.
const TRIES: usize = 4;

/// Runs by the host's clock that it has not spoilt, with each seed, of each lab.
fn real(plan: &Plan) -> Vec<BTreeMap<u32, Vec<Run>>> {
    let place = Place::urgent();
    let mut kept: Vec<BTreeMap<u32, Vec<Run>>> = LABS.iter().map(|_| BTreeMap::new()).collect();
    let mut spoilt = Vec::new();
    for seed in 1..=plan.seeds {
        let lacks = |kept: &BTreeMap<u32, Vec<Run>>| {
            kept.get(&seed).is_none_or(|runs| runs.len() < plan.each)
        };
        while kept.iter().any(lacks) {
            let wanted = LABS.iter().zip(&kept).filter(|(_, kept)| lacks(kept));
            let labs: Vec<&Lab> = wanted.map(|(lab, _)| lab).collect();
            for (lab, run) in labs.iter().zip(transfer(&place, &labs, Time::Real, seed)) {
                let at = LABS.iter().position(|its| its.name == lab.name);
                match run.spoilt() {
                    None => kept[at.expect("one of them")]
                        .entry(seed)
                        .or_default()
                        .push(run),
                    Some(why) => spoilt.push(format!("{}: {why}", lab.name)),
                }
            }
            assert!(
                spoilt.len() < TRIES * plan.seeds as usize * plan.each,
                "the host was too late in {} runs by its clock; root has them served first, and needs a quieter machine yet: {spoilt:?}",
                spoilt.len()
            );
        }
    }
    kept
}

/// In virtual time: a run with each seed, and with the first seed one over a network that is another.
fn own(lab: &Lab, plan: &Plan) -> (BTreeMap<u32, Run>, Run) {
    let place = &Place::all()[0];
    let run = |time, seed| transfer(place, &[lab], time, seed).remove(0);
    let runs = (1..=plan.seeds).map(|seed| (seed, run(Time::Virtual, seed)));
    let runs = runs.collect();
    (runs, run(Time::Another, 1))
}

#[test]
fn virtual_time_is_as_real_time() {
    let _alone = alone();
    let page = std::env::var_os("VINK_FIDELITY_PAGE").map(PathBuf::from);
    let plan = match page {
        Some(_) => Plan { seeds: 5, each: 4 },
        None => Plan { seeds: 3, each: 3 },
    };
    let real = real(&plan);
    let own: Vec<_> = std::thread::scope(|scope| {
        let plan = &plan;
        let runs = LABS
            .each_ref()
            .map(|lab| scope.spawn(move || own(lab, plan)));
        let runs = runs.into_iter();
        runs.map(|runs| runs.join().expect("virtual time"))
            .collect()
    });
    let mut bounds: Vec<Bound> = Vec::new();
    for ((lab, real), (own, another)) in LABS.iter().zip(&real).zip(&own) {
        bounds.extend(compare(lab, real, own));
        let only = BTreeMap::from([(1, another.clone())]);
        let told_apart = compare(lab, real, &only);
        let (transfer, number) = lab.another.told_by;
        let is_told =
            |bound: &Bound| bound.transfer == transfer && bound.number == number && !bound.holds();
        assert!(
            told_apart.iter().any(is_told),
            "{}: another network is not told apart: {told_apart:#?}",
            lab.name
        );
    }
    for bound in &bounds {
        println!("{bound}");
    }
    let broken: Vec<String> = bounds
        .iter()
        .filter(|b| !b.holds())
        .map(Bound::to_string)
        .collect();
    if let Some(page) = page {
        let text = page::text(&plan, &bounds, &real);
        std::fs::write(root().join(page), text).expect("the page");
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
