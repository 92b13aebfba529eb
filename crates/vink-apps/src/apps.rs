//! The apps of a worker: started by their words, looked at, stopped.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_kernel::{Fiber, Kernel, MachineId, TaskId};
use vink_pod::OpenPaths;

use crate::arguments::Syntax;
use crate::builtin::{self, BUILTINS};
use crate::handle::{AppHandle, End, Observer};
use crate::shared_object::SharedObject;
use crate::{App, Calls, Error, Names, Report};

/// What the path of a shared object is behind.
const SHARED_OBJECT: &str = "so:";

/// Names an app of an [`Apps`]. Never used again for another one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct AppId(u64);

impl AppId {
    /// Its number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for AppId {
    fn from(number: u64) -> AppId {
        AppId(number)
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is known of an app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Its number.
    pub id: AppId,
    /// The number of its machine ([`MachineId::get`]).
    pub machine: u64,
    /// What it was started with.
    pub words: Vec<String>,
    /// Whether it runs.
    pub state: State,
    /// Whether it does what it is there for: a server listens. Clients are ready when they have
    /// begun.
    pub ready: bool,
    /// What it has done so far; `None` before it has begun.
    pub report: Option<Report>,
}

/// Whether an app runs, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum State {
    /// It has not ended.
    Running,
    /// It was told to stop, and hasn't yet.
    Stopping,
    /// It has ended, by itself or because it was told to.
    Ended {
        /// Its exit status: 0 is success; 101: it panicked.
        status: i32,
        /// Why it gave up.
        error: Option<String>,
    },
}

/// A piece of an app's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The text.
    pub text: String,
    /// How many bytes there were so far: where to go on.
    pub next: u64,
}

/// What a built-in app is, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Help {
    /// Its name.
    pub name: String,
    /// One line: how it is called.
    pub usage: String,
    /// One line: what it is for.
    pub purpose: String,
    /// Several lines: all of it, with the options.
    pub text: String,
}

/// All apps of one kernel. Those that run go on when it is dropped, until their kernel is.
#[derive(Default)]
pub struct Apps {
    entries: BTreeMap<AppId, Entry>,
    last: u64,
    names: Names,
    paths: Option<Rc<dyn OpenPaths>>,
    /// Those that have ended and were not told yet.
    ended: Rc<RefCell<VecDeque<AppId>>>,
    /// Those that have written something since that was last told.
    written: Rc<RefCell<VecDeque<AppId>>>,
    observer: Option<Observer>,
}

/// An app's name and its arguments.
fn parted(words: &[String]) -> (&str, &[String]) {
    match words {
        [name, rest @ ..] => (name.as_str(), rest),
        [] => ("", words),
    }
}

fn builtin_of(name: &str) -> Result<builtin::Builtin, Error> {
    builtin::find(name).ok_or_else(|| Error::NoSuchName {
        name: name.to_owned(),
        known: BUILTINS.iter().map(|(syntax, _)| syntax.name).collect(),
    })
}

fn usage(syntax: &Syntax, why: String) -> Error {
    Error::Usage {
        app: syntax.name,
        why,
        usage: syntax.usage(),
    }
}

struct Entry {
    machine: MachineId,
    task: TaskId,
    words: Vec<String>,
    handle: Rc<AppHandle>,
}

impl Apps {
    /// None yet.
    pub fn new() -> Apps {
        Apps::default()
    }

    /// Tells of each call of the apps that are started from now on. They keep the thread then until
    /// they wait: when an app would give it back to the host by itself depends on the host's clock.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// The names that apps know; changes are seen at once by `dnsserver`, and by apps started
    /// later.
    pub fn names(&self) -> Names {
        self.names.clone()
    }

    /// Where apps that are started later find paths of streams.
    pub fn set_paths(&mut self, paths: Rc<dyn OpenPaths>) {
        self.paths = Some(paths);
    }

    /// The built-in apps.
    pub fn help() -> Vec<Help> {
        let help = |syntax: &Syntax| Help {
            name: syntax.name.to_owned(),
            usage: syntax.usage(),
            purpose: syntax.purpose.to_owned(),
            text: syntax.help(),
        };
        BUILTINS.iter().map(|(syntax, _)| help(syntax)).collect()
    }

