//! Pods behind the key wall, in a guest of QEMU's whose processor has protection keys: what they can do,
//! and that they are ended for all else, with the worker as it was.

mod common;
#[path = "common/guest.rs"]
mod guest;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use common::{converse, ends, stream, Bystander, Place, PACKETS, UNITS};
use guest::Guest;
use vink_pod::{key, Batch, Entry, Limits, LoadError, Loaded, Source, Wall};
use vink_sys::process::tgkill;

/// What attacks have in common. A unit is numbers: which attack, then addresses of the worker's.
const HEAD: &str = r#"
typedef unsigned long u64;
#define SYS(n, a, b, c) ({ long r; register long x10 __asm__("r10") = 0; __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(x10) : "rcx", "r11", "memory"); r; })
#define TO(a, eax, rest) __asm__ volatile(rest "jmp *%0" :: "r"((u64)(a)), "a"(eax), "c"(0), "d"(0) : "memory")
#define ON(stack) __asm__ volatile("mov %0, %%rsp\nud2" :: "r"(stack) : "memory")
void *malloc(u64); void free(void *); void *calloc(u64, u64); void *realloc(void *, u64);
void *memcpy(void *, const void *, u64); void *memset(void *, int, u64); void abort(void);
static const u64 *is;
#define VICTIM is[1]
#define SITE(n) is[2 + (n)]
#define PAGE_OF_GATE is[5]
#define ALTERNATE is[6]
#define SYSCALL is[7]
#define PKEY_SET is[8]
#define XRSTOR is[9]
#define OTHERS is[10]
#define LEAVE is[11]
__attribute__((noinline)) static int recurse(volatile int n) { volatile char a[1000]; a[0] = n; return recurse(n + 1) + a[n % 1000]; }
"#;

