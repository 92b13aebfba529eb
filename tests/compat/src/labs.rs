//! Whether the ready labs repeat: each is made, works through events at certain times, is captured meanwhile, and is taken down at a certain time.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vink_record::Manifest;

use crate::determinism::{compare, Conditions, Finding, Kind, Recorded};
use crate::stage::Stage;
use crate::BoxError;

/// A ready lab.
pub(crate) struct Lab {
    /// Its folder in labs/.
    pub name: &'static str,
    title: &'static str,
    how: How,
    /// Part of `make test`.
    pub short: bool,
}

enum How {
    Run {
        /// Lines of the switch box, and when they are carried out.
        events: &'static [(&'static str, &'static str)],
        /// When it is taken down.
        until: &'static str,
        /// The machine at which packets are captured.
        captured: &'static str,
    },
    LeftOut(&'static str),
}

/// What several kernels lack.
const CLOCKS: &str = "it has several kernels, each of which has a clock";

/// All of them.
pub(crate) const ALL: &[Lab] = &[
    Lab {
        name: "hello",
        title: "two machines, a wire, a web server in Python; curl, ping",
        how: How::Run {
            events: &[
                ("1s", "exec alice curl -sS http://10.0.0.2/lab.yaml"),
                ("2s", "exec alice ping -c 3 bob"),
            ],
            until: "10s",
            captured: "alice",
        },
        short: true,
    },
    Lab {
        name: "bufferbloat",
        title: "iperf3 behind a long queue and behind fq_codel",
        how: How::Run {
            events: &[
                ("1s", "exec client-pfifo iperf3 -c 10.1.2.2 -t 3"),
                ("5s", "exec client-codel iperf3 -c 10.2.2.2 -t 3"),
            ],
            until: "10s",
            captured: "router-pfifo",
        },
        short: false,
    },
    Lab {
        name: "lossy-wan",
        title: "iperf3 with CUBIC and with BBR over wires that lose 1 %",
        how: How::Run {
            events: &[
                ("1s", "exec east iperf3 -C cubic -c 10.1.0.2 -t 3"),
                ("5s", "exec east iperf3 -C bbr -c 10.2.0.2 -t 3"),
            ],
            until: "10s",
            captured: "west",
        },
        short: false,
    },
    Lab {
        name: "two-kernels",
        title: "Linux 6.1 against 6.12",
        how: How::LeftOut(CLOCKS),
        short: false,
    },
    Lab {
        name: "ospf-ring",
        title: "FRR: five routers with OSPF go around a cut",
        how: How::Run {
            events: &[
                ("30s", "wire w12 down"),
                ("40s", "exec r1 ping -c 3 10.255.0.2"),
            ],
            until: "60s",
            captured: "r1",
        },
        short: false,
    },
    Lab {
        name: "bgp-triangle",
        title: "FRR: three autonomous systems with BGP, and a cut",
        how: How::Run {
            events: &[
                ("30s", "wire w12 down"),
                ("40s", "exec h1 ping -c 3 192.168.2.2"),
            ],
            until: "60s",
            captured: "h1",
        },
        short: false,
    },
    Lab {
        name: "firewall",
        title: "NAT, a DMZ and a firewall with nftables; web servers in Python, curl",
        how: How::Run {
            events: &[
                (
                    "1s",
                    "exec visitor curl -sS -o /dev/null http://198.51.100.1/",
                ),
                ("2s", "exec desk curl -sS -o /dev/null http://198.51.100.7/"),
            ],
            until: "10s",
            captured: "gateway",
        },
        short: false,
    },
    Lab {
        name: "ipv6-site",
        title: "router advertisements by dnsmasq, SLAAC, a firewall, names, curl",
        how: How::Run {
            events: &[(
                "10s",
                "exec laptop curl -sS -o /dev/null http://server.example/",
            )],
            until: "20s",
            captured: "laptop",
        },
        short: false,
    },
    Lab {
        name: "tree-1000",
        title: "a thousand machines; ping, traceroute",
        how: How::Run {
            events: &[
                ("1s", "exec n1000 ping -c 3 n500"),
                ("10s", "exec n1000 traceroute -n n500"),
            ],
            until: "20s",
            captured: "n1000",
        },
        short: false,
    },
    Lab {
        name: "abilene",
        title: "an import from the Topology Zoo; ping, traceroute",
        how: How::Run {
            events: &[
                ("1s", "exec seattle ping -c 3 new-york"),
                ("10s", "exec seattle traceroute new-york"),
            ],
            until: "20s",
            captured: "seattle",
        },
        short: false,
    },
    Lab {
        name: "daytona",
        title: "receivers that lie, senders that believe them or not",
        how: How::LeftOut(CLOCKS),
        short: false,
    },
];

/// Where a run of a lab leaves what is compared.
const JOURNAL: &str = "record/run.journal";
const MANIFEST: &str = "record/manifest.json";
const CAPTURE: &str = "captured.pcapng";

/// Runs a lab three times, and says what came of it.
pub(crate) fn repeat(stage: &Stage, lab: &Lab) -> Result<Finding, BoxError> {
    let finding = Finding::new(Kind::Lab, lab.name, lab.title);
    if let How::LeftOut(why) = &lab.how {
        return Ok(finding.left_out(why));
    }
    let vink = vink_tests::vink();
    let mut runs = Vec::new();
    for conditions in Conditions::ALL {
        let labs = stage.labs()?;
        let folder = labs.path.join(lab.name);
        let _load = conditions.load()?;
        // FRR leaves a folder there for each process, and looks whether it is there.
        let own = "mount -t tmpfs none /var/tmp && exec \"$@\"";
        let output = conditions
            .command(stage, Path::new("unshare"), &folder)
            .args(["--mount", "sh", "-c", own, "sh"])
            .arg(&stage.suite)
            .args(["lab-once", lab.name, &conditions.seed.to_string()])
            .arg(&vink)
            .env("VINK_RUNTIME", labs.path.join("runtime"))
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Ok(finding.fails(&format!("{}: {said}", output.status)));
        }
        let manifest = Manifest::read(&folder.join(MANIFEST))?;
        runs.push(Recorded {
            totals: manifest.totals.ok_or("the record has no end")?,
            journal: fs::read(folder.join(JOURNAL))?,
            captures: fs::read(folder.join(CAPTURE))?,
        });
    }
    compare(finding, &runs)
}

