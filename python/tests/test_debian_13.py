"""The Debian package, made here, is installed in Debian 13 and works there, for root and an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("VINK_CACHE") or Path.home() / ".cache/vink")
PACKAGES = "python3,iproute2,iputils-ping,procps"

# Not by chroot(2): what is in one may make no user namespaces.
INSIDE = """
mount --bind . .
mount -t proc proc proc
mkdir -p dev host
mount --rbind /dev dev
cd .
pivot_root . host
python3 -c 'import ctypes; ctypes.CDLL(None).umount2(b"/host", 2)'
test ! -e /host/etc
dpkg --install /vink.deb >&2
echo "ann:x:1001:1001::/home/ann:/bin/sh" >>/etc/passwd
mkdir -p /home/ann
chown 1001:1001 /home/ann
sh /run.sh
setpriv --reuid=1001 --regid=1001 --clear-groups env HOME=/home/ann sh /run.sh
dpkg --purge vink >&2
test ! -e /usr/lib/vink
"""

RUN = """
set -ex
cd "$HOME"
export TMPDIR=$HOME VINK_RUNTIME=$HOME/run
for how in "" --quick --in-process; do
    vink run --uplink none $how -- ip -brief address
done
cp -r /usr/share/vink/labs/hello .
vink lab up hello/lab.yaml >&2
vink exec alice -- ping -q -c 2 -i 0.1 bob
vink exec alice -- python3 -c 'import urllib.request as r; print("answered", r.urlopen("http://bob/").status)'
vink lab down
bash -c '. /usr/share/bash-completion/completions/vink && complete -p vink'
id -un
"""


def done(command: Sequence[str | Path], folder: Path) -> str:
    """What a command printed, which must succeed."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
    return ended.stdout


def system() -> Path:
    """Debian 13, as an archive; made once."""
    made = CACHE / "debian-13.tar"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--variant=apt", f"--include={PACKAGES}"]
        new = CACHE / f"debian-13.{os.getpid()}.tar"
        done(["mmdebstrap", *options, "trixie", new], CACHE)
        new.replace(made)
    return made


def test_the_package_works_there() -> None:
    if os.geteuid() != 0:
        return  # Only root may unpack a system of several users.
    folder = Path(tempfile.mkdtemp(prefix="vink-debian-"))
    try:
        built = Path(os.environ["VINK_EXECUTABLE"]).parent
        package = done([ROOT / ".ci/deb", built, folder], ROOT).strip()
        there = folder / "root"
        there.mkdir()
        done(["tar", "-C", there, "--exclude=./dev/*", "-xf", system()], folder)
        shutil.move(package, there / "vink.deb")
        (there / "run.sh").write_text(RUN)
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        said = done([*namespaces, "sh", "-ec", INSIDE], there)
    finally:
        shutil.rmtree(folder)
    for user, lines in ("root", said.partition("root\n")[0]), ("ann", said.partition("root\n")[2]):
        assert lines.count("127.0.0.1/8") == 3, (user, said)
        assert " 0% packet loss" in lines, (user, said)
        assert "answered 200" in lines, (user, said)
        assert "_vink" in lines, (user, said)
    assert said.endswith("ann\n"), said
