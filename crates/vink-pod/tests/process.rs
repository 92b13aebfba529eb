//! Pods behind the process wall: what they can do, and that they are ended for all else, with the
//! worker as it was. As root, and as an ordinary user.

mod common;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::{
    converse, ends, load_with, stream, takes_time, Bystander, Place, PACKETS, STREAM, UNITS, WORK,
};
use vink_pod::{Fault, Limits, Wall};
use vink_sys::process::{affinity, cpus, one_cpu, set_affinity};

fn limits() -> Limits {
    Limits {
        // Others may use the processors.
        time: Duration::from_millis(400),
        // Much is said in little time, however slow the machine.
        emit: 100_000,
        ..Limits::default()
    }
}

#[test]
fn calls_and_what_they_say() {
    let place = Place::new("calls");
    let source = format!(
        "#include <stdio.h>
        int32_t pod_init(const char *config, uint32_t len)
        {{ vink_log(config, len); printf(\"printed %d\\n\", 5); return 0; }}
        {PACKETS} {UNITS}"
    );
    let (mut pod, init) = place
        .load(&source, b"some text\nof two lines", limits())
        .unwrap();
    assert_eq!(init.log, ["some text", "of two lines", "printed 5"]);
    assert_eq!(pod.wall(), Wall::Process);
    assert!(pod.memory() > 4096);
    converse(&mut *pod, 3);
}

#[test]
fn crossings_say_how_long_the_processor_works() {
    let place = Place::new("time");
    let file = place.compile(WORK, &[]);
    let wide = Limits {
        time: Duration::from_secs(60),
        ..Limits::default()
    };
    for wall in [Wall::Process, Wall::None] {
        let (mut pod, _) = load_with(&file, b"", wide.clone(), wall).unwrap();
        takes_time(&mut *pod);
    }
}

/// What a call of `pod_stream()` with this body ends in.
fn fault_of(place: &Place, body: &str) -> Fault {
    let source = format!("{HEAD}\n{HELP}\n{STREAM} {{ {body} return 0; }}");
    let (mut pod, _) = place.load(&source, b"", limits()).expect(body);
    ends(&mut *pod, b"unit", body)
}

fn bystander(place: &Place) -> Bystander {
    Bystander::new(place.load(Bystander::SOURCE, b"", limits()).unwrap().0)
}

/// What attacks have in common: the first call's bytes are in the shared memory.
const HELP: &str = "
#define main_area() ((void *)(bytes - 4096 - 32))
__attribute__((noinline)) int recurse(volatile int n) { volatile char a[1000]; a[0] = n; return recurse(n + 1) + a[n % 1000]; }
";

const HEAD: &str = "
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
";

#[test]
fn system_calls_end_it() {
    let place = Place::new("calls-end");
    let mut bystander = bystander(&place);
    for (body, name) in [
        ("open(\"/etc/passwd\", O_RDONLY);", "openat"),
        ("open(\"/usr/lib/x\", O_RDWR | O_CREAT, 0600);", "openat"),
        ("syscall(SYS_open, \"/etc/passwd\", 0);", "open"),
        ("syscall(SYS_openat2, -100, \"/\", 0, 0);", "openat2"),
        ("read(0, &errno, 1);", "read"),
        ("read(3, &errno, 1);", "read"),
        ("write(3, &errno, 1);", "write"),
        ("dup2(0, 1);", "dup2"),
        ("socket(AF_INET, SOCK_STREAM, 0);", "socket"),
        ("socket(AF_UNIX, SOCK_STREAM, 0);", "socket"),
        ("socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0});", "socketpair"),
        ("syscall(SYS_ptrace, 16, 1, 0, 0);", "ptrace"),
        ("syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0);", "process_vm_readv"),
        ("syscall(SYS_process_vm_writev, 1, 0, 0, 0, 0, 0);", "process_vm_writev"),
        ("kill(-1, SIGKILL);", "kill"),
        ("kill(1, SIGKILL);", "kill"),
        ("syscall(SYS_tgkill, 1, 1, SIGKILL);", "tgkill"),
        ("syscall(SYS_pidfd_open, 1, 0);", "pidfd_open"),
        ("syscall(SYS_pidfd_getfd, 0, 0, 0);", "pidfd_getfd"),
        ("memfd_create(\"x\", 0);", "memfd_create"),
        ("mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);", "mmap"),
        ("mmap(0, 4096, PROT_READ, MAP_SHARED, 4, 0);", "mmap"),
        ("mprotect(&errno, 4096, PROT_READ | PROT_EXEC);", "mprotect"),
        ("syscall(SYS_pkey_mprotect, 0, 4096, 5, 0);", "pkey_mprotect"),
        ("syscall(SYS_io_uring_setup, 1, 0);", "io_uring_setup"),
        ("syscall(SYS_userfaultfd, 0);", "userfaultfd"),
        ("syscall(SYS_bpf, 0, 0, 0);", "bpf"),
        ("syscall(SYS_perf_event_open, 0, 0, 0, 0, 0);", "perf_event_open"),
        ("prctl(PR_SET_DUMPABLE, 1);", "prctl"),
        ("prctl(PR_SET_PDEATHSIG, 0);", "prctl"),
        ("syscall(SYS_seccomp, 1, 0, 0);", "seccomp"),
        ("fork();", "clone"),
        ("vfork();", "vfork"),
        ("syscall(SYS_clone, 0, 0, 0, 0, 0);", "clone"),
        ("syscall(SYS_clone3, 0, 0);", "clone3"),
        ("unshare(CLONE_NEWUSER);", "unshare"),
        ("syscall(SYS_setns, 0, 0);", "setns"),
        ("syscall(SYS_mount, 0, 0, 0, 0, 0);", "mount"),
        ("syscall(SYS_chroot, \"/\");", "chroot"),
        ("execl(\"/bin/sh\", \"sh\", NULL);", "execve"),
        ("syscall(SYS_execveat, -100, \"/bin/sh\", 0, 0, 0);", "execveat"),
        ("setuid(0);", "setuid"),
        ("syscall(SYS_rt_sigaction, SIGSEGV, 0, 0, 8);", "rt_sigaction"),
        ("syscall(SYS_rt_sigreturn);", "rt_sigreturn"),
        ("syscall(SYS_setrlimit, 9, 0);", "setrlimit"),
        ("syscall(SYS_prlimit64, 0, 9, 0, 0);", "prlimit64"),
        ("syscall(SYS_ioctl, 1, 0x5412, 0);", "ioctl"),
        ("syscall(SYS_arch_prctl, 0x1001, 0);", "arch_prctl"),
        ("syscall(SYS_futex, &errno, FUTEX_LOCK_PI, 0, 0, 0, 0);", "futex"),
        ("syscall(SYS_sendmsg, 4, 0, 0);", "sendmsg"),
        ("usleep(1);", "clock_nanosleep"),
        ("open(\"/proc/self/mem\", O_RDWR);", "openat"),
        ("raise(SIGSEGV);", "tgkill"),
        ("raise(SIGKILL);", "tgkill"),
        ("alarm(1);", "alarm"),
        ("syscall(SYS_timer_create, 0, 0, 0);", "timer_create"),
        ("syscall(SYS_shmget, 0, 4096, 0);", "shmget"),
        ("syscall(SYS_keyctl, 0, 0, 0, 0, 0);", "keyctl"),
        ("syscall(SYS_pkey_alloc, 0, 0);", "pkey_alloc"),
        ("syscall(SYS_modify_ldt, 0, 0, 0);", "modify_ldt"),
        ("syscall(SYS_sigaltstack, 0, 0);", "sigaltstack"),
        ("syscall(SYS_sched_setaffinity, 0, 0, 0);", "sched_setaffinity"),
        ("syscall(SYS_getpid | 0x40000000);", "number 1073741863"),
        ("syscall(100000);", "number 100000"),
        // By its own instruction, not by libc's.
        ("__asm__ volatile(\"syscall\" :: \"a\"(41), \"D\"(2), \"S\"(1), \"d\"(0) : \"rcx\", \"r11\", \"memory\");", "socket"),
    ] {
        assert_eq!(fault_of(&place, body), Fault::SystemCall(name.to_owned()), "{body}");
        bystander.goes_on(body);
    }
    // By the page at a fixed address, which old programs call.
    let body = "((int (*)(void *, void *))0xffffffffff600000)(0, 0);";
    match fault_of(&place, body) {
        Fault::SystemCall(name) => assert_eq!(name, "gettimeofday"),
        // The host has no such page.
        Fault::Code(said) => assert!(
            said.starts_with("used address 0xffffffffff600000"),
            "{said}"
        ),
        other => panic!("{other:?}"),
    }
    bystander.goes_on(body);
    // By the gate of 32-bit programs, whose numbers are others.
    let body = "__asm__ volatile(\"int $0x80\" :: \"a\"(20) : \"memory\");";
    let fault = fault_of(&place, body);
    assert_eq!(
        fault,
        Fault::SystemCall("of another architecture".to_owned())
    );
    bystander.goes_on(body);
}

#[test]
fn memory_is_had_without() {
    let place = Place::new("memory");
    let source = format!(
        "{HEAD}
        {STREAM}
        {{
            size_t large = 30 << 20;
            char *small = malloc(100), *big = malloc(large);
            memset(big, 1, large);
            big = realloc(big, large / 2);
            char *more = calloc(1000, 1000);
            printf(\"%d %d\", big[5], more[6]);
            fflush(stdout);
            fprintf(stderr, \"%s\\n\", \"to standard error\");
            write(1, \"nowhere\", 7);
            free(small), free(big), free(more);
            syscall(SYS_futex, &errno, FUTEX_WAKE, 1, 0, 0, 0);
            return 0;
        }}"
    );
    let (mut pod, _) = place.load(&source, b"", limits()).unwrap();
    let before = pod.memory();
    for _ in 0..10 {
        let (done, batch) = stream(&mut *pod, b"unit");
        done.unwrap();
        assert_eq!(batch.log, ["1 0", "to standard error"]);
    }
    assert!(pod.memory() < before + (40 << 20), "{}", pod.memory());
}

#[test]
fn there_is_no_more_memory_than_its_limit() {
    let place = Place::new("no-more");
    let source = format!(
        "{HEAD}
        {STREAM}
        {{
            long got = 0;
            for (char *page; (page = malloc(1 << 20)); got++) memset(page, 1, 1 << 20);
            vink_count(0, got);
            for (int shared = 0; shared < 2; shared++)
                if (mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE), -1, 0) != MAP_FAILED)
                    vink_count(1, 1);
            return 0;
        }}"
    );
    let (mut pod, _) = place.load(&source, b"", limits()).unwrap();
    let (done, batch) = stream(&mut *pod, b"unit");
    done.unwrap();
    // The rest of the 64 MiB is its code's, stack's and libraries'.
    assert!((40..64).contains(&batch.counted[0]), "{:?}", batch.counted);
    assert_eq!(batch.counted[1], 0);
    assert!(pod.memory() < (64 << 20) + (16 << 20), "{}", pod.memory());
    // It goes on without.
    stream(&mut *pod, b"unit").0.unwrap();
}

#[test]
fn libraries_of_the_system() {
    let place = Place::new("libraries");
    let source = format!(
        "{HEAD}
        double cbrt(double);
        int compress(unsigned char *, unsigned long *, const unsigned char *, unsigned long);
        int uncompress(unsigned char *, unsigned long *, const unsigned char *, unsigned long);
        {STREAM}
        {{
            unsigned char small[1000], same[1000];
            unsigned long packed = sizeof small, got = sizeof same;
            volatile double cube = len;
            if (compress(small, &packed, bytes, len) || uncompress(same, &got, small, packed)) return 1;
            vink_emit(cbrt(cube) + 0.5, same, got);
            return packed >= got;
        }}"
    );
    let file = place.compile(&source, &["-l:libz.so.1", "-l:libm.so.6"]);
    let (mut pod, _) = common::load_file(&file, b"", limits()).unwrap();
    let (done, batch) = stream(&mut *pod, &[7; 512]);
    done.unwrap();
    let emitted = &batch.emitted[0];
    assert_eq!(emitted.output, 8);
    assert_eq!(batch.emitted_bytes[emitted.bytes.clone()], [7; 512]);
}

/// The worker of `a_pod_ends_with_its_worker`, which ends it.
#[test]
#[ignore = "by another test"]
fn a_worker() {
    let file = std::env::var_os("POD").expect("by another test");
    let endless = Limits {
        time: Duration::from_secs(600),
        ..limits()
    };
    let (mut pod, _) = common::load_file(file.as_ref(), b"", endless).unwrap();
    println!("loaded");
    let done = stream(&mut *pod, b"unit").0;
    panic!("it came back: {done:?}");
}

#[test]
fn a_pod_ends_with_its_worker() {
    use std::io::BufRead;
    let place = Place::new("worker");
    let file = place.compile(&format!("{STREAM} {{ for (;;); }}"), &[]);
    let mut worker = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["a_worker", "--exact", "--ignored", "--nocapture"])
        .env("POD", file)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(worker.stdout.take().unwrap());
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.ends_with("loaded")));
    let id = worker.id();
    let pods: Vec<i32> = std::fs::read_dir(format!("/proc/{id}/task"))
        .unwrap()
        .flatten()
        .flat_map(|task| {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap();
            let children = children.split_whitespace();
            children.map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(pods.len(), 1);
    let pod = vink_sys::pidfd::open(pods[0]).unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&pod);
    let ended = vink_sys::poll::events_of(number, libc::POLLIN, 60_000);
    assert_ne!(ended & libc::POLLIN, 0, "its pod goes on");
}

#[test]
fn faults_are_named() {
    let place = Place::new("faults");
    let mut bystander = bystander(&place);
    for (body, said) in [
        (
            "*(volatile int *)0x10 = 1;",
            "used address 0x10 (SIGSEGV) in pod_stream+",
        ),
        (
            "*(volatile char *)bytes; ((void (*)(void))0x1234)();",
            "used address 0x1234 (SIGSEGV) at 0x1234",
        ),
        (
            "volatile int no = 0; no = 1000 / no;",
            "divided by zero (SIGFPE) in pod_stream+",
        ),
        (
            "__builtin_trap();",
            "executed what is no instruction (SIGILL) in pod_stream+",
        ),
        ("recurse(1);", "overflowed its stack (SIGSEGV) in recurse+"),
        ("abort();", "called abort(3)"),
        // What can't be delivered ends it all the same.
        (
            "sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0); *(volatile int *)0x10 = 1;",
            "ended by signal 11",
        ),
        (
            "char *volatile p = malloc(10); free(p); free(p);",
            "called abort(3)",
        ),
        ("raise(SIGABRT);", "called abort(3)"),
        (
            "memset((char *)main_area(), 1, 1 << 30);",
            "used address 0x",
        ),
    ] {
        match fault_of(&place, body) {
            Fault::Code(found) => assert!(found.starts_with(said), "{body}: {found}"),
            other => panic!("{body}: {other:?}"),
        }
        bystander.goes_on(body);
    }
    let fault = fault_of(&place, "exit(3);");
    assert_eq!(fault, Fault::Gone("exit status 3".to_owned()));
    assert_eq!(
        fault_of(&place, "return 7;"),
        Fault::Refused("pod_stream()", 7)
    );
    for (body, function) in [
        ("vink_emit(0, (void *)0x10, 5);", "vink_emit()"),
        (
            "vink_emit(0, bytes, 50000); vink_emit(0, (void *)-1, 40000);",
            "vink_emit()",
        ),
        ("vink_log((void *)0x10, 5);", "vink_log()"),
        ("vink_count(16, 1);", "vink_count()"),
    ] {
        assert_eq!(fault_of(&place, body), Fault::Argument(function), "{body}");
        bystander.goes_on(body);
    }
}

#[test]
fn limits_hold() {
    let place = Place::new("limits");
    let mut bystander = bystander(&place);
    let limits = limits();
    let time = Fault::Time(limits.time);
    for (body, fault) in [
        ("for (;;);", time.clone()),
        (
            "sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0); for (;;);",
            time.clone(),
        ),
        // It waits for ever, and does not run.
        (
            "int word = 0; syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0);",
            time,
        ),
        (
            "for (;;) vink_emit(0, bytes, len);",
            Fault::Emit(limits.emit),
        ),
        ("for (;;) vink_emit(0, bytes, 0);", Fault::Emit(limits.emit)),
        ("for (;;) vink_log(\"\\n\", 1);", Fault::Emit(limits.emit)),
        // Each line of one text is one.
        (
            "static char lines[90000]; memset(lines, '\\n', sizeof lines); vink_log(lines, sizeof lines);",
            Fault::Emit(limits.emit),
        ),
        (
            "char *volatile more = malloc(200 << 10); for (int n = 0; n < 3; n++) vink_emit(0, more, 50000);",
            Fault::Emit(limits.emit),
        ),
        (
            "for (;;) printf(\"a long line of text\\n\");",
            Fault::Emit(limits.emit),
        ),
        (
            "for (;;) *(volatile char *)malloc(100000) = 1;",
            Fault::Memory(limits.memory),
        ),
        (
            "*(volatile char *)malloc(1 << 30) = 1;",
            Fault::Memory(limits.memory),
        ),
    ] {
        assert_eq!(fault_of(&place, body), fault, "{body}");
        bystander.goes_on(body);
    }
}

#[test]
fn a_pod_that_has_answered_is_not_late() {
    // This thread hardly has a processor, beside one that spins: it takes answers late.
    let all = affinity(0).expect("the processors that this thread may have");
    let own = cpus(&all).next_back().expect("one");
    let place = Place::new("answered");
    let limits = Limits {
        time: Duration::from_millis(20),
        ..limits()
    };
    let source = format!("{STREAM} {{ return 0; }}");
    let (mut pod, _) = place.load(&source, b"", limits).expect("a pod");
    assert!(set_affinity(0, &one_cpu(own)));
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while goes_on.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let idle = libc::sched_param { sched_priority: 0 };
        // SAFETY: a structure of libc's, filled; this thread's own policy, which needs no rights to become lower.
        let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &idle) };
        let crossed: Vec<_> = (0..3)
            .map(|_| {
                // What this thread has of its processor now, it waits for when the pod has answered.
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(2) {}
                stream(&mut *pod, b"unit").0
            })
            .collect();
        goes_on.store(false, Relaxed);
        assert_eq!((done, crossed), (0, vec![Ok(()); 3]));
    });
}

