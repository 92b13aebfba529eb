//! What a user's lab file says that holds (P13): `always:` and `eventually:`.
//!
//! Its numbers are looked at whenever all machines wait. One that is not there, such as a field of a
//! connection that has gone, breaks nothing that always holds, and fulfils nothing that is to come.

use vink_spec::{Claim, Comparison, Lab, Term};

use super::{Check, Property};
use crate::linear::{self, Ask};
use crate::story::seconds;
use crate::{Ending, Program, World};

/// One of them.
pub(super) struct Claimed {
    name: String,
    claim: Claim,
    /// It is to hold always; at some time otherwise.
    is_always: bool,
    has_held: bool,
    /// How much its programs had written when their calls were last looked at.
    heard: usize,
}

/// Those of a lab.
pub(crate) fn all(lab: &Lab) -> impl Iterator<Item = Box<dyn Property>> + '_ {
    let always = lab.always.iter().map(|one| (one, true));
    let all = always.chain(lab.eventually.iter().map(|one| (one, false)));
    all.map(|((name, claim), is_always)| {
        let claimed = Claimed {
            name: name.clone(),
            claim: claim.clone(),
            is_always,
            has_held: false,
            heard: 0,
        };
        Box::new(claimed) as Box<dyn Property>
    })
}

/// What one of this name says, as in the lab file.
pub(crate) fn says(lab: &Lab, name: &str) -> Option<String> {
    let always = lab.always.get(name).map(|claim| ("always", claim));
    let found = always.or(lab.eventually.get(name).map(|claim| ("eventually", claim)));
    found.map(|(kind, claim)| format!("{kind}: {name}: {claim}"))
}

impl Claimed {
    fn sum(world: &World, terms: &[Term]) -> Option<f64> {
        terms.iter().map(|term| value(world, term)).sum()
    }

    fn said(&self, world: &World, comparison: &Comparison) -> String {
        let number = |terms| match Self::sum(world, terms) {
            Some(number) => number.to_string(),
            None => "nothing".to_owned(),
        };
        format!(
            "{comparison}: it is {} there, and {} here",
            number(&comparison.left),
            number(&comparison.right)
        )
    }

    /// The machine that a comparison is about.
    fn machine<'a>(world: &'a World, comparison: &'a Comparison) -> &'a str {
        let terms = comparison.left.iter().chain(&comparison.right);
        let machine = |term: &'a Term| match term {
            Term::Number(_) => None,
            Term::Quantity(quantity) => quantity.source.place().map(|(machine, _)| machine),
            Term::Lines { program, .. } | Term::Output { program, .. } => world
                .program(program)
                .map(|program| program.machine.as_str()),
        };
        terms.filter_map(machine).next().unwrap_or_default()
    }

    /// The first comparison that is not so. Of one of which a number is not there that is not known: is it so?
    fn wrong(&self, world: &World, unknown_is_so: bool) -> Option<&Comparison> {
        self.claim.all.iter().find(|comparison| {
            let both = [&comparison.left, &comparison.right].map(|terms| Self::sum(world, terms));
            match both {
                [Some(left), Some(right)] => !comparison.operator.holds(left, right),
                _ => !unknown_is_so,
            }
        })
    }

    /// Whether the calls that its programs have told of can be explained.
    fn explain(&mut self, world: &World) -> Check {
        if self.claim.linearizable.is_empty() || self.heard == world.lines.len() {
            return Ok(());
        }
        self.heard = world.lines.len();
        let places = world.programs.iter().enumerate();
        let is_asked = |program: &Program| {
            let name = format!("{}.{}", program.machine, program.name);
            self.claim.linearizable.contains(&name)
        };
        let places = places.filter(|(_, program)| is_asked(program));
        let calls: Vec<_> = places
            .flat_map(|(place, _)| {
                let its = world.lines.iter().filter(move |line| line.program == place);
                let lines =
                    its.flat_map(|its| its.text.lines().map(|line| (its.time, line.to_owned())));
                linear::read(place, lines)
            })
            .collect();
        let Some(key) = linear::wrong(&calls) else {
            return Ok(());
        };
        let mut calls: Vec<_> = calls.iter().filter(|call| call.key == key).collect();
        calls.sort_by_key(|call| call.begin);
        let mut what =
            format!("No order of these calls explains what they have brought of {key}:\n");
        for call in &calls {
            let Program { machine, name, .. } = &world.programs[call.program];
            let asked = match &call.ask {
                Ask::Put(value) => format!("put {value}"),
                Ask::Get => "get".to_owned(),
                Ask::Swap(old, new) => format!("swap {old} for {new}"),
            };
            let end = match (&call.end, &call.result) {
                (None, _) => "not ended".to_owned(),
                (Some((time, _)), None) => format!("done at {} s", seconds(*time)),
                (Some((time, _)), Some(value)) => format!("done at {} s: {value}", seconds(*time)),
            };
            what += &format!(
                "call {} of {name} on {machine}, {asked}, from {} s on: {end}\n",
                call.number,
                seconds(call.begin.0)
            );
        }
        let last = calls
            .iter()
            .filter_map(|call| Some((call.end?, call.program)))
            .max();
        let machine = last.map_or("", |(_, program)| world.programs[program].machine.as_str());
        Err(self.broken(world, machine, what.trim_end()))
    }

    /// What is to come has not come.
    fn overdue(&self, world: &World, until: &str) -> Check {
        let Some(comparison) = self.wrong(world, false) else {
            return Ok(());
        };
        let what = format!(
            "Until {until}, this was never so: {}.",
            self.said(world, comparison)
        );
        Err(self.broken(world, Self::machine(world, comparison), what))
    }
}

