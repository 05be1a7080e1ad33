"""What the campaign tests share: start a driver, find every process it started, read its journal independently."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

import xxhash

BIN = pathlib.Path(os.environ.get("BITRIFT_BIN_DIR", "."))
MARK = "BITRIFT_TEST_MARK"


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def row_id(row):
    return f"{row['id']['arm']}/{row['id']['stratum']}/{row['id']['draw']}"


def read_rows(folder, check_crc=False, may_retract=False):
    """Rows by id without their volatile part; every line must be whole, and no id may come twice.

    may_retract: rows of a worker that was lost in its check, or that leaked, may be taken back and come again.
    """
    rows = {}
    text = (pathlib.Path(folder) / "trials.jsonl").read_bytes()
    assert text.endswith(b"\n")
    for line in text.splitlines():
        prefix, _, tail = line.partition(b',"row":')
        if check_crc:
            assert prefix == b'{"crc32c":"%08x"' % crc32c(tail[:-1])
        row = json.loads(line)["row"]
        if row["kind"] == "retract":
            assert may_retract, row
            for name in row["ids"]:
                del rows[name]
            continue
        assert row_id(row) not in rows
        row.pop("volatile")
        rows[row_id(row)] = row
    return rows


def read_incidents(folder):
    return [json.loads(line) for line in (pathlib.Path(folder) / "incidents.jsonl").read_text().splitlines()]


def processes_with(mark, variable=MARK):
    """Every live process whose environment carries the mark (zombies have none)."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"{variable}={mark}\0".encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


class Driver:
    """`bitrift campaign` as a child whose descendants can be found again."""

    def __init__(self, *arguments, env=None, cwd=None):
        self.mark = uuid.uuid4().hex
        environment = os.environ | (env or {}) | {MARK: self.mark}
        self.errors = os.memfd_create("stderr")
        self.process = subprocess.Popen(
            [BIN / "bitrift", "campaign", *map(str, arguments)],
            env=environment,
            cwd=cwd,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )

    def __del__(self):
        os.close(self.errors)

    def said(self):
        """What it has written to stderr until now."""
        return os.pread(self.errors, os.fstat(self.errors).st_size, 0).decode()

    def finish(self, timeout=240):
        out, _ = self.process.communicate(timeout=timeout)
        self.assert_no_process_left()
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, self.said())

    def descendants(self):
        return {pid: name for pid, name in processes_with(self.mark).items() if pid != self.process.pid}

    def ranks(self, kind=""):
        """Processes that talk to the driver, of one kind of parallelism or of any: those that serve, without launchers.

        From one look at /proc: between two looks processes come and go.
        """
        launchers = ("mpirun", "prterun", "mpiexec")

        def is_rank(name):
            return " serve " in name and pathlib.Path(name.split()[0]).name not in launchers

        wanted = f"--parallel {kind} " if kind else ""
        return sorted(pid for pid, name in self.descendants().items() if is_rank(name) and wanted in name)

    def ranks_of(self, kind):
        """The ranks that serve under one kind of parallelism."""
        return self.ranks(kind)

    def kill_everything(self):
        """SIGKILL to the driver and all its processes, in no particular order."""

        def all_killed():
            found = processes_with(self.mark)
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.poll()
            return not found

        wait_until(all_killed)
        self.process.communicate()

    def kill_at_random(self, chance, latest_s, rows=lambda: 0, most_rows=5):
        """Kills everything within `latest_s`, or as soon as `rows()` has grown by `most_rows`.

        A campaign of many rows thus survives several kills, however fast the machine is. True when the driver was
        killed, False when it had ended by itself.
        """
        moment, limit = time.monotonic() + chance.uniform(0.05, latest_s), rows() + most_rows
        wait_until(lambda: self.process.poll() is not None or time.monotonic() > moment or rows() >= limit)
        self.kill_everything()
        return self.process.returncode == -signal.SIGKILL

    def assert_no_process_left(self, within_s=60):
        wait_until(lambda: not self.descendants(), within_s, self.descendants)


def end_all(drivers):
    """Kills those that a failed test left running: a shard waits for its like, so they might wait for ever."""
    for driver in drivers:
        if driver.process.returncode is None:
            driver.kill_everything()
    drivers.clear()


