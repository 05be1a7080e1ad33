"""`Campaign.propagation`: the numbers of `bitrift analyze --view propagation --json` as a table."""

from __future__ import annotations

import json
import math
from pathlib import Path

import bitrift
import pytest
from synthetic import study_rows, write_campaign

EARLIER = Path(__file__).resolve().parents[1] / "data" / "earlier" / "2026-11" / "campaigns"


def test_every_tensor_of_every_group_is_a_line() -> None:
    frame = bitrift.Campaign(EARLIER / "trained").propagation()
    groups = json.loads((EARLIER / "expected" / "trained.propagation.json").read_text())["groups"]
    lines = [(group, tensor) for group in groups for tensor in group["tensors"]]
    assert len(frame) == len(lines) > 10
    for line, (group, tensor) in zip(frame.to_dict("records"), lines, strict=True):
        assert {name: line[name] for name in ("arm", "stratum", "step")} == {
            name: group[name] for name in ("arm", "stratum", "step")
        }
        assert line["reached"] == group["trials"]
        for name, value in tensor.items():
            number = {"NaN": math.nan, "Infinity": math.inf}.get(value, value)
            assert line[name] == number or (number != number and line[name] != line[name])


def test_by_tensor_names_where_the_fault_was() -> None:
    frame = bitrift.Campaign(EARLIER / "trained").propagation(by_tensor=True)
    at_load = frame[(frame["step"] == 0) & ~frame["origin"].str.contains(" tensors")]
    assert len(at_load) and (at_load["origin"] == at_load["tensor"]).all()


def test_a_campaign_without_propagation_is_refused(tmp_path: Path) -> None:
    write_campaign(tmp_path, study_rows(), ["serial", "data2"])
    with pytest.raises(bitrift.Error, match="propagation") as refused:
        bitrift.Campaign(tmp_path).propagation()
    assert refused.value.code == "bad_input"
