//! A lab that is ready to begin, and runs of it: each in a fork of this process.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use vink_spec::Lab;
use vink_sys::fd::pipe;
use vink_sys::process::exit_now;

use crate::engine::copier::CopierKind;
use crate::engine::tree::Branching;
use crate::engine::Engine;
use crate::forks::{assert_alone, descriptors, fork, wait, write_all, Death, Side};
use crate::lab::Booted;
use crate::properties::{self, panic};
use crate::recording::Recording;
use crate::run::{drive, Chooser, Limits, Outcome, Shared};
use crate::{Error, Property, Schedule, Violation};

/// A lab that has not begun. It stays so: what runs are forks of it.
pub struct Runner {
    pub(crate) booted: Booted,
    pub(crate) shared: Shared,
    /// What ends runs that don't end by themselves.
    pub limits: Limits,
    image: PathBuf,
    ends: Vec<crate::End>,
    /// The names of the properties that are checked; none: all.
    wanted: Vec<String>,
    /// The run without faults, when it is known.
    plain: Option<Outcome>,
}

impl Runner {
    /// Boots the image and makes the lab, which has no [`refusals`](crate::refusals).
    ///
    /// # Errors
    /// As of the kernel; [`Error::Shared`]: a fork would share something with this process.
    pub fn new(lab: &Lab, image: &Path) -> Result<Runner, Error> {
        let before: BTreeSet<RawFd> = descriptors()?;
        let (mut booted, world) = Booted::new(lab, image)?;
        let ends = world.ends.clone();
        let shared = Shared::new(&mut booted, world)?;
        booted.kernel.settle()?;
        booted.kernel.give_to_forks()?;
        assert_alone(&before)?;
        Ok(Runner {
            image: booted.kernel.image().path().to_owned(),
            booted,
            shared,
            limits: Limits::default(),
            ends,
            wanted: Vec::new(),
            plain: None,
        })
    }

    /// Checks these properties only, by their names; none: all.
    ///
    /// # Errors
    /// [`Error::Lab`]: there is no such property.
    pub fn check_only(&mut self, names: &[String]) -> Result<(), Error> {
        let known: Vec<_> = properties::all().iter().map(|one| one.name()).collect();
        for name in names {
            if !known.contains(&name.as_str()) {
                return Err(Error::Lab(format!(
                    "there is no property {name}: there are {}",
                    known.join(", ")
                )));
            }
        }
        self.wanted = names.to_vec();
        Ok(())
    }

    /// The names of the properties that are checked; none: all.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// By what schedules are tried.
    pub(crate) fn engine(&self, copier: CopierKind) -> Box<dyn Engine> {
        Box::new(Branching(copier))
    }

    /// The engine's name: `fork`, `pages`.
    pub fn engine_name(&self, copier: CopierKind) -> &'static str {
        self.engine(copier).name()
    }

    /// The image's file.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Whether the kernel's memory can be read: if not, properties that look at connections find
    /// none.
    pub fn reads_connections(&self) -> bool {
        self.shared.lock().world.memory.is_some()
    }

    /// Interfaces at wires, in the order in which recordings number them.
    pub fn ends(&self) -> &[crate::End] {
        &self.ends
    }

    /// The run without faults, whose end says what is to be expected of others. All programs that
    /// end in it are to end in every run.
    ///
    /// # Errors
    /// [`Error::Lab`]: it breaks a property, or no program ends.
    pub fn plain(&mut self) -> Result<&Outcome, Error> {
        if self.plain.is_none() {
            let plain = self.run(&Vec::new(), false)?;
            let broken = plain.violation.is_some();
            if !broken && plain.programs.iter().all(|program| program.ended.is_none()) {
                return Err(Error::Lab(format!(
                    "no program of this lab has ended after {} s: exploring needs one that does, \
                     such as a client, to tell whether a run has come to its end; give servers a \
                     client, and clients a number of bytes or messages",
                    self.limits.stall_timeout / 1_000_000_000
                )));
            }
            let mut state = self.shared.lock();
            let programs = plain.programs.iter();
            state.world.expected = programs.map(|program| program.ended.clone()).collect();
            state.world.expected_connections = plain.connections;
            drop(state);
            self.plain = Some(plain);
        }
        Ok(self.plain.as_ref().expect("just made"))
    }

    /// What properties a run has.
    pub(crate) fn properties(&self) -> Vec<Box<dyn Property>> {
        let mut all = properties::all();
        if !self.wanted.is_empty() {
            all.retain(|one| self.wanted.iter().any(|name| name == one.name()));
        }
        all
    }

    /// Runs the lab with a schedule, in a fork; with `record`, all that happens is written down.
    ///
    /// # Errors
    /// As of the kernel and of fork(2).
    pub fn run(&mut self, schedule: &Schedule, record: bool) -> Result<Outcome, Error> {
        let (reads, writes) = pipe().map_err(Error::host("pipe(2)"))?;
        match fork()? {
            Side::Child => {
                let mut state = self.shared.lock();
                state.recording = record.then(Recording::default);
                drop(state);
                let told = self.go(Box::new(schedule.clone()));
                let told = told.map_err(|error| error.to_string());
                let bytes = serde_json::to_vec(&told).expect("plain data");
                let written = write_all(&writes, &bytes);
                exit_now(i32::from(written.is_err()))
            }
            Side::Parent(pid) => {
                drop(writes);
                let mut told = Vec::new();
                let read = File::from(reads).read_to_end(&mut told);
                let died = wait(pid);
                read.map_err(Error::host("reading what a run says"))?;
                match serde_json::from_slice::<Result<Outcome, String>>(&told) {
                    Ok(Ok(outcome)) => Ok(outcome),
                    Ok(Err(error)) => Err(Error::Lab(error)),
                    Err(_) => Ok(Outcome::dead(died)),
                }
            }
        }
    }

    /// Runs the lab to its end in this process, which is a fork.
    pub(crate) fn go(&mut self, chooser: Box<dyn Chooser>) -> Result<Outcome, Error> {
        let properties = self.properties();
        let mut state = self.shared.lock();
        state.properties = properties;
        state.chooser = chooser;
        state.world.follow_fork();
        drop(state);
        drive(&mut self.booted, &self.shared, &self.limits)
    }
}

impl Outcome {
    /// Of a process that has not said what has come of its run.
    pub(crate) fn dead(how: Option<Death>) -> Outcome {
        let how = how.map_or(String::new(), |how| how.to_string());
        Outcome {
            ending: None,
            violation: Some(Violation {
                property: panic::NAME.to_owned(),
                time: 0,
                machine: String::new(),
                what: format!("The run has no end: {how}."),
            }),
            end: 0,
            packets: 0,
            searched: Vec::new(),
            connections: 0,
            faults: Vec::new(),
            programs: Vec::new(),
            recording: None,
        }
    }
}
