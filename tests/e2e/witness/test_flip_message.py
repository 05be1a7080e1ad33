"""`--flip-message`: what a flipped bit of a message of gradients does, predicted to the bit in Python.

The prediction knows what `bitrift mesh plan` writes, docs/mesh.md and PyTorch, and shares no code with bitrift.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from train_support import LENET, call, read_trace, run, tensors, write_spec
from witness_run import Witness

BITRIFT = Path(os.environ["BITRIFT_BIN_DIR"]) / "bitrift"
PATTERN = {"float32": np.uint32, "float64": np.uint64}
WHOLE, HOLE = ("--mesh", "2x2"), ("--mesh", "2x3", "--dead", "0,1")
OPTIONS = {"lenet": {"model": LENET, "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}}}


def planned(folder: Path, mesh: tuple[str, ...], size: int) -> dict[str, Any]:
    path = folder / "plan.json"
    words = [BITRIFT, "mesh", "plan", *mesh, "--schedule", "trees", "--bytes", str(size), "-o", path]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return json.loads(path.read_text())


def live(plan: dict[str, Any]) -> list[int]:
    where = plan["topology"]
    return sorted(set(range(where["rows"] * where["columns"])) - set(where["dead"]))


def summed(plan: dict[str, Any], terms: list[np.ndarray], flip: dict[str, int] | None) -> tuple[list[np.ndarray], dict]:
    """Every live chip's buffer after the plan ran, with that bit of one message flipped, and what it was and became."""
    buffers = dict(zip(live(plan), (term.copy() for term in terms), strict=True))
    parts = {chip: np.array_split(buffer, plan["chunks"]) for chip, buffer in buffers.items()}
    seen: dict[str, Any] = {}
    for index, (source, target, chunk, kind, _) in enumerate(plan["sends"]):  # listed after what they wait for
        message = parts[source][chunk].copy()
        if flip is not None and flip["send"] == index:
            patterns = message.view(PATTERN[message.dtype.name])
            old = int(patterns[flip["element"]])
            patterns[flip["element"]] ^= patterns.dtype.type(1 << flip["bit"])
            columns = plan["topology"]["columns"]
            chips = [dict(zip(("row", "column"), divmod(chip, columns), strict=True)) for chip in (source, target)]
            digits = message.dtype.itemsize * 2
            numbers = [f"0x{pattern:0{digits}x}" for pattern in (old, int(patterns[flip["element"]]))]
            seen = {"link": flip, "from": chips[0], "to": chips[1], "chunk": chunk, "kind": kind}
            seen |= {"dtype": message.dtype.name, "old": numbers[0], "new": numbers[1]}
        mine = parts[target][chunk]
        np.copyto(mine, mine + message if kind == "add" else message)
    return [np.concatenate(parts[chip]) for chip in live(plan)], seen


def walk(
    witnesses: list[Witness], steps: list[dict], plan: dict[str, Any], flip: dict[str, int]
) -> tuple[dict[str, Any], list[bool]]:
    """All steps of a trace on all replicas; what was altered, and whose sum in that step was not as without it."""
    seen: dict[str, Any] = {}
    hit: list[bool] = []
    for number, step in enumerate(steps, 1):
        share = len(step["indices"]) // len(witnesses)
        losses = [one.backward(step, step["indices"][r * share : (r + 1) * share]) for r, one in enumerate(witnesses)]
        assert float.fromhex(step["loss"]) == sum(losses) / len(witnesses), f"step {number}"
        terms = []
        for one in witnesses:
            parts = [parameter.grad * (1 / len(witnesses)) for parameter in reversed(one.parameters)]
            terms.append(torch.cat([part.flatten() for part in parts]).numpy())
        sums, altered = summed(plan, terms, flip if number == flip["step"] else None)
        if altered:
            clean, _ = summed(plan, terms, None)
            hit = [one.tobytes() != other.tobytes() for one, other in zip(sums, clean, strict=True)]
            seen = altered
        for one, total in zip(witnesses, sums, strict=True):
            rest = torch.from_numpy(total)
            for parameter in reversed(one.parameters):
                parameter.grad = rest[: parameter.numel()].view_as(parameter).clone()
                rest = rest[parameter.numel() :]
            one.update()
    return seen, hit


def spec_of(**more: Any) -> dict[str, Any]:
    data = {"name": "digits", "train_samples": 240, "test_samples": 40}
    return OPTIONS["lenet"] | {"data": data, "batch_size": 60, "epochs": 4, "seed": 31} | more


