"""bitrift: what happens to a training run when bits of its state flip.

This package reads and alters HDF5 checkpoints, and reads the folders of campaigns. It trains nothing: campaigns are run
by the programs `bitrift` and `bitrift-train`. Everything that is refused raises `Error`, or one of its subclasses.
"""

from bitrift._core import version as __version__
from bitrift.campaign import Outcome, outcomes, read_journal, summary, table
from bitrift.checkpoint import Difference, Tensor, diff, inject, list_tensors, plan, replay, undo
from bitrift.checkpoint_study import CheckpointStudy
from bitrift.errors import BadFile, BadInput, Busy, Conflict, Error, Internal, IoError, NotFound, Unsupported
from bitrift.integrity import Seal, SealCheck, SummedPart, Verification, VerifiedTensor, repair, seal, verify
from bitrift.intervals import Interval, anytime, clopper_pearson, wilson
from bitrift.manifests import save_manifest
from bitrift.results import Campaign

__all__ = [
    "BadFile",
    "BadInput",
    "Busy",
    "Campaign",
    "CheckpointStudy",
    "Conflict",
    "Difference",
    "Error",
    "Internal",
    "Interval",
    "IoError",
    "NotFound",
    "Outcome",
    "Seal",
    "SealCheck",
    "SummedPart",
    "Tensor",
    "Unsupported",
    "Verification",
    "VerifiedTensor",
    "__version__",
    "anytime",
    "clopper_pearson",
    "diff",
    "inject",
    "list_tensors",
    "outcomes",
    "plan",
    "read_journal",
    "repair",
    "replay",
    "save_manifest",
    "seal",
    "summary",
    "table",
    "undo",
    "verify",
    "wilson",
]
