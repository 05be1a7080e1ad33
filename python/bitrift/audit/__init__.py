"""Audits of your own training script: whether stopping and resuming it changes what it computes.

`python -m bitrift audit resume SCRIPT` is the command; docs/audit.md describes it.
"""

from __future__ import annotations

from bitrift.audit.resume import Audit, Difference, Missing, audit_resume
from bitrift.audit.trainings import TrainingFailed, Trainings, Zygote

__all__ = ["Audit", "Difference", "Missing", "TrainingFailed", "Trainings", "Zygote", "audit_resume"]