    /// Whether these words would start an app, as far as the first one tells: the name of a
    /// built-in app, or `so:FILE`.
    pub fn knows(name: &str) -> bool {
        name.starts_with(SHARED_OBJECT) || builtin::find(name).is_some()
    }

    /// Loads what such an app is in, for as long as the process lives: nothing is mapped then when it
    /// starts, or unmapped when it ends.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub fn keep_loaded(words: &[String]) -> Result<(), Error> {
        let (name, _) = parted(words);
        if let Some(file) = name.strip_prefix(SHARED_OBJECT) {
            std::mem::forget(SharedObject::load(file, &[])?);
        }
        Ok(())
    }

    /// Starts an app on a machine: the name of a built-in one, or `so:FILE`, and its arguments. It
    /// begins in the next [`Kernel::run`].
    ///
    /// # Errors
    /// [`Error::NoSuchName`], [`Error::Usage`], [`Error::Load`], [`Error::Kernel`].
    pub fn start(
        &mut self,
        kernel: &mut Kernel,
        machine: MachineId,
        words: &[String],
    ) -> Result<AppId, Error> {
        let (name, rest) = parted(words);
        if let Some(file) = name.strip_prefix(SHARED_OBJECT) {
            let app = SharedObject::load(file, rest)?;
            return self.start_app(kernel, machine, words, Box::new(app));
        }
        let (syntax, make) = builtin_of(name)?;
        let made = match syntax.parse(rest) {
            Ok(arguments) => make(&arguments, &self.names),
            Err(why) => Err(why),
        };
        let app = made.map_err(|why| usage(syntax, why))?;
        self.start_app(kernel, machine, words, app)
    }

    /// Whether [`Apps::start`] would understand these words, as far as that can be told without a
    /// machine: the values of options and names of hosts are not looked at.
    ///
    /// # Errors
    /// [`Error::NoSuchName`], [`Error::Usage`].
    pub fn check(words: &[String]) -> Result<(), Error> {
        let (name, rest) = parted(words);
        if name.starts_with(SHARED_OBJECT) {
            return Ok(());
        }
        let (syntax, _) = builtin_of(name)?;
        syntax.parse(rest).map_err(|why| usage(syntax, why))?;
        Ok(())
    }

    /// Starts an app of your own; `words` is what [`Status::words`] says.
    ///
    /// # Errors
    /// [`Error::Kernel`]: no such machine, no memory for a stack.
    pub fn start_app(
        &mut self,
        kernel: &mut Kernel,
        machine: MachineId,
        words: &[String],
        app: Box<dyn App>,
    ) -> Result<AppId, Error> {
        let name = words.first().cloned().unwrap_or_default();
        let id = AppId(self.last + 1);
        let written = Rc::clone(&self.written);
        let (observer, paths) = (self.observer.clone(), self.paths.clone());
        let handle = AppHandle::new(id, kernel.clock(), written, observer, paths);
        let handle = Rc::new(handle);
        let life = Life {
            id,
            handle: Rc::clone(&handle),
            ended: Rc::clone(&self.ended),
        };
        let begun = kernel.fiber(machine, move |fiber| run(fiber, &life.handle, &name, app));
        if begun.is_err() {
            // Its number is not known outside yet.
            self.ended.borrow_mut().pop_back();
        }
        let task = begun?;
        self.last += 1;
        let words = words.to_vec();
        self.entries.insert(
            id,
            Entry {
                machine,
                task,
                words,
                handle,
            },
        );
        Ok(id)
    }

    /// What is known of an app.
    ///
    /// # Errors
    /// [`Error::NoSuchApp`].
    pub fn status(&self, id: AppId) -> Result<Status, Error> {
        Ok(self.entry(id)?.status(id))
    }

    /// The next one that has written something: [`Apps::output`] has it. Each once, until it writes
    /// again.
    pub fn next_written(&self) -> Option<AppId> {
        let id = self.written.borrow_mut().pop_front()?;
        if let Ok(entry) = self.entry(id) {
            entry.handle.unreported.set(false);
        }
        Some(id)
    }

    /// The next one that has ended, each once.
    pub fn next_ended(&self) -> Option<AppId> {
        self.ended.borrow_mut().pop_front()
    }

    /// What is known of all apps, in the order of their start.
    pub fn list(&self) -> Vec<Status> {
        self.entries.iter().map(|(id, e)| e.status(*id)).collect()
    }

    /// What an app has written behind so many bytes (0: from the start), as far as it is kept.
    ///
    /// # Errors
    /// [`Error::NoSuchApp`].
    pub fn output(&self, id: AppId, from: u64) -> Result<Output, Error> {
        let output = self.entry(id)?.handle.output.borrow();
        let (text, next) = output.since(from);
        Ok(Output {
            text: text.to_owned(),
            next,
        })
    }

    /// Tells an app to stop: the call that it waits in ends, and each further one fails. It has
    /// ended after one of the next [`Kernel::run`]s. Nothing happens to one that has.
    ///
    /// # Errors
    /// [`Error::NoSuchApp`], [`Error::Kernel`].
    pub fn stop(&mut self, kernel: &mut Kernel, id: AppId) -> Result<(), Error> {
        let entry = self.entry(id)?;
        if entry.handle.end.borrow().is_some() || entry.handle.stop.replace(true) {
            return Ok(());
        }
        match kernel.cancel(entry.task) {
            // It looks at the flag when it begins.
            Err(vink_kernel::Error::Errno { errno, .. }) if errno == libc::ENOENT => Ok(()),
            other => Ok(other?),
        }
    }

    /// Tells all apps of a machine to stop.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn stop_machine(&mut self, kernel: &mut Kernel, machine: MachineId) -> Result<(), Error> {
        let of_machine = |(id, entry): (&AppId, &Entry)| (entry.machine == machine).then_some(*id);
        let ids: Vec<_> = self.entries.iter().filter_map(of_machine).collect();
        ids.into_iter().try_for_each(|id| self.stop(kernel, id))
    }

    /// Takes the result of an app that has ended, which is forgotten with it.
    ///
    /// # Errors
    /// [`Error::NoSuchApp`], [`Error::Running`].
    pub fn take(&mut self, id: AppId) -> Result<Status, Error> {
        let status = self.status(id)?;
        match status.state {
            State::Ended { .. } => {
                self.entries.remove(&id);
                Ok(status)
            }
            _ => Err(Error::Running(id)),
        }
    }

    fn entry(&self, id: AppId) -> Result<&Entry, Error> {
        self.entries.get(&id).ok_or(Error::NoSuchApp(id))
    }
}