#[test]
fn what_it_writes_to_the_shared_memory_is_not_believed() {
    let place = Place::new("area");
    let mut bystander = bystander(&place);
    // Wild numbers in every word of the first page, by 32 and by 64 bits.
    let bodies = (0..64).flat_map(|word| {
        [
            0u32,
            1,
            2,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_fff0,
            0xffff_ffff,
        ]
        .map(|value| {
            format!(
                "vink_emit(0, bytes, len); vink_log(\"line\", 4);
                unsigned *area = main_area(); area[{word}] = {value}u; {CROSS}"
            )
        })
    });
    // The headers of what it said, and of its calls.
    let headers = [0u32, 1, 0x10, 0x7fff_ffff, 0xffff_ffff]
        .into_iter()
        .flat_map(|value| {
            (0..8).flat_map(move |word| {
                ["4096", "4096 + (16 << 20)"].map(|at| {
                    format!(
                    "vink_emit(0, bytes, len); unsigned *at = (void *)((char *)main_area() + {at});
                    ((unsigned *)main_area())[4] = 64; at[{word}] = {value}u; {CROSS}"
                )
                })
            })
        });
    // One process after the other would take long: a pod does many, as the bytes say.
    let all: Vec<String> = bodies.chain(headers).collect();
    let cases: Vec<String> = all
        .iter()
        .enumerate()
        .map(|(n, body)| format!("case {n}: {{ {body} }} break;"))
        .collect();
    let source = format!(
        "{HEAD} {HELP} {STREAM} {{ switch (*(unsigned *)bytes) {{ {} }} return 0; }}",
        cases.join("\n")
    );
    let file = place.compile(&source, &[]);
    let mut pod = None;
    for number in 0..all.len() as u32 {
        let mut taken = match pod.take() {
            Some(pod) => pod,
            None => common::load_file(&file, b"", limits()).unwrap().0,
        };
        let (done, batch) = stream(&mut *taken, &number.to_ne_bytes());
        for emitted in &batch.emitted {
            assert!(emitted.call < batch.calls.len());
            assert!(batch.emitted_bytes.get(emitted.bytes.clone()).is_some());
        }
        assert!(batch.log.iter().all(|line| line.len() <= 3000));
        if done.is_ok() {
            pod = Some(taken);
        }
        if number % 50 == 0 {
            bystander.goes_on(&all[number as usize]);
        }
    }
    bystander.goes_on("all");
}

