"""Campaigns over scripts that do not load every tensor: the population holds what is read, by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import pytest
from campaign_support import CONTROLS, Driver, campaign, read_rows

SCRIPT = Path(__file__).with_name("gpt.py")
ENVIRONMENT = {"BITRIFT_PYTHON": sys.executable, "BITRIFT_TRAIN_PROGRAM": ""}
BASE = {"lenient": "aux", "fresh": "adagrad"}


class Gpt:
    """The script of one kind with its base, and campaigns of it."""

    def __init__(self, place: Path, kind: str) -> None:
        self.place, self.kind = place, kind
        shutil.copy(SCRIPT, place)
        base = BASE.get(kind, kind)
        command = [sys.executable, "gpt.py", base]
        subprocess.run(command, cwd=place, env=os.environ | ENVIRONMENT, check=True)
        self.base = place / f"{base}.h5"

    def start(self, *arguments: object, out: str = "out", **changes: Any) -> Driver:
        spec = {
            "name": "gpt",
            "seed": 5,
            "base": {"checkpoint": self.base.name},
            "runner": {"python": "gpt.py"},
            "arms": [{"name": "own", "parallel": {"kind": "serial"}, "exec": [self.kind]}],
            "strata": {"roles": ["weight"], "fields": ["sign", "exponent_msb"]},
            "trials_per_stratum": 12,
            "controls": CONTROLS,
        }
        (self.place / "spec.json").write_text(json.dumps(spec | changes))
        words = (self.place / "spec.json", "-o", self.place / out, "--workers", 1, *arguments)
        return Driver("run", *words, env=ENVIRONMENT, cwd=self.place)

    def summary(self) -> dict[str, Any]:
        return json.loads((self.place / "out" / "summary.json").read_text())

    def trials(self) -> list[dict[str, Any]]:
        rows = read_rows(self.place / "out", check_crc=True)
        return [row for row in rows.values() if row["kind"] == "trial"]


def elements_of(base: Path, *names: str) -> int:
    with h5py.File(base) as file:
        return sum(file[name].size for name in names)


BLOCK = ("model/attn.weight", "model/mlp.weight", "model/wpe.weight")


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gpt]:
    """The same training, with the weight once and twice in its base."""
    studies = {kind: Gpt(tmp_path_factory.mktemp(kind), kind) for kind in ("tied", "two")}
    for study in studies.values():
        done = study.start().finish()
        assert done.returncode == 0, done.stderr
        study.said = done.stdout
    return studies


def test_tied_weights_count_once_under_the_name_that_is_read(tied: dict[str, Gpt]) -> None:
    for kind, name in {"tied": "model/wte.weight", "two": "model/z_head.weight"}.items():
        study = tied[kind]
        bits = elements_of(study.base, name, *BLOCK)
        assert {row["stratum_bits"] for row in study.trials()} == {bits}
        hit = {fault["tensor"] for row in study.trials() for fault in row["faults"]}
        assert name in hit and hit <= {name, *BLOCK}
        assert all(row["result"]["changed_tensors"] == [row["faults"][0]["tensor"]] for row in study.trials())


def test_rates_are_those_of_the_base_that_has_the_weight_twice(tied: dict[str, Gpt]) -> None:
    one, two = (tied[kind].summary() for kind in ("tied", "two"))
    assert one["groups"] == two["groups"] and one["trials"] == 24
    assert "left_out" not in one and two["left_out"] == ["model/wte.weight"]
    line = "Left out, because the script does not load them in every arm: model/wte.weight\n"
    assert line in tied["two"].said and "Left out" not in tied["tied"].said


def test_campaign_of_an_earlier_version_is_resumed_without_a_search(tied: dict[str, Gpt]) -> None:
    study = tied["tied"]
    old = study.place / "old"
    shutil.copytree(study.place / "out", old)
    identity = json.loads((old / "campaign.json").read_text())
    assert identity["bases"]["base"].pop("unread") == []
    (old / "campaign.json").write_text(json.dumps(identity))
    lines = (old / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (old / "trials.jsonl").write_bytes(b"".join(lines[:-2]))
    done = study.start(out="old").finish()
    assert done.returncode == 0, done.stderr
    assert read_rows(old) == read_rows(study.place / "out")
    assert "unread" not in json.loads((old / "campaign.json").read_text())["bases"]["base"]


def test_head_that_is_not_loaded_is_left_out_by_name_and_refused_if_it_is_asked_for(tmp_path: Path) -> None:
    study = Gpt(tmp_path, "aux")
    done = study.start().finish()
    assert done.returncode == 0, done.stderr
    assert study.summary()["left_out"] == ["model/aux.weight"]
    expected = elements_of(study.base, "model/wte.weight", *BLOCK)
    assert {row["stratum_bits"] for row in study.trials()} == {expected}
    stored = json.loads((tmp_path / "out" / "campaign.json").read_text())["bases"]["base"]["unread"]
    assert {"tensor": "model/aux.bias", "role": "bias"} in stored
    again = campaign("replay", tmp_path / "out", "own/weight.sign/3", env=ENVIRONMENT, cwd=tmp_path)
    assert again.returncode == 0, again.stderr + again.stdout
    strata = {"tensors": ["model/aux.weight", "model/mlp.*"], "roles": ["weight"], "fields": ["sign"]}
    done = study.start(out="named", strata=strata).finish()
    assert (done.returncode, done.stdout) == (2, "")
    assert "model/aux.weight is asked for, but the script does not load it" in done.stderr.splitlines()[-1]


def test_canaries_alter_the_averages_that_a_script_evaluates(tmp_path: Path) -> None:
    """With the model's own last layer negated and no step taken, its metrics would be those of the golden run."""
    study = Gpt(tmp_path, "average")
    done = study.start().finish()
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "out" / "campaign.json").read_text())["bases"]["base"]
    assert stored["unused"] == [f"model/{name}.weight" for name in ("attn", "mlp", "wpe", "wte")]
    rows = {row["id"]["stratum"]: row for row in read_rows(tmp_path / "out").values() if row["kind"] == "canary"}
    assert rows["canary:nan"]["result"]["changed_tensors"] == ["ema/module.attn.weight"]
    (altered,) = rows["canary:negate"]["result"]["changed_tensors"]
    assert altered.startswith("ema/module.")
    with h5py.File(study.base) as file:
        weights = [f"{top}{name}.weight" for top in ("model/", "ema/module.") for name in ("attn", "mlp", "wpe", "wte")]
        assert all(name in file for name in weights)
    assert {row["stratum_bits"] for row in study.trials()} == {elements_of(study.base, *weights)}