impl Entry {
    fn status(&self, id: AppId) -> Status {
        let state = match &*self.handle.end.borrow() {
            Some(end) => State::Ended {
                status: end.status,
                error: end.error.clone(),
            },
            None if self.handle.stop.get() => State::Stopping,
            None => State::Running,
        };
        let reporter = self.handle.reporter.borrow();
        Status {
            id,
            machine: self.machine.get(),
            words: self.words.clone(),
            state,
            ready: self.handle.ready.get(),
            report: reporter.as_ref().map(|report| report()),
        }
    }
}

/// Tells of an app's end, however it comes: a fiber that can't be created only drops what it has.
struct Life {
    id: AppId,
    handle: Rc<AppHandle>,
    ended: Rc<RefCell<VecDeque<AppId>>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        let never_begun = || End {
            status: 126,
            error: Some(
                "the kernel has no memory for its task: give it more, or stop others".to_owned(),
            ),
        };
        self.handle.end.borrow_mut().get_or_insert_with(never_begun);
        self.ended.borrow_mut().push_back(self.id);
    }
}

/// What an app does, on its fiber.
fn run(fiber: &Fiber, handle: &Rc<AppHandle>, name: &str, mut app: Box<dyn App>) -> i32 {
    let calls = Calls::new(fiber, Rc::clone(handle));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let result = app.run(&calls);
        drop(app);
        result
    }));
    let end = match ended {
        Ok(Ok(status)) => End {
            status,
            error: None,
        },
        Ok(Err(error)) if handle.stop.get() && error.is_interruption() => End {
            status: 0,
            error: None,
        },
        Ok(Err(error)) => End {
            status: 1,
            error: Some(error.to_string()),
        },
        Err(panic) => End {
            status: 101,
            error: Some(format!("panicked: {}", words_of(&*panic))),
        },
    };
    let status = end.status;
    if let Some(report) = &*handle.reporter.borrow() {
        calls.print(&report().to_string());
    }
    if let Some(why) = &end.error {
        calls.print(&format!("{name}: {why}\n"));
    }
    *handle.end.borrow_mut() = Some(end);
    status
}

/// What was said with a panic.
fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it did not say why")
}
