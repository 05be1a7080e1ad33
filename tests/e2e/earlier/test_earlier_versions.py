"""Files that an earlier version wrote are read as that version read them, or refused with the name of their schema.

The samples are in tests/data/earlier; the README.md there describes how each was made. Tables are compared by their
numbers, not by their wording. test_earlier_training.py does the same for what needs bitrift-train.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import earlier_support as support
import h5py
import pytest
from earlier_support import SAMPLES, call, documents_of, expected, printed_name, refused, sha256, tables_of
from inject_support import BITRIFT

FAULTS = expected("faults")["manifests"]
UNDO = expected("undo")
PRINTED = SAMPLES / "campaigns" / "expected"


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample campaigns, for tests that alter none."""
    return support.campaigns(tmp_path_factory.mktemp("campaigns"))


def test_samples_are_those_that_were_written() -> None:
    listed = dict(reversed(line.split("  ")) for line in (SAMPLES / "SHA256SUMS").read_text().splitlines())
    there = {str(path.relative_to(SAMPLES)): path for path in SAMPLES.rglob("*") if path.is_file()}
    assert set(there) == set(listed) | {"README.md", "SHA256SUMS"}
    assert [name for name, digest in listed.items() if sha256(there[name]) != digest] == []


@pytest.mark.parametrize("name", FAULTS)
def test_manifest_gives_the_same_file_again(tmp_path: Path, name: str) -> None:
    folder, fault = support.copied("faults", tmp_path), FAULTS[name]
    drawn = ["--seed", fault["seed"], *(word for word in fault["options"].split() if word != "--compact-manifest")]
    for words in (["--replay", f"{name}.json"], drawn):
        call(folder, "inject", fault["base"], "-o", "out.h5", *words)
        assert sha256(folder / fault["base"]) == expected("faults")["bases"][fault["base"]]
        if "sha256" in fault:
            assert sha256(folder / "out.h5") == fault["sha256"]
        # Another zlib packs a chunk into other bytes, of the same values.
        with h5py.File(folder / "out.h5") as file:
            for path, digest in fault.get("values", {}).items():
                assert hashlib.sha256(file[path][()].tobytes()).hexdigest() == digest


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if "by_name" in fault])
def test_manifest_is_replayed_onto_another_layout(tmp_path: Path, name: str) -> None:
    folder = support.copied("faults", tmp_path)
    call(folder, "inject", "layout.h5", "-o", "out.h5", "--replay", f"{name}.json", "--by-name")
    assert sha256(folder / "out.h5") == FAULTS[name]["by_name"]


@pytest.mark.parametrize("name", UNDO)
def test_undo_journal_gives_the_original_back(tmp_path: Path, name: str) -> None:
    folder, sample = support.copied("undo", tmp_path), UNDO[name]
    path = folder / f"{name}.h5"
    assert sha256(path) == sample["found"]
    call(folder, "undo", path.name)
    assert sha256(path) == sample["original"]
    assert not (folder / f"{name}.h5.undo").exists()


@pytest.mark.parametrize("name", [name for name, sample in UNDO.items() if sample["found"] != sample["altered"]])
def test_injection_that_was_cut_short_is_taken_back_by_the_next(tmp_path: Path, name: str) -> None:
    folder, sample = support.copied("undo", tmp_path), UNDO[name]
    call(folder, "inject", f"{name}.h5", "--in-place", "--seed", 7, *sample["options"].split())
    if not sample["grows"]:
        assert sha256(folder / f"{name}.h5") == sample["altered"]
    call(folder, "undo", f"{name}.h5")
    assert sha256(folder / f"{name}.h5") == sample["original"]


@pytest.mark.parametrize("name", support.CHECKPOINTS)
def test_checkpoint_is_listed(name: str) -> None:
    listed = call(SAMPLES / "training", "ls", f"{name}.h5").stdout
    assert support.numbers(listed) == support.numbers((SAMPLES / "training" / f"{name}.ls.txt").read_text())


