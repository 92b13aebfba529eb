"""Executors of engines: Slurm's, in namespaces of its own. Ray is too large to be here (docs/python.md)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# A controller and a node, with a key of their own. Slurm takes no addresses of the loopback interface alone.
UP = """
hostname node1
ip link set lo up
ip link add one type veth peer name other
ip address add 10.9.9.1/24 dev one
ip link set one up
ip link set other up
mount --bind hosts /etc/hosts
mkdir state spool
head -c 1024 /dev/urandom >key
chmod 400 key
munged --force --key-file="$PWD/key" --socket="$PWD/munge" --pid-file="$PWD/munge.pid" \
    --log-file="$PWD/munge.log" --seed-file="$PWD/seed"
export SLURM_CONF=$PWD/slurm.conf
slurmctld -c
slurmd
exec "$@"
"""

CONFIGURATION = """
ClusterName=one
SlurmctldHost=node1(10.9.9.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={0}/munge
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool
SlurmctldPidFile={0}/slurmctld.pid
SlurmdPidFile={0}/slurmd.pid
SlurmctldLogFile={0}/slurmctld.log
SlurmdLogFile={0}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
NodeName=node1 NodeAddr=10.9.9.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=node1 Default=YES State=UP
"""

# What is run is in a module, as nodes import it.
FUNCTIONS = """
import os, signal
import vink

def pings(seed, loss):
    # Once, a task is killed with all that it has made.
    try:
        os.mkdir(f"killed-{seed}-{loss}")
    except FileExistsError:
        pass
    else:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    lab = vink.Lab(time="virtual", seed=seed)
    lab.wire(lab.machine("a"), lab.machine("b"), delay="50ms", loss=loss)
    with lab:
        said = lab["a"].run(["ping", "-c", "20", "-i", "0.2", "-q", "b"]).stdout
        return {"received": int(said.split(" received")[0].split()[-1]), "seconds": lab.clock.seconds}

def fails(seed):
    if seed == 1:
        raise ValueError("one")
    return seed
"""

SWEEP = """
import concurrent.futures, time
import vink
from vink.executors import SlurmExecutor
import functions

losses = {"loss": ["0%", "40%"]}
with SlurmExecutor("calls", ["--time=5"]) as slurm:
    vink.sweep(functions.pings, parameters=losses, seeds=range(3), output="there.csv", executor=slurm)
    try:
        vink.sweep(functions.fails, seeds=range(3), executor=slurm)
    except vink.SweepError as error:
        print("failed", [(values, repr(why)) for values, why in error.failures])
    long = [slurm.submit(time.sleep, 1000) for _ in range(3)]
    slurm.shutdown(cancel_futures=True)
    print("cancelled", [future.cancelled() for future in long])
with concurrent.futures.ThreadPoolExecutor(1) as here:
    vink.sweep(functions.pings, parameters=losses, seeds=range(3), output="here.csv", executor=here)
"""


def test_arrays_of_slurm() -> None:
    if os.geteuid() != 0:
        return  # Slurm starts tasks for users, for which it must be root.
    with tempfile.TemporaryDirectory(prefix="vink-slurm-") as name:
        folder = Path(name)
        (folder / "hosts").write_text("127.0.0.1 localhost\n10.9.9.1 node1\n")
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder))
        (folder / "functions.py").write_text(FUNCTIONS)
        (folder / "sweep.py").write_text(SWEEP)
        namespaces = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
        done = subprocess.run(
            [*namespaces, "sh", "-ec", UP, "sh", sys.executable, "sweep.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{folder}"},
            check=False,
            capture_output=True,
            text=True,
        )
        logs = "".join(log.read_text() for log in folder.glob("*.log"))
        assert done.returncode == 0, (done.stdout, done.stderr, logs)
        assert done.stdout.splitlines() == [
            "failed [({'seed': 1}, \"ValueError('one')\")]",
            "cancelled [True, True, True]",
        ]
        there = (folder / "there.csv").read_text()
        assert there == (folder / "here.csv").read_text()
        assert [line.split(",")[:2] for line in there.splitlines()[1:]] == [
            [loss, str(seed)] for loss in ("0%", "40%") for seed in range(3)
        ]
        # Three retries, of which two were needed; nothing of them is left but folders.
        assert not [path for path in (folder / "calls").rglob("*") if path.suffix == ".result"]


def test_a_slurm_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vink.executors import SlurmExecutor

    monkeypatch.setenv("PATH", str(tmp_path))
    with SlurmExecutor(tmp_path) as slurm, pytest.raises(FileNotFoundError, match="sbatch"):
        slurm.submit(len, "").result(60)
