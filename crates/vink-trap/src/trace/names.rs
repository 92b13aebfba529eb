//! The names of the numbers that system calls take, as in the manual.

use std::fmt::Write;

/// Numbers and their names.
pub(super) type Names = &'static [(u64, &'static str)];

/// Constants of libc, with their names.
macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name as u32 as u64, stringify!($name))),*] };
}

/// The constants that a parameter's number is one of.
pub(super) fn list(names: vink_syscalls::Names) -> Names {
    match names {
        vink_syscalls::Names::Fcntls => FCNTLS,
        vink_syscalls::Names::Families => FAMILIES,
        vink_syscalls::Names::TypeFlags => TYPE_FLAGS,
        vink_syscalls::Names::ShutdownHow => HOW,
        vink_syscalls::Names::Levels => LEVELS,
        vink_syscalls::Names::CloneFlags => CLONES,
        vink_syscalls::Names::MessageFlags => MESSAGE_FLAGS,
        vink_syscalls::Names::FileFlags => FILE_FLAGS,
    }
}

/// The name of a number, or the number.
pub(super) fn name(names: Names, number: u64) -> String {
    match names.iter().find(|(n, _)| *n == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("{}", number as i64),
    }
}

/// The names of the bits in a set, and what is left; `0` if there are none.
pub(super) fn flags(names: Names, set: u64) -> String {
    let mut text = String::new();
    let mut left = set;
    for (bits, name) in names {
        if *bits != 0 && left & bits == *bits {
            left &= !bits;
            text.push_str(if text.is_empty() { "" } else { "|" });
            text.push_str(name);
        }
    }
    if left != 0 || text.is_empty() {
        let bar = if text.is_empty() { "" } else { "|" };
        let hash = if left != 0 { "0x" } else { "" };
        let _ = write!(text, "{bar}{hash}{left:x}");
    }
    text
}

pub(super) const FAMILIES: Names = names! {
    AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_BRIDGE AF_KEY AF_ALG AF_VSOCK AF_XDP
};

pub(super) const TYPES: Names = names! {
    SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_RDM SOCK_SEQPACKET
};

pub(super) const TYPE_FLAGS: Names = names! { SOCK_CLOEXEC SOCK_NONBLOCK };

/// Of AF_INET and AF_INET6.
pub(super) const PROTOCOLS: Names = names! {
    IPPROTO_IP IPPROTO_ICMP IPPROTO_IGMP IPPROTO_TCP IPPROTO_UDP IPPROTO_ICMPV6 IPPROTO_SCTP
    IPPROTO_UDPLITE IPPROTO_RAW IPPROTO_MPTCP
};

pub(super) const NETLINKS: Names = names! {
    NETLINK_ROUTE NETLINK_USERSOCK NETLINK_SOCK_DIAG NETLINK_XFRM NETLINK_AUDIT NETLINK_NETFILTER
    NETLINK_KOBJECT_UEVENT NETLINK_GENERIC
};

pub(super) const LEVELS: Names = names! {
    SOL_SOCKET SOL_IP SOL_TCP SOL_UDP SOL_IPV6 SOL_ICMPV6 SOL_RAW SOL_PACKET SOL_NETLINK SOL_TIPC
    IPPROTO_SCTP IPPROTO_ICMP
};

