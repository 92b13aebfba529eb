//! Programs: their descriptors, terminals, signals and ends.

use std::io::{Read, Write};
use std::os::fd::AsFd;

use vink_protocol::{Action, Answer};

use crate::place::Place;
use crate::talk::{null, pipe, program, shell, terminal, Talk};

#[test]
fn standard_descriptors_and_ends() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        let before = talk.used();
        talk.machine("m");
        let (input, to) = pipe();
        let (mut output, its_output) = pipe();
        let (mut errors, its_errors) = pipe();
        let script = "cat; echo $A; pwd; echo wrong >&2; exit 3";
        let mut new = shell("m", script);
        new.env.push(("A".to_owned(), "b c".to_owned()));
        new.dir = "/usr".to_owned();
        let stdio = [input.as_fd(), its_output.as_fd(), its_errors.as_fd()];
        let number = talk.spawn(new, stdio);
        drop((input, its_output, its_errors));
        std::fs::File::from(to).write_all(b"hello\n").unwrap();
        assert_eq!(talk.ended(number), (3, None));
        talk.gone(number);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\nb c\n/usr\n");
        text.clear();
        errors.read_to_string(&mut text).unwrap();
        assert_eq!(text, "wrong\n");

        // Not to be executed; what it leaves behind; signals.
        let null = null();
        let stdio = [null.as_fd(); 3];
        let missing = talk.spawn(program("m", &["no-such-program"]), stdio);
        let (code, error) = talk.ended(missing);
        assert!(code == 127 && error.is_some_and(|e| e.contains("no-such-program")));
        let (leaves, mut output) = talk.start("m", "sleep 1000 & echo left");
        assert_eq!(talk.ended(leaves), (0, None));
        talk.ok(Action::Kill { program: leaves });
        talk.gone(leaves);
        text.clear();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "left\n");
        let (number, _output) = talk.start("m", "sleep 1000 | sleep 1000");
        talk.ok(Action::Signal {
            program: number,
            signal: libc::SIGTERM,
        });
        assert_eq!(talk.ended(number).0, 128 + libc::SIGTERM);
        talk.gone(number);
        assert!(talk
            .refused(Action::Kill { program: number })
            .contains("no such program"));
        let mut nowhere = shell("m", ":");
        nowhere.dir = "/no/such/folder".to_owned();
        let error = talk.ask_with(Action::Spawn(nowhere), &stdio).unwrap_err();
        assert!(error.contains("directory"), "{error}");
        talk.ok(Action::RemoveMachine {
            machine: "m".to_owned(),
        });
        assert_eq!(talk.used(), before);
    }
}

#[test]
fn a_shell_on_a_terminal() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        talk.machine("m");
        let (mut user, end) = terminal(91, 33);
        let mut bash = program("m", &["/bin/bash", "--norc", "--noediting", "-i"]);
        bash.terminal = true;
        bash.env.push(("PS1".to_owned(), "$ ".to_owned()));
        let number = talk.spawn(bash, [end.as_fd(); 3]);
        drop(end);
        let foreground = |user: &crate::talk::Terminal| vink_sys::process::foreground(&user.file);
        user.until("$ ");
        let itself = foreground(&user);
        user.write("stty size; nc -n -v -u -l 7\n");
        user.until("33 91\r\n");
        user.until("ound on");
        user.write("\x1a");
        user.until("Stopped");
        user.until("$ ");
        user.write("fg\n");
        user.until("nc -n");
        while foreground(&user) == itself {}
        user.write("\x03");
        user.until("$ ");
        user.write("echo $?; trap 'echo resized' WINCH\n");
        user.until("130\r\n");
        user.until("$ ");
        vink_sys::terminal::resize(&user.file, 50, 100).expect("a terminal");
        user.write("stty size; exit 5\n");
        user.until("50 100\r\n");
        assert_eq!(talk.ended(number), (5, None));
        talk.gone(number);
    }
}

#[test]
fn a_hundred_programs() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    let before = talk.used();
    for i in 0..10 {
        talk.machine(&format!("m{i}"));
    }
    let started: Vec<_> = (0..100)
        .map(|i| {
            let line = format!("ping -q -c 1 127.0.0.1 >/dev/null && echo {i}; exit {i}");
            (i, talk.start(&format!("m{}", i % 10), &line))
        })
        .collect();
    for (i, (number, mut output)) in started {
        assert_eq!(talk.ended(number), (i, None));
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("{i}\n"));
        talk.gone(number);
    }
    for i in 0..10 {
        talk.ok(Action::RemoveMachine {
            machine: format!("m{i}"),
        });
    }
    assert_eq!(talk.used(), before);
}

