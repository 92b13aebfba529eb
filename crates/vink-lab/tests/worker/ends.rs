//! How a worker ends, and that nothing is left then.

use std::io::Read;
use std::os::fd::AsFd;

use vink_protocol::{Action, Event};

use crate::place::Place;
use crate::talk::{null, pipe, shell, Talk};

/// Processes that hide as well as they can, and that have a pipe's end open as long as they live.
const HIDING: &str =
    "trap '' TERM HUP INT; (setsid sleep 1000 &) ; setsid bash -c 'exec sleep 1000' & \
     (nc -l 9 & wait) & echo ready; wait";

/// Starts some, and returns the pipe that ends with the last of them.
fn hide(talk: &mut Talk) -> std::fs::File {
    talk.machine("m");
    let (mut output, end) = pipe();
    let null = null();
    for _ in 0..3 {
        let stdio = [null.as_fd(), end.as_fd(), null.as_fd()];
        talk.spawn(shell("m", HIDING), stdio);
    }
    drop(end);
    let mut ready = [0; 18];
    output.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\nready\nready\n");
    output
}

fn is_at_end(mut output: std::fs::File) {
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn the_socket_is_closed() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        let output = hide(&mut talk);
        assert_eq!(talk.close(), Some(0));
        is_at_end(output);
    }
}

#[test]
fn it_is_killed() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        let output = hide(&mut talk);
        talk.link.process().kill().unwrap();
        is_at_end(output);
        assert!(talk.link.receive().unwrap().is_none());
    }
}

#[test]
fn its_kernel_panics() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        let output = hide(&mut talk);
        talk.send(Action::Panic, &[]);
        let (message, backtrace, log) = talk.event(|event| match event {
            Event::Panic {
                message,
                backtrace,
                log,
            } => Some((message.clone(), backtrace.clone(), log.clone())),
            _ => None,
        });
        assert!(!message.is_empty());
        let names = backtrace
            .iter()
            .any(|frame| frame.contains("vink_") && frame.contains(".c:"));
        assert!(names, "{backtrace:?}");
        assert!(log.contains("Kernel panic - not syncing: BUG!"), "{log}");
        is_at_end(output);
        assert!(talk.link.receive().unwrap().is_none());
        assert_eq!(talk.link.process().wait().unwrap().code(), Some(121));
    }
}
