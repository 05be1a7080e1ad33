"""Rates by layer, tensor and bit: populations and weights against a count with h5py, and what is refused."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitrift
import h5py
import numpy as np
import pytest
from bitrift.program import program
from synthetic import GOLDEN, Row, clean_rows, result, row, write_campaign

ROLES = ("weight", "bias", "momentum")
FIELDS = {"sign": [31], "exponent": list(range(23, 31))}
SHAPES = {"conv1.weight": (4, 1, 3, 3), "conv1.bias": (4,), "fc.weight": (5, 16), "fc.bias": (5,)}

Bit = tuple[str, int, int]  # tensor, element, bit


def write_base(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, shape in SHAPES.items():
            file["model/" + name] = np.ones(shape, np.float32)
            file["optimizer/momentum_buffer/" + name] = np.ones(shape, np.float32)


def population(path: Path) -> dict[str, list[Bit]]:
    """Every bit of every stratum, one by one."""
    strata: dict[str, list[Bit]] = {f"{role}.{field}": [] for role in ROLES for field in FIELDS}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        role = "momentum" if name.startswith("optimizer/") else name.rsplit(".", 1)[1]
        for field, bits in FIELDS.items():
            places = itertools.product(range(item.size), bits)
            strata[f"{role}.{field}"] += [(name, element, bit) for element, bit in places]

    with h5py.File(path) as file:
        file.visititems(visit)
    return strata


def layer_of(tensor: str) -> str:
    return tensor.rsplit("/", 1)[1].split(".")[0]


def harms(bit: Bit) -> bool:
    return bit[2] == 30 or (layer_of(bit[0]) == "conv1" and bit[1] == 0)


def trial(stratum: str, draw: int, bit: Bit, bits: int) -> Row:
    fault = {
        "tensor": bit[0],
        "role": stratum.split(".")[0],
        "element": bit[1],
        "dtype": "float32",
        "bits": [bit[2]],
        "field": stratum.split(".")[1],
        "old": "0x3f800000",
        "new": f"0x{0x3F800000 ^ 1 << bit[2]:08x}",
    }
    bad = result(GOLDEN | {"test_accuracy": 0.1}, "other")
    ending = bad if harms(bit) else result(GOLDEN, "golden")
    return row("trial", "serial", stratum, draw, result=ending) | {"faults": [fault], "stratum_bits": bits}


@pytest.fixture
def study(tmp_path: Path) -> tuple[bitrift.Campaign, dict[str, list[Bit]], dict[str, list[Bit]]]:
    """A campaign of 25 draws a stratum, the bits of each stratum, and its draws."""
    folder = tmp_path / "study"
    folder.mkdir()
    write_base(folder / "base.h5")
    strata = population(folder / "base.h5")
    random = np.random.default_rng(3)
    rows = clean_rows("serial")
    draws = {}
    for name, bits in strata.items():
        order = random.permutation(len(bits))[: min(25, len(bits))]
        draws[name] = [bits[i] for i in order]
        rows += [trial(name, draw, bit, len(bits)) for draw, bit in enumerate(draws[name])]
    write_campaign(folder, rows, ["serial"])
    identity = json.loads((folder / "campaign.json").read_text())
    identity["spec"]["strata"] = {"roles": list(ROLES), "fields": list(FIELDS)}
    identity["spec"]["trials_per_stratum"] = 9
    (folder / "campaign.json").write_text(json.dumps(identity))
    return bitrift.Campaign(folder), strata, draws


GROUPS: dict[str, Callable[[str, Bit], Any]] = {
    "layer": lambda _, bit: layer_of(bit[0]),
    "tensor": lambda _, bit: bit[0],
    "bit": lambda _, bit: bit[2],
    "state": lambda stratum, _: "optimizer" if stratum.startswith("momentum") else "model",
    "role": lambda stratum, _: stratum.split(".")[0],
}


@pytest.mark.parametrize("by", [["layer"], ["tensor"], ["bit"], ["state", "layer", "bit"], ["role", "layer"]])
def test_populations_and_weights_equal_a_count(study: Any, by: list[str]) -> None:
    campaign, strata, draws = study
    groups: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
    for name, bits in strata.items():
        keys = [tuple(GROUPS[dimension](name, bit) for dimension in by) for bit in bits]
        drawn = [tuple(GROUPS[dimension](name, bit) for dimension in by) for bit in draws[name]]
        for key in set(keys):
            hits = sum(1 for at, bit in zip(drawn, draws[name], strict=True) if at == key and harms(bit))
            groups.setdefault(key, []).append((keys.count(key), hits, drawn.count(key)))
    found = bitrift.summary(campaign.folder, by)["groups"]
    assert len(found) == sum(1 for parts in groups.values() if any(n for _, _, n in parts))
    for group in found:
        parts = groups[tuple(group["key"][dimension] for dimension in by)]
        seen = sum(size for size, _, n in parts if n > 0)
        assert group["bits"] == sum(size for size, _, _ in parts)
        assert group["trials"] == sum(n for _, _, n in parts)
        assert group["counts"]["SDC"] == sum(hits for _, hits, _ in parts)
        rate = group["rates"]["SDC"]
        assert rate["estimate"] == pytest.approx(sum(size * hits / n for size, hits, n in parts if n > 0) / seen)
        truth = [
            harms(bit)
            for name, bits in strata.items()
            for bit in bits
            if [GROUPS[dimension](name, bit) for dimension in by] == [group["key"][one] for one in by]
        ]
        assert rate["anytime"][0] <= np.mean(truth) <= rate["anytime"][1]


def test_conditions_select_strata_and_parts(study: Any) -> None:
    campaign, strata, _ = study
    rates = campaign.rates(by=["bit"], where={"role": "momentum", "layer": ["conv1"]})
    assert list(rates.columns) == ["arm", "bit", "outcome", "estimate", "low", "high", "count", "n", "method"]
    assert list(rates["bit"].unique()) == sorted(rates["bit"].unique(), reverse=True)
    assert set(rates["method"]) == {"anytime"}
    (group,) = bitrift.summary(campaign.folder, ["arm"], where={"bit": [30, 31], "tensor": "model/*.weight"})["groups"]
    wanted = [bit for name, bits in strata.items() for bit in bits if bit[2] >= 30 and name.startswith("weight")]
    assert group["bits"] == len(wanted)
    assert set(campaign.rates(by=["arm"], interval="clopper_pearson")["method"]) == {"clopper_pearson"}


def test_the_map_has_every_cell(study: Any) -> None:
    campaign, strata, _ = study
    cells = campaign.map()
    assert len(cells) == 2 * 2 * 9  # states, layers, bits
    assert cells["bits"].sum() == sum(len(bits) for bits in strata.values())
    assert list(cells["layer"].unique()) == ["conv1", "fc"]
    assert list(cells["bit"][:9]) == list(range(31, 22, -1))
    for cell in cells[cells["n"] > 0].itertuples():
        assert cell.low <= cell.estimate <= cell.high
    assert cells[cells["n"] == 0]["estimate"].isna().all()
    shown = subprocess.run(
        [program(), "analyze", str(campaign.folder), "--view", "map", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert [cell["count"] for cell in json.loads(shown.stdout)["cells"]] == list(cells["count"])
    with pytest.raises(bitrift.Error, match="outcome 'colour': give one of masked, SDC, crash, harmed"):
        campaign.map(outcome="colour")
    assert campaign.map(outcome="HARMED").equals(cells)


def test_trials_have_the_layer_of_their_tensor(study: Any) -> None:
    campaign, _, _ = study
    trials = campaign.trials()
    assert set(trials["layer"]) == {"conv1", "fc"}
    slots = trials[trials["role"] == "momentum"]
    assert [layer_of(tensor) for tensor in slots["tensor"]] == list(slots["layer"])
    shown = subprocess.run(
        [program(), "campaign", "show", str(campaign.folder), "--json"], check=True, capture_output=True, text=True
    )
    assert [one["layer"] for one in json.loads(shown.stdout)] == list(trials["layer"])
    (campaign.folder / "base.h5").unlink()
    assert campaign.trials()["layer"].isna().all()


def test_effects_are_tidy(study: Any) -> None:
    campaign, _, _ = study
    effects = campaign.effects(by=["layer"])
    assert list(effects.columns) == ["arm", "layer", "points", "share", "low", "high"]
    assert list(effects["points"][:6]) == [0.1, 0.5, 1, 2, 5, 10]
    sdc = campaign.rates(by=["layer"]).query("outcome == 'SDC'")
    assert list(effects.query("points == 10")["share"]) == pytest.approx(list(sdc["estimate"]))


def test_figures_show_the_tables(study: Any) -> None:
    campaign, _, _ = study
    figure = campaign.plot_map(outcome="SDC")
    assert [trace.type for trace in figure.data] == ["heatmap", "heatmap"]
    assert list(figure.data[0].y) == ["conv1", "fc"] and figure.data[0].x[0] == "31"
    rates = campaign.rates(by=["layer"]).query("outcome == 'SDC'")
    figure = campaign.plot_rates(by=["layer"], outcomes=["SDC"])
    assert list(figure.data[0].y) == list(rates["estimate"])
    assert list(figure.data[0].error_y.array) == pytest.approx(list(rates["high"] - rates["estimate"]))


def analyze(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), "analyze", str(folder), *options], capture_output=True, text=True, check=False)


def test_the_worst_lines_come_first(study: Any) -> None:
    campaign, _, _ = study
    done = analyze(campaign.folder, "--by", "layer,bit", "--sort", "SDC", "--top", "2", "--json")
    groups = json.loads(done.stdout)["groups"]
    assert [group["key"]["bit"] for group in groups] == [30, 30]
    lows = [group["rates"]["SDC"]["interval"][0] for group in groups]
    assert lows == sorted(lows, reverse=True)
    kept = json.loads((campaign.folder / "summary.json").read_text())["groups"]
    assert len(kept) == 18 and kept[0]["key"] == {"arm": "serial", "layer": "conv1", "bit": 31}
    assert "2 of 18 lines shown" in analyze(campaign.folder, "--by", "layer,bit", "--top", "2").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--by colour", "--by colour: give one of arm, base, role"),
        ("--where role=momentm", "--where role=momentm: the trials of this campaign have weight, bias, momentum"),
        ("--where layer", "--where layer: give KEY=VALUE"),
        ("--where layer=fc9", "--where layer=fc9: the trials of this campaign have conv1, fc"),
        ("--where role=bias --where tensor=model/*.weight", "--where tensor=model/*.weight: "),
        ("--view map --by layer", "--by: --view map does not use it; leave it out (it uses --where, --arm, --outcome"),
        ("--view metrics --by layer", "--view metrics counts rows"),
        (
            "--view horizons --where role=bias",
            "--where: --view horizons does not use it; leave it out (it uses --metrics)",
        ),
        ("--view metrics --top 3", "--top: --view metrics does not use it"),
        (
            "--view detectors --where role=bias",
            "--where: --view detectors does not use it; leave it out (it uses no such",
        ),
        ("--view process", "this campaign has no process faults; name the phases"),
        ("--view process --by field", "--by: --view process does not use it; leave it out (it uses --where, --arm"),
        ("--view process --top 3", "--top: --view process does not use it"),
        ("--view detectors --sort SDC", "--sort: --view detectors does not use it"),
        (
            "--view propagation --where role=bias",
            "--where: --view propagation does not use it; leave it out (it uses --by)",
        ),
        ("--view propagation --by role", "--by role: --view propagation supports only --by tensor"),
        ("--outcome SDC", "--outcome: is for --view map"),
        ("--view metrics --effects", "--effects: --view metrics does not use it"),
    ],
)
def test_what_cannot_be_grouped_is_refused_in_one_line(study: Any, options: str, message: str) -> None:
    campaign, _, _ = study
    done = analyze(campaign.folder, *options.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and len(done.stderr.splitlines()) <= 2
    assert not (campaign.folder / "summary.json").exists()


def test_a_base_that_is_missing_or_another_is_refused(study: Any, tmp_path: Path) -> None:
    campaign, _, _ = study
    with h5py.File(campaign.folder / "base.h5", "a") as file:
        del file["model/fc.bias"]
        file["model/fc.bias"] = np.ones(6, np.float32)
    done = analyze(campaign.folder, "--by", "bit")
    assert done.returncode == 2 and "stratum 'bias.sign' holds 10 bits in the base checkpoint and 9" in done.stderr
    (campaign.folder / "base.h5").unlink()
    done = analyze(campaign.folder, "--by", "bit")
    assert done.returncode == 2 and "base.h5: is missing; rates by layer, tensor or bit need it" in done.stderr
    assert analyze(campaign.folder, "--by", "role").returncode == 0


def test_fault_models_have_no_rate_by_layer(study: Any, tmp_path: Path) -> None:
    campaign, _, _ = study
    models = tmp_path / "models"
    shutil.copytree(campaign.folder, models)
    identity = json.loads((models / "campaign.json").read_text())
    identity["spec"]["strata"] = {"models": [{"name": "burst", "what": "burst", "length": 2, "count": 1}]}
    (models / "campaign.json").write_text(json.dumps(identity))
    (models / "trials.jsonl").write_bytes(
        b"".join(line for line in (models / "trials.jsonl").read_bytes().splitlines(True) if b'"trial"' not in line)
    )
    done = analyze(models, "--by", "layer")
    assert done.returncode == 2 and "the strata of this campaign are fault models" in done.stderr
