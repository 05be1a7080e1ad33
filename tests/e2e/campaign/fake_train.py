#!/usr/bin/env python3
"""Stands in for bitrift-train: speaks the worker protocol (docs/campaign.md) without LibTorch and MPI.

It "trains" by a formula over the checkpoint's bytes, so a campaign over it takes seconds and everything around the
training can be tested: starting, dying, hanging, resuming. Ranks are forked children; the parent plays the launcher.
"""

import argparse
import hashlib
import json
import math
import os
import signal
import socket
import sys
import time

import h5py
import numpy as np
from fake_team import Team, continued, launch, processes, team_of

LAYERS = 3


def read_tensors(path):
    tensors = {}
    with h5py.File(path, "r") as file:

        def visit(name, item):
            if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiu":
                tensors[name] = item[()]

        file.visititems(visit)
    return tensors


def digest(tensors, salt=""):
    total = hashlib.sha256(salt.encode())
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].tobytes())
    return total.hexdigest()[:32]


def noise(seed):
    return int(hashlib.sha256(str(seed).encode()).hexdigest()[:8], 16) / 2**32


def number(value):
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def simulate(request, base, tensors, replicas):
    """The answer to one request: worse the farther the loaded state lies from the base."""
    changed = sorted(k for k in tensors if tensors[k].tobytes() != base[k].tobytes())
    with np.errstate(all="ignore"):
        far = float(sum(np.abs(tensors[k].astype(np.float64) - base[k]).sum() for k in changed))
    seed = request.get("order_seed", "")
    finite = np.isfinite(far)
    loss = 0.1 + 0.01 * noise(seed) + min(far, 50.0) if finite else float("nan")
    accuracy = max(0.1, 0.97 - 0.005 * noise(seed) - 0.1 * min(far, 50.0)) if finite else 0.1
    evaluations = []
    for epoch in range(request["epochs"] or 1):
        evaluation = {
            "epoch": 10 + epoch,
            "step": 20 * (epoch + 1),
            "test_loss": number(loss),
            "test_accuracy": accuracy,
            "test_capped_loss": number(np.minimum(loss, math.log(10))),
        }
        if request["epochs"]:
            evaluation |= {"train_loss": number(loss), "train_accuracy": accuracy}
        else:
            evaluation["step"] = 0
        evaluations.append(evaluation)
    # Another processor's kernels: the same on this machine again and again, other bits than elsewhere.
    kernels = os.environ.get("FAKE_TRAIN_KERNELS", "")
    final = digest(tensors, f"{seed}/{request['epochs']}{kernels}")
    result = {
        "id": request["id"],
        "status": "done" if finite else "nonfinite",
        "detail": "" if finite else "loss",
        "replicas": [evaluations] * replicas,
        "steps": 20 * request["epochs"],
        "test_targets": 1000,
        "nonfinite_state": not finite,
        "final_digest": final,
        "replica_digests": [final] * replicas,
        "changed_tensors": changed,
        "last_loss": float(loss).hex(),
        "seconds": 0.001,
    }
    if not finite:
        result["nonfinite_step"] = 1
    return result


def strikes(request):
    """Whether ranks fail in this run: it goes as far as the fault, and they are mortal or nobody would recover."""
    reached = any(fault["step"] <= 20 * request["epochs"] for fault in processes(request))
    return reached and (not os.environ.get("FAKE_TRAIN_IMMORTAL") or request["recovery"]["kind"] == "none")


def recovered(request, result, recoveries):
    """The answer to a request in which ranks failed. recoveries: None where there was none."""
    if recoveries is None:
        ranks = sorted({fault["rank"] for fault in processes(request)})
        detail = f"rank {ranks[0]} failed, and nobody holds its stage"
        lost = {"status": "unrecovered", "detail": detail, "recoveries": [Team.given_up(request)]}
        return result | lost | {"replicas": [[] for _ in result["replicas"]]}
    if forgotten := request["recovery"].get("forget"):
        final = hashlib.sha256(json.dumps(forgotten).encode()).hexdigest()[:32]
        result |= {"final_digest": final, "replica_digests": [final] * len(result["replicas"])}
    return result | {"recoveries": recoveries}


def drill(kind, say, rank):
    if kind in ("abort", "segfault"):
        number_of = signal.SIGABRT if kind == "abort" else signal.SIGSEGV
        say({"failure": {"rank": rank, "reason": "signal", "detail": "", "signal": int(number_of)}})
        signal.signal(number_of, signal.SIG_DFL)
        os.kill(os.getpid(), number_of)
    if kind == "raise":
        say({"failure": {"rank": rank, "reason": "exception", "detail": "drill: raise", "signal": 0}})
        os._exit(1)
    while kind == "hang":
        time.sleep(3600)


