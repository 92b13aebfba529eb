//! Labs at random: the same ones each time, all of them valid.

use indexmap::IndexMap;
use vink_spec::{
    AtSwitch, Breakpoint, Burst, Calls, Command, Core, Driver, Event, FileSpec, Interface, Lab,
    MachineSpec, PathSpec, PodSpec, PortOf, PortSpec, ProgramSpec, Rate, Readiness, Ready, Restart,
    Rights, Route, Scalar, Series, Settings, Share, ShareSpec, Span, SwitchSpec, TransportPort,
    Uplink, WireSpec,
};

/// Numbers that look random (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
        (self.below(3) == 0).then(|| make(self))
    }

    fn up_to<T>(&mut self, limit: usize, mut make: impl FnMut(&mut Random) -> T) -> Vec<T> {
        (0..self.below(limit + 1)).map(|_| make(self)).collect()
    }

    fn share(&mut self) -> Share {
        Share(self.below(1001) as f64 / 1000.0)
    }

    fn span(&mut self) -> Span {
        Span(self.below(100) as u64 * [1, 1000, 1_000_000, 1_000_000_000][self.below(4)])
    }

    /// Texts that YAML may take for something else.
    fn text(&mut self) -> String {
        const TEXTS: [&str; 20] = [
            "plain",
            "no",
            "12",
            "0x10",
            "1e3",
            "~",
            "null",
            " leading",
            "trailing ",
            "a: b",
            "a #b",
            "- a",
            "two\nlines\n",
            "two\n  lines, the second indented",
            "\ttab\r\n",
            "\"quoted\" 'twice'",
            "",
            "ünïcödé ☃ \u{1F600} \u{feff}",
            "{a: [b]}",
            "\u{7}\\n\u{85}\u{2028}",
        ];
        TEXTS[self.below(TEXTS.len())].to_owned()
    }

    fn settings(&mut self) -> Settings {
        Settings {
            rate: self.maybe(|r| Rate(r.below(10) as u64 * 100_000)),
            delay: self.maybe(Random::span),
            jitter: None,
            overtake: self.maybe(|r| r.below(2) == 0),
            loss: self.maybe(Random::share),
            burst: None,
            corrupt: self.maybe(Random::share),
            duplicate: self.maybe(Random::share),
            reorder: self.maybe(Random::share),
            limit: self.maybe(|r| 1 + r.below(2000) as u32),
            mtu: self.maybe(|r| 1280 + r.below(8000) as u32),
        }
    }

    fn program(&mut self, after: &[String]) -> ProgramSpec {
        let command = match self.below(3) {
            0 => Some(Command::Shell(format!("echo {}", self.text()))),
            1 => Some(Command::List(vec!["echo".to_owned(), self.text()])),
            _ => None,
        };
        ProgramSpec {
            app: match command {
                Some(_) => None,
                None => Some("echoserver -p 7".to_owned()),
            },
            command,
            env: (0..self.below(3))
                .map(|i| (format!("NAME{i}"), self.text()))
                .collect(),
            dir: self.maybe(|_| ".".to_owned()),
            after: after
                .iter()
                .filter(|_| self.below(4) == 0)
                .cloned()
                .collect(),
            ready: self.maybe(|r| {
                let by = match r.below(5) {
                    0 => Ready::Port(1 + r.below(65535) as u16),
                    1 => Ready::Command("true".to_owned()),
                    2 => Ready::Output(format!("ready{}", r.text())),
                    3 => return Ready::Success.into(),
                    _ => return Ready::Time(r.span()).into(),
                };
                let timeout = r.maybe(Random::span);
                Readiness { by, timeout }
            }),
            restart: [Restart::Never, Restart::OnFailure, Restart::Always][self.below(3)],
        }
    }

    /// Some switches, with interfaces at them, by numbers of their own.
    fn switches(&self, lab: &mut Lab) {
        let mut own = Random(self.0 ^ 2);
        for name in ["sw0", "sw1"].into_iter().take(own.below(3)) {
            let vlan = |r: &mut Random| 1 + r.below(4094) as u16;
            let mut ports = IndexMap::new();
            for port in 0..own.below(3) {
                let spec = PortSpec {
                    wire: own.maybe(|_| format!("{name}-wire{port}")),
                    mac: own.maybe(|_| format!("02:00:00:00:00:{port:02x}")),
                    addresses: own
                        .maybe(|_| "10.9.0.0/16".parse().expect("a network"))
                        .into_iter()
                        .collect(),
                    pin: own.maybe(|_| false),
                    vlan: own.maybe(vlan),
                    tagged: Vec::new(),
                    group: None,
                    filter: own.maybe(|_| rules("netdev", &format!("p{port}"))),
                };
                if let Some(wire) = &spec.wire {
                    let bus = WireSpec {
                        bus: Some(true),
                        ..WireSpec::default()
                    };
                    lab.wires.insert(wire.clone(), bus);
                }
                ports.insert(format!("p{port}"), spec);
            }
            let switch = SwitchSpec {
                core: own.maybe(|r| Core::One(r.below(2) as u32)),
                multicast_snooping: own.maybe(|r| r.below(2) == 0),
                filter: own.maybe(|_| rules("bridge", "all")),
                ports,
                ..SwitchSpec::default()
            };
            lab.switches.insert(name.to_owned(), switch);
            let interfaces = lab
                .machines
                .values_mut()
                .flat_map(|it| it.interfaces.iter_mut());
            for (_, interface) in interfaces.filter(|(name, _)| *name != "lo") {
                if interface.wire.is_none() && interface.switch.is_none() && own.below(2) == 0 {
                    interface.switch = Some(match own.below(2) {
                        0 => AtSwitch::Name(name.to_owned()),
                        _ => AtSwitch::Port(PortOf {
                            name: name.to_owned(),
                            pin: own.maybe(|r| r.below(2) == 0),
                            vlan: None,
                            tagged: own.maybe(vlan).into_iter().collect(),
                            group: None,
                            filter: own.maybe(|_| rules("netdev", "{{interface}}-x")),
                        }),
                    });
                }
            }
        }
    }

    pub fn lab(&mut self) -> Lab {
        let mut lab = Lab {
            name: ["", "lab", "no", "1"][self.below(4)].to_owned(),
            seed: self.maybe(|r| r.below(100) as u64),
            memory: self.maybe(|_| "64M".to_owned()),
            calls: [Calls::Auto, Calls::Shared, Calls::Trapped][self.below(3)],
            images: (0..self.below(3))
                .map(|i| (format!("image{i}"), format!("/images/{}.so", self.below(2))))
                .collect(),
            ..Lab::default()
        };
        let mut programs: Vec<String> = Vec::new();
        for i in 0..self.below(6) {
            let name = ["m0", "m1", "no", "y.example", "m4", "5"][i].to_owned();
            let mut machine = MachineSpec {
                image: self.maybe(|r| format!("image{}", r.below(2))),
                forward: self.below(2) == 0,
                rights: Rights::NAMES[self.below(2)].1,
                setup: self.up_to(2, |r| format!("echo {}", r.text())),
                ..MachineSpec::default()
            };
            // By numbers of its own, so that the rest is as it was.
            let mut own = Random(self.0 ^ 1);
            machine.worker = own.maybe(|r| format!("worker{}", r.below(2)));
            // All machines of a worker that name processors name the same.
            machine.core = own.maybe(|r| match machine.worker.as_deref() {
                Some("worker0") => Core::One(3),
                Some(_) => Core::Several(vec![1, 0]),
                None => Core::One(r.below(2) as u32),
            });
            machine.image = machine.image.filter(|image| lab.images.contains_key(image));
            for j in 0..self.below(4) {
                let interface = Interface {
                    wire: (self.below(5) > 0).then(|| format!("w{}", self.below(6))),
                    addresses: self.up_to(2, |r| {
                        // Distinct in the whole lab, by machine, interface and chance.
                        let low = r.below(60000);
                        match r.below(2) {
                            0 => format!("10.{}.{}.{}/8", i * 8 + j, low >> 8, low & 0xff),
                            _ => format!("fd00::{i}:{j}:{low:x}/64"),
                        }
                        .parse()
                        .expect("an address")
                    }),
                    mac: self.maybe(|r| format!("02:00:00:0{i}:0{j}:{:02x}", r.below(256))),
                    filter: self.maybe(|_| rules("netdev", "{{interface}}-1")),
                    switch: None,
                };
                machine.interfaces.insert(format!("eth{j}"), interface);
            }
            for interface in machine.interfaces.values_mut() {
                interface.addresses.dedup();
            }
            if self.below(3) == 0 {
                let lo = Interface {
                    addresses: self.up_to(1, |_| {
                        format!("10.255.0.{i}/32").parse().expect("an address")
                    }),
                    ..Interface::default()
                };
                machine.interfaces.insert("lo".to_owned(), lo);
            }
            machine.routes = self.up_to(2, |r| Route {
                to: format!("192.168.{}.0/24", r.below(200)),
                via: Some("10.0.0.1".parse().expect("an address")),
                dev: None,
                metric: r.maybe(|r| r.below(10) as u32),
            });
            for name in [
                "net.ipv4.tcp_sack",
                "net.ipv4.tcp_congestion_control",
                "net.ipv4.conf.eth0.rp_filter",
            ] {
                let possible = machine.interfaces.contains_key("eth0") || !name.contains("eth0");
                if possible && self.below(2) == 0 {
                    let value = match self.below(2) {
                        0 => Scalar::Number(self.below(2) as i64),
                        _ => Scalar::Text(self.text()),
                    };
                    machine.sysctls.insert(name.to_owned(), value);
                }
            }
            machine.filter = self.maybe(|r| rules("inet", ["a", "b"][r.below(2)]));
            for name in ["/etc/motd", "/etc/a b"] {
                if self.below(2) == 0 {
                    let text = FileSpec::Text(self.text());
                    machine.files.insert(name.to_owned(), text);
                }
            }
            for j in 0..self.below(4) {
                let program = self.program(&programs);
                machine.programs.insert(format!("p{j}"), program);
                programs.push(format!("{name}.p{j}"));
            }
            lab.machines.insert(name, machine);
        }
        self.switches(&mut lab);
        // Every wire that an interface names, so that none looks like a mistake; some of them only
        // there.
        let ends: Vec<(String, usize, Option<String>)> = lab
            .ends()
            .into_iter()
            .map(|(wire, ends)| {
                let end = ends.first().map(|(m, i)| format!("{m}:{i}"));
                (wire.to_owned(), ends.len(), end)
            })
            .collect();
        for (wire, ends, end) in ends {
            if ends > 1 && self.below(3) == 0 {
                continue;
            }
            let mut spec = WireSpec {
                settings: self.settings(),
                bus: if ends > 1 { self.maybe(|_| true) } else { None },
                up: self.maybe(|r| r.below(2) == 0),
                ..WireSpec::default()
            };
            if self.below(3) == 0 {
                spec.settings.loss = None;
                spec.settings.burst = Some(Burst {
                    start: self.share(),
                    end: self.share(),
                    loss: self.share(),
                    good_loss: self.share(),
                });
            }
            spec.settings.jitter = spec.settings.delay;
            if let Some(end) = end.filter(|_| self.below(2) == 0) {
                let mut settings = self.settings();
                (settings.mtu, settings.delay) = (None, None);
                spec.from.insert(end, settings);
            }
            spec.uplink = self.maybe(|r| match r.below(8) {
                5 => Uplink::Driver(match r.below(4) {
                    0 => Driver::Tap(format!("tap-{wire}")),
                    1 => Driver::Interface(format!("if-{wire}")),
                    2 => Driver::Xdp {
                        interface: format!("if-{wire}"),
                        queue: 3,
                    },
                    _ => Driver::Fanout {
                        interface: format!("if-{wire}"),
                        group: 7,
                    },
                }),
                4 => Uplink::Wire(format!("/tmp/{wire}.wire")),
                7 => Uplink::Share(ShareSpec {
                    addresses: r.up_to(2, |_| "192.0.2.1".parse().expect("an address")),
                    ports: r.up_to(2, |r| TransportPort {
                        number: 80,
                        udp: r.below(2) == 0,
                    }),
                    on_demand: r.below(2) == 0,
                    ephemeral: [0, 256, 1000][r.below(3)],
                }),
                6 => Uplink::VhostUser(format!("/tmp/{wire}.vm")),
                0 => Uplink::Tap(format!("tap-{wire}")),
                1 => Uplink::Qemu(format!("/tmp/{wire}.sock")),
                2 => Uplink::Udp {
                    listen: "127.0.0.1:7000".parse().expect("an address"),
                    peer: "127.0.0.1:7001".parse().expect("an address"),
                },
                _ => Uplink::Passt {
                    publish: r.up_to(1, |_| "8080:80".to_owned()),
                },
            });
            lab.wires.insert(wire, spec);
        }
        for name in 0..self.below(3) {
            let breakpoint = Breakpoint {
                filter: self.maybe(|r| format!("port {}", r.below(9))),
                drop: self.below(2) == 0,
                times: self.maybe(|r| 1 + r.below(9) as u64),
                ..Breakpoint::default()
            };
            lab.breakpoints.insert(format!("b{name}"), breakpoint);
        }
        let places = lab.machines.iter().filter_map(|(machine, spec)| {
            let interface = spec.interfaces.keys().find(|name| *name != "lo")?;
            Some(format!("{machine}:{interface}"))
        });
        let places: Vec<String> = places.collect();
        for name in 0..self.below(3) {
            let pod = PodSpec {
                file: format!("pod{}.so", self.below(3)),
                memory: self.maybe(|_| "16M".to_owned()),
                ..PodSpec::default()
            };
            lab.pods.insert(format!("p{name}"), pod);
        }
        if let (Some(at), Some(pod)) = (places.first(), lab.pods.keys().next().cloned()) {
            for name in 0..self.below(3) {
                let mut path = PathSpec {
                    at: at.clone(),
                    filter: self.maybe(|r| format!("port {}", r.below(9))),
                    mark: self.maybe(|r| r.below(9) as u32),
                    pods: vec![pod.clone()],
                    bytes: self.maybe(|_| "64K".to_owned()),
                    ..PathSpec::default()
                };
                if self.below(2) == 0 {
                    path.stream = Some(path.machine().to_owned());
                    (path.at, path.filter, path.mark) = (String::new(), None, None);
                }
                lab.paths.insert(format!("w{name}"), path);
            }
        }
        if let Some(machine) = lab.machines.keys().next().cloned() {
            for name in 0..self.below(3) {
                let value = ["tcp", "rate counter"][self.below(2)];
                let value = format!("{value} {machine} what");
                let series = Series {
                    every: Some(Span(1 + self.below(9) as u64)),
                    values: [("x".to_owned(), value.parse().expect("a quantity"))].into(),
                    ..Series::default()
                };
                lab.series.insert(format!("s{name}"), series);
            }
        }
        lab.events = self.up_to(2, |r| Event {
            at: r.span(),
            every: r.maybe(|r| Span(1 + r.below(10) as u64)),
            line: format!("wire set w1 loss {}", r.text()),
        });
        lab
    }
}

/// A filter with a table of its own.
fn rules(family: &str, name: &str) -> FileSpec {
    FileSpec::Text(format!("table {family} {name} {{ }}\n"))
}