def campaign(*arguments, env=None, cwd=None, timeout=240):
    return Driver(*arguments, env=env, cwd=cwd).finish(timeout)


def run_rows(folder, spec):
    """The rows of a campaign with this spec (a dict), which one worker runs in `folder`. Its file lies beside that."""
    path = pathlib.Path(folder).parent / f"{pathlib.Path(folder).name}-spec.json"
    path.write_text(json.dumps(spec))
    done = campaign("run", path, "-o", folder, "--workers", "1")
    assert done.returncode == 0, done.stderr
    return read_rows(folder, check_crc=True)


def scratch_folders(folder):
    """What the campaign in this folder has in /dev/shm."""
    digest = xxhash.xxh3_128_hexdigest(str(folder).encode())[:12]
    return list(pathlib.Path("/dev/shm").glob(f"bitrift-{os.geteuid()}-{digest}-*"))


def wait_until(condition, timeout=60, describe=lambda: ""):
    """The first true value of a condition; an AssertionError, with what `describe` returns, after so many seconds."""
    limit = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < limit, f"waited {timeout} s in vain: {describe()}"
        time.sleep(0.02)
    return value


def journal_lines(folder):
    path = pathlib.Path(folder) / "trials.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def fake_trainer(folder):
    """A program that can stand in for bitrift-train (fake_train.py under this interpreter)."""
    program = pathlib.Path(folder) / "fake-bitrift-train"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {pathlib.Path(__file__).with_name("fake_train.py")} "$@"\n')
    program.chmod(0o755)
    return program


# Few of each kind of clean run, so that all are made everywhere and cost little.
CONTROLS: dict[str, int] = {"envelope": 20, "held_out": 4, "jitter": 4}
# Rows of an arm before its trials: no-flip runs, clean runs, canaries (two of them for the roles weight and momentum)
# and the no-flip run after them.
PREPARATION_PER_ARM = 2 + 1 + sum(CONTROLS.values()) + 3 + 2 + 1

# Four steps of about 0.1 ms an epoch, so that thousands of trials take seconds.
SMALL_BASE: dict[str, dict] = {
    "train": {
        "model": {"name": "mlp", "hidden": [16]},
        "data": {"name": "digits", "train_samples": 256, "test_samples": 64},
        "batch_size": 64,
        "epochs": 20,
        "seed": 1,
        "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
    }
}

STUDY_SPEC = {
    "name": "driver",
    "seed": 11,
    "base": {
        "train": {
            "model": {"name": "lenet"},
            "data": {"name": "digits"},
            "batch_size": 64,
            "epochs": 1,
            "seed": 3,
            "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
        }
    },
    "resume": {"epochs": 2},
    "arms": [
        {"name": "serial", "parallel": {"kind": "serial"}},
        {"name": "data-2", "parallel": {"kind": "data", "ranks": 2}},
    ],
    "strata": {"roles": ["weight", "momentum"], "fields": ["sign", "exponent"]},
    "trials_per_stratum": 6,
    "controls": CONTROLS,
}
STUDY_ROWS = 2 * (PREPARATION_PER_ARM + 4 * 6)


class Study:
    """A spec file, the stand-in, and folders below one place."""

    def __init__(self, place):
        self.place = place
        self.trainer = fake_trainer(place)
        self.spec = place / "spec.json"
        self.spec.write_text(json.dumps(STUDY_SPEC))
        self.env = {"BITRIFT_TRAIN_PROGRAM": str(self.trainer)}

    def start(self, name, *arguments, env=None, spec=None):
        return Driver("run", spec or self.spec, "-o", self.place / name, *arguments, env=self.env | (env or {}))

    def run(self, name, *arguments, env=None, spec=None):
        return self.start(name, *arguments, env=env, spec=spec).finish()

    def changed_spec(self, **changes):
        path = self.place / "changed.json"
        path.write_text(json.dumps(STUDY_SPEC | changes))
        return path


def reference_study(place):
    """A campaign that ran without any trouble, with one worker, and its rows."""
    study = Study(place)
    done = study.run("plain", "--workers", "1")
    assert done.returncode == 0, done.stderr
    study.rows = read_rows(place / "plain", check_crc=True)
    return study
