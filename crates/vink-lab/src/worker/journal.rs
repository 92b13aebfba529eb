//! A lab worker's journal: what of a lab goes into it.

use std::fs::File;

use vink_record::Event as Happened;

use super::lab::{refused, Descriptors, Lab, Trouble};
use super::protocol::{Answer, Event};
use crate::Journal;

impl Lab {
    pub(super) fn start_journal(&mut self, descriptors: &mut Descriptors) -> Result<(), Trouble> {
        let to = descriptors.next().expect("counted before");
        if self.journal.is_some() {
            return Err(refused("a journal is being written already: end it first"));
        }
        let journal = Journal::start(&mut self.worker, File::from(to), "the journal");
        self.journal = Some(journal);
        let ends: Vec<_> = self.places.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.trace(end))
    }

    pub(super) fn end_journal(&mut self) -> Result<Answer, Trouble> {
        // All that has happened until now.
        self.look_around()?;
        let events = self.take_events();
        self.events = events;
        let now = self.worker.kernel().now();
        let journal = self.journal.take();
        let mut journal = journal.ok_or_else(|| refused("no journal is being written"))?;
        if self.pace.is_amidst_something() {
            journal.unfinished();
        }
        let totals = journal.finish(now)?;
        let ends: Vec<_> = self.places.keys().copied().collect();
        ends.into_iter().try_for_each(|end| self.trace(end))?;
        Ok(Answer::Journal(totals))
    }

    /// A program was started.
    pub(super) fn journal_start(&mut self, program: u64, machine: &str, words: &[String]) {
        if let Some(journal) = &mut self.journal {
            let now = self.worker.kernel().now();
            let (machine, words) = (machine.to_owned(), words.to_vec());
            let event = Happened::Started {
                program,
                machine,
                words,
            };
            journal.program(now, event);
        }
    }

    /// What is to be told, which is written down with that.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        let events = std::mem::take(&mut self.events);
        if let Some(journal) = &mut self.journal {
            let now = self.worker.kernel().now();
            for event in &events {
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
                journal.program(now, happened);
            }
        }
        events
    }
}
