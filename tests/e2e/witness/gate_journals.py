"""Pairs of campaign folders made by hand, to be compared by a gate."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from verdict_journals import Hand, write

BITS = {"weight.sign": 800, "weight.exponent": 6400, "bias.sign": 100, "bias.exponent": 900}
GAIN = 0.03  # of the accuracy that a deviation of 1 costs

Metrics = dict[str, Any]


@dataclass(frozen=True)
class Making:
    """How a campaign is made. Effects of faults have the scale of the deviations of clean runs."""

    seed: int = 7
    faults: int = 0  # another number: other faults
    runs: int = 0  # another number: other clean runs and other luck, with the same effects of faults
    arms: tuple[str, ...] = ("serial",)
    orders: int = 1
    targets: int = 10_000
    chaotic: bool = False  # jitter runs and trials are clean runs of their own
    stray: bool = False  # trials are, although jitter runs are not
    envelope: int = 40
    held_out: int = 15
    jitter: int = 12
    draws: int = 40
    harm: float = 0.1  # share of faults that do harm
    more_harm: float = 0.0  # share of faults that do harm in addition
    crashes: float = 0.1
    more_crashes: float = 0.0
    jolt: float = 0.0  # share of faults whose effect is drawn anew, by `runs`
    worse: float = 0.0  # how much worse all runs of this campaign are
    missing: float = 0.0  # share of trials without the capped loss
    bits: tuple[tuple[str, int], ...] = tuple(BITS.items())
    confidence: float = 0.95
    level: float = 0.01
    luck: float = 0.0  # how much worse golden runs are than clean runs
    evaluations: int = 1  # of a run, the last one being the horizon

    def but(self, **changes: Any) -> Making:
        return replace(self, **changes)


def effect(random: np.random.Generator, harm: float, crashes: float) -> float:
    """Infinite: a crash; NaN: bitwise."""
    if random.random() < crashes:
        return np.inf
    if random.random() < harm:
        return float(random.uniform(0.5, 8))
    return float(random.choice([np.nan, 0.0, 1e-4, -1e-4, 0.01], p=[0.2, 0.2, 0.2, 0.2, 0.2]))


def effects(making: Making, arm: int, stratum: int) -> np.ndarray:
    """Of the faults of one stratum, with what this campaign makes of them."""
    shared = np.random.default_rng([1, making.faults, arm, stratum])
    own = np.random.default_rng([2, making.runs, making.faults, arm, stratum])
    found = []
    for _ in range(making.draws):
        usual = effect(shared, making.harm, making.crashes)
        again = effect(own, making.harm, making.crashes)
        draws = own.random(3)
        if draws[0] < making.jolt:
            usual = again
        if draws[1] < making.more_harm:
            usual = 4.0
        if draws[2] < making.more_crashes:
            usual = np.inf
        found.append(usual)
    return np.array(found)


def metrics_of(making: Making, deviation: float, other: float) -> Metrics:
    """Accuracies have ties where there are few test targets."""
    right = round(making.targets * min(1.0, max(0.0, 0.9 - GAIN * deviation)))
    loss = 0.25 * float(np.exp(0.2 * other))
    return {"test_accuracy": right / making.targets, "test_capped_loss": loss, "test_loss": loss}


def faults_of(making: Making, stratum: str, draw: int) -> list[Metrics]:
    """Some alter two elements."""
    elements = [2 * draw, 2 * draw + 1] if draw % 11 == 5 else [2 * draw]
    return [fault_of(making, stratum, draw, element) for element in elements]


def fault_of(making: Making, stratum: str, draw: int, element: int) -> Metrics:
    role, field = stratum.split(".")
    old = (0x3E000000 + 4099 * draw + 65537 * making.faults + (element % 2 << 20)) & 0xFFFFFFFF
    bit = 31 if field == "sign" else 23 + (5 * draw + draw // 8 + making.faults) % 8
    name = "model/fc1." + role
    place = {"tensor": name, "element": element, "dtype": "float32", "bits": [bit], "field": field, "role": role}
    return place | {"old": f"0x{old:08x}", "new": f"0x{old ^ 1 << bit:08x}"}


def arm_of(making: Making, number: int, name: str) -> Hand:
    random = np.random.default_rng([3, making.runs, making.seed, number])
    hand = Hand(arm=name, targets=making.targets, length=making.evaluations)

    def clean() -> np.ndarray:
        return random.normal(size=2) + making.worse

    def run(kind: str, luck: np.ndarray, **changes: Any) -> None:
        """Earlier evaluations have other luck."""
        way = [*(clean() for _ in range(making.evaluations - 1)), luck]
        hand.add(kind, [metrics_of(making, *map(float, one)) for one in way], **changes)

    golden = [clean() * 0.5 + making.luck for _ in range(making.orders)]
    for order, luck in enumerate(golden):
        hand.golden(metrics_of(making, *map(float, luck)), order)
    for kind, count in (("envelope", making.envelope), ("held_out", making.held_out)):
        for _ in range(count):
            run(kind, clean() * (0.7 if kind == "held_out" else 1))
    for draw in range(making.jitter):
        order = draw % making.orders
        run("jitter", clean() if making.chaotic else golden[order] + 1e-4 * random.normal(size=2), order=order)
    for place, (stratum, bits) in enumerate(making.bits):
        for draw, harm in enumerate(effects(making, number, place)[:bits]):
            order = draw % making.orders
            luck = clean() if making.chaotic or making.stray else golden[order] + 1e-4 * random.normal(size=2)
            lacks = random.random() < making.missing
            if np.isinf(harm):
                hand.add("trial", stratum=stratum, order=order, failure="hang" if draw % 2 else "signal")
            elif np.isnan(harm):
                exact = metrics_of(making, *map(float, golden[order]))
                hand.add("trial", exact, stratum=stratum, order=order, digest=f"golden{order}")
            else:
                run("trial", luck + harm * np.array([1, draw % 3 - 0.5]), stratum=stratum, order=order)
                if lacks:
                    del hand.rows[-1]["result"]["replicas"][0][-1]["test_capped_loss"]
            hand.rows[-1] |= {"faults": faults_of(making, stratum, draw), "stratum_bits": bits}
    return hand


def make(folder: Path, making: Making) -> Path:
    """A finished campaign."""
    hands = [arm_of(making, number, name) for number, name in enumerate(making.arms)]
    write(folder, *hands, controls={"orders": making.orders}, confidence=making.confidence, level=making.level)
    path = folder / "campaign.json"
    identity = json.loads(path.read_text())
    fields = list(dict.fromkeys(name.split(".")[1] for name, _ in making.bits))
    roles = list(dict.fromkeys(name.split(".")[0] for name, _ in making.bits))
    identity["spec"] |= {"strata": {"roles": roles, "fields": fields}, "trials_per_stratum": making.draws}
    identity["spec"]["seed"] = identity["seed"] = making.seed
    identity["bases"] = {"base": {"digest": f"{making.faults:032x}", "source": "given"}}
    path.write_text(json.dumps(identity))
    strata = [
        dict(zip(("role", "field"), name.split("."), strict=True), name=name, bits=bits)
        | {"draws": min(making.draws, bits), "first_draw": 0}
        for name, bits in making.bits
    ]
    plan = {"schema": 1, "round": 0, "seed": making.seed, "arms": making.arms, "measure": "bit", "plane": "value"}
    (folder / "rounds").mkdir()
    (folder / "rounds" / "0000.json").write_text(json.dumps(plan | {"strata": strata}))
    return folder
