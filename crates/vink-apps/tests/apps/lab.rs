//! What the tests share: two machines on a wire, and apps on them.

use std::path::Path;
use std::time::Duration;

use vink_apps::{App, AppId, Apps, Report, State, Status};
use vink_kernel::{
    find_image, Attachment, Clock, Config, Counters, EndId, Image, Kernel, MachineId, WireId,
    WireKind, WireSettings, WireStatistics,
};
use vink_lab::Machine;
use vink_trap::{Program, Status as Ended, Stdio, Worker};

/// The server's addresses: IPv4, IPv6.
pub const SERVER: [&str; 2] = ["10.0.0.2", "fd00::2"];

/// A kernel with the machines `client` and `server` (`10.0.0.1`, `fd00::1` and `10.0.0.2`,
/// `fd00::2`), each with an interface `eth0`, and the apps on them.
pub struct Lab {
    pub worker: Worker,
    pub apps: Apps,
    wire: WireId,
    /// The client's end, and the server's.
    pub ends: [EndId; 2],
    pub client: Machine,
    pub server: Machine,
}

impl Lab {
    pub fn new(clock: Clock) -> Lab {
        Lab::with_arena(clock, 64 << 20)
    }

    pub fn with_arena(clock: Clock, arena_bytes: u64) -> Lab {
        Lab::with_seed(clock, arena_bytes, 7)
    }

    pub fn with_seed(clock: Clock, arena_bytes: u64, seed: u8) -> Lab {
        let config = Config {
            clock,
            arena_bytes,
            seed: Some([seed; 32]),
            ..Config::default()
        };
        let mut kernel = Kernel::boot(image(), config).expect("it boots");
        let client = Machine::new(&mut kernel, "client").expect("a machine");
        let server = Machine::new(&mut kernel, "server").expect("a machine");
        let wire = kernel.wire(WireKind::PointToPoint).expect("a wire");
        let mut ends = Vec::new();
        for (machine, n) in [(&client, 1), (&server, 2)] {
            let attachment = Attachment {
                interface: "eth0",
                ..Attachment::default()
            };
            ends.push(kernel.attach(wire, machine.id, attachment).expect("an end"));
            for (text, prefix) in [(format!("10.0.0.{n}"), 24), (format!("fd00::{n}"), 64)] {
                let address = text.parse().expect("an address");
                let added = machine
                    .network
                    .address(&mut kernel, "eth0", address, prefix);
                added.expect("it is added");
            }
            machine.network.up(&mut kernel, "eth0").expect("it is up");
        }
        Lab {
            worker: Worker::new(kernel).expect("a worker"),
            apps: Apps::new(),
            wire,
            ends: [ends[0], ends[1]],
            client,
            server,
        }
    }

    pub fn kernel(&mut self) -> &mut Kernel {
        self.worker.kernel()
    }

    /// Lets the machines find each other, which a wire that loses packets makes them wait for.
    pub fn meet(&mut self) {
        for host in SERVER {
            let ping = self.start(self.client.id, &format!("ping -c 1 {host}"));
            self.finish(ping);
        }
    }

    /// Runs a shell's line on a machine and insists on success.
    pub fn shell(&mut self, machine: MachineId, line: &str) {
        let program = Program::new("sh").args(["-c", line]).stdin(Stdio::Null);
        let program = self.worker.spawn(machine, program).expect("it starts");
        let ended = self.worker.wait(program).expect("it runs");
        assert_eq!(ended, Ended::Exited(0), "{line}");
    }

    /// What the wire does in both directions.
    pub fn set_wire(&mut self, settings: WireSettings) {
        let wire = self.wire;
        let set = self.kernel().set_wire(wire, None, &settings);
        set.expect("the wire takes it");
    }

    /// What the wire does to what the client sends.
    pub fn set_way(&mut self, settings: WireSettings) {
        let (wire, end) = (self.wire, self.ends[0]);
        let set = self.kernel().set_wire(wire, Some(end), &settings);
        set.expect("the wire takes it");
    }

    /// What the wire has done to what the client sent.
    pub fn way(&mut self) -> WireStatistics {
        let end = self.ends[0];
        self.kernel().wire_statistics(end).expect("statistics")
    }

    /// Starts words separated by blanks.
    pub fn start(&mut self, machine: MachineId, line: &str) -> AppId {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        self.apps
            .start(self.worker.kernel(), machine, &words)
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub fn start_app(&mut self, machine: MachineId, app: impl App + 'static) -> AppId {
        let words = ["test".to_owned()];
        self.apps
            .start_app(self.worker.kernel(), machine, &words, Box::new(app))
            .expect("it starts")
    }

    /// Starts a server and runs it until it listens.
    pub fn serve(&mut self, line: &str) -> AppId {
        let id = self.start(self.server.id, line);
        self.run_until(|lab| lab.status(id).ready);
        id
    }

    pub fn status(&self, id: AppId) -> Status {
        self.apps.status(id).expect("it is known")
    }

    pub fn report(&self, id: AppId) -> Report {
        self.status(id).report.expect("it has begun")
    }

    pub fn has_ended(&self, id: AppId) -> bool {
        matches!(self.status(id).state, State::Ended { .. })
    }

    /// All that it has written.
    pub fn output(&self, id: AppId) -> String {
        self.apps.output(id, 0).expect("it is known").text
    }

    /// Runs the kernel, timers included, until this holds.
    pub fn run_until(&mut self, mut condition: impl FnMut(&mut Lab) -> bool) {
        loop {
            let kernel = self.kernel();
            let deadline = kernel.run().expect("it runs");
            while kernel.next_event().is_some() {}
            if condition(self) {
                return;
            }
            let list = self.apps.list();
            self.kernel()
                .wait(deadline.unwrap_or_else(|| panic!("all wait: {list:#?}")));
        }
    }

    /// Runs the kernel for so long.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.kernel().now() + time.as_nanos() as u64;
        loop {
            let kernel = self.kernel();
            let deadline = kernel.run().expect("it runs");
            while kernel.next_event().is_some() {}
            match deadline {
                Some(deadline) if deadline <= end => kernel.wait(deadline),
                _ => return kernel.wait(end),
            }
        }
    }

    /// Runs until the app has ended, and insists on success; its last report.
    pub fn finish(&mut self, id: AppId) -> Report {
        let status = self.end(id);
        let state = &status.state;
        assert!(
            matches!(state, State::Ended { status: 0, .. }),
            "{:?}: {state:?}",
            status.words
        );
        status.report.expect("it has begun")
    }

    /// Runs until the app has ended.
    pub fn end(&mut self, id: AppId) -> Status {
        self.run_until(|lab| lab.has_ended(id));
        self.apps.take(id).expect("it has ended")
    }

    /// Stops an app and takes its result.
    pub fn stop(&mut self, id: AppId) -> Status {
        self.apps
            .stop(self.worker.kernel(), id)
            .expect("it is told");
        self.end(id)
    }

    /// Sockets, files and tasks of the kernel, when nothing moves any more.
    pub fn used(&mut self) -> (u64, u64, u64) {
        self.kernel().run().expect("it runs");
        let Counters {
            sockets,
            files,
            tasks,
            ..
        } = self.kernel().counters().expect("counters");
        (sockets, files, tasks)
    }
}

/// A private copy of the image that was built.
pub fn image() -> Image {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = root.join("build/libvink-linux-6.12.so");
    let path = find_image().unwrap_or(built);
    Image::open(&path).unwrap_or_else(|error| panic!("these tests need an image: {error}"))
}
