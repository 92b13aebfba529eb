//! What is decoded of a kernel in this very process is what that kernel says by TCP_INFO (tcp(7)).

use std::mem::size_of_val;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vink_kernel::{find_image, Config, Image, Kernel, TaskId};
use vink_pcb::{Connection, Process, Value};

/// The process has one kernel at a time, so that there is no doubt which one is looked at.
static ALONE: Mutex<()> = Mutex::new(());

/// A machine with its loopback interface up, and a task of it.
fn alice() -> (Kernel, TaskId, MutexGuard<'static, ()>) {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .expect("the workspace");
    let image = find_image().and_then(|path| Image::open(&path));
    let image = image.expect("these tests need an image");
    let mut kernel = Kernel::boot(image, Config::default()).expect("it boots");
    // More machines than fit into one node of the list of them.
    let mut machine = kernel.machine("alice");
    for n in 0..70 {
        machine = kernel.machine(&format!("alice{n}"));
    }
    let task = kernel.task(machine.expect("a machine")).expect("a task");
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16] = (libc::IFF_UP | libc::IFF_RUNNING) as u8;
    let socket = sys(&mut kernel, task, libc::SYS_socket, &[2, 2, 0]);
    let args = [socket, libc::SIOCSIFFLAGS, request.as_ptr() as u64];
    sys(&mut kernel, task, libc::SYS_ioctl, &args);
    (kernel, task, alone)
}

/// A system call that succeeds.
fn sys(kernel: &mut Kernel, task: TaskId, nr: i64, args: &[u64]) -> u64 {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    let result = kernel.call(task, nr, six).expect("the kernel runs");
    u64::try_from(result).unwrap_or_else(|_| panic!("call {nr}: {result}"))
}

/// A connection of two sockets over the loopback interface of this family; port 80 is the server's.
fn connect(kernel: &mut Kernel, task: TaskId, family: u16) -> (u64, u64) {
    let mut address = [0u8; 28];
    address[..2].copy_from_slice(&family.to_ne_bytes());
    address[2..4].copy_from_slice(&80u16.to_be_bytes());
    let size = match family {
        2 => {
            address[4..8].copy_from_slice(&[127, 0, 0, 1]);
            16
        }
        _ => {
            address[23] = 1;
            28
        }
    };
    let (at, family) = (address.as_ptr() as u64, family.into());
    let listener = sys(kernel, task, libc::SYS_socket, &[family, 1, 0]);
    sys(kernel, task, libc::SYS_bind, &[listener, at, size]);
    sys(kernel, task, libc::SYS_listen, &[listener, 5]);
    let client = sys(kernel, task, libc::SYS_socket, &[family, 1, 0]);
    sys(kernel, task, libc::SYS_connect, &[client, at, size]);
    let server = sys(kernel, task, libc::SYS_accept, &[listener, 0, 0]);
    sys(kernel, task, libc::SYS_close, &[listener]);
    (client, server)
}

/// The connection whose remote end this is.
fn client_of(process: &Process, machine: &str, remote: &str) -> Connection {
    let machines = process.machines().expect("they are read");
    let machine = machines
        .iter()
        .find(|m| m.name == machine)
        .expect("it is there");
    let all = process.connections(machine.net).expect("they are read");
    let ends: Vec<_> = all.iter().map(|c| (c.local, c.remote)).collect();
    let here = all.into_iter().find(|c| c.remote.to_string() == remote);
    here.unwrap_or_else(|| panic!("{ends:?}"))
}

