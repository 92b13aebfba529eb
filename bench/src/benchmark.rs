//! What is measured, in which unit, and the bars that it is held to.

use std::time::Duration;

/// Where a round is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    /// On Vink; both ends on one thread.
    Vink,
    /// On the host's kernel; both ends on one processor.
    Host,
    /// On the host's kernel; each end where the scheduler puts it.
    HostTwoCpus,
}

/// What a figure must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// Vink's divided by the host's: at most
    RatioAtMost(f64),
    /// or at least this.
    RatioAtLeast(f64),
    /// Vink's own: at most this,
    AtMost(f64),
    /// or at least this.
    AtLeast(f64),
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Figure {
    pub name: &'static str,
    pub unit: &'static str,
    pub bar: Option<Bar>,
}

/// Figures that one round gives together.
#[derive(Debug)]
pub(crate) struct Group {
    pub name: &'static str,
    pub figures: &'static [Figure],
    pub sides: &'static [Side],
    /// Each round needs a process of its own.
    pub fresh: bool,
    /// For rounds that take long.
    pub most_rounds: u32,
    /// No round begins after so long.
    pub longest: Duration,
    /// The side of the host that the ratio is to.
    pub against: Side,
}

const fn figure(name: &'static str, unit: &'static str, bar: Option<Bar>) -> Figure {
    Figure { name, unit, bar }
}

const fn group(name: &'static str, figures: &'static [Figure], sides: &'static [Side]) -> Group {
    Group {
        name,
        figures,
        sides,
        fresh: false,
        most_rounds: u32::MAX,
        longest: Duration::MAX,
        against: Side::Host,
    }
}

/// Unmodified servers and clients under the interposer. The worker and they may use all processors, and so
/// may the host's.
const fn programs(name: &'static str, figures: &'static [Figure]) -> Group {
    Group {
        against: Side::HostTwoCpus,
        ..group(name, figures, BOTH)
    }
}

/// A key-value store behind a switch, which may use all processors.
const fn kvs(name: &'static str, figures: &'static [Figure]) -> Group {
    Group {
        against: Side::HostTwoCpus,
        ..group(name, figures, &[Side::HostTwoCpus, Side::Vink])
    }
}

/// Programs beside busy processes: both forms are Vink's, and a round is one run of each.
const fn beside(name: &'static str, figures: &'static [Figure]) -> Group {
    Group {
        longest: Duration::from_secs(40),
        ..group(name, figures, &[Side::Vink])
    }
}

const ONE: &[Side] = &[Side::Host, Side::Vink];
const BOTH: &[Side] = &[Side::Host, Side::Vink, Side::HostTwoCpus];

