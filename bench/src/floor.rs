//! What a trapped call costs at least on the host: a process whose filter traps shutdown(2), and a
//! supervisor (seccomp_unotify(2)) that does nothing but answer it.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Stdio;

use vink_sys::seccomp::{apply_listened, Listener};
use vink_sys::{epoll, pidfd};

use crate::host::command;
use crate::work::trapped_calls;
use crate::BoxError;

/// Of a round trip in virtual time: both ends send and receive.
pub(crate) const CALLS_OF_A_ROUND_TRIP: f64 = 4.0;

const NR: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;

/// The body of the process that is supervised: prints the number of its listener, and then, for each
/// line that it reads, ns per call.
pub(crate) fn trapped() -> Result<(), BoxError> {
    let instruction = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NR),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_shutdown as u32,
        ),
        instruction(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        instruction(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let listener = apply_listened(&filter)?;
    println!("{}", listener.as_raw_fd());
    let mut listener = Some(listener);
    for _order in std::io::stdin().lines() {
        // The supervisor has a copy, which hangs up when this process ends.
        drop(listener.take());
        println!("{}", trapped_calls());
    }
    Ok(())
}

/// ns per call of a process that is supervised so, as the worker does it: each call is waited for by
/// epoll_pwait2(2), received, and answered.
pub(crate) fn supervised_calls() -> Result<f64, BoxError> {
    let own = std::env::current_exe()?.display().to_string();
    let mut command = command(&[own, "loop".into(), "trap_floor".into()]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut orders = child.stdin.take().expect("piped");
    let mut answers = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let process = pidfd::open(child.id() as i32)?;
    let listener = pidfd::copy_fd(process, line.trim().parse()?)?;
    writeln!(orders)?;
    drop(orders);
    supervise(listener)?;
    line.clear();
    answers.read_line(&mut line)?;
    child.wait()?;
    Ok(line.trim().parse()?)
}

/// Answers all calls until the process has ended.
fn supervise(listener: OwnedFd) -> io::Result<()> {
    let set = epoll::create()?;
    let readable = libc::EPOLLIN as u32;
    epoll::add(&set, listener.as_raw_fd(), readable, 0)?;
    let listener = Listener::new(listener)?;
    listener.wake_same_cpu(true);
    loop {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let ready = epoll::wait_precisely(&set, &mut events, None)?;
        let events = events[..ready].first().map_or(0, |event| event.events);
        if events & libc::EPOLLHUP as u32 != 0 {
            return Ok(());
        }
        if events & readable != 0 {
            let call = listener.receive()?;
            listener.answer(libc::seccomp_notif_resp {
                id: call.id,
                val: 0,
                error: 0,
                flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            })?;
        }
    }
}