/// A crossing of its own, with what was written.
const CROSS: &str = "syscall(SYS_pause, 0, 0);";

#[test]
fn what_is_no_pod() {
    let place = Place::new("no-pod");
    let no = |file: &std::path::Path| {
        common::load_file(file, b"", limits())
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let says = |file: &std::path::Path, words: &str| {
        let found = no(file);
        assert!(found.contains(words), "{found}");
    };
    says(&place.folder, "is no file");
    says(&place.folder.join("none"), "No such file");
    // Without an end that is written to, it would be waited for.
    let pipe = place.pipe("pipe");
    says(&pipe, "is no file");
    let text = place.folder.join("text");
    std::fs::write(&text, "#!/bin/sh\n").unwrap();
    says(&text, "is no ELF file: cc -shared -fPIC");
    let empty = place.folder.join("empty");
    std::fs::write(&empty, "").unwrap();
    says(&empty, "is no ELF file");
    let good = place.compile("", &[]);
    let bytes = std::fs::read(&good).unwrap();
    let mut narrow = bytes.clone();
    narrow[4] = 1;
    std::fs::write(&text, narrow).unwrap();
    says(&text, "not for 64-bit x86");
    for cut in [20, 64, 100, 1000, bytes.len() / 2] {
        std::fs::write(&text, &bytes[..cut]).unwrap();
        assert!(no(&text).contains("text"), "{}", no(&text));
    }
    says(
        &place.compile_bare("uint32_t pod_version(void) { return 2; }", &[]),
        "version 2",
    );
    says(&place.compile_bare("int nothing;", &[]), "POD();");
    says(&place.compile("int32_t vink_other(void); int32_t pod_init(const char *c, uint32_t l) { return vink_other(); }", &[]), "vink_other: link the library");
    let own = place.folder.join("libown.so");
    std::fs::copy(&good, &own).unwrap();
    let needs = place.compile("", &["-Wl,--no-as-needed", own.to_str().unwrap()]);
    says(&needs, "system's folders");
    says(
        &place.compile(
            "int32_t pod_init(const char *c, uint32_t l) { return 9; }",
            &[],
        ),
        "refused: pod_init() returned 9",
    );
    says(
        &place.compile(
            "int32_t pod_init(const char *c, uint32_t l) { for (;;); }",
            &[],
        ),
        "took longer",
    );
    says(
        &place.compile_bare(
            "uint32_t pod_version(void) { return *(volatile int *)8; }",
            &[],
        ),
        "in pod_version(): it used address 0x8",
    );
    says(
        &place.compile("char large[100 << 20] = {1};", &[]),
        "memory is too small",
    );
    // As root it can be read.
    if !vink_sys::process::is_root() {
        let mut mode = std::fs::metadata(&good).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0);
        std::fs::set_permissions(&good, mode).unwrap();
        says(&good, "Permission denied");
    }
}

