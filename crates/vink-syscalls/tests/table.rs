//! The table against what is known without it: the kernel's numbers, answers that have been right
//! so far, and what must hold between columns.

use std::fmt::Write;

use syscalls::Sysno;
use vink_syscalls::{
    blocks, conflict, fd_role, file_signals, is_linkers, is_plain_io, is_untrapped, kind, marked,
    marked_in_time, name, open_flags, output, path_args, polling, restart, sched_class, shapes,
    sharing, shim, status, Blocks, Conflict, FdRole, FileSignals, Kind, OpenFlags, Output,
    PathArgs, Polling, Restart, Sched, Shape, Sharing, Shim, Status, FOREIGN, NR_END,
};

/// Numbers, known and unknown.
fn numbers() -> impl Iterator<Item = i64> {
    let far = [i64::MIN, i64::MAX, FOREIGN - 1, FOREIGN + 1, 1 << 30];
    (-2..600).chain(far)
}

/// What the table says of a call, if it is anything but the default.
fn line(nr: i64) -> String {
    let mut text = String::new();
    let mut put = |name: &str, value: &dyn std::fmt::Debug, default: &dyn std::fmt::Debug| {
        let (value, default) = (format!("{value:?}"), format!("{default:?}"));
        if value != default {
            let _ = write!(text, " {name}={value}");
        }
    };
    put("kind", &kind(nr), &Kind::Other);
    put("shim", &shim(nr), &Shim::Host);
    put("blocks", &blocks(nr), &Blocks::Never);
    put("plain", &is_plain_io(nr), &false);
    put("signals", &file_signals(nr), &FileSignals::Never);
    put("sched", &sched_class(nr), &Sched::AsInRealTime);
    put("untrapped", &is_untrapped(nr), &false);
    put("conflict", &conflict(nr), &Conflict::Any);
    put("sharing", &sharing(nr), &Sharing::None);
    put("path", &path_args(nr), &PathArgs::None);
    put("open", &open_flags(nr), &OpenFlags::None);
    put("status", &status(nr), &Status::None);
    put("output", &output(nr), &Output::None);
    put("polling", &polling(nr), &Polling::None);
    put("marked", &marked(nr), &None::<u32>);
    put("marked_in_time", &marked_in_time(nr), &None::<u32>);
    put("linker", &is_linkers(nr), &false);
    put("restart", &restart(nr), &Restart::Never);
    put("shapes", &shapes(nr), &None::<()>);
    text
}

/// `golden.txt` has the answers of the matches on numbers that the table has replaced. It is changed
/// by hand, with the row that changes.
#[test]
fn rows_say_what_is_right() {
    let mut golden = include_str!("golden.txt").lines();
    for nr in numbers() {
        let line = line(nr);
        if !line.is_empty() {
            let name = name(nr).unwrap_or("?");
            assert_eq!(golden.next(), Some(&*format!("{nr} {name}{line}")));
        }
    }
    assert_eq!(golden.next(), None);
}

#[test]
fn names_are_the_kernels() {
    for nr in numbers() {
        let known = usize::try_from(nr).ok().and_then(Sysno::new);
        assert_eq!(name(nr), known.map(|call| call.name()), "{nr}");
    }
    assert_eq!(name(libc::SYS_openat2), Some("openat2"));
}

#[test]
fn other_architectures_are_foreign() {
    assert_eq!(kind(FOREIGN), Kind::Foreign);
    assert!(numbers().all(|nr| kind(nr) != Kind::Foreign));
    assert!(numbers().all(|nr| name(nr).is_none() || (0..NR_END as i64).contains(&nr)));
}

