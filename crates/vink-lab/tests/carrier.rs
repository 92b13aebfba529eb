//! What `ip` and `ethtool`'s counterparts in sysfs see of a wire.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vink_kernel::{Config, Image, Kernel, MachineId, WireSettings};
use vink_lab::{wire, End, Machine};
use vink_trap::{Program, Status, Stdio, Worker};

/// Runs a shell command on a machine to its end; what it printed.
fn shell(worker: &mut Worker, machine: MachineId, command: &str) -> String {
    let mut output = scratch(command);
    let copy = output.try_clone().expect("a copy").into();
    let program = Program::new("sh").args(["-c", command]);
    let program = program.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let program = worker.spawn(machine, program.stdout(Stdio::Fd(copy)));
    let status = worker.wait(program.expect("a shell")).expect("its end");
    let text = contents(&mut output);
    assert_eq!(status, Status::Exited(0), "{command}: {text}");
    text
}

/// A file that no other test has.
fn scratch(name: &str) -> File {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name = format!("carrier-{}", letters.take(40).collect::<String>());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(true);
    let file = options.open(&path).expect("a file");
    std::fs::remove_file(path).expect("its name goes");
    file
}

fn contents(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().expect("its start");
    file.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn programs_see_a_wire_go_down_and_up() {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
    let path = std::env::var_os("VINK_IMAGE").map_or(built, PathBuf::from);
    let image = Image::open(&path).expect("the image: run make stack");
    let mut kernel = Kernel::boot(image, Config::default()).expect("a kernel");
    let [a, b] = ["a", "b"].map(|name| Machine::new(&mut kernel, name).expect("a machine"));
    let end = |machine| End {
        machine,
        interface: "eth0",
        addresses: &[],
    };
    let wire = wire(&mut kernel, end(&a), end(&b)).expect("a wire");
    let mut worker = Worker::new(kernel).expect("a worker");
    let link = "ip -brief link show dev eth0";
    let line = shell(&mut worker, a.id, link);
    assert!(
        line.contains(" UP ") && line.contains(",LOWER_UP>"),
        "{line}"
    );
    let details = shell(&mut worker, a.id, "ip -details link show dev eth0");
    assert!(
        details.contains("vx") && details.contains("qdisc noqueue"),
        "{details}"
    );
    assert!(details.contains("tso_max_size 524280"), "{details}");

    // `ip monitor` watches: once there is one more socket.
    let sockets = "wc -l < /proc/net/netlink";
    let before = shell(&mut worker, a.id, sockets);
    let mut seen = scratch("monitor");
    let copy = seen.try_clone().expect("a copy").into();
    let monitor = Program::new("ip").args(["monitor", "link"]);
    let monitor = monitor.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let monitor = worker.spawn(a.id, monitor.stdout(Stdio::Fd(copy)));
    let monitor = monitor.expect("ip monitor");
    while shell(&mut worker, a.id, sockets) == before {
        worker.step(Some(Duration::from_millis(1))).expect("a step");
    }

    worker.kernel().wire_up(wire, false).expect("down");
    let line = shell(&mut worker, a.id, link);
    assert!(
        line.contains(" DOWN ") && line.contains("NO-CARRIER"),
        "{line}"
    );
    let files = "cat /sys/class/net/eth0/carrier /sys/class/net/eth0/operstate";
    assert_eq!(shell(&mut worker, b.id, files), "0\ndown\n");
    worker.kernel().wire_up(wire, true).expect("up");
    assert_eq!(shell(&mut worker, b.id, files), "1\nup\n");
    while !contents(&mut seen).contains(",LOWER_UP>") {
        worker.step(Some(Duration::from_millis(1))).expect("a step");
    }
    let lines = contents(&mut seen);
    assert!(lines.contains("NO-CARRIER"), "{lines}");
    worker.kill(monitor).expect("it ends");

    // The far interface, by its own machine's command.
    shell(&mut worker, b.id, "ip link set eth0 down");
    let line = shell(&mut worker, a.id, link);
    assert!(line.contains("NO-CARRIER"), "{line}");
    shell(&mut worker, b.id, "ip link set eth0 up");

    // A wire with a rate has a queue, frames of the MTU, and tells its speed.
    let slow = WireSettings {
        rate: 100_000_000,
        ..WireSettings::default()
    };
    worker.kernel().set_wire(wire, None, &slow).expect("a rate");
    let queue = shell(&mut worker, a.id, "tc qdisc show dev eth0");
    assert!(queue.contains("qdisc pfifo_fast"), "{queue}");
    assert_eq!(
        shell(&mut worker, a.id, "cat /sys/class/net/eth0/speed"),
        "100\n"
    );
    shell(&mut worker, a.id, "tc qdisc replace dev eth0 root fq_codel");
    let queue = shell(&mut worker, a.id, "tc qdisc show dev eth0");
    assert!(queue.contains("qdisc fq_codel"), "{queue}");

    // It is the wire's.
    let refused =
        "ip link del eth0 2>&1; ip link add vx7 type vx 2>&1; ip link show vx7 2>&1; true";
    let words = shell(&mut worker, a.id, refused);
    assert!(
        words.contains("not supported") && words.contains("does not exist"),
        "{words}"
    );
}
