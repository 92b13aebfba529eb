//! Machines, wires, addresses, routes and sysctls on a real kernel.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use vink_kernel::{Config, Image, Kernel, TaskId};
use vink_lab::{wire, End, Error, Machine, Network};

fn boot() -> Kernel {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
    let path = std::env::var_os("VINK_IMAGE").map_or(built, PathBuf::from);
    let image = Image::open(&path).expect("the image: run make stack");
    Kernel::boot(image, Config::default()).expect("a kernel")
}

fn network(text: &str) -> Network {
    text.parse().expect("a network")
}

/// Machines a and b, joined by eth0 of each, with an address of either family.
fn pair(kernel: &mut Kernel) -> [Machine; 2] {
    let a = Machine::new(kernel, "a").expect("machine a");
    let b = Machine::new(kernel, "b").expect("machine b");
    let ends = [
        &["10.0.0.1/24", "fd00::1/64"],
        &["10.0.0.2/24", "fd00::2/64"],
    ]
    .map(|texts| texts.map(network));
    let end = |machine, addresses| End {
        machine,
        interface: "eth0",
        addresses,
    };
    wire(kernel, end(&a, &ends[0]), end(&b, &ends[1])).expect("a wire");
    [a, b]
}

fn errno(result: Result<(), Error>) -> i32 {
    match result {
        Err(Error::Refused { errno, what, .. }) => {
            assert!(!what.is_empty());
            errno
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// The bytes of a `struct sockaddr_in` or `sockaddr_in6`.
fn sockaddr(address: SocketAddr) -> Vec<u8> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => bytes.extend(ip.octets()),
        IpAddr::V6(ip) => {
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
        }
    }
    bytes.resize(if address.is_ipv4() { 16 } else { 28 }, 0);
    bytes
}

fn call(kernel: &mut Kernel, task: TaskId, nr: i64, args: [u64; 6]) -> u64 {
    let result = kernel.call(task, nr, args).expect("a call");
    u64::try_from(result).unwrap_or_else(|_| panic!("call {nr}: {result}"))
}

/// Sends a datagram from one machine to an address of another and reads it there.
fn datagram(kernel: &mut Kernel, from: &Machine, to: &Machine, address: &str) {
    let address: SocketAddr = address.parse().expect("an address");
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    } as u64;
    let name = sockaddr(address);
    let [sender, receiver] = [from, to].map(|machine| kernel.task(machine.id).expect("a task"));
    let socket = [family, libc::SOCK_DGRAM as u64, 0, 0, 0, 0];
    let source = call(kernel, sender, libc::SYS_socket, socket);
    let sink = call(kernel, receiver, libc::SYS_socket, socket);
    call(
        kernel,
        receiver,
        libc::SYS_bind,
        [sink, name.as_ptr() as u64, name.len() as u64, 0, 0, 0],
    );
    let message = b"over the wire";
    let to = [name.as_ptr() as u64, name.len() as u64];
    let args = [
        source,
        message.as_ptr() as u64,
        message.len() as u64,
        0,
        to[0],
        to[1],
    ];
    call(kernel, sender, libc::SYS_sendto, args);
    let mut buffer = [0u8; 64];
    let args = [
        sink,
        buffer.as_mut_ptr() as u64,
        buffer.len() as u64,
        0,
        0,
        0,
    ];
    let n = call(kernel, receiver, libc::SYS_recvfrom, args) as usize;
    assert_eq!(&buffer[..n], message);
    for task in [sender, receiver] {
        kernel.exit_task(task, 0, true).expect("its end");
    }
}

#[test]
fn a_wire_carries_both_families() {
    let mut kernel = boot();
    let [a, b] = pair(&mut kernel);
    datagram(&mut kernel, &a, &b, "10.0.0.2:7000");
    datagram(&mut kernel, &b, &a, "[fd00::1]:7000");
}