def rank_main(options, team, joined=None):
    """joined: where a newcomer says that it has connected."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect("\0" + options.connect)

    def say(message):
        connection.sendall((json.dumps(message) + "\n").encode())

    def join(index, told):
        os.close(connection.fileno())  # also that of the lines that are read from it
        team.enter(index)
        rank_main(options, team, told)

    say({"hello": {"rank": team.rank, "ranks": team.total, "pid": os.getpid()}})
    if joined is not None:
        os.write(joined, b"!")
        os.close(joined)
    if os.environ.get("FAKE_TRAIN_REFUSE"):
        print("fake_train: refuses to start", file=sys.stderr, flush=True)
        os._exit(int(os.environ["FAKE_TRAIN_REFUSE"]))
    base = options.tensors
    if joined is None and team.rank == 0:
        say({"ready": {"base_digest": digest(base), "environment": {"trainer": "fake"}}})
    replicas = options.ranks if options.parallel == "data" else 1
    runs = 0
    for line in connection.makefile():
        message = json.loads(line)
        if message.get("quit"):
            return
        request = message["run"]
        if team.rank == 0 and "FAKE_TRAIN_REQUESTS" in os.environ:
            with open(os.path.join(os.environ["FAKE_TRAIN_REQUESTS"], str(os.getpid())), "a") as file:
                file.write(request["id"] + "\n")
        if request.get("drill"):
            if team.rank == options.ranks - 1:
                drill(request["drill"], say, team.rank)
            connection.recv(1)  # as in a collective: a rank cannot finish without the others
            return
        result = None
        if team.rank < options.ranks:
            tensors = base if options.drill == "ignore-file" else read_tensors(request["checkpoint"])
            if note := os.environ.get("FAKE_TRAIN_NOTE"):
                open(note, "a").close()
            time.sleep(float(os.environ.get("FAKE_TRAIN_SECONDS", "0")))
            result = simulate(request, base, tensors, replicas)
        runs += 1
        recovery = None
        struck = strikes(request)
        if struck:
            recovery = team.meet(request, join)
        if team.leads():
            result = result or simulate(request, base, read_tensors(request["checkpoint"]), replicas)
            if struck:
                result = recovered(request, result, recovery and [recovery])
            elif "relaunched" in request:
                result = recovered(request, result, continued(request["relaunched"]))
            if os.environ.get("FAKE_TRAIN_DRIFT") and runs > 3:
                result["replicas"][0][0]["test_loss"] += 1e-9
            say({"result": result})
        if struck and recovery is None:
            os._exit(3)


def serve(options):
    options.tensors = read_tensors(options.base)
    sys.exit(launch(team_of(options.ranks, sys.argv), lambda team: rank_main(options, team)))


def train(options):
    with open(options.spec) as file:
        spec = json.load(file)
    time.sleep(float(os.environ.get("FAKE_TRAIN_BASE_SECONDS", "0")))
    random = np.random.default_rng(spec.get("seed", 0))
    spec.pop("parallel", None)
    with h5py.File(options.output, "w") as file:
        file.attrs["spec"] = json.dumps(spec)
        for layer, shape in (("conv1", (6, 1, 3, 3)), ("fc2", (8, 6)), ("fc10", (10, 8))):
            for kind, dims in (("weight", shape), ("bias", shape[:1])):
                values = random.uniform(0.25, 0.75, dims).astype("<f4")
                file[f"model/{layer}.{kind}"] = values
                file[f"optimizer/momentum_buffer/{layer}.{kind}"] = values * np.float32(0.01)


def describe(options):
    """Refuses as bitrift-train does what cannot be cut from its model."""
    if options.parallel == "pipeline" and options.ranks > LAYERS:
        print(
            f"bitrift-train: error: {options.spec}:1: parallel: a pipeline of {options.ranks} stages cannot be cut "
            f"from a model of {LAYERS} layers: use 1 to {LAYERS} ranks",
            file=sys.stderr,
        )
        sys.exit(2)
    if options.json:
        points = {"forward": 1, "backward": 1, "reduce": 2, "update": 3, "save": 4, "evaluate": 2}
        print(json.dumps({"kill_points": {"steps_per_epoch": 20, "stages": [points]}}))


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("serve")
    command.add_argument("base")
    command.add_argument("--connect", required=True)
    command.add_argument("--parallel", required=True)
    command.add_argument("--ranks", type=int, required=True)
    command.add_argument("--micro-batches", type=int, required=True)
    command.add_argument("--drill", default="")
    command.add_argument("--recovery")
    command.add_argument("--reserve", type=int, default=0)
    command.add_argument("--detector", action="store_true")
    command.set_defaults(run=serve)
    command = commands.add_parser("train")
    command.add_argument("spec")
    command.add_argument("-o", dest="output", required=True)
    command.set_defaults(run=train)
    command = commands.add_parser("describe")
    command.add_argument("spec")
    command.add_argument("--parallel", required=True)
    command.add_argument("--ranks", type=int, required=True)
    command.add_argument("--micro-batches", type=int, required=True)
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=describe)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
