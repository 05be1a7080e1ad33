"""`python -m bitrift audit save`: ways to save a checkpoint, each judged as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bitrift.audit import SaveAudit, TrainingFailed, Trainings, Zygote, audit_save, save
from bitrift.audit.save import WHOLE, Left

SCRIPT = Path(__file__).parent / "saves" / "savings.py"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    yield one
    one.close()


@pytest.fixture
def audit_of(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    def audit(way: str, *, mistake: str = "", kills: int = 24) -> SaveAudit:
        monkeypatch.setenv("WAY", way)
        monkeypatch.setenv("MISTAKE", mistake)
        with Trainings(f"{SCRIPT}:main", zygote=zygote) as trainings:
            return audit_save(trainings, kills=kills)

    yield audit


def check(found: SaveAudit) -> str:
    """What holds of every audit; its lines."""
    assert not found.problem and found.kills and found.calls
    assert (found.kills[0].call, found.kills[0].half, found.kills[0].left) == (1, False, Left.PREVIOUS)
    assert [one.name for one in found.kills] == [found.calls[one.call - 1] for one in found.kills] or found.aside
    assert sum(found.counts().values()) == len(found.kills)
    assert json.loads(json.dumps(save.document_of(found)))["safe"] is found.safe
    return "\n".join(save.lines_of(found))


@pytest.mark.parametrize(
    "way", ["renamed", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("own", "pointer"))]
)
def test_a_file_that_is_replaced_as_a_whole_is_safe(way: str, audit_of) -> None:
    found = audit_of(way)
    lines = check(found)
    assert found.safe and {one.left for one in found.kills} <= WHOLE, lines
    assert found.aside == 0 and not found.races
    assert "a killed save leaves a whole checkpoint" in lines and "has written everything when it returns" in lines


def test_torch_save_over_the_old_file_loses_both(audit_of) -> None:
    found = audit_of("over")
    lines = check(found)
    # The first call truncates the old file.
    assert [one.left for one in found.kills] == [Left.PREVIOUS] + [Left.REFUSED] * (len(found.kills) - 1), lines
    assert not found.safe and "a killed save can lose the checkpoint" in lines and "os.replace()" in lines


def test_a_load_that_begins_again_is_no_whole_checkpoint(audit_of) -> None:
    found = audit_of("forgiving")
    assert {one.left for one in found.kills[1:]} == {Left.SCRATCH}, check(found)
    assert not found.safe


def test_files_that_are_whole_one_by_one_are_torn_together(audit_of) -> None:
    found = audit_of("pieces")
    torn = [one for one in found.kills if one.left is Left.TORN]
    assert torn and {one.left for one in found.kills} == {Left.PREVIOUS, Left.TORN}, check(found)
    assert "of the earlier save: number of the epoch, state of optimizer; of this save: model" in torn[0].detail


def test_a_pointer_that_moves_too_early_names_a_missing_file(audit_of) -> None:
    found = audit_of("pointer", mistake="early")
    assert not found.safe and Left.REFUSED in found.counts(), check(found)
    assert "step-2" in next(one.detail for one in found.kills if one.left is Left.REFUSED)


@pytest.mark.parametrize("way", [pytest.param("dcp", marks=pytest.mark.thorough), "dcp-async"])
def test_dcp_over_an_older_checkpoint_loses_both_and_keeps_one_step(way: str, audit_of) -> None:
    found = audit_of(way, kills=12)
    lines = check(found)
    assert not found.safe and Left.REFUSED in found.counts(), lines
    assert (found.aside > 0) is (way == "dcp-async")
    assert not found.torn, lines
    assert len(found.races) == (5 if found.aside else 0)


def test_a_save_in_the_background_of_live_tensors_is_torn(audit_of) -> None:
    found = audit_of("background", kills=6)
    lines = check(found)
    assert {one.left for one in found.kills} <= WHOLE and not found.safe
    # With the last call held, everything may have been written before the next step.
    assert len(found.races) == 5 and found.races[0].left is Left.TORN, lines
    assert not any(one.waited for one in found.races), lines
    assert "copy the tensors before save() returns" in lines


def test_a_save_in_the_background_of_a_copy_is_safe(audit_of) -> None:
    found = audit_of("copied")
    lines = check(found)
    assert found.safe and found.races and found.aside == len(found.calls), lines
    assert "all keep the state at the save" in lines


def test_a_training_that_waits_for_its_save_is_safe(audit_of) -> None:
    found = audit_of("process")
    lines = check(found)
    assert found.safe and found.races and all(one.waited for one in found.races), lines
    assert "the training waits for the save" in lines


def test_a_script_that_cannot_be_judged_is_said_to_be(tmp_path: Path, zygote: Zygote) -> None:
    text = SCRIPT.read_text().replace("load=load", "load=lambda path: {'epoch': 0}")
    (tmp_path / "never.py").write_text(text.replace('os.environ["WAY"]', "'renamed'"))
    with Trainings(f"{tmp_path / 'never.py'}:main", zygote=zygote) as trainings:
        found = audit_save(trainings)
    assert found.problem and not found.safe and "cannot be audited" in save.lines_of(found)[0]
    assert ElementTree.fromstring(save.junit_of(found)).find("testcase/error") is not None
    (tmp_path / "broken.py").write_text(text.replace('WAYS[os.environ["WAY"]]', "(lambda path: 1 / 0), load_file"))
    with Trainings(f"{tmp_path / 'broken.py'}:main", zygote=zygote) as trainings, pytest.raises(TrainingFailed) as told:
        audit_save(trainings)
    assert "save() ends with exit code 1" in str(told.value)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAY", "over")
    command = [sys.executable, "-m", "bitrift", "audit", "save", f"{SCRIPT}:main", "--kills", "3"]
    command += ["--json", str(tmp_path / "a.json"), "--junit", str(tmp_path / "a.xml"), "--name", "model.pt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "can lose the checkpoint (3 kills" in done.stdout, done.stderr
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["schema"] == "bitrift/audit-save/1" and document["counts"] == {"previous": 1, "refused": 2}
    assert ElementTree.parse(tmp_path / "a.xml").find("testcase/failure") is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["none.py"], "none.py: no such file"),
        ([f"{SCRIPT}:main", "--kills", "1"], "--kills at least 2"),
        ([f"{SCRIPT}:main", "--name", "a/b"], "--name a/b: give the name of a file, without a folder"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_two(options: list[str], says: str) -> None:
    command = [sys.executable, "-m", "bitrift", "audit", "save", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("bitrift: error: ") and says in done.stderr
