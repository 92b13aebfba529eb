//! The host's side: two network namespaces joined by a veth pair.
//!
//! For others than root they are in a user namespace that maps the user to itself, and programs get the
//! network capabilities there as ambient ones, which is what programs have on a machine of Vink's.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, ExitStatus, Stdio};
use std::time::Instant;

use crate::side::{Command, End, Ends, Job};
use crate::BoxError;

/// The namespaces, and what runs in them.
pub(crate) struct Host {
    namespaces: Vec<File>,
    children: Vec<Running>,
}

struct Running {
    child: Child,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
}

/// CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and CAP_NET_RAW; see capabilities(7).
const NETWORK: [u32; 3] = [10, 12, 13];

impl Host {
    /// Makes the namespaces and the wire between them.
    pub fn new() -> Result<Host, BoxError> {
        let mut host = Host::owner()?;
        for _ in End::BOTH {
            host.namespace()?;
        }
        // This process has stayed in the one that was made last.
        let here = process::id();
        let [server, client] = End::BOTH;
        host.ip(
            server,
            &format!("link add eth0 type veth peer eth0 netns {here}"),
        )?;
        for end in [server, client] {
            host.ip(end, "link set lo up")?;
            host.ip(end, "link set eth0 up")?;
            let [v4, v6] = end.addresses();
            host.ip(end, &format!("address add {v4} dev eth0"))?;
            host.ip(end, &format!("address add {v6} dev eth0 nodad"))?;
        }
        Ok(host)
    }

    /// Makes one namespace for both ends, and nothing in it.
    pub fn bare() -> Result<Host, BoxError> {
        let mut host = Host::owner()?;
        host.namespace()?;
        let same = host.namespaces[0].try_clone()?;
        host.namespaces.push(same);
        Ok(host)
    }

    /// The process that may make network namespaces, and has none yet.
    fn owner() -> Result<Host, BoxError> {
        // SAFETY: system calls that concern this process only, on numbers.
        let (user, group) = unsafe {
            // What programs leave behind shall become our children, to be ended.
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            (libc::geteuid(), libc::getegid())
        };
        if user != 0 {
            unshare(libc::CLONE_NEWUSER)?;
            fs::write("/proc/self/setgroups", "deny")?;
            fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
            fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
            pass_on_capabilities()?;
        }
        Ok(Host {
            namespaces: Vec::new(),
            children: Vec::new(),
        })
    }

    /// Makes a namespace for the next end, where this process is from now on.
    fn namespace(&mut self) -> Result<(), BoxError> {
        unshare(libc::CLONE_NEWNET)?;
        self.namespaces.push(File::open("/proc/self/ns/net")?);
        Ok(())
    }

    /// Runs ip(8) at one end.
    fn ip(&mut self, end: End, arguments: &str) -> Result<(), BoxError> {
        let mut command = self.command(end, "ip");
        let output = command.args(arguments.split(' ')).output();
        let output = output.map_err(|e| format!("ip: {e}: apt-get install iproute2"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(format!("ip {arguments}: {said}").into())
            }
        }
    }

    /// A command that will run at one end.
    fn command(&self, end: End, program: &str) -> process::Command {
        let namespace = self.namespaces[end as usize].as_raw_fd();
        let mut command = process::Command::new(program);
        // SAFETY: system calls on numbers; the descriptor outlives the command's start.
        unsafe {
            command.pre_exec(move || {
                check(libc::setns(namespace, libc::CLONE_NEWNET))?;
                check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                check(libc::setsid())
            });
        }
        command
    }
}

impl Ends for Host {
    fn start(&mut self, end: End, command: Command) -> Result<Job, BoxError> {
        let child = self
            .command(end, command.argv[0])
            .args(&command.argv[1..])
            .stdin(Stdio::null())
            .stdout(command.out)
            .stderr(command.err)
            .spawn()
            .map_err(|e| format!("{}: {e}", command.argv[0]))?;
        // SAFETY: a plain system call; the result is a new descriptor or an error.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
        check(pidfd as i32)?;
        // SAFETY: just opened, and owned here alone.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd as i32) };
        self.children.push(Running {
            child,
            pidfd,
            status: None,
        });
        Ok(self.children.len() - 1)
    }

    fn status(&mut self, job: Job) -> Result<Option<i32>, BoxError> {
        let running = &mut self.children[job];
        if running.status.is_none() {
            running.status = running.child.try_wait()?;
        }
        let code = |s: ExitStatus| s.code().unwrap_or(128 + s.signal().unwrap_or(0));
        Ok(running.status.map(code))
    }

    fn signal(&mut self, job: Job, signal: i32) -> Result<(), BoxError> {
        if self.status(job)?.is_none() {
            // SAFETY: our child, not yet reaped.
            check(unsafe { libc::kill(self.children[job].child.id() as i32, signal) })?;
        }
        Ok(())
    }

    fn wait(&mut self, jobs: &[Job], until: Instant) -> Result<(), BoxError> {
        let poll = |job: &Job| libc::pollfd {
            fd: self.children[*job].pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut ends: Vec<_> = jobs.iter().map(poll).collect();
        let left = until.saturating_duration_since(Instant::now());
        // SAFETY: as many structures as said.
        check(unsafe {
            libc::poll(
                ends.as_mut_ptr(),
                ends.len() as libc::nfds_t,
                left.as_millis() as i32 + 1,
            )
        })?;
        Ok(())
    }

    fn clear(&mut self) -> Result<(), BoxError> {
        let me = process::id();
        loop {
            let children = fs::read_to_string(format!("/proc/{me}/task/{me}/children"))?;
            if children.is_empty() {
                return Ok(());
            }
            for child in children.split_whitespace() {
                // SAFETY: our own children, which are reaped only here.
                unsafe {
                    libc::kill(child.parse()?, libc::SIGKILL);
                    libc::waitpid(child.parse()?, std::ptr::null_mut(), 0);
                }
            }
        }
    }
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn unshare(what: i32) -> Result<(), BoxError> {
    // SAFETY: takes a number; we have one thread.
    let done = check(unsafe { libc::unshare(what) });
    done.map_err(|e| format!("unshare: {e}: this needs root, or user namespaces").into())
}

/// Lets programs have the network capabilities after exec(2) although they are not root.
fn pass_on_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    /// The effective, permitted and inheritable ones.
    type Sets = [[u32; 3]; 2];
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let mut sets: Sets = [[0; 3]; 2];
    // SAFETY: structures as capget(2) has them for this version.
    unsafe {
        check(libc::syscall(libc::SYS_capget, &header, &mut sets) as i32)?;
        for capability in NETWORK {
            sets[0][2] |= 1 << capability;
        }
        check(libc::syscall(libc::SYS_capset, &header, &sets) as i32)?;
        for capability in NETWORK {
            let (raise, none) = (libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong, 0);
            let number = libc::c_ulong::from(capability);
            check(libc::prctl(libc::PR_CAP_AMBIENT, raise, number, none, none))?;
        }
    }
    Ok(())
}
