"""The report of a campaign: what the page says, and that nothing of a campaign can harm it."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import bitrift
import bitrift.report
import pandas as pd
import pytest
import synthetic
from bitrift.program import program
from bitrift.report.glossary import REASONS, TERMS
from report_page import ARMS, FAULT, Page, page_of, report, respec
from synthetic import GOLDEN, Row, clean_rows, journal_line, result, study_rows, trial_rows, write_campaign

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "data" / "earlier" / "2026-11" / "campaigns"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_campaign(tmp_path / "study", study_rows(), ARMS)
    return tmp_path / "study"


def test_the_verdict_is_in_words_with_rates_and_intervals(folder: Path) -> None:
    page = page_of(folder)
    assert "The campaign is finished: all 80 planned trials count." in page.text
    # SDC: 0.4 of 1000, 0 of 100, 0.3 of 8000 and 0.1 of 800 bits; crash: 0.1, 0, 0.5 and 0.1 of them.
    assert "Under serial, a flip of one bit" in page.text
    assert "with a probability of 29.1 %" in page.text and "crash with 42.2 %" in page.text
    (group,) = [one for one in bitrift.summary(folder, by=["strategy"])["groups"] if one["key"] == {"arm": "serial"}]
    assert group["rates"]["SDC"]["estimate"] == pytest.approx((400 + 2400 + 80) / 9900)
    low, high = (100 * end for end in group["rates"]["SDC"]["anytime"])
    assert f"29.1 % ({low:.2f} to {high:.1f} %)" in page.text
    assert "None of 2 comparisons between arms shows a difference." in page.text


def test_one_planned_trial_is_no_several(tmp_path: Path) -> None:
    rows = [*clean_rows("serial"), *trial_rows("serial", "weight.sign", 1000, 1, 0, 0)]
    write_campaign(tmp_path / "study", rows, ["serial"])
    respec(
        tmp_path / "study",
        lambda identity: identity["spec"].update(
            trials_per_stratum=1, strata={"roles": ["weight"], "fields": ["sign"]}
        ),
    )
    assert "The campaign is finished: its planned trial counts." in page_of(tmp_path / "study").text


def test_rates_and_reasons_are_those_of_analyze(folder: Path) -> None:
    page = page_of(folder)
    (group,) = [one for one in bitrift.summary(folder)["groups"] if one["key"] == {"arm": "serial", "field": "sign"}]
    low, high = (100 * end for end in group["rates"]["SDC"]["anytime"])
    assert f"36.4 [{low:.2f}, {high:.1f}]" in page.text
    assert "signal 7 8 a signal killed a rank" in page.text


def test_comparisons_are_the_sentences_of_the_program(folder: Path) -> None:
    printed = subprocess.run([program(), "compare", str(folder)], capture_output=True, text=True, check=True).stdout
    sentences = re.findall(r"^  (No difference .*|The \w+ rates? .*)$", printed, re.M)
    assert len(sentences) == 2
    text = page_of(folder).text
    assert all(sentence in text for sentence in sentences)


def test_checks_name_every_canary_and_the_false_alarms(tmp_path: Path) -> None:
    clean = [
        {**trial_rows("serial", kind, 0, 1, 0, 0)[0], "kind": kind, "id": {"arm": "serial", "stratum": kind, "draw": i}}
        for kind in ("held_out", "jitter")
        for i in range(10)
    ]
    clean[0]["result"] = result(GOLDEN | {"test_accuracy": 0.5}, "worse")
    rows = clean_rows("serial") + clean
    rows += [row for row in study_rows() if row["kind"] == "trial" and row["id"]["arm"] == "serial"]
    write_campaign(tmp_path / "study", rows, ["serial"])
    text = page_of(tmp_path / "study").text
    # Clopper-Pearson, one-sided 95 %, of the held-out runs: scipy.stats.beta.ppf(0.95, 2, 9) = 0.3941633.
    assert "serial 3 20 10 10 1 39.4 % 4.76 % 0" in text
    assert text.count("as required") >= 3 and "first weight tensor set to NaN yes crash crash (nonfinite)" in text


def test_strange_trials_come_with_the_command_that_replays_them(folder: Path) -> None:
    rows = study_rows()
    for row in rows:
        if row["kind"] == "trial" and row["id"]["stratum"] == "weight.sign":
            row["faults"] = [FAULT]
    rare = next(row for row in rows if row["id"] == {"arm": "serial", "stratum": "weight.exponent", "draw": 9})
    rare["failure"] = {"reason": "hang", "detail": "", "signal": 0}
    (folder / "trials.jsonl").write_bytes(b"".join(journal_line(row) for row in rows))
    text = page_of(folder).text
    crashes = text[text.index("Crashes, the rarest reason first") :]
    assert crashes.index("weight.exponent/9") < crashes.index("Segmentation fault")
    command = f"bitrift campaign replay {shlex.quote(str(folder))} "
    commands = re.findall(re.escape(command) + r"(\S+)", text)
    ids = {one.arm + "/" + one.stratum + f"/{one.draw}" for one in bitrift.outcomes(folder)}
    assert len(commands) >= 5 and set(commands) <= ids
    assert "model/fc.weight[3] bit 30 0x3f800000 \u2192 0x7f800000 (1 \u2192 inf)" in text
    assert "largest change of a number infinite" in text[text.index("Masked although") :]
    assert "also masked under" in text


@pytest.mark.parametrize(
    "text", ['</script><script>alert(1)</script><img src=x onerror="alert(1)">', "{{ 7 * 7 }}'\"<b>"]
)
def test_nothing_of_a_campaign_becomes_markup(tmp_path: Path, text: str) -> None:
    name = text.replace("/", "\u2215")  # a folder's name has no slash
    rows = study_rows()
    for row in rows:
        if "failure" in row:
            row["failure"]["detail"] = text
        if row["kind"] == "trial":
            row["faults"] = [FAULT | {"tensor": text}]
    folder = tmp_path / name
    write_campaign(folder, rows, ARMS)

    def spoil(identity: dict[str, Any]) -> None:
        identity["spec"]["name"] = text
        identity["provenance"] = {"command": ["bitrift", text], "bitrift": text, "host": text, "cores": 2}
        identity["trainer"] = {"libtorch": text}
        identity["bases"] = {"base": {"digest": text, "source": text}}

    respec(folder, spoil)
    plain_folder = tmp_path / "plain"
    write_campaign(plain_folder, study_rows(), ARMS)
    spoiled, plain = page_of(folder), page_of(plain_folder)
    for tag in ("script", "img", "b", "style", "meta", "link", "iframe"):
        assert len(spoiled.all(tag)) == len(plain.all(tag)), tag
    assert not [one for _, one in spoiled.elements if any(key.startswith("on") for key in one)]
    assert {name for name, _ in spoiled.elements} <= {name for name, _ in plain.elements} | {"strong", "div", "details"}
    assert " ".join(text.split()) in spoiled.text


def test_the_page_asks_for_nothing_and_runs_its_own_script_only(folder: Path) -> None:
    text, _ = bitrift.report.render(folder)
    page = Page(text)
    for _, attributes in page.elements:
        assert not {"src", "srcset", "action", "poster", "style"} & set(attributes), attributes
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in text and "@import" not in text
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert policy.count("'unsafe-inline'") == 1  # of style-src


def test_equal_rows_give_equal_bytes(folder: Path, tmp_path: Path) -> None:
    pages = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.html"
        assert report(folder, "-o", out, PYTHONHASHSEED=seed, TZ="Asia/Tokyo").returncode == 0
        pages.append(out.read_bytes())
        time.sleep(0.01)
    assert pages[0] == pages[1]
    assert time.strftime("%Y-%m-%d") not in pages[0].decode() and b"2026-01-31 12:00 UTC" in pages[0]
    assert bitrift.report.render(folder)[0].encode() == pages[0]


def test_the_structure_serves_keyboards_and_screen_readers(folder: Path) -> None:
    page = page_of(folder)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [link["href"][1:] for link in page.all("a")]
    assert set(links) <= set(ids)
    assert page.all("html")[0]["lang"] == "en" and "width=device-width" in str(page.all("meta"))
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("header")) == len(page.all("footer")) == 1
    assert page.all("a")[0]["class"] == "skip"
    assert all(nav.get("aria-label") for nav in page.all("nav"))
    assert all(section["aria-labelledby"] in ids for section in page.all("section"))
    assert len(page.all("caption")) == len(page.all("table")) > 3
    assert {head["scope"] for head in page.all("th")} == {"col", "row"}
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_word_is_explained_as_in_the_glossary() -> None:
    glossary = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("glossary", "outcomes", "statistics"))
    for term in (*TERMS, *REASONS):
        assert term in glossary, term


CRASHES = [row for arm in ARMS for stratum in ("weight.sign",) for row in trial_rows(arm, stratum, 1000, 0, 0, 10)]
ONE_ARM = [row for row in study_rows() if row["id"]["arm"] == "serial"]


def only(rows: list[Row], stratum: str) -> list[Row]:
    return [row for row in rows if row["kind"] != "trial" or row["id"]["stratum"] == stratum]


@pytest.mark.parametrize(
    ("rows", "arms", "judged", "said"),
    [
        ([], ["serial"], False, "No verdict can be given yet: the campaign has no rows."),
        (clean_rows("serial")[:2], ["serial"], False, "bitrift analyze refuses this campaign: arm 'serial'"),
        (clean_rows("serial"), ["serial"], True, "No trial has run yet."),
        ([*clean_rows("serial"), *clean_rows("data2"), *CRASHES], ARMS, True, "crash with 100 %"),
        (only(study_rows(), "weight.sign"), ARMS, True, "Strata without a trial are of unknown size"),
        (ONE_ARM, ["serial"], True, "There is one arm, so nothing was compared."),
        (study_rows()[:-3], ARMS, True, "The campaign is not finished: 77 of 80 planned trials count."),
    ],
    ids=["empty", "controls too few", "controls", "only crashes", "one stratum", "one arm", "unfinished"],
)
def test_a_campaign_with_little_in_it(
    tmp_path: Path, rows: list[Row], arms: list[str], judged: bool, said: str
) -> None:
    write_campaign(tmp_path / "c", rows, arms)
    text, given = bitrift.report.render(tmp_path / "c")
    page = Page(text)
    assert given is judged
    assert said in page.text, page.text[:2000]
    assert ("No verdict can be given" in page.text) is not judged
    done = report(tmp_path / "c", "-o", tmp_path / "c.html")
    assert (done.returncode, done.stdout) == (0 if judged else 1, "")
    assert (tmp_path / "c.html").read_text() == text
    assert len(done.stderr.splitlines()) == (0 if judged else 1)


def test_a_campaign_whose_journal_does_not_exist_yet(folder: Path) -> None:
    (folder / "trials.jsonl").unlink()
    page = page_of(folder)
    assert "the campaign has no rows" in page.text and "0 workers died or hung" in page.text
    (folder / "incidents.jsonl").write_text('{"a":1}\n{"a":2}\n')
    assert "2 workers died or hung" in page_of(folder).text


def test_canaries_that_misbehave_leave_no_rate(folder: Path, tmp_path: Path) -> None:
    rows = study_rows()
    golden = next(row for row in rows if row["id"]["stratum"] == "control")
    for row in rows:
        if row["id"] == {"arm": "serial", "stratum": "canary:nan", "draw": 0}:
            row["result"] = golden["result"]
    (folder / "trials.jsonl").write_bytes(b"".join(journal_line(row) for row in rows))
    done = report(folder, "-o", tmp_path / "out.html")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    page = Page((tmp_path / "out.html").read_text())
    (alarm,) = [one for one in page.all("div") if one.get("role") == "alert"]
    assert alarm["class"] == "alarm"
    assert "Canaries misbehave, so no rate of this campaign can be trusted." in page.text
    assert "arm 'serial': canary:nan: must be crash, is masked (bitwise)" in page.text
    assert len([one for one in page.all("td") if one.get("class") == "wrong"]) == 1
    assert "with a probability of" not in page.text
    assert not [one for one in page.all("section") if one["id"] == "rates"]


def test_clean_runs_that_are_called_sdc_are_no_canaries(tmp_path: Path) -> None:
    worse = result(GOLDEN | {"test_accuracy": 0.5}, "worse")
    held_out = [synthetic.row("held_out", "serial", "held_out", i, result=worse) for i in range(10)]
    write_campaign(tmp_path / "c", clean_rows("serial") + held_out, ["serial"])
    text, given = bitrift.report.render(tmp_path / "c")
    page = Page(text)
    assert not given and "as required" in page.text and not [one for one in page.all("td") if "wrong" in one.values()]
    assert "Clean runs are called SDC more often than stated, so no rate of this campaign can be trusted." in page.text
    assert "misbehave" not in page.text


def test_a_canary_of_a_later_version_is_named(folder: Path, tmp_path: Path) -> None:
    rows = [*study_rows(), synthetic.row("canary", "serial", "canary:of-later", 0, result=result(GOLDEN, "golden"))]
    (folder / "trials.jsonl").write_bytes(b"".join(journal_line(one) for one in rows))
    done = report(folder, "-o", tmp_path / "out.html")
    assert done.returncode == 2 and not (tmp_path / "out.html").exists()
    assert "this version knows no canary 'canary:of-later'" in done.stderr and done.stderr.count("\n") == 1


def test_faults_of_a_script_of_the_users_are_those_of_its_files(folder: Path) -> None:
    before = page_of(folder).text
    respec(folder, lambda identity: identity["spec"].update(runner={"python": "/study/train.py"}))
    after = page_of(folder).text
    assert (
        "a flip of one bit, chosen uniformly from the 9,900 sign and exponent bits of weight and bias tensors" in after
    )
    assert before.split("The campaign's spec")[0] == after.split("The campaign's spec")[0]


def test_fields_of_a_later_version_are_passed_over(folder: Path) -> None:
    before = page_of(folder).text
    rows = [row | {"later": {"a": [1]}, "volatile": row["volatile"] | {"joules": 3}} for row in study_rows()]
    (folder / "trials.jsonl").write_bytes(b"".join(journal_line(row) for row in rows))
    respec(folder, lambda identity: identity.update(later=[1, 2]))
    assert page_of(folder).text == before


@pytest.mark.parametrize("name", ["models", "trained", "rounds/finished", "rounds/killed"])
def test_folders_of_an_earlier_version(name: str) -> None:
    page = page_of(SAMPLES / name)
    assert "Provenance" in page.text
    if name == "models":
        assert "a fault of the model burst ends in" in page.text and "This campaign is a drill." in page.text
    if name == "trained":
        assert "optimizer/momentum_buffer/fc1.weight after 0 steps: altered in 1 of 1 trial" in page.text
    if name == "rounds/finished":
        assert "The campaign is finished" in page.text


def test_rows_of_shards_that_are_not_merged_are_missed(tmp_path: Path) -> None:
    folder = shutil.copytree(SAMPLES / "rounds" / "divided", tmp_path / "divided")
    missed = f"rows of its shards are not merged yet (bitrift campaign merge {folder})"
    assert missed not in page_of(folder).text
    (folder / "shards" / "merged.json").unlink()
    assert f"The campaign is not finished: {missed}" in page_of(folder).text
    (folder / "trials.jsonl").unlink()
    assert f"No trial can be shown: {missed}" in page_of(folder).text


def test_twenty_arms_are_compared_with_the_first(tmp_path: Path) -> None:
    arms = [f"arm{i:02}" for i in range(20)]
    rows = [
        row | {"id": row["id"] | {"arm": arm}}
        for arm in arms
        for row in study_rows()
        if row["id"]["arm"] == ("serial" if arm == "arm00" else "data2")
    ]
    write_campaign(tmp_path / "c", rows, arms)
    text, _ = bitrift.report.render(tmp_path / "c")
    page = Page(text)
    assert "arm00 with each other arm of its base" in page.text
    assert "--arm FIRST,SECOND" in page.text
    assert page.text.count(" against arm00 ") >= 38
    assert len(text) < 400_000


def test_a_map_of_layers_and_bits_where_rates_by_layer_and_bit_exist(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame(
        {
            "arm": "serial",
            "state": ["model", "model", "model"],
            "layer": ["conv1", "conv1", "fc"],
            "bit": [30, 0, 30],
            "estimate": [0.25, 0.0, 1.0],
            "low": [0.1, 0.0, 0.6],
            "high": [0.5, 0.2, 1.0],
            "n": [12, 14, 9],
        }
    )

    def rates(self: bitrift.Campaign, arm: str | None = None, outcome: str = "SDC") -> pd.DataFrame:
        return frame if outcome == "SDC" else frame.iloc[:0]

    monkeypatch.setattr(bitrift.Campaign, "map", rates, raising=False)
    page = page_of(folder)
    assert "SDC by layer and bit: serial, model" in page.text and "crash by layer and bit" not in page.text
    assert "conv1, bit 30: 25.0 %, 10.0 to 50.0 %, 12 trials" in page.text
    assert "fc, bit 0: no trial" in page.text

    def refused(self: bitrift.Campaign, arm: str | None = None, outcome: str = "SDC") -> pd.DataFrame:
        bitrift.summary(folder / "nowhere")
        raise AssertionError

    monkeypatch.setattr(bitrift.Campaign, "map", refused, raising=False)
    assert "Rates by layer and bit are not shown: " in page_of(folder).text
