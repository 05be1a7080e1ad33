"""How far a fault strayed, as bitrift-train counts it, against runs of plain PyTorch with and without the fault."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from philox import epoch_order
from train_support import STRATEGIES, run, serving, tensors, write_spec
from witness_run import Witness

MODEL = {"name": "mlp", "hidden": [24, 12], "norm": "batch"}
SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005}
ADAM = {"name": "adam", "learning_rate": 0.002}
DATA = {"name": "digits", "train_samples": 256, "test_samples": 64}
BATCH, SEED, BASE_STEPS = 32, 11, 3
LAST = 8 - BASE_STEPS + 8  # steps of two epochs, the one under way counts
STEPS = [0, 1, 4, 9]
Numbers = dict[tuple[str, int | None], dict[str, float]]
Flip = tuple[str, int, int]  # path, element, bit


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for optimizer in (SGD, ADAM):
        folder = tmp_path_factory.mktemp(optimizer["name"])
        more = {"data": DATA, "batch_size": BATCH, "epochs": 6, "seed": SEED}
        spec = write_spec(folder / "spec.json", MODEL, optimizer, **more)
        found[optimizer["name"]] = folder / "base.h5"
        run("train", spec, "-o", found[optimizer["name"]], "--steps", BASE_STEPS)
    return found


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base whose states take more than a MiB."""
    folder = tmp_path_factory.mktemp("wide")
    model = {"name": "mlp", "hidden": [512, 256]}
    spec = write_spec(folder / "spec.json", model, SGD, data=DATA, batch_size=BATCH, epochs=4, seed=SEED)
    run("train", spec, "-o", folder / "base.h5", "--steps", BASE_STEPS)
    return folder / "base.h5"


def flipped(values: np.ndarray, element: int, bit: int) -> np.ndarray:
    patterns = values.copy().reshape(-1).view(f"u{values.itemsize}")
    patterns[element] ^= patterns.dtype.type(1 << bit)
    return patterns.view(values.dtype).reshape(values.shape)


def parameter(base: Path, name: str, dimensions: int) -> str:
    """The first parameter of this name and number of dimensions."""
    return min(
        path
        for path, value in tensors(base).items()
        if path.startswith("model/") and path.endswith(name) and value.ndim == dimensions
    )


def with_flip(base: Path, path: Path, flip: Flip) -> Path:
    shutil.copy(base, path)
    with h5py.File(path, "r+") as file:
        file[flip[0]][...] = flipped(file[flip[0]][()], *flip[1:])
    return path


