"""A checkpoint study of TensorFlow and of Keras on TensorFlow, in a Python that has them; read back with TensorFlow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from study_support import FLIPS, flips_of, rows_of, study, write

HERE = Path(__file__).resolve().parents[3] / ".venv" / "tensorflow" / "bin" / "python"
PYTHON = Path(sys.executable) if importlib.util.find_spec("tensorflow") else HERE
pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="TensorFlow is not installed: tools/setup --with-tensorflow"
)
FORMATS = ["tensorflow", "keras"]
# What a program of TensorFlow finds in a bundle: each variable's bytes, in hexadecimal digits, and the object graph.
LOAD = """
import json, sys
import tensorflow as tf
reader = tf.train.load_checkpoint(sys.argv[1])
names = [name for name in reader.get_variable_to_shape_map() if name != "_CHECKPOINTABLE_OBJECT_GRAPH"]
print(json.dumps({name: reader.get_tensor(name).tobytes().hex() for name in names}))
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    parts = ["size", "determinism", "damage", "kill", "cost"]
    cost = {"turns": 1, "ranks": [1], "pause_seconds": 0.01, "between_seconds": 0.2}
    spec = write(
        folder, formats=FORMATS, writers=["native"], parts=parts, kill={"kills": 6}, cost=cost, interpreter=str(PYTHON)
    )
    ended = study(spec, folder / "out")
    assert ended.returncode == 0, ended.stderr
    return folder / "out"


def test_a_bundle_holds_the_state(done: Path) -> None:
    import h5py

    bundle = done / "files" / "tensorflow-native" / "checkpoint"
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    loaded = subprocess.run(
        [PYTHON, "-c", LOAD, bundle], check=True, capture_output=True, text=True, timeout=120, env=environment
    )
    found = json.loads(loaded.stdout.splitlines()[-1])
    seen = 0
    with h5py.File(done / "base.h5") as file:
        for name, values in found.items():
            path = name.removeprefix("state/").removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")
            assert file[path.replace(".S", "/").replace("..", ".")][()].tobytes().hex() == values
            seen += len(values) // 2
    (size,) = [row for row in rows_of(done) if row["part"] == "size" and row["format"] == "tensorflow"]
    assert size["payload_bytes"] == size["tensor_bytes"] == seen


def test_checksums_of_tensorflow_and_keras_notice_every_flip_of_a_value(done: Path) -> None:
    seen = Counter((row["format"], row["stratum"], row["outcome"]) for row in flips_of(done))
    for form in FORMATS:
        assert seen[form, "payload", "detected"] == FLIPS
        assert seen[form, "metadata", "detected"] >= FLIPS - 3
        assert seen[form, "metadata", "silently_wrong"] == 0
    canaries = {(row["format"], row["canary"]): row["outcome"] for row in rows_of(done) if "canary" in row}
    assert canaries == {
        (form, kind): how for form in FORMATS for kind, how in (("no_flip", "same"), ("zeroed", "detected"))
    }


def test_two_bundles_are_equal_and_two_models_of_keras_are_not(done: Path) -> None:
    equal = {row["format"]: row["equal"] for row in rows_of(done) if row["part"] == "determinism"}
    assert equal == {"tensorflow": True, "keras": False}


def test_a_killed_bundle_is_mostly_the_older_one_and_a_killed_model_is_lost(done: Path) -> None:
    kills = [row for row in rows_of(done) if row["part"] == "kill" and row["call"] > 0]
    seen = Counter((row["format"], row["outcome"]) for row in kills)
    # TensorFlow writes to other names, and renames data and index one after the other.
    assert seen["tensorflow", "previous"] >= 3 and seen["keras", "detected"] == 5 and seen["keras", "previous"] == 1
    assert {outcome for _, outcome in seen} <= {"previous", "complete", "detected"}


def test_saves_are_timed(done: Path) -> None:
    timed = {row["format"]: row["block_seconds"] for row in rows_of(done) if row["part"] == "cost"}
    assert all(timed[form] > 0 for form in (*FORMATS, "raw"))
    versions = json.loads((done / "summary.json").read_text())["versions"]
    assert versions["tensorflow"].startswith("2.") and versions["keras"].startswith("3.")
