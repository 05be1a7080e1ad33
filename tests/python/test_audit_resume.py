"""`python -m bitrift audit resume`: the mistakes in four scripts are found and named, and right scripts pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bitrift.audit import Audit, Trainings, Zygote, audit_resume, findings
from ways import WAYS

SCRIPTS = Path(__file__).parent / "resumes"
FUNCTIONS, TRAINER, PARALLEL, REPLAY = "functions.py", "trainer.py:main", "parallel.py", "replay.py"

# What an audit must name, by mistake and script.
MISTAKES = {
    "no scheduler": {FUNCTIONS: "scheduler", TRAINER: "trainer.scheduler", PARALLEL: "scheduler"},
    "scheduler twice": {FUNCTIONS: "scheduler", TRAINER: "trainer.scheduler", PARALLEL: "scheduler"},
    "sampler from the start": {FUNCTIONS: "order", TRAINER: "trainer.order", PARALLEL: "sampler.epoch"},
    "random state": {
        FUNCTIONS: "PyTorch's default generator",
        TRAINER: "Python's random",
        PARALLEL: "PyTorch's default generator",
    },
    "scaler": {FUNCTIONS: "scaler", TRAINER: "trainer.scaler", PARALLEL: "scaler"},
    "average": {FUNCTIONS: "average", TRAINER: "trainer.shadow", PARALLEL: "average"},
    "optimizer": {
        FUNCTIONS: "state of head_optimizer",
        TRAINER: "state of trainer.critic_optimizer",
        PARALLEL: "state of last",
    },
    "buffers": {FUNCTIONS: "buffers of model", TRAINER: "buffers of trainer.model", PARALLEL: "buffers of model"},
    "epoch": {
        FUNCTIONS: "number of the epoch",
        TRAINER: "number of the epoch",
        PARALLEL: "number of the epoch",
    },
    "weight decay group": {
        FUNCTIONS: "hyperparameters of body_optimizer",
        TRAINER: "hyperparameters of trainer.optimizer",
        PARALLEL: "hyperparameters of weights",
    },
    "dropout generator": {FUNCTIONS: "noise", TRAINER: "trainer.noise", PARALLEL: "noise"},
    "half of the ranks": {PARALLEL: "model"},
    "array": {REPLAY: "buffer.rows"},
}
CASES = [(mistake, script) for mistake, names in MISTAKES.items() for script in names]
# Each mistake once, and each way to keep a piece: the rest is thorough.
FIRST = {
    ("sampler from the start", PARALLEL),
    ("half of the ranks", PARALLEL),
    ("random state", TRAINER),
    ("average", TRAINER),
    *((mistake, FUNCTIONS) for mistake in MISTAKES if mistake not in ("half of the ranks", "array")),
    ("array", REPLAY),
}


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    yield one
    one.close()


def audit_of(script: str, zygote: Zygote, epochs: int = 1) -> Audit:
    ranks = 2 if script == PARALLEL else 1
    with Trainings(str(SCRIPTS / script), ranks=ranks, zygote=zygote) as trainings:
        return audit_resume(trainings, epochs=epochs)


@pytest.mark.parametrize("script", [FUNCTIONS, TRAINER, PARALLEL, REPLAY])
def test_right_scripts_pass(script: str, zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTAKE", "")
    audit = audit_of(script, zygote, epochs=2)
    assert audit.equal, findings.lines_of(audit)
    assert not audit.missing and audit.difference is None and audit.trainings == 3
    assert "number of the epoch" in audit.restored


@pytest.mark.parametrize("way", WAYS)
def test_other_optimizers_schedules_and_loops_pass(way: str, zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAY", way)
    audit = audit_of("ways.py:main", zygote)
    assert audit.equal and not audit.problem, findings.lines_of(audit)


@pytest.mark.parametrize(
    ("mistake", "script"),
    [pytest.param(*one, id="-".join(one), marks=[pytest.mark.thorough] * (one not in FIRST)) for one in CASES],
)
def test_mistakes_are_named(mistake: str, script: str, zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTAKE", mistake)
    audit = audit_of(script, zygote)
    lines = "\n".join(findings.lines_of(audit))
    assert not audit.equal and not audit.problem and audit.explained, lines
    named = [each.piece for each in audit.missing]
    expected = MISTAKES[mistake][script]
    assert expected in named, lines
    if mistake == "half of the ranks":
        assert all(each.rank == 1 for each in audit.missing), lines
    else:
        # A scheduler that takes a step too many sets the learning rate, too; an average has buffers.
        others = {name for name in named if expected not in name}
        assert not others or mistake == "scheduler twice", lines
        assert all(name.startswith("hyperparameters of ") for name in others), lines
    assert all(findings.cure_of(each) for each in audit.missing)
