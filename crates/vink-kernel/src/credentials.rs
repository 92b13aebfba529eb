//! What a task may do in its kernel: credentials(7), capabilities(7).

/// The user, group and capabilities that a task is made with. What is cloned from it has the same,
/// and it can't get more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its user id in the kernel.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// The capabilities that it has: bit n is capability n.
    pub capabilities: u64,
}

/// `CAP_NET_BIND_SERVICE`: ports below 1024, which on a machine of its own are a program's to use.
const NET_BIND_SERVICE: u64 = 1 << 10;

impl Credentials {
    /// Root's, with all capabilities: it may configure its machine's network.
    pub const ROOT: Credentials = Credentials {
        uid: 0,
        gid: 0,
        capabilities: u64::MAX,
    };

    /// Those of a user (`nobody`) that can use a machine's network and change nothing of it: rules,
    /// routes, interfaces, sysctls. It is not root, since root may write below /proc/sys without
    /// any capability. It has no `CAP_NET_RAW`, and so no raw or packet sockets and no `SO_MARK`;
    /// no `CAP_SYS_ADMIN`, and so no network namespaces; no `CAP_BPF`; no `CAP_SYS_MODULE`, without
    /// which it starts no protocol.
    pub const USER: Credentials = Credentials {
        uid: 65534,
        gid: 65534,
        capabilities: NET_BIND_SERVICE,
    };
}

/// `CAP_SYS_ADMIN`, which network namespaces need.
const SYS_ADMIN: u64 = 1 << 21;

impl Credentials {
    /// Whether a task with these can make network namespaces.
    pub fn may_make_networks(&self) -> bool {
        self.capabilities & SYS_ADMIN != 0
    }
}

impl Default for Credentials {
    fn default() -> Credentials {
        Credentials::ROOT
    }
}
