//! A lab that is ready to begin, and runs of it: each in a fork of this process.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use vink_spec::Lab;
use vink_sys::fd::{pipe, set_blocking};
use vink_sys::poll::{poll, wanted};
use vink_sys::process::exit_now;

use crate::against::{Comparison, Normal, Normalizer};
use crate::coverage::Coverage;
use crate::engine::copier::CopierKind;
use crate::engine::rerun::Rerun;
use crate::engine::tree::Branching;
use crate::engine::Engine;
use crate::forks::{assert_alone, descriptors, fork_for_run, write_all, Death, Forked, Side};
use crate::lab::{Booted, Surroundings};
use crate::properties::{self, claimed, panic};
use crate::recording::Recording;
use crate::run::{drive, Chooser, Limits, Outcome, Shared};
use crate::{Ending, Error, Property, Schedule, Violation};

/// A lab that has not begun. It stays so: what runs are forks of it.
pub struct Runner {
    pub(crate) booted: Booted,
    pub(crate) shared: Shared,
    /// What ends runs that don't end by themselves.
    pub limits: Limits,
    /// Ends a run, and so all that is done, by becoming readable.
    pub interrupt: Option<OwnedFd>,
    /// What comes of runs is compared with that of another image or lab ([`Outcome::normal`]).
    pub compares: Option<Comparison>,
    /// A run without faults that comes to no end is one, too.
    pub(crate) takes_any_plain: bool,
    coverage: Option<Coverage>,
    image: PathBuf,
    release: String,
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
    pub fn new(lab: &Lab, image: &Path, around: &Surroundings) -> Result<Runner, Error> {
        let before: BTreeSet<RawFd> = descriptors()?;
        let (mut booted, world) = Booted::new(lab, image, around)?;
        let ends = world.ends.clone();
        let shared = Shared::new(&mut booted, world)?;
        booted.stack.settle()?;
        booted.stack.kernel().give_to_forks()?;
        assert_alone(&before)?;
        Ok(Runner {
            image: booted.stack.kernel().image().path().to_owned(),
            release: booted.stack.kernel().image().release().to_owned(),
            compares: None,
            takes_any_plain: false,
            booted,
            shared,
            limits: Limits::default(),
            interrupt: None,
            coverage: None,
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
        self.wanted.clear();
        let known = self.properties();
        let known: Vec<_> = known.iter().map(|one| one.name()).collect();
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

    /// From now on what all runs reach of the image's source is added to this, which is its image's.
    ///
    /// # Errors
    /// The image can't be found in this process's memory.
    pub fn cover(&mut self, mut coverage: Coverage) -> Result<(), Error> {
        coverage.find()?;
        self.coverage = Some(coverage);
        Ok(())
    }

    /// What runs have reached, if it is looked at.
    pub fn coverage(&self) -> Option<&Coverage> {
        self.coverage.as_ref()
    }

    /// The names of the properties that are checked; none: all.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// The lab.
    pub(crate) fn lab(&self) -> &Lab {
        &self.booted.spec
    }

    /// Where its trapped programs are.
    pub fn around(&self) -> &Surroundings {
        &self.booted.around
    }

    /// Whether programs of the host take part: then a run can't be copied, and `rerun` is the engine.
    pub fn has_trapped(&self) -> bool {
        self.booted.has_trapped()
    }

    /// By what schedules are tried.
    pub(crate) fn engine(&self, copier: CopierKind) -> Box<dyn Engine> {
        match self.has_trapped() {
            true => Box::<Rerun>::default(),
            false => Box::new(Branching(copier)),
        }
    }

    /// The engine's name: `fork`, `pages`, `rerun`.
    pub fn engine_name(&self, copier: CopierKind) -> &'static str {
        self.engine(copier).name()
    }

    /// What the property of this name says: with an RFC, or as in the lab file; nothing, if there is none.
    pub fn says(&self, property: &str) -> String {
        let claimed = claimed::says(self.booted.spec(), property);
        claimed.unwrap_or_else(|| properties::says(property).to_owned())
    }

    /// The image's file.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The kernel's release, as `uname -r` has it.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Why the kernel's memory can't be read, so that properties that look at connections find none;
    /// `None`: it can.
    pub fn unreadable(&self) -> Option<String> {
        self.shared.lock().world.unreadable.clone()
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
            let broken = plain.violation.is_some() || self.takes_any_plain;
            if plain.ending == Some(Ending::Flood) && !broken {
                return Err(Error::Lab(format!(
                    "{} packets have been sent without faults, and the lab has not come to its end: have \
                     clients send less",
                    plain.packets
                )));
            }
            self.limits.packets = self.limits.packets.max(4 * plain.packets);
            if !broken && plain.programs.iter().all(|program| program.ended.is_none()) {
                return Err(Error::Lab(format!(
                    "no program of this lab has ended after {} s: exploring needs one that does, \
                     such as a client, to tell whether a run has come to its end; give servers a \
                     client, and clients a number of bytes or messages",
                    self.limits.stall_timeout / 1_000_000_000
                )));
            }
            // One that ends in the middle, where it breaks a property, tells of no end for others.
            if plain.ending.is_some() {
                let mut state = self.shared.lock();
                let programs = plain.programs.iter();
                state.world.expected = programs.map(|program| program.ended.clone()).collect();
                state.world.expected_connections = plain.connections;
            }
            self.plain = Some(plain);
        }
        Ok(self.plain.as_ref().expect("just made"))
    }

    /// What properties a run has.
    pub(crate) fn properties(&self) -> Vec<Box<dyn Property>> {
        let mut all = properties::all();
        all.extend(claimed::all(self.booted.spec()));
        if !self.wanted.is_empty() {
            all.retain(|one| self.wanted.iter().any(|name| name == one.name()));
        }
        all
    }

    /// Runs the lab with a schedule, in a fork; with `record`, all that happens is written down.
    ///
    /// # Errors
    /// As of the kernel and of fork(2); [`Error::Interrupted`].
    pub fn run(&mut self, schedule: &Schedule, record: bool) -> Result<Outcome, Error> {
        let mut running = self.begin(schedule, record)?;
        loop {
            if let Some(outcome) = running.read()? {
                return Ok(outcome);
            }
            let mut ready = vec![wanted(running.reads.as_raw_fd(), libc::POLLIN)];
            let interrupt = self.interrupt.iter();
            ready.extend(interrupt.map(|fd| wanted(fd.as_raw_fd(), libc::POLLIN)));
            match poll(&mut ready, -1) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(Error::host("poll(2)")(error));
                }
                _ => {}
            }
            if ready.get(1).is_some_and(|fd| fd.revents != 0) {
                return Err(Error::Interrupted);
            }
        }
    }

    /// Begins such a run, beside others.
    pub(crate) fn begin(&mut self, schedule: &Schedule, record: bool) -> Result<Running, Error> {
        let (reads, writes) = pipe().map_err(Error::host("pipe(2)"))?;
        match fork_for_run()? {
            Side::Child => {
                drop(reads);
                let mut state = self.shared.lock();
                state.recording = record.then(Recording::default);
                state.trace = self.booted.has_trapped().then(Default::default);
                drop(state);
                let told = self.go(Box::new(schedule.clone()));
                // All programs are dead before this process says that it is over.
                self.booted.stack.end();
                let told = told.map_err(|error| error.to_string());
                let bytes = serde_json::to_vec(&told).expect("plain data");
                let written = write_all(&writes, &bytes);
                exit_now(i32::from(written.is_err()))
            }
            Side::Parent(process) => {
                set_blocking(&reads, false).map_err(Error::host("fcntl(2)"))?;
                let told = Vec::new();
                Ok(Running {
                    process,
                    reads,
                    told,
                })
            }
        }
    }

    /// The same, and adds what it has reached.
    pub(crate) fn go(&mut self, chooser: Box<dyn Chooser>) -> Result<Outcome, Error> {
        let outcome = self.drive(chooser)?;
        if let Some(coverage) = &self.coverage {
            coverage.add()?;
        }
        Ok(outcome)
    }

    /// Runs the lab in this process, which is a fork, for what it does to the memory: what comes of it is not told.
    pub(crate) fn rehearse(&mut self, chooser: Box<dyn Chooser>) {
        let _ = self.drive(chooser);
    }

    /// Runs the lab to its end in this process, which is a fork.
    fn drive(&mut self, chooser: Box<dyn Chooser>) -> Result<Outcome, Error> {
        let properties = self.properties();
        let mut state = self.shared.lock();
        state.properties = properties;
        state.chooser = chooser;
        state.normal = self.compares.as_ref().map(Normalizer::of);
        state.world.follow_fork();
        drop(state);
        self.booted.serve_programs()?;
        drive(&mut self.booted, &self.shared, &self.limits)
    }
}

