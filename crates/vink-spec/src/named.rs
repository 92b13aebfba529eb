//! What a lab has by name and as a whole: a change of one is another one in its place.

use std::fmt;
use std::mem::discriminant;

use indexmap::IndexMap;

use crate::change::{Change, Object, Phase, Plan};
use crate::{Breakpoint, Lab, PathSpec, PodSpec, Series};

/// What becomes of something that has a name.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedChange<T> {
    /// It goes.
    Remove {
        /// Its name.
        name: String,
    },
    /// It comes, in the place of one of its name: nothing has been counted.
    Add {
        /// Its name.
        name: String,
        /// All of it.
        spec: T,
    },
}

/// A kind of such things.
pub(crate) trait Named: Clone + PartialEq + fmt::Display {
    /// What one is called.
    const NOUN: &'static str;
    /// What stands between its name and what it is.
    const IS: &'static str = ": ";
    /// When those go that do, and when others come.
    const GOES: Phase;
    const COMES: Phase;
    /// One takes another one's place in one step, so that no packet goes by in between.
    const TAKES_PLACE: bool = false;
    /// All go and come again if machines do.
    const WITH_MACHINES: bool = false;

    /// Those of a lab.
    fn all(lab: &Lab) -> &IndexMap<String, Self>;
    fn all_mut(lab: &mut Lab) -> &mut IndexMap<String, Self>;
}

impl<T: Named> Object for NamedChange<T>
where
    Change: From<NamedChange<T>>,
{
    fn diff(plan: &mut Plan<'_>) {
        let (old, new) = (T::all(plan.old), T::all(plan.new));
        let again = T::WITH_MACHINES && plan.again.is_some();
        for (name, was) in old {
            let goes = match new.get(name) {
                None => true,
                Some(is) => !T::TAKES_PLACE && (again || is != was),
            };
            if goes {
                let name = name.clone();
                plan.step(T::GOES, NamedChange::<T>::Remove { name });
            }
        }
        for (name, spec) in new {
            if again || old.get(name) != Some(spec) {
                let (name, spec) = (name.clone(), spec.clone());
                plan.step(T::COMES, NamedChange::Add { name, spec });
            }
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other)
    }

    fn apply(&self, lab: &mut Lab) {
        match self {
            NamedChange::Remove { name } => {
                T::all_mut(lab).shift_remove(name);
            }
            NamedChange::Add { name, spec } => {
                T::all_mut(lab).insert(name.clone(), spec.clone());
            }
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamedChange::Remove { name } => write!(f, "- {} {name}", T::NOUN),
            NamedChange::Add { name, spec } => write!(f, "+ {} {name}{}{spec}", T::NOUN, T::IS),
        }
    }
}

impl Named for Breakpoint {
    const NOUN: &'static str = "breakpoint";
    const GOES: Phase = Phase::BreakpointsGo;
    const COMES: Phase = Phase::Breakpoints;

    fn all(lab: &Lab) -> &IndexMap<String, Breakpoint> {
        &lab.breakpoints
    }

    fn all_mut(lab: &mut Lab) -> &mut IndexMap<String, Breakpoint> {
        &mut lab.breakpoints
    }
}

impl Named for PodSpec {
    const NOUN: &'static str = "pod";
    const GOES: Phase = Phase::PodsGo;
    const COMES: Phase = Phase::Pods;
    const TAKES_PLACE: bool = true;

    fn all(lab: &Lab) -> &IndexMap<String, PodSpec> {
        &lab.pods
    }

    fn all_mut(lab: &mut Lab) -> &mut IndexMap<String, PodSpec> {
        &mut lab.pods
    }
}

impl Named for PathSpec {
    const NOUN: &'static str = "path";
    const GOES: Phase = Phase::PathsGo;
    const COMES: Phase = Phase::Paths;
    const TAKES_PLACE: bool = true;

    fn all(lab: &Lab) -> &IndexMap<String, PathSpec> {
        &lab.paths
    }

    fn all_mut(lab: &mut Lab) -> &mut IndexMap<String, PathSpec> {
        &mut lab.paths
    }
}

impl Named for Series {
    const NOUN: &'static str = "series";
    const IS: &'static str = " ";
    const GOES: Phase = Phase::SeriesEnd;
    const COMES: Phase = Phase::Series;
    const WITH_MACHINES: bool = true;

    fn all(lab: &Lab) -> &IndexMap<String, Series> {
        &lab.series
    }

    fn all_mut(lab: &mut Lab) -> &mut IndexMap<String, Series> {
        &mut lab.series
    }
}
