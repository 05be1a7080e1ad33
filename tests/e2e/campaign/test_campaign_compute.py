"""Faults while computing under the real trainer: what a campaign draws lands, and is what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import bitrift
import pytest
from campaign_support import BIN, CONTROLS, SMALL_BASE, campaign, read_rows
from scipy.stats import fisher_exact

STEPS = {"first": 2, "last": 6}
SITES = ("activation", "gradient", "weight_gradient", "update")
SPEC: dict[str, Any] = {
    "name": "compute",
    "seed": 18,
    "base": {"train": SMALL_BASE["train"] | {"epochs": 5}},
    "resume": {"epochs": 2},
    "arms": [
        {"name": "two", "parallel": {"kind": "data", "ranks": 2, "micro_batches": 2}},
        {"name": "guarded", "parallel": {"kind": "data", "ranks": 2, "micro_batches": 2}, "guards": {"loss_spike": 3}},
    ],
    "strata": {"compute": {"fields": ["sign", "exponent_msb", "mantissa"], "steps": STEPS}},
    "trials_per_stratum": 4,
    "controls": CONTROLS,
}
BITS = {"sign": range(31, 32), "exponent_msb": range(30, 31), "mantissa": range(23)}


def written(place: Path, spec: dict[str, Any]) -> Path:
    (place / "spec.json").write_text(json.dumps(spec))
    return place / "spec.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("compute")
    done = campaign("run", written(place, SPEC), "-o", place / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    return place / "run"


def test_every_drawn_bit_is_struck_once(folder: Path) -> None:
    known = json.loads((folder / "campaign.json").read_text())["spec"]["strata"]["compute"]["computations"]
    assert (known["replicas"], known["steps_per_epoch"]) == (2, 4)
    assert {layer["passes"] for layer in known["layers"]} == {2}
    rows = [row for row in read_rows(folder, check_crc=True).values() if row["kind"] == "trial"]
    assert len(rows) == 2 * 12 * 4
    seen = set()
    for row in rows:
        (fault,) = (fault["compute"] for fault in row["faults"])
        (altered,) = row["result"]["altered_values"]
        site, field = row["id"]["stratum"].split(".")
        tensors = known["layers" if site in ("activation", "gradient") else "parameters"]
        elements = sum(tensor["elements"] for tensor in tensors)
        of_layers = site in ("activation", "gradient")
        assert row["landed"] and row["plane"] == "compute"
        assert altered["compute"] == fault and fault["site"] == site and altered["times"] == 1
        assert fault["bit"] in BITS[field] and STEPS["first"] <= fault["step"] <= STEPS["last"]
        assert int(altered["old"], 16) ^ int(altered["new"], 16) == 1 << fault["bit"]
        assert row["stratum_bits"] == elements * len(BITS[field]) * 5 * 2 * (2 if of_layers else 1)
        seen.add((row["id"]["arm"], *fault.values()))
    assert len(seen) == len(rows)


def test_rates_by_layer_and_bit_count_the_rows(folder: Path) -> None:
    rows = [row for row in read_rows(folder).values() if row["kind"] == "trial" and row["id"]["arm"] == "two"]
    for by, key in (("role,layer", "layer"), ("role,tensor", "tensor"), ("role,bit", "bit")):
        command = [BIN / "bitrift", "analyze", folder, "--by", by, "--where", "arm=two", "--json"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        counts: Counter[tuple[str, str]] = Counter()
        for row in rows:
            fault = row["faults"][0]["compute"]
            of = {"tensor": fault["tensor"], "layer": fault["tensor"].split(".")[0], "bit": str(fault["bit"])}
            counts[fault["site"], of[key]] += 1
        told = {
            (line["key"]["role"], str(line["key"][key])): line["trials"] for line in found["groups"] if line["trials"]
        }
        assert told == counts, by


def test_both_arms_meet_the_same_faults_and_only_guards_differ(folder: Path) -> None:
    rows = read_rows(folder)
    for name, row in rows.items():
        if row["kind"] != "trial" or row["id"]["arm"] != "two":
            continue
        other = rows[name.replace("two/", "guarded/")]
        assert other["faults"] == row["faults"]
        if not other["result"].get("alarms"):  # what a guard remembers is a part of the state
            assert all(other["result"][key] == row["result"][key] for key in ("replicas", "altered_values"))


def test_canaries_land_or_are_not_reached(folder: Path) -> None:
    rows = read_rows(folder)
    golden = rows["two/control/0"]["result"]["final_digest"]
    for name in ("unreached", *SITES, "all"):
        row = rows[f"two/canary:compute-{name}/0"]
        assert row["landed"] == (name != "unreached")
        assert (row["result"]["final_digest"] == golden) == (name == "unreached")
    assert rows["two/canary:compute-all/0"]["result"]["altered_values"][0]["times"] == 8


def analysis(folder: Path, by: str) -> list[dict[str, Any]]:
    words = [BIN / "bitrift", "analyze", folder, "--by", by, "--json"]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout)["groups"]


def test_rates_of_a_site_are_those_of_a_uniform_bit(folder: Path) -> None:
    sizes = {row["id"]["stratum"]: row["stratum_bits"] for row in read_rows(folder).values() if row["kind"] == "trial"}
    strata = {(one["key"]["arm"], one["key"]["stratum"]): one for one in analysis(folder, "stratum")}
    assert {name: group["bits"] for (_, name), group in strata.items()} == sizes
    sites = [one for one in analysis(folder, "role") if one["key"]["arm"] == "two"]
    assert {one["key"]["role"] for one in sites} == set(SITES)
    for one in sites:
        own = {name: group for (arm, name), group in strata.items() if arm == "two"}
        own = {name: group for name, group in own.items() if name.startswith(one["key"]["role"] + ".")}
        whole = sum(sizes[name] for name in own)
        for outcome in ("masked", "SDC", "crash"):
            mean = sum(sizes[name] * g["counts"].get(outcome, 0) / g["trials"] for name, g in own.items()) / whole
            assert one["rates"][outcome]["estimate"] == pytest.approx(mean)


def test_rows_are_equal_after_kills_of_the_driver(folder: Path, tmp_path: Path) -> None:
    words = [BIN / "bitrift", "campaign", "run", written(tmp_path, SPEC), "-o", tmp_path / "run", "--workers", "1"]
    for wait in (0.5, 0.7, 1.0):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = campaign("run", tmp_path / "spec.json", "-o", tmp_path / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr

    def stable(rows: dict[str, Any]) -> dict[str, Any]:
        return {name: {key: value for key, value in row.items() if key != "volatile"} for name, row in rows.items()}

    assert stable(read_rows(tmp_path / "run")) == stable(read_rows(folder))


def test_faults_that_last_strike_to_the_end(tmp_path: Path) -> None:
    strata = {"fields": ["sign"], "sites": ["activation", "update"], "lasting": "permanent", "every": 2}
    strata |= {"elements": 3, "stride": 4, "tensors": ["fc2", "fc2.*"], "steps": 5}
    spec = SPEC | {"strata": {"compute": strata}, "arms": [{"name": "serial", "parallel": {"kind": "serial"}}]}
    # The bias has ten elements, enough for three that are 4 apart.
    done = campaign("run", written(tmp_path, spec), "-o", tmp_path / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    rows = [row for row in read_rows(tmp_path / "run").values() if row["kind"] == "trial"]
    assert len(rows) == 8
    for row in rows:
        (fault,) = (fault["compute"] for fault in row["faults"])
        (altered,) = row["result"]["altered_values"]
        assert (fault["lasting"], fault["every"], fault["elements"], fault["stride"]) == ("permanent", 2, 3, 4)
        assert fault["tensor"].startswith("fc2")
        assert altered["times"] == len(range(fault["step"], 9, 2))


def test_whole_numbers_that_become_zero(tmp_path: Path) -> None:
    strata = {"effect": "zero", "sites": ["activation", "parameter"], "elements": 8, "stride": "random"}
    arms = [{"name": "serial", "parallel": {"kind": "serial"}}]
    spec = SPEC | {"strata": {"compute": strata | {"tensors": ["fc1", "fc1.weight"]}}, "arms": arms}
    done = campaign("run", written(tmp_path, spec), "-o", tmp_path / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    rows = [row for row in read_rows(tmp_path / "run").values() if row["kind"] == "trial"]
    assert {row["id"]["stratum"] for row in rows} == {"activation.zero", "parameter.zero"}
    for row in rows:
        altered = row["result"]["altered_values"]
        assert len(altered) == 8 and {int(one["new"], 16) for one in altered} == {0}
        assert {one["compute"]["effect"] for one in altered} == {"zero"}
    frame = bitrift.Campaign(tmp_path / "run").trials()
    assert frame["bit"].isna().all() and set(frame["computed_tensor"]) == {"fc1", "fc1.weight"}
    words = [BIN / "bitrift", "analyze", tmp_path / "run", "--by"]
    by_layer = subprocess.run([*words, "role,layer", "--json"], capture_output=True, check=True)
    groups = json.loads(by_layer.stdout)["groups"]
    assert {(one["key"]["role"], one["key"]["layer"]) for one in groups} == {
        ("activation", "fc1"),
        ("parameter", "fc1"),
    }
    by_bit = subprocess.run([*words, "bit"], capture_output=True, text=True, check=False)
    assert by_bit.returncode == 2 and "they have no bit" in by_bit.stderr


def test_random_bits_of_scattered_elements(tmp_path: Path) -> None:
    """Each is a fault of its own in a row, in one tensor and step, and each was read back."""
    sites = ["activation", "gradient", "weight_gradient", "update", "parameter"]
    strata = {"fields": ["exponent"], "sites": sites, "elements": 3, "stride": "random", "bits": 4}
    spec = SPEC | {"strata": {"compute": strata}, "arms": [{"name": "serial", "parallel": {"kind": "serial"}}]}
    done = campaign("run", written(tmp_path, spec), "-o", tmp_path / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    rows = [row for row in read_rows(tmp_path / "run").values() if row["kind"] == "trial"]
    assert len(rows) == 5 * SPEC["trials_per_stratum"]
    groups = set()
    for row in rows:
        faults = [fault["compute"] for fault in row["faults"]]
        where = {tuple(fault[key] for key in ("site", "tensor", "step", "replica", "micro_batch")) for fault in faults}
        places = {(fault["element"], fault["bit"]) for fault in faults}
        assert len(where) == 1 and len(places) == len(faults) == 12
        assert 23 <= faults[0]["bit"] <= 30
        assert Counter(Counter(element for element, _ in places).values()) == {4: 3}
        groups.add((*where, *sorted(places)))
        altered = row["result"]["altered_values"]
        assert [one["compute"] for one in altered] == faults
        assert all(int(one["old"], 16) ^ int(one["new"], 16) == 1 << one["compute"]["bit"] for one in altered)
    assert len(groups) == len(rows)
    words = [BIN / "bitrift", "analyze", tmp_path / "run", "--by", "role,bit", "--json"]
    by_bit = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert sum(group["trials"] for group in by_bit["groups"]) == len(rows)


MIXTURE = {
    "source": "a test",
    "patterns": [
        {"name": "zero", "weight": 6, "effect": "zero", "elements": 4, "stride": 2},
        {"name": "one", "weight": 3, "field": "exponent"},
        {"name": "three", "weight": 1, "bits": 3, "elements": 2, "stride": "random"},
        {"name": "square", "weight": 2, "bits": 2, "adjacent": True, "elements": 2},
    ],
}


def test_mixture_weighs_its_patterns(tmp_path: Path) -> None:
    """Rates are those of a number drawn uniformly and a pattern drawn by weight, here computed by hand."""
    spec = SPEC | {
        "strata": {"compute": MIXTURE | {"sites": ["update", "weight_gradient"], "steps": STEPS}},
        "arms": [{"name": "serial", "parallel": {"kind": "serial"}}],
        "trials_per_stratum": 6,
    }
    done = campaign("run", written(tmp_path, spec), "-o", tmp_path / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    rows = [row for row in read_rows(tmp_path / "run", check_crc=True).values() if row["kind"] == "trial"]
    known = json.loads((tmp_path / "run/campaign.json").read_text())["spec"]["strata"]["compute"]["computations"]
    numbers = 5 * sum(tensor["elements"] for tensor in known["parameters"])
    weights = {"zero": 6, "one": 3, "three": 1, "square": 2}
    flips = {"zero": (1, 4), "one": (1, 1), "three": (6, 1), "square": (2, 2)}
    for row in rows:
        pattern = row["id"]["stratum"].split(".")[1]
        assert row["stratum_bits"] == numbers * weights[pattern]
        faults = [fault["compute"] for fault in row["faults"]]
        assert (len(faults), faults[0].get("elements", 1)) == flips[pattern]
        altered = row["result"]["altered_values"]
        assert [one["compute"] for one in altered] == faults
        for one in altered:
            old, new = int(one["old"], 16), int(one["new"], 16)
            assert new == (0 if pattern == "zero" else old ^ (1 << one["compute"]["bit"]))
        assert pattern != "one" or 23 <= faults[0]["bit"] <= 30
        assert pattern != "square" or faults[1] == faults[0] | {"bit": faults[0]["bit"] + 1}
    assert Counter(row["id"]["stratum"] for row in rows) == {
        f"{site}.{name}": 6 for site in ("update", "weight_gradient") for name in weights
    }
    words = [BIN / "bitrift", "analyze", tmp_path / "run", "--json", "--field-rate", "20", "--by"]
    by_field, by_arm = (
        json.loads(subprocess.run([*words, by], capture_output=True, check=True).stdout) for by in ("field", "arm")
    )
    rate = {one["key"]["field"]: one["rates"]["masked"]["estimate"] for one in by_field["groups"]}
    expected = sum(weights[name] * rate[name] for name in weights) / 12
    (total,) = by_arm["groups"]
    assert total["rates"]["masked"]["estimate"] == pytest.approx(expected)
    low, high = total["rates"]["masked"]["interval"]
    for found in (by_field, by_arm):
        (field,) = found["field"]["groups"]
        assert field["expected"]["masked"]["estimate"] == pytest.approx(20 * expected)
        assert field["expected"]["masked"]["interval"] == pytest.approx([20 * low, 20 * high])
    by_layer = json.loads(subprocess.run([*words, "layer"], capture_output=True, check=True).stdout)
    assert sum(group["bits"] for group in by_layer["groups"]) == 2 * 12 * numbers
    by_bit = subprocess.run([*words, "bit"], capture_output=True, text=True, check=False)
    assert by_bit.returncode == 2 and "group by field, layer or tensor" in by_bit.stderr


@pytest.mark.parametrize(
    "change, says",
    [
        ({"tensors": ["conv*"]}, "strata.compute.tensors names none of its layers: fc1, fc2"),
        ({"elements": 11, "sites": ["update"]}, "a fault is to strike 11 elements, but fc2.bias has 10"),
        ({"steps": 9}, "strata.compute.steps names step 9, but a run takes 8 steps"),
    ],
)
def test_what_the_model_does_not_compute_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    spec = SPEC | {"strata": {"compute": {"fields": ["sign"]} | change}}
    done = campaign("run", written(tmp_path, spec), "-o", tmp_path / "run")
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "run").exists()


PAIRED = SPEC | {
    "arms": [{"name": "two", "parallel": {"kind": "data", "ranks": 2, "micro_batches": 2}}],
    "strata": {
        "compute": {
            "fields": ["exponent"],
            "sites": ["parameter", "update", "weight_gradient", "activation", "gradient"],
            "steps": STEPS,
            "paired": True,
        }
    },
    "trials_per_stratum": 30,
}


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("paired")
    done = campaign("run", written(place, PAIRED), "-o", place / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    return place / "run"


def drawn(folder: Path, site: str) -> list[tuple[dict[str, Any], str]]:
    """The faults of a site in the order of draws, without their sites, and the outcome of each."""
    trials = bitrift.Campaign(folder).trials()
    trials = trials[trials["stratum"] == f"{site}.exponent"]
    outcomes = dict(zip(trials["draw"], trials["outcome"], strict=True))
    rows = [row for row in read_rows(folder).values() if row["id"]["stratum"] == f"{site}.exponent"]
    rows.sort(key=lambda row: row["id"]["draw"])
    faults = [row["faults"][0]["compute"] for row in rows]
    assert all(fault.pop("site") == site for fault in faults)
    return list(zip(faults, (outcomes[row["id"]["draw"]] for row in rows), strict=True))


def test_paired_sites_strike_the_same_element_and_bit(paired: Path) -> None:
    of_parameters = [[fault for fault, _ in drawn(paired, site)] for site in ("parameter", "update", "weight_gradient")]
    assert len(of_parameters[0]) == 30
    assert of_parameters[0] == of_parameters[1] == of_parameters[2]
    assert [fault for fault, _ in drawn(paired, "activation")] == [fault for fault, _ in drawn(paired, "gradient")]


def compared(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "bitrift"), "compare", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_strata_are_compared_draw_by_draw(paired: Path) -> None:
    names = "parameter.exponent,update.exponent,activation.exponent"
    value = json.loads(compared(paired, "--strata", names, "--outcome", "crash", "--json").stdout)
    assert value["arm"] == "two"
    one, other = value["pairs"]
    classes = {site: [outcome for _, outcome in drawn(paired, site)] for site in ("parameter", "update", "activation")}
    counts = Counter(zip(*([c == "crash" for c in classes[site]] for site in ("parameter", "update")), strict=True))
    assert (one["kind"], one["pairs"], other["kind"]) == ("paired", 30, "unrelated")
    assert one["both"] == counts[True, True] and one["neither"] == counts[False, False]
    assert (one["first_only"], one["second_only"]) == (counts[True, False], counts[False, True])
    crashed = classes["activation"].count("crash")
    assert (other["second_hits"], other["second_trials"]) == (crashed, 30)
    struck = classes["parameter"].count("crash")
    fisher = fisher_exact([[struck, 30 - struck], [crashed, 30 - crashed]]).pvalue
    assert other["exact_p"] == pytest.approx(fisher)
    assert one["interval"][0] <= one["difference"] <= one["interval"][1]
    table = bitrift.Campaign(paired).compare(strata=names.split(","), outcomes="crash")
    assert list(table["answer"]) == [pair["answer"] for pair in (one, other)]
    assert list(table["low"]) == [pair["interval"][0] for pair in (one, other)]
    text = compared(paired, "--strata", names).stdout
    assert "30 pairs of trials with the same element, bit and step" in text
    assert "crash: update.exponent against parameter.exponent" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--strata", "update.exponent"), "a comparison needs two strata"),
        (("--strata", "update.exponent,update.sign"), "has no stratum 'update.sign'; it has parameter.exponent"),
        (("--strata", "update.exponent,update.exponent"), "is given twice"),
        (("--strata", "update.exponent,gradient.exponent", "--arm", "one"), "'one'"),
    ],
)
def test_strata_that_cannot_be_compared(paired: Path, words: tuple[str, ...], says: str) -> None:
    said = compared(paired, *words, code=2).stderr
    assert says in said and said.count("\n") == 1, said


def test_strata_of_several_arms_or_campaigns_cannot_be_compared(folder: Path, paired: Path) -> None:
    two = ("--strata", "update.sign,gradient.sign")
    assert "name it with --arm (two, guarded)" in compared(folder, *two, code=2).stderr
    assert "compared" not in compared(folder, *two, "--arm", "guarded").stderr
    assert "strata of one campaign" in compared(folder, str(paired), *two, code=2).stderr


def test_a_parameter_cannot_be_struck_twice(tmp_path: Path) -> None:
    compute = PAIRED["strata"]["compute"] | {"lasting": 2}
    done = campaign("run", written(tmp_path, PAIRED | {"strata": {"compute": compute}}), "-o", tmp_path / "run")
    assert done.returncode == 2 and "a second time would flip it back" in done.stderr, done.stderr