@pytest.mark.parametrize("campaign", support.FINISHED)
def test_analysis_gives_the_same_numbers(tmp_path: Path, campaign: str) -> None:
    folder = support.campaigns(tmp_path)
    for view, options in tables_of(campaign).items():
        table = support.table_of_then(call(folder, "analyze", campaign, *options.split()).stdout)
        before = support.table_of_then((PRINTED / f"{printed_name(campaign, view)}.txt").read_text())
        assert support.numbers(table) == support.numbers(before), view
    for view, options in documents_of(campaign).items():
        document = json.loads(call(folder, "analyze", campaign, *options.split(), "--json").stdout)
        document.pop("provenance", None)
        document.pop("all_bitwise", None)
        before = f"{campaign}/summary.json" if view == "summary" else f"expected/{printed_name(campaign, view)}.json"
        stored = json.loads((SAMPLES / "campaigns" / before).read_text())
        stored.pop("provenance", None)
        assert support.alike(support.without_new_rules(document), support.without_new_rules(stored)), view
    call(folder, "analyze", campaign)
    assert support.alike(
        support.summary_of(folder / campaign / "summary.json"),
        support.summary_of(SAMPLES / "campaigns" / campaign / "summary.json"),
    )


@pytest.mark.parametrize("campaign", [*support.FINISHED, "rounds/killed", "rounds/divided"])
def test_status_is_the_same(campaigns: Path, campaign: str) -> None:
    status = json.loads(call(campaigns, "campaign", "status", campaign, "--json").stdout)
    stored = json.loads((PRINTED / f"{printed_name(campaign, 'status')}.json").read_text())
    assert support.alike(status, stored)


@pytest.mark.parametrize("campaign", support.FINISHED)
def test_the_plan_lists_the_rows_of_the_journal(campaigns: Path, campaign: str) -> None:
    listed = json.loads(call(campaigns, "campaign", "list", campaign, "--json").stdout)
    runs = {run["id"]: run for run in listed["runs"]}
    rows = support.effective_rows(campaigns / campaign)
    assert set(runs) == set(rows)
    for name, row in rows.items():
        assert runs[name]["kind"] == row["kind"]
        assert support.places(runs[name]["faults"]) == support.places(row["faults"]), name


def test_journals_are_compared(campaigns: Path) -> None:
    for campaign in support.FINISHED:
        call(campaigns, "campaign", "diff", campaign, campaign)
    call(campaigns, "campaign", "diff", "rounds/killed", "rounds/finished", code=1)
    call(campaigns, "campaign", "diff", "models", "trained", code=1)


def test_killed_campaign_resumes_to_the_rows_of_one_that_was_not(tmp_path: Path) -> None:
    folder = support.campaigns(tmp_path)
    journal = folder / "rounds" / "killed" / "trials.jsonl"
    journal.write_bytes(journal.read_bytes()[:-10])  # as a crash of the machine leaves it
    words = ["campaign", "run", "rounds.json", "-o", "rounds/killed", "--workers", 2]
    call(folder, *words, env=support.environment(tmp_path))
    call(folder, "campaign", "diff", "rounds/killed", "rounds/finished")
    support.assert_same_rounds(folder / "rounds" / "killed", folder / "rounds" / "finished")
    summary = support.summary_of(folder / "rounds" / "killed" / "summary.json")
    assert support.alike(summary, support.summary_of(folder / "rounds" / "finished" / "summary.json"))


def test_divided_campaign_is_merged_and_resumes_to_the_same_rows(tmp_path: Path) -> None:
    folder = support.campaigns(tmp_path)
    merged = json.loads(call(folder, "campaign", "merge", "rounds/divided", "--json").stdout)
    assert support.alike(merged, json.loads((PRINTED / "rounds-divided.merge.json").read_text()))
    call(folder, "campaign", "diff", "rounds/divided", SAMPLES / "campaigns" / "rounds" / "divided")
    words = [BITRIFT, "campaign", "run", "rounds.json", "-o", "rounds/divided", "--workers", "1", "--shard"]
    drivers = [
        subprocess.Popen([*words, f"{shard}/2"], cwd=folder, env=support.environment(tmp_path)) for shard in (1, 2)
    ]
    try:
        assert [driver.wait(timeout=120) for driver in drivers] == [0, 0]
    finally:
        for driver in drivers:  # one alone would wait for the other for ever
            driver.kill()
            driver.wait()
    call(folder, "campaign", "diff", "rounds/divided", "rounds/finished")
    support.assert_same_rounds(folder / "rounds" / "divided", folder / "rounds" / "finished")


