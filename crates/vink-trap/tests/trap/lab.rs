//! A worker with one machine, and words to run programs on it.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vink_kernel::{
    find_image, Attachment, Clock, Config, Image, Kernel, MachineId, WireKind, WireSettings,
};
use vink_trap::{Program, ProgramId, Status, Stdio, Worker};

/// What a program left behind.
#[derive(Debug)]
pub struct Output {
    pub status: Status,
    pub out: String,
    pub err: String,
}

/// A program that may still run, and where its output goes.
pub struct Running {
    pub id: ProgramId,
    out: File,
    err: File,
}

impl Running {
    /// What it has written to its standard output so far.
    pub fn out(&mut self) -> String {
        contents(&mut self.out)
    }
}

/// One machine with its loopback interface up.
pub struct Lab {
    pub worker: Worker,
    pub machine: MachineId,
}

impl Lab {
    pub fn new() -> Lab {
        Lab::on(Clock::Real)
    }

    pub fn on(clock: Clock) -> Lab {
        let image = Image::open(&image_path()).unwrap();
        let seed = (clock == Clock::Virtual).then_some([7; 32]);
        let config = Config {
            clock,
            seed,
            ..Config::default()
        };
        let mut kernel = Kernel::boot(image, config).unwrap();
        let machine = kernel.machine("m").unwrap();
        let worker = Worker::new(kernel).unwrap();
        let mut lab = Lab { worker, machine };
        lab.ok("ip link set lo up");
        lab
    }

    /// Another machine, 10.0.0.2, on a wire to this one, which is 10.0.0.1 from now on.
    pub fn neighbour(&mut self) -> MachineId {
        self.neighbour_at(Duration::ZERO)
    }

    /// The same, with a wire of this delay.
    pub fn neighbour_at(&mut self, delay: Duration) -> MachineId {
        let own = self.machine;
        let kernel = self.worker.kernel();
        let neighbour = kernel.machine("n").unwrap();
        let wire = kernel.wire(WireKind::PointToPoint).unwrap();
        let settings = WireSettings {
            delay,
            ..WireSettings::default()
        };
        kernel.set_wire(wire, None, &settings).unwrap();
        for (machine, n) in [(neighbour, 2), (own, 1)] {
            let interface = "eth0";
            let end = Attachment {
                interface,
                ..Attachment::default()
            };
            self.worker.kernel().attach(wire, machine, end).unwrap();
            self.machine = machine;
            self.ok(&format!("ip address add 10.0.0.{n}/24 dev {interface}"));
            self.ok(&format!("ip link set {interface} up"));
        }
        neighbour
    }

    /// Starts words separated by blanks.
    pub fn start(&mut self, line: &str) -> Running {
        let mut words = line.split_whitespace();
        let program = Program::new(words.next().unwrap()).args(words);
        self.start_program(program)
    }

    pub fn start_program(&mut self, program: Program) -> Running {
        let (out, err) = (memory_file(), memory_file());
        let give = |f: &File| Stdio::Fd(OwnedFd::from(f.try_clone().unwrap()));
        let program = program
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::Null)
            .stdout(give(&out))
            .stderr(give(&err));
        let id = self.worker.spawn(self.machine, program).unwrap();
        Running { id, out, err }
    }

    pub fn finish(&mut self, mut running: Running) -> Output {
        let status = self.worker.wait(running.id).unwrap();
        Output {
            status,
            out: contents(&mut running.out),
            err: contents(&mut running.err),
        }
    }

    pub fn run(&mut self, line: &str) -> Output {
        let running = self.start(line);
        self.finish(running)
    }

    /// Runs it and insists on success; its standard output.
    pub fn ok(&mut self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status, Status::Exited(0), "{line}: {output:?}");
        output.out
    }

    pub fn shell(&mut self, script: &str) -> Output {
        let running = self.start_program(Program::new("bash").args(["-c", script]));
        self.finish(running)
    }

    pub fn start_python(&mut self, script: &str) -> Running {
        self.start_program(Program::new("/usr/bin/python3").args(["-c", script]))
    }

    /// Runs a Python script and insists on success; its standard output.
    pub fn python(&mut self, script: &str) -> String {
        let running = self.start_python(script);
        let output = self.finish(running);
        let good = output.status == Status::Exited(0);
        assert!(good, "{:?}\n{}{}", output.status, output.out, output.err);
        output.out
    }

    /// Serves until the machine has a TCP socket that listens on the port.
    pub fn until_listening(&mut self, port: u16) {
        let filter = format!("sport = :{port}");
        loop {
            let program = Program::new("ss").args(["-Hltn", &filter]);
            let running = self.start_program(program);
            if !self.finish(running).out.is_empty() {
                return;
            }
        }
    }

    /// Serves until the program has written this.
    pub fn until_written(&mut self, running: &mut Running, text: &str) {
        while !running.out().contains(text) {
            let status = self.worker.status(running.id).unwrap();
            assert_eq!(status, None, "{}", contents(&mut running.err));
            self.worker.step(None).unwrap();
        }
    }

    /// Sockets, files and tasks of the kernel.
    pub fn used(&mut self) -> (u64, u64, u64) {
        let c = self.worker.counters().unwrap();
        (c.sockets, c.files, c.tasks)
    }
}