/// The options of a level; see socket(7), ip(7), ipv6(7), tcp(7), udp(7), packet(7), netlink(7).
pub(super) fn options(level: u64) -> Names {
    match level as i32 {
        libc::SOL_SOCKET => names! {
            SO_DEBUG SO_REUSEADDR SO_TYPE SO_ERROR SO_DONTROUTE SO_BROADCAST SO_SNDBUF SO_RCVBUF
            SO_KEEPALIVE SO_OOBINLINE SO_NO_CHECK SO_PRIORITY SO_LINGER SO_BSDCOMPAT SO_REUSEPORT
            SO_PASSCRED SO_PEERCRED SO_RCVLOWAT SO_SNDLOWAT SO_RCVTIMEO SO_SNDTIMEO SO_BINDTODEVICE
            SO_ATTACH_FILTER SO_DETACH_FILTER SO_PEERNAME SO_TIMESTAMP SO_ACCEPTCONN SO_PEERSEC
            SO_SNDBUFFORCE SO_RCVBUFFORCE SO_PASSSEC SO_TIMESTAMPNS SO_MARK SO_TIMESTAMPING
            SO_PROTOCOL SO_DOMAIN SO_RXQ_OVFL SO_WIFI_STATUS SO_PEEK_OFF SO_NOFCS SO_LOCK_FILTER
            SO_SELECT_ERR_QUEUE SO_BUSY_POLL SO_MAX_PACING_RATE SO_BPF_EXTENSIONS SO_INCOMING_CPU
            SO_ATTACH_BPF SO_ATTACH_REUSEPORT_CBPF SO_ATTACH_REUSEPORT_EBPF SO_CNX_ADVICE SO_MEMINFO
            SO_INCOMING_NAPI_ID SO_COOKIE SO_PEERGROUPS SO_ZEROCOPY SO_TXTIME SO_BINDTOIFINDEX
            SO_TIMESTAMP_NEW SO_TIMESTAMPNS_NEW SO_TIMESTAMPING_NEW SO_RCVTIMEO_NEW SO_SNDTIMEO_NEW
            SO_DETACH_REUSEPORT_BPF SO_PREFER_BUSY_POLL SO_NETNS_COOKIE SO_BUF_LOCK SO_RESERVE_MEM
        },
        libc::SOL_IP => names! {
            IP_TOS IP_TTL IP_HDRINCL IP_OPTIONS IP_ROUTER_ALERT IP_RECVOPTS IP_RETOPTS IP_PKTINFO
            IP_PKTOPTIONS IP_MTU_DISCOVER IP_RECVERR IP_RECVTTL IP_RECVTOS IP_MTU IP_FREEBIND
            IP_PASSSEC IP_TRANSPARENT IP_RECVORIGDSTADDR IP_MINTTL IP_NODEFRAG IP_CHECKSUM
            IP_BIND_ADDRESS_NO_PORT IP_MULTICAST_IF IP_MULTICAST_TTL IP_MULTICAST_LOOP
            IP_ADD_MEMBERSHIP IP_DROP_MEMBERSHIP IP_UNBLOCK_SOURCE IP_BLOCK_SOURCE
            IP_ADD_SOURCE_MEMBERSHIP IP_DROP_SOURCE_MEMBERSHIP IP_MSFILTER MCAST_JOIN_GROUP
            MCAST_LEAVE_GROUP MCAST_JOIN_SOURCE_GROUP MCAST_LEAVE_SOURCE_GROUP IP_MULTICAST_ALL
            IP_UNICAST_IF
        },
        libc::SOL_IPV6 => names! {
            IPV6_ADDRFORM IPV6_2292PKTINFO IPV6_CHECKSUM IPV6_2292HOPLIMIT IPV6_NEXTHOP
            IPV6_FLOWINFO IPV6_UNICAST_HOPS IPV6_MULTICAST_IF IPV6_MULTICAST_HOPS
            IPV6_MULTICAST_LOOP IPV6_ADD_MEMBERSHIP IPV6_DROP_MEMBERSHIP IPV6_ROUTER_ALERT
            IPV6_MTU_DISCOVER IPV6_MTU IPV6_RECVERR IPV6_V6ONLY IPV6_JOIN_ANYCAST
            IPV6_LEAVE_ANYCAST IPV6_MULTICAST_ALL IPV6_FLOWLABEL_MGR IPV6_FLOWINFO_SEND
            IPV6_HDRINCL IPV6_RECVPKTINFO IPV6_PKTINFO IPV6_RECVHOPLIMIT IPV6_HOPLIMIT
            IPV6_RECVHOPOPTS IPV6_HOPOPTS IPV6_RTHDRDSTOPTS IPV6_RECVRTHDR IPV6_RTHDR
            IPV6_RECVDSTOPTS IPV6_DSTOPTS IPV6_RECVPATHMTU IPV6_PATHMTU IPV6_DONTFRAG
            IPV6_RECVTCLASS IPV6_TCLASS IPV6_AUTOFLOWLABEL IPV6_ADDR_PREFERENCES IPV6_MINHOPCOUNT
            IPV6_RECVORIGDSTADDR IPV6_TRANSPARENT IPV6_UNICAST_IF IPV6_FREEBIND MCAST_JOIN_GROUP
            MCAST_LEAVE_GROUP
        },
        libc::SOL_TCP => names! {
            TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT
            TCP_LINGER2 TCP_DEFER_ACCEPT TCP_WINDOW_CLAMP TCP_INFO TCP_QUICKACK TCP_CONGESTION
            TCP_MD5SIG TCP_THIN_LINEAR_TIMEOUTS TCP_THIN_DUPACK TCP_USER_TIMEOUT TCP_REPAIR
            TCP_REPAIR_QUEUE TCP_QUEUE_SEQ TCP_REPAIR_OPTIONS TCP_FASTOPEN TCP_TIMESTAMP
            TCP_NOTSENT_LOWAT TCP_CC_INFO TCP_SAVE_SYN TCP_SAVED_SYN TCP_REPAIR_WINDOW
            TCP_FASTOPEN_CONNECT TCP_ULP TCP_MD5SIG_EXT TCP_FASTOPEN_KEY TCP_FASTOPEN_NO_COOKIE
            TCP_ZEROCOPY_RECEIVE TCP_INQ
        },
        libc::SOL_UDP => {
            names! { UDP_CORK UDP_ENCAP UDP_NO_CHECK6_TX UDP_NO_CHECK6_RX UDP_SEGMENT UDP_GRO }
        }
        libc::SOL_PACKET => names! {
            PACKET_ADD_MEMBERSHIP PACKET_DROP_MEMBERSHIP PACKET_RECV_OUTPUT PACKET_RX_RING
            PACKET_STATISTICS PACKET_COPY_THRESH PACKET_AUXDATA PACKET_ORIGDEV PACKET_VERSION
            PACKET_HDRLEN PACKET_RESERVE PACKET_TX_RING PACKET_LOSS PACKET_VNET_HDR
            PACKET_TX_TIMESTAMP PACKET_TIMESTAMP PACKET_FANOUT PACKET_TX_HAS_OFF
            PACKET_QDISC_BYPASS PACKET_ROLLOVER_STATS PACKET_FANOUT_DATA PACKET_IGNORE_OUTGOING
        },
        libc::SOL_NETLINK => names! {
            NETLINK_ADD_MEMBERSHIP NETLINK_DROP_MEMBERSHIP NETLINK_PKTINFO NETLINK_BROADCAST_ERROR
            NETLINK_NO_ENOBUFS NETLINK_RX_RING NETLINK_TX_RING NETLINK_LISTEN_ALL_NSID
            NETLINK_LIST_MEMBERSHIPS NETLINK_CAP_ACK NETLINK_EXT_ACK NETLINK_GET_STRICT_CHK
        },
        _ => &[],
    }
}

