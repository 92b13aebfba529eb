//! The other image, or the other lab: in a process of its own, since a process boots one.
//!
//! It is a fork of this one, made before this one boots anything, and does what it is asked by a pipe, a line of
//! JSON each time: it makes the same search and tells what has come of all runs of so many deviations, or makes
//! one run. It ends when this process does.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vink_spec::Lab;
use vink_sys::fd::pipe;
use vink_sys::poll::{poll, wanted};
use vink_sys::process::exit_now;

use super::Comparison;
use crate::forks::{fork, write_all, Forked, Side};
use crate::properties::panic;
use crate::search::{search_and, Ran, Tried, Wanted};
use crate::{Error, Limits, Outcome, Runner, Schedule, Surroundings};

/// What is asked of it.
#[derive(Serialize, Deserialize)]
enum Ask {
    /// To search. It tells what it has tried after each number of deviations, and is to be told whether to go on.
    Search(Wanted),
    /// To go on with one deviation more.
    GoOn,
    /// Not to.
    Stop,
    /// To make this run, with all that happens written down if that is wanted.
    Run(Schedule, bool),
}

/// What it tells.
#[derive(Serialize, Deserialize)]
enum Tell {
    /// The lab is made; the kernel's release.
    Ready(PathBuf, String),
    /// All runs of so many deviations; whether there are no more.
    Tried(usize, Vec<Ran>, bool),
    /// What has come of a run.
    Came(Box<Outcome>),
    /// It can't go on.
    Failed(String),
}

/// The process of the other image, as the one that asks it has it.
pub struct Peer {
    process: Forked,
    asks: OwnedFd,
    tells: Lines,
    /// What users call it.
    named: String,
    comparison: Comparison,
    image: PathBuf,
    release: String,
}

impl Peer {
    /// Begins to boot the image and to make the lab. To be called before this process boots another one: it has
    /// one thread then.
    ///
    /// # Errors
    /// As of fork(2) and pipe(2).
    pub fn start(
        lab: &Lab,
        image: &Path,
        around: &Surroundings,
        limits: Limits,
        comparison: Comparison,
    ) -> Result<Peer, Error> {
        let what = "pipe(2)";
        let (asked, asks) = pipe().map_err(Error::host(what))?;
        let (tells, told) = pipe().map_err(Error::host(what))?;
        match fork()? {
            Side::Child => {
                drop((asks, tells));
                let mut server = Server {
                    asked: Lines::of(asked),
                    told,
                };
                if let Err(error) = server.serve(lab, image, around, limits, comparison) {
                    // A pipe that no process reads: the one that asks is gone.
                    let _ = server.tell(&Tell::Failed(error.to_string()));
                }
                exit_now(0);
            }
            Side::Parent(process) => Ok(Peer {
                process,
                asks,
                tells: Lines::of(tells),
                named: match comparison {
                    Comparison::Packets => image.display().to_string(),
                    Comparison::Outlines(_) => format!("lab {}", lab.name),
                },
                comparison,
                image: PathBuf::new(),
                release: String::new(),
            }),
        }
    }

    /// Waits until the lab is made.
    ///
    /// # Errors
    /// [`Error::Lab`]: it can't be made. [`Error::Interrupted`].
    pub fn wait(&mut self, interrupt: Option<&OwnedFd>) -> Result<(), Error> {
        match self.told(interrupt)? {
            Tell::Ready(image, release) => {
                self.image = image;
                self.release = release;
                Ok(())
            }
            _ => Err(self.strange()),
        }
    }

    /// What is compared.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// The image's file.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The kernel's release, as `uname -r` has it.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Begins the same search there.
    pub(super) fn search(&mut self, wanted: &Wanted) -> Result<(), Error> {
        self.ask(&Ask::Search(wanted.clone()))
    }

    /// What has come of all runs of so many deviations; whether there are no more.
    pub(super) fn tried(
        &mut self,
        deviations: usize,
        interrupt: Option<&OwnedFd>,
    ) -> Result<(Vec<Ran>, bool), Error> {
        match self.told(interrupt)? {
            Tell::Tried(its, ran, is_over) if its == deviations => Ok((ran, is_over)),
            _ => Err(self.strange()),
        }
    }

    /// Whether it is to go on with one deviation more.
    pub(super) fn go_on(&mut self, goes_on: bool) -> Result<(), Error> {
        self.ask(match goes_on {
            true => &Ask::GoOn,
            false => &Ask::Stop,
        })
    }

    /// Begins a run.
    pub(super) fn begin(&mut self, schedule: &Schedule, record: bool) -> Result<(), Error> {
        self.ask(&Ask::Run(schedule.clone(), record))
    }

