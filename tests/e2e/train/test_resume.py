"""Training 2N steps equals training N, saving, and resuming N, to the bit, under every strategy and across them."""

from __future__ import annotations

from pathlib import Path

import pytest
from train_support import ADAM, LENET, MLP, SGD, STRATEGIES, read_trace, run, serving, tensors, write_spec

OPTIMIZERS = {"sgd": SGD, "adam": ADAM}
N = 15  # of 22 steps in an epoch: the cut lies within one


def metrics(result: dict) -> list[list[dict]]:
    """Evaluations of each replica from the first epoch's end on, without the count that starts anew with each run."""
    return [[{k: v for k, v in e.items() if k != "step"} for e in replica][-2:] for replica in result["replicas"]]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_cut_in_the_middle_ends_with_the_same_bytes(tmp_path: Path, optimizer: str, strategy: str) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, OPTIMIZERS[optimizer])
    whole, half, rest = tmp_path / "whole.h5", tmp_path / "half.h5", tmp_path / "rest.h5"
    options = STRATEGIES[strategy]
    straight = run("train", spec, "-o", whole, "--steps", 2 * N, *options)
    run("train", spec, "-o", half, "--steps", N, *options)
    resumed = run("resume", half, "--steps", N, "-o", rest, *options)

    assert metrics(resumed) == metrics(straight)
    assert [len(replica) for replica in straight["replicas"]] == [2] * len(straight["replicas"])
    assert resumed["final_digest"] == straight["final_digest"]
    assert set(resumed["replica_digests"]) == {straight["final_digest"]}
    assert rest.read_bytes() == whole.read_bytes()
    assert half.read_bytes() != whole.read_bytes()
    progress = {name: value for name, value in tensors(whole).items() if name.startswith("progress/")}
    assert (progress["progress/step"], progress["progress/epoch"]) == (2 * N, 1)
    assert progress["progress/cursor"] == (2 * N - 22) * 64


def test_a_file_of_any_strategy_resumes_under_any_other(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, ADAM)
    digests = {}
    for name, options in STRATEGIES.items():
        digests[name] = run("train", spec, "-o", tmp_path / f"{name}.h5", "--steps", N, *options)["final_digest"]
    trained: dict[str, set[str]] = {}
    for name, options in STRATEGIES.items():
        ranks = int(options[3]) if len(options) > 2 else 1
        with serving(tmp_path / "serial.h5", options, ranks, tmp_path) as driver:
            assert driver.ready["base_digest"] == digests["serial"]
            for writer, digest in digests.items():
                loaded = driver.ask(tmp_path / f"{writer}.h5", 0)
                assert loaded["final_digest"] == digest, f"{writer} loaded under {name}"
                assert set(loaded["replica_digests"]) == {digest}
                result = driver.ask(tmp_path / f"{writer}.h5", 1)
                assert result["status"] == "done" and result["steps"] == 22 - N
                trained.setdefault(writer, set()).add(result["final_digest"])
            assert driver.quit() == 0
    # Sums in another order round differently, so not all futures are one; but each is a real future.
    assert all(digests[writer] not in futures for writer, futures in trained.items())


def test_a_file_goes_through_all_strategies_unchanged(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", MLP, SGD)
    first = tmp_path / "0.h5"
    run("train", spec, "-o", first, "--steps", N, *STRATEGIES["pipeline2"])
    last = first
    for number, name in enumerate(["data2", "serial", "pipeline2"], 1):
        following = tmp_path / f"{number}.h5"
        run("resume", last, "--steps", 0, "-o", following, *STRATEGIES[name])
        assert following.read_bytes() == first.read_bytes(), name
        last = following


@pytest.mark.parametrize("model", [LENET, MLP], ids=["lenet", "mlp"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_strategies_that_do_the_same_sums_write_the_same_file(tmp_path: Path, model: dict, optimizer: str) -> None:
    spec = write_spec(tmp_path / "spec.json", model, OPTIMIZERS[optimizer])
    serial, serial4, data1, pipeline = (tmp_path / f"{n}.h5" for n in ("serial", "serial4", "data1", "pipeline"))
    plain = run("train", spec, "-o", serial, "--epochs", 1)
    single = run("train", spec, "-o", data1, "--epochs", 1, "--parallel", "data", "--ranks", 1)
    assert single["replicas"] == plain["replicas"]
    assert data1.read_bytes() == serial.read_bytes()

    micro = run("train", spec, "-o", serial4, "--epochs", 1, "--micro-batches", 4)
    staged = run(
        "train", spec, "-o", pipeline, "--epochs", 1, "--parallel", "pipeline", "--ranks", 2, "--micro-batches", 4
    )
    assert staged["replicas"] == micro["replicas"]
    assert pipeline.read_bytes() == serial4.read_bytes()
    assert serial4.read_bytes() != serial.read_bytes()


def test_a_pipeline_of_single_layers_equals_serial(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.json", LENET, SGD)
    run("train", spec, "-o", tmp_path / "serial.h5", "--steps", 4, "--micro-batches", 2)
    five = ["--parallel", "pipeline", "--ranks", 5, "--micro-batches", 2]
    run("train", spec, "-o", tmp_path / "pipeline.h5", "--steps", 4, *five)
    assert (tmp_path / "pipeline.h5").read_bytes() == (tmp_path / "serial.h5").read_bytes()


@pytest.mark.parametrize("strategy", ["data2", "data4"])
def test_replicas_are_equal_after_every_step(tmp_path: Path, strategy: str) -> None:
    spec = write_spec(tmp_path / "spec.json", MLP, ADAM)
    trace = tmp_path / "trace.jsonl"
    watched = ["--epochs", 1, "--check-replicas", "--trace", trace, *STRATEGIES[strategy]]
    result = run("train", spec, "-o", tmp_path / "c.h5", *watched)
    _, steps, _ = read_trace(trace)
    assert len(steps) == 22 and all(step["replicas_equal"] for step in steps)
    assert len({step["digest"] for step in steps}) == 22
    assert set(result["replica_digests"]) == {steps[-1]["digest"]}
    assert result["replicas"] == [result["replicas"][0]] * int(strategy[-1])