#[test]
fn fields_are_what_the_kernel_says() {
    let (mut kernel, task, _alone) = alice();
    let process = Process::open(std::process::id()).expect("it has an image");
    let (client, _server) = connect(&mut kernel, task, 2);
    let data = [7u8; 5000];
    let written = [client, data.as_ptr() as u64, data.len() as u64];
    assert_eq!(sys(&mut kernel, task, libc::SYS_write, &written), 5000);

    let found = client_of(&process, "alice69", "127.0.0.1:80");
    let layout = process.layout();
    assert_eq!(layout.state(found.state), "ESTABLISHED");
    let mut info = <libc::tcp_info as vink_sys::plain::Zeroed>::zeroed();
    let size = size_of_val(&info) as libc::socklen_t;
    let args = [
        client,
        6,
        libc::TCP_INFO as u64,
        (&raw mut info) as u64,
        (&raw const size) as u64,
    ];
    sys(&mut kernel, task, libc::SYS_getsockopt, &args);
    let number = |name: &str| {
        let field = layout
            .tcp
            .field(name)
            .unwrap_or_else(|| panic!("no {name}"));
        field
            .number(&found.bytes)
            .unwrap_or_else(|| panic!("{name} is no number"))
    };
    let told = [
        (number("snd_cwnd"), info.tcpi_snd_cwnd),
        (number("snd_ssthresh"), info.tcpi_snd_ssthresh),
        (number("mss_cache"), info.tcpi_snd_mss),
        (number("advmss"), info.tcpi_advmss),
        (number("srtt_us") >> 3, info.tcpi_rtt),
        (number("mdev_us") >> 2, info.tcpi_rttvar),
        (number("icsk_ca_state"), info.tcpi_ca_state.into()),
        (number("snd_wscale"), (info.tcpi_snd_rcv_wscale & 15).into()),
    ];
    for (i, (here, there)) in told.into_iter().enumerate() {
        assert_eq!(here, u64::from(there), "{i}");
    }
    assert_eq!(number("bytes_acked"), 5000 + 1);
    assert_eq!(number("sk_protocol"), 6);

    // An address in the image has a name, the congestion control's.
    let control = process.symbol(number("icsk_ca_ops"));
    assert_eq!(control, Some("cubictcp"));
    let list = layout
        .tcp
        .field("icsk_ca_priv")
        .and_then(|f| f.read(&found.bytes));
    assert!(matches!(list, Some(Value::List(values)) if values.len() > 4));
}

#[test]
fn each_machine_has_its_own_connections() {
    let (mut kernel, task, _alone) = alice();
    let process = Process::open(std::process::id()).expect("it has an image");
    let (client, server) = connect(&mut kernel, task, 10);
    client_of(&process, "alice69", "[::1]:80");
    let machines = process.machines().expect("they are read");
    assert_eq!(machines.len(), 71);
    for machine in &machines {
        let count = process
            .connections(machine.net)
            .expect("they are read")
            .len();
        assert_eq!(
            count,
            if machine.name == "alice69" { 2 } else { 0 },
            "{machine:?}"
        );
    }
    sys(&mut kernel, task, libc::SYS_close, &[client]);
    sys(&mut kernel, task, libc::SYS_close, &[server]);
    let alice = machines
        .iter()
        .find(|m| m.name == "alice69")
        .expect("it is there");
    // What is left is no tcp_sock.
    assert_eq!(process.connections(alice.net).expect("they are read"), []);
}

#[test]
fn every_field_has_a_name_of_its_own_and_lies_within() {
    let (_kernel, _, _alone) = alice();
    let process = Process::open(std::process::id()).expect("it has an image");
    let tcp = &process.layout().tcp;
    assert!(tcp.fields.len() > 300, "{}", tcp.fields.len());
    let mut names: Vec<&str> = tcp.fields.iter().map(|f| f.name.as_str()).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
    let whole = vec![0xff; tcp.size];
    for field in &tcp.fields {
        assert!(field.read(&whole).is_some(), "{field:?}");
    }
}

#[test]
fn a_process_without_an_image_is_refused() {
    let mut child = std::process::Command::new("cat");
    let child = child.stdin(std::process::Stdio::piped()).spawn();
    let mut child = child.expect("cat runs");
    let error = Process::open(child.id()).err().expect("cat has none");
    assert!(error.to_string().contains("no image loaded"), "{error}");
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
}
