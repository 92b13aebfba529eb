//! A process that gives up its rights, and then tries one thing: `vink-confined FOLDER WHAT`. It ends
//! with the number of the error that it got, 0 if it got through, or by SIGSYS.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;

use vink_confine::{confine, Keep};

/// A system call's error, 0 if it has none.
fn call(number: i64, arguments: [i64; 6]) -> i32 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: a process of a test, which ends next; nothing relies on its memory.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(-1),
        _ => 0,
    }
}

fn error<T>(done: std::io::Result<T>) -> i32 {
    match done {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (folder, what) = (words.next().expect("a folder"), words.next().expect("what"));
    let folder = PathBuf::from(folder);
    let keep = Keep {
        folders: vec![folder.clone()],
        ..Keep::default()
    };
    let socket = folder.join("socket");
    let report = confine(&keep).expect("confined");
    let path = c"/proc/self/exe".as_ptr() as i64;
    let parent = 1;
    let result = match what.as_str() {
        "report" => {
            println!("{}", report.join("\n"));
            0
        }
        "read-host" => error(std::fs::read("/etc/passwd")),
        "list-root" => match std::fs::read_dir("/").map(|all| all.count()) {
            // Of the folder's own path, the first part.
            Ok(1) | Err(_) => libc::EACCES,
            Ok(_) => 0,
        },
        "make-file" => error(std::fs::write(folder.join("file"), "x")),
        "read-file" => error(std::fs::read(folder.join("secret"))),
        "connect-kept" => error(UnixStream::connect(&socket)),
        "bind-kept" => error(
            UnixListener::bind(folder.join("own"))
                .and_then(|_| std::fs::remove_file(folder.join("own"))),
        ),
        "connect-elsewhere" => error(UnixStream::connect(folder.with_extension("elsewhere"))),
        "connect-abstract" => {
            let name = folder.display().to_string();
            let address = SocketAddr::from_abstract_name(name).expect("an address");
            error(UnixStream::connect_addr(&address))
        }
        "socket-inet" => call(libc::SYS_socket, [libc::AF_INET.into(), 1, 0, 0, 0, 0]),
        "socket-packet" => call(libc::SYS_socket, [libc::AF_PACKET.into(), 3, 0, 0, 0, 0]),
        "socket-netlink" => call(libc::SYS_socket, [libc::AF_NETLINK.into(), 3, 0, 0, 0, 0]),
        "execve" => call(libc::SYS_execve, [path, 0, 0, 0, 0, 0]),
        "execveat" => call(libc::SYS_execveat, [-100, path, 0, 0, 0, 0]),
        "fork" => call(libc::SYS_fork, [0; 6]),
        "clone" => call(libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0, 0, 0, 0]),
        "kill" => call(libc::SYS_kill, [parent, 0, 0, 0, 0, 0]),
        "ptrace" => call(
            libc::SYS_ptrace,
            [libc::PTRACE_ATTACH.into(), parent, 0, 0, 0, 0],
        ),
        "memory" => call(libc::SYS_process_vm_readv, [parent, 0, 0, 0, 0, 0]),
        "pidfd" => call(libc::SYS_pidfd_open, [parent, 0, 0, 0, 0, 0]),
        "setns" => call(libc::SYS_setns, [0, 0, 0, 0, 0, 0]),
        "unshare" => call(
            libc::SYS_unshare,
            [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0, 0],
        ),
        "mount" => call(libc::SYS_mount, [0; 6]),
        "bpf" => call(libc::SYS_bpf, [0; 6]),
        "io_uring" => call(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0, 0]),
        "tun" => call(libc::SYS_ioctl, [0, 0x4004_54ca, 0, 0, 0, 0]),
        "prctl" => call(
            libc::SYS_prctl,
            [libc::PR_SET_DUMPABLE.into(), 1, 0, 0, 0, 0],
        ),
        "x32" => call(libc::SYS_getpid | 0x4000_0000, [0; 6]),
        "code" => {
            let (kind, how) = (
                libc::PROT_EXEC | libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            call(libc::SYS_mmap, [0, 4096, kind.into(), how.into(), -1, 0])
        }
        "make-code" => call(libc::SYS_mprotect, [0, 0, libc::PROT_EXEC.into(), 0, 0, 0]),
        "wait" => {
            // Until the test has looked.
            println!("ready");
            std::io::stdout().flush().expect("said");
            let _ = std::io::stdin().read(&mut [0]);
            0
        }
        other => panic!("{other}: not known"),
    };
    std::process::exit(result);
}