/// A run in a process of its own, which ends when this is dropped.
pub(crate) struct Running {
    /// Its programs end with it.
    process: Forked,
    /// By which it says what has come of it.
    pub reads: OwnedFd,
    told: Vec<u8>,
}

impl Running {
    /// Reads what there is to be read: what has come of the run, if it is over.
    pub fn read(&mut self) -> Result<Option<Outcome>, Error> {
        let mut piece = [0; 1 << 16];
        loop {
            match vink_sys::rustix::io::read(&self.reads, &mut piece) {
                Ok(0) => break,
                Ok(count) => self.told.extend(&piece[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted => {}
                    _ => return Err(Error::host("reading what a run says")(error.into())),
                },
            }
        }
        let died = self.process.wait();
        match serde_json::from_slice::<Result<Outcome, String>>(&self.told) {
            Ok(Ok(outcome)) => Ok(Some(outcome)),
            Ok(Err(error)) => Err(Error::Lab(error)),
            Err(_) => Ok(Some(Outcome::dead(died))),
        }
    }
}

impl Outcome {
    /// Of a process that has not said what has come of its run.
    pub(crate) fn dead(how: Option<Death>) -> Outcome {
        let how = how.map_or(String::new(), |how| how.to_string());
        let what = format!("The run has no end: {how}.");
        Outcome {
            ending: None,
            violation: Some(Violation {
                property: panic::NAME.to_owned(),
                time: 0,
                machine: String::new(),
                what: what.clone(),
            }),
            end: 0,
            packets: 0,
            searched: Vec::new(),
            connections: 0,
            faults: Vec::new(),
            programs: Vec::new(),
            departures: Vec::new(),
            trace: None,
            normal: Some(Normal::dead(what)),
            recording: None,
        }
    }
}