/// The image to test: where images are looked for, or what `make stack` built.
pub fn image_path() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
    let path = find_image().unwrap_or(built);
    path.canonicalize()
        .unwrap_or_else(|e| panic!("{}: {e}; `make stack` builds an image", path.display()))
}

fn memory_file() -> File {
    vink_sys::fd::in_memory(c"output").unwrap()
}

fn contents(file: &mut File) -> String {
    let mut whole = Vec::new();
    // A description of its own, since the program's offset is shared.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    let mut reader = File::open(path).unwrap();
    reader.rewind().unwrap();
    reader.read_to_end(&mut whole).unwrap();
    String::from_utf8_lossy(&whole).into_owned()
}

const CHILD: &str = "VINK_TRAP_TEST_OF_ITS_OWN";

/// Runs a test in a process of its own. What other tests start at the same time would inherit, until
/// it is executed, what the worker has open of its programs: a pipe is still open then whose programs
/// have ended, so runs that ought to be the same are not.
pub fn by_itself(name: &str, test: fn()) {
    if std::env::var_os(CHILD).is_some() {
        return test();
    }
    let folder = Folder::new(None);
    check("as we are", &again(name, &folder).output().unwrap());
}

/// Runs a test [by itself](by_itself) as the present user and, if that is root, once more as the
/// ordinary user `nobody`.
pub fn as_both(name: &str, test: fn()) {
    by_itself(name, test);
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let root = vink_sys::process::is_root();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let nobody = users.lines().find_map(|l| {
        let mut fields = l.split(':');
        (fields.next() == Some("nobody")).then(|| fields.nth(1)?.parse().ok())?
    });
    let Some(nobody) = nobody.filter(|_| root) else {
        return;
    };
    let folder = Folder::new(Some(nobody));
    match again(name, &folder).uid(nobody).gid(nobody).output() {
        Ok(output) => check("as nobody", &output),
        // The build folder may lie where only root can reach.
        Err(error) => println!("not run as nobody: {error}"),
    }
}

/// This program, for one test of it.
fn again(name: &str, folder: &Folder) -> Command {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .env("VINK_IMAGE", image_path())
        .env("TMPDIR", &folder.0)
        .current_dir("/");
    again
}

/// Where a test has its temporary files. It goes with them, also if the test was killed.
struct Folder(PathBuf);

const FOLDERS: &str = "vink-trap-";

impl Folder {
    fn new(owner: Option<u32>) -> Folder {
        remove_left();
        let own = format!("{FOLDERS}{}", std::process::id());
        // Another test's, or left by another user's process of the same number.
        let made = |at: &PathBuf| match fs::create_dir(at) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            result => result.map(|()| true).unwrap(),
        };
        let names = (0..).map(|n| std::env::temp_dir().join(format!("{own}-{n}")));
        let folder = Folder({ names }.find(made).unwrap());
        fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o755)).unwrap();
        chown(&folder.0, owner, owner).unwrap();
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test's failure matters more than what it leaves.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of processes that were killed before they could.
fn remove_left() {
    for entry in fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(FOLDERS));
        let pid = rest.and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Another user's stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The test has run, and passed.
fn check(user: &str, output: &std::process::Output) {
    let out = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && out.contains("1 passed");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(passed, "{user}:\n{out}{err}");
}
