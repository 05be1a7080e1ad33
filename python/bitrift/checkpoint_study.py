"""A study of checkpoints as a notebook uses it (docs/checkpoint-cost.md)."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bitrift.errors import BadFile, NotFound
from bitrift.needs import pandas_package
from bitrift.program import run_program

if TYPE_CHECKING:
    import pandas as pd

_SCHEMA = "bitrift/checkpoint-study-summary/1"
_SIZES = ["bytes", "payload_bytes", "tensor_bytes", "parameters", "overhead", "payload_ratio", "bytes_per_parameter"]


class CheckpointStudy:
    """The folder of a study that has ended.

    `CheckpointStudy("study").damage()` gives the outcomes of flipped bits. Methods that return a DataFrame need pandas.
    A part that was not studied gives an empty one.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        """Reads the summary. Raises NotFound and BadFile."""
        self.folder = Path(folder)
        path = self.folder / "summary.json"
        try:
            self.summary = cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise NotFound(f"{path}: no such file: run bitrift-train checkpoint-study to its end") from None
        except ValueError as error:
            raise BadFile(f"{path}: {error}") from None
        if not isinstance(self.summary, dict) or self.summary.get("schema") != _SCHEMA:
            raise BadFile(f"{path}: its schema is not {_SCHEMA}")

    def __repr__(self) -> str:
        return f"CheckpointStudy({str(self.folder)!r})"

    @classmethod
    def run(
        cls, spec: str | PathLike[str], folder: str | PathLike[str], *options: str, progress: bool = True
    ) -> CheckpointStudy:
        """Runs the study of a spec, or resumes it.

        options: as `bitrift-train checkpoint-study` takes them. progress: shows the program's progress on stderr.
        Raises Conflict when a canary does not end as required, BadInput when the spec or an option is refused, and
        Error when the program ends otherwise; the same call resumes the study.
        """
        command = ["checkpoint-study", str(spec), "-o", str(folder), *options]
        run_program(command, name="bitrift-train", progress=progress)
        return cls(folder)

    def sizes(self) -> pd.DataFrame:
        """One line for each format and writer.

        Columns: format, writer, bytes (of the file), payload_bytes (of these, what holds values), tensor_bytes (of the
        values in memory), parameters, overhead (bytes for each byte in memory, less 1), payload_ratio, and
        bytes_per_parameter.
        """
        found = [(file, file["size"]) for file in self.summary["files"] if "size" in file]
        lines = [[file["format"], file["writer"], *(size.get(key) for key in _SIZES)] for file, size in found]
        return _frame(lines, ["format", "writer", *_SIZES])

    def determinism(self) -> pd.DataFrame:
        """One line for each format and writer: whether two saves are equal, and where they first differ.

        Columns: format, writer, equal, differing_bytes, structure (at the first difference; "" if they are equal).
        """
        found = [(file, file["determinism"]) for file in self.summary["files"] if "determinism" in file]
        lines = [
            [
                *(file["format"], file["writer"], saves["equal"], saves["differing_bytes"]),
                saves.get("first_difference", {}).get("structure", ""),
            ]
            for file, saves in found
        ]
        return _frame(lines, ["format", "writer", "equal", "differing_bytes", "structure"])

    def damage(self) -> pd.DataFrame:
        """One line for each format, writer, stratum and outcome of flipped bits.

        Columns: format, writer, stratum (payload, metadata, or file: a uniform bit of all), outcome, estimate, low and
        high (the anytime interval), count and flips (missing for file).
        """
        lines: list[list[Any]] = []
        for file in self.summary["files"]:
            damage = file.get("damage", {})
            for cell in damage.get("strata", []):
                for outcome, rate in cell["rates"].items():
                    numbers = (rate["estimate"], *rate["anytime"], cell["counts"][outcome], cell["flips"])
                    lines.append([file["format"], file["writer"], cell["stratum"], outcome, *numbers])
            for outcome, rate in damage.get("file", {}).items():
                numbers = (rate["estimate"], *rate["anytime"], None, None)
                lines.append([file["format"], file["writer"], "file", outcome, *numbers])
        names = ["format", "writer", "stratum", "outcome", "estimate", "low", "high", "count", "flips"]
        return _frame(lines, names).astype({"count": "Int64", "flips": "Int64"})

    def replays(self) -> pd.DataFrame:
        """One line for each format, writer and outcome of flips of payload that a reader did not notice.

        Columns: format, writer, outcome (masked, SDC and crash of the training; undetected: all of these, and those not
        replayed), estimate, low and high (the anytime interval) of all flips of payload, count and flips.
        """
        lines = [
            [
                *(kind["format"], kind["writer"], outcome, rate["estimate"], *rate["anytime"]),
                *(kind["counts"][outcome], kind["flips"]),
            ]
            for kind in self.summary.get("replay", [])
            for outcome, rate in kind["rates"].items()
        ]
        names = ["format", "writer", "outcome", "estimate", "low", "high", "count", "flips"]
        return _frame(lines, names)

    def kills(self) -> pd.DataFrame:
        """One line for each format and writer: what saves leave that are killed.

        Columns: format, writer, calls (that alter files, in one save), kills, a number of kills for each outcome, and
        left (the most files that a kill left behind).
        """
        found = self.summary.get("kill", [])
        outcomes = ["previous", "complete", "detected", "silently_wrong", "crash", "hang"]
        lines = [
            [
                *(kind["format"], kind["writer"], kind["calls"], kind["kills"]),
                *(kind["counts"][outcome] for outcome in outcomes),
                kind["left"],
            ]
            for kind in found
        ]
        return _frame(lines, ["format", "writer", "calls", "kills", *outcomes, "left"])

    def states(self) -> pd.DataFrame:
        """One line for each piece of the state that was left out.

        Columns: piece, tensors, changed, steps, first_step, largest_difference, first_evaluation (all three missing
        where there is none), refused ("" where the training began).
        """
        names = ["piece", "tensors", "changed", "steps", "first_step", "largest_difference", "first_evaluation"]
        lines = [
            [*(piece.get(name) for name in names), piece.get("refused", "")] for piece in self.summary.get("state", [])
        ]
        return _frame(lines, [*names, "refused"]).astype({"first_step": "Int64", "first_evaluation": "Int64"})

    def saves(self) -> pd.DataFrame:
        """One line for each way to save that was timed: the list `cost.saves` of the summary.

        Keys within a key are columns like block_seconds.median.
        """
        return cast("pd.DataFrame", pandas_package().json_normalize(self.summary.get("cost", {}).get("saves", [])))

    def policy(self) -> pd.DataFrame:
        """One line for each mode and interval of trainings that were killed.

        Columns: mode, interval (steps), seconds (of these), lives, useful (the part of the time in steps that are never
        lost), low, high (Student's t), predicted (the expectation), predicted_own_costs (with the costs in the lives),
        replayed (predicted for the times of these kills), replayed_own_costs, difference (useful - replayed),
        difference_low, difference_high (Student's t), and computed (whether it is the computed interval).
        """
        lines = [
            [
                *(mode["mode"], cell["interval"], cell["interval_seconds"], cell["lives"], cell["useful"]),
                *(*cell["student_t"], cell["predicted"], cell["predicted_own_costs"], cell["replayed"]),
                *(cell["replayed_own_costs"], cell["difference"], *cell["difference_student_t"]),
                cell["interval"] == mode["computed_interval"],
            ]
            for mode in self.summary.get("policy", [])
            for cell in mode["intervals"]
        ]
        names = ["mode", "interval", "seconds", "lives", "useful", "low", "high", "predicted", "predicted_own_costs"]
        names += ["replayed", "replayed_own_costs", "difference", "difference_low", "difference_high", "computed"]
        return _frame(lines, names)


def _frame(lines: list[list[Any]], columns: list[str]) -> pd.DataFrame:
    return cast("pd.DataFrame", pandas_package().DataFrame(lines, columns=columns))