/// What one column says must fit what another one says.
#[test]
fn columns_agree() {
    for nr in numbers() {
        let named = name(nr).unwrap_or("?");
        let on_file = fd_role(nr) == FdRole::File;
        // A notification is answered by the kernel with the first argument replaced.
        assert!(kind(nr) != Kind::Io || on_file, "{named}");
        assert!(shim(nr) != Shim::Io || on_file, "{named}");
        // What the worker sees may be printed.
        let is_seen = !matches!(kind(nr), Kind::Other | Kind::Uring);
        assert!(!is_seen || shapes(nr).is_some(), "{named}");
        // Both interposers have Vink's paths.
        let looks_up = matches!(kind(nr), Kind::Open | Kind::LookUp);
        assert_eq!(shim(nr) == Shim::LookUp, looks_up, "{named}");
        assert!(!looks_up || path_args(nr) != PathArgs::None, "{named}");
        assert_eq!(kind(nr) == Kind::Open, open_flags(nr) != OpenFlags::None);
        // What virtual time answers is trapped; rt_sigaction(2) and mmap(2) differ by argument.
        assert!(
            !is_untrapped(nr) || sched_class(nr) == Sched::AsInRealTime,
            "{named}"
        );
        assert!(!is_untrapped(nr) || blocks(nr) == Blocks::Never, "{named}");
        // A mark needs an argument that the call does not have, or one half of a pair.
        for mark in [marked(nr), marked_in_time(nr)].into_iter().flatten() {
            assert!(
                shapes(nr).is_some_and(|shapes| shapes.len() <= 6 && mark >= 4),
                "{named}"
            );
        }
        assert!(!is_plain_io(nr) || matches!(blocks(nr), Blocks::Reads | Blocks::Writes(_)));
        // A call that is made again was trapped.
        assert!(
            restart(nr) == Restart::Never || kind(nr) != Kind::Other,
            "{named}"
        );
        if let PathArgs::Below(directory, path) = path_args(nr) {
            assert_eq!(fd_role(nr), FdRole::Directory, "{named}");
            let shapes = shapes(nr).expect(named);
            assert_eq!((shapes[directory], shapes[path]), (Shape::Fd, Shape::Text));
        }
        if let PathArgs::At(path) = path_args(nr) {
            assert_eq!(shapes(nr).expect(named)[path], Shape::Text);
        }
        // A batch's rule is careful of what nothing is known of.
        assert!(name(nr).is_some() || conflict(nr) == Conflict::Any, "{nr}");
    }
}

/// Indices name parameters of the same call.
#[test]
fn indices_are_of_parameters() {
    for nr in numbers() {
        for shape in shapes(nr).unwrap_or_default() {
            if let Shape::In(n)
            | Shape::Out(n)
            | Shape::InVector(n)
            | Shape::OutVector(n)
            | Shape::InAddress(n)
            | Shape::OutAddress(n)
            | Shape::InMessages(n)
            | Shape::InOption(n)
            | Shape::OutOption(n)
            | Shape::Polled(n) = shape
            {
                assert!(*n < shapes(nr).unwrap_or_default().len(), "{nr}: {shape:?}");
            }
        }
    }
}

/// Of the calls that the worker runs as they are, which have a message or bytes in their second
/// argument: files travel in messages, and what is sent to rtnetlink may name a namespace.
#[test]
fn what_is_sent_and_received() {
    let with = |is: fn(&Shape) -> bool| -> Vec<_> {
        let calls = numbers().filter(|nr| kind(*nr) == Kind::Io);
        let second = |nr: &i64| shapes(*nr).and_then(|shapes| shapes.get(1)).is_some_and(is);
        calls.filter(second).filter_map(name).collect()
    };
    let one = with(|shape| *shape == Shape::InMessage);
    assert_eq!(one, ["sendmsg"]);
    let several = with(|shape| matches!(shape, Shape::InMessages(2)));
    assert_eq!(several, ["sendmmsg"]);
    let received = with(|shape| matches!(shape, Shape::OutMessage | Shape::OutMessages));
    assert_eq!(received, ["recvmsg", "recvmmsg"]);
    let bytes = with(|shape| matches!(shape, Shape::In(2)));
    assert_eq!(bytes, ["write", "sendto"]);
    // What programs give the host to write, which journals have.
    let written = |is: fn(&Shape) -> bool| -> Vec<_> {
        let second = |nr: &i64| shapes(*nr).and_then(|shapes| shapes.get(1)).is_some_and(is);
        let calls = numbers().filter(|nr| sched_class(*nr) != Sched::HostMayBlock);
        calls.filter(second).filter_map(name).collect()
    };
    let plain = written(|shape| matches!(shape, Shape::In(2)));
    assert_eq!(plain, ["write", "pwrite64", "sendto"]);
    let vectors = written(|shape| matches!(shape, Shape::InVector(2)));
    assert_eq!(vectors, ["writev", "pwritev", "pwritev2"]);
    assert_eq!(blocks(libc::SYS_sendmsg), Blocks::Sends(Some(2)));
    assert_eq!(blocks(libc::SYS_sendto), Blocks::Sends(Some(3)));
}