/// What a pod does, and how the fault starts that it is ended with.
const ATTACKS: &[(&str, &str)] = &[
    // The worker's memory.
    ("*(volatile int *)VICTIM = 1;", "used address 0x"),
    ("vink_count(0, *(volatile int *)VICTIM);", "used address 0x"),
    ("*(volatile int *)OTHERS = 1;", "used address 0x"),
    ("vink_count(0, *(volatile int *)OTHERS);", "used address 0x"),
    ("*(volatile char *)ALTERNATE = 1;", "used address 0x"),
    ("*(volatile int *)0x10 = 1;", "used address 0x10 (SIGSEGV) in pod_stream+"),
    ("((void (*)(void))0x1234)();", "used address 0x1234 (SIGSEGV) at 0x1234"),
    // Its own code.
    ("*(volatile char *)pod_version = 0xc3;", "used address 0x"),
    ("static char code[] = {0xc3}; ((void (*)(void))code)();", "used address 0x"),
    // 3: other code that changes rights, or did.
    ("TO(PKEY_SET, 0, \"\");", "executed what is no instruction (SIGILL)"),
    // All rights are in what it restores.
    ("static char area[4096] __attribute__((aligned(64))); __asm__ volatile(\"mov %0, %%rsp\\njmp *%1\" :: \"r\"(area), \"r\"(XRSTOR), \"a\"(0x200), \"d\"(0) : \"memory\");", "executed what is no instruction (SIGILL)"),
    // 4: the gate's middle, with other rights.
    ("TO(SITE(0), 0, \"\");", "executed what is no instruction (SIGILL)"),
    ("TO(SITE(0), 0x55555550, \"\");", "executed what is no instruction (SIGILL)"),
    ("TO(SITE(0), 3, \"\");", "executed what is no instruction (SIGILL)"),
    ("TO(SITE(1), 0x55555554, \"\");", "executed what is no instruction (SIGILL)"),
    ("TO(SITE(1), 3, \"\");", "executed what is no instruction (SIGILL)"),
    ("TO(SITE(2), 0, \"\");", "executed what is no instruction (SIGILL)"),
    ("TO(SITE(2), 0x55555554, \"\");", "executed what is no instruction (SIGILL)"),
    ("u64 stack = ALTERNATE + 4096; __asm__ volatile(\"mov %0, %%rsp\\njmp *%1\" :: \"r\"(stack), \"r\"(SITE(2)), \"a\"(0), \"c\"(0), \"d\"(0), \"D\"(11), \"S\"(0) : \"memory\");", "executed what is no instruction (SIGILL)"),
    ("__asm__ volatile(\"mov $2, %%r10d\\njmp *%0\" :: \"r\"(LEAVE) : \"r10\", \"memory\");", "used address 0x"),
    ("__asm__ volatile(\"mov $1, %%r10d\\njmp *%0\" :: \"r\"(LEAVE) : \"r10\", \"memory\");", "came back through the gate's middle"),
    ("__asm__ volatile(\"mov $77, %%r10d\\njmp *%0\" :: \"r\"(LEAVE) : \"r10\", \"memory\");", "came back through the gate's middle"),
    // 5, 6: system calls in all ways.
    ("SYS(41, 2, 1, 0);", "made the system call socket"),
    ("SYS(9, 0, 4096, 7);", "made the system call mmap"),
    ("SYS(10, VICTIM & ~4095ul, 4096, 7);", "made the system call mprotect"),
    ("SYS(329, VICTIM & ~4095ul, 4096, 3);", "made the system call pkey_mprotect"),
    ("SYS(331, 1, 0, 0);", "made the system call pkey_free"),
    ("SYS(157, 59, 0, 0);", "made the system call prctl"),
    ("SYS(62, 1, 9, 0);", "made the system call kill"),
    ("SYS(231, 0, 0, 0);", "made the system call exit_group"),
    ("SYS(57, 0, 0, 0);", "made the system call fork"),
    ("SYS(100000, 0, 0, 0);", "made the system call number 100000"),
    ("TO(SYSCALL, 39, \"\");", "made the system call getpid"),
    ("__asm__ volatile(\"int $0x80\" :: \"a\"(20) : \"memory\");", "made the system call of another architecture"),
    // The page of old programs' system calls, for Linux to write to what is not its own.
    ("((int (*)(void *, void *))0xffffffffff600000)((void *)VICTIM, 0);", "used address 0x"),
    ("__asm__ volatile(\"sysenter\" :: \"a\"(20) : \"memory\");", "executed what is no instruction"),
    // Code of 32-bit programs.
    ("__asm__ volatile(\"push $0x23\\npush $0x1000\\nlretq\" ::: \"memory\");", "used address 0x1000"),
    // 7: a frame of a signal, forged.
    ("SYS(15, 0, 0, 0);", "made the system call rt_sigreturn"),
    // 8: what says whether system calls are open.
    ("*(volatile char *)(PAGE_OF_GATE + 8) = 0; SYS(39, 0, 0, 0);", "used address 0x"),
    ("*(volatile u64 *)PAGE_OF_GATE = 0;", "used address 0x"),
    // 9: stacks.
    ("recurse(1);", "overflowed its stack (SIGSEGV)"),
    ("__asm__ volatile(\"mov %0, %%rsp\\npush %%rax\" :: \"r\"(VICTIM) : \"memory\");", "used address 0x"),
    ("ON(VICTIM);", "executed what is no instruction"),
    ("ON(ALTERNATE + 64);", "executed what is no instruction"),
    // On the stack of signals, where a frame has no room, or just that.
    ("ON(ALTERNATE + 256);", "executed what is no instruction"),
    ("ON(ALTERNATE + 1024);", "executed what is no instruction"),
    ("ON(ALTERNATE + 2048);", "executed what is no instruction"),
    ("ON(ALTERNATE + 3072);", "executed what is no instruction"),
    ("ON(ALTERNATE + 3584);", "executed what is no instruction"),
    ("ON(ALTERNATE + 4096);", "executed what is no instruction"),
    ("ON(ALTERNATE + 4608);", "executed what is no instruction"),
    ("ON(ALTERNATE + 5120);", "executed what is no instruction"),
    ("ON(ALTERNATE + 8192);", "executed what is no instruction"),
    ("__asm__ volatile(\"mov %0, %%rsp\" :: \"r\"(VICTIM) : \"memory\"); vink_now();", "used address 0x"),
    // 10: states of the processor, with a fault in them.
    ("__asm__ volatile(\"pushfq\\norl $0x100, (%%rsp)\\npopfq\\nnop\" ::: \"memory\");", "set a trap (SIGTRAP)"),
    ("__asm__ volatile(\"std\\nud2\" ::: \"memory\");", "executed what is no instruction"),
    ("__asm__ volatile(\"pushfq\\norl $0x40000, (%%rsp)\\npopfq\\nud2\" ::: \"memory\");", "executed what is no instruction"),
    ("__asm__ volatile(\"mov %%eax, %%fs\\nud2\" :: \"a\"(0x2b) : \"memory\");", "executed what is no instruction"),
    ("__asm__ volatile(\"wrfsbase %0\\nud2\" :: \"r\"(VICTIM) : \"memory\");", "executed what is no instruction"),
    ("__asm__ volatile(\"wrgsbase %0\\nud2\" :: \"r\"(VICTIM) : \"memory\");", "executed what is no instruction"),
    ("volatile int no = 0; no = 1000 / no;", "divided by zero (SIGFPE) in pod_stream+"),
    ("__asm__ volatile(\"int3\");", "set a trap (SIGTRAP)"),
    ("__asm__ volatile(\"hlt\");", "used address 0x0 (SIGSEGV)"),
    // 14: without end.
    ("for (;;);", "took longer than 3s for one call"),
    ("for (;;) vink_now();", "took longer than 3s for one call"),
    ("for (;;) vink_emit(0, is, 8);", "emitted more than 100000 bytes"),
    ("for (;;) vink_emit(0, is, 0);", "emitted more than 100000 bytes"),
    ("for (;;) vink_log(\"\\n\", 1);", "emitted more than 100000 bytes"),
    ("for (;;) *(volatile char *)malloc(100000) = 1;", "wanted more than 8388608 bytes of memory"),
    // 15: pointers that are not its own.
    ("vink_emit(0, (void *)VICTIM, 4);", "gave vink_emit() what is not its own memory"),
    ("vink_emit(0, is, 0x7fffffff);", "emitted more than 100000 bytes"),
    ("vink_emit(0, (void *)-8, 16);", "gave vink_emit() what is not its own memory"),
    ("vink_log((void *)OTHERS, 4);", "gave vink_log() what is not its own memory"),
    ("vink_count(16, 1);", "gave vink_count() what is not its own memory"),
    ("free((void *)VICTIM);", "called abort(3)"),
    ("void *volatile p = malloc(10); free(p); free(p);", "called abort(3)"),
    ("realloc((void *)VICTIM, 100);", "called abort(3)"),
    ("abort();", "called abort(3)"),
    ("return 7;", "refused: pod_stream() returned 7"),
];