@pytest.mark.parametrize(
    ("campaign", "trial"),
    [
        ("rounds/finished", "own/weight.exponent_msb/0"),  # a failure
        ("rounds/finished", "own/weight.sign/1"),
        ("models", "own/storage/2"),
        ("models", "own/rate/1"),
    ],
)
def test_replay_gives_the_row_of_the_journal(tmp_path: Path, campaign: str, trial: str) -> None:
    call(support.campaigns(tmp_path), "campaign", "replay", campaign, trial, env=support.environment(tmp_path))


@pytest.mark.parametrize("schema", ["bitrift/fault-manifest/9", "other/3"])
def test_manifest_of_an_unknown_schema_is_refused(tmp_path: Path, schema: str) -> None:
    folder = support.copied("faults", tmp_path)
    support.rewrite(folder / "flip.json", "bitrift/fault-manifest/3", schema)
    refused(folder, "inject", "model.h5", "-o", "out.h5", "--replay", "flip.json", says=schema)
    assert not (folder / "out.h5").exists()


@pytest.mark.parametrize("schema", ["bitrift/undo/9", "other/2"])
def test_undo_journal_of_an_unknown_schema_is_refused(tmp_path: Path, schema: str) -> None:
    folder = support.copied("undo", tmp_path)
    support.rewrite(folder / "complete.h5.undo", "bitrift/undo/2", schema)
    for words in (["undo", "complete.h5"], ["inject", "complete.h5", "--in-place"]):
        refused(folder, *words, says=f"complete.h5.undo: its schema is {schema}, expected bitrift/undo/2")
    assert sha256(folder / "complete.h5") == UNDO["complete"]["found"]


@pytest.mark.parametrize("words", ["analyze", "campaign status", "campaign list"])
@pytest.mark.parametrize("file", ["campaign.json", "rounds/0000.json"])
def test_campaign_of_a_later_version_is_refused(tmp_path: Path, file: str, words: str) -> None:
    folder = support.campaigns(tmp_path)
    support.rewrite(folder / "rounds" / "finished" / file, '"schema": 1,', '"schema": 9,')
    refused(folder, *words.split(), "rounds/finished", says=f"rounds/finished/{file}: its schema is 9, expected 1")


def test_campaign_of_a_later_version_is_refused_by_a_start(tmp_path: Path) -> None:
    folder = support.campaigns(tmp_path)
    support.rewrite(folder / "rounds" / "killed" / "campaign.json", '"schema": 1,', '"schema": 9,')
    words = ["campaign", "run", "rounds.json", "-o", "rounds/killed"]
    done = call(folder, *words, code=2, env=support.environment(tmp_path))
    assert "rounds/killed/campaign.json: its schema is 9, expected 1" in done.stderr.splitlines()[-1]


def test_round_of_a_later_version_is_refused_by_a_start(tmp_path: Path) -> None:
    folder = support.campaigns(tmp_path)
    support.rewrite(folder / "rounds" / "killed" / "rounds" / "0000.json", '"schema": 1,', '"schema": 9,')
    done = call(
        folder, "campaign", "run", "rounds.json", "-o", "rounds/killed", code=2, env=support.environment(tmp_path)
    )
    assert "rounds/killed/rounds/0000.json" in done.stderr.splitlines()[-1] and "schema is 9" in done.stderr


def test_row_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    folder = support.campaigns(tmp_path)
    journal = folder / "rounds" / "finished" / "trials.jsonl"
    lines = journal.read_bytes().splitlines()
    lines[3] = support.journal_line(json.loads(lines[3])["row"] | {"kind": "rehearsal"})
    journal.write_bytes(b"\n".join(lines) + b"\n")
    for words in (["analyze"], ["campaign", "status"]):
        refused(folder, *words, "rounds/finished", says="trials.jsonl:4: 'rehearsal' is not a valid kind of row")
