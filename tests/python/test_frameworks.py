"""Trainings by Hugging Face's Transformers and by Lightning become campaigns, and resume as they would have gone on."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bitrift
import pytest
from bitrift.program import program

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {"gpt2": ROOT / "examples" / "frameworks", "classifier": ROOT / "examples" / "frameworks"}
EXAMPLES["inline"] = ROOT / "examples" / "own-trainer"
FRAMEWORKS = Path(sys.prefix) / "frameworks" / "bin" / "python"
CHANGED = {"gpt2": 5, "classifier": 5, "inline": 13}
needs_frameworks = pytest.mark.skipif(not FRAMEWORKS.exists(), reason="needs tools/setup --with-frameworks")


def changed_lines(name: str) -> list[str]:
    """Lines of the difference that are not blank."""
    before, after = ((EXAMPLES[name] / f"{name}{end}.py").read_text().splitlines() for end in ("_before", ""))
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---") and line[1:].strip()]


@pytest.mark.parametrize("name", CHANGED)
def test_the_page_shows_every_changed_line_and_their_number(name: str) -> None:
    changed = changed_lines(name)
    assert len(changed) == CHANGED[name], changed
    page = (ROOT / "docs" / "own-trainer.md").read_text()
    assert all(line in page for line in changed), "docs/own-trainer.md shows another diff"
    assert f"{CHANGED[name]} changed lines" in page or f"{CHANGED[name]} lines" in page


def run(*words: object, place: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"BITRIFT_DATA_DIR": str(ROOT / "data")}
    done = subprocess.run([*map(str, words)], cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, (done.stdout[-2000:], done.stderr[-2000:])
    return done


def test_a_loop_without_functions_becomes_a_campaign(tmp_path: Path) -> None:
    for end in ("_before", ""):
        printed = run(sys.executable, EXAMPLES["inline"] / f"inline{end}.py", place=tmp_path).stdout
        assert printed.splitlines()[-1].startswith("4 ")
    done = run(
        sys.executable,
        "-m",
        "bitrift",
        "audit",
        "resume",
        EXAMPLES["inline"] / "inline.py",
        "--seed-epochs",
        place=tmp_path,
    )
    assert "a resume equals an uninterrupted training bit for bit" in done.stdout
    assert "scheduler" in done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / "frameworks", tmp_path_factory.mktemp("frameworks") / "f"))


@needs_frameworks
@pytest.mark.parametrize(("name", "metric"), [("gpt2", "test_loss"), ("classifier", "test_accuracy")])
def test_a_trainer_becomes_a_campaign(name: str, metric: str, place: Path) -> None:
    run(FRAMEWORKS, f"{name}.py", place=place)
    assert (place / f"{name}.h5").exists()
    sizes = ["controls.envelope=20", "controls.held_out=4", "controls.jitter=4", "trials_per_stratum=3"]
    options = [word for one in (*sizes, f"runner.interpreter={FRAMEWORKS}") for word in ("--set", one)]
    run(program(), "campaign", "run", f"{name}.json", "-o", name, *options, place=place)
    campaign = bitrift.Campaign(place / name)
    clean = campaign.trials(kinds=["control", "envelope"])
    assert clean[metric].notna().any() and clean["test_loss"].notna().all()
    assert clean[clean["kind"] == "envelope"]["test_loss"].nunique() > 10  # each has an order of its own
    trials = campaign.trials()
    assert len(trials) == 18 and {"masked", "crash"} <= set(trials["outcome"])


@needs_frameworks
@pytest.mark.parametrize("name", ["gpt2", "classifier"])
def test_numbers_that_a_trainer_computes_are_struck(name: str, place: Path) -> None:
    """With no changed line; tests/python/test_computations.py compares rows with hooks of plain PyTorch."""
    if not (place / f"{name}.h5").exists():
        run(FRAMEWORKS, f"{name}.py", place=place)
    strata = 'strata={"compute": {"fields": ["exponent_msb"]}}'
    sizes = ["controls.envelope=20", "controls.held_out=4", "controls.jitter=4", "trials_per_stratum=3", strata]
    options = [word for one in (*sizes, f"runner.interpreter={FRAMEWORKS}") for word in ("--set", one)]
    run(program(), "campaign", "run", f"{name}.json", "-o", f"{name}-struck", *options, place=place)
    trials = bitrift.Campaign(place / f"{name}-struck").trials()
    assert len(trials) == 12 and set(trials["site"]) == {"activation", "gradient", "weight_gradient", "update"}


TOP = "compute_metrics=lambda p: {'top': float((p.predictions.argmax(-1)[:, :-1] == p.label_ids[:, 1:]).mean())}"
NAMED = {
    "gpt2": (
        [("callbacks=[base])", f"callbacks=[base], {TOP})"), ("serve(trainer)", "serve(trainer, better=B)")],
        "eval_top",
    ),
    "classifier": ([("*loaders)\ntrainer.fit", "*loaders, better=B)\ntrainer.fit")], "val_accuracy"),
}


@needs_frameworks
@pytest.mark.parametrize("name", NAMED)
def test_a_metric_of_the_trainer_is_judged_in_its_direction(name: str, place: Path, tmp_path: Path) -> None:
    changes, metric = NAMED[name]
    text = (EXAMPLES[name] / f"{name}.py").read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new.replace("=B", f"={{'{metric}': 'higher'}}"))
    (tmp_path / f"{name}.py").write_text(text)
    if not (place / f"{name}.h5").exists():
        run(FRAMEWORKS, f"{name}.py", place=place)
    command = ("-m", "bitrift.runner", f"{name}.py", "--checkpoint", place / f"{name}.h5", "--epochs", 1)
    (last,) = json.loads(run(FRAMEWORKS, *command, place=tmp_path).stdout)["replicas"][0]
    assert set(last["higher_is_better"]) == {metric} and 0 < last["higher_is_better"][metric] < 1
    assert "test_loss" in last and "test_accuracy" not in last
    (tmp_path / f"{name}.py").write_text(text.replace(f"'{metric}'", "'val_none'"))
    refused = run(FRAMEWORKS, *command, place=tmp_path, code=2).stderr
    assert "no val_none, but " in refused and metric in refused, refused


# Changes of the examples that an adapter must carry through a resume.
VARIANTS = {
    "gpt2": [
        ("learning_rate=3e-3", "learning_rate=3e-3"),
        ("learning_rate=3e-3", "learning_rate=3e-3, lr_scheduler_type='cosine', gradient_accumulation_steps=2"),
        ("num_train_epochs=6", "max_steps=96, warmup_steps=20, data_seed=7"),
    ],
    "classifier": [
        ("lr=1e-2)", "lr=1e-2)"),
        (
            "return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)]",
            "return {'optimizer': optimizer, 'lr_scheduler': {'interval': 'step', 'scheduler': "
            "torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=256)}}",
        ),
    ],
}


@needs_frameworks
@pytest.mark.parametrize(("name", "variant"), [(name, i) for name, all_ in VARIANTS.items() for i in range(len(all_))])
def test_a_resume_equals_an_uninterrupted_training(name: str, variant: int, tmp_path: Path) -> None:
    old, new = VARIANTS[name][variant]
    text = (EXAMPLES[name] / f"{name}.py").read_text()
    assert text.count(old) == 1
    (tmp_path / f"{name}.py").write_text(text.replace(old, new))
    command = ("-m", "bitrift", "audit", "resume", f"{name}.py", "--seed-epochs", "--more", 2, "--json", "found.json")
    run(FRAMEWORKS, *command, place=tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["equal"] and not found["missing"]
    assert {"scheduler", "state of optimizer"} <= set(found["restored"])
