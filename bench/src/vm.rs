//! A virtual machine's TCP: iperf3 from a guest to a machine, by vhost-user and by QEMU's own framing at
//! a socket.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::lab::Lab;
use crate::programs::{received, Directory};
use crate::side::Round;
use crate::BoxError;

/// What the guest does.
const SCRIPT: &str = "mkdir -p /tmp
ip address add 10.9.0.2/24 dev eth0
ip link set eth0 up
until ping -c 1 -W 1 10.9.0.1; do :; done
iperf3 --client 10.9.0.1 --time 3
";

/// The rates in Gbit/s, and the first one over the second one; none where there is no QEMU.
pub(crate) fn rates() -> Result<Round, BoxError> {
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
    if qemu.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        eprintln!("vm_tcp: no qemu-system-x86_64 here: apt-get install qemu-system-x86");
        return Ok(Box::new(|| Ok(vec![None; 3])));
    }
    let [vhost, framed] = ["vhost-user", "qemu"].map(|uplink| {
        Lab::up(&format!(
            "name: vm
machines: {{ m: {{ interfaces: {{ eth0: {{ wire: w, addresses: [10.9.0.1/24] }} }} }} }}
wires: {{ w: {{ uplink: {{ {uplink}: vm.sock }} }} }}
"
        ))
    });
    let (vhost, framed, initrd) = (vhost?, framed?, Initrd::new()?);
    Ok(Box::new(move || {
        let vhost = rate(
            &vhost,
            &initrd,
            &[
                "-chardev",
                "socket,id=c,path=vm.sock",
                "-netdev",
                "vhost-user,id=n,chardev=c",
            ],
        )?;
        let framed = rate(
            &framed,
            &initrd,
            &["-netdev", "stream,id=n,addr.type=unix,addr.path=vm.sock"],
        )?;
        Ok(vec![Some(vhost / framed), Some(vhost), Some(framed)])
    }))
}

/// The guest's, with iperf3 and the script; see .ci/guest.
struct Initrd {
    kernel: PathBuf,
    initrd: PathBuf,
    _folder: Directory,
}

impl Initrd {
    fn new() -> Result<Initrd, BoxError> {
        let guest = vink_kernel::cache().ok_or("neither VINK_CACHE nor HOME is set")?;
        let guest = guest.join("guest");
        let folder = Directory::new()?;
        let root = folder.path().join("root");
        fs::create_dir(&root)?;
        fs::write(root.join("script"), SCRIPT)?;
        let shell =
            "cp -L --parents $(ldd $(command -v iperf3) | grep -o '/[^ ]*') $(command -v iperf3) .
            find . | cpio --quiet -o -H newc >../more";
        let made = Command::new("sh")
            .args(["-ec", shell])
            .current_dir(&root)
            .status()?;
        if !made.success() {
            return Err("iperf3 or its libraries can't be packed for the guest".into());
        }
        let base = guest.join("initrd");
        let base =
            fs::read(&base).map_err(|e| format!("{}: {e}: run .ci/guest", base.display()))?;
        let initrd = folder.path().join("initrd");
        fs::write(
            &initrd,
            [base, fs::read(folder.path().join("more"))?].concat(),
        )?;
        Ok(Initrd {
            kernel: guest.join("vmlinuz"),
            initrd,
            _folder: folder,
        })
    }
}

/// A guest, which is ended with this.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // That it has ended by itself is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rate(lab: &Lab, guest: &Initrd, netdev: &[&str]) -> Result<f64, BoxError> {
    let server = lab
        .command(&[
            "exec",
            "m",
            "--",
            "iperf3",
            "--server",
            "--one-off",
            "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut qemu = Command::new("qemu-system-x86_64");
    // Without KVM, QEMU 7.2 crashes if a vhost-user device has MSI-X.
    qemu.args(["-machine", "q35,accel=tcg,memory-backend=m", "-m", "512M"])
        .args(["-object", "memory-backend-memfd,id=m,size=512M,share=on"])
        .args(["-nodefaults", "-no-reboot", "-display", "none"])
        .args(["-append", "quiet panic=-1", "-kernel"])
        .arg(&guest.kernel)
        .arg("-initrd")
        .arg(&guest.initrd)
        .args(netdev)
        .args(["-device", "virtio-net-pci,netdev=n,romfile=,vectors=0"])
        .current_dir(lab.folder())
        .stdin(Stdio::null());
    let _guest = Guest(qemu.spawn()?);
    let output = server.wait_with_output()?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    received(&output).ok_or_else(|| format!("iperf3 said {output:?}").into())
}
