//! What programs call, as text: a line for each trapped call, when it has ended.
//!
//! A call is printed in two parts, both times with its thread at a standstill: when it is trapped,
//! its arguments, and before its result is sent, what it has filled in. The second part is printed
//! by the listener, which all answers go through.

mod names;
mod print;
pub(crate) mod subscriber;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::time::Instant;

use syscalls::Errno;
use vink_syscalls::{shapes, FOREIGN};

use crate::notification::{Notification, Reply};
use print::Printer;
use subscriber::{Emitter, TraceSubscriber, TraceTime};
use vink_sched::block::ERESTARTSYS;

/// Writes the lines, and calls a subscriber.
#[derive(Default)]
pub(crate) struct Tracer {
    to: Option<RefCell<Box<dyn Write>>>,
    host_too: bool,
    emitter: Option<Emitter>,
    /// Calls that have not ended, by their number at their listener (random: never the same at
    /// two).
    pending: RefCell<HashMap<u64, Pending>>,
}

struct Pending {
    call: Notification,
    pid: i32,
    /// The machine, the process and the thread.
    origin: String,
    /// The arguments; `None` for those that the call fills in.
    arguments: Vec<Option<String>>,
    /// A Vink descriptor is among them.
    vink: bool,
    began: Instant,
    /// The thread's number, and when the call began, if there is a subscriber.
    thread: u64,
    time: TraceTime,
}

/// How a call ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// The host does it, and has the result.
    Passed,
    Result(i64),
    /// With a new descriptor of Vink's, whose number comes later.
    Descriptor,
}

/// A line that lacks the result.
pub(crate) struct Draft {
    id: u64,
    text: String,
    /// Behind the result.
    found: String,
    shown: bool,
    /// Where a passed-through call writes, if there is a subscriber.
    written: Vec<u8>,
}

/// The name of an x86-64 system call, without its section: `splice`.
pub fn call_name(nr: i64) -> String {
    if nr == FOREIGN {
        return "a system call of a 32-bit program".to_owned();
    }
    let known = vink_syscalls::name(nr);
    known.map_or_else(|| format!("syscall_{nr}"), str::to_owned)
}

impl Tracer {
    /// From now on writes lines.
    pub(crate) fn write_to(self, to: Box<dyn Write>, host_too: bool) -> Tracer {
        Tracer {
            to: Some(RefCell::new(to)),
            host_too,
            ..self
        }
    }

    /// From now on calls this, too.
    pub(crate) fn subscribe(self, subscriber: TraceSubscriber) -> Tracer {
        Tracer {
            emitter: Some(Emitter::new(subscriber)),
            ..self
        }
    }

    /// What is traced from now on has this time.
    pub(crate) fn set_time(&self, time: impl FnOnce() -> TraceTime) {
        if let Some(emitter) = &self.emitter {
            emitter.now.set(time());
        }
    }

    /// A call has been trapped.
    pub(crate) fn begin(
        &self,
        call: Notification,
        pid: i32,
        machine: &str,
        is_vink: &dyn Fn(i32) -> bool,
    ) {
        self.abandon(|old| old.call.tid == call.tid, "ended");
        let emitter = self.emitter.as_ref();
        let thread = emitter.map_or(0, |emitter| emitter.begin(&call, pid, machine));
        let vink = Cell::new(false);
        let watched = |fd| {
            let is = is_vink(fd);
            vink.set(vink.get() || is);
            is
        };
        let printer = Printer {
            call: &call,
            is_vink: &watched,
            addresses: emitter.is_none(),
        };
        let arguments = match shapes(call.nr) {
            Some(shapes) => {
                let shapes = shapes.iter().enumerate();
                shapes.map(|(n, shape)| printer.before(n, *shape)).collect()
            }
            // How many arguments it has is unknown: the rest are what was in the registers.
            None => vec![Some("...".to_owned())],
        };
        let origin = match call.tid == pid {
            true => format!("{machine} {pid}"),
            false => format!("{machine} {pid}/{}", call.tid),
        };
        let pending = Pending {
            call,
            pid,
            origin,
            arguments,
            vink: vink.get(),
            began: Instant::now(),
            thread,
            time: emitter.map(|emitter| emitter.now.get()).unwrap_or_default(),
        };
        self.pending.borrow_mut().insert(call.id, pending);
    }

    /// A call is about to end so: its line up to the result. `None` if it is not known any more.
    pub(crate) fn draft(&self, id: u64, end: End) -> Option<Draft> {
        let pending = self.pending.borrow();
        let pending = pending.get(&id)?;
        let printer = Printer {
            call: &pending.call,
            is_vink: &|_| false,
            addresses: self.emitter.is_none(),
        };
        let result = match end {
            End::Passed => -1,
            End::Result(result) => result,
            End::Descriptor => 0,
        };
        let parameters = shapes(pending.call.nr).unwrap_or_default();
        let mut text = format!("{}(", call_name(pending.call.nr));
        for (n, argument) in pending.arguments.iter().enumerate() {
            let argument = match argument {
                Some(argument) => argument.clone(),
                None => printer.after(n, parameters[n], result),
            };
            if !argument.is_empty() {
                text += if n > 0 { ", " } else { "" };
                text += &argument;
            }
        }
        text += ") = ";
        let found = parameters
            .iter()
            .enumerate()
            .filter_map(|(n, shape)| match result {
                1.. => printer.found(n, *shape),
                _ => None,
            });
        let found = found.collect::<Vec<_>>().join(", ");
        let shown = self.host_too || pending.vink || !matches!(end, End::Passed);
        match end {
            End::Passed => text += "(host)",
            End::Result(result) => text += &outcome(result),
            End::Descriptor => {}
        }
        let written = match (&self.emitter, end) {
            (Some(_), End::Passed) => subscriber::written(&pending.call),
            _ => Vec::new(),
        };
        Some(Draft {
            id,
            text,
            found,
            shown,
            written,
        })
    }