/// What ends none: it is as it was when the pod comes back.
const HARMLESS: &[&str] = &[
    "vink_count(1, (long)malloc(100) & 15);",
    "char *p = calloc(100, 3); for (int n = 0; n < 300; n++) vink_count(1, p[n]); p = realloc(p, 1 << 20); memset(p, 1, 1 << 20); free(p);",
    "__asm__ volatile(\"std\" ::: \"memory\");",
    "__asm__ volatile(\"pushfq\\norl $0x40000, (%%rsp)\\npopfq\" ::: \"memory\");",
    "__asm__ volatile(\"mov %%eax, %%fs\\nmov %%eax, %%gs\" :: \"a\"(0) : \"memory\");",
    "__asm__ volatile(\"wrfsbase %0\\nwrgsbase %0\" :: \"r\"(0x1000l) : \"memory\");",
    "unsigned mxcsr = 0x1f80 ^ 0x6000; unsigned short word = 0xc00; __asm__ volatile(\"ldmxcsr %0\\nfldcw %1\\nfld1\\nfld1\\nfld1\\nfld1\" :: \"m\"(mxcsr), \"m\"(word));",
    // A division of zero by zero that the next instruction would tell of.
    "unsigned short word = 0x37e; __asm__ volatile(\"fldcw %0\\nfldz\\nfldz\\nfdivp\" :: \"m\"(word));",
    // A task that is nested.
    "__asm__ volatile(\"pushfq\\norl $0x4000, (%%rsp)\\npopfq\" ::: \"memory\");",
    "for (volatile int n = 0; n < 300000; n++);",
];

