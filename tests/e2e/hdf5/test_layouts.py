"""Roles and layers of files of other programs, as bitrift ls prints them and bitrift inject takes them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import h5py
import layout_files
import numpy as np
import pytest
from inject_support import refused, run, run_json

EXPECTED = {
    "keras": (
        "stated",
        ["zeta_conv", "batch_normalization", "conv2d_10", "alpha_dense"],
        {"weight": 3, "bias": 3, "norm": 2, "running_stat": 2, "exp_avg": 1, "exp_avg_sq": 1, "step": 1},
    ),
    "keras_v3": (
        "natural",
        ["conv2d", "batch_normalization", "conv2d_1", "dense"],
        {"weight": 3, "bias": 3, "norm": 2, "running_stat": 2, "exp_avg": 8, "exp_avg_sq": 8, "step": 1, "progress": 1},
    ),
    "chainer": (
        "natural",
        [f"predictor/{name}" for name in ("conv1", "bn1", "conv2", "conv10", "fc")],
        {"weight": 4, "bias": 1, "norm": 2, "running_stat": 3, "momentum": 2, "step": 3, "progress": 2, "unknown": 1},
    ),
    "caffe": (
        "natural",
        ["conv1", "bn1", "scale1", "ip1"],
        {"weight": 2, "bias": 2, "norm": 2, "running_stat": 3},
    ),
    "pytorch": (
        "natural",
        ["conv1", "bn1", "layer2.conv1", "layer10.conv1", "fc"],
        {"weight": 4, "bias": 1, "norm": 2, "running_stat": 2, "momentum": 1, "progress": 1},
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_roles_and_layers_are_told(name: str, tmp_path: Path) -> None:
    path = getattr(layout_files, name)(tmp_path / f"{name}.h5")
    order, layers, roles = EXPECTED[name]
    listed = run_json("ls", path)
    assert listed["layout"] == name.replace("_", "-")
    assert listed["layers"]["order"] == order
    assert [layer["name"] for layer in listed["layers"]["list"]] == layers
    assert Counter(row["role"] for row in listed["tensors"]) == roles
    table = run("ls", path).stdout
    assert f"layout {listed['layout']}, {len(layers)} layers in " in table


@pytest.mark.parametrize("name", EXPECTED)
def test_every_role_of_a_file_can_be_chosen(name: str, tmp_path: Path) -> None:
    path = getattr(layout_files, name)(tmp_path / f"{name}.h5")
    roles = {row["path"]: row["role"] for row in run_json("ls", path)["tensors"]}
    for role in set(roles.values()):
        out = tmp_path / "out.h5"
        faults = run_json("inject", path, "-o", out, "--role", role, "--count", 5, "--seed", 1)["faults"]
        assert {fault["role"] for fault in faults} == {role}
        with h5py.File(path) as before, h5py.File(out) as after:
            for tensor, found in roles.items():
                same = np.asarray(before[tensor][()]).tobytes() == np.asarray(after[tensor][()]).tobytes()
                assert same or found == role
    absent = next(role for role in ("rng", "exp_avg", "momentum") if role not in roles.values())
    refused("inject", path, "--dry-run", "--role", absent, says=f"no tensor has the role '{absent}'")


def tensors_hit(path: Path, *arguments: object) -> set[str]:
    report = run_json("inject", path, "--dry-run", "--count", 60, "--seed", 3, "--measure", "tensor", *arguments)
    return {fault["tensor"] for fault in report["faults"]}


def test_layers_are_chosen_by_position_number_and_name(tmp_path: Path) -> None:
    path = layout_files.keras(tmp_path / "model.h5")
    conv = {f"model_weights/zeta_conv/zeta_conv/{name}:0" for name in ("kernel", "bias")}
    moments = {f"optimizer_weights/Adam/zeta_conv/kernel/{name}:0" for name in "mv"}
    dense = {f"model_weights/alpha_dense/alpha_dense/{name}:0" for name in ("kernel", "bias")}
    middle = {f"model_weights/conv2d_10/conv2d_10/{name}:0" for name in ("kernel", "bias")}
    assert tensors_hit(path, "--layer", "first") == conv | moments
    assert tensors_hit(path, "--layer", "first", "--tensor", "model_weights/**") == conv
    assert tensors_hit(path, "--layer", "last") == dense
    assert tensors_hit(path, "--layer", "middle") == middle  # of the three that hold a weight
    assert tensors_hit(path, "--layer", "2") == middle
    assert tensors_hit(path, "--layer", "conv2d_10", "--layer", "last") == middle | dense
    assert tensors_hit(path, "--layer", "last", "--role", "bias") == {"model_weights/alpha_dense/alpha_dense/bias:0"}


def test_weights_alone_have_the_layers_of_the_model(tmp_path: Path) -> None:
    one = run_json("ls", layout_files.keras(tmp_path / "model.h5"))["layers"]
    assert run_json("ls", layout_files.keras(tmp_path / "weights.h5", weights_only=True))["layers"] == one


def test_a_layer_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = layout_files.pytorch(tmp_path / "model.h5")
    before = path.read_bytes()
    for layer, says in {
        "layer1": "has no layer 'layer1'",
        "5": "has no layer number 5: they are 0 to 4",
        "bn1": "layer 'bn1' has no tensor with the requested names and roles",
    }.items():
        refused("inject", path, "--in-place", "--layer", layer, "--role", "weight", says=says)
    empty = tmp_path / "empty.h5"
    with h5py.File(empty, "w") as file:
        file["x"] = np.ones(3)
    refused("inject", empty, "--dry-run", "--layer", "first", says="no layers can be recognised")
    assert path.read_bytes() == before


def test_layers_of_a_model_file_are_those_of_the_option(tmp_path: Path) -> None:
    path = layout_files.pytorch(tmp_path / "model.h5", prefix="")
    model = tmp_path / "faults.json"
    model.write_text('{"layers": ["first", "fc"], "roles": ["weight"], "count": 40, "seed": 5}')
    manifest = tmp_path / "manifest.json"
    run("inject", path, "-o", tmp_path / "a.h5", "--model", model, "--manifest", manifest)
    options = ["--layer", "first", "--layer", "fc", "--role", "weight", "--count", 40, "--seed", 5]
    run("inject", path, "-o", tmp_path / "b.h5", *options)
    run("inject", path, "-o", tmp_path / "c.h5", "--replay", manifest)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes() == (tmp_path / "c.h5").read_bytes()
    assert (tmp_path / "a.h5").read_bytes() != path.read_bytes()
    model.write_text('{"layers": [1]}')
    refused("inject", path, "--dry-run", "--model", model, says="layers")


def test_hostile_attributes_tell_nothing_and_break_nothing(tmp_path: Path) -> None:
    for number, value in enumerate([np.arange(5), 3.5, np.array([[b"a", b"b"]]), b"", np.array([], "S4"), b"\xff\xfe"]):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file["conv/conv/kernel:0"] = np.ones((2, 2), "f4")
            file.attrs["layer_names"] = value
        assert run_json("ls", path)["tensors"][0]["path"] == "conv/conv/kernel:0"