    /// The call has ended, or its thread had left it; `new` is its new descriptor.
    pub(crate) fn finish(&self, draft: Draft, sent: Reply, new: Option<i32>) {
        let Some(pending) = self.pending.borrow_mut().remove(&draft.id) else {
            return;
        };
        let mut line = draft.text;
        if let (Some(fd), Reply::Delivered) = (new, sent) {
            let _ = write!(line, "{fd}<vink>");
        }
        if !draft.found.is_empty() {
            let _ = write!(line, " ({})", draft.found);
        }
        if sent == Reply::ThreadGone {
            line += " (not taken: killed)";
        }
        if let Some(emitter) = &self.emitter {
            let nr = pending.call.nr;
            let line = match pending.vink {
                true => line.as_str().into(),
                false => subscriber::without_chance(nr, &line),
            };
            emitter.end(pending.thread, pending.time.time, &line, &draft.written);
        }
        if draft.shown {
            self.write(&pending, &line);
        }
    }

    /// A process has ended.
    pub(crate) fn died(&self, pid: i32) {
        self.abandon(|old| old.pid == pid, "ended");
        if let Some(emitter) = &self.emitter {
            emitter.died(pid);
        }
    }

    /// Gives up calls that will never be answered.
    fn abandon(&self, which: impl Fn(&Pending) -> bool, why: &str) {
        let mut lost: Vec<(u64, u64)> = {
            let pending = self.pending.borrow();
            let lost = pending.iter().filter(|(_, p)| which(p));
            lost.map(|(id, p)| (p.thread, *id)).collect()
        };
        lost.sort_unstable();
        for (_, id) in lost {
            // As if it had failed: nothing has been filled in.
            let Some(draft) = self.draft(id, End::Result(-1)) else {
                continue;
            };
            let Some(pending) = self.pending.borrow_mut().remove(&id) else {
                continue;
            };
            let (call, _) = draft.text.rsplit_once(") = ").unwrap_or_default();
            let line = format!("{call}) = ? ({why})");
            if let Some(emitter) = &self.emitter {
                emitter.end(pending.thread, pending.time.time, &line, &[]);
            }
            self.write(&pending, &line);
        }
    }

    fn write(&self, pending: &Pending, line: &str) {
        let Some(to) = &self.to else {
            return;
        };
        let took = pending.began.elapsed().as_secs_f64();
        // One write for a line, so that lines of others don't get in between. That the reader is
        // gone is no reason to end the programs.
        let line = format!("{} {line} <{took:.6}>\n", pending.origin);
        let mut to = to.borrow_mut();
        let _ = to.write_all(line.as_bytes()).and_then(|()| to.flush());
    }
}

