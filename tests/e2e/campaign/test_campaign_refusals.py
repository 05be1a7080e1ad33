"""What the campaign driver refuses, repairs and finds again, around a stand-in for the trainer."""

from __future__ import annotations

import json
import shutil

import h5py
import numpy as np
import pytest
from campaign_support import (
    STUDY_SPEC,
    Study,
    campaign,
    crc32c,
    journal_lines,
    read_rows,
    reference_study,
    row_id,
    wait_until,
)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return reference_study(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_unfinished_files_of_a_killed_start_are_removed(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "unfinished")
    (folder / ".base.h5.tmp-x1y2z3").write_text("half")
    (folder / "rounds" / ".0000.json.tmp-x1y2z3").write_text("half")
    assert study.run("unfinished").returncode == 0
    assert not [path for path in folder.rglob(".*") if path.is_file()]


def test_specs_of_the_other_kind_are_named(study):
    training = study.place / "train.json"
    training.write_text(json.dumps(STUDY_SPEC["base"]["train"]))
    done = study.run("swapped", spec=training)
    assert done.returncode == 2
    assert "is a training spec, but a campaign spec is needed" in done.stderr
    assert not (study.place / "swapped").exists()


def test_an_arm_that_no_model_fits_is_refused_before_anything_is_created(study):
    spec = study.changed_spec(arms=[{"name": "deep", "parallel": {"kind": "pipeline", "ranks": 4}}])
    done = study.run("deep", spec=spec)
    assert done.returncode == 2
    assert done.stderr == (
        f"bitrift: error: {spec}: arms[0].parallel: a pipeline of 4 stages cannot be cut from a model of 3 layers: "
        "use 1 to 3 ranks\n"
    )
    assert not (study.place / "deep").exists()


def test_a_batch_that_a_checkpoint_cannot_split_is_refused_before_anything_is_created(reference, study):
    shutil.copy(reference.place / "plain" / "base.h5", study.place / "mine.h5")
    arms = [STUDY_SPEC["arms"][0], {"name": "data-3", "parallel": {"kind": "data", "ranks": 3}}]
    spec = study.changed_spec(base={"checkpoint": "mine.h5"}, arms=arms)
    done = study.run("three", spec=spec)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "arms[1].parallel: a batch of 64 cannot be split evenly over 3 replica(s)" in done.stderr
    assert not (study.place / "three").exists()


def test_a_checkpoint_of_another_framework_needs_a_runner(study):
    with h5py.File(study.place / "keras.h5", "w") as file:
        file["model_weights/dense/dense/kernel:0"] = np.ones((4, 4), "<f4")
        file.attrs["keras_version"] = "2.15.0"
    done = study.run("foreign", spec=study.changed_spec(base={"checkpoint": "keras.h5"}))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "keras.h5" in done.stderr and "docs/exec-runner.md" in done.stderr
    assert not (study.place / "foreign").exists()


def test_another_number_of_threads_is_named_where_results_differ(reference, study):
    began = shutil.copytree(reference.place / "plain", study.place / "threads")
    (began / "trials.jsonl").write_bytes(
        b"".join((reference.place / "plain" / "trials.jsonl").read_bytes().splitlines(keepends=True)[:-3])
    )
    changed = {"OMP_NUM_THREADS": "7", "FAKE_TRAIN_KERNELS": "other"}
    hint = "OMP_NUM_THREADS was unset, is now 7"
    resumed = study.run("threads", env=changed)
    assert resumed.returncode == 1 and "not bit-identical" in resumed.stderr and hint in resumed.stderr
    replayed = campaign("replay", began, "serial/weight.sign/0", env=study.env | changed)
    assert replayed.returncode == 1 and hint in replayed.stderr
    same = {"FAKE_TRAIN_KERNELS": "other"}
    assert "OMP_NUM_THREADS" not in study.run("threads", env=same).stderr


def test_torn_tail_is_cut_and_its_run_repeated(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "torn")
    journal = folder / "trials.jsonl"
    text = journal.read_bytes()
    journal.write_bytes(text[: len(text) - 40])
    done = study.run("torn")
    assert done.returncode == 0, done.stderr
    assert "incomplete last line" in done.stderr
    assert read_rows(folder, check_crc=True) == reference.rows


def test_damage_in_the_middle_is_reported_with_its_line_and_nothing_is_changed(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "damaged")
    journal = folder / "trials.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"accuracy", b"akkuracy", 1)
    journal.write_bytes(b"".join(lines))
    for command in (["run", study.spec, "-o", folder], ["status", folder], ["diff", folder, folder]):
        done = campaign(*command, env=study.env)
        assert done.returncode == 2
        assert f"{journal}:7: " in done.stderr
    assert journal.read_bytes() == b"".join(lines)


def test_retracted_row_runs_again(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "retracted")
    row = b'{"ids":["serial/weight.sign/2"],"kind":"retract","reason":"test"}'
    with open(folder / "trials.jsonl", "ab") as journal:
        journal.write(b'{"crc32c":"%08x","row":%s}\n' % (crc32c(row), row))
    status = json.loads(campaign("status", folder, "--json").stdout)
    assert (status["complete"], status["retracted"]) == (False, 1)
    assert study.run("retracted").returncode == 0
    last = json.loads((folder / "trials.jsonl").read_bytes().splitlines()[-1])["row"]
    assert row_id(last) == "serial/weight.sign/2"
    assert campaign("diff", folder, reference.place / "plain").returncode == 0


def test_second_driver_is_refused_while_the_first_runs(study):
    first = study.start("shared", env={"FAKE_TRAIN_SECONDS": "0.05"})
    wait_until(lambda: journal_lines(study.place / "shared") > 3)
    second = study.run("shared")
    assert second.returncode == 2
    assert "another `bitrift campaign run`" in second.stderr
    assert json.loads(campaign("status", study.place / "shared", "--json").stdout)["running"]
    first.process.terminate()
    first.finish(20)


def test_other_spec_drills_or_base_are_refused(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "same")
    for arguments, named in (
        (["--set", "seed=12"], "seed was 11, is now 12"),
        (["--set", 'strata.fields=["sign"]'], "strata.fields"),
        (["--drill", "flip-nothing"], "drills"),
    ):
        done = study.run("same", *arguments)
        assert done.returncode == 2 and named in done.stderr, done.stderr
    with open(folder / "base.h5", "r+b") as base:
        base.seek(3000)
        byte = base.read(1)
        base.seek(3000)
        base.write(bytes([byte[0] ^ 1]))
    done = study.run("same")
    assert done.returncode == 2 and "base.h5: changed since the campaign began" in done.stderr


def test_base_checkpoint_is_copied_and_guarded(reference, study):
    base = study.place / "mine.h5"
    shutil.copy(reference.place / "plain" / "base.h5", base)
    before = base.read_bytes()
    spec = study.changed_spec(base={"checkpoint": "mine.h5"})
    assert study.run("copied", spec=spec).returncode == 0
    assert base.read_bytes() == before
    rows = read_rows(study.place / "copied")
    assert rows == reference.rows
    listed = json.loads(campaign("list", spec, "--json").stdout)["runs"]
    assert {run["id"]: run["faults"] for run in listed if run["kind"] == "trial"} == {
        key: row["faults"] for key, row in rows.items() if row["kind"] == "trial"
    }
    base.write_bytes(before + b"x")
    done = study.run("copied", spec=spec)
    assert done.returncode == 2 and "copied from changed since the campaign began" in done.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trials_per_stratum": 10**6}, ["weight.sign", "trials_per_stratum"]),
        ({"strata": {"roles": ["exp_avg"], "fields": ["sign"]}}, ["exp_avg.sign"]),
        ({"strata": {"roles": ["weight"], "fields": ["sign", "31"]}}, ["31", "overlap"]),
        (
            {"strata": {"roles": ["weight", "bias"], "fields": ["sign"], "tensors": ["model/**", "modell/**"]}},
            ["strata.tensors", "no tensor of role weight or bias matches 'modell/**'"],
        ),
        (
            {"strata": {"roles": ["weight", "bias"], "fields": ["sign"], "tensors": ["model/*.weight"]}},
            ["strata: bias.sign", "no tensor of this role matches strata.tensors"],
        ),
    ],
)
def test_cells_that_make_no_sense_are_named(reference, study, changes, words):
    shutil.copy(reference.place / "plain" / "base.h5", study.place / "mine.h5")
    spec = study.changed_spec(base={"checkpoint": "mine.h5"}, **changes)
    done = study.run("cells", spec=spec)
    assert done.returncode == 2 and all(word in done.stderr for word in words), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (study.place / "cells").exists()