/// Options whose value is text.
pub(super) fn is_text(level: u64, option: u64) -> bool {
    matches!(
        (level as i32, option as i32),
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE)
            | (libc::SOL_TCP, libc::TCP_CONGESTION | libc::TCP_ULP)
    )
}

pub(super) const MESSAGE_FLAGS: Names = names! {
    MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL MSG_CONFIRM
    MSG_ERRQUEUE MSG_NOSIGNAL MSG_MORE MSG_WAITFORONE MSG_ZEROCOPY MSG_FASTOPEN MSG_CMSG_CLOEXEC
};

pub(super) const HOW: Names = names! { SHUT_RD SHUT_WR SHUT_RDWR };

pub(super) const FCNTLS: Names = names! {
    F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
    F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_SETLEASE F_GETLEASE
};

/// Modes that have a bit; `O_RDONLY` has none.
pub(super) const FILE_FLAGS: Names = names! {
    O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_DSYNC O_ASYNC O_DIRECT
    O_TMPFILE O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_PATH O_NOATIME
};

pub(super) const POLLED: Names = names! {
    POLLIN POLLPRI POLLOUT POLLERR POLLHUP POLLNVAL POLLRDNORM POLLRDBAND POLLWRNORM POLLWRBAND
    POLLRDHUP
};
pub(super) const CLONES: Names = names! {
    CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PIDFD CLONE_PTRACE CLONE_VFORK CLONE_PARENT
    CLONE_THREAD CLONE_NEWNS CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID
    CLONE_CHILD_SETTID CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET CLONE_IO
    SIGCHLD
};

