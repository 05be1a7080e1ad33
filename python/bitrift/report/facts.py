"""What is known of a campaign, read once."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from bitrift import _core
from bitrift.results import Campaign

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """A campaign's folder as one reading found it."""

    folder: str
    """As the user gave it: the commands on the page contain it."""
    identity: Json
    """campaign.json."""
    report: Json = field(repr=False)
    """What _core.report returns: runs, outcomes, rates, comparisons, single trials."""

    @classmethod
    def read(cls, folder: str | Path) -> Facts:
        """Raises Error(not_found | bad_file) where the folder holds no campaign or its journal is damaged."""
        report = json.loads(_core.report(folder))
        identity = json.loads((Path(folder) / "campaign.json").read_text(encoding="utf-8"))
        return cls(str(folder), identity, report)

    @property
    def spec(self) -> Json:
        """The campaign's spec as stored."""
        return cast(Json, self.identity.get("spec", {}))

    @property
    def summary(self) -> Json:
        """Rates in the lines of `bitrift analyze`. Only where verdicts are given."""
        return cast(Json, self.report["summary"])

    @property
    def judged(self) -> bool:
        """Whether verdicts are given."""
        return self.report["summary"] is not None

    @property
    def arms(self) -> list[str]:
        """In the order of the spec."""
        stems = [arm.get("name", "") for arm in self.spec.get("arms", [])]
        order = {stem: position for position, stem in enumerate(stems)}
        names = sorted(self.report["runs"])
        return sorted(names, key=lambda name: order.get(name, order.get(name.split("@")[0], len(order))))

    @staticmethod
    def arm(group: Json) -> str:
        """The arm of a line of rates, as rows name it: STEM@BASE where there are several bases."""
        key = group["key"]
        return f"{key['arm']}@{key['base']}" if "base" in key else str(key["arm"])

    def place(self, group: Json) -> int:
        """By which lines of rates are sorted."""
        return self.arms.index(self.arm(group))

    @cached_property
    def audit(self) -> Json:
        """By arm, what an audit of the script's resume found (`campaign run --audit`); empty without one."""
        path = Path(self.folder) / "audit.json"
        return cast(Json, json.loads(path.read_text(encoding="utf-8"))["arms"]) if path.exists() else {}

    @property
    def incidents(self) -> int:
        """Deaths and hangs of workers."""
        path = Path(self.folder) / "incidents.jsonl"
        return len(path.read_bytes().splitlines()) if path.exists() else 0

    def runs(self, arm: str, kind: str) -> int:
        """How many rows of a kind count."""
        return int(self.report["runs"][arm].get(kind, 0))

    @property
    def trials(self) -> int:
        """Rows of trials, whether or not they count yet."""
        return sum(self.runs(arm, "trial") for arm in self.arms)

    @cached_property
    def counted_trials(self) -> Any:
        """The trials that counted at this reading, as `Campaign.trials` gives them. Only where verdicts are given.

        The journal may have grown since.
        """
        frame = Campaign(self.folder).trials()
        counted = self.report["counted"]
        until = [counted[arm][stratum] for arm, stratum in zip(frame["arm"], frame["stratum"], strict=True)]
        return frame[frame["draw"] < until]

    def unfinished(self) -> str:
        """Why the campaign is not finished; empty when it is."""
        if not self.report["merged"]:
            return f"rows of its shards are not merged yet (bitrift campaign merge {shlex.quote(self.folder)})"
        if not self.judged:
            return "its trials cannot be judged"
        summary = self.summary
        if summary["trials"] < summary["planned"] or summary["waiting"]:
            return f"{summary['trials']:,} of {summary['planned']:,} planned trials count"
        sampling = summary.get("sampling")
        if sampling and not sampling.get("stop"):
            return "further rounds of trials follow"
        if not self.report["decided"]:
            return "its next round is not planned yet"
        return ""