@pytest.mark.parametrize("count", ["0", "-1", "two"])
def test_a_number_of_workers_that_is_none_is_refused_with_its_range(study, count):
    done = study.run("none", "--workers", count)
    assert done.returncode == 2
    assert f"--workers: expected a whole number from 1 to 65536, found '{count}'" in done.stderr
    assert not (study.place / "none").exists()


def test_names_of_runs_of_the_preparation_are_refused_for_fault_models(study):
    for name in ("control", "envelope", "held_out", "jitter"):
        models = [{"name": name, "roles": ["weight"], "count": 1}]
        spec = study.changed_spec(strata={"models": models})
        refused = study.run("named", spec=spec)
        assert refused.returncode == 2
        assert f"strata.models[0].name: '{name}' is reserved for runs of the preparation" in refused.stderr


def test_wrong_calls_exit_with_2_and_leave_nothing(study):
    foreign = study.place / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("precious")
    for arguments, words in (
        (["run", study.place / "none.json", "-o", study.place / "x"], "none.json"),
        (["run", study.spec, "-o", study.place / "x", "--drill", "explode"], "flip-nothing"),
        (["run", study.spec, "-o", foreign], "thesis.txt"),
        (["run", study.spec, "-o", study.spec], "not a folder"),
        (["status", study.place], "no campaign here"),
        (["list", study.spec], "has not been trained yet"),
    ):
        done = campaign(*arguments, env=study.env)
        assert done.returncode == 2, arguments
        assert words in done.stderr.splitlines()[-1]
        assert not (study.place / "x").exists()
    missing = campaign("run", study.spec, "-o", study.place / "x", env={"BITRIFT_TRAIN_PROGRAM": "/nowhere"})
    assert missing.returncode == 2 and "BITRIFT_TRAIN_PROGRAM" in missing.stderr


