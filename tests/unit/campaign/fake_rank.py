#!/usr/bin/env python3
"""Ranks that do nothing but talk, or die in a way that the test names.

FAKE_RANK says what they do at the start. What they do in a run is the entry of its id in FAKE_RUNS (JSON), else its
drill, else its id. Called as the driver calls a worker: serve BASE --connect NAME ... --ranks R. The parent plays the
launcher.
"""

import json
import os
import pathlib
import signal
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e" / "campaign"))

from fake_team import launch, team_of

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


def lose_ranks(team, run, kind, say, join):
    """A run in which ranks fail. kind: see Team.meet; also

    vanish: all end without an answer; last-words: the others end before one answers that nobody can go on.
    """
    recovery = team.meet(run, join, kind)
    if kind == "vanish":
        os._exit(0)
    if kind == "last-words" and not team.leads():
        os._exit(0)
    if team.leads():
        if kind == "last-words":
            time.sleep(0.3)
        answer = result(run, team.rank)
        if recovery is None:
            answer["result"]["status"] = "unrecovered"
        answer["result"]["recoveries"] = [recovery or team.given_up(run)]
        say(answer)
    if recovery is None:
        os._exit(3)


def rank_main(team, joined=None):
    connection = connect()
    rank = team.rank

    def say(message):
        connection.sendall((json.dumps(message) + "\n").encode())

    def join(index, told):
        os.close(connection.fileno())  # also that of the lines that are read from it
        team.enter(index)
        rank_main(team, told)

    start = os.environ.get("FAKE_RANK", "")
    say({"hello": {"rank": rank, "ranks": team.total + (start == "miscount"), "pid": os.getpid()}})
    if joined is not None:
        os.write(joined, b"!")
    else:
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
        if "faults" in run:
            lose_ranks(team, run, kind, say, join)
            continue
        rank = team.rank
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
    team = team_of(RANKS, sys.argv)
    if team.total == 1:
        team.enter(0)
        return rank_main(team)
    sys.exit(launch(team, rank_main))


main()