def flipped_run(folder: Path, spec: dict[str, Any], mesh: tuple[str, ...], text: str) -> tuple[dict, list[dict]]:
    path, start = folder / "spec.json", folder / "start.h5"
    path.write_text(json.dumps(spec))
    run("train", path, "-o", start, "--steps", 2, "--parallel", "data", *mesh)
    options = ("-o", folder / "end.h5", "--trace", folder / "trace.jsonl", "--flip-message", text)
    result = run("resume", start, "--steps", 3, "--parallel", "data", *mesh, *options)
    return result, read_trace(folder / "trace.jsonl")[1]


@pytest.mark.parametrize(
    "mesh, precision, kind",
    [(WHOLE, "fp32", "add"), (WHOLE, "fp32", "copy"), (HOLE, "fp32", "copy"), (HOLE, "fp64", "add")],
    ids=["2x2 add", "2x2 copy", "2x3 with a hole, copy", "2x3 with a hole, add, fp64"],
)
def test_a_flip_travels_as_the_plan_says(tmp_path: Path, mesh: tuple[str, ...], precision: str, kind: str) -> None:
    spec = spec_of(precision=precision)
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    words = ("describe", tmp_path / "spec.json", "--parallel", "data", *mesh)
    messages = run(*words)["messages"]
    (elements,) = messages["buckets"]
    plan = planned(tmp_path, mesh, elements * (8 if precision == "fp64" else 4))
    assert messages["sends"] == [[send[2], send[3]] for send in plan["sends"]]
    assert (messages["chunks"], messages["steps_per_epoch"]) == (plan["chunks"], 4)
    # The first copy is one from a root, so that chips beyond the receiver get its number, too.
    send = next(i for i, one in enumerate(plan["sends"]) if one[3] == kind)
    flip = {"step": 2, "bucket": 0, "send": send, "element": 5, "bit": 61 if precision == "fp64" else 29}
    result, steps = flipped_run(tmp_path, spec, mesh, f"{send}@2:0.5.{flip['bit']}")
    saved, finished = tensors(tmp_path / "start.h5"), tensors(tmp_path / "end.h5")
    witnesses = [Witness(spec, saved, replica) for replica in range(len(live(plan)))]
    seen, hit = walk(witnesses, steps, plan, flip)
    assert result["altered_messages"] == [seen]
    digests = result["replica_digests"]
    if kind == "add":
        assert all(hit) and len(set(digests)) == 1
    else:
        # Replicas beyond that link have one state, the others another.
        assert 0 < sum(hit) < len(hit) and len(set(digests)) == 2
        assert [digest == digests[hit.index(True)] for digest in digests] == hit
    for replica, witness in enumerate(witnesses):
        witness.check_state(finished, replica)


def refused(*words: object) -> str:
    done = call(*words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("bitrift-train: error: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "text, says",
    [
        ("0@1:0.0", "no '.' after the element; expected SEND@STEP:BUCKET.ELEMENT.BIT"),
        ("0@0:0.0.1", "'0' is not a valid step (they begin at 1)"),
        ("0@1:0.0.x", "'x' is not a valid bit"),
        ("99999@1:0.0.1", "there is no send 99999; there are 0 to"),
        ("0@1:7.0.1", "there is no bucket 7; there are 0 to 0"),
        ("0@1:0.999999.1", "there is no element 999999; there are 0 to"),
        ("0@1:0.0.32", "there is no bit 32; there are 0 to 31"),
        ("0@4:0.0.1", "there is no step 4; the run takes 3"),
    ],
)
def test_a_message_that_does_not_exist_is_refused(tmp_path: Path, text: str, says: str) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, {"name": "sgd", "learning_rate": 0.05})
    words = ("train", spec, "-o", tmp_path / "end.h5", "--steps", 3, "--parallel", "data", *WHOLE)
    said = refused(*words, "--flip-message", text)
    assert says in said and f"{text}" in said


def test_flips_need_a_mesh_and_no_recovery(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, {"name": "sgd", "learning_rate": 0.05})
    words = ("train", spec, "-o", tmp_path / "end.h5", "--steps", 3, "--parallel", "data")
    flip = ("--flip-message", "0@1:0.0.1")
    assert "only on a mesh are messages planned; add --mesh" in refused(*words, "--ranks", 2, *flip)
    assert "cannot be combined with --on-failure shrink" in refused(*words, *WHOLE, *flip, "--on-failure", "shrink")
    assert "given twice" in refused(*words, *WHOLE, *flip, *flip)


def test_a_flip_that_the_run_does_not_reach_is_reported(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, {"name": "sgd", "learning_rate": 1e30})
    words = ("train", spec, "-o", tmp_path / "end.h5", "--steps", 6, "--parallel", "data", *WHOLE, "--json")
    done = call(*words, "--flip-message", "0@1:0.0.0", "--flip-message", "1@6:0.0.30")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "nonfinite" and result["steps"] < 6
    assert [altered["link"]["step"] for altered in result["altered_messages"]] == [1]
    assert "a message was to be altered at 1@6:0.0.30, which the run never reached" in done.stderr
