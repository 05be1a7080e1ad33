"""Audits of your own training script: whether it resumes as if it had never stopped, and what a killed save leaves.

`python -m bitrift audit resume SCRIPT` and `audit save SCRIPT` are the commands; docs/audit.md describes it.
"""

from __future__ import annotations

from bitrift.audit.resume import Audit, Difference, Missing, audit_resume
from bitrift.audit.save import SaveAudit, audit_save
from bitrift.audit.trainings import TrainingFailed, Trainings, Zygote

__all__ = [
    "Audit",
    "Difference",
    "Missing",
    "SaveAudit",
    "TrainingFailed",
    "Trainings",
    "Zygote",
    "audit_resume",
    "audit_save",
]