/// Pods that are refused, and what is said of them.
const REFUSED: &[(&str, &str)] = &[
    ("__asm__(\".globl f\\nf: .byte 0x0f, 0x01, 0xef\\nret\");", "bytes of WRPKRU in f+0x0"),
    ("int f(void) { volatile int n = 0x00ef010f; return n; }", "bytes of WRPKRU in f+0x"),
    ("__asm__(\".globl f\\nf: xrstor 8(%rdi)\\nret\");", "bytes of XRSTOR in f+0x0"),
    ("__asm__(\".globl f\\nf: .balign 4096\\n.fill 4094, 1, 0x90\\n.byte 0x0f, 0x01, 0xef\\nret\");", "bytes of WRPKRU in f+0x"),
    ("int printf(const char *, ...); int f(void) { return printf(\"x\"); }", "it calls printf: behind this wall there are"),
    ("__thread int n; int *f(void) { return &n; }", "variables of a thread"),
    ("char large[8 << 20] = {1};", "its memory is too small"),
    ("int32_t pod_init(const char *c, uint32_t l) { return 9; }", "refused: pod_init() returned 9"),
    ("int32_t pod_init(const char *c, uint32_t l) { for (;;); }", "took longer"),
    ("__attribute__((constructor)) static void f(void) { *(volatile int *)0x20 = 1; }", "ended while it was loaded: it used address 0x20"),
    ("__attribute__((constructor)) static void f(void) { __asm__ volatile(\"syscall\" :: \"a\"(39)); }", "made the system call getpid"),
];

const INIT: &str =
    "int32_t pod_init(const char *config, uint32_t len) { vink_log(config, len); return 0; }";

fn switch(bodies: impl Iterator<Item = impl AsRef<str>>) -> String {
    let cases = bodies.enumerate();
    let cases = cases.map(|(n, body)| format!("case {n}: {{ {} }} break;\n", body.as_ref()));
    format!(
        "{HEAD} int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags) {{
            is = (const u64 *)bytes; switch (is[0]) {{ {} }} return 0; }}",
        cases.collect::<String>()
    )
}

fn load(file: &Path, config: &[u8]) -> Result<Loaded, LoadError> {
    key::load(&source(file, config))
}

fn source<'a>(file: &'a Path, config: &'a [u8]) -> Source<'a> {
    let limits = Limits {
        memory: 8 << 20,
        time: std::time::Duration::from_secs(3),
        emit: 100_000,
    };
    Source {
        file,
        config,
        limits,
        wall: Some(Wall::Key),
        now: 0,
        repeats: false,
    }
}

/// On the host: the guest is started, with this program and the pods.
#[test]
fn in_a_guest_with_keys() {
    let place = Place::new("key");
    let guest = Guest::new(&place.folder);
    let options = [
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-mfsgsbase",
        "-mxsave",
    ];
    let compile = |source: &str, name: String| {
        let made = place.compile(source, &options);
        fs::rename(made, guest.place(&format!("/pods/{name}"))).unwrap();
    };
    compile(&format!("{INIT} {PACKETS} {UNITS}"), "good.so".to_owned());
    compile(Bystander::SOURCE, "bystander.so".to_owned());
    compile(
        &switch(ATTACKS.iter().map(|it| it.0)),
        "attacks.so".to_owned(),
    );
    compile(&switch(HARMLESS.iter()), "harmless.so".to_owned());
    compile("int other(void) { return 5; }", "library.so".to_owned());
    for (n, (source, _)) in REFUSED.iter().enumerate() {
        compile(source, format!("refused{n}.so"));
    }
    guest.put_program(&std::env::current_exe().unwrap(), "/key");
    let words = "cd / && /key --ignored --test-threads=1 --nocapture; echo ended with $?\n";
    let said = guest.run(words, 512);
    let count = said.matches("... ok").count();
    assert!(
        said.contains("ended with 0") && count == 11,
        "{count}: {said}"
    );
}

/// On a host without keys it says so, and loads nothing.
#[test]
fn where_there_are_no_keys_it_says_so() {
    let Err(why) = key::probe() else {
        return;
    };
    let said = load(Path::new("/dev/null"), b"")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        said.starts_with("no key wall here: ") && said.contains(&why),
        "{said}"
    );
}

/// In the guest: another pod.
fn bystander() -> Bystander {
    Bystander::new(load(Path::new("/pods/bystander.so"), b"").unwrap().0)
}

/// A place of the worker's that no pod may change.
static VICTIM: AtomicU64 = AtomicU64::new(0x5a5a);