#[test]
fn a_router_forwards() {
    let mut kernel = boot();
    let [client, router] = pair(&mut kernel);
    let server = Machine::new(&mut kernel, "server").expect("a machine");
    let [near, far] =
        [["10.0.1.1/24", "fd01::1/64"], ["10.0.1.2/24", "fd01::2/64"]].map(|t| t.map(network));
    let router_end = End {
        machine: &router,
        interface: "eth1",
        addresses: &near,
    };
    let server_end = End {
        machine: &server,
        interface: "eth0",
        addresses: &far,
    };
    wire(&mut kernel, router_end, server_end).expect("a wire");
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    client
        .network
        .route(&mut kernel, ip("10.0.1.0"), 24, ip("10.0.0.2"))
        .expect("a route");
    server
        .network
        .route(&mut kernel, ip("0.0.0.0"), 0, ip("10.0.1.1"))
        .expect("a route");
    let [ip6, via6] = ["fd01::2", "fd00::2"].map(ip);
    client
        .network
        .route(&mut kernel, ip6, 64, via6)
        .expect("a route");
    server
        .network
        .route(&mut kernel, ip("::"), 0, ip("fd01::1"))
        .expect("a route");
    router.forward(&mut kernel).expect("forwarding");
    // At once, though a neighbour must be found from addresses that have just been given.
    datagram(&mut kernel, &client, &server, "[fd01::2]:7000");
    datagram(&mut kernel, &client, &server, "10.0.1.2:7000");
    datagram(&mut kernel, &server, &client, "10.0.0.1:7000");
}

#[test]
fn refusals_name_what_was_tried() {
    let mut kernel = boot();
    let [a, b] = pair(&mut kernel);
    let end = |machine, interface| End {
        machine,
        interface,
        addresses: &[],
    };
    let taken = wire(&mut kernel, end(&b, "eth1"), end(&a, "eth0"));
    assert!(taken.is_err_and(|error| error.to_string().contains("File exists")));
    let k = &mut kernel;
    let half = b.network.up(k, "eth1");
    assert_eq!(errno(half), libc::ENODEV, "the other end went, too");
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(
        errno(a.network.address(k, "eth0", ip("10.0.0.1"), 24)),
        libc::EEXIST
    );
    assert_eq!(
        errno(a.network.address(k, "eth7", ip("10.0.0.1"), 24)),
        libc::ENODEV
    );
    assert_eq!(errno(a.network.up(k, "eth7")), libc::ENODEV);
    assert_eq!(errno(a.network.carrier(k, "eth7").map(drop)), libc::ENODEV);
    assert_eq!(
        errno(a.network.sysctl(k, "net/ipv4/no_such_thing", "1")),
        libc::ENOENT
    );
    assert_eq!(
        errno(a.network.sysctl(k, "net/ipv4/ip_forward", "many")),
        libc::EINVAL
    );
    let unreachable = a.network.route(k, ip("10.9.0.0"), 16, ip("10.8.0.1"));
    let error = unreachable.as_ref().expect_err("no way there").to_string();
    assert_eq!(errno(unreachable), libc::ENETUNREACH);
    assert!(
        error.contains("10.9.0.0/16 via 10.8.0.1") && error.contains("gateway"),
        "{error}"
    );
}

#[test]
fn a_configuration_leaves_nothing_but_its_work() {
    let mut kernel = boot();
    let machine = Machine::new(&mut kernel, "m").expect("a machine");
    let before = kernel.counters().expect("counters");
    let network = vink_lab::NetworkConfig::new(&mut kernel, machine.id).expect("a configuration");
    network
        .sysctl(&mut kernel, "net/ipv4/ip_forward", "1")
        .expect("a sysctl");
    network.close(&mut kernel).expect("its end");
    kernel.run().expect("a run");
    let after = kernel.counters().expect("counters");
    assert_eq!(
        (before.tasks, before.sockets, before.files),
        (after.tasks, after.sockets, after.files)
    );
}
