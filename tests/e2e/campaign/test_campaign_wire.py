"""Links that alter messages under the real trainer: what a campaign draws lands, and is what it says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, read_rows

SPEC = {
    "name": "wire",
    "seed": 18,
    "base": {"train": SMALL_BASE["train"] | {"batch_size": 60, "epochs": 5}},
    "resume": {"epochs": 2},
    "arms": [{"name": "line", "parallel": {"kind": "data", "mesh": {"rows": 1, "columns": 3}}}],
    "strata": {"wire": {"fields": ["sign", "exponent_msb", "mantissa"], "steps": {"first": 2, "last": 5}}},
    "trials_per_stratum": 3,
    "controls": CONTROLS,
}
BITS = {"sign": range(31, 32), "exponent_msb": range(30, 31), "mantissa": range(23)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wire")
    (place / "spec.json").write_text(json.dumps(SPEC))
    done = campaign("run", place / "spec.json", "-o", place / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    return place / "run"


def test_every_drawn_bit_is_altered_once(folder: Path) -> None:
    messages = json.loads((folder / "campaign.json").read_text())["spec"]["strata"]["wire"]["messages"]
    (size,) = messages["buckets"]
    rows = [row for row in read_rows(folder, check_crc=True).values() if row["kind"] == "trial"]
    assert len(rows) == 6 * 3
    seen = set()
    for row in rows:
        (fault,) = (fault["link"] for fault in row["faults"])
        (altered,) = row["result"]["altered_messages"]
        kind, field = row["id"]["stratum"].split(".")
        chunk, sent_as = messages["sends"][fault["send"]]
        assert row["landed"] and row["plane"] == "wire"
        assert altered["link"] == fault and (altered["kind"], altered["chunk"]) == (kind, chunk) == (sent_as, chunk)
        assert fault["bit"] in BITS[field] and 2 <= fault["step"] <= 5
        assert int(altered["old"], 16) ^ int(altered["new"], 16) == 1 << fault["bit"]
        assert abs(altered["from"]["column"] - altered["to"]["column"]) == 1
        sends = [one for one in messages["sends"] if one[1] == kind]
        elements = sum(size // messages["chunks"] + (one[0] < size % messages["chunks"]) for one in sends)
        assert row["stratum_bits"] == elements * len(BITS[field]) * 4
        seen.add(tuple(fault.values()))
    assert len(seen) == len(rows)


def test_canaries_land_or_are_not_reached(folder: Path) -> None:
    rows = read_rows(folder)
    reached, lands = (rows[f"line/canary:link-{name}/0"] for name in ("unreached", "lands"))
    golden = rows["line/control/0"]["result"]["final_digest"]
    assert not reached["landed"] and reached["result"]["final_digest"] == golden
    assert lands["landed"] and lands["result"]["final_digest"] != golden
    assert rows["line/control/3"]["result"]["final_digest"] == golden


def analysis(folder: Path, by: str) -> list[dict[str, Any]]:
    words = [BIN / "bitrift", "analyze", folder, "--by", by, "--json"]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout)["groups"]


def test_rates_are_those_of_a_bit_on_the_wire(folder: Path) -> None:
    sizes = {row["id"]["stratum"]: row["stratum_bits"] for row in read_rows(folder).values() if row["kind"] == "trial"}
    assert len(sizes) == 6
    strata = {group["key"]["stratum"]: group for group in analysis(folder, "stratum")}
    assert {name: group["bits"] for name, group in strata.items()} == sizes
    (whole,) = analysis(folder, "plane")
    assert whole["key"]["plane"] == "wire" and 0 < whole["counts"]["masked"] < 18
    for outcome in ("masked", "SDC", "crash"):
        of_bits = [sizes[name] * group["counts"].get(outcome, 0) / group["trials"] for name, group in strata.items()]
        assert whole["rates"][outcome]["estimate"] == pytest.approx(sum(of_bits) / sum(sizes.values()))