    /// What has come of the run that was begun.
    pub(super) fn came(&mut self, interrupt: Option<&OwnedFd>) -> Result<Outcome, Error> {
        match self.told(interrupt)? {
            Tell::Came(outcome) => Ok(*outcome),
            _ => Err(self.strange()),
        }
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), Error> {
        write_line(&self.asks, ask).map_err(|_| self.gone())
    }

    fn told(&mut self, interrupt: Option<&OwnedFd>) -> Result<Tell, Error> {
        match self.tells.next(interrupt)? {
            Some(Tell::Failed(why)) => {
                let named = &self.named;
                Err(Error::Lab(format!("on {named}: {why}")))
            }
            Some(tell) => Ok(tell),
            None => Err(self.gone()),
        }
    }

    fn gone(&mut self) -> Error {
        let how = self.process.wait();
        let how = how.map_or(String::new(), |how| format!(": {how}"));
        let named = &self.named;
        Error::Lab(format!("the process of {named} is gone{how}"))
    }

    fn strange(&self) -> Error {
        let named = &self.named;
        Error::Lab(format!("the process of {named} has told something else"))
    }
}

/// The process of the other image, as it has itself.
struct Server {
    asked: Lines,
    told: OwnedFd,
}

impl Server {
    fn serve(
        &mut self,
        lab: &Lab,
        image: &Path,
        around: &Surroundings,
        limits: Limits,
        comparison: Comparison,
    ) -> Result<(), Error> {
        let mut runner = Runner::new(lab, image, around)?;
        runner.limits = limits;
        runner.compares = Some(comparison);
        runner.takes_any_plain = true;
        runner.check_only(&[panic::NAME.to_owned()])?;
        let release = runner.release().to_owned();
        self.tell(&Tell::Ready(runner.image().to_owned(), release))?;
        loop {
            match self.next(&mut runner)? {
                Some(Ask::Search(wanted)) => {
                    // The one that asks says when it is enough.
                    let wanted = Wanted {
                        keep_going: true,
                        ..wanted
                    };
                    search_and(
                        &mut runner,
                        &wanted,
                        None,
                        &mut |_| {},
                        &mut |runner, tried| {
                            let Tried {
                                deviations,
                                ran,
                                is_over,
                            } = tried;
                            self.tell(&Tell::Tried(deviations, ran, is_over))?;
                            Ok(matches!(self.next(runner)?, Some(Ask::GoOn)))
                        },
                    )?;
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// The next thing that is asked but a run, which is made; `None`: there is none any more.
    fn next(&mut self, runner: &mut Runner) -> Result<Option<Ask>, Error> {
        loop {
            match self.asked.next(None)? {
                Some(Ask::Run(schedule, record)) => {
                    // It says how others are to end.
                    runner.plain()?;
                    let outcome = runner.run(&schedule, record)?;
                    self.tell(&Tell::Came(Box::new(outcome)))?;
                }
                other => return Ok(other),
            }
        }
    }

    fn tell(&self, tell: &Tell) -> Result<(), Error> {
        write_line(&self.told, tell)
    }
}

fn write_line(to: &OwnedFd, what: &impl Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_vec(what).expect("plain data");
    line.push(b'\n');
    write_all(to, &line).map_err(Error::host("telling the process of another image"))
}

/// Reads lines of JSON.
struct Lines {
    from: OwnedFd,
    /// What has been read of the next one.
    bytes: Vec<u8>,
}

impl Lines {
    fn of(from: OwnedFd) -> Lines {
        Lines {
            from,
            bytes: Vec::new(),
        }
    }

    /// The next line; `None`: there is none any more.
    fn next<T: DeserializeOwned>(
        &mut self,
        interrupt: Option<&OwnedFd>,
    ) -> Result<Option<T>, Error> {
        let what = "hearing the process of another image";
        let mut piece = [0; 1 << 16];
        let mut looked = 0;
        loop {
            let end = self.bytes[looked..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line: Vec<u8> = self.bytes.drain(..=looked + end).collect();
                let told = serde_json::from_slice(&line);
                let damaged = |error| Error::Lab(format!("{what}: {error}"));
                return told.map(Some).map_err(damaged);
            }
            looked = self.bytes.len();
            let mut ready = vec![wanted(self.from.as_raw_fd(), libc::POLLIN)];
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
            if ready[0].revents == 0 {
                continue;
            }
            match vink_sys::rustix::io::read(&self.from, &mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.bytes.extend(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::host(what)(error.into())),
            }
        }
    }
}
