//! tcpdump on a wire between two machines.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use vink_kernel::{Config, Counters, Image, Kernel};
use vink_lab::{wire, End, Machine, Network};
use vink_trap::{Program, Status, Stdio, Worker};

#[test]
fn both_ends_see_the_same() {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
    let path = std::env::var_os("VINK_IMAGE").map_or(built, PathBuf::from);
    let image = Image::open(&path).expect("the image: run make stack");
    let mut kernel = Kernel::boot(image, Config::default()).expect("a kernel");
    let a = Machine::new(&mut kernel, "a").expect("machine a");
    let b = Machine::new(&mut kernel, "b").expect("machine b");
    let network = |text: &str| -> Network { text.parse().expect("a network") };
    let addresses = [network("10.0.0.1/24"), network("10.0.0.2/24")];
    let end = |machine, n: usize| End {
        machine,
        interface: "eth0",
        addresses: &addresses[n..=n],
    };
    wire(&mut kernel, end(&a, 0), end(&b, 1)).expect("a wire");

    let mut worker = Worker::new(kernel).expect("a worker");
    let sbin = "/usr/sbin:/usr/bin:/sbin:/bin";
    let before = worker.counters().expect("counters");
    let ping = Program::new("ping").args(["-q", "-i", "0.2", "10.0.0.2"]);
    let ping = ping.stdout(Stdio::Null).env("PATH", sbin);
    let ping = worker.spawn(a.id, ping).expect("ping");

    let mut seen = Vec::new();
    for machine in [&a, &b] {
        let name = format!("capture-{}", machine.id);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let options = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .clone();
        let mut file = options.open(&path).expect("a file");
        let filter = [
            "-nt",
            "-i",
            "eth0",
            "-c",
            "2",
            "icmp[icmptype] == icmp-echo",
        ];
        let tcpdump = Program::new("tcpdump").args(filter).env("PATH", sbin);
        let copy = file.try_clone().expect("a copy").into();
        let tcpdump = tcpdump.stdout(Stdio::Fd(copy)).stderr(Stdio::Null);
        let tcpdump = worker.spawn(machine.id, tcpdump).expect("tcpdump");
        assert_eq!(worker.wait(tcpdump).expect("its end"), Status::Exited(0));
        let mut text = String::new();
        file.rewind().expect("its start");
        file.read_to_string(&mut text).expect("text");
        std::fs::remove_file(path).expect("the file goes");
        assert_eq!(text.lines().count(), 2, "{text}");
        for line in text.lines() {
            let (line, _) = line.split_once(", seq").expect(line);
            seen.push(line.to_owned());
        }
    }
    assert!(
        seen[0].starts_with("IP 10.0.0.1 > 10.0.0.2: ICMP echo request"),
        "{seen:?}"
    );
    assert!(seen.iter().all(|line| *line == seen[0]), "{seen:?}");
    worker.kill(ping).expect("ping ends");
    let after = worker.counters().expect("counters");
    let used = |c: &Counters| (c.tasks, c.sockets, c.files);
    assert_eq!(used(&after), used(&before));
}
