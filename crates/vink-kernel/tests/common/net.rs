//! Machines on one wire, for the tests of wires.
#![allow(dead_code, reason = "each test uses a part")]

use std::time::Duration;

use vink_kernel::{
    Attachment, Clock, Config, EndId, Kernel, MachineId, PacketEvent, TaskId, Trace, WireId,
    WireKind, WireSettings, WireStatistics,
};

use crate::common::{at, at_mut, boot, Caller, Task};

pub const MS: Duration = Duration::from_millis(1);
/// Of an Ethernet header.
pub const HEADER: usize = 14;
/// An unused Ethernet protocol: the kernel leaves such frames to packet sockets.
pub const PROTOCOL: [u8; 2] = [0x88, 0xb5];

/// A machine with one interface, `vx0`, which is up, and a packet socket bound to it.
pub struct Host {
    pub machine: MachineId,
    pub task: TaskId,
    pub end: EndId,
    pub socket: u64,
    pub address: [u8; 6],
}

/// Machines on one wire.
pub struct Net {
    pub kernel: Kernel,
    pub wire: WireId,
    pub hosts: Vec<Host>,
}

/// A `struct ifreq`.
#[repr(C)]
pub struct Request {
    name: [u8; 16],
    pub value: [i32; 6],
}

pub fn request(name: &str, value: i32) -> Request {
    let mut request = Request {
        name: [0; 16],
        value: [value, 0, 0, 0, 0, 0],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    request
}

/// A kernel on a virtual clock, with a seed: all that happens in it happens again.
pub fn repeatable() -> Kernel {
    boot(Config {
        clock: Clock::Virtual,
        seed: Some([7; 32]),
        ..Config::default()
    })
}

/// A machine that sends nothing by itself.
pub fn quiet_machine(kernel: &mut Kernel, name: &str) -> (MachineId, TaskId) {
    let machine = kernel.machine(name).expect("a machine");
    let task = kernel.task(machine).expect("a task");
    write_file(
        kernel,
        task,
        "/proc/sys/net/ipv6/conf/default/disable_ipv6",
        "1",
    );
    (machine, task)
}

pub fn write_file(kernel: &mut Kernel, task: TaskId, path: &str, value: &str) {
    let mut sys = Task(kernel, task);
    let path = format!("{path}\0");
    let args = [
        libc::AT_FDCWD as u64,
        at(path.as_bytes()),
        libc::O_WRONLY as u64,
    ];
    let file = sys.ok(libc::SYS_openat, &args);
    assert_eq!(sys.write(file, value.as_bytes()), value.len() as i64);
    sys.close(file);
}

pub fn set_flags(kernel: &mut Kernel, task: TaskId, flags: i32) {
    let mut sys = Task(kernel, task);
    let socket = sys.socket(libc::AF_INET, libc::SOCK_DGRAM);
    let request = request("vx0", flags);
    sys.ok(libc::SYS_ioctl, &[socket, libc::SIOCSIFFLAGS, at(&request)]);
    sys.close(socket);
}

impl Net {
    /// So many machines on one wire, all up.
    pub fn new(kind: WireKind, count: usize) -> Net {
        Net::of(repeatable(), kind, count)
    }

    pub fn of(mut kernel: Kernel, kind: WireKind, count: usize) -> Net {
        let wire = kernel.wire(kind).expect("a wire");
        let mut net = Net {
            kernel,
            wire,
            hosts: Vec::new(),
        };
        for n in 0..count {
            net.add(n as u8 + 1);
        }
        net
    }

    /// One more machine, whose address ends in this number.
    pub fn add(&mut self, number: u8) {
        let kernel = &mut self.kernel;
        let (machine, task) = quiet_machine(kernel, &format!("m{number}"));
        let address = [2, 0, 0, 0, 0, number];
        let attachment = Attachment {
            interface: "vx0",
            address: Some(address),
            mtu: None,
        };
        let end = kernel.attach(self.wire, machine, attachment);
        let end = end.expect("an end");
        set_flags(kernel, task, libc::IFF_UP);
        let mut sys = Task(kernel, task);
        let socket = sys.ok(
            libc::SYS_socket,
            &[libc::AF_PACKET as u64, libc::SOCK_RAW as u64, 0],
        );
        let room = 64i32 << 20;
        let option = [libc::SOL_SOCKET as u64, libc::SO_RCVBUFFORCE as u64];
        let args = [
            socket,
            option[0],
            option[1],
            at(&room),
            size_of_val(&room) as u64,
        ];
        sys.ok(libc::SYS_setsockopt, &args);
        let mut index = request("vx0", 0);
        sys.ok(
            libc::SYS_ioctl,
            &[socket, libc::SIOCGIFINDEX, at_mut(&mut index)],
        );
        let index = index.value[0];
        let name = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: u16::from_ne_bytes(PROTOCOL),
            sll_ifindex: index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        sys.ok(
            libc::SYS_bind,
            &[socket, at(&name), size_of_val(&name) as u64],
        );
        self.hosts.push(Host {
            machine,
            task,
            end,
            socket,
            address,
        });
    }

    /// Gives each machine the address 10.0.0.N, where N is its number.
    pub fn address(&mut self) {
        for host in &self.hosts {
            let mut request = request("vx0", 0);
            let address = sockaddr(host.address[5], 0);
            let family_and_port = u32::from(address.sin_family) | u32::from(address.sin_port) << 16;
            let parts = [family_and_port, address.sin_addr.s_addr];
            request.value[..2].copy_from_slice(&parts.map(|part| part as i32));
            let mut sys = Task(&mut self.kernel, host.task);
            let socket = sys.socket(libc::AF_INET, libc::SOCK_DGRAM);
            sys.ok(libc::SYS_ioctl, &[socket, libc::SIOCSIFADDR, at(&request)]);
            sys.close(socket);
        }
    }

    pub fn statistics(&mut self, host: usize) -> WireStatistics {
        let end = self.hosts[host].end;
        self.kernel.wire_statistics(end).expect("statistics")
    }

    /// Whether a machine's interface has a carrier.
    pub fn carrier(&mut self, host: usize) -> bool {
        let mut sys = Task(&mut self.kernel, self.hosts[host].task);
        let socket = sys.socket(libc::AF_INET, libc::SOCK_DGRAM);
        let mut flags = request("vx0", 0);
        sys.ok(
            libc::SYS_ioctl,
            &[socket, libc::SIOCGIFFLAGS, at_mut(&mut flags)],
        );
        sys.close(socket);
        flags.value[0] & libc::IFF_RUNNING != 0
    }

    /// Lets time pass until then.
    pub fn advance(&mut self, to: u64) {
        loop {
            match self.kernel.run().expect("it runs") {
                Some(deadline) if deadline <= to => self.kernel.wait(deadline),
                _ => return self.kernel.wait(to),
            }
        }
    }

    pub fn set(&mut self, settings: WireSettings) {
        self.kernel
            .set_wire(self.wire, None, &settings)
            .expect("settings");
    }

    /// Sends a frame of this many bytes from the first machine to the second, whose last four bytes
    /// are a number.
    pub fn send(&mut self, number: u32, len: usize) {
        let to = self.hosts[1].address;
        self.send_to(0, to, number, len);
    }

    pub fn send_to(&mut self, from: usize, to: [u8; 6], number: u32, len: usize) {
        let host = &self.hosts[from];
        let mut frame = vec![0u8; len];
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&host.address);
        frame[12..14].copy_from_slice(&PROTOCOL);
        frame[len - 4..].copy_from_slice(&number.to_be_bytes());
        let sent = Task(&mut self.kernel, host.task).write(host.socket, &frame);
        assert_eq!(sent, len as i64, "frame {number}");
    }

    /// The numbers of the frames that wait in a machine's socket.
    pub fn received(&mut self, host: usize) -> Vec<u32> {
        self.frames(host)
            .iter()
            .map(|frame| number(frame))
            .collect()
    }

    pub fn frames(&mut self, host: usize) -> Vec<Vec<u8>> {
        let host = &self.hosts[host];
        let mut frames = Vec::new();
        loop {
            let mut frame = vec![0; 4096];
            let flags = libc::MSG_DONTWAIT as u64;
            let args = [host.socket, at_mut(frame.as_mut_slice()), 4096, flags, 0, 0];
            match Task(&mut self.kernel, host.task).sys(libc::SYS_recvfrom, &args) {
                n if n > 0 => frames.push(frame[..n as usize].to_vec()),
                // Its interface was down meanwhile.
                n if n == -i64::from(libc::ENETDOWN) => {}
                n => {
                    assert_eq!(n, -i64::from(libc::EAGAIN));
                    return frames;
                }
            }
        }
    }

    /// Lets time pass until nothing is under way any more.
    pub fn settle(&mut self) {
        loop {
            let deadline = self.kernel.run().expect("it runs");
            let ends: Vec<_> = self.hosts.iter().map(|host| host.end).collect();
            let busy = ends.iter().any(|end| {
                let statistics = self.kernel.wire_statistics(*end).expect("statistics");
                statistics.under_way > 0
            });
            if !busy {
                return;
            }
            self.kernel.wait(deadline.expect("a timer"));
        }
    }

    pub fn trace(&mut self, host: usize, trace: Trace) {
        self.kernel
            .trace(self.hosts[host].end, trace)
            .expect("a trace");
    }

    pub fn events(&mut self) -> Vec<PacketEvent> {
        std::iter::from_fn(|| self.kernel.next_packet()).collect()
    }
}

pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[frame.len() - 4..].try_into().expect("four bytes"))
}

/// 10.0.0.N and a port.
pub fn sockaddr(n: u8, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([10, 0, 0, n]),
        },
        sin_zero: [0; 8],
    }
}

/// That a share of so many is what chance makes of this probability: within four standard
/// deviations.
#[track_caller]
pub fn assert_binomial(count: u64, of: u64, probability: f64) {
    let mean = of as f64 * probability;
    let deviation = (mean * (1.0 - probability)).sqrt();
    assert!(
        (count as f64 - mean).abs() <= 4.0 * deviation,
        "{count} of {of} at a probability of {probability}"
    );
}

pub const TIMES: Trace = Trace {
    departures: true,
    arrivals: true,
    losses: true,
    drops: false,
    bytes: 0,
};
