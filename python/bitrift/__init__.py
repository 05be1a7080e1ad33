"""bitrift: what happens to a training run when bits of its state flip.

This package reads and alters HDF5 checkpoints, and reads the folders of campaigns. It trains nothing: campaigns are run
by the programs `bitrift` and `bitrift-train`. Everything that is refused raises `Error`, whose `code` says what kind.
"""

from bitrift._core import Error
from bitrift._core import version as __version__
from bitrift.campaign import Outcome, outcomes, read_journal, summary, table
from bitrift.checkpoint import Difference, Tensor, diff, inject, list_tensors, plan, replay, undo
from bitrift.intervals import Interval, anytime, clopper_pearson, wilson
from bitrift.results import Campaign

__all__ = [
    "Campaign",
    "Difference",
    "Error",
    "Interval",
    "Outcome",
    "Tensor",
    "__version__",
    "anytime",
    "clopper_pearson",
    "diff",
    "inject",
    "list_tensors",
    "outcomes",
    "plan",
    "read_journal",
    "replay",
    "summary",
    "table",
    "undo",
    "wilson",
]
