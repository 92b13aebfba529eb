//! What may differ between two versions of Linux, and why: all of it is in [`RULES`].
//!
//! A rule is about the first difference of a run. What comes after one that it lets pass is not compared, since
//! both are in another situation then.

use super::compare::Difference;

/// A version, as in `6.12`.
type Version = (u32, u32);

/// Something that may differ.
#[derive(Debug)]
pub struct Rule {
    /// Its name, in a word.
    pub name: &'static str,
    /// It differs between versions before this one, and this one and later ones.
    pub since: Version,
    /// What the newer version does, and where that is said.
    pub why: &'static str,
    /// Whether it is about this difference.
    pub(super) allows: fn(&Difference) -> bool,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.name == other.name
    }
}

impl Eq for Rule {}

/// All rules.
pub static RULES: [Rule; 0] = [];

/// Those that are about these releases (`6.12.117`); none of two images of one version.
pub fn between(one: &str, other: &str) -> Vec<&'static Rule> {
    let (one, other) = (version(one), version(other));
    let (older, newer) = (one.min(other), one.max(other));
    let divides = |rule: &&Rule| older < rule.since && rule.since <= newer;
    RULES.iter().filter(divides).collect()
}

fn version(release: &str) -> Version {
    let mut numbers = release.split(['.', '-', '+']).map_while(|n| n.parse().ok());
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next())
}
