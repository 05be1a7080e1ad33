"""`bitrift gate` and `bitrift compare DIR OTHER`: exit codes, files and refusals, around a stand-in for the trainer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from campaign_support import BIN, Study, crc32c

DRAWS = 30


def bitrift(*arguments, cwd=None):
    return subprocess.run([BIN / "bitrift", *map(str, arguments)], text=True, capture_output=True, check=False, cwd=cwd)


def change_trials(folder, change):
    """Rewrites every trial row of a journal by `change`, which alters it in place."""
    path = folder / "trials.jsonl"
    lines = []
    for line in path.read_bytes().splitlines():
        row = json.loads(line)["row"]
        if row["kind"] == "trial":
            change(row)
        text = json.dumps(row, separators=(",", ":")).encode()
        lines.append(b'{"crc32c":"%08x","row":%s}\n' % (crc32c(text), text))
    path.write_bytes(b"".join(lines))


def crash_until(draw):
    """Lets the first draws of one stratum of the arm serial end by a signal."""

    def change(row):
        if row["id"]["arm"] == "serial" and row["id"]["stratum"] == "weight.sign" and row["id"]["draw"] < draw:
            row.pop("result", None)
            row["failure"] = {"reason": "signal", "detail": "Segmentation fault", "signal": 11}

    return change


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """plain; worse: 20 of its faults crash now; other: another seed."""
    study = Study(tmp_path_factory.mktemp("gate"))
    for name, seed in (("plain", 11), ("other", 12)):
        done = study.run(name, spec=study.changed_spec(trials_per_stratum=DRAWS, seed=seed))
        assert done.returncode == 0, done.stderr
    shutil.copytree(study.place / "plain", study.place / "worse")
    change_trials(study.place / "worse", crash_until(20))
    return study.place


@pytest.fixture(scope="module")
def baseline(campaigns):
    path = campaigns / "baseline.json"
    done = bitrift("gate", campaigns / "plain", "--baseline", path, "--update")
    assert (done.returncode, done.stdout) == (0, f"wrote {path}: {8 * DRAWS} trials\n"), done.stderr
    return path


def refused(*arguments, code=2):
    done = bitrift("gate", *arguments)
    assert done.returncode == code
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_baseline_says_where_it_comes_from(baseline):
    document = json.loads(baseline.read_text())
    assert document["schema"] == "bitrift/baseline/3"
    assert "--update" in document["provenance"]["command"]
    assert document["spec"]["seed"] == 11
    assert set(document["base_digests"]) == {"base"}
    cell = document["arms"]["data-2"]["momentum.exponent"]
    assert re.fullmatch(f"[msc]{{{DRAWS}}}", cell["outcomes"])
    assert len(cell["faults"]) == 8 * DRAWS


def test_an_equal_campaign_passes(campaigns, baseline):
    done = bitrift("gate", campaigns / "plain", "--baseline", baseline)
    assert done.returncode == 0, done.stderr
    assert f"{8 * DRAWS} trials have the same fault as in the baseline: 0 end worse, 0 end better." in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Passed: no increase of harm is shown.")


def test_a_worse_campaign_fails_and_names_line_and_faults(campaigns, baseline):
    done = bitrift("gate", campaigns / "worse", "--baseline", baseline)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "Worse: harm has increased in 1 of 4 lines (crash, arm serial)."
    assert re.search(r"serial/weight\.sign/\d+: crash, in the baseline \w+; model/\S+\[\d+\] bit 31 ", done.stdout)
    document = json.loads(bitrift("gate", campaigns / "worse", "--baseline", baseline, "--json").stdout)
    line = next(line for line in document["lines"] if line["verdict"] == "worse")
    assert (line["kind"], line["test"], line["first_only"]) == ("paired", "mcnemar", 0)
    # The exact test by hand: all discordant pairs became crashes.
    assert line["p"] == pytest.approx(0.5 ** line["second_only"])
    assert line["adjusted_p"] == pytest.approx(4 * line["p"])
    assert document["verdict"] == "worse"
    assert {flip["after"] for flip in document["flips"]} == {"crash"}


def test_a_folder_or_its_summary_is_a_baseline(campaigns):
    for path in (campaigns / "plain", campaigns / "plain" / "summary.json"):
        assert bitrift("gate", campaigns / "plain", "--baseline", path).returncode == 0
        assert bitrift("gate", campaigns / "worse", "--baseline", path).returncode == 1


def test_other_faults_are_compared_unpaired(campaigns, baseline):
    done = bitrift("gate", campaigns / "other", "--baseline", baseline, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert {line["test"] for line in document["lines"]} == {"fisher"}
    assert document["differences"] == ["seed: 11 and 12"]


def test_files_for_ci_servers(campaigns, baseline, tmp_path):
    xml, page = tmp_path / "gate.xml", tmp_path / "gate.md"
    done = bitrift("gate", campaigns / "worse", "--baseline", baseline, "--junit", xml, "--markdown", page)
    assert done.returncode == 1
    root = ElementTree.parse(xml).getroot()
    assert root.tag == "testsuites"
    assert [child.tag for child in root] == ["testsuite"]
    suite = root[0]
    assert {suite.get("tests"), suite.get("failures"), suite.get("errors")} == {"4", "1", "0"}
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["crash, arm serial"]
    assert all(case.get("classname") == "bitrift.gate.driver" and case.get("time") for case in cases)
    assert "p " in (cases[-1].find("failure").text or "")
    text = page.read_text()
    assert text.startswith("### Resilience gate: driver\n\nWorse: ")
    assert "| crash, arm serial |" in text
    assert text.count("<details>") == text.count("</details>") == 1
    assert f"bitrift campaign replay {campaigns / 'worse'} serial/weight.sign/" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gate.md", "gate.xml"]


def test_tolerances_are_applied(campaigns, baseline, tmp_path):
    rules = tmp_path / "gate.json"
    families = [{"outcomes": ["crash"], "by": ["arm", "role"], "where": {"arm": ["serial"]}, "tolerance_points": 99}]
    rules.write_text(json.dumps({"families": families}))
    done = bitrift("gate", campaigns / "worse", "--baseline", baseline, "--tolerance", rules)
    assert done.returncode == 0, done.stdout
    assert "crash, arm serial, role momentum" in done.stdout
    rules.write_text(json.dumps({"families": [{"outcomes": ["SDC"], "must_see_points": 0.1}]}))
    done = bitrift("gate", campaigns / "plain", "--baseline", baseline, "--tolerance", rules)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("Undecided: no increase is shown")


def test_the_shipped_example_is_accepted(campaigns, baseline):
    example = Path(__file__).parents[3] / "examples" / "ci" / "gate.json"
    done = bitrift("gate", campaigns / "plain", "--baseline", baseline, "--tolerance", example)
    assert done.returncode in (0, 1), done.stderr
    assert "passed" in done.stdout


def test_wrong_tolerances_are_refused_with_their_key(campaigns, baseline, tmp_path):
    rules = tmp_path / "gate.json"
    for text, expected in (
        ('{\n "families": [{"outcomes": ["masked"]}]}', r"gate\.json:2: families\[0\]\.outcomes\[0\]: expected one of"),
        ('{"tolerance": 1}', "tolerance"),
        ("{", "gate.json"),
        ('{"families": [{"outcomes": ["SDC"], "where": {"role": ["wieght"]}}]}', "has role wieght"),
    ):
        rules.write_text(text)
        assert re.search(expected, refused(campaigns / "plain", "--baseline", baseline, "--tolerance", rules))


def test_what_is_no_baseline_is_refused(campaigns, baseline, tmp_path):
    missing = tmp_path / "missing.json"
    assert "missing.json" in refused(campaigns / "plain", "--baseline", missing)
    broken = tmp_path / "broken.json"
    broken.write_text(baseline.read_text()[:1000])
    assert "broken.json" in refused(campaigns / "plain", "--baseline", broken)
    later = tmp_path / "later.json"
    later.write_text(json.dumps(json.loads(baseline.read_text()) | {"schema": "bitrift/baseline/4"}))
    assert "another version of bitrift wrote it" in refused(campaigns / "plain", "--baseline", later)
    alone = shutil.copy(campaigns / "plain" / "summary.json", tmp_path / "summary.json")
    assert "--update" in refused(campaigns / "plain", "--baseline", alone)
    assert "no campaign here" in refused(tmp_path, "--baseline", baseline)


def test_a_baseline_of_another_campaign_is_refused(campaigns, baseline, tmp_path):
    document = json.loads(baseline.read_text())
    document["spec"]["strata"]["fields"] = ["exponent", "sign"]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    line = refused(campaigns / "plain", "--baseline", other)
    assert 'strata.fields[0]: "exponent" and "sign"' in line
    assert "write a new baseline with --update" in line


def test_an_unfinished_campaign_is_refused(campaigns, baseline, tmp_path):
    folder = shutil.copytree(campaigns / "plain", tmp_path / "unfinished")
    lines = (folder / "trials.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"draw":29' not in line]
    assert len(kept) < len(lines)
    (folder / "trials.jsonl").write_bytes(b"".join(kept))
    assert "has 232 of 240 trials" in refused(folder, "--baseline", baseline)
    assert "has 232 of 240 trials" in refused(folder, "--baseline", tmp_path / "new.json", "--update")
    assert not (tmp_path / "new.json").exists()


def test_misbehaving_canaries_never_pass(campaigns, baseline, tmp_path):
    folder = shutil.copytree(campaigns / "plain", tmp_path / "untrusted")
    lines = []
    for line in (folder / "trials.jsonl").read_bytes().splitlines():
        row = json.loads(line)["row"]
        if row["id"]["stratum"] == "canary:nan":
            golden = next(r for r in map(json.loads, (folder / "trials.jsonl").read_text().splitlines()))["row"]
            row["result"] = golden["result"]
            row.pop("failure", None)
        text = json.dumps(row, separators=(",", ":")).encode()
        lines.append(b'{"crc32c":"%08x","row":%s}\n' % (crc32c(text), text))
    (folder / "trials.jsonl").write_bytes(b"".join(lines))
    for arguments in (("--baseline", baseline), ("--baseline", tmp_path / "new.json", "--update")):
        done = bitrift("gate", folder, *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert "no rate of this campaign can be trusted" in done.stderr
    assert not (tmp_path / "new.json").exists()


def test_update_says_what_changed_and_replaces_only_a_baseline(campaigns, baseline, tmp_path):
    path = Path(shutil.copy(baseline, tmp_path / "baseline.json"))
    done = bitrift("gate", campaigns / "worse", "--baseline", path, "--update")
    assert done.returncode == 0, done.stderr
    assert "crash, arm serial" in done.stdout
    assert done.stdout.splitlines()[-1] == f"wrote {path}: 240 trials in place of 240"
    assert bitrift("gate", campaigns / "worse", "--baseline", path).returncode == 0
    assert [item.name for item in tmp_path.iterdir()] == ["baseline.json"]
    note = tmp_path / "notes.json"
    note.write_text('{"mine": 1}')
    assert "remove it to write a new baseline there" in refused(campaigns / "plain", "--baseline", note, "--update")
    assert note.read_text() == '{"mine": 1}'
    assert "is a folder" in refused(campaigns / "plain", "--baseline", tmp_path, "--update")
    assert bitrift("gate", campaigns / "plain", "--baseline", path, "--update", "--json").returncode == 2


def test_help_has_examples_and_exit_codes():
    text = bitrift("gate", "--help").stdout
    assert "bitrift gate results/ci --baseline baseline.json --update" in text
    assert "Exit codes: 0 passed; 1 " in " ".join(text.split())


def test_campaigns_with_the_same_faults_are_compared_in_pairs(campaigns, tmp_path):
    bad = shutil.copytree(campaigns / "plain", tmp_path / "bad")

    def crash(row):
        if row["id"]["arm"] == "serial":
            row.pop("result", None)
            row["failure"] = {"reason": "hang", "detail": "", "signal": 0}

    change_trials(bad, crash)
    done = bitrift("compare", campaigns / "plain", bad, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "bitrift/comparison/1"
    assert document["differences"] == []
    line = next(p for p in document["pairs"] if (p["first"], p["outcome"]) == ("serial", "crash"))
    assert (line["kind"], line["verdict"], line["second_rate"]) == ("paired", "differ", 1)
    assert line["interval"][0] > 0
    text = bitrift("compare", campaigns / "plain", bad).stdout
    assert f"The crash rate is higher in serial of {bad} than in serial of" in text


def test_campaigns_with_other_faults_are_compared_unpaired(campaigns):
    done = bitrift("compare", campaigns / "plain", campaigns / "other", "--arms", "serial,data-2", "--json")
    assert done.returncode == 0, done.stderr
    pairs = json.loads(done.stdout)["pairs"]
    assert [(p["first"], p["second"], p["kind"]) for p in pairs] == [("serial", "data-2", "unpaired")] * 2
    assert all(0 <= p["exact_p"] <= 1 for p in pairs)
    assert "differs  seed: 11 and 12" in bitrift("compare", campaigns / "plain", campaigns / "other").stdout


def test_arms_of_one_campaign_are_still_compared_in_pairs(campaigns):
    pairs = json.loads(bitrift("compare", campaigns / "plain", "--json").stdout)["pairs"]
    assert {p["kind"] for p in pairs} == {"paired"}


def test_comparisons_that_make_no_sense_are_refused(campaigns):
    done = bitrift("compare", campaigns / "plain", campaigns / "missing")
    assert done.returncode == 2 and "no campaign here" in done.stderr
    done = bitrift("compare", campaigns / "plain", campaigns / "other", "--arm", "serial", "--arm", "nothing")
    assert done.returncode == 2 and "no arm 'nothing'" in done.stderr


def test_the_example_workflow_names_files_and_options_that_exist():
    root = Path(__file__).parents[3]
    text = (root / "examples" / "ci" / "bitrift-gate.yml").read_text()
    named = set(re.findall(r"(?:tools|campaigns|examples)/[\w./-]*\w", text))
    assert {"tools/setup", "campaigns/ci.json", "examples/ci/gate.json"} <= named
    assert [name for name in named if not (root / name).exists()] == []
    options = set(re.findall(r"--[a-z]+", text[text.index("bitrift gate results") :]))
    assert options == {"--baseline", "--tolerance", "--junit", "--markdown"}
    assert all(option in bitrift("gate", "--help").stdout for option in options)
