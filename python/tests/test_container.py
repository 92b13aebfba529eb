"""The container image: made of the Debian package, unpacked by another program, run with what its page says it needs.

Root's container is made by runc, with the capabilities and the limits that Podman gives one with the options of
docs/container.md; an ordinary user's by bubblewrap, with the same files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
# What Podman leaves to a container without options; those of Docker are more.
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID"]
CAPABILITIES += ["SETPCAP", "SETUID", "SYS_CHROOT"]
# The example of docs/container.md, and that something is there of all that the image has besides.
SCRIPT = """
set -ex
vink doctor >/dev/null
vink lab up /usr/share/vink/labs/hello/lab.yaml >&2
vink exec alice -- ping -q -c 2 -i 0.1 bob
vink exec alice -- curl -sS -o /dev/null -w 'answered %{http_code}\\n' http://bob/
vink lab down
vink run --uplink none -- ip -brief address
id -un
"""


def done(command: Sequence[str | Path], **options: object) -> str:
    """What a command printed, which must succeed."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
    return str(ended.stdout)


@pytest.fixture(scope="module")
def bundle() -> Iterator[Path]:
    """The image, unpacked as `umoci` does it: `rootfs/` and `config.json`."""
    folder = Path(tempfile.mkdtemp(prefix="vink-container-"))
    try:
        built = Path(os.environ["VINK_EXECUTABLE"]).parent
        package = done([ROOT / ".ci/deb", built, folder]).strip()
        archive = done([ROOT / ".ci/container", package, folder]).strip()
        (folder / "layout").mkdir()
        done(["tar", "-C", folder / "layout", "-xf", archive])
        index = json.loads((folder / "layout/index.json").read_text())
        (tag,) = (each["annotations"]["org.opencontainers.image.ref.name"] for each in index["manifests"])
        rootless = ["--rootless"] if os.geteuid() else []
        done(["umoci", "unpack", *rootless, "--image", f"{folder}/layout:{tag}", folder / "bundle"])
        folder.chmod(0o755)
        (folder / "bundle").chmod(0o755)
        yield folder / "bundle"
    finally:
        # Not all of it may be written to.
        done(["chmod", "-R", "u+w", folder])
        shutil.rmtree(folder)


def check(said: str, user: str) -> None:
    """What the script must have printed."""
    assert " 0% packet loss" in said, said
    assert "answered 200" in said, said
    assert "127.0.0.1/8" in said, said
    assert said.splitlines()[-1] == user, said


def test_it_says_how_it_is_run(bundle: Path) -> None:
    process = json.loads((bundle / "config.json").read_text())["process"]
    assert process["args"] == ["/usr/bin/vink", "--help"]
    assert process["cwd"] == "/home/vink"


def test_root_runs_it_without_privileges(bundle: Path, tmp_path: Path) -> None:
    """The container's user is an ordinary one, and what it may become has no right over the host."""
    if os.geteuid() != 0:
        return  # Only root may begin one; the next test is an ordinary user's.
    config = json.loads((bundle / "config.json").read_text())
    assert config["process"]["user"]["uid"] == 1000
    config["process"] |= {
        "terminal": False,
        "args": ["sh", "-c", SCRIPT],
        "capabilities": {"bounding": [f"CAP_{name}" for name in CAPABILITIES]},
        "noNewPrivileges": True,
    }
    config["process"].pop("rlimits", None)
    linux = config["linux"]
    for key in "maskedPaths", "readonlyPaths", "resources":
        linux.pop(key, None)
    # This machine may have none to give.
    linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != "cgroup"]
    config["mounts"] = [each for each in config["mounts"] if each["type"] != "cgroup"]
    (bundle / "config.json").write_text(json.dumps(config))
    name = f"vink-{os.getpid()}"
    check(done(["runc", "--root", tmp_path / "runc", "run", "--bundle", bundle, name]), "vink")


def test_an_ordinary_user_runs_it(bundle: Path) -> None:
    as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    command: list[str | Path] = [
        *as_user,
        "bwrap",
        "--ro-bind",
        bundle / "rootfs",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    command += ["--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "--clearenv", "--setenv", "HOME", "/tmp"]
    command += ["--setenv", "PATH", "/usr/bin:/bin:/usr/sbin:/sbin", "--uid", "1000", "sh", "-c", SCRIPT]
    check(done(command, cwd="/"), "vink")


def test_the_same_layer_makes_the_same_image(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    done(["tar", "-C", ROOT, "-cf", layer, "labs"])
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    images = [tmp_path / "first.tar", tmp_path / "second.tar"]
    for image in images:
        done([ROOT / ".ci/oci", layer, image, "1.0", "amd64"], env=environment)
    assert images[0].read_bytes() == images[1].read_bytes()
