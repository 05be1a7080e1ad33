"""The command `audit resume`: its words, files, exit codes and refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

PLAIN = """
import bitrift.runner, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.01)
{more}
def train_epoch(epoch):
    {seed}
    model.train()
    for _ in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {step}
    return loss.item()
def evaluate():
    model.eval()
    return model(torch.ones(2, 4)).sum().item(), 0.5
bitrift.runner.serve(model=model, optimizer=optimizer, {serve} train_epoch=train_epoch, evaluate=evaluate)
"""
SCHEDULER = "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)"


ARM = {"parallel": {"kind": "serial"}}
SPEC = {
    "runner": {"python": "train.py"},
    "arms": [ARM | {"name": "one"}, ARM | {"name": "same"}, ARM | {"name": "other", "exec": ["--with", "scheduler"]}],
}


def script(path: Path, **parts: str) -> Path:
    parts = {"optimizer": "Adam", "more": "", "seed": "torch.manual_seed(epoch)", "step": "", "serve": ""} | parts
    path.write_text(PLAIN.format(**parts), encoding="utf-8")
    return path


def audit(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bitrift", "audit", "resume", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


@pytest.mark.parametrize("what", ["resume", "save"])
@pytest.mark.parametrize("options", [[], ["--epochs", "2"], ["--log", "log"]])
def test_arguments_of_the_script_follow_options_too(what: str, options: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; raise ValueError(sys.argv[1:])")
    command = [sys.executable, "-m", "bitrift", "audit", what, "train.py", *options, "--", "--epochs", "3", "--", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and "ValueError: ['--epochs', '3', '--', 'x']" in done.stdout + done.stderr, done


def test_an_equal_resume_ends_with_0(tmp_path: Path) -> None:
    path = script(tmp_path / "train.py", more=SCHEDULER, step="scheduler.step()", serve="scheduler=scheduler,")
    done = audit(path, "--epochs", 2, "--junit", tmp_path / "j.xml", "--json", tmp_path / "f.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path}: a resume equals an uninterrupted training bit for bit (2 + 1 epochs)\n")
    assert "audit: a new process: load, and 1 more epochs" in done.stderr
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert suite.get("failures") == "0" and suite.find("testcase/failure") is None
    found = json.loads((tmp_path / "f.json").read_text())
    assert found["schema"] == "bitrift/audit-resume/1" and found["equal"] and found["missing"] == []


def test_a_different_resume_ends_with_1_and_says_what_to_do(tmp_path: Path) -> None:
    path = script(tmp_path / "train.py", more=SCHEDULER, step="scheduler.step()", seed="pass")
    done = audit(path, "--junit", tmp_path / "j.xml", "--json", tmp_path / "f.json")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{path}: a resume differs from an uninterrupted training (1 + 1 epochs)"
    assert lines[1].startswith("first difference: the parameter model/0.weight differs in step 1 after the save")
    missing = lines[lines.index("missing:") :]
    assert any(line.startswith("  PyTorch's default generator: ") for line in missing)
    assert "  scheduler: last_epoch is 3 at the save and 0 after the load; without it the training differs" in missing
    assert "    pass scheduler= to bitrift.torch.save() and load_into(), and do not step it in the load" in missing
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    failure = suite.find("testcase/failure")
    assert suite.get("failures") == "1" and failure is not None and "scheduler" in str(failure.text)
    found = json.loads((tmp_path / "f.json").read_text())
    assert {each["piece"] for each in found["missing"]} == {"PyTorch's default generator", "scheduler"}
    assert all(each["needed"] and each["cure"] for each in found["missing"])
    # A campaign seeds before each epoch; the scheduler is missing there, too.
    seeded = audit(path, "--seed-epochs")
    assert seeded.returncode == 1 and "default generator: " not in seeded.stdout and "scheduler: " in seeded.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["no.py"], "no.py: no such file"),
        ([], "give either SCRIPT or --spec FILE"),
        (["train.py", "--spec", "two.json"], "give either SCRIPT or --spec FILE"),
        (["train.py", "--arm", "one"], "--arm names an arm of --spec"),
        (["--spec", "no.json"], "no.json: no such file"),
        (["--spec", "train.py"], "train.py: is not a valid campaign spec: JSONDecodeError"),
        (["--spec", "trains.json"], "trains.json: has no runner.python"),
        (["--spec", "two.json", "--arm", "none"], "two.json: no arm 'none'; there are one, same, other"),
        (["--spec", "elsewhere.json"], "start the audit with that Python: bin/python -m bitrift audit resume --spec"),
        (["--spec", "unknown.json"], "start the audit with that Python: no-such-python -m bitrift"),
        (["--spec", "two.json", "--ranks", "2"], "the arms say which arguments and ranks there are"),
        (["--spec", "two.json", "--junit", "j.xml"], "these arms differ: one, other; choose one with --arm"),
        (["train.py", "--epochs", "0"], "--epochs, --more and --ranks must be at least 1"),
        (["train.py", "--tolerance", "2"], "--tolerance must be at least 0 and less than 1"),
        (["raises.py"], "raises.py: RuntimeError: no data here"),
        (["ends.py"], "ends.py: RuntimeError: ends.py ended without a call of bitrift.runner.serve()"),
        (["dies.py"], "dies.py: ended with signal 9"),
        (["loads.py"], "an audit needs the script's way to save: pass save= to bitrift.runner.serve(), beside load="),
    ],
)
def test_what_cannot_be_audited_ends_with_2_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path / "train.py")
    script(tmp_path / "raises.py", seed="raise RuntimeError('no data here')")
    script(tmp_path / "dies.py", seed="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    script(tmp_path / "loads.py", serve="load=lambda path: None, state=lambda: [model],")
    (tmp_path / "ends.py").write_text("print('done')\n")
    (tmp_path / "two.json").write_text(json.dumps(SPEC))
    (tmp_path / "trains.json").write_text(json.dumps(SPEC | {"runner": {"exec": {"command": ["x"]}}}))
    for name, interpreter in (("elsewhere", "bin/python"), ("unknown", "no-such-python")):
        runner = {"python": "train.py", "interpreter": interpreter}
        (tmp_path / f"{name}.json").write_text(json.dumps(SPEC | {"runner": runner}))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(Path(sys.executable).resolve())  # as in another virtual environment
    done = audit(*words)
    assert done.returncode == 2
    error = done.stderr.splitlines()[-1]
    assert error.startswith("bitrift: error: ") and says in error, done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_option_is_reported_with_the_usage_of_the_command() -> None:
    done = audit("train.py", "--checkpoint", "c.pt")
    assert done.returncode == 2 and done.stderr.startswith("usage: python -m bitrift audit resume [options] SCRIPT")
    assert done.stderr.endswith("python -m bitrift audit resume: error: unrecognized arguments: --checkpoint c.pt\n")


def test_a_training_that_does_not_repeat_is_no_basis(tmp_path: Path) -> None:
    path = script(tmp_path / "train.py", seed="torch.manual_seed(__import__('time').time_ns() % 2**31)")
    done = audit(path)
    assert done.returncode == 2 and "two trainings from the same seed differ: " in done.stdout
    path = script(tmp_path / "noise.py", step="optimizer.param_groups[0]['lr'] *= 1 + 1e-9 * __import__('os').getpid()")
    done = audit(path, "--tolerance", "0.1")
    assert done.returncode == 0 and "hidden by --tolerance: relative differences of parameters up to" in done.stdout


def test_a_save_that_changes_the_training_is_found(tmp_path: Path) -> None:
    save = "save=lambda path: (bitrift.torch.save(path, model, optimizer), torch.rand(1)),"
    load = "load=lambda path: bitrift.torch.load_into(path, model, optimizer), state=lambda: [model, optimizer],"
    path = script(tmp_path / "train.py", seed="pass", more="import bitrift.torch", serve=save + load)
    done = audit(path)
    assert done.returncode == 2 and "saving changes the training: with and without a save, " in done.stdout


def test_the_arms_of_a_spec_are_audited_each_once(tmp_path: Path) -> None:
    more = f"import sys\n{SCHEDULER}\nstepping = '--with' in sys.argv"
    script(tmp_path / "train.py", more=more, step="scheduler.step() if stepping else None", seed="pass")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    done = audit("--spec", tmp_path / "spec.json")
    assert done.returncode == 1, done.stderr
    first, second = done.stdout.split("arm other:")
    # A campaign seeds before each epoch.
    assert first.startswith("arm one, same:") and "a resume equals an uninterrupted training" in first
    assert "--with scheduler: a resume differs" in second and "  scheduler: last_epoch is 3" in second
    runner = {"python": "train.py", "interpreter": sys.executable}  # the Python that runs the audit
    (tmp_path / "spec.json").write_text(json.dumps(SPEC | {"runner": runner}))
    only = audit("--spec", tmp_path / "spec.json", "--arm", "same", "--json", tmp_path / "f.json")
    assert only.returncode == 0 and only.stdout.startswith("arm same:")
    assert json.loads((tmp_path / "f.json").read_text())["equal"]
