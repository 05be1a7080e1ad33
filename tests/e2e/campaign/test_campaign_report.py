"""The report of each kind of campaign, finished and while it runs: its sentences against spec, base and rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import bitrift
import bitrift.report
import pytest
from report_checks import (
    Row,
    Sections,
    arms_of,
    can_be_judged,
    check_canaries,
    check_clean_runs,
    check_limits,
    check_results,
    check_verdict,
    check_words,
    rows_of,
)
from report_kinds import KINDS, Studies


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Studies:
    return Studies(tmp_path_factory.mktemp("studies"))


def finished_lead(folder: Path, rows: list[Row]) -> str:
    trials, arms = sum(row["kind"] == "trial" for row in rows), arms_of(folder)
    each = (
        f"the arm: {arms[0]}" if len(arms) == 1 else f"each of {len(arms)} arms: {', '.join(arms[:-1])} and {arms[-1]}"
    )
    return f"The campaign is finished: all {trials} planned trials count. Every fault runs in {each}."


@pytest.mark.parametrize("name", KINDS)
def test_the_report_of_a_finished_campaign(studies: Studies, name: str) -> None:
    folder = studies.folder(name)
    text, given = bitrift.report.render(folder)
    page, rows = Sections(text), rows_of(folder)
    assert given and finished_lead(folder, rows) in page.texts["verdict"]["p"]
    check_verdict(name, folder, page)
    check_clean_runs(folder, page)
    check_canaries(folder, page, rows)
    check_limits(name, folder, page)
    check_results(name, folder, page)
    check_words(page)
    assert ("recovery" in page.texts) == (kind_of(folder) == "process")


def kind_of(folder: Path) -> str:
    strata = json.loads((folder / "campaign.json").read_text())["spec"]["strata"]
    return next((one for one in ("process", "wire", "link", "models") if one in strata), "bits")


def cuts_of(rows: list[Row]) -> list[int]:
    """Journals of a campaign that runs: before, amid and after clean runs, canaries and trials."""
    canaries = [place for place, row in enumerate(rows) if row["kind"] == "canary"]
    trials = [place for place, row in enumerate(rows) if row["kind"] == "trial"]
    early = [0, 1, canaries[0], canaries[0] + 1, canaries[1] + 1, canaries[2], canaries[-1], canaries[-1] + 1]
    late = [trials[0], trials[0] + 1, trials[len(trials) // 2], trials[-1]]
    return sorted({*early, *late})


@pytest.mark.parametrize("name", KINDS)
def test_the_report_of_a_campaign_that_runs(studies: Studies, name: str, tmp_path: Path) -> None:
    whole = studies.folder(name)
    rows, folder = rows_of(whole), tmp_path / "run"
    shutil.copytree(whole, folder)
    lines = (whole / "trials.jsonl").read_bytes().splitlines(keepends=True)
    orders = json.loads((folder / "campaign.json").read_text())["spec"]["controls"]["orders"]
    states = set()
    for cut in cuts_of(rows):
        (folder / "trials.jsonl").write_bytes(b"".join(lines[:cut]))
        text, given = bitrift.report.render(folder)
        page, seen = Sections(text), rows[:cut]
        check_canaries(folder, page, rows)
        check_clean_runs(folder, page)
        check_words(page)
        verdict = " ".join(page.texts["verdict"].get("p", []))
        for false in ("misbehave", "can be trusted", "Every fault ran ", "The campaign is finished"):
            assert false not in text, (cut, false)
        begun, arms = {row["id"]["arm"] for row in seen}, set(arms_of(folder))
        prepared = all(can_be_judged(seen, arm, orders) for arm in begun)
        ran = {(row["id"]["arm"], row["id"]["stratum"]) for row in seen if row["kind"] == "canary"}
        due = {(row["id"]["arm"], row["id"]["stratum"]) for row in rows if row["kind"] == "canary"}
        due = {one for one in due if one[0] in begun and not one[1].startswith("canary:reads-")}
        assert given is (bool(seen) and prepared and due <= ran and begun == arms), (cut, verdict)
        if not seen:
            states.add("no rows")
            assert "No verdict can be given yet: the campaign has no rows." in verdict
        elif not prepared or (due <= ran and begun != arms):
            states.add("clean runs are missing")
            assert "No verdict can be given. bitrift analyze refuses this campaign: arm '" in verdict
        elif not given:
            states.add("canaries are missing")
            waiting = [line for line in page.tables["Canaries"][1:] if line[5] == "not run yet"]
            count = (
                f"{len(waiting)} {'canary' if len(waiting) == 1 else 'canaries'} of {len(page.tables['Canaries']) - 1}"
            )
            assert f"No verdict can be given yet. {count} must run first." in verdict
        elif not any(row["kind"] == "trial" for row in seen):
            states.add("no trial")
            assert page.texts["verdict"]["p"] == ["No trial has run yet."]
        else:
            states.add("trials")
            done = bitrift.summary(folder)
            assert "The campaign is not finished: " in verdict
            if done["trials"] == 0:
                assert verdict.endswith(" No trial counts yet.")
                continue
            if done["trials"] < done["planned"] or done["waiting"]:
                assert f"{done['trials']} of {done['planned']} planned trials count." in verdict
            check_verdict(name, folder, page)
            check_limits(name, folder, page)
            check_results(name, folder, page)
    assert {"no rows", "clean runs are missing", "trials"} <= states
