"""Campaigns of each kind for the tests of reports, with the sentences that their reports must hold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import test_campaign_links
import test_campaign_mesh
import test_campaign_wire
import test_exec_runner
from campaign_support import STUDY_SPEC, campaign, fake_trainer

Spec = dict[str, Any]
FEW = {"envelope": 20, "held_out": 2, "jitter": 2}
DATA_4 = {"kind": "data", "ranks": 4}
DATA_2 = {"kind": "data", "ranks": 2}
BITS_OF_FLOAT32 = {"sign": 1, "exponent": 8, "mantissa": 23, "exponent_msb": 1}
ONE_ORDER = "All trials see the batches in one order. Other orders may have other rates."
SINGLE_BITS = (
    "The rates are those of single-bit faults in the targeted tensors of the base. They say nothing about other "
    "tensors, other bits, several flips at once, or faults that strike later in training."
)
PROCESS_LIMITS = (
    "The rates are those of ranks that fail at the points of training that the spec names. They say nothing about "
    "other points, other numbers of ranks at once, failures of a network, or altered bits."
)
LINES = "so that strata count by how many they hold. In general, it is not the fraction of trials."


def cells_of(**changes: Any) -> Spec:
    return STUDY_SPEC | {"trials_per_stratum": 3, "controls": FEW} | changes


def models_of() -> Spec:
    models = [
        {"name": "ten", "roles": ["weight"], "bits": "mantissa", "count": 10},
        {"name": "rare", "roles": ["weight"], "ber": 1e-9},
        {"name": "zeros", "tensors": ["model/**"], "what": "zero", "count": 4},
        {"name": "bytes", "count": 1, "plane": "metadata"},
    ]
    arms = [{"name": "one", "parallel": DATA_2, "scope": {"replicas": 1}}, {"name": "both", "parallel": DATA_2}]
    return cells_of(strata={"models": models}, arms=arms)


def processes_of() -> Spec:
    arms = [
        {"name": "shrink", "parallel": DATA_4, "recovery": "shrink"},
        {"name": "forgets", "parallel": DATA_4, "recovery": {"kind": "spare", "forget": ["optimizer"]}},
    ]
    strata = {"process": {"phases": ["forward", "recovery"], "steps": {"first": 5, "last": 8}}}
    return cells_of(arms=arms, strata=strata, trials_per_stratum=2)


@dataclass(frozen=True)
class Kind:
    """A spec, and what its report must say. {N} in `fault` stands for the size of the population."""

    spec: Spec
    fault: str
    limits: list[str]
    rates: str
    no_map: str = ""
    size: str = ""
    real: bool = False
    scopes: dict[str, str] | None = None
    numbers: bool = True


CELLS = "a flip of one bit, chosen uniformly from the {N} sign and exponent bits of weight and momentum tensors"
BIT_RATES = f"Each rate is that of a bit drawn uniformly from all bits of its line, {LINES}"
SAMPLED = {key: value for key, value in cells_of().items() if key != "trials_per_stratum"}
BASE = STUDY_SPEC["base"]["train"]

KINDS = {
    "cells": Kind(cells_of(), CELLS, [SINGLE_BITS, ONE_ORDER], BIT_RATES, size="bits"),
    "tensors": Kind(
        cells_of(
            strata={"tensors": ["model/fc*.weight", "**/conv1.*"], "roles": ["weight"], "fields": ["exponent_msb"]}
        ),
        "a flip of one bit, chosen uniformly from the {N} highest exponent bits of weight tensors whose names match "
        "model/fc*.weight or **/conv1.*",
        [SINGLE_BITS, ONE_ORDER],
        BIT_RATES,
        size="bits",
    ),
    "orders": Kind(
        cells_of(controls=FEW | {"orders": 3}),
        CELLS,
        [SINGLE_BITS, "The trials of a stratum see the batches in 3 orders in turn."],
        BIT_RATES,
        size="bits",
    ),
    "bases": Kind(
        cells_of(base=[{"name": "early", "train": BASE}, {"name": "late", "train": BASE | {"seed": 4}}]),
        CELLS,
        [SINGLE_BITS, ONE_ORDER],
        BIT_RATES,
        size="bits",
    ),
    "sampling": Kind(
        SAMPLED | {"sampling": {"half_width": 0.3, "max_trials": 80}},
        CELLS,
        [SINGLE_BITS, ONE_ORDER],
        BIT_RATES,
        size="bits",
    ),
    "extended": Kind(cells_of(), CELLS, [SINGLE_BITS, ONE_ORDER], BIT_RATES, size="bits"),
    "exec": Kind(
        {},
        "a flip of one bit, chosen uniformly from the {N} highest exponent bits of weight tensors whose names match "
        "model/fc1.weight",
        [SINGLE_BITS, ONE_ORDER],
        BIT_RATES,
        size="bits",
    ),
    "models": Kind(
        models_of(),
        "a fault of the model {MODEL}",
        [
            "The rates are those of the fault models of the spec, whose draws are in the base when a run loads it. "
            "They say nothing about other faults, or faults that strike later in training.",
            "Model ten: what flip, bits mantissa, count 10, roles weight.",
            "Model rare: what flip, ber 1e-09, roles weight.",
            "Model zeros: what zero, count 4, tensors model/**.",
            "Model bytes: what flip, count 1, plane metadata.",
            ONE_ORDER,
        ],
        "Each rate is that of a draw of the fault model of its line.",
        "A draw of a fault model is a set of faults, so there are no rates by layer and bit.",
        scopes={"one": "in the file that 1 of 2 replicas loads (drawn for each fault)", "both": ""},
    ),
    "processes": Kind(
        processes_of(),
        "the failure of a rank (killed with SIGKILL) in phase forward or recovery, chosen uniformly from the {N} "
        "combinations of ranks, steps 5 to 8 and points",
        [
            PROCESS_LIMITS,
            "In phase recovery, a second rank fails while the failure of a first one is handled.",
            ONE_ORDER,
        ],
        f"Each rate is that of a failure drawn uniformly from all combinations of ranks, steps and points of its line, "
        f"{LINES}",
        "Ranks fail and no tensor is altered, so there are no rates by layer and bit.",
        size="processes",
        numbers=False,
    ),
    "mesh": Kind(
        test_campaign_mesh.SPEC
        | {"arms": test_campaign_mesh.SPEC["arms"][:1], "strata": {"process": {"phases": ["reduce"]}}, "controls": FEW}
        | {"trials_per_stratum": 2},
        "the failure of a rank (killed with SIGKILL) in phase reduce, chosen uniformly from the {N} combinations of "
        "ranks, steps and points",
        [PROCESS_LIMITS, ONE_ORDER],
        f"Each rate is that of a failure drawn uniformly from all combinations of ranks, steps and points of its line, "
        f"{LINES}",
        "Ranks fail and no tensor is altered, so there are no rates by layer and bit.",
        size="mesh",
        real=True,
        numbers=False,
    ),
    "wire": Kind(
        test_campaign_wire.SPEC | {"controls": FEW},
        "a flip of one bit of a message of gradients, chosen uniformly from the {N} sign, highest exponent and "
        "mantissa bits of all numbers in messages that receivers add or copy, in steps 2 to 5",
        [
            "The rates are those of one flipped bit in one message of gradients between two chips. They say nothing "
            "about several flips, lost or late messages, other messages, or faults in checkpoints.",
            ONE_ORDER,
        ],
        f"Each rate is that of a bit drawn uniformly from all bits of messages of its line, {LINES}",
        "Messages are altered and no tensor of the base, so there are no rates by layer and bit.",
        size="wire",
        real=True,
    ),
    "links": Kind(
        test_campaign_links.SPEC
        | {"arms": test_campaign_links.SPEC["arms"][1:], "trials_per_stratum": 2, "controls": FEW},
        "the failure of a link (dead or slow by 0.01 s for each message), chosen uniformly from the {N} combinations "
        "of kinds of failure, links and steps 2 to 4",
        [
            "The rates are those of one link that fails in both directions, from the start of a step until the end of "
            "the run. They say nothing about several links, other delays, lost or altered messages, or faults in "
            "checkpoints.",
            "All ranks know when a link dies: how chips would detect it, and how long that would take, is not "
            "simulated.",
            ONE_ORDER,
        ],
        f"Each rate is that of a failure drawn uniformly from all combinations of links and steps of its line, {LINES}",
        "Links fail and no tensor is altered, so there are no rates by layer and bit.",
        size="links",
        real=True,
        numbers=False,
    ),
}


def size_of(kind: Kind, folder: Path) -> int:
    """How many faults there are, without bitrift."""
    spec = json.loads((folder / "campaign.json").read_text())["spec"]
    if kind.size == "bits":
        elements = 0
        with h5py.File(next(iter(sorted(folder.glob("base*.h5"))))) as base:

            def count(name: str, item: Any) -> None:
                nonlocal elements
                role = "momentum" if "momentum_buffer" in name else "weight" if name.endswith(".weight") else ""
                globs = spec["strata"]["tensors"]
                wanted = not globs or (name.startswith(("model/fc", "model/conv1.")) and "*" in str(globs))
                wanted = wanted or name in globs
                if isinstance(item, h5py.Dataset) and role in spec["strata"]["roles"] and wanted:
                    assert item.dtype == "<f4"
                    elements += item.size

            base.visititems(count)
        return elements * sum(BITS_OF_FLOAT32[field] for field in spec["strata"]["fields"])
    if kind.size == "processes":  # one micro-batch: 4 ranks x 4 steps; pairs of ranks x 4 steps x 4 points
        return 4 * 4 + 4 * 3 * 4 * 4
    if kind.size == "mesh":  # 6 chips x 8 steps x buckets
        (stage,) = spec["strata"]["process"]["points"]["stages"]
        return 6 * 2 * spec["strata"]["process"]["points"]["steps_per_epoch"] * stage["reduce"]
    if kind.size == "links":  # a square has 4 links; 3 steps; dead and slow
        return 4 * 3 * 2
    assert kind.size == "wire"
    messages = spec["strata"]["wire"]["messages"]
    (size,) = messages["buckets"]
    numbers = sum(size // messages["chunks"] + (send[0] < size % messages["chunks"]) for send in messages["sends"])
    return numbers * (1 + 1 + 23) * 4


class Studies:
    """Campaigns by name, each run once when a test asks for it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.fake = {"BITRIFT_TRAIN_PROGRAM": str(fake_trainer(place))}

    def run(self, name: str, spec: Spec, env: dict[str, str], *more: str) -> None:
        path = self.place / f"{name}.json"
        path.write_text(json.dumps(spec))
        done = campaign("run", path, "-o", self.place / name, "--workers", "1", *more, env=env)
        assert done.returncode == 0, done.stderr

    def folder(self, name: str) -> Path:
        folder = self.place / name
        if folder.exists():
            return folder
        kind = KINDS[name]
        if name == "exec":
            place = self.place / "own"
            place.mkdir()
            done = (
                test_exec_runner.Study(place).start("exec", trials_per_stratum=2, controls=FEW | {"jitter": 0}).finish()
            )
            assert done.returncode == 0, done.stderr
            (place / "exec").rename(folder)
        elif name == "extended":
            small = kind.spec | {"arms": kind.spec["arms"][:1], "trials_per_stratum": 2}
            self.run(name, small | {"strata": {"roles": ["weight"], "fields": ["sign", "exponent"]}}, self.fake)
            self.run(name, kind.spec, self.fake, "--extend")
        else:
            self.run(name, kind.spec, {} if kind.real else self.fake)
        return folder
