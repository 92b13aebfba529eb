//! A lab worker's journal: what of a lab goes into it.

use std::fs::File;

use vink_record::{Event as Happened, Request};

use super::lab::{refused, Descriptors, Lab, WorkerError};
use crate::calls::CallsSetup;
use crate::Journal;
use vink_protocol::{Answer, Event, Hit, Noted};

impl Lab {
    pub(super) fn start_journal(
        &mut self,
        descriptors: &mut Descriptors,
    ) -> Result<(), WorkerError> {
        let to = descriptors.next().expect("counted before");
        if self.journal.is_some() {
            return Err(refused("a journal is being written already: end it first"));
        }
        let journal = Journal::start(&mut self.worker, File::from(to), "the journal");
        self.journal = Some(journal);
        self.calls = CallsSetup::trapped("a journal has every call");
        self.breakpoints.report_all(true);
        let ends: Vec<_> = self.end_names.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.trace(end))
    }

    pub(super) fn flush_journal(&mut self) -> Result<(), WorkerError> {
        self.catch_up_journal()?;
        if let Some(journal) = &mut self.journal {
            journal.flush();
        }
        Ok(())
    }

    pub(super) fn end_journal(&mut self, incomplete: bool) -> Result<Answer, WorkerError> {
        self.catch_up_journal()?;
        self.breakpoints.report_all(false);
        let now = self.worker.kernel().now();
        let journal = self.journal.take();
        let mut journal = journal.ok_or_else(|| refused("no journal is being written"))?;
        if incomplete || self.driver.has_pending_work() {
            journal.unfinished();
        }
        let totals = journal.finish(now)?;
        let ends: Vec<_> = self.end_names.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.trace(end))?;
        Ok(Answer::Journal(totals))
    }

    /// All that has happened until now is written down.
    fn catch_up_journal(&mut self) -> Result<(), WorkerError> {
        self.look_around()?;
        self.journal_events();
        Ok(())
    }

    /// Something that is not seen here.
    pub(super) fn note(&mut self, noted: Noted) -> Result<(), WorkerError> {
        if self.journal.is_none() {
            return Ok(());
        }
        self.catch_up_journal()?;
        let event = match noted {
            Noted::Line { line, error } => Happened::Line {
                line,
                error: error.unwrap_or_default(),
            },
            Noted::Changed { parts } => Happened::Changed(parts),
            Noted::Input {
                program,
                machine,
                actor,
                typed,
            } => Happened::Input {
                program,
                machine,
                actor,
                typed,
            },
            Noted::Asked {
                actor,
                method,
                path,
                body,
                clock,
            } => {
                let request = Request {
                    actor,
                    method,
                    path,
                    body,
                };
                match clock {
                    true => Happened::Clock(request),
                    false => Happened::Asked(request),
                }
            }
        };
        self.journal_event(self.worker.now(), event);
        Ok(())
    }

    /// What a breakpoint has done.
    pub(super) fn journal_hit(&mut self, hit: &Hit, effect: &str) {
        let event = Happened::Met {
            breakpoint: hit.breakpoint.clone(),
            number: hit.number,
            place: hit.packet.end.clone(),
            what: format!("{effect}: {} {}", hit.packet.kind, hit.packet.summary),
        };
        self.journal_event(hit.packet.time, event);
    }

    fn journal_event(&mut self, time: u64, event: Happened) {
        if let Some(journal) = &mut self.journal {
            journal.event(time, event);
        }
    }

    /// A program was started.
    pub(super) fn journal_start(&mut self, program: u64, machine: &str, words: &[String]) {
        let (machine, words) = (machine.to_owned(), words.to_vec());
        let event = Happened::Started {
            program,
            machine,
            words,
        };
        self.journal_event(self.worker.now(), event);
    }

    /// What is to be told, which is written down with that.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        self.journal_events();
        self.journaled = 0;
        std::mem::take(&mut self.events)
    }

    /// Writes down what is to be told and was not written yet.
    fn journal_events(&mut self) {
        if let Some(journal) = &mut self.journal {
            let now = self.worker.kernel().now();
            for event in &self.events[self.journaled..] {
                let happened = match event {
                    Event::Output { program, text } => Happened::Output {
                        program: *program,
                        text: text.clone(),
                    },
                    Event::Ended {
                        program,
                        code,
                        error,
                        report,
                        ..
                    } => Happened::Ended {
                        program: *program,
                        code: *code,
                        report: match (error, report) {
                            (Some(error), _) => error.clone(),
                            (None, Some(report)) => report.to_string(),
                            (None, None) => String::new(),
                        },
                    },
                    _ => continue,
                };
                journal.event(now, happened);
            }
        }
        self.journaled = self.events.len();
    }
}