/// In the guest: what attacks know of the worker.
fn addresses(other: u64) -> Vec<u64> {
    let own = fs::read_to_string("/proc/self/smaps").unwrap();
    // A page with a key that is none of a pod's: the gate's.
    let mut start = 0;
    let mut page = 0;
    let mut size = 0;
    for line in own.lines() {
        if let Some(kib) = line.strip_prefix("Size:") {
            size = kib.trim().trim_end_matches(" kB").parse().unwrap();
        } else if let Some(key) = line.strip_prefix("ProtectionKey:") {
            if key.trim() == "1" && size == 4 {
                page = start;
            }
        } else if let Some((from, _)) = line.split_once('-') {
            start = u64::from_str_radix(from, 16).unwrap_or(start);
        }
    }
    assert_ne!(page, 0, "the gate's page");
    let mut stack = libc::stack_t {
        ss_sp: std::ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    // SAFETY: fills the structure.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    // SAFETY: looks names up.
    let function =
        |name: &std::ffi::CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as u64;
    let in_function = |name: &std::ffi::CStr, bytes: &[u8]| {
        let start = function(name);
        // SAFETY: code of libc's.
        let code = unsafe { std::slice::from_raw_parts(start as *const u8, 200) };
        start
            + code
                .windows(bytes.len())
                .position(|it| it == bytes)
                .expect("its bytes") as u64
    };
    let sites = sites();
    let mut all = vec![0, VICTIM.as_ptr() as u64];
    all.extend(&sites.0);
    all.extend([
        page,
        stack.ss_sp as u64,
        in_function(c"syscall", &[0x0f, 0x05]),
    ]);
    // What was WRPKRU.
    all.extend([
        in_function(c"pkey_set", &[0x0f, 0x0b, 0x90]),
        sites.1,
        other,
    ]);
    // xor eax, eax; xor ecx, ecx; xor edx, edx before it.
    all.push(sites.0[1] - 6);
    all
}

/// WRPKRUs, and an XRSTOR, of this process.
fn sites() -> ([u64; 3], u64) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let memory = fs::File::open("/proc/self/mem").unwrap();
    let (mut sites, mut restores) = (Vec::new(), Vec::new());
    for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|it| u64::from_str_radix(it, 16).unwrap());
        let mut bytes = vec![0; (end - start) as usize];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start).unwrap();
        let places = |what: &'static [u8]| {
            let found = bytes.windows(what.len()).enumerate();
            found
                .filter(move |(_, it)| *it == what)
                .map(move |(at, _)| start + at as u64)
                .collect::<Vec<_>>()
        };
        sites.extend(places(&[0x0f, 0x01, 0xef]));
        restores.extend(places(&[0x0f, 0xae, 0x6c, 0x24, 0x40]));
    }
    (sites.try_into().expect("the gate's three"), restores[0])
}

#[test]
#[ignore = "by another test, in the guest"]
fn calls_and_what_they_say() {
    key::probe().expect("keys");
    let (mut pod, init) = load(Path::new("/pods/good.so"), b"some text\nof two lines").unwrap();
    assert_eq!(init.log, ["some text", "of two lines"]);
    assert_eq!(pod.wall(), Wall::Key);
    converse(&mut *pod, 1000);
}

#[test]
#[ignore = "by another test, in the guest"]
fn attacks_end_it() {
    let mut bystander = bystander();
    let (mut other, _) = load(Path::new("/pods/harmless.so"), b"").unwrap();
    let (done, batch) = stream(&mut *other, &[0; 8]);
    done.unwrap();
    assert_eq!(batch.counted[1], 0);
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let others = page_of_a_pod(&maps);
    let mut unit = addresses(others);
    for (n, (body, starts)) in ATTACKS.iter().enumerate() {
        unit[0] = n as u64;
        let (mut pod, _) = load(Path::new("/pods/attacks.so"), b"").expect(body);
        let bytes: Vec<u8> = unit.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let fault = ends(&mut *pod, &bytes, body).to_string();
        assert!(fault.starts_with(starts), "{body}: {fault}");
        assert_eq!(VICTIM.load(SeqCst), 0x5a5a, "{body}");
        bystander.goes_on(body);
        // Memory, threads and system calls of the worker.
        assert_eq!(
            std::thread::spawn(|| 1.5_f64.floor())
                .join()
                .unwrap()
                .to_string(),
            "1",
            "{body}"
        );
    }
}

