"""The first lines of a report: what was found, in sentences and in tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bitrift.report
import pytest
from report_page import ARMS, FAULT, Page, page_of, respec
from synthetic import Row, clean_rows, row, study_rows, trial_rows, write_campaign

THREE = [*ARMS, "data4"]
STRATA = {"roles": ["weight"], "fields": ["exponent", "mantissa"]}


def faults(rows: list[Row], bits: list[int], field: str) -> list[Row]:
    """The rows with one flipped bit each, the bits in turn."""
    for position, one in enumerate(rows):
        one["faults"] = [FAULT | {"bits": [bits[position % len(bits)]], "field": field}]
    return rows


def trials(arm: str, *, crashes: int = 4) -> list[Row]:
    """Exponents: the crashes are all of bit 30, which has no other trial. Mantissas: 40 masked trials."""
    exponent = trial_rows(arm, "weight.exponent", 1000, 36 - crashes, 0, crashes)
    faults(exponent[: 36 - crashes], [23, 24, 25, 26], "exponent")
    faults(exponent[36 - crashes :], [30], "exponent")
    mantissa = faults(trial_rows(arm, "weight.mantissa", 9000, 40, 0, 0), list(range(23)), "mantissa")
    return exponent + mantissa


def campaign(folder: Path, arms: list[str], rows: list[Row], planned: int = 40) -> Page:
    write_campaign(folder, [*(one for arm in arms for one in clean_rows(arm)), *rows], arms)
    respec(folder, lambda identity: identity["spec"].update(strata=STRATA, trials_per_stratum=planned))
    return page_of(folder)


def headline(page: Page) -> str:
    """Its text, up to the first tile."""
    start = page.text.index("Verdict", page.text.index("Words")) + len("Verdict")
    return page.text[start : page.text.index(" masked ", start)].strip()


def test_the_bit_that_causes_all_crashes_is_named_and_the_field_that_does_no_harm(tmp_path: Path) -> None:
    page = campaign(tmp_path / "c", ["serial"], trials("serial"))
    high = next(
        1 - group["rates"]["masked"]["anytime"][0]
        for group in bitrift.summary(tmp_path / "c", by=["field"])["groups"]
        if group["key"]["field"] == "mantissa"
    )
    assert headline(page) == (
        "So far: flips of bit 30 cause all 4 crashes. "
        f"No mantissa flip did harm in 40 trials (at most {100 * high:.1f} % of them do). "
        "Falls of test accuracy below 2.00 points would not be seen."
    )


def test_arms_that_agree_are_one_sentence_and_one_paragraph(tmp_path: Path) -> None:
    page = campaign(tmp_path / "c", THREE, [one for arm in THREE for one in trials(arm)], planned=36)
    assert "Flips of bit 30 cause all 4 crashes of each arm." in headline(page)
    assert "did harm in 40 trials of each arm" in headline(page)
    assert "Under each of serial, data2 and data4, a flip of one bit" in page.text
    assert "This rests on 76 trials in each arm." in page.text
    other = campaign(tmp_path / "d", ARMS, [*trials("serial"), *trials("data2", crashes=7)], planned=36)
    assert "Flips of bit 30 cause all 11 crashes." in headline(other)
    assert "Under serial, a flip" in other.text and "Under data2, such a fault" in other.text


def test_few_crashes_have_no_common_cause(tmp_path: Path) -> None:
    page = campaign(tmp_path / "c", ARMS, [*trials("serial", crashes=2), *trials("data2", crashes=2)])
    assert "So far: 2 of 76 trials of each arm crash." in headline(page)
    assert "cause" not in headline(page)


def test_a_part_of_the_faults_that_is_most_of_them_explains_nothing(tmp_path: Path) -> None:
    rows = faults(trial_rows("serial", "weight.exponent", 1000, 20, 0, 20), [30], "exponent")
    page = campaign(tmp_path / "c", ["serial"], rows)
    assert "20 of 40 trials crash." in headline(page)


def test_no_harm_is_said_too(tmp_path: Path) -> None:
    page = campaign(tmp_path / "c", ["serial"], trials("serial", crashes=0))
    assert "no fault did harm in 76 trials." in headline(page)


def test_faults_of_several_bits_are_no_flips_of_a_bit(tmp_path: Path) -> None:
    rows = trials("serial")
    rows[0]["faults"] = [FAULT | {"bits": [0, 30]}]
    assert "faults in" in headline(campaign(tmp_path / "c", ["serial"], rows)).lower()


def test_tiles_give_rates_resolution_and_false_alarms(tmp_path: Path) -> None:
    held_out = [
        row("held_out", arm, "held_out", i, result=clean["result"])
        for arm, clean in ((arm, clean_rows(arm)[0]) for arm in ARMS)
        for i in range(10)
    ]
    page = campaign(tmp_path / "c", ARMS, [*held_out, *trials("serial"), *trials("data2", crashes=7)])
    values = [one for one in page.all("div") if one.get("class", "").startswith("tile")]
    assert len(values) == 5
    # 4 / 36 and 7 / 36 of 1000 in 10,000 bits.
    assert "crash 1.11 to 1.94 %" in page.text and "11 of 152 trials in all" in page.text
    # Clopper-Pearson, one-sided: 1 - 0.05 ** (1 / 10).
    assert "false alarms \u2264 25.9 % 0 of 10 held-out runs in each arm; stated level 4.76 %" in page.text
    assert "resolution 2.00 points smaller falls of test accuracy alone are not seen" in page.text


def test_a_row_that_waits_for_an_earlier_draw_is_in_no_sentence(tmp_path: Path) -> None:
    rows = [one for one in trials("serial") if one["id"] != {"arm": "serial", "stratum": "weight.exponent", "draw": 20}]
    assert "crash" not in headline(campaign(tmp_path / "c", ["serial"], rows))


@pytest.mark.parametrize("kept", range(0, 60, 3))
def test_the_page_of_a_running_campaign_does_not_call_what_has_not_run_misbehaviour(tmp_path: Path, kept: int) -> None:
    rows: list[dict[str, Any]] = sorted(study_rows(), key=lambda one: one["kind"] == "trial")[:kept]
    write_campaign(tmp_path / "c", rows, ARMS)
    text = page_of(tmp_path / "c").text
    assert "misbehave" not in text and "not as required" not in text
