"""One checkpoint under every strategy, in every precision, and with replicas that loaded files of their own."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from train_support import PROGRAM, call, run, tensors, write_spec

ADAMW = {"name": "adamw", "learning_rate": 0.002}
MODELS = {
    "gpt": {
        "model": {"name": "gpt", "layers": 2, "heads": 2, "width": 8, "context": 8},
        "data": {"name": "jargon", "train_samples": 64, "test_samples": 16},
    },
    "resnet20": {
        "model": {"name": "resnet20", "width": "small"},
        "data": {"name": "digits", "train_samples": 64, "test_samples": 16},
    },
}
STRATEGIES = {
    "serial": [],
    "ddp": ["--parallel", "data", "--ranks", "2"],
    "horovod": ["--parallel", "data", "--ranks", "2", "--semantics", "horovod"],
    "pipeline": ["--parallel", "pipeline", "--ranks", "2", "--micro-batches", "2"],
    "hybrid": ["--parallel", "hybrid", "--ranks", "4", "--stages", "2"],
}


Start = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """A checkpoint within the first epoch of a model under a strategy, trained once: all tests only read it."""
    folder = tmp_path_factory.mktemp("start")

    @functools.cache
    def saved(name: str, strategy: str) -> Path:
        part = MODELS[name]
        spec = write_spec(folder / f"{name}-{strategy}.json", part["model"], ADAMW, data=part["data"], batch_size=16)
        path = folder / f"{name}-{strategy}.h5"
        run("train", spec, "-o", path, "--steps", 3, *STRATEGIES[strategy])
        path.chmod(0o444)
        return path

    return saved


def same_bits(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(a[key].tobytes() == b[key].tobytes() for key in a)


def replica_paths(path: Path) -> set[str]:
    return {name.removeprefix("replica/1/") for name in tensors(path) if name.startswith("replica/1/")}


# The GPT has no buffers, so all that a strategy could store apart is in the first five.
@pytest.mark.parametrize(
    ("name", "saver"),
    [
        ("resnet20", "serial"),
        pytest.param("resnet20", "ddp", marks=pytest.mark.thorough),
        ("resnet20", "horovod"),
        ("resnet20", "pipeline"),
        pytest.param("resnet20", "hybrid", marks=pytest.mark.thorough),
        pytest.param("gpt", "serial", marks=pytest.mark.thorough),
        ("gpt", "hybrid"),
    ],
)
def test_any_strategy_resumes_what_any_other_saved(start: Start, tmp_path: Path, name: str, saver: str) -> None:
    saved = start(name, saver)
    apart = name == "resnet20" and saver == "horovod"
    assert bool(replica_paths(saved)) == apart
    first = {key: value for key, value in tensors(saved).items() if not key.startswith("replica/")}
    for resumer, options in STRATEGIES.items():
        again = tmp_path / f"again-{resumer}.h5"
        done = call("resume", saved, "--steps", 0, "-o", again, *options)
        assert done.returncode == 0, (resumer, done.stderr)
        remarks = [line for line in done.stderr.splitlines() if "replica 0 is loaded" in line]
        if apart and resumer != "horovod":
            # Two replicas under ddp take their own states, and replica 0's model then goes to both.
            assert same_bits(tensors(again), first), resumer
            assert len(remarks) == (0 if resumer in ("ddp", "hybrid") else 1), (resumer, done.stderr)
        else:
            assert again.read_bytes() == saved.read_bytes(), resumer
            assert not remarks
    if saver != "pipeline":
        return
    # It also goes on: two replicas of one stage or of two compute the same.
    ends = [tmp_path / "end-ddp.h5", tmp_path / "end-hybrid.h5"]
    for end, resumer in zip(ends, ("ddp", "hybrid"), strict=True):
        run("resume", saved, "--steps", 2, "-o", end, *STRATEGIES[resumer])
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_other_rank_counts_take_replica_0_and_say_so(start: Start, tmp_path: Path) -> None:
    saved = start("resnet20", "horovod")
    options = ["--parallel", "data", "--ranks", "4", "--semantics", "horovod"]
    done = call("resume", saved, "--steps", 0, "-o", tmp_path / "four.h5", *options)
    remarks = [line for line in done.stderr.splitlines() if "replica 0 is loaded into all 4" in line]
    assert done.returncode == 0 and len(remarks) == 1, done.stderr
    assert replica_paths(tmp_path / "four.h5") == set()


TORCH_TYPES = {"fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}


def as_torch(path: Path, name: str) -> torch.Tensor:
    """A dataset as h5py reads it."""
    with h5py.File(path) as file:
        return torch.from_numpy(np.asarray(file[name][()]))


@pytest.mark.parametrize("name", MODELS)
def test_a_change_of_precision_is_refused_or_rounded_as_torch_rounds(start: Start, tmp_path: Path, name: str) -> None:
    saved = start(name, "serial")
    converted = [key for key in tensors(saved) if key.startswith(("model/", "optimizer/exp"))]
    for precision, dtype in TORCH_TYPES.items():
        out = tmp_path / f"{precision}.h5"
        run("resume", saved, "--steps", 0, "-o", out, "--precision", precision)
        assert sorted(tensors(out).keys() - {"progress/loss_scale", "progress/growth_tracker"}) == sorted(
            tensors(saved)
        )
        with h5py.File(out) as file:
            stored = file[next(key for key in converted if key.endswith("weight"))]
            if precision == "bf16":
                # HDF5's own description: 1 sign, 8 exponent and 7 mantissa bits; NumPy has no type for it.
                kind = stored.id.get_type()
                assert (kind.get_size(), kind.get_fields(), kind.get_ebias()) == (2, (15, 7, 8, 0, 7), 127)
            else:
                assert stored.dtype == {"fp64": "<f8", "fp16": "<f2"}[precision]
        for key in converted:
            before = as_torch(saved, key)
            after = as_torch(out, key)
            expected = before.to(dtype) if before.is_floating_point() else before
            assert torch.equal(after.to(torch.float64), expected.to(torch.float64)), (precision, key)
        step = next((key for key in tensors(saved) if key.startswith("optimizer/step/")), None)
        assert step is not None and tensors(out)[step].dtype == np.float32
    # Widening loses nothing, so the way back ends at the same bytes; so does autocast, which keeps fp32.
    run("resume", tmp_path / "fp64.h5", "--steps", 0, "-o", tmp_path / "back.h5", "--precision", "fp32")
    assert (tmp_path / "back.h5").read_bytes() == saved.read_bytes()
    run("resume", saved, "--steps", 0, "-o", tmp_path / "cast.h5", "--precision", "autocast-bf16")
    assert same_bits(tensors(tmp_path / "cast.h5"), tensors(saved))


def test_conversion_under_a_strategy_is_the_serial_one(start: Start, tmp_path: Path) -> None:
    saved = start("gpt", "pipeline")
    run("resume", saved, "--steps", 0, "-o", tmp_path / "one.h5", "--precision", "bf16")
    for resumer in ("ddp", "hybrid"):
        out = tmp_path / f"{resumer}.h5"
        run("resume", saved, "--steps", 0, "-o", out, "--precision", "bf16", *STRATEGIES[resumer])
        assert out.read_bytes() == (tmp_path / "one.h5").read_bytes()


def test_a_file_of_another_precision_is_no_replica_file(start: Start, tmp_path: Path) -> None:
    saved = start("gpt", "serial")
    run("resume", saved, "--steps", 0, "-o", tmp_path / "wide.h5", "--precision", "fp64")
    more = ["--replica-file", f"1={tmp_path / 'wide.h5'}", *STRATEGIES["ddp"]]
    done = call("resume", saved, "--steps", 0, "-o", tmp_path / "out.h5", *more)
    assert done.returncode == 2 and "wide.h5" in done.stderr and "spec" in done.stderr, done.stderr
    assert not (tmp_path / "out.h5").exists()


def alter(saved: Path, out: Path) -> Path:
    """One parameter, one buffer and one optimizer slot of another value."""
    shutil.copyfile(saved, out)
    with h5py.File(out, "r+") as file:
        for name in ("model/fc.weight", "model/bn1.running_mean", "optimizer/exp_avg/fc.weight"):
            file[name][...] = file[name][()] + np.float32(1)
    return out


PARAMETER, BUFFER, MOMENT = "model/fc.weight", "model/bn1.running_mean", "optimizer/exp_avg/fc.weight"


@pytest.mark.parametrize(
    ("semantics", "sync", "apart"),
    [
        ("ddp", "none", {PARAMETER, BUFFER, MOMENT}),
        ("ddp", "model", {MOMENT}),
        ("ddp", "", {MOMENT}),
        ("ddp", "model+optimizer", set()),
        ("horovod", "none", {PARAMETER, BUFFER, MOMENT}),
        ("horovod", "model", {BUFFER, MOMENT}),
        ("horovod", "model+optimizer", {BUFFER}),
        ("horovod", "", {BUFFER}),
    ],
)
def test_what_of_an_altered_replica_stays_apart(
    start: Start, tmp_path: Path, semantics: str, sync: str, apart: set[str]
) -> None:
    saved = start("resnet20", "serial")
    altered = alter(saved, tmp_path / "altered.h5")
    options = ["--parallel", "data", "--ranks", "2", "--semantics", semantics]
    options += ["--sync-on-resume", sync] if sync else []
    out = tmp_path / "out.h5"
    run("resume", saved, "--steps", 0, "-o", out, "--replica-file", f"1={altered}", *options)
    assert replica_paths(out) == apart
    stored, expected = tensors(out), tensors(altered)
    for name in apart:
        assert stored[f"replica/1/{name}"].tobytes() == expected[name].tobytes()
    with h5py.File(out) as file:
        assert file.attrs.get("replicas") == ("2" if apart else None)


def test_parameters_part_for_good_unless_they_are_sent_again(start: Start, tmp_path: Path) -> None:
    saved = start("resnet20", "serial")
    altered = alter(saved, tmp_path / "altered.h5")
    common = ["resume", saved, "--replica-file", f"1={altered}", *STRATEGIES["ddp"], "--sync-on-resume", "none"]
    parted = tmp_path / "parted.h5"
    run(*common, "--steps", 2, "-o", parted)
    assert PARAMETER in replica_paths(parted) and BUFFER not in replica_paths(parted)
    run(*common, "--steps", 1, "-o", tmp_path / "one.h5", "--resync-every", 5)
    assert PARAMETER in replica_paths(tmp_path / "one.h5"), "step 4 is not a multiple of 5"
    run(*common, "--steps", 2, "-o", tmp_path / "healed.h5", "--resync-every", 5)
    left = replica_paths(tmp_path / "healed.h5")
    assert left and all(path.startswith("optimizer/") for path in left), left


def test_tools_know_the_tensors_of_another_replica(start: Start, tmp_path: Path) -> None:
    saved = start("resnet20", "serial")
    altered = alter(saved, tmp_path / "altered.h5")
    out = tmp_path / "out.h5"
    options = [*STRATEGIES["ddp"], "--sync-on-resume", "none"]
    run("resume", saved, "--steps", 0, "-o", out, "--replica-file", f"1={altered}", *options)

    def tool(*arguments: object) -> str:
        command = [str(PROGRAM.parent / "bitrift"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    listed = {tensor["path"]: tensor["role"] for tensor in json.loads(tool("ls", out, "--json"))["tensors"]}
    for path, role in ((PARAMETER, "weight"), (BUFFER, "running_stat"), (MOMENT, "exp_avg")):
        assert listed[path] == role and listed[f"replica/1/{path}"] == role
    injected = tmp_path / "injected.h5"
    tool("inject", out, "-o", injected, "--tensor", "replica/1/**", "--role", "weight", "--count", 3, "--seed", 5)
    before, after = tensors(out), tensors(injected)
    changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert changed == {f"replica/1/{PARAMETER}"}
    flipped = before[f"replica/1/{PARAMETER}"].view(np.uint32) ^ after[f"replica/1/{PARAMETER}"].view(np.uint32)
    assert sum(int(word).bit_count() for word in flipped.ravel()) == 3
    again = tmp_path / "again.h5"
    run("resume", injected, "--steps", 0, "-o", again, *options)
    assert same_bits(tensors(again), after)