/// A page of a pod's, which has a key that is not 0 or the gate's.
fn page_of_a_pod(smaps: &str) -> u64 {
    let (mut start, mut writes) = (0, false);
    for line in smaps.lines() {
        if let Some(key) = line.strip_prefix("ProtectionKey:") {
            if writes && key.trim().parse::<u32>().is_ok_and(|key| key > 1) {
                return start;
            }
        } else if let Some((from, rest)) = line.split_once('-') {
            if let Ok(from) = u64::from_str_radix(from, 16) {
                (start, writes) = (from, rest.contains(" rw-p "));
            }
        }
    }
    panic!("no page of a pod's: {smaps}")
}

#[test]
#[ignore = "by another test, in the guest"]
fn what_it_leaves_is_as_it_was() {
    let (mut pod, _) = load(Path::new("/pods/harmless.so"), b"").unwrap();
    for (n, body) in HARMLESS.iter().enumerate() {
        for _ in 0..10 {
            let (done, _) = stream(&mut *pod, &(n as u64).to_ne_bytes());
            done.expect(body);
            let (control, mxcsr, flags) = state();
            assert_eq!((control, mxcsr & 0x6000, flags), (0x37f, 0, 0), "{body}");
            // Variables of the thread.
            assert!(std::thread::current().id() == std::thread::current().id());
        }
    }
}

/// The control words of floating point, and DF and AC.
fn state() -> (u16, u32, u64) {
    let (mut control, mut mxcsr, mut flags) = (0_u16, 0_u32, 0_u64);
    // SAFETY: stores three registers.
    unsafe {
        std::arch::asm!("fnstcw [{}]", "stmxcsr [{}]", "pushfq", "pop qword ptr [{}]",
            in(reg) &raw mut control, in(reg) &raw mut mxcsr, in(reg) &raw mut flags);
    }
    (control, mxcsr, flags & 0x40400)
}

#[test]
#[ignore = "by another test, in the guest"]
fn signals_at_every_moment() {
    // A timer of the thread's, whose signals the pod does not notice.
    let (mut pod, _) = load(Path::new("/pods/good.so"), b"").unwrap();
    let own = vink_sys::process::gettid();
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let process = std::process::id() as i32;
            while sent.load(SeqCst) < STORM {
                if tgkill(process, own, libc::SIGSYS).is_err() {
                    // The test has failed.
                    break;
                }
                // At every moment, but not so many that nothing else is done.
                for n in 0..sent.fetch_add(1, SeqCst) * 7919 % 20_000 {
                    std::hint::black_box(n);
                }
            }
        });
        let mut batch = Batch::default();
        let mut total = 1000;
        while sent.load(SeqCst) < STORM {
            batch.clear(1000);
            batch.push(Entry::Stream, 0, b"unit");
            pod.cross(&mut batch).unwrap();
            total += 4;
            assert_eq!(batch.emitted[0].output, total);
        }
    });
}

/// Signals of a storm.
const STORM: u64 = 5000;

#[test]
#[ignore = "by another test, in the guest"]
fn what_is_no_pod_of_this_wall() {
    for (n, (source, words)) in REFUSED.iter().enumerate() {
        let file = PathBuf::from(format!("/pods/refused{n}.so"));
        let found = load(&file, b"").map(drop).expect_err(source).to_string();
        assert!(found.contains(words), "{source}: {found}");
    }
    // Each key is given back.
    for _ in 0..40 {
        load(Path::new("/pods/good.so"), b"").unwrap();
    }
    let all: Vec<_> = (0..20)
        .map(|_| load(Path::new("/pods/good.so"), b""))
        .collect();
    let had = all.iter().filter(|it| it.is_ok()).count();
    assert_eq!(had, 14);
    let said = all.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(
        said.contains("all 15 keys of the processor are in use"),
        "{said}"
    );
}

// A call and an address with the bytes of an XRSTOR in their distances, and a number with them.
std::arch::global_asm!(
    r#"
    .pushsection .text.by_chance, "ax", @progbits
    .globl calls_by_chance
    .hidden calls_by_chance
calls_by_chance:
    .cfi_startproc
    sub rsp, 8
    .cfi_adjust_cfa_offset 8
    .byte 0xe8, 0x0f, 0xae, 0x28, 0x00
4:  add rsp, 8
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .globl is_far_by_chance
    .hidden is_far_by_chance
is_far_by_chance:
    .cfi_startproc
    .byte 0x48, 0x8d, 0x05, 0x0f, 0xae, 0x28, 0x00
    ret
    .cfi_endproc
    .globl loads_by_chance
    .hidden loads_by_chance
loads_by_chance:
    .cfi_startproc
    movabs rax, 0x200a940246cae0f
    ret
    .cfi_endproc
5:  .skip 0x28ae0f - (5b - 4b), 0xcc
    lea rax, [rdi + 1]
    ret
    .popsection
    "#
);