impl Property for Claimed {
    fn name(&self) -> &str {
        &self.name
    }

    fn says(&self) -> &'static str {
        "What the lab file says holds."
    }

    fn idle(&mut self, world: &World) -> Check {
        self.explain(world)?;
        let wrong = self.wrong(world, self.is_always);
        if !self.is_always {
            self.has_held |= wrong.is_none();
            return match self.claim.within {
                Some(time)
                    if !self.has_held
                        && world.now > world.last_fault().max(world.begin) + time.0 =>
                {
                    self.overdue(world, &format!("{time} after the last fault"))
                }
                _ => Ok(()),
            };
        }
        match wrong {
            Some(comparison) => {
                let what = format!("This is not so: {}.", self.said(world, comparison));
                Err(self.broken(world, Self::machine(world, comparison), what))
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, world: &World, _: &Ending) -> Check {
        match self.is_always || self.has_held {
            true => Ok(()),
            false => self.overdue(world, "the end"),
        }
    }
}

/// What a term is now; `None`: it is not there.
fn value(world: &World, term: &Term) -> Option<f64> {
    match term {
        Term::Number(number) => Some(*number),
        Term::Quantity(quantity) => world.numbers.get(&quantity.to_string()).copied(),
        Term::Lines { program, text } => {
            let lines = world.program(program)?.output.lines();
            Some(lines.filter(|line| line.contains(text.as_str())).count() as f64)
        }
        Term::Output { program, text } => {
            let output = &world.program(program)?.output;
            let mut lines = output.lines().rev();
            lines.find_map(|line| vink_lab::first_number(line, Some(text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(lab: &str, moments: &[(u64, &str)]) -> Option<(u64, String)> {
        let lab = format!(
            "time: virtual\nmachines: {{ a: {{ programs: {{ p: {{ app: x }} }} }} }}\n{lab}"
        );
        let lab = vink_spec::read_text(&lab, "lab.yaml", None)
            .expect("a lab")
            .lab;
        let mut world = World::of_ends(&["a"]);
        world.programs.push(crate::Program {
            machine: "a".to_owned(),
            name: "p".to_owned(),
            words: Vec::new(),
            output: String::new(),
            ended: None,
        });
        let mut properties: Vec<_> = all(&lab).collect();
        let mut check = Ok(());
        for (seconds, output) in moments {
            world.now = seconds * 1_000_000_000;
            world.programs[0].output += output;
            for property in &mut properties {
                check = check.and_then(|()| property.idle(&world));
            }
        }
        for property in &mut properties {
            check = check.and_then(|()| property.end(&world, &Ending::Done));
        }
        let broken = check.err();
        broken.map(|broken| (broken.time / 1_000_000_000, broken.what))
    }

    #[test]
    fn what_programs_write_is_counted_and_compared() {
        let few = "always: { few: lines a.p here <= 1 }";
        assert_eq!(checks(few, &[(1, "here\ngone\n"), (2, "gone\n")]), None);
        let (time, what) = checks(few, &[(1, "here\n"), (2, "here\n")]).expect("two");
        assert_eq!(time, 2);
        assert!(
            what.contains("lines a.p here <= 1: it is 2 there, and 1 here"),
            "{what}"
        );
        // What has not been written is no number.
        let sum = "always: { sum: output a.p sum = 5 }";
        assert_eq!(checks(sum, &[(1, "begin\n"), (2, "sum 5\n")]), None);
        assert_eq!(
            checks(sum, &[(1, "sum 5\n"), (2, "sum 4\n")]).expect("4").0,
            2
        );
        let comes = "eventually: { comes: lines a.p done >= 1 }";
        assert_eq!(checks(comes, &[(9, "done\n")]), None);
        assert!(checks(comes, &[(9, "")])
            .expect("nothing")
            .1
            .contains("Until the end"));
        let soon = "eventually: { comes: lines a.p done >= 1 within 5s }";
        assert_eq!(checks(soon, &[(4, "done\n"), (9, "")]), None);
        assert_eq!(checks(soon, &[(4, ""), (9, "done\n")]), None);
        assert_eq!(
            checks(soon, &[(4, ""), (9, ""), (10, "done\n")])
                .expect("late")
                .0,
            9
        );
    }
}