pub(super) const REQUESTS: Names = &[
    (0x541b, "FIONREAD"),
    (0x5421, "FIONBIO"),
    (0x5411, "SIOCOUTQ"),
    (0x5452, "FIOASYNC"),
    (0x8901, "FIOSETOWN"),
    (0x8902, "SIOCSPGRP"),
    (0x8903, "FIOGETOWN"),
    (0x8904, "SIOCGPGRP"),
    (0x8905, "SIOCATMARK"),
    (0x8906, "SIOCGSTAMP"),
    (0x890b, "SIOCADDRT"),
    (0x890c, "SIOCDELRT"),
    (0x8910, "SIOCGIFNAME"),
    (0x8912, "SIOCGIFCONF"),
    (0x8913, "SIOCGIFFLAGS"),
    (0x8914, "SIOCSIFFLAGS"),
    (0x8915, "SIOCGIFADDR"),
    (0x8916, "SIOCSIFADDR"),
    (0x8917, "SIOCGIFDSTADDR"),
    (0x8918, "SIOCSIFDSTADDR"),
    (0x8919, "SIOCGIFBRDADDR"),
    (0x891a, "SIOCSIFBRDADDR"),
    (0x891b, "SIOCGIFNETMASK"),
    (0x891c, "SIOCSIFNETMASK"),
    (0x891d, "SIOCGIFMETRIC"),
    (0x8921, "SIOCGIFMTU"),
    (0x8922, "SIOCSIFMTU"),
    (0x8923, "SIOCSIFNAME"),
    (0x8924, "SIOCSIFHWADDR"),
    (0x8927, "SIOCGIFHWADDR"),
    (0x8931, "SIOCADDMULTI"),
    (0x8932, "SIOCDELMULTI"),
    (0x8933, "SIOCGIFINDEX"),
    (0x8942, "SIOCGIFTXQLEN"),
    (0x8943, "SIOCSIFTXQLEN"),
    (0x8946, "SIOCETHTOOL"),
    (0x8947, "SIOCGMIIPHY"),
    (0x8953, "SIOCDARP"),
    (0x8954, "SIOCGARP"),
    (0x8955, "SIOCSARP"),
    (0x8970, "SIOCGIFMAP"),
    (0x89a0, "SIOCBRADDBR"),
    (0x89a1, "SIOCBRDELBR"),
    (0x89a2, "SIOCBRADDIF"),
    (0x89a3, "SIOCBRDELIF"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        assert_eq!(name(FAMILIES, 2), "AF_INET");
        assert_eq!(name(FAMILIES, 99), "99");
        assert_eq!(name(options(6), 1), "TCP_NODELAY");
        assert_eq!(name(options(12345), 1), "1");
        assert_eq!(flags(MESSAGE_FLAGS, 0), "0");
        assert_eq!(flags(MESSAGE_FLAGS, 0x4040), "MSG_DONTWAIT|MSG_NOSIGNAL");
        assert_eq!(flags(MESSAGE_FLAGS, 0x100_0002), "MSG_PEEK|0x1000000");
        assert_eq!(flags(MESSAGE_FLAGS, 0x100_0000), "0x1000000");
        // The highest bit of an int.
    }
}