/// A result, as strace(1) shows it.
fn outcome(result: i64) -> String {
    if !(-4095..0).contains(&result) {
        return result.to_string();
    }
    if result == ERESTARTSYS {
        return "? (interrupted)".to_owned();
    }
    let number = -result as i32;
    let meaning = std::io::Error::from_raw_os_error(number).to_string();
    let meaning = meaning.split(" (os error").next().unwrap_or_default();
    match Errno::new(number).name() {
        Some(name) => format!("-1 {name} ({meaning})"),
        None => format!("-1 ({meaning})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[derive(Clone, Default)]
    struct Lines(Rc<RefCell<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn call(id: u64, nr: i64, args: [u64; 6]) -> Notification {
        let tid = vink_sys::process::gettid();
        Notification { id, tid, nr, args }
    }

    /// The lines of some use of a tracer, without times, with the thread as `T`.
    fn lines(host_too: bool, work: impl Fn(&Tracer)) -> Vec<String> {
        let lines = Lines::default();
        work(&Tracer::default().write_to(Box::new(lines.clone()), host_too));
        let text = String::from_utf8(lines.0.borrow().clone()).unwrap();
        let tid = call(0, 0, [0; 6]).tid.to_string();
        let strip = |l: &str| l.rsplit_once(" <").unwrap().0.replace(&tid, "T");
        text.lines().map(strip).collect()
    }

    fn end(tracer: &Tracer, id: u64, end: End, sent: Reply, new: Option<i32>) {
        tracer.finish(tracer.draft(id, end).unwrap(), sent, new);
    }

    #[test]
    fn calls_have_lines() {
        let written = lines(false, |t| {
            t.begin(
                call(1, libc::SYS_socket, [2, 1, 0, 0, 0, 0]),
                7,
                "m",
                &|_| false,
            );
            end(t, 1, End::Descriptor, Reply::Delivered, Some(3));
            t.begin(
                call(2, libc::SYS_listen, [3, 5, 0, 0, 0, 0]),
                7,
                "m",
                &|fd| fd == 3,
            );
            end(t, 2, End::Result(-98), Reply::Delivered, None);
            // The host's, and then one with a descriptor of Vink's.
            t.begin(
                call(3, libc::SYS_close, [4, 0, 0, 0, 0, 0]),
                7,
                "m",
                &|fd| fd == 3,
            );
            end(t, 3, End::Passed, Reply::Delivered, None);
            t.begin(
                call(4, libc::SYS_close, [3, 0, 0, 0, 0, 0]),
                7,
                "m",
                &|fd| fd == 3,
            );
            end(t, 4, End::Passed, Reply::Delivered, None);
            assert!(t.draft(4, End::Passed).is_none());
        });
        assert_eq!(
            written,
            [
                "m 7/T socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3<vink>",
                "m 7/T listen(3<vink>, 5) = -1 EADDRINUSE (Address already in use)",
                "m 7/T close(3<vink>) = (host)",
            ]
        );
    }

    #[test]
    fn calls_that_are_left() {
        let listen = |id| call(id, libc::SYS_listen, [id, 0, 0, 0, 0, 0]);
        let written = lines(true, |t| {
            t.begin(listen(1), listen(1).tid, "m", &|_| false);
            end(t, 1, End::Result(0), Reply::ThreadGone, None);
            t.begin(listen(2), 7, "m", &|_| false);
            t.begin(listen(3), 7, "m", &|_| false);
            t.died(8);
            t.died(7);
            t.died(7);
        });
        assert_eq!(
            written,
            [
                "m T listen(1, 0) = 0 (not taken: killed)",
                "m 7/T listen(2, 0) = ? (ended)",
                "m 7/T listen(3, 0) = ? (ended)",
            ]
        );
    }

    #[test]
    fn a_subscriber_is_told_of_threads_and_calls() {
        let told = Rc::new(RefCell::new(Vec::new()));
        let to = told.clone();
        let tracer = Tracer::default().subscribe(Box::new(move |at, what| {
            let line = match what {
                subscriber::TraceEvent::Thread {
                    thread,
                    machine,
                    process,
                } => format!("{thread} of {process} on {machine}"),
                subscriber::TraceEvent::Call {
                    thread,
                    began,
                    text,
                    written,
                } => format!("{thread} from {began}: {text} {written:?}"),
                subscriber::TraceEvent::Executed { thread, .. } => format!("{thread} executes"),
            };
            to.borrow_mut().push((at.time, line));
        }));
        let at = |time| TraceTime { time, packets: 0 };
        let bytes = *b"hello";
        let args = [1, bytes.as_ptr() as u64, 5, 0, 0, 0];
        let tid = call(0, 0, [0; 6]).tid;
        tracer.set_time(|| at(5));
        tracer.begin(call(1, libc::SYS_write, args), tid, "m", &|_| false);
        tracer.set_time(|| at(7));
        end(&tracer, 1, End::Passed, Reply::Delivered, None);
        tracer.begin(call(2, libc::SYS_listen, [9; 6]), tid, "m", &|_| false);
        end(&tracer, 2, End::Result(-9), Reply::Delivered, None);
        tracer.begin(call(3, libc::SYS_listen, [9; 6]), tid, "m", &|_| false);
        tracer.died(tid);
        // What is in the program's memory counts, and not where.
        let args = [bytes.as_ptr() as u64, 5, 1, 0, 0, 0];
        tracer.begin(call(4, libc::SYS_getrandom, args), tid, "m", &|_| false);
        end(&tracer, 4, End::Result(5), Reply::Delivered, None);
        tracer.begin(call(5, libc::SYS_uname, args), tid, "m", &|_| false);
        end(&tracer, 5, End::Result(0), Reply::Delivered, None);
        let hello = "[104, 101, 108, 108, 111]";
        let bad = "listen(9, 9) = -1 EBADF (Bad file descriptor)";
        let expected = [
            (5, "1 of 1 on m".to_owned()),
            (
                7,
                format!("1 from 5: write(1, \"hello\", 5) = (host) {hello}"),
            ),
            (7, format!("1 from 7: {bad} []")),
            (7, "1 from 7: listen(9, 9) = ? (ended) []".to_owned()),
            (7, "2 of 2 on m".to_owned()),
            (
                7,
                "2 from 7: getrandom(\"hello\", 5, 0x1) = 5 []".to_owned(),
            ),
            (7, "2 from 7: uname(&) = 0 []".to_owned()),
        ];
        assert_eq!(*told.borrow(), expected);
    }

    #[test]
    fn all_calls_are_named() {
        assert_eq!(call_name(libc::SYS_accept4), "accept4");
        assert_eq!(call_name(-1), "syscall_-1");
        assert_eq!(call_name(100_000), "syscall_100000");
    }
}