extern "C" {
    fn calls_by_chance(number: u64) -> u64;
    fn is_far_by_chance() -> u64;
    fn loads_by_chance() -> u64;
}

/// No pod is loaded where they are; what has them does what it did.
#[test]
#[ignore = "by another test, in the guest"]
fn bytes_by_chance_are_other_ones() {
    let functions = [
        calls_by_chance as *const u8,
        is_far_by_chance as *const u8,
        loads_by_chance as *const u8,
    ];
    let bytes = || {
        // SAFETY: code of these functions'.
        let codes = functions.map(|at| unsafe { std::slice::from_raw_parts(at, 12) }.to_vec());
        codes.map(|code| code.windows(2).any(|two| two == [0x0f, 0xae]))
    };
    let say = || {
        // SAFETY: the functions above.
        let (next, far, number) =
            unsafe { (calls_by_chance(5), is_far_by_chance(), loads_by_chance()) };
        (next, far - functions[1] as u64, number)
    };
    key::probe().expect("they can be other ones");
    load(Path::new("/pods/good.so"), b"").unwrap();
    assert_eq!(bytes(), [false; 3]);
    assert_eq!(say(), (6, 0x28ae0f + 7, 0x200a940246cae0f));
}

/// One thread crosses a pod that another one has loaded, while that loads more and these are ended.
#[test]
#[ignore = "by another test, in the guest"]
fn threads_load_and_cross_in_turn() {
    let good = || load(Path::new("/pods/good.so"), b"").unwrap().0;
    let call = |it: &&(&str, &str)| it.1.ends_with("socket");
    let number = ATTACKS
        .iter()
        .position(|it| call(&it))
        .expect("a system call");
    let is_ended = || {
        let (mut pod, _) = load(Path::new("/pods/attacks.so"), b"").unwrap();
        let fault = ends(&mut *pod, &(number as u64).to_ne_bytes(), "a system call");
        assert_eq!(fault.to_string(), "made the system call socket");
    };
    for _ in 0..10 {
        let mut theirs = good();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                converse(&mut *theirs, 50);
                is_ended();
                theirs
            });
            while !other.is_finished() {
                is_ended();
                converse(&mut *good(), 10);
            }
            // It goes on here with what it has counted there.
            let (done, batch) = stream(&mut *other.join().unwrap(), b"unit");
            assert_eq!((done, batch.emitted[0].output), (Ok(()), 1204));
        });
    }
    // Places of threads that have ended are had again.
    for _ in 0..20 {
        std::thread::spawn(move || drop(good())).join().unwrap();
    }
}

/// A thread that has been in a pod waits for something else when another one goes into it.
#[test]
#[ignore = "by another test, in the guest"]
fn what_a_thread_waits_for_goes_on_after_a_handover() {
    let (mut pod, _) = load(Path::new("/pods/good.so"), b"").unwrap();
    let (mut theirs, _) = load(Path::new("/pods/good.so"), b"").unwrap();
    let mut ends = [0; 2];
    // SAFETY: fills two numbers.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let thread = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(stream(&mut *theirs, b"unit").0, Ok(()));
            // As threads do when they end.
            let none = libc::stack_t {
                ss_sp: std::ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            };
            // SAFETY: the stack is used no more.
            unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) };
            thread.store(vink_sys::process::gettid() as u64, SeqCst);
            let mut byte = 0_u8;
            // SAFETY: fills the byte.
            let read = unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
            (read, std::io::Error::last_os_error(), byte)
        });
        let waits = || {
            let file = format!("/proc/self/task/{}/syscall", thread.load(SeqCst));
            let wanted = format!("{} {:#x} ", libc::SYS_read, ends[0]);
            fs::read_to_string(file).is_ok_and(|call| call.starts_with(&wanted))
        };
        while !waits() {
            std::thread::yield_now();
        }
        assert_eq!(stream(&mut *pod, b"unit").0, Ok(()));
        // SAFETY: writes one byte.
        unsafe { libc::write(ends[1], b"x".as_ptr().cast(), 1) };
        let (read, error, byte) = other.join().unwrap();
        assert_eq!((read, byte), (1, b'x'), "{error}");
    });
    for end in ends {
        // SAFETY: nothing uses it any more.
        unsafe { libc::close(end) };
    }
}

