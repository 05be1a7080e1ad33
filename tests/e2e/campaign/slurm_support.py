"""A Slurm cluster of one machine: munged, slurmctld and slurmd as children, with everything they keep in one folder."""

from __future__ import annotations

import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from campaign_support import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel", "srun")


def missing_programs():
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=search) is None]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


CONFIGURATION = """
ClusterName=bitrift-test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={control_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket,cred_expire=5
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Up from the start of the block to its end; then its processes are gone and its folder with them."""

    def __init__(self):
        # Short, because the name of a socket has 108 bytes; ours alone, because munged asks for that.
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self.children = []
        self.env = os.environ | {
            "SLURM_CONF": str(self.place / "slurm.conf"),
            "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin",
        }

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
        for child in reversed(self.children):
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        shutil.rmtree(self.place, ignore_errors=True)

    def _start(self):
        for name in ("state", "spool"):
            (self.place / name).mkdir()
        host = socket.gethostname().split(".")[0]
        text = CONFIGURATION.format(
            host=host, user=getpass.getuser(), place=self.place, control_port=free_port(), node_port=free_port()
        )
        (self.place / "slurm.conf").write_text(text)
        key = self.place / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = [f"--{what}-file={self.place}/munge.{what}" for what in ("key", "pid", "log", "seed")]
        self._child("munged", "-F", "--force", f"--socket={self.place}/munge.socket", *files)
        self._until(lambda: (self.place / "munge.socket").exists(), "munged opens its socket")
        self._child("slurmctld", "-D")
        self._until(lambda: self._ask("scontrol", "ping").returncode == 0, "slurmctld answers")
        self._child("slurmd", "-D", "-N", host)
        self._until(lambda: self._ask("sinfo", "-h", "-o", "%t").stdout.strip() == "idle", "the node is idle")

    def _child(self, *command):
        with open(self.place / f"{command[0]}.out", "ab") as out:
            self.children.append(
                subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            )

    def _ask(self, *command):
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=30, check=False)

    def _until(self, condition, what, timeout=30):
        def logs():
            return "\n".join([what, *(f"{path.name}: {path.read_text()[-1500:]}" for path in self.place.glob("*.out"))])

        wait_until(condition, timeout, logs)

    def run(self, *command, **changes):
        """A Slurm command, which must succeed; what it prints."""
        done = subprocess.run(
            list(map(str, command)), env=self.env | changes, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, *arguments, **changes):
        """Number of the job."""
        return self.run("sbatch", "--parsable", *arguments, **changes).split(";")[0]

    def state(self, job):
        """State of a job, or a task of an array ("12_3"): PENDING, RUNNING, COMPLETED, ...; "" when Slurm forgot it."""
        done = self._ask("scontrol", "--oneliner", "show", "job", str(job))
        words = [word for word in done.stdout.split() if word.startswith("JobState=")]
        return words[0].partition("=")[2] if words else ""