#[test]
fn constructors_are_confined() {
    let place = Place::new("constructors");
    let mut bystander = bystander(&place);
    for (body, name) in [
        ("socket(AF_INET, SOCK_STREAM, 0);", "made the system call socket"),
        ("fork();", "made the system call clone"),
        ("open(\"/etc/passwd\", O_RDWR);", "made the system call openat"),
        ("open(\"/usr/lib/x\", O_WRONLY | O_CREAT, 0600);", "made the system call openat"),
        ("syscall(SYS_open, \"/tmp/x\", O_CREAT, 0600);", "made the system call open"),
        ("mmap(0, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);", "made the system call mmap"),
        ("syscall(SYS_seccomp, 1, 0, 0);", "made the system call seccomp"),
        ("prctl(PR_SET_NO_NEW_PRIVS, 1);", "made the system call prctl"),
        ("struct rlimit { long a, b; } most = {-1, -1}; syscall(SYS_prlimit64, 0, 9, &most, 0);", "made the system call prlimit64"),
        ("kill(1, SIGKILL);", "made the system call kill"),
        ("syscall(SYS_ptrace, 16, 1, 0, 0);", "made the system call ptrace"),
        ("*(volatile int *)0x20 = 1;", "used address 0x20"),
        ("exit(4);", "lost its process: exit status 4"),
        // Files of the host that are not libraries are not there, nor are descriptors.
        ("int fd = open(\"/etc/passwd\", O_RDONLY); if (fd >= 0) abort(); exit(10);", "exit status 10"),
        ("int fd = open(\"/proc/self/mem\", O_RDONLY); if (fd >= 0) abort(); exit(11);", "exit status 11"),
        ("for (int fd = 3; fd < 1000; fd++) if (lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF) exit(13); exit(12);", "exit status 12"),
    ] {
        let source = format!("{HEAD}\n__attribute__((constructor)) static void first(void) {{ {body} }}");
        let error = place.load(&source, b"", limits()).map(drop).expect_err(body).to_string();
        assert!(error.contains("ended while it was loaded") && error.contains(name), "{body}: {error}");
        bystander.goes_on(body);
    }
}

/// All of the above by an ordinary user. What is below the target folder, other users may be unable to
/// read.
#[test]
fn as_an_ordinary_user() {
    if !vink_sys::process::is_root() {
        return;
    }
    let place = Place::new("nobody");
    let copy = |from: &std::path::Path, name: &str| {
        let to = place.folder.join(name);
        std::fs::copy(from, &to).expect("a copy");
        to
    };
    let program = copy(&std::env::current_exe().unwrap(), "test");
    copy(
        env!("CARGO_BIN_EXE_vink-pod-process").as_ref(),
        "vink-pod-process",
    );
    let mut command = std::process::Command::new(program);
    std::os::unix::process::CommandExt::uid(&mut command, 65534);
    std::os::unix::process::CommandExt::gid(&mut command, 65534);
    let output = command.current_dir("/").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("14 passed"),
        "{text}"
    );
}
