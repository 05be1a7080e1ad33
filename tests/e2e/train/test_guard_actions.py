"""Guards that act: what they undo is as if it had not happened, and what they cannot undo is not hidden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from train_support import ADAM, LENET, SGD, call, run, tensors, write_spec

GPT = {"name": "gpt", "layers": 2, "heads": 2, "width": 16, "context": 16, "dropout": 0.1}
RESNET = {"name": "resnet20", "width": "small"}
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "lenet": (LENET, SGD, {}, "fc3.bias"),
    "lenet-adam": (LENET, ADAM, {"schedule": {"name": "cosine", "warmup_steps": 3, "steps": 40}}, "fc3.bias"),
    "resnet": (RESNET, SGD, {"precision": "autocast-bf16"}, "fc.bias"),
    "gpt": (GPT, ADAM, {"data": {"name": "jargon"}, "batch_size": 16}, "lm_head.weight"),
}
LAYOUTS = {
    "serial": [],
    "data2": ["--parallel", "data", "--ranks", 2],
    "sharded": ["--parallel", "data", "--ranks", 2, "--shard-optimizer"],
    "pipeline2": ["--parallel", "pipeline", "--ranks", 2, "--micro-batches", 2],
}
GUARDS = ["--guard", "gradient_norm=1e6", "--guard", "nonfinite", "--on-alarm"]
STEPS = 9


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("bases")

    def base(name: str) -> Path:
        out = folder / f"{name}.h5"
        if not out.exists():
            model, optimizer, changes, _ = MODELS[name]
            run("train", write_spec(folder / f"{name}.json", model, optimizer, **changes), "-o", out, "--steps", 4)
        return out

    return base


def content(file: Path) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in tensors(file).items()}


def strike(name: str, step: int, more: str = "") -> list[str]:
    return ["--strike", f"weight_gradient:{MODELS[name][3]}@{step}:0.0.5.30{more}"]


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize(
    ("name", "layout"),
    [("lenet", one) for one in LAYOUTS] + [("lenet-adam", "data2"), ("resnet", "serial"), ("gpt", "pipeline2")],
)
def test_a_rollback_ends_as_if_nothing_had_been_struck(
    bases: Any, tmp_path: Path, name: str, layout: str, every: int
) -> None:
    words = ["resume", bases(name), "--steps", STEPS, *LAYOUTS[layout]]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    options = [*GUARDS, "rollback", "--rollback-every", every]
    struck = run(*words, "-o", tmp_path / "struck.h5", *options, *strike(name, 7))
    assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")
    assert all(struck[key] == clean[key] for key in ("replicas", "last_loss", "final_digest", "steps"))
    kept = 6 if every == 1 else 4  # steps of this run
    assert struck["guard_actions"] == [{"action": "rollback", "step": 4 + 7, "to": 4 + kept}]
    assert struck["guard_action_count"] == 1 and struck["alarm_count"] >= 1
    assert struck["altered_values"][0]["times"] == 1
    bare = json.loads(call(*words, "--json", *strike(name, 7)).stdout)
    assert bare["final_digest"] != clean["final_digest"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_skipped_step_changes_no_tensor(bases: Any, tmp_path: Path, layout: str) -> None:
    words = ["resume", bases("lenet-adam"), *LAYOUTS[layout]]
    run(*words, "-o", tmp_path / "before.h5", "--steps", 6)
    options = [*GUARDS, "skip", *strike("lenet-adam", 7)]
    skipped = run(*words, "-o", tmp_path / "after.h5", "--steps", 7, *options)
    assert skipped["guard_actions"] == [{"action": "skip", "step": 11, "to": 10}]
    assert skipped["steps"] == 7
    before, after = tensors(tmp_path / "before.h5"), tensors(tmp_path / "after.h5")
    assert before.keys() == after.keys()
    moved = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert moved and all(name.startswith("progress/") for name in moved), moved
    assert int(after["progress/step"]) == int(before["progress/step"]) + 1
    assert int(after["progress/cursor"]) - int(before["progress/cursor"]) == int(before["progress/cursor"]) / 10


def test_a_skipped_step_goes_on_with_the_next_batch(bases: Any, tmp_path: Path) -> None:
    """What follows is what a file gives in which the step was left out by hand."""
    base = bases("lenet")
    run("resume", base, "-o", tmp_path / "six.h5", "--steps", 6)
    skipped = run("resume", base, "-o", tmp_path / "out.h5", "--steps", STEPS, *GUARDS, "skip", *strike("lenet", 7))
    with h5py.File(tmp_path / "six.h5", "r+") as file:
        progress = file["progress"]
        batch = int(progress["cursor"][()]) // int(progress["step"][()])
        progress["step"][...] += 1
        progress["cursor"][...] += batch
    by_hand = run("resume", tmp_path / "six.h5", "-o", tmp_path / "hand.h5", "--steps", STEPS - 7)
    assert skipped["last_loss"] == by_hand["last_loss"]
    found, expected = tensors(tmp_path / "out.h5"), tensors(tmp_path / "hand.h5")
    for name in expected:
        if name.startswith(("model/", "optimizer/")):
            assert found[name].tobytes() == expected[name].tobytes(), name


def test_a_fault_that_lasts_comes_again(bases: Any, tmp_path: Path) -> None:
    """It strikes step 7 whenever that is computed, until it has passed; what never passes stays."""
    words = ["resume", bases("lenet-adam"), "--steps", STEPS]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    for times in (2, 3):
        options = [*GUARDS, "rollback", *strike("lenet-adam", 7, f"+{times}")]
        lasting = run(*words, "-o", tmp_path / "out.h5", *options)
        assert lasting["altered_values"][0]["times"] == times
        first, second = ({"action": "rollback", "step": 11, "to": to} for to in (10, 9))
        assert lasting["guard_actions"][:2] == [first, second]
        assert lasting["final_digest"] == clean["final_digest"]
    permanent = strike("lenet-adam", 7, "+permanent")
    bare = json.loads(call(*words, "--json", *permanent).stdout)
    acted = json.loads(call(*words, "--json", *GUARDS, "rollback", *permanent).stdout)
    assert acted["guard_action_count"] > 0 and acted["final_digest"] == bare["final_digest"] != clean["final_digest"]
    assert acted["last_loss"] == bare["last_loss"]


def test_damage_whose_alarm_comes_a_step_later_is_undone(bases: Any, tmp_path: Path) -> None:
    """A struck update raises no alarm in its own step: the last kept state has the damage, the one before it not."""
    words = ["resume", bases("lenet"), "--steps", STEPS]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    options = ["--guard", "gradient_norm=1e6", "--on-alarm", "rollback", "--strike", "update:fc2.bias@7:0.0.0.30"]
    struck = run(*words, "-o", tmp_path / "struck.h5", *options)
    assert [one["to"] for one in struck["guard_actions"]] == [11, 10] and struck["alarm_count"] == 2
    assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")
    assert struck["final_digest"] == clean["final_digest"]


TWICE = ["--guard", "recompute", "--on-alarm", "rollback"]
DATA2 = LAYOUTS["data2"]


# No other guard sees a bit of a mantissa in what a step computes.
MANTISSA = [
    "activation:fc3@7:0.0.5.20",
    "gradient:fc3@7:0.0.5.20",
    "weight_gradient:fc3.bias@7:0.0.5.18",
    "parameter:fc2.weight@7:0.0.5.9",
]
UPDATE = "update:fc2.weight@7:0.0.5.22"  # a sharded optimizer has none of a whole replica


@pytest.mark.parametrize(
    ("text", "layout"),
    [(text, layout) for text in MANTISSA for layout in LAYOUTS] + [(UPDATE, "serial"), (UPDATE, "pipeline2")],
)
def test_a_step_that_is_computed_twice_shows_any_fault_that_passes(
    bases: Any, tmp_path: Path, text: str, layout: str
) -> None:
    words = ["resume", bases("lenet-adam"), "--steps", STEPS, *LAYOUTS[layout]]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    watched = run(*words, "-o", tmp_path / "watched.h5", "--guard", "recompute")
    assert "alarms" not in watched and watched["final_digest"] == clean["final_digest"]
    bare = run(*words, "-o", tmp_path / "bare.h5", "--strike", text)
    noted = run(*words, "-o", tmp_path / "noted.h5", "--strike", text, "--guard", "recompute")
    assert noted["final_digest"] == bare["final_digest"] != clean["final_digest"]
    assert {(one["guard"], one["step"]) for one in noted["alarms"]} == {("recompute", 11)}
    struck = run(*words, "-o", tmp_path / "struck.h5", "--strike", text, *TWICE)
    assert struck["guard_actions"] == [{"action": "rollback", "step": 11, "to": 10}]
    assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")
    assert struck["replicas"] == clean["replicas"]


def test_a_fault_that_lasts_strikes_both_times(bases: Any, tmp_path: Path) -> None:
    words = ["resume", bases("lenet-adam"), "--steps", STEPS, "-o", tmp_path / "out.h5", *TWICE]
    assert "alarms" not in run(*words, "--strike", "activation:fc1@7:0.0.5.20+permanent")


def test_replicas_that_differ_are_seen_in_the_step_that_parts_them(bases: Any, tmp_path: Path) -> None:
    text = "parameter:fc2.weight@7:1.0.5.3"
    words = ["resume", bases("lenet-adam"), "--steps", STEPS, *DATA2, "--guard", "replicas"]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    assert "alarms" not in clean
    struck = run(*words, "-o", tmp_path / "struck.h5", "--on-alarm", "rollback", "--strike", text)
    # Of two replicas, either may be the one that is wrong.
    assert [(one["guard"], one["step"], one["rank"]) for one in struck["alarms"]] == [
        ("replicas", 11, 0),
        ("replicas", 11, 1),
    ]
    assert struck["guard_actions"] == [{"action": "rollback", "step": 11, "to": 10}]
    assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")


def test_replicas_are_compared_after_a_step_whose_loss_is_not_finite(bases: Any, tmp_path: Path) -> None:
    words = ["resume", bases("lenet-adam"), "--steps", STEPS, *DATA2]
    run(*words, "-o", tmp_path / "clean.h5")
    struck = ["--strike", "parameter:fc2.weight@7:1.0.5.inf", "--guard", "replicas"]
    assert call(*words, *struck).returncode == 1
    undone = run(*words, "-o", tmp_path / "undone.h5", *struck, "--on-alarm", "rollback")
    assert undone["guard_actions"] == [{"action": "rollback", "step": 11, "to": 10}]
    assert content(tmp_path / "undone.h5") == content(tmp_path / "clean.h5")


def test_a_majority_of_replicas_names_the_rank(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "s.json", LENET, SGD, batch_size=48)
    words = ["train", spec, "--steps", 5, "--parallel", "data", "--ranks", 3, "--guard", "replicas"]
    done = call(*words[:-2], "-o", tmp_path / "a.h5")
    assert done.returncode == 0, done.stderr
    words = ["resume", tmp_path / "a.h5", "--steps", 2, *words[4:], "-o", tmp_path / "b.h5"]
    found = run(*words, "--strike", "update:fc2.weight@2:1.0.5.25")["alarms"]
    assert [(one["guard"], one["step"], one["rank"]) for one in found] == [("replicas", 7, 1)]
    done = call(*words, "--strike", "update:fc2.weight@2:1.0.5.25")
    assert "guard replicas at step 7 on rank 1: its parameters differ from those of most replicas" in done.stderr


def test_outputs_beyond_their_range_are_clipped_or_undone(bases: Any, tmp_path: Path) -> None:
    words = ["resume", bases("lenet"), "--steps", STEPS, "--guard", "activation_range=3"]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    bare = run("resume", bases("lenet"), "--steps", STEPS, "-o", tmp_path / "bare.h5")
    assert "alarms" not in clean and clean["final_digest"] == bare["final_digest"]
    text = ["--strike", "activation:conv2@7:0.0.5.30"]
    struck = run(*words, "-o", tmp_path / "struck.h5", *text, "--on-alarm", "rollback")
    assert struck["alarms"][0]["tensor"] == "conv2" and struck["alarms"][0]["value"] > 1e30
    assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")
    clipped = run(*words, "-o", tmp_path / "clipped.h5", *text, "--on-alarm", "clip")
    assert clipped["guard_actions"] == [{"action": "clip", "step": 11, "to": 11}]
    assert clipped["final_digest"] != clean["final_digest"]
    # One output was at the limit, and nothing else was out of the ordinary.
    far = max(
        float(np.abs(value - tensors(tmp_path / "clean.h5")[name]).max())
        for name, value in tensors(tmp_path / "clipped.h5").items()
        if name.startswith("model/")
    )
    assert far < 0.1


@pytest.mark.parametrize(
    ("name", "layout", "replica"),
    [(name, "serial", 0) for name in MODELS]
    + [("lenet", "data2", 1), ("lenet-adam", "sharded", 0), ("gpt", "pipeline2", 0)],
)
def test_a_reloaded_tensor_ends_as_if_nothing_had_been_struck(
    bases: Any, tmp_path: Path, name: str, layout: str, replica: int
) -> None:
    words = ["resume", bases(name), "--steps", STEPS, *LAYOUTS[layout]]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    words += ["--guard", "fingerprints", "--on-alarm", "reload"]
    watched = run(*words, "-o", tmp_path / "watched.h5")
    assert "alarms" not in watched and watched["final_digest"] == clean["final_digest"]
    twice = [f"parameter:{MODELS[name][3]}@{step}:{replica}.0.5.30" for step in (1, 6)]
    struck = run(*words, "-o", tmp_path / "struck.h5", "--strike", twice[0], "--strike", twice[1])
    assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")
    assert struck["final_digest"] == clean["final_digest"]
    assert struck["guard_actions"] == [{"action": "reload", "step": 4 + n, "to": 3 + n} for n in (1, 6)]
    named = [(one["guard"], one["step"], one["tensor"]) for one in struck["alarms"]]
    assert named == [("fingerprints", 4 + n, f"model/{MODELS[name][3]}") for n in (1, 6)]
    done = call(*words, "-o", tmp_path / "again.h5", "--strike", twice[1])
    assert "before step 10 tensors were set back to their values after step 9" in done.stderr


def test_a_jump_of_one_parameters_updates_is_seen(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "s.json", LENET, SGD, epochs=2)
    run("train", spec, "-o", tmp_path / "base.h5", "--steps", 4)
    words = ["resume", tmp_path / "base.h5", "--steps", 14, "--guard", "update_jump=20", "--on-alarm", "rollback"]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    assert "alarms" not in clean
    struck = run(*words, "-o", tmp_path / "struck.h5", "--strike", "update:fc2.weight@12:0.0.5.30")
    assert struck["alarms"][0]["guard"] == "update_jump" and struck["alarms"][0]["tensor"] == "model/fc2.weight"
    assert struck["guard_actions"] == [{"action": "rollback", "step": 16, "to": 15}]
    assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")


LLAMA = {"name": "llama", "layers": 2, "heads": 4, "kv_heads": 2, "width": 16, "context": 16, "tied": True}
ADAMW = {"name": "adamw", "learning_rate": 0.002, "clip_norm": 1}
# A fault, the guard that sees it in its own step, and the tensor that it names.
SEEN = {
    "update:model.layers.0.mlp.up_proj.weight@7:0.0.5.30": ("update_bound", "model/model.layers.0.mlp.up_proj.weight"),
    "parameter:model.norm.weight@7:0.0.3.2": ("fingerprints", "model/model.norm.weight"),
    "parameter:model.norm.weight@1:0.0.3.2": ("fingerprints", "model/model.norm.weight"),
    "gradient:model.layers.0@7:0.0.5.30": ("gradient_jump=20", ""),
}


@pytest.mark.parametrize("action", ["rollback", "skip"])
@pytest.mark.parametrize("text", SEEN)
def test_damage_whose_alarm_comes_at_once_is_undone(tmp_path: Path, text: str, action: str) -> None:
    """Also by `skip`, except in a parameter, which is struck outside the step."""
    guard, tensor = SEEN[text]
    number = int(text.rpartition("@")[2].partition(":")[0])
    step = 10 + number
    spec = write_spec(tmp_path / "s.json", LLAMA, ADAMW, data={"name": "jargon"}, batch_size=16, epochs=1)
    run("train", spec, "-o", tmp_path / "base.h5", "--steps", 10)
    words = ["resume", tmp_path / "base.h5", "--steps", STEPS]
    options = ["--guard", guard, "--on-alarm", action]
    clean = run(*words, "-o", tmp_path / "clean.h5", *options)
    assert "alarms" not in clean
    struck = run(*words, "-o", tmp_path / "struck.h5", *options, "--strike", text)
    (first, *others) = struck["alarms"]
    assert (first["guard"], first["step"], first["tensor"]) == (guard.partition("=")[0], step, tensor) and not others
    assert struck["guard_actions"] == [{"action": action, "step": step, "to": step - 1}]
    if action == "rollback":
        assert content(tmp_path / "struck.h5") == content(tmp_path / "clean.h5")
        assert struck["final_digest"] == clean["final_digest"]
        return
    run(*words[:-1], number - 1, "-o", tmp_path / "before.h5", *options)
    skipped = run(*words[:-1], number, "-o", tmp_path / "after.h5", *options, "--strike", text)
    before, after = tensors(tmp_path / "before.h5"), tensors(tmp_path / "after.h5")
    moved = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert skipped["steps"] == number and all(name.startswith("progress/") for name in moved), moved


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["lenet-adam", "gpt"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_guard_sees_anything_in_a_clean_run(tmp_path: Path, name: str, layout: str, precision: str) -> None:
    """Over evaluations and checkpoints; the files are those of a run without guards."""
    model, optimizer, changes, _ = MODELS[name]
    changes = changes | {"precision": precision, "epochs": 2}
    changes["data"] = changes.get("data", {"name": "digits"}) | {"train_samples": 640, "test_samples": 64}
    results = {}
    every = dict.fromkeys(("update_bound", "fingerprints", "nonfinite", "replicas", "recompute"), True)
    for guards in ({}, every | {"activation_range": 20, "update_jump": 50}):
        spec = write_spec(tmp_path / "s.json", model, optimizer, **changes, guards=guards)
        words = ["train", spec, "--checkpoint-every", 7, *LAYOUTS[layout]]
        results[bool(guards)] = run(*words, "-o", f"{tmp_path}/{len(guards)}/")
    assert "alarms" not in results[True] and results[True]["final_digest"] == results[False]["final_digest"]


def test_the_history_of_a_jump_is_resumed(bases: Any, tmp_path: Path) -> None:
    base = bases("lenet")
    guard = ["--guard", "gradient_jump=1.0001"]
    whole = run("resume", base, "--steps", 20, "-o", tmp_path / "whole.h5", *guard)
    run("resume", base, "--steps", 9, "-o", tmp_path / "half.h5", *guard)
    rest = run("resume", tmp_path / "half.h5", "--steps", 11, "-o", tmp_path / "end.h5", *guard)
    assert whole["alarms"] and [one for one in whole["alarms"] if one["step"] > 13] == rest["alarms"]
    assert content(tmp_path / "whole.h5") == content(tmp_path / "end.h5")


def test_what_is_stored_cannot_be_undone(bases: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.h5"
    bad.write_bytes(bases("lenet-adam").read_bytes())
    with h5py.File(bad, "r+") as file:
        data = file["model/fc1.weight"]
        values = data[()]
        values.reshape(-1)[3] = 1e30
        data[...] = values
    words = ["resume", bad, "--steps", 3, "--json"]
    left = json.loads(call(*words, *GUARDS, "record").stdout)
    for action in ("rollback", "skip"):
        acted = json.loads(call(*words, *GUARDS, action).stdout)
        assert acted["guard_action_count"] >= 1
        if action == "rollback":
            assert (acted["status"], acted["last_loss"]) == (left["status"], left["last_loss"])


def test_a_message_that_was_altered_is_not_altered_again(bases: Any, tmp_path: Path) -> None:
    words = ["resume", bases("lenet"), "--steps", STEPS, "--parallel", "data", "--ranks", 4, "--mesh", "2x2"]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    flip = ["--flip-message", "0@7:0.3.30"]
    assert run(*words, "-o", tmp_path / "bare.h5", *flip)["final_digest"] != clean["final_digest"]
    acted = run(*words, "-o", tmp_path / "acted.h5", *flip, *GUARDS, "rollback")
    assert acted["guard_action_count"] == 1 and len(acted["altered_messages"]) == 1
    assert content(tmp_path / "acted.h5") == content(tmp_path / "clean.h5")


@pytest.mark.parametrize("every", [1, 3])
def test_a_false_alarm_costs_time_and_nothing_else(bases: Any, tmp_path: Path, every: int) -> None:
    words = ["resume", bases("lenet"), "--steps", STEPS]
    clean = run(*words, "-o", tmp_path / "clean.h5")
    tight = ["--guard", "gradient_norm=1e-6", "--on-alarm", "rollback", "--rollback-every", every]
    watched = run(*words, "-o", tmp_path / "watched.h5", *tight)
    assert watched["guard_action_count"] >= STEPS and watched["final_digest"] == clean["final_digest"]
    assert content(tmp_path / "watched.h5") == content(tmp_path / "clean.h5")


def test_checkpoints_on_the_way_are_those_of_the_clean_run(bases: Any, tmp_path: Path) -> None:
    """The one after step 6 was written before the alarm of step 7, and is written again."""
    words = ["resume", bases("lenet"), "--steps", STEPS, "--checkpoint-every", 3]
    run(*words, "-o", f"{tmp_path}/clean/")
    run(*words, "-o", f"{tmp_path}/struck/", *GUARDS, "rollback", "--rollback-every", 4, *strike("lenet", 7))
    clean = {file.name: content(file) for file in (tmp_path / "clean").glob("*.h5")}
    assert "step-0000000010.h5" in clean
    assert {file.name: content(file) for file in (tmp_path / "struck").glob("*.h5")} == clean


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--on-alarm", "record", "--rollback-every", 2], "--rollback-every is for --on-alarm rollback"),
        (["--on-alarm", "panic"], "record"),
        (["--on-alarm", "clip"], "--on-alarm clip needs --guard activation_range=FACTOR"),
        (["--on-alarm", "reload"], "--on-alarm reload needs --guard fingerprints"),
        (["--guard", "activation_range"], "expected activation_range=NUMBER with a number above 1"),
        (["--guard", "replicas=2"], "expected none, nonfinite, checksums,"),
        (
            ["--guard", "recompute", "--parallel", "data", "--ranks", 2, "--on-failure", "shrink"],
            "the guard recompute does not work in a run whose ranks or links may fail",
        ),
        (
            ["--on-alarm", "skip", "--parallel", "data", "--ranks", 2, "--on-failure", "shrink"],
            "guards with on_alarm skip do not act in a run whose ranks or links may fail",
        ),
    ],
)
def test_what_cannot_act_is_refused(bases: Any, tmp_path: Path, options: list[Any], says: str) -> None:
    done = call("resume", bases("lenet"), "--steps", 1, "-o", tmp_path / "out.h5", "--guard", "nonfinite", *options)
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert not (tmp_path / "out.h5").exists()


def test_a_spec_says_how_often_only_with_rollback(tmp_path: Path) -> None:
    guards = {"nonfinite": True, "on_alarm": "skip", "rollback_every": 2}
    done = call("train", write_spec(tmp_path / "s.json", LENET, SGD, guards=guards), "-o", tmp_path / "out.h5")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert 'guards.rollback_every: is for "on_alarm": "rollback"; add that, or remove the key' in done.stderr
    guards["on_alarm"] = "rollback"
    run("train", write_spec(tmp_path / "s.json", LENET, SGD, guards=guards), "-o", tmp_path / "out.h5", "--steps", 1)