#[test]
#[ignore = "by another test, in the guest"]
fn libraries_that_come_later_are_looked_at() {
    let good = || load(Path::new("/pods/good.so"), b"");
    let (mut pod, _) = good().unwrap();
    let open = |file: &std::ffi::CStr| {
        // SAFETY: a name that ends, of a library without constructors.
        let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "{file:?}");
        library
    };
    let harmless = open(c"/pods/library.so");
    assert_eq!(stream(&mut *pod, b"unit").0, Ok(()));
    let bad = open(c"/pods/refused0.so");
    let fault = stream(&mut *pod, b"unit").0.expect_err("it is there");
    let said = fault.to_string();
    assert!(
        said.contains("/refused0.so has the bytes of WRPKRU"),
        "{said}"
    );
    let said = good().map(drop).unwrap_err().to_string();
    assert!(
        said.contains("/refused0.so has the bytes of WRPKRU"),
        "{said}"
    );
    for library in [bad, harmless] {
        // SAFETY: nothing of it is used.
        unsafe { libc::dlclose(library) };
    }
    assert_eq!(stream(&mut *good().unwrap().0, b"unit").0, Ok(()));
}

/// A module's code is looked at when it comes. One that would open keys is refused, others go with such pods.
#[test]
#[ignore = "by another test, in the guest"]
fn modules_are_in_the_same_process() {
    let (mut pod, _) = load(Path::new("/pods/good.so"), b"").unwrap();
    let module = |n: usize, number: &str| {
        let text = format!(
            "(module (memory (export \"memory\") 1)
                (func (export \"pod_version\") (result i32) i32.const 1)
                (func (export \"pod_timer\") (param i64))
                (func (export \"f\") (param i32) (result i32) local.get 0 i32.const {number} i32.add))"
        );
        let file = PathBuf::from(format!("/pods/module{n}.wasm"));
        fs::write(&file, wat::parse_str(&text).unwrap()).unwrap();
        let mut source = source(&file, b"");
        source.wall = Some(Wall::Wasm);
        vink_pod::load(&source)
    };
    // WRPKRU; XRSTOR (%rdi). As text: this program must not have their bytes.
    for (n, number) in ["0x00ef010f", "0x002fae0f"].into_iter().enumerate() {
        let said = module(n, number).map(drop).unwrap_err().to_string();
        assert!(
            said.contains("its compiled code has the bytes of "),
            "{said}"
        );
        assert!(said.contains("pods behind the key wall"), "{said}");
    }
    let (mut other, mut batch) = module(2, "5").unwrap();
    for _ in 0..3 {
        batch.clear(0);
        batch.push(Entry::Timer, 0, b"");
        other.cross(&mut batch).unwrap();
        assert_eq!(stream(&mut *pod, b"unit").0, Ok(()));
    }
    assert_eq!(other.wall(), Wall::Wasm);
    // Its code is there when another one is loaded.
    let (mut next, _) = load(Path::new("/pods/good.so"), b"").unwrap();
    drop(other);
    assert_eq!(stream(&mut *next, b"unit").0, Ok(()));
}

#[test]
#[ignore = "by another test, in the guest"]
fn broken_files_harm_none() {
    let mut bystander = bystander();
    let good = fs::read("/pods/good.so").unwrap();
    let mut refused = 0;
    for n in 0..80_usize {
        let mut bytes = good.clone();
        // In the headers, and what is in the first pages: names, symbols, relocations.
        for more in 0..1 + n % 4 {
            let at = (n * 7919 + more * 104_729) % if n % 2 == 0 { 512 } else { 4096 };
            bytes[at.max(20)] ^= [0xff, 0x80, 1, 0x10][n % 4];
        }
        fs::write("/broken.so", bytes).unwrap();
        match load(Path::new("/broken.so"), b"") {
            Ok((mut pod, _)) => drop(stream(&mut *pod, b"unit")),
            Err(_) => refused += 1,
        }
        bystander.goes_on(&n.to_string());
    }
    assert!(refused > 10, "{refused}");
}