#[test]
fn files_and_names() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        talk.machine("m");
        let files = |text: &str| Action::Files {
            machine: "m".to_owned(),
            files: vec![("/etc/resolv.conf".to_owned(), text.to_owned())],
        };
        talk.ok(files("nameserver 10.0.0.53\n"));
        let text = "10.0.0.9\tother m-eth0\n".to_owned();
        talk.ok(Action::Hosts { text });
        let look =
            "cat /etc/resolv.conf /etc/hostname; getent hosts other | tr -s ' '; getent hosts m";
        let (_, seen) = talk.run("m", look);
        let expected = "nameserver 10.0.0.53\nm\n10.0.0.9 other m-eth0\n127.0.1.1";
        assert!(seen.starts_with(expected), "{seen}");
        talk.ok(files("nameserver 10.0.0.54\n"));
        let text = "10.0.0.8\tother\n".to_owned();
        talk.ok(Action::Hosts { text });
        let (_, seen) = talk.run("m", look);
        assert!(
            seen.starts_with("nameserver 10.0.0.54\nm\n10.0.0.8 other\n"),
            "{seen}"
        );
    }
}

#[test]
fn files_that_the_host_has_not() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        talk.machine("m");
        let files = |list: &[(&str, &str)]| Action::Files {
            machine: "m".to_owned(),
            files: list
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                .collect(),
        };
        let large = "x".repeat(2 << 20);
        talk.ok(files(&[
            ("/etc/vink-test/one.conf", "one\n"),
            ("/etc/vink-test/deep/two.conf", "two\n"),
            ("/etc/vink-test.conf", "three\n"),
            ("/usr/share/vink-test/large", &large),
            ("/etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
        ]));
        let look = "cd /etc; cat vink-test/one.conf vink-test/deep/two.conf vink-test.conf passwd hostname; \
             wc -c < /usr/share/vink-test/large; test -e ld.so.cache && test -x /usr/share/doc && echo all; \
             stat -c %a /etc /etc/vink-test.conf";
        let (_, seen) = talk.run("m", look);
        let expected = "one\ntwo\nthree\nroot:x:0:0::/root:/bin/sh\nm\n2097152\nall\n755\n644\n";
        assert_eq!(seen, expected);
        assert!(!std::path::Path::new("/etc/vink-test").exists());
        for (path, words) in [
            ("/no-such-folder/file", "/etc"),
            ("etc/file", "absolute"),
            ("/etc/../etc/vink-test", "absolute"),
            ("/usr/bin", "folder"),
        ] {
            let mut other = Talk::new(&place);
            other.machine("m");
            other.ok(files(&[(path, "")]));
            let null = null();
            let stdio = [null.as_fd(); 3];
            let started = other.ask_with(Action::Spawn(shell("m", ":")), &stdio);
            let error = started.expect_err(path);
            assert!(error.contains(path) && error.contains(words), "{error}");
        }
    }
}

#[test]
fn removing_a_machine_ends_all_on_it() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        let before = talk.used();
        talk.machine("m");
        talk.machine("n");
        talk.wire("w");
        talk.attach("m", "eth0", "w", "10.0.0.1/24");
        talk.attach("n", "eth0", "w", "10.0.0.2/24");
        let words = ["echoserver", "-p", "7"].map(str::to_owned).to_vec();
        let app = match talk.ok(Action::App {
            machine: "m".to_owned(),
            words,
        }) {
            Answer::Program(number) => number,
            other => panic!("{other:?}"),
        };
        let (nc, _output) = talk.start(
            "m",
            "(trap '' TERM HUP; nc -l 9 & setsid nc -l 10 & wait) & sleep 1000",
        );
        let listens = |port| Action::Listens {
            machine: "m".to_owned(),
            port,
            udp: false,
        };
        for port in [7, 9, 10] {
            while talk.ok(listens(port)) != Answer::Yes(true) {}
        }
        let (capture, end) = pipe();
        let action = Action::Capture {
            interfaces: vec!["m:eth0".to_owned()],
            filter: None,
            snap: 0,
        };
        talk.ask_with(action, &[end.as_fd()]).unwrap();
        drop(end);
        talk.ok(Action::RemoveMachine {
            machine: "m".to_owned(),
        });
        talk.gone(app);
        talk.gone(nc);
        talk.event(|event| match event {
            vink_protocol::Event::CaptureEnded { error, .. } => error
                .contains("none of its interfaces is left")
                .then_some(()),
            _ => None,
        });
        // The descriptor is closed.
        let mut bytes = Vec::new();
        (&capture).read_to_end(&mut bytes).unwrap();
        let status = talk.status(None);
        assert_eq!(status.machines.len(), 1);
        assert_eq!(status.wires[0].ends.len(), 1);
        // The name is free, the wire has room.
        talk.machine("m");
        talk.attach("m", "eth0", "w", "10.0.0.1/24");
        assert_eq!(talk.run("n", "ping -q -c 1 -W 10 10.0.0.1").0, 0);
        for machine in ["m", "n"] {
            talk.ok(Action::RemoveMachine {
                machine: machine.to_owned(),
            });
        }
        assert_eq!(talk.used(), before);
    }
}
