"""The processes of a stand-in for a worker: they lose ranks, and take spares and newcomers (docs/campaign.md).

Nothing is sent between them. Each hears every request, so each knows who fails in it and who is left.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import sys
import time

MOST = 4096
CHECKPOINT = 5  # the step of a checkpoint
PR_SET_CHILD_SUBREAPER = 36


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def processes(request):
    """The ranks that are to fail in a run."""
    return [fault["process"] for fault in request.get("faults", []) if "process" in fault]


class Team:
    """recovery: of `serve --recovery`, None where no rank may fail."""

    def __init__(self, ranks, recovery=None, reserve=0):
        self.ranks, self.recovery = ranks, recovery
        self.group = list(range(ranks + (recovery or {}).get("spares", 0) + reserve))  # who lives, working ones first
        self.next = len(self.group)
        self.total = len(self.group)
        self.me = -1
        self.pids = memoryview(mmap.mmap(-1, 4 * MOST)).cast("i")  # of all processes, also of those to come

    @property
    def rank(self):
        return self.group.index(self.me)

    def enter(self, index):
        self.me = index
        self.pids[index] = os.getpid()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # newcomers leave no zombies

    def meet(self, request, join, mode=""):
        """What becomes of the group in a run whose faults strike. The recovery, or None when nobody can go on.

        join(): the life of a newcomer. mode: `late`, victims die when the answer was given; `extra`, one more dies.
        """
        faults = processes(request)
        if self.ends_with_a_rank():
            self.end_job(request)
        recovery = request.get("recovery", self.recovery)
        ranks = sorted({fault["rank"] for fault in faults})
        victims = {self.group[fault["rank"]]: fault.get("how", "kill") for fault in faults}
        if mode == "extra":
            victims[self.group[self.ranks - 1 - len(ranks)]] = "kill"
        if self.me in victims:
            self.die(victims[self.me], mode)
        pids = [self.pids[index] for index in victims]
        self.group = [index for index in self.group if index not in victims]
        if self.leads() and mode != "late":
            self.bury(pids)
        kind = recovery["kind"]
        refilled = kind == "respawn" or (kind == "restart" and not recovery.get("spares"))
        shrunk = kind == "shrink"
        enough = 1 if shrunk else recovery.get("spares", 0)
        if kind in ("none", "relaunch") or (not refilled and len(ranks) > enough):
            return None
        if refilled:
            self.spawn(len(ranks), join)
        return {
            "kind": kind,
            "state": "replica",
            "failed": ranks,
            "ranks_before": self.ranks,
            "ranks_after": self.ranks - len(ranks) if shrunk else self.ranks,
            "step": faults[0]["step"] - 1,
            "steps_lost": 0,
            "steps_redone": 1,
            "bytes_moved": 100,
            "volatile": {"detect": time.time() % 1, "revoke": 0.001, "redo": 0.002},
        }

    @staticmethod
    def given_up(request):
        """What the answer to a request says of ranks that nobody can do without."""
        ranks = sorted({fault["rank"] for fault in processes(request)})
        numbers = ("ranks_before", "ranks_after", "step", "steps_lost", "steps_redone", "bytes_moved")
        return {"kind": "none", "failed": ranks, "volatile": {}} | dict.fromkeys(numbers, 0)

    def ends_with_a_rank(self):
        return self.recovery is not None and self.recovery["kind"] == "relaunch"

    def end_job(self, request):
        """A rank that fails leaves a checkpoint of step 5 if it came so far, and word; the launcher ends the others."""
        again = request.get("relaunched")
        for fault in processes(request):
            if fault["rank"] != self.rank or (fault["phase"] == "recovery" and not again):
                continue
            beside = request["checkpoint"]
            if fault["step"] > CHECKPOINT and not again:
                os.mkdir(f"{beside}.ledgers")
                for name in (f"{beside}.saved", f"{beside}.ledgers/ledger-{CHECKPOINT}"):
                    with open(name, "w") as file:
                        file.write(str(CHECKPOINT))
            with open(f"{beside}.deaths", "a") as file:
                file.write(f"{time.monotonic():.9f} {fault['rank']} {fault['step']} {fault['phase']}\n")
            self.die(fault["how"], "")
        signal.pause()

    def leads(self):
        return self.group[0] == self.me

    def die(self, how, mode):
        if mode == "late":
            time.sleep(0.3)
        sys.stderr.flush()
        if how == "exit":
            os._exit(0)
        os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)

    def bury(self, pids):
        """As survivors do: a stopped process must not come back."""
        time.sleep(0.01)
        for pid in pids:
            while alive(pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    break
                time.sleep(0.002)

    def spawn(self, count, join):
        """Newcomers, which have connected when this returns on the rank that leads."""
        leads = self.leads()
        new = range(self.next, self.next + count)
        self.group.extend(new)
        self.next += count
        for index in new if leads else ():
            here, there = os.pipe()
            if os.fork() == 0:
                os.close(here)
                join(index, there)
                os._exit(0)
            os.close(there)
            os.read(here, 1)
            os.close(here)


def continued(relaunched):
    """The recoveries of a job that was launched again from the checkpoint that end_job() leaves."""
    step = 0
    if relaunched["checkpoint"]:
        with open(relaunched["checkpoint"]) as file:
            step = int(file.read())
        assert os.listdir(relaunched["ledgers"]) == [f"ledger-{step}"]
    *earlier, last = relaunched["recoveries"]
    lost = relaunched["step"] - 1 - step
    return [*earlier, last | {"step": step, "steps_lost": lost, "steps_redone": lost + 1}]


def team_of(ranks, words):
    """The team that the command line of a worker asks for."""

    def value(name):
        return words[words.index(name) + 1] if name in words else None

    recovery = value("--recovery")
    return Team(ranks, json.loads(recovery) if recovery else None, int(value("--reserve") or 0))


def launch(team, rank_main):
    """Plays the launcher: a process of its own group for every rank; returns its exit code.

    One that ends otherwise than well takes the others along, unless ranks may fail.
    """
    if team.recovery is not None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    children = []
    for index in range(team.total):
        pid = os.fork()
        if pid == 0:
            if team.total > 1:
                os.setpgid(0, 0)  # as launchers do: killing the launcher's group does not reach a rank
            try:
                team.enter(index)
                rank_main(team)
            finally:
                sys.stderr.flush()
                os._exit(0 if sys.exc_info()[0] is None else 1)
        children.append(pid)
    code = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return code
        if pid in children:
            children.remove(pid)
        ended = os.waitstatus_to_exitcode(status)
        if ended != 0 and code == 0 and (team.recovery is None or team.ends_with_a_rank()):
            code = 128 - ended if ended < 0 else ended
            for other in children:
                os.kill(other, signal.SIGTERM)