/// One run, in the lab's folder.
pub(crate) fn once(name: &str, seed: u64, vink: &Path) -> Result<(), BoxError> {
    let lab = ALL.iter().find(|lab| lab.name == name);
    let Some(How::Run {
        events,
        until,
        captured,
    }) = lab.map(|lab| &lab.how)
    else {
        return Err(format!("no lab {name} to run").into());
    };
    let text = fs::read_to_string("lab.yaml")?;
    let own = text.lines().filter(|line| !line.starts_with("seed:"));
    let mut file = File::create("repeat.yaml")?;
    for line in own {
        writeln!(file, "{line}")?;
    }
    writeln!(file, "time: virtual\nseed: {seed}\nevents:")?;
    for (at, line) in *events {
        writeln!(
            file,
            "  - {{ at: {at}, do: {} }}",
            serde_json::to_string(line)?
        )?;
    }
    drop(file);
    let call = |arguments: &[&str]| -> Result<(), BoxError> {
        let output = Command::new(vink).args(arguments).output()?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("vink {}: {said}", arguments.join(" ")).into())
            }
        }
    };
    let (folder, _) = MANIFEST.split_once('/').expect("a path");
    call(&["lab", "up", "repeat.yaml", "--paused", "--record", folder])?;
    let done = Capture::begin(vink, captured).and_then(|capture| {
        call(&["lab", "until", until])?;
        Ok(capture)
    });
    call(&["lab", "down"])?;
    done?.end()
}

/// `vink capture` of a machine, beside a lab.
struct Capture(Child);

impl Capture {
    /// It captures when this returns.
    fn begin(vink: &Path, machine: &str) -> Result<Capture, BoxError> {
        let file = PathBuf::from(CAPTURE);
        let child = Command::new(vink)
            .args(["capture", "-w", CAPTURE, machine])
            .stderr(Stdio::null())
            .spawn()?;
        let mut capture = Capture(child);
        let begin = Instant::now();
        // The file's head comes when the worker has been told.
        while fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
            if let Some(status) = capture.0.try_wait()? {
                return Err(format!("vink capture {machine}: {status}").into());
            }
            if begin.elapsed() > Duration::from_secs(60) {
                return Err(format!("vink capture {machine} does not begin").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(capture)
    }

    /// The lab is down.
    fn end(mut self) -> Result<(), BoxError> {
        match self.0.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("vink capture: {status}").into()),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