@pytest.mark.parametrize("strata", [{"roles": ["weight"], "fields": ["sign"]}, {"compute": {"fields": ["sign"]}}])
def test_canaries_alter_no_layer_that_is_not_used(tmp_path: Path, strata: dict[str, Any]) -> None:
    """Such as the pooling layer of a BERT under another head. Faults in it count: it is part of the checkpoint."""
    study = Gpt(tmp_path, "idle")
    done = study.start(strata=strata).finish()
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "out" / "campaign.json").read_text())["bases"]["base"]
    assert stored["unused"] == ["model/a_pooler.weight", "model/zz_pooler.weight"]
    assert ("unread" in stored) == ("roles" in strata)
    rows = {row["id"]["stratum"]: row for row in read_rows(tmp_path / "out").values() if row["kind"] == "canary"}
    assert rows["canary:nan"]["result"]["changed_tensors"] == ["model/attn.weight"]
    assert rows["canary:negate"]["result"]["changed_tensors"] == ["model/wte.weight"]
    if "roles" in strata:
        layers = ("model/wte.weight", "model/wpe.weight", "model/attn.weight", "model/mlp.weight")
        poolers = ("model/a_pooler.weight", "model/zz_pooler.weight")
        assert {row["stratum_bits"] for row in study.trials()} == {elements_of(study.base, *layers, *poolers)}


SUMS = {"tensors": ["optimizer/sum/**"], "roles": ["unknown"], "fields": ["sign", "exponent_msb"]}


def test_tensors_of_unknown_role_are_chosen_by_name(tmp_path: Path) -> None:
    study = Gpt(tmp_path, "adagrad")
    done = study.start(strata=SUMS).finish()
    assert done.returncode == 0, done.stderr
    with h5py.File(study.base) as file:
        sums = [f"optimizer/sum/{name}" for name in file["optimizer/sum"]]
    assert len(sums) == 8
    assert {row["stratum_bits"] for row in study.trials()} == {elements_of(study.base, *sums)}
    assert {fault["tensor"] for row in study.trials() for fault in row["faults"]} <= set(sums)
    canaries = {row["id"]["stratum"] for row in read_rows(tmp_path / "out").values() if row["kind"] == "canary"}
    assert "canary:reads-unknown" in canaries


@pytest.mark.parametrize("named", [True, False])
def test_tensors_of_unknown_role_that_a_script_does_not_load_are_refused(tmp_path: Path, named: bool) -> None:
    study = Gpt(tmp_path, "fresh")
    strata = SUMS if named else {name: value for name, value in SUMS.items() if name != "tensors"}
    done = study.start(strata=strata).finish()
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "unknown.sign" in last and "the script does not load" in last


# Shards of the other trainers: test_campaign_shards.py and test_campaign_shards_trained.py.
@pytest.mark.thorough
def test_shards_agree_on_what_a_lenient_load_leaves_out(tmp_path: Path) -> None:
    study = Gpt(tmp_path, "lenient")
    shards = [study.start("--shard", f"{one}/2") for one in (1, 2)]
    for shard in shards:
        done = shard.finish()
        assert done.returncode == 0, done.stderr
    assert study.summary()["left_out"] == ["model/aux.weight"] and study.summary()["trials"] == 24
    hit = {fault["tensor"] for row in study.trials() for fault in row["faults"]}
    assert hit <= {"model/wte.weight", *BLOCK}


def test_fault_that_does_not_reach_the_loaded_state_stops_the_campaign(tmp_path: Path) -> None:
    study = Gpt(tmp_path, "cropped")
    strata = {"tensors": ["model/wpe.weight"], "roles": ["weight"], "fields": ["sign"]}
    done = study.start(strata=strata).finish()
    assert done.returncode == 1, done.stderr
    says = "the fault in model/wpe.weight does not reach the loaded state"
    assert [line for line in done.stderr.splitlines() if says in line], done.stderr
    assert all(row["landed"] for row in study.trials())