/// In the order in which they are run: what leaves the host's kernel busy for a while is last.
pub(crate) const GROUPS: &[Group] = &[
    group(
        "null_call",
        &[figure("null_call", "ns", Some(Bar::RatioAtMost(0.5)))],
        ONE,
    ),
    group(
        "getsockopt",
        &[figure("getsockopt", "ns", Some(Bar::RatioAtMost(0.5)))],
        ONE,
    ),
    group(
        "pod_wasm",
        &[
            figure("pod_cross_wasm_cycles", "cycles", Some(Bar::AtMost(200.0))),
            figure("pod_wasm_compute", "times", None),
        ],
        &[Side::Vink],
    ),
    group(
        "pod_key",
        &[figure(
            "pod_cross_key_cycles",
            "cycles",
            Some(Bar::AtMost(200.0)),
        )],
        &[Side::Vink],
    ),
    group(
        "tcp_loopback",
        &[figure(
            "tcp_loopback",
            "Gbit/s",
            Some(Bar::RatioAtLeast(1.4)),
        )],
        BOTH,
    ),
    group(
        "tcp_two_machines",
        &[figure(
            "tcp_two_machines",
            "Gbit/s",
            Some(Bar::RatioAtLeast(1.8)),
        )],
        BOTH,
    ),
    group(
        "tcp_router",
        &[figure("tcp_router", "Gbit/s", Some(Bar::RatioAtLeast(1.6)))],
        BOTH,
    ),
    group(
        "wire_tcp",
        &[figure("wire_tcp", "Gbit/s", Some(Bar::RatioAtLeast(1.8)))],
        BOTH,
    ),
    group(
        "wire_router_tcp",
        &[figure(
            "wire_router_tcp",
            "Gbit/s",
            Some(Bar::RatioAtLeast(1.6)),
        )],
        BOTH,
    ),
    group(
        "rates",
        &[
            figure("rate_10m", "% off", Some(Bar::AtMost(1.0))),
            figure("rate_100m", "% off", Some(Bar::AtMost(1.0))),
            figure("rate_1g", "% off", Some(Bar::AtMost(1.0))),
        ],
        &[Side::Vink],
    ),
    group(
        "hops",
        &[
            figure("hop_us", "us", Some(Bar::AtMost(1.0))),
            figure("ping_10_us", "us", None),
            figure("ping_50_us", "us", None),
            figure("ping_100_us", "us", None),
            figure("ping_250_us", "us", None),
        ],
        ONE,
    ),
    group(
        "rtt_two_machines",
        &[figure(
            "rtt_two_machines",
            "us",
            Some(Bar::RatioAtMost(0.6)),
        )],
        BOTH,
    ),
    Group {
        against: Side::HostTwoCpus,
        ..group(
            "workers_tcp",
            &[figure("workers_tcp", "Gbit/s", None)],
            BOTH,
        )
    },
    Group {
        against: Side::HostTwoCpus,
        ..group("workers_rtt", &[figure("workers_rtt", "us", None)], BOTH)
    },
    group(
        "hosts_tcp",
        &[
            figure("hosts_tcp", "Gbit/s", None),
            figure("hosts_plain_tcp", "Gbit/s", None),
        ],
        &[Side::Vink],
    ),
    Group {
        against: Side::HostTwoCpus,
        ..group(
            "switch_tcp",
            &[figure("switch_tcp", "Gbit/s", Some(Bar::RatioAtLeast(1.0)))],
            BOTH,
        )
    },
    Group {
        against: Side::HostTwoCpus,
        ..group(
            "switch_pps",
            &[figure("switch_pps", "k/s", Some(Bar::RatioAtLeast(1.0)))],
            BOTH,
        )
    },
    group(
        "relay_tcp",
        &[
            figure("relay_tcp", "Gbit/s", Some(Bar::RatioAtLeast(1.3))),
            figure("relay_haproxy", "Gbit/s", Some(Bar::RatioAtLeast(1.0))),
            figure("relay_nginx", "Gbit/s", None),
        ],
        BOTH,
    ),
    group(
        "relay_udp",
        &[figure("relay_udp", "k/s", Some(Bar::RatioAtLeast(2.3)))],
        BOTH,
    ),
    Group {
        most_rounds: 3,
        ..group(
            "relay_flat",
            &[
                figure("relay_flat", "ratio", Some(Bar::AtLeast(0.95))),
                figure("relay_flat_jitter", "ratio", Some(Bar::AtMost(1.5))),
                figure("relay_flat_user", "ratio", None),
                figure("relay_idle", "Gbit/s", None),
                figure("relay_idle_mdev", "us", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        against: Side::HostTwoCpus,
        ..group(
            "switch_flood",
            &[
                figure("switch_flood_p99", "ratio", Some(Bar::AtMost(2.0))),
                figure("switch_idle_us", "us", None),
                figure("switch_flood_us", "us", None),
                figure("switch_flood_deaf_us", "us", None),
            ],
            &[Side::HostTwoCpus, Side::Vink],
        )
    },
    Group {
        fresh: true,
        ..group(
            "boot",
            &[
                figure("boot_ms", "ms", Some(Bar::AtMost(15.0))),
                figure("boot_rss_mb", "MB", Some(Bar::AtMost(12.0))),
            ],
            &[Side::Vink],
        )
    },
    group(
        "run_true",
        &[figure("run_true_ms", "ms", Some(Bar::AtMost(60.0)))],
        ONE,
    ),
    group(
        "trap_null_call",
        &[figure("trap_null_call", "ns", None)],
        ONE,
    ),
    group(
        "trap_floor",
        &[figure("trap_floor", "ns", Some(Bar::RatioAtMost(1.25)))],
        ONE,
    ),
    group(
        "trap_getsockopt",
        &[figure("trap_getsockopt", "ns", None)],
        ONE,
    ),
    programs(
        "trap_iperf3",
        &[figure(
            "trap_iperf3",
            "Gbit/s",
            Some(Bar::RatioAtLeast(0.8)),
        )],
    ),
    programs(
        "trap_redis_p16",
        &[figure(
            "trap_redis_p16",
            "k/s",
            Some(Bar::RatioAtLeast(0.8)),
        )],
    ),
    programs(
        "trap_redis_p1",
        &[figure(
            "trap_redis_p1",
            "k/s",
            Some(Bar::RatioAtLeast(0.35)),
        )],
    ),
    programs(
        "trap_nginx",
        &[figure("trap_nginx", "k/s", Some(Bar::RatioAtLeast(0.35)))],
    ),
    programs(
        "auto_iperf3",
        &[figure(
            "auto_iperf3",
            "Gbit/s",
            Some(Bar::RatioAtLeast(0.8)),
        )],
    ),
    programs(
        "auto_redis_p16",
        &[figure(
            "auto_redis_p16",
            "k/s",
            Some(Bar::RatioAtLeast(0.8)),
        )],
    ),
    programs(
        "auto_redis_p1",
        &[figure(
            "auto_redis_p1",
            "k/s",
            Some(Bar::RatioAtLeast(0.35)),
        )],
    ),
    programs(
        "auto_nginx",
        &[figure("auto_nginx", "k/s", Some(Bar::RatioAtLeast(0.8)))],
    ),
    Group {
        most_rounds: 3,
        ..group(
            "idle_cpu",
            &[figure("idle_cpu_percent", "%", Some(Bar::AtMost(1.0)))],
            &[Side::Vink],
        )
    },
    programs("notify_iperf3", &[figure("notify_iperf3", "Gbit/s", None)]),
    programs(
        "notify_redis_p16",
        &[figure("notify_redis_p16", "k/s", None)],
    ),
    programs("notify_redis_p1", &[figure("notify_redis_p1", "k/s", None)]),
    programs("notify_nginx", &[figure("notify_nginx", "k/s", None)]),
    group(
        "inproc_null_call",
        &[figure(
            "inproc_null_call",
            "ns",
            Some(Bar::RatioAtMost(0.6)),
        )],
        ONE,
    ),
    programs(
        "inproc_rtt",
        &[figure("inproc_rtt", "us", Some(Bar::RatioAtMost(0.8)))],
    ),
    beside(
        "inproc_rtt_beside",
        &[
            figure("inproc_rtt_beside", "ratio", Some(Bar::AtMost(1.2))),
            figure("inproc_rtt_busy", "us", None),
            figure("trap_rtt_busy", "us", None),
            figure("inproc_rtt_idle", "us", None),
            figure("inproc_rtt_flat", "ratio", Some(Bar::AtMost(3.0))),
            figure("pipe_rtt_busy", "us", None),
        ],
    ),
    beside(
        "beside_grpc",
        &[
            figure("beside_grpc", "ratio", Some(Bar::AtMost(1.2))),
            figure("beside_grpc_auto", "s", None),
            figure("beside_grpc_trap", "s", None),
        ],
    ),
    beside(
        "beside_unbound",
        &[
            figure("beside_unbound", "ratio", Some(Bar::AtMost(1.2))),
            figure("beside_unbound_auto", "s", None),
            figure("beside_unbound_trap", "s", None),
        ],
    ),
    beside(
        "beside_mosquitto",
        &[
            figure("beside_mosquitto", "ratio", Some(Bar::AtMost(1.2))),
            figure("beside_mosquitto_auto", "s", None),
            figure("beside_mosquitto_trap", "s", None),
        ],
    ),
    beside(
        "beside_quic",
        &[
            figure("beside_quic", "ratio", Some(Bar::AtMost(1.2))),
            figure("beside_quic_auto", "s", None),
            figure("beside_quic_trap", "s", None),
        ],
    ),
    programs(
        "inproc_iperf3",
        &[figure(
            "inproc_iperf3",
            "Gbit/s",
            Some(Bar::RatioAtLeast(1.0)),
        )],
    ),
    programs(
        "inproc_redis_p1",
        &[figure(
            "inproc_redis_p1",
            "k/s",
            Some(Bar::RatioAtLeast(1.25)),
        )],
    ),
    programs(
        "inproc_redis_p16",
        &[figure(
            "inproc_redis_p16",
            "k/s",
            Some(Bar::RatioAtLeast(1.25)),
        )],
    ),
    kvs(
        "kvs_x1_p1",
        &[figure("kvs_x1_p1", "k/s", Some(Bar::RatioAtLeast(1.21)))],
    ),
    kvs(
        "kvs_x1_p16",
        &[figure("kvs_x1_p16", "k/s", Some(Bar::RatioAtLeast(1.25)))],
    ),
    kvs(
        "kvs_x4",
        &[figure("kvs_x4", "k/s", Some(Bar::RatioAtLeast(1.28)))],
    ),
    kvs(
        "kvs_x1_auto",
        &[
            figure("kvs_x1_auto", "k/s", Some(Bar::RatioAtLeast(0.8))),
            figure("kvs_x1_auto_workers", "k/s", None),
        ],
    ),
    Group {
        against: Side::HostTwoCpus,
        ..group(
            "filter",
            &[
                figure("filter_1", "ratio", Some(Bar::AtLeast(0.97))),
                figure("filter_100", "ratio", Some(Bar::AtLeast(0.97))),
                figure("filter_1000", "ratio", Some(Bar::AtLeast(0.97))),
                figure("filter_list_1000", "ratio", None),
            ],
            &[Side::HostTwoCpus, Side::Vink],
        )
    },
    Group {
        most_rounds: 5,
        ..group(
            "transcoder",
            &[
                figure("transcoder_overhead", "ratio", Some(Bar::AtMost(1.02))),
                figure("transcoder_process_us", "us", None),
                figure("transcoder_none_us", "us", None),
                figure("transcoder_pipes_us", "us", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 1,
        ..group(
            "transcoder_gold",
            &[
                figure("transcoder_gold", "%", Some(Bar::AtLeast(100.0))),
                figure("transcoder_gold_3", "%", None),
                figure("transcoder_gold_4", "%", None),
                figure("transcoder_silver_1.5", "%", None),
                figure("transcoder_silver_2", "%", None),
                figure("transcoder_bronze_1", "%", None),
                figure("transcoder_bronze_1.5", "%", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 1,
        against: Side::HostTwoCpus,
        ..group(
            "filter_change",
            &[
                figure("filter_change_ms", "ms", Some(Bar::AtMost(2.0))),
                figure("filter_change_lost", "", Some(Bar::AtMost(0.0))),
                figure("filter_unchanged_ms", "ms", None),
            ],
            &[Side::HostTwoCpus, Side::Vink],
        )
    },
    group(
        "pod_process",
        &[
            figure("pod_cross_process_us", "us", Some(Bar::AtMost(5.0))),
            figure("pod_cross_process_two_us", "us", None),
        ],
        &[Side::Vink],
    ),
    Group {
        most_rounds: 3,
        ..group(
            "pod_packet",
            &[
                figure("pod_less_echo_ns", "ns", None),
                figure("pod_less_flood_ns", "ns", None),
                figure("pod_asked_echo_ns", "ns", None),
                figure("pod_asked_flood_ns", "ns", None),
                figure("pod_none_echo_ns", "ns", None),
                figure("pod_none_flood_ns", "ns", None),
                figure("pod_process_echo_ns", "ns", None),
                figure("pod_process_flood_ns", "ns", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "path_revoke",
            &[figure("path_revoke_ms", "ms", Some(Bar::AtMost(1.0)))],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "pod_kill",
            &[
                figure("pod_kill_ms", "ms", Some(Bar::AtMost(3.0))),
                figure("pod_kill_pages", "", Some(Bar::AtMost(0.0))),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "driver_restart",
            &[figure("driver_restart_ms", "ms", Some(Bar::AtMost(300.0)))],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "share",
            &[
                figure("share_rtt", "us more", Some(Bar::AtMost(100.0))),
                figure("share_rtt_us", "us", None),
                figure("share_packet_us", "us", None),
                figure("share_echo", "Gbit/s", None),
                figure("share_packet_echo", "Gbit/s", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "vm_tcp",
            &[
                figure("vm_tcp", "ratio", Some(Bar::AtLeast(3.0))),
                figure("vm_tcp_vhost", "Gbit/s", None),
                figure("vm_tcp_qemu", "Gbit/s", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "explore",
            &[
                figure("explore_states_s", "1/s", Some(Bar::AtLeast(5000.0))),
                figure("explore_packets_s", "1/s", None),
                figure("explore_fork_states_s", "1/s", Some(Bar::AtLeast(1000.0))),
            ],
            &[Side::Vink],
        )
    },
    group(
        "python_call",
        &[figure("python_call_us", "us", Some(Bar::AtMost(300.0)))],
        &[Side::Vink],
    ),
    Group {
        most_rounds: 3,
        ..group(
            "sweep",
            &[
                figure("sweep_runs", "ratio", Some(Bar::AtLeast(1.0))),
                figure("sweep_runs_s", "1/s", None),
                figure("sweep_loop_s", "1/s", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 5,
        ..group(
            "ui_picture",
            &[
                figure("ui_frame_1000_p95_ms", "ms", Some(Bar::AtMost(4.0))),
                figure("ui_frame_10000_p95_ms", "ms", Some(Bar::AtMost(8.0))),
                figure("ui_picture_1000_ms", "ms", Some(Bar::AtMost(1000.0))),
                figure("ui_picture_10000_ms", "ms", Some(Bar::AtMost(3000.0))),
            ],
            &[Side::Vink],
        )
    },
    group(
        "ui_closed",
        &[figure("ui_closed_cost", "ratio", Some(Bar::AtMost(1.005)))],
        &[Side::Vink],
    ),
    Group {
        most_rounds: 3,
        ..group(
            "ui_detail",
            &[
                figure("ui_detail_share", "cores", Some(Bar::AtMost(0.10))),
                figure("ui_detail_ns", "ns", None),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 5,
        ..group(
            "ui_open",
            &[
                figure("ui_open_1000_ms", "ms", Some(Bar::AtMost(1000.0))),
                figure("ui_open_10000_ms", "ms", Some(Bar::AtMost(3000.0))),
            ],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "ui_seek",
            &[figure("ui_seek_p95_ms", "ms", Some(Bar::AtMost(100.0)))],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "rebuild",
            &[figure("rebuild_s", "s", Some(Bar::AtMost(15.0)))],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 1,
        ..group(
            "image_kvs",
            &[figure("image_kvs", "ratio", Some(Bar::AtMost(0.67)))],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 3,
        ..group(
            "virtual_rtt",
            &[
                figure("virtual_rtt_us", "us", Some(Bar::AtMost(35.0))),
                figure("virtual_rtt_floor", "us", Some(Bar::RatioAtMost(1.8))),
            ],
            ONE,
        )
    },
    Group {
        most_rounds: 1,
        ..group(
            "virtual_http",
            &[figure("virtual_1000_http_s", "s", Some(Bar::AtMost(40.0)))],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 1,
        ..group(
            "virtual_flows",
            &[figure("virtual_1000_flows_s", "s", None)],
            &[Side::Vink],
        )
    },
    Group {
        most_rounds: 1,
        ..group(
            "virtual_ospf",
            &[figure("virtual_ospf_day_s", "s", Some(Bar::AtMost(60.0)))],
            &[Side::Vink],
        )
    },
    Group {
        fresh: true,
        most_rounds: 3,
        ..group(
            "machines_1000",
            &[figure("machines_1000_s", "s", None)],
            &[Side::Vink],
        )
    },
    Group {
        fresh: true,
        most_rounds: 1,
        ..group(
            "machines_10000",
            &[
                figure("machines_10000_s", "s", Some(Bar::AtMost(60.0))),
                figure("machines_10000_mb", "MB", Some(Bar::AtMost(4000.0))),
            ],
            &[Side::Vink],
        )
    },
    Group {
        fresh: true,
        most_rounds: 3,
        ..group(
            "machines",
            &[
                figure("machine_kb", "kB", Some(Bar::AtMost(120.0))),
                figure("machine_us", "us", Some(Bar::AtMost(400.0))),
                figure("machine_alloc_kb", "kB", None),
                figure("machine_kb_1000", "kB", None),
                figure("machine_us_1000", "us", None),
            ],
            ONE,
        )
    },
    Group {
        fresh: true,
        most_rounds: 3,
        ..group(
            "machine_kvs",
            &[figure("machine_kvs_kb", "kB", Some(Bar::AtMost(100.0)))],
            &[Side::Vink],
        )
    },
];
