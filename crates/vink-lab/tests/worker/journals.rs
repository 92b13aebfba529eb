//! Journals: what goes into one.

use std::fs::File;
use std::os::fd::AsFd;

use vink_protocol::{Action, Noted};
use vink_record::{Event, Reader};

use crate::place::Place;
use crate::talk::Talk;

#[test]
fn what_ends_while_something_is_noted_is_written_once() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    let path = place.temporary().join("journal");
    let file = File::create(&path).expect("a file");
    talk.ask_with(Action::Journal, &[file.as_fd()])
        .expect("a journal");
    talk.machine("a");
    let (program, _output) = talk.start("a", "sleep 1000");
    let line = Noted::Line {
        line: "kill it".to_owned(),
        error: None,
    };
    talk.ok(Action::All(vec![
        Action::Kill { program },
        Action::Note(line),
    ]));
    talk.ended(program);
    talk.ok(Action::EndJournal { incomplete: false });
    let file = File::open(&path).expect("a journal");
    let mut reader = Reader::new(file, "journal").expect("a journal");
    let mut told = Vec::new();
    while let Some(record) = reader.next_record().expect("a record") {
        match record.event {
            Event::Ended { program: its, .. } if its == program => told.push("ended"),
            Event::Line { .. } => told.push("line"),
            _ => {}
        }
    }
    assert_eq!(told, ["ended", "line"]);
}
