"""Workers that take run after run: resets, rejections, drills, and the death of their driver."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from train_support import ADAM, LENET, SGD, STRATEGIES, Driver, run, serving, write_spec

LAYOUTS = {"serial": 1, "data2": 2, "pipeline2": 2}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for optimizer in (SGD, ADAM):
        folder = tmp_path_factory.mktemp(optimizer["name"])
        spec = write_spec(folder / "spec.json", LENET, optimizer, epochs=3)
        run("train", spec, "-o", folder / "base.h5", "--epochs", 1)
        found[optimizer["name"]] = folder / "base.h5"
    return found


@pytest.fixture
def base(bases: dict[str, Path]) -> Path:
    return bases["sgd"]


def altered(base: Path, path: Path, changes: dict[str, object]) -> Path:
    """A copy in which whole tensors, or one element given as (index, value), are replaced."""
    shutil.copy(base, path)
    with h5py.File(path, "r+") as file:
        for name, value in changes.items():
            if isinstance(value, tuple):
                file[name][value[0]] = value[1]
            else:
                file[name][...] = value
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("optimizer, slot", [("sgd", "momentum_buffer"), ("adam", "exp_avg")])
def test_runs_do_not_touch_each_other(
    bases: dict[str, Path], tmp_path: Path, layout: str, optimizer: str, slot: str
) -> None:
    base = bases[optimizer]
    golden = run("resume", base, "--epochs", 1, *STRATEGIES[layout])
    nan = altered(base, tmp_path / "nan.h5", {"model/conv1.weight": np.nan})
    momentum = altered(base, tmp_path / "m.h5", {f"optimizer/{slot}/fc3.weight": ((0, 0), np.inf)})
    with serving(base, STRATEGIES[layout], LAYOUTS[layout], tmp_path) as driver:
        first = driver.ask(base, 1)
        stopped = driver.ask(nan, 1)
        looked_at = driver.ask(nan, 0)
        poisoned = driver.ask(momentum, 1)
        cursor = driver.ask(altered(base, tmp_path / "c.h5", {"progress/cursor": 640}), 1)
        reordered = driver.ask(base, 1, order_seed=99)
        again = driver.ask(base, 1)
        assert driver.quit() == 0
    # A fresh process gives the same: workers that agree with each other could all be wrong alike.
    for result in (first, again):
        assert result["final_digest"] == golden["final_digest"]
        assert result["replicas"] == golden["replicas"] and result["steps"] == 22
        assert result["changed_tensors"] == [] and not result["nonfinite_state"]
        assert result["last_loss"] == golden["last_loss"]
    assert stopped["status"] == "nonfinite" and stopped["nonfinite_step"] == 0 and stopped["steps"] == 0
    assert stopped["final_digest"] == looked_at["final_digest"], "the step with that loss was taken"
    assert looked_at["status"] == "nonfinite" and "test loss" in looked_at["detail"]
    assert stopped["nonfinite_state"] and stopped["changed_tensors"] == ["model/conv1.weight"]
    assert poisoned["nonfinite_state"] and poisoned["final_digest"] != golden["final_digest"]
    assert poisoned["changed_tensors"] == [f"optimizer/{slot}/fc3.weight"]
    assert cursor["steps"] == 12 and cursor["changed_tensors"] == ["progress/cursor"]
    assert reordered["status"] == "done" and reordered["final_digest"] != golden["final_digest"]
    assert reordered["changed_tensors"] == []


def small_steps(folder: Path) -> Path:
    """A base of steps so small that many a flipped bit of the momentum is rounded away."""
    spec = write_spec(
        folder / "small.json",
        {"name": "mlp", "hidden": [16]},
        SGD | {"learning_rate": 1e-5},
        data={"name": "digits", "train_samples": 256, "test_samples": 64},
        epochs=3,
    )
    run("train", spec, "-o", folder / "small.h5", "--epochs", 1)
    return folder / "small.h5"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_data_orders_that_take_turns_have_a_golden_run_each(tmp_path: Path, layout: str) -> None:
    base, orders = small_steps(tmp_path), [None, 7, 8]
    momentum, weight = "optimizer/momentum_buffer/fc1.weight", "model/fc1.weight"
    with h5py.File(base) as file:
        slot, value = file[momentum][()], file[weight][()]
    places = [tuple(place) for place in np.argwhere(slot != 0)[::200]]
    changes = [{momentum: (at, np.nextafter(slot[at], np.float32(1)))} for at in places]
    changes.append({weight: ((0, 0), value[0, 0] + 1)})
    files = [altered(base, tmp_path / f"{i}.h5", change) for i, change in enumerate(changes)]

    def ask(driver: Driver, file: Path, order: int | None, **more: object) -> dict:
        seed = {} if order is None else {"order_seed": order}
        return driver.ask(file, 2, **seed, **more) | {"seconds": 0}

    def work(name: str, wanted: list[int | None], early: bool) -> list[list[dict]]:
        """By order: its golden run and its trials, one order after the other for each file."""
        (tmp_path / name).mkdir()
        with serving(base, STRATEGIES[layout], LAYOUTS[layout], tmp_path / name) as driver:
            found = [[ask(driver, base, order, golden=True)] for order in wanted]
            for file, change in zip(files, changes, strict=True):
                for rows, order in zip(found, wanted, strict=True):
                    rows.append(ask(driver, file, order, altered=list(change), early_end=early))
            assert driver.quit() == 0
        return found

    together = work("together", orders, True)
    assert together == [work(f"alone{order}", [order], True)[0] for order in orders]
    complete = work("complete", orders, False)
    returns = [[one.pop("returned_step", None) for one in rows] for rows in together]
    assert together == complete
    for rows, steps in zip(together, returns, strict=True):
        assert steps[0] is None and steps[-1] is None and any(step is not None for step in steps)
        assert all(one["test_targets"] == 64 and one["replicas"][0][1]["test_capped_loss"] > 0 for one in rows)
    assert len({rows[0]["final_digest"] for rows in together}) == len(orders)


def test_a_data_order_without_a_golden_run_goes_to_its_end(tmp_path: Path) -> None:
    base = small_steps(tmp_path)
    with serving(base, [], 1, tmp_path) as driver:
        golden = driver.ask(base, 2, golden=True)
        other = driver.ask(base, 2, order_seed=7, early_end=True)
        same = driver.ask(base, 2, order_seed=11, early_end=True)  # the base's own
        seeded = driver.ask(altered(base, tmp_path / "seed.h5", {"rng/seed": np.uint64(7)}), 2, early_end=True)
        assert driver.quit() == 0
    assert "returned_step" not in other and other["final_digest"] != golden["final_digest"]
    assert same.pop("returned_step") == 1 and same | {"seconds": 0} == golden | {"seconds": 0}
    assert seeded["changed_tensors"] == ["rng/seed"] and "returned_step" not in seeded
    assert seeded["final_digest"] == other["final_digest"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nonsense_is_rejected_and_the_worker_lives_on(base: Path, tmp_path: Path, layout: str) -> None:
    huge = 2**63 - 1
    nonsense = {
        "progress/cursor": [-64, 63, 1408, huge],
        "progress/epoch": [-1, huge],
        "progress/step": [-5, huge],
        "progress/epoch_correct": [-1, 1],
    }
    with serving(base, STRATEGIES[layout], LAYOUTS[layout], tmp_path) as driver:
        golden = driver.ask(base, 0)
        assert golden["status"] == "done" and golden["steps"] == 0 and golden["last_loss"] == ""
        assert "train_loss" not in golden["replicas"][0][0]
        for name, values in nonsense.items():
            for value in values:
                result = driver.ask(altered(base, tmp_path / "a.h5", {name: np.int64(value)}), 1)
                assert result["status"] == "rejected", (name, value)
                assert name in result["detail"] and str(value) in result["detail"]
        missing = shutil.copy(base, tmp_path / "missing.h5")
        with h5py.File(missing, "r+") as file:
            del file["model/fc3.bias"]
        torn = tmp_path / "torn.h5"
        torn.write_bytes(base.read_bytes()[:3000])
        for path, word in {missing: "model/fc3.bias", torn: "torn.h5", tmp_path / "none.h5": "none.h5"}.items():
            result = driver.ask(path, 1)
            assert result["status"] == "rejected" and word in result["detail"], result
            assert "\n" not in result["detail"]
        assert driver.ask(base, 0) | {"seconds": 0} == golden | {"seconds": 0}
        assert driver.quit() == 0


def test_loaded_values_are_honoured(base: Path, tmp_path: Path) -> None:
    changes = {"progress/learning_rate": np.nan, "rng/seed": np.uint64(12), "progress/epoch": np.int64(2**62)}
    digests = set()
    with serving(base, [], 1, tmp_path) as driver:
        digests.add(driver.ask(base, 1)["final_digest"])
        for name, value in changes.items():
            result = driver.ask(altered(base, tmp_path / "a.h5", {name: value}), 1)
            assert result["changed_tensors"] == [name]
            digests.add(result["final_digest"])
            if name == "progress/learning_rate":
                assert result["status"] == "nonfinite" and result["nonfinite_step"] == 1
            else:
                assert result["status"] == "done"
    assert len(digests) == 4


@pytest.mark.parametrize("layout", ["serial", "data2"])
@pytest.mark.parametrize("kind", ["abort", "segfault", "raise", "hang"])
def test_drills_break_the_last_rank(base: Path, tmp_path: Path, kind: str, layout: str) -> None:
    ranks = LAYOUTS[layout]
    with serving(base, STRATEGIES[layout], ranks, tmp_path) as driver:
        driver.send({"run": {"id": "x", "checkpoint": str(base), "epochs": 1, "drill": kind}})
        if kind == "hang":
            driver.files[-1][2].settimeout(1)
            with pytest.raises(TimeoutError):
                driver.read(ranks - 1)
            driver.hang_up()
        else:
            failure = driver.read(ranks - 1)["failure"]
            assert failure["rank"] == ranks - 1
            expected = {"abort": signal.SIGABRT, "segfault": signal.SIGSEGV}.get(kind, 0)
            assert failure["signal"] == expected
            assert failure["reason"] == ("signal" if expected else "exception")
            assert kind == "raise" or failure["detail"]
            if kind == "raise":
                assert failure["detail"] == "drill: raise"
            driver.hang_up()
        assert driver.gone_after(60)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_workers_end_soon_after_their_driver(base: Path, tmp_path: Path, layout: str) -> None:
    with serving(base, STRATEGIES[layout], LAYOUTS[layout], tmp_path) as driver:
        driver.send({"run": {"id": "x", "checkpoint": str(base), "epochs": 100000}})
        driver.hang_up()
        assert driver.gone_after(60)
    with serving(base, STRATEGIES[layout], LAYOUTS[layout], tmp_path) as driver:
        driver.hang_up()
        assert driver.gone_after(60)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_goodbye_is_an_orderly_end_even_when_the_driver_leaves_at_once(
    base: Path, tmp_path: Path, layout: str
) -> None:
    with serving(base, STRATEGIES[layout], LAYOUTS[layout], tmp_path) as driver:
        driver.send({"quit": True})
        driver.hang_up()
        assert driver.process.wait(timeout=20) == 0


def test_a_worker_that_ignores_its_file_reports_what_it_really_loaded(base: Path, tmp_path: Path) -> None:
    nan = altered(base, tmp_path / "nan.h5", {"model/conv1.weight": np.nan})
    with serving(base, ["--drill", "ignore-file"], 1, tmp_path) as driver:
        result = driver.ask(nan, 0)
        assert result["status"] == "done" and result["changed_tensors"] == []


def test_nobody_listens(base: Path) -> None:
    from train_support import PROGRAM

    command = [PROGRAM, "serve", base, "--connect", "bitrift-nobody"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "bitrift-train: error: --connect bitrift-nobody: no driver of this machine listens there"
    )


def test_the_base_of_another_training_is_told(base: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, SGD, seed=77)
    run("train", spec, "-o", tmp_path / "other.h5", "--steps", 1)
    with serving(base, [], 1, tmp_path) as driver:
        result = driver.ask(tmp_path / "other.h5", 0)
        assert result["status"] == "rejected" and "spec" in result["detail"]
        assert json.loads(json.dumps(driver.ready["environment"]))["libtorch"]


def test_messages_of_a_driver_that_makes_no_sense(base: Path, tmp_path: Path) -> None:
    driver = Driver(base, [], 1, tmp_path / "log")
    driver.send({"nonsense": 1})
    assert driver.read(0)["failure"]["reason"] == "exception"
    assert driver.process.wait(timeout=10) == 3
    driver.hang_up()
    driver.log.close()
    driver.scratch.cleanup()
