//! What a real image can't be asked to do: loading errors, and faults met by a stub of an image.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use vink_kernel::{find_image, Config, Error, Image, Kernel, Panic};

/// Held by tests that need a link-map namespace, since one of them takes all.
static NAMESPACES: Mutex<()> = Mutex::new(());

/// Compiles stub.c to a shared object of this name.
fn stub(name: &str, flags: &[&str]) -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let so = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let cc = Command::new("cc")
        .args([
            "-O1",
            "-Wall",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-o",
        ])
        .arg(&so)
        .args(flags)
        .arg("-I")
        .arg(crate_dir.join("../../stack/include"))
        .arg(crate_dir.join("tests/stub.c"))
        .output()
        .expect("cc (apt-get install gcc)");
    assert!(
        cc.status.success(),
        "cc: {}",
        String::from_utf8_lossy(&cc.stderr)
    );
    so
}

fn boot(image: &Path, cmdline: &str) -> Result<Kernel, Error> {
    let config = Config {
        cmdline: cmdline.into(),
        arena_bytes: 16 << 20,
        ..Config::default()
    };
    Kernel::boot(Image::open(image)?, config)
}

fn maps() -> String {
    std::fs::read_to_string("/proc/self/maps").expect("/proc/self/maps")
}

#[test]
fn a_missing_file_and_a_file_that_is_no_image_are_told_apart() {
    let missing = Path::new("/nonexistent/libvink.so");
    match Image::open(missing) {
        Err(Error::NotFound { looked_at }) => assert_eq!(looked_at, [missing]),
        other => panic!("{other:?}"),
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub.c");
    let libc = maps()
        .lines()
        .find_map(|l| {
            l.split_whitespace()
                .last()
                .filter(|f| f.contains("libc.so"))
                .map(PathBuf::from)
        })
        .expect("a libc");
    for (file, words) in [
        (source, "invalid ELF"),
        (libc, "vink_info"),
        ("/tmp".into(), "no regular file"),
        ("/dev/zero".into(), "no regular file"),
    ] {
        match Image::open(&file) {
            Err(Error::NotAnImage { why, .. }) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_image_of_another_version_or_without_a_symbol_is_refused_and_unloaded() {
    let other = stub("stub-version.so", &["-DVERSION=7"]);
    match Image::open(&other) {
        Err(Error::AbiVersion {
            found: 7,
            wanted,
            path,
        }) => {
            assert_eq!(wanted, vink_abi::VINK_ABI_VERSION);
            assert!(path.ends_with("stub-version.so"));
        }
        result => panic!("{result:?}"),
    }
    let lacking = stub("stub-lacking.so", &["-DLACKING"]);
    match Image::open(&lacking) {
        Err(Error::NotAnImage { why, .. }) => assert!(why.contains("vink_counters"), "{why}"),
        result => panic!("{result:?}"),
    }
    assert!(!maps().contains("stub-version.so") && !maps().contains("stub-lacking.so"));
}

#[test]
fn faults_in_the_image_become_panics_with_the_function_at_fault() {
    let so = stub("stub-fault.so", &["-g", "-gsplit-dwarf"]);
    for fault in ["null", "jump", "bug", "divide"] {
        let mut kernel = boot(&so, fault).expect("the stub boots");
        for _ in 0..2 {
            let Err(Error::Panic(panic)) = kernel.run() else {
                panic!("{fault}: no panic")
            };
            let Panic {
                message,
                log,
                backtrace,
            } = *panic;
            assert_eq!(
                (message.as_str(), log.as_str()),
                ("stub fault", "stub\u{fffd}\n")
            );
            let (name, offset) = backtrace[0].symbol.clone().expect("a symbol");
            assert!(
                name.starts_with("commit_fault") && offset > 0,
                "{fault}: {name}+{offset}"
            );
            let line = backtrace[0].location.clone().expect("a line");
            assert!(line.contains("tests/stub.c:"), "{fault}: {line}");
            assert_eq!(
                (&backtrace[1].symbol, &backtrace[1].location),
                (&None, &None)
            );
        }
    }
}

#[test]
fn a_run_that_does_not_end_is_told_of() {
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::sync::mpsc;
    use vink_kernel::watchdog::{News, Watchdog, LIMIT};
    let so = stub("stub-loop.so", &["-g", "-fno-omit-frame-pointer"]);
    static STOP: AtomicI32 = AtomicI32::new(0);
    let (tell, told) = mpsc::channel();
    let watchdog = Watchdog::start(move |news| {
        match &news {
            // The loop ends when it has been found.
            News::Stuck(_) => STOP.store(1, Ordering::Relaxed),
            // Nothing may be allocated there; this is a test.
            News::Busy(_) | News::Returned(_) => {}
        }
        let _ = tell.send(news);
    })
    .expect("a watchdog");
    assert!(Watchdog::start(|_| {}).is_err(), "there is one");
    let mut kernel =
        boot(&so, &format!("l{}", (&raw const STOP) as usize)).expect("the stub boots");
    kernel.run().expect("the loop ends");
    let mut number = 1u64;
    let mut busy = 0;
    let (mut stuck, mut returned) = (None, None);
    while returned.is_none() {
        // The watchdog looks when the thread computes.
        number = std::hint::black_box(number.wrapping_mul(3));
        match told.try_recv() {
            Ok(News::Busy(_)) => busy += 1,
            Ok(News::Stuck(found)) => stuck = Some(found),
            Ok(News::Returned(after)) => returned = Some(after),
            Err(_) => {}
        }
    }
    drop(watchdog);
    let stuck = stuck.expect("told before");
    assert!(busy > 10 && stuck.processor >= LIMIT, "{busy} {stuck}");
    assert!(returned.is_some_and(|after| after >= stuck.real), "{stuck}");
    let name = &stuck.backtrace[0].symbol.as_ref().expect("a symbol").0;
    assert!(name.starts_with("commit_fault"), "{stuck}");
    let line = stuck.backtrace[0].location.as_ref().expect("a line");
    assert!(line.contains("tests/stub.c:"), "{stuck}");
    let caller = &stuck.backtrace[1].symbol.as_ref().expect("its caller").0;
    assert_eq!(caller, "vink_run", "{stuck}");
    Watchdog::start(|_| {}).expect("there is none any more");
}

#[test]
fn a_fault_outside_of_images_still_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let so = stub("stub-outside.so", &[]);
    if let Some(fault) = std::env::var_os("VINK_TEST_FAULT") {
        let _kernel = boot(&so, "").expect("the stub boots");
        let address: usize = match fault.to_str() {
            Some("null") => 8,
            _ => 1 << 63,
        };
        // SAFETY: none. This is the fault that the test is about.
        unsafe { (address as *mut u8).write_volatile(1) };
    }
    for fault in ["null", "wild"] {
        let status = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "a_fault_outside_of_images_still_ends_the_process",
            ])
            .env("VINK_TEST_FAULT", fault)
            .output()
            .expect("this test again")
            .status;
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{fault}: {status}");
    }
}

#[test]
fn copies_are_private_sixteen_at_most_and_go_away() {
    let _all = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    let so = stub("stub-copies.so", &[]);
    let mut kernels = Vec::new();
    let full = loop {
        let config = Config {
            seed: Some([kernels.len() as u8; 32]),
            arena_bytes: 16 << 20,
            ..Config::default()
        };
        match Image::open(&so) {
            Ok(image) => kernels.push(Kernel::boot(image, config).expect("the stub boots")),
            Err(error) => break error,
        }
        assert!(kernels.len() <= 16);
    };
    assert!(matches!(full, Error::TooManyImages { .. }), "{full}");
    assert_eq!(kernels.len(), 16, "{full}");
    for (number, kernel) in kernels.iter_mut().enumerate() {
        assert_eq!(kernel.counters().expect("counters").calls, number as u64);
    }
    drop(kernels);
    assert!(!maps().contains("stub-copies.so"));
    boot(&so, "").expect("there is room again");
}

#[test]
fn a_file_that_was_replaced_is_loaded_anew() {
    let _one = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    let so = stub("stub-replaced.so", &[]);
    let old = Image::open(&so).expect("an image");
    std::fs::remove_file(&so).expect("the old file goes");
    stub("stub-replaced.so", &["-DVERSION=9"]);
    assert!(matches!(
        Image::open(&so),
        Err(Error::AbiVersion { found: 9, .. })
    ));
    assert_eq!(old.release(), "0.0.0-stub");
}

#[test]
fn an_image_that_was_named_is_the_only_one_looked_for() {
    let here = std::env::var_os("VINK_IMAGE");
    if here.as_deref() == Some("/nonexistent".as_ref()) {
        assert!(matches!(find_image(), Err(Error::NotFound { looked_at }) if looked_at.len() == 1));
        return;
    }
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "an_image_that_was_named_is_the_only_one_looked_for",
        ])
        .env("VINK_IMAGE", "/nonexistent")
        .status()
        .expect("this test again");
    assert!(status.success());
}

#[test]
fn a_call_that_nothing_can_end_is_given_up() {
    let mut kernel = boot(&stub("stub-stuck.so", &[]), "").expect("the stub boots");
    let machine = kernel.machine("alice").expect("a machine");
    let task = kernel.task(machine).expect("a task");
    for _ in 0..2 {
        let result = kernel.call(task, libc::SYS_pause, [0; 6]);
        assert!(matches!(result, Err(Error::Stuck)), "{result:?}");
        assert_eq!((kernel.poll(task), kernel.next_event()), (None, None));
    }
}
