#!/usr/bin/env python3
"""Ranks that do nothing but talk, or die in a way that the test names.

FAKE_RANK says what they do at the start. What they do in a run is the entry of its id in FAKE_RUNS (JSON), else its
drill, else its id. Called as the driver calls a worker: serve BASE --connect NAME ... --ranks R. The parent plays the
launcher.
"""

import json
import os
import signal
import socket
import sys
import time

RANKS = int(sys.argv[sys.argv.index("--ranks") + 1])
NAME = sys.argv[sys.argv.index("--connect") + 1]
RUNS = json.loads(os.environ.get("FAKE_RUNS", "{}"))


def act(kind, say, rank, checkpoint=""):
    """kind: abort, kill, raise, raise-at (names the checkpoint), hang, garbage, exit7, eat (300 MiB), chatter (a log).

    first:FILE:KIND:THEN does KIND only while FILE does not exist, and makes it; later THEN, which may be empty.
    """
    if kind.startswith("first:"):
        _, path, kind, then = kind.split(":")
        if os.path.exists(path):
            kind = then
        open(path, "w").close()
    if kind == "abort":
        say({"failure": {"rank": rank, "reason": "signal", "detail": "", "signal": int(signal.SIGABRT)}})
        os.abort()
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind.startswith("raise"):
        at = f" at {checkpoint}" if kind == "raise-at" else ""
        say({"failure": {"rank": rank, "reason": "exception", "detail": "out of cheese" + at, "signal": 0}})
        os._exit(3)
    if kind == "garbage":
        say({"rubbish": 1})
    if kind == "exit7":
        os._exit(7)
    if kind == "eat":
        held = bytearray(b"x") * (300 << 20)
        time.sleep(60 if held else 0)
    if kind == "chatter":
        for _ in range(20):
            print("x" * (1 << 20), flush=True)
        limit = time.monotonic() + 30  # until the driver has cut it
        while os.fstat(1).st_size > 8 << 20 and time.monotonic() < limit:
            time.sleep(0.01)
    while kind in ("hang", "garbage"):
        time.sleep(60)


def result(request, rank):
    return {
        "result": {
            "id": request["id"],
            "status": "done",
            "detail": str(os.getpid()),
            "replicas": [],
            "steps": rank,
            "nonfinite_state": False,
            "final_digest": "d",
            "replica_digests": [],
            "changed_tensors": [],
            "last_loss": "",
        }
    }


def connect():
    """A name without a slash is an abstract socket's; a path is that of a meeting point's file."""
    if not NAME.startswith("/"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect("\0" + NAME)
        return connection
    with open(NAME) as file:
        _, addresses, port, token = file.read().split("\n")[:4]
    connection = socket.create_connection((addresses.split()[0], int(port)))
    connection.sendall(token.encode() + b"\n")
    return connection


def rank_main(rank):
    connection = connect()

    def say(message):
        connection.sendall((json.dumps(message) + "\n").encode())

    start = os.environ.get("FAKE_RANK", "")
    say({"hello": {"rank": rank, "ranks": RANKS + (start == "miscount"), "pid": os.getpid()}})
    act(start, say, rank)
    if rank == 0:
        say({"ready": {"base_digest": "b", "environment": {}}})
    for line in connection.makefile():
        message = json.loads(line)
        if "quit" in message:
            if start == "stubborn":
                time.sleep(60)
            return
        run = message["run"]
        kind = RUNS.get(run["id"], run.get("drill", run["id"]))
        if rank == RANKS - 1:
            act(kind, say, rank, run["checkpoint"])
        if RANKS > 1 and kind.startswith("first:"):
            time.sleep(0.5)  # as in a collective, rank 0 cannot finish before the others
        if rank == 0 and (not kind.startswith(("abort", "kill", "raise", "hang", "eat")) or RANKS == 1):
            say(result(run, rank))
            if kind == "answer-and-die":
                os._exit(7)


def main():
    if os.environ.get("FAKE_RANK") == "mute":
        time.sleep(60)
    if os.environ.get("FAKE_RANK") == "refuse":
        print("no such data set: digitz", flush=True)
        sys.exit(2)
    if RANKS == 1:
        return rank_main(0)
    children = {}
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)  # as launchers do: killing the launcher's group does not reach a rank
            rank_main(rank)
            os._exit(0)
        children[pid] = rank
    while children:
        pid, status = os.wait()
        children.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            for other in children:
                os.kill(other, signal.SIGTERM)
            sys.exit(128 - code if code < 0 else code)


main()