def test_unknown_drill_id_says_what_there_is(study):
    done = study.run("x", "--drill", "abort@serial/bias.sign/0")
    assert done.returncode == 2 and "weight.sign, weight.exponent, momentum.sign, momentum.exponent" in done.stderr


def test_replay_tells_equal_from_different(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "replayed")
    same = campaign("replay", folder, "data-2/weight.exponent/4", env=study.env)
    assert same.returncode == 0 and "same as the journal's row" in same.stdout
    (folder / "trials.jsonl").write_bytes(forged(folder, "data-2/weight.exponent/4"))
    other = campaign("replay", folder, "data-2/weight.exponent/4", env=study.env)
    assert other.returncode == 1 and "last_loss" in other.stdout
    unknown = campaign("replay", folder, "data-2/weight.exponent/6", env=study.env)
    assert unknown.returncode == 2 and "draws 0 to 5" in unknown.stderr


def forged(folder, id_):
    """The journal with another last loss, and a fitting checksum, in one row."""
    lines = []
    for line in (folder / "trials.jsonl").read_bytes().splitlines():
        row = json.loads(line)["row"]
        if row_id(row) == id_:
            row["result"]["last_loss"] = "0x1p+0"
            text = json.dumps(row, sort_keys=True, separators=(",", ":")).encode()
            line = b'{"crc32c":"%08x","row":%s}' % (crc32c(text), text)
        lines.append(line + b"\n")
    return b"".join(lines)


@pytest.mark.parametrize("name", ["base.npz", "base.safetensors"])
def test_a_base_that_is_not_hdf5_is_refused(study, name):
    checkpoint = study.place / name
    if name.endswith(".npz"):
        np.savez(checkpoint, w=np.ones(3))
    else:
        checkpoint.write_bytes((2).to_bytes(8, "little") + b"{}")
    done = study.run("other", spec=study.changed_spec(base={"checkpoint": name}))
    assert done.returncode == 2
    kind = {"base.npz": "a zip archive", "base.safetensors": "a safetensors file"}[name]
    assert done.stderr.startswith(
        f"bitrift: error: {checkpoint}: is {kind}, but bitrift-train takes HDF5 as the base of a campaign; convert it"
    )
    assert done.stderr.count("\n") == 1
    assert not (study.place / "other").exists()
