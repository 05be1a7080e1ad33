"""`bitrift campaign run --audit`: a campaign says at its start, and its report, whether the script's resume is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bitrift.report
import pytest
from bitrift.program import program
from report_page import ARMS, Page
from synthetic import study_rows, write_campaign

ROOT = Path(__file__).resolve().parents[2]
SPEC = {
    "name": "audited",
    "seed": 1,
    "base": {"checkpoint": "inline.h5"},
    "runner": {"python": "inline.py"},
    "arms": [{"name": name, "parallel": {"kind": "serial"}} for name in ("one", "same")],
    "strata": {"roles": ["weight"], "fields": ["sign"]},
    "trials_per_stratum": 1,
    "controls": {"envelope": 20, "held_out": 1, "jitter": 1},
}


@pytest.mark.parametrize("forgets", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_campaign_says_whether_its_resume_is_one(forgets: bool, tmp_path: Path) -> None:
    for name in ("inline.py", "digits.py"):
        shutil.copy(ROOT / "examples" / "own-trainer" / name, tmp_path)
    if forgets:
        script = tmp_path / "inline.py"
        script.write_text(script.read_text().replace("scheduler=scheduler, ", ""))
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    environment = os.environ | {"BITRIFT_DATA_DIR": str(ROOT / "data")}
    subprocess.run([sys.executable, "inline.py"], cwd=tmp_path, env=environment, check=True, capture_output=True)

    def start(*options: str) -> list[str]:
        command = [program(), "campaign", "run", "spec.json", "-o", "out", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr.splitlines()

    lines = start("--audit")
    said = "a resume is not an uninterrupted training; missing: scheduler"
    line = f"audit of one, same: {said if forgets else 'a resume equals an uninterrupted training bit for bit'}"
    assert line in lines and sum(one.startswith("auditing") for one in lines) == 1
    assert lines.index(line) < next(i for i, one in enumerate(lines) if one.startswith("controls"))
    again = start("--audit")
    assert line in again and not any(one.startswith("auditing") for one in again)
    page = Page(bitrift.report.render(tmp_path / "out")[0])
    if forgets:
        assert "under one and same is not an uninterrupted training. Missing: scheduler (last_epoch is" in page.text
    else:
        assert "a resume under one and same equals an uninterrupted training bit for bit" in page.text


def test_a_report_says_what_an_audit_could_not_answer(tmp_path: Path) -> None:
    write_campaign(tmp_path / "c", study_rows(), ARMS)
    assert "udit" not in Page(bitrift.report.render(tmp_path / "c")[0]).text
    found = {"equal": False, "problem": "two trainings differ", "missing": []}
    (tmp_path / "c" / "audit.json").write_text(json.dumps({"arms": dict.fromkeys(ARMS, found)}))
    text = Page(bitrift.report.render(tmp_path / "c")[0]).text
    assert f"The resume under {ARMS[0]} and {ARMS[1]} could not be audited: two trainings differ" in text


def test_an_audit_is_for_a_script(tmp_path: Path) -> None:
    command = [program(), "campaign", "run", str(ROOT / "campaigns" / "quickstart.json"), "-o", "out", "--audit"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "--audit is for the PyTorch script" in done.stderr
    assert not (tmp_path / "out").exists()