def batches() -> list[dict[str, Any]]:
    """The steps after the base, from data-order.md alone."""
    steps = []
    for step in range(BASE_STEPS, BASE_STEPS + LAST):
        epoch, place = divmod(step, 256 // BATCH)
        rows = epoch_order(SEED, epoch, 256)[place * BATCH : (place + 1) * BATCH]
        steps.append({"epoch": epoch, "indices": rows.tolist()})
    return steps


def python_states(
    optimizer: dict[str, Any], files: list[dict[str, np.ndarray]], local_buffers: bool, parts: int = 1
) -> list[list[dict[str, np.ndarray]]]:
    """states[step][replica] of a run whose replica r begins with the tensors of files[r]."""
    spec = {"model": MODEL, "data": DATA, "optimizer": optimizer, "batch_size": BATCH, "epochs": 6, "seed": SEED}
    witnesses = [Witness(spec, saved) for saved in files]

    def snapshot() -> list[dict[str, np.ndarray]]:
        return [{path: value.copy() for path, value in witness.state().items()} for witness in witnesses]

    states = [snapshot()]
    for step in batches():
        share = BATCH // len(witnesses)
        for number, witness in enumerate(witnesses):
            witness.backward(step, step["indices"][number * share : (number + 1) * share], parts)
        for first, *others in zip(*(witness.parameters for witness in witnesses), strict=True):
            assert first.grad is not None
            total = first.grad.clone()
            for other in others:
                total += other.grad
            for parameter in (first, *others) if others else ():
                parameter.grad = total * (1 / len(witnesses))
        for witness in witnesses:
            witness.update()
            if not local_buffers:
                for mine, theirs in zip(witness.model.buffers(), witnesses[0].model.buffers(), strict=True):
                    mine.copy_(theirs)
        states.append(snapshot())
    return states


def numbers_of(golden: np.ndarray, other: np.ndarray) -> dict[str, float]:
    a1, a2 = golden.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    bits = f"u{golden.itemsize}"
    altered = golden.reshape(-1).view(bits) != other.reshape(-1).view(bits)
    with np.errstate(all="ignore"):
        ratios = np.abs(a2 - a1)[a1 != 0] / np.abs(a1[a1 != 0])
        return {
            "elements": a1.size,
            "altered": int(altered.sum()),
            "nonfinite": int((~np.isfinite(a2)).sum()),
            "norm": float(np.linalg.norm(a2 - a1) / np.linalg.norm(a1)),
            "mean": float(ratios.mean()),
            "max": float(ratios.max()),
        }


def expected(golden: list[dict[str, np.ndarray]], other: list[dict[str, np.ndarray]], prefixes: tuple) -> Numbers:
    """By (tensor, replica); replica None where all have the same."""
    found: Numbers = {}
    for path in golden[0]:
        if not path.startswith(prefixes):
            continue
        pairs = [(a[path], b[path]) for a, b in zip(golden, other, strict=True)]
        differing = {r: numbers_of(a, b) for r, (a, b) in enumerate(pairs) if a.tobytes() != b.tobytes()}
        alike = len(differing) == len(pairs) and all(one == differing[0] for one in differing.values())
        if alike:
            found[path, None] = differing[0]
        else:
            found |= {(path, r): one for r, one in differing.items()}
    return found


def reported(entry: dict[str, Any]) -> Numbers:
    replicas = entry.get("replica", [None] * len(entry["tensors"]))
    names = ("elements", "altered", "nonfinite", "norm", "mean", "max")
    return {
        (tensor, replicas[i]): {name: float(entry[name][i]) for name in names}
        for i, tensor in enumerate(entry["tensors"])
    }


def check(entry: dict[str, Any], wanted: Numbers) -> None:
    found = reported(entry)
    assert set(found) == set(wanted)
    for key, numbers in wanted.items():
        for name, value in numbers.items():
            exact = name in ("elements", "altered", "nonfinite")
            assert found[key][name] == (value if exact else pytest.approx(value, rel=1e-12)), (key, name)


def ask(base: Path, file: Path, options: list[str], ranks: int, folder: Path, **more: Any) -> dict[str, Any]:
    """One golden run and one trial with propagation in a worker of their own."""
    wanted = {"steps": STEPS, "optimizer": True} | more.pop("propagation", {})
    with serving(base, options, ranks, folder) as driver:
        golden = driver.ask(base, 2, golden=True, propagation=wanted)
        assert golden["status"] == "done" and golden["steps"] == LAST and "propagation" not in golden
        result = driver.ask(file, 2, propagation=wanted, **more)
        # What is kept, and runs that are repeated to keep more, change no later run.
        assert driver.ask(base, 2, golden=True) | {"seconds": 0} == golden | {"seconds": 0}
        assert driver.quit() == 0
    return result


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("bit", [26, 12], ids=["exponent", "mantissa"])
def test_a_serial_trial_strays_as_in_python(
    bases: dict[str, Path], tmp_path: Path, optimizer: dict[str, Any], bit: int
) -> None:
    base = bases[optimizer["name"]]
    flip = (parameter(base, "weight", 2), 70, bit)
    file = with_flip(base, tmp_path / "flip.h5", flip)
    result = ask(base, file, [], 1, tmp_path)
    golden = python_states(optimizer, [tensors(base)], True)
    other = python_states(optimizer, [tensors(file)], True)
    assert [entry["step"] for entry in result["propagation"]] == [*STEPS, LAST]
    assert result["propagation"][0]["tensors"] == [flip[0]]
    for entry in result["propagation"]:
        wanted = expected(golden[entry["step"]], other[entry["step"]], ("model/", "optimizer/"))
        assert entry["step"] == 0 or any(path.startswith("optimizer/") for path, _ in wanted)
        check(entry, wanted)
    model_only = ask(base, file, [], 1, tmp_path, propagation={"optimizer": False, "final": False})
    assert [entry["step"] for entry in model_only["propagation"]] == STEPS
    for entry in model_only["propagation"]:
        check(entry, expected(golden[entry["step"]], other[entry["step"]], ("model/",)))


@pytest.mark.parametrize("semantics", ["ddp", "horovod"])
@pytest.mark.parametrize("replicas", [[], [1]], ids=["all", "one"])
def test_replicas_that_differ_are_listed_apart(
    bases: dict[str, Path], tmp_path: Path, semantics: str, replicas: list[int]
) -> None:
    base = bases["sgd"]
    weight = parameter(base, "weight", 2)
    file = with_flip(base, tmp_path / "flip.h5", (weight, 5, 26))
    options = ["--parallel", "data", "--ranks", "2", "--semantics", semantics, "--sync-on-resume", "none"]
    result = ask(base, file, options, 2, tmp_path, replicas=replicas)
    clean, altered = tensors(base), tensors(file)
    local = semantics == "horovod"
    golden = python_states(SGD, [clean, clean], local)
    other = python_states(SGD, [clean if replicas else altered, altered], local)
    assert [entry["step"] for entry in result["propagation"]] == [*STEPS, LAST]
    for entry in result["propagation"]:
        check(entry, expected(golden[entry["step"]], other[entry["step"]], ("model/", "optimizer/")))
    first, last = result["propagation"][0], result["propagation"][-1]
    assert first["tensors"] == [weight]
    assert first.get("replica") == ([1] if replicas else None)
    if local or replicas:
        assert len(set(last["replica"])) > 1
    else:
        assert "replica" not in last


def test_stages_of_a_pipeline_find_together_what_one_process_finds(bases: dict[str, Path], tmp_path: Path) -> None:
    base = bases["sgd"]
    weight = parameter(base, "weight", 2)
    file = with_flip(base, tmp_path / "flip.h5", (weight, 5, 28))
    parts = ["--micro-batches", "2"]
    whole = ask(base, file, parts, 1, tmp_path)
    staged = ask(base, file, STRATEGIES["pipeline2"], 2, tmp_path)
    assert staged["propagation"] == whole["propagation"]
    hybrid = ["--parallel", "hybrid", "--ranks", "4", "--stages", "2"]
    data = ["--parallel", "data", "--ranks", "2"]
    assert ask(base, file, hybrid, 4, tmp_path)["propagation"] == ask(base, file, data, 2, tmp_path)["propagation"]
    golden = python_states(SGD, [tensors(base)], True, 2)
    other = python_states(SGD, [tensors(file)], True, 2)
    for entry in whole["propagation"]:
        check(entry, expected(golden[entry["step"]], other[entry["step"]], ("model/", "optimizer/")))


def test_a_run_that_ends_before_a_step_has_no_entry_for_it(bases: dict[str, Path], tmp_path: Path) -> None:
    base = bases["sgd"]
    weight = parameter(base, "weight", 2)
    shutil.copy(base, tmp_path / "nan.h5")
    with h5py.File(tmp_path / "nan.h5", "r+") as file:
        file[weight][0] = np.nan
        file[weight][1, 0] = -np.inf
    result = ask(base, tmp_path / "nan.h5", [], 1, tmp_path)
    assert result["status"] == "nonfinite" and result["steps"] == 0
    (entry,) = result["propagation"]
    row = tensors(base)[weight].shape[1]
    assert entry["step"] == 0 and entry["tensors"] == [weight]
    assert entry["altered"] == [row + 1] and entry["nonfinite"] == [row + 1]
    assert entry["norm"] == entry["mean"] == entry["max"] == ["NaN"]


@pytest.mark.parametrize("layout", ["serial", "data2", "pipeline2"])
def test_memory_for_few_states_changes_nothing(wide: Path, tmp_path: Path, layout: str) -> None:
    ranks, base = {"serial": 1, "data2": 2, "pipeline2": 2}[layout], wide
    weight = parameter(base, "weight", 2)
    files = [with_flip(base, tmp_path / f"{bit}.h5", (weight, 5, bit)) for bit in (30, 26, 23)]
    results = []
    for memory in (1024, 2):  # a state with its momentum takes 1.3 MB, that of a stage about half
        wanted = {"steps": STEPS, "optimizer": True, "memory_mib": memory}
        with serving(base, STRATEGIES[layout], ranks, tmp_path) as driver:
            golden = driver.ask(base, 2, golden=True, propagation=wanted)
            found = [driver.ask(file, 2, altered=[weight], propagation=wanted) for file in files]
            found.append(driver.ask(files[1], 2, altered=[weight]))
            found.append(driver.ask(base, 2, golden=True))
            assert found[-1]["final_digest"] == golden["final_digest"]
            assert driver.quit() == 0
        results.append([one | {"seconds": 0} for one in found])
    assert results[0] == results[1]
    assert [len(one["propagation"]) for one in results[0][:3]][1:] == [5, 5]
    assert results[0][1]["final_digest"] == results[0][3]["final_digest"]


@pytest.mark.parametrize("layout", ["serial", "data2", "pipeline2"])
@pytest.mark.parametrize("memory", [1024, 2], ids=["all states", "few states"])
def test_data_orders_that_take_turns_stray_from_their_own_golden_runs(
    wide: Path, tmp_path: Path, layout: str, memory: int
) -> None:
    ranks = {"serial": 1, "data2": 2, "pipeline2": 2}[layout]
    wanted = {"steps": STEPS, "optimizer": True, "memory_mib": memory}
    orders = [SEED, 5, 6]
    weight = parameter(wide, "weight", 2)
    files = [with_flip(wide, tmp_path / f"{bit}.h5", (weight, 5, bit)) for bit in (26, 12)]

    def work(turns: list[int]) -> dict[tuple[int, int], dict[str, Any]]:
        found = {}
        with serving(wide, STRATEGIES[layout], ranks, tmp_path) as driver:
            for order in turns:
                golden = driver.ask(wide, 2, golden=True, order_seed=order, propagation=wanted)
                assert golden["status"] == "done"
            for number, file in enumerate(files):
                for order in turns:
                    more = {"altered": [weight], "early_end": True, "propagation": wanted}
                    found[order, number] = driver.ask(file, 2, order_seed=order, **more) | {"seconds": 0}
            assert driver.quit() == 0
        return found

    together = work(orders)
    for order in orders:
        assert work([order]).items() <= together.items()
    assert all(len(one["propagation"]) == 5 for one in together.values())
    assert len({str(one["propagation"][1:]) for one in together.values()}) == len(together)


def test_a_fault_in_the_seed_strays_from_the_golden_run_of_the_order_asked_for(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    base = bases["sgd"]
    seeded = shutil.copy(base, tmp_path / "seed.h5")
    with h5py.File(seeded, "r+") as file:
        file["rng/seed"][...] = np.uint64(5)
    wanted = {"steps": STEPS}
    with serving(base, [], 1, tmp_path) as driver:
        for order in (SEED, 5):
            driver.ask(base, 2, golden=True, order_seed=order, propagation=wanted)
        result = driver.ask(seeded, 2, propagation=wanted, early_end=True)
        elsewhere = driver.ask(seeded, 2, order_seed=6, propagation=wanted, early_end=True)
        same = driver.ask(base, 2, order_seed=5, propagation=wanted, early_end=True)
        assert driver.quit() == 0
    assert [bool(entry["tensors"]) for entry in result["propagation"]] == [False, True, True, True, True]
    assert not any(entry["tensors"] for entry in same["propagation"])
    assert same["final_digest"] == result["final_digest"] == elsewhere["final_digest"]
    assert all(entry["tensors"] for entry in elsewhere["propagation"][1:])


def test_more_states_than_the_memory_can_be_filled_with_are_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", {"name": "mlp", "hidden": [512, 512]}, SGD, data=DATA, batch_size=BATCH)
    run("train", spec, "-o", tmp_path / "base.h5", "--steps", BASE_STEPS)
    with serving(tmp_path / "base.h5", [], 1, tmp_path) as driver:
        wanted = {"steps": list(range(10)), "memory_mib": 1}
        result = driver.ask(tmp_path / "base.h5", 2, golden=True, propagation=wanted)
        assert result["status"] == "rejected" and "set propagation.memory_mib to " in result["detail"]
        wanted["memory_mib"] = int(result["detail"].split()[-1])
        assert driver.ask(tmp_path / "base.h5", 2, golden=True, propagation=wanted)["status"] == "done"
        assert driver.quit() == 0
