"""A campaign as a notebook uses it: tables of trials, rates and comparisons as pandas DataFrames."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bitrift import _core
from bitrift.campaign import IntervalKind, Names, Where, conditions, judged_metrics, names_of, outcome_named, summary
from bitrift.errors import BadInput
from bitrift.manifests import numbers_of
from bitrift.needs import pandas_package
from bitrift.program import run_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import plotly.graph_objects as go

METRICS = ("test_accuracy", "test_capped_loss", "test_loss", "train_accuracy", "train_loss")
_STATISTICS = ["outcome", "estimate", "low", "high", "count", "n", "method"]
_COMPARED = [
    *("first", "second", "outcome", "answer", "kind", "pairs", "both", "first_only", "second_only", "neither"),
    *("first_rate", "second_rate", "difference", "low", "high", "p", "adjusted_p"),
]
_RECOVERY_OUTCOMES = ("recovered_bitwise", "recovered_within_noise", "recovered_degraded", "lost")
_RECOVERED = ["arm", "phase", "victim", "stage", "trials"]
_IN_STORM = ["arm", "storm", "trials"]
_GOODPUT = {"faults": ("mean",), "goodput": ("median", "p5")}
_PARTS = ("detect", "revoke", "agree", "shrink", "respawn", "state", "redo", "total")
_RECOVERY = {
    **dict.fromkeys(_PARTS, ("n", "median_ms", "p95_ms")),
    "steps_lost": ("median", "max"),
    "steps_redone": ("median", "max"),
    "bytes_moved": ("median",),
}
_CELLS = ["layer", "bit", "estimate", "low", "high", "count", "n", "bits"]


class Campaign:
    """The folder of a campaign, finished or not.

    `Campaign("results/quickstart").worst("SDC", by="test_loss")` gives the worst trials. Methods that return a
    DataFrame need pandas. Everything that is refused raises `bitrift.Error`, as `outcomes` and `summary` do.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Campaign({str(self.folder)!r})"

    @classmethod
    def run(
        cls, spec: str | PathLike[str], folder: str | PathLike[str], *options: str, progress: bool = True
    ) -> Campaign:
        """Runs the campaign of a spec, or resumes it.

        options: as `bitrift campaign run` takes them, such as "--workers", "2". progress: shows the program's progress
        on stderr. Raises Conflict when a control or canary does not end as required, BadInput when the spec or an
        option is refused, and Error when the program ends otherwise; the same call resumes the campaign.
        """
        run_program(["campaign", "run", str(spec), "-o", str(folder), *options], progress=progress)
        return cls(folder)

    def trials(
        self,
        kinds: Names = ("trial",),
        *,
        horizon: int | None = None,
        metrics: Names | None = None,
    ) -> pd.DataFrame:
        """One line a trial, in file order: its fault, its outcome, and its metrics where it is judged.

        Columns: id, arm, stratum, draw, kind, order; tensor, layer, role, element, bits, field, dtype, old, new of the
        first fault and their number `faults` (bits is a tuple, old and new are integers; layer is missing where the
        base checkpoint is); outcome, reason, course, p_value, bitwise_equal, steps, steps_to_recover, signal; every
        metric, and as golden_METRIC that of the golden run in the same data order. Metrics are NaN where the run did
        not reach the evaluation. Where a guard raised alarms also alarms and guard_actions, numbers of the run. Where
        ranks fail also victims (a tuple of ranks), phase, step, point, how (of the last one to fail), recovered;
        recovery and state (source) of the last recovery, ranks_after, and summed over the recoveries of the run
        steps_lost, steps_redone, bytes_moved, the seconds detect_s, revoke_s, agree_s, shrink_s, respawn_s, state_s,
        redo_s, and their sum recovery_s. kinds, horizon, metrics: as for `bitrift.outcomes`.
        """
        pandas = pandas_package()
        chosen = None if metrics is None else names_of(metrics)
        columns = _core.trials(self.folder, names_of(kinds), horizon, chosen)
        frame = pandas.DataFrame({name: _typed(pandas, *column) for name, *column in columns})
        return cast("pd.DataFrame", frame)

    def rates(
        self,
        by: Names | None = None,
        where: Where | None = None,
        *,
        interval: IntervalKind = "anytime",
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Rates in tidy form: a line for each group and outcome.

        Columns: the dimensions of `by`, outcome, estimate, low, high, count, n, method (the kind of interval). by,
        where: as for `bitrift.summary`.
        """
        pandas = pandas_package()
        found = summary(self.folder, by, interval=interval, simultaneous=simultaneous, where=where)
        lines = []
        for group in found["groups"]:
            for outcome, rate in group["rates"].items():
                values = (outcome, rate["estimate"], *rate["interval"], group["counts"][outcome], group["trials"])
                lines.append(group["key"] | dict(zip(_STATISTICS, (*values, rate["kind"]), strict=True)))
        return cast("pd.DataFrame", pandas.DataFrame(lines, columns=[*_keys(found), *_STATISTICS]))

    def effects(self, by: Names | None = None, where: Where | None = None) -> pd.DataFrame:
        """Losses of test accuracy in tidy form: a line for each group and number of points.

        Columns: the dimensions of `by`, points, share (of the trials that lose more than so many points of test
        accuracy), low, high. The intervals of a group hold together. by, where: as for `bitrift.summary`.
        """
        pandas = pandas_package()
        found = summary(self.folder, by, effects=True, where=where)
        lines = []
        for group in found["groups"]:
            for one in group["effects"]["beyond"]:
                low, high = one["band"]
                lines.append(
                    group["key"] | {"points": one["points"], "share": one["estimate"], "low": low, "high": high}
                )
        return cast("pd.DataFrame", pandas.DataFrame(lines, columns=[*_keys(found), "points", "share", "low", "high"]))

    def map(
        self,
        arm: str | None = None,
        outcome: str = "harmed",
        where: Where | None = None,
        *,
        interval: IntervalKind = "anytime",
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """The vulnerability map: the rate of an outcome by layer and bit, a line for each cell.

        arm: only this one. outcome: masked, SDC, crash, or harmed (SDC or crash). Columns: arm, state (model or
        optimizer), layer, bit, estimate (NaN without a trial), low, high, count, n, bits (how many the cell holds), and
        base where there are several. Layers are in network order, bits from high to low. where: as for
        `bitrift.summary`.
        """
        pandas = pandas_package()
        wanted = outcome_named(outcome, "harmed")
        texts = conditions(where) + ([] if arm is None else [f"arm={arm}"])
        found = json.loads(_core.vulnerability_map(self.folder, wanted, interval, simultaneous, texts))["cells"]
        keys = [name for name in ("arm", "base", "state") if not found or name in found[0]]
        frame = pandas.DataFrame(found, columns=[*keys, *_CELLS])
        return cast("pd.DataFrame", frame.astype({"estimate": "float64"}))

    def plot_map(self, arm: str | None = None, outcome: str = "harmed", where: Where | None = None) -> go.Figure:
        """The vulnerability map as a plotly figure: a heat map for each arm and state. Arguments: as for `map`."""
        from bitrift import plots

        return plots.map_figure(self.map(arm, outcome, where), outcome_named(outcome, "harmed"))

    def plot_rates(
        self,
        by: Names | None = None,
        where: Where | None = None,
        *,
        outcomes: Names = ("SDC", "crash"),
        interval: IntervalKind = "anytime",
        simultaneous: bool = False,
    ) -> go.Figure:
        """Rates with their intervals as a plotly figure: a point for each group. Arguments: as for `rates`."""
        from bitrift import plots

        rates = self.rates(by, where, interval=interval, simultaneous=simultaneous)
        return plots.rates_figure(rates[rates["outcome"].isin([outcome_named(one) for one in names_of(outcomes)])])

    def worst(self, outcome: str = "SDC", by: str = "p_value", n: int = 10) -> pd.DataFrame:
        """The n trials of an outcome that are harmed most: the smallest p-value, the lowest accuracy, the highest loss.

        outcome: in upper or lower case. by: p_value or a metric (one of your own if it is judged), whose NaN or
        infinite values are worse than every number. Other words raise BadInput.
        """
        better = dict.fromkeys(("p_value", *METRICS), "lower")
        if by not in better:
            better |= judged_metrics(summary(self.folder)["judging"])
        if by not in better:
            raise BadInput(f"by={by!r}: give one of {', '.join(better)}", "by")
        wanted = outcome_named(outcome)
        trials = self.trials()
        trials = trials[trials["outcome"] == wanted]
        rising = by == "p_value" or by.endswith("accuracy") or better[by] == "higher"
        values = trials[by].astype(float)
        if by != "p_value":
            values = values.where(values.notna() & ~values.isin([float("inf")]), float("-inf" if rising else "inf"))
        return trials.loc[values.sort_values(ascending=rising, kind="stable").index[:n]]

    def compare(
        self,
        *arms: str,
        other: Campaign | str | PathLike[str] | None = None,
        outcomes: Names = ("SDC", "crash"),
        margin: float = 0.01,
        strata: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Whether arms differ under the same faults, or from those of another campaign, as `bitrift compare` decides.

        arms: the first is compared with each of the others; none: all pairs. With `other`: an arm of this campaign and
        one of the other; none: all that both have. strata: of one arm, the first is compared with each of the others.
        margin: of the difference of two rates, as a share. Columns: first, second, outcome, answer (a sentence), kind
        (paired, or unpaired or unrelated with `other` and `strata`), first_rate,
        second_rate, difference, low, high, p, adjusted_p, share_seen, verdict (differ, equivalent or open); of pairs
        also pairs, both, first_only, second_only, neither; exact_p, for one look (docs/statistics.md), None with
        `sampling`.
        """
        pandas = pandas_package()
        wanted = [outcome_named(one) for one in names_of(outcomes)]
        if other is None and not strata:
            pairs = json.loads(_core.compare(self.folder, list(arms), wanted, margin))["pairs"]
        else:
            command = ["compare", str(self.folder), "--json", "--margin", repr(100 * margin)]
            if other is not None:
                command.append(str(other.folder if isinstance(other, Campaign) else other))
            command += ["--arm", ",".join(arms)] if arms else []
            command += ["--strata", ",".join(strata)] if strata else []
            command += [word for outcome in wanted for word in ("--outcome", outcome)]
            pairs = json.loads(run_program(command))["pairs"]
        for pair in pairs:
            pair["low"], pair["high"] = pair.pop("interval")
        columns = [*_COMPARED, "exact_p", "share_seen", "verdict"]
        return cast("pd.DataFrame", pandas.DataFrame(pairs, columns=columns))

    def propagation(self, *, by_tensor: bool = False) -> pd.DataFrame:
        """How far faults reached: a line for each arm, stratum, step and tensor that some trial altered.

        Columns: arm, stratum, origin (with by_tensor: the tensor that held the fault), step, tensor, reached (trials
        that recorded propagation and reached the step), trials (of those, in which the tensor differed from the golden
        run's), nonfinite, mean_altered, median_norm, max_norm, median_mean (docs/propagation.md). Raises
        Error(bad_input) when the campaign records no propagation.
        """
        pandas = pandas_package()
        lines = []
        for group in numbers_of(json.loads(_core.propagation(self.folder, by_tensor)))["groups"]:
            where = {name: group[name] for name in ("arm", "stratum", "origin", "step") if name in group}
            for tensor in group["tensors"]:
                lines.append(where | {"reached": group["trials"]} | tensor)
        first = ["arm", "stratum", *(["origin"] if by_tensor else []), "step", "tensor", "reached", "trials"]
        rest = ["nonfinite", "mean_altered", "median_norm", "max_norm", "median_mean"]
        return cast("pd.DataFrame", pandas.DataFrame(lines, columns=[*first, *rest]))

    def detectors(self) -> pd.DataFrame:
        """What each guard noticed, as `bitrift analyze --view detectors` prints it (docs/detectors.md).

        One row for each arm with guards, bit field or role ("all": every one) and outcome that the same fault has
        without guards. Columns: arm, beside (the arm without guards), field, role, outcome, runs, alarms, share, low,
        high; of the arm: clean_runs, false_alarms, false_low, false_high, median_steps, most_steps, step_seconds, cost.
        """
        pandas = pandas_package()
        rows = []
        for one in json.loads(_core.detectors(self.folder))["detectors"]:
            clean = one["clean"]
            low, high = clean["interval"] or (None, None)
            of_arm = {
                "clean_runs": clean["runs"],
                "false_alarms": clean["alarms"],
                "false_low": low,
                "false_high": high,
            }
            of_arm |= {key: one[key] for key in ("median_steps", "most_steps", "step_seconds", "cost")}
            parts = {("all", "all"): one["outcomes"]}
            parts |= {(field, "all"): outcomes for field, outcomes in one["fields"].items()}
            parts |= {("all", role): outcomes for role, outcomes in one["roles"].items()}
            for (field, role), outcomes in parts.items():
                for outcome, share in outcomes.items():
                    low, high = share.pop("interval") or (None, None)
                    key = {"arm": one["arm"], "beside": one["beside"], "field": field, "role": role}
                    key["outcome"] = outcome
                    rows.append(key | share | {"low": low, "high": high} | of_arm)
        return cast("pd.DataFrame", pandas.DataFrame(rows))

    def guard_actions(self) -> pd.DataFrame:
        """What guards that act made of the same faults and of clean runs (docs/detectors.md, "Guards that act").

        One row for each arm whose guards act and measure: recovered SDC, recovered crash, exactly SDC, exactly crash,
        recovered ROLE (SDC or crash) for each role, harmed, clean_acted, clean_harmed. Columns: arm, beside (the arm
        without guards), action, measure, runs, count, share, low, high (NaN without a run).
        """
        pandas = pandas_package()
        rows = []
        for one in json.loads(_core.detectors(self.folder))["detectors"]:
            actions = one.get("actions", {})
            shares = {
                f"{name} {outcome}": share
                for name in ("recovered", "exactly")
                for outcome, share in actions.get(name, {}).items()
            }
            shares |= {f"recovered {role}": share for role, share in actions.get("roles", {}).items()}
            shares |= {name: actions[name] for name in ("harmed", "clean_acted", "clean_harmed") if name in actions}
            for measure, share in shares.items():
                low, high = share["interval"] or (None, None)
                key = {"arm": one["arm"], "beside": one["beside"], "action": one["guards"]["on_alarm"]}
                counted = {"measure": measure} | {name: share[name] for name in ("runs", "count", "share")}
                rows.append(key | counted | {"low": low, "high": high})
        columns = ["arm", "beside", "action", "measure", "runs", "count", "share", "low", "high"]
        return cast("pd.DataFrame", pandas.DataFrame(rows, columns=columns))

    def process(
        self, where: Where | None = None, *, interval: IntervalKind = "anytime", simultaneous: bool = False
    ) -> pd.DataFrame:
        """What became of runs in which ranks failed, as `bitrift analyze --view process` prints it.

        One row for each arm, phase ("all": the phases together, weighted by their sizes) or storm ("every_50"), and
        outcome. Columns: arm, phase, outcome (recovered_bitwise, recovered_within_noise, recovered_degraded or lost),
        estimate (NaN without a trial), low, high, count, n, method (the kind of interval); docs/rank-failure.md. where:
        as for `bitrift.summary`; a phase or storm is a field. Raises Error(bad_input) when no rank fails in this
        campaign.
        """
        pandas = pandas_package()
        found = json.loads(_core.process(self.folder, interval, simultaneous, conditions(where)))
        lines = []
        for line in found["lines"]:
            for outcome in _RECOVERY_OUTCOMES:
                rate = line["rates"].get(outcome, {"estimate": None, "interval": (0.0, 1.0), "kind": interval})
                values = (
                    outcome,
                    rate["estimate"],
                    *rate["interval"],
                    line["counts"][outcome],
                    line["trials"],
                    rate["kind"],
                )
                key = {"arm": line["arm"], "phase": line["phase"]}
                lines.append(key | dict(zip(_STATISTICS, values, strict=True)))
        frame = pandas.DataFrame(lines, columns=["arm", "phase", *_STATISTICS])
        return cast("pd.DataFrame", frame.astype({"estimate": "float64"}))

    def recovery_times(self, where: Where | None = None) -> pd.DataFrame:
        """How long recoveries took, a row for each arm, phase or storm, and class of victims (docs/rank-failure.md).

        Columns: arm, phase, victim ("rank 0", "another rank", or "any rank" in a storm), stage (missing where the arm
        has one, where victims hold different ones, and in storms), trials (that recovered); of each part, PART_n,
        PART_median_ms and PART_p95_ms, PART being detect, revoke, agree, shrink, respawn, state, redo or total;
        steps_lost_median, steps_lost_max, steps_redone_median, steps_redone_max, bytes_moved_median. A trial with
        several recoveries counts with their sum. where and what is raised: as for `process`.
        """
        pandas = pandas_package()
        found = json.loads(_core.process(self.folder, "anytime", False, conditions(where)))["recoveries"]
        lines = []
        for one in found:
            line = {key: one[key] for key in _RECOVERED}
            for key in _RECOVERY:
                line |= {f"{key}_{name}": value for name, value in one[key].items()}
            lines.append(line)
        columns = [*_RECOVERED, *(f"{key}_{name}" for key, names in _RECOVERY.items() for name in names)]
        frame = pandas.DataFrame(lines, columns=columns)
        times = {name: "float64" for name in columns if name.endswith("_ms")}
        return cast("pd.DataFrame", frame.astype({"stage": "Int64"} | times))

    def goodput(self, where: Where | None = None) -> pd.DataFrame:
        """How much of the time of runs in a storm was useful, a row for each arm and storm (docs/rank-failure.md).

        Columns: arm, storm, trials (that ran to their end), faults_mean (of a trial), goodput_median, goodput_p5
        (fractions: the time of a run without faults, divided by the trial's; NaN without such a trial). Empty where the
        strata are phases.
        where and what is raised: as for `process`.
        """
        pandas = pandas_package()
        found = json.loads(_core.process(self.folder, "anytime", False, conditions(where)))["goodput"]
        lines = [
            {key: one[key] for key in _IN_STORM}
            | {f"{key}_{name}": one[key][name] for key, names in _GOODPUT.items() for name in names}
            for one in found
        ]
        numbers = [f"{key}_{name}" for key, names in _GOODPUT.items() for name in names]
        frame = pandas.DataFrame(lines, columns=[*_IN_STORM, *numbers])
        return cast("pd.DataFrame", frame.astype(dict.fromkeys(numbers, "float64")))

    def replay(self, trial: str, trace: str | PathLike[str] | None = None) -> dict[str, Any]:
        """Runs one trial ("ARM/STRATUM/DRAW") again: its row, the row of this run, and their first difference or None.

        trace: write every step to this file (JSON Lines). Raises Error when there is no such trial, or when it cannot
        be run.
        """
        traced = [] if trace is None else ["--trace", str(trace)]
        command = ["campaign", "replay", str(self.folder), trial, "--json", *traced]
        return cast(dict[str, Any], json.loads(run_program(command, accept=(0, 1))))


def _keys(found: dict[str, Any]) -> list[str]:
    """The dimensions of a summary, as its groups name them."""
    return ["arm" if name == "strategy" else name for name in found["by"]]


def _typed(pandas: Any, kind: str, values: Any, extra: Any) -> Any:
    """A column of `_core.trials` (python/core/trial_columns.h)."""
    if kind == "text":
        return values
    import numpy as np

    if kind in ("category", "tuple"):
        codes = np.frombuffer(values, "<i4")
        if kind == "category":
            return pandas.Categorical.from_codes(codes, extra)
        bits = np.empty(len(extra) + 1, object)  # the last is for -1
        bits[: len(extra)] = extra
        return bits[codes]
    types = {"float": "<f8", "bool": "?", "int": "<i8", "uint": "<u8"}
    numbers = np.frombuffer(values, types[kind]).copy()
    if extra is None:
        return numbers
    return pandas.arrays.IntegerArray(numbers, np.frombuffer(extra, "?").copy())
