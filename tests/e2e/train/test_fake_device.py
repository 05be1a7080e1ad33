"""Code for CUDA on a device that is made of the host's memory (tests/fake_device): a sample of tests/gpu/checks.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from train_support import PROGRAM

ROOT = Path(__file__).resolve().parents[3]
BUILD = PROGRAM.resolve().parents[1]
DEVICE = BUILD / "tests" / "fake_device" / "fake_device.so"
pytestmark = pytest.mark.skipif(not DEVICE.exists(), reason="LibTorch has CUDA: tests/gpu/run uses a real card")


def checks(work: str, cards: int, *words: str, forget: str = "") -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        ROOT / "tests/gpu/checks.py",
        BUILD,
        "--fake",
        work,
        "--cards",
        str(cards),
        "--jobs",
        "2",
    ]
    return subprocess.run(
        [*command, *words],
        env=os.environ | {"BITRIFT_FAKE_FORGET": forget, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
    )


@pytest.mark.parametrize(
    ("work", "cards", "names"),
    [
        (
            "now",
            1,
            (
                "as on a CPU: data 4, sharded optimizer",
                "as on a CPU: gpt, pipeline 2",
                "guards",
                "resume: autocast-bf16, data 2",
                "save: formats",
                "steps of PyTorch",
            ),
        ),
        (
            "later",
            2,
            (
                "as on a CPU: gpt, hybrid 2x2",
                "as on a CPU: mesh 2x2",
                "as on a CPU: pipeline 4, 1f1b",
                "strikes: data 2",
            ),
        ),
        pytest.param("later", 1, ("campaign: ",), marks=pytest.mark.thorough),
        pytest.param("now", 2, ("",), marks=pytest.mark.thorough),
    ],
)
def test_checks_hold_on_the_fake_device(work: str, cards: int, names: tuple[str, ...]) -> None:
    done = checks(work, cards, "--only", *names)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("work", "cards", "cells"),
    [
        ("now", 2, ("serial | relaunch | gather, async", "data 2 | shrink | direct, sync")),
        ("later", 2, ("pipeline 2 | spare | gather, sync", "hybrid 2x2 | respawn | shared, sync")),
        ("later", 1, ("data 4, sharded optimizer | relaunch | direct, sync",)),
        pytest.param("later", 2, ("",), marks=pytest.mark.thorough),
    ],
)
def test_a_run_that_loses_a_rank_leaves_the_files_of_a_cpu(work: str, cards: int, cells: tuple[str, ...]) -> None:
    done = checks(work, cards, "--table", "--only", *cells)
    assert done.returncode == 0, done.stdout + done.stderr
    assert cells == ("",) or f"{len(cells)} of {len(cells)} held" in done.stdout


@pytest.mark.parametrize("number", [1, 7, 100])
def test_a_forgotten_copy_is_found(number: int) -> None:
    done = checks("now", 1, "--only", "as on a CPU: gpt, serial", forget=f"copy:{number}")
    assert done.returncode == 1
    assert "exit code -11" in done.stdout, done.stdout


@pytest.mark.parametrize("number", [0, 2])
def test_a_forgotten_synchronization_is_found(number: int) -> None:
    done = checks("later", 1, "--only", "as on a CPU: gpt, pipeline 2", forget=f"synchronization:{number}")
    assert done.returncode == 1
    assert "signal 6 (Aborted)" in done.stdout or "differ" in done.stdout, done.stdout


SCRIPT = """
import torch
import bitrift.torch

assert torch.cuda.device_count() == 2
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5)).to("cuda:1")
optimizer = torch.optim.Adam(model.parameters())
x = torch.ones(5, 4, device="cuda:1")

def step():
    optimizer.zero_grad()
    output = model(x)
    output.sum().backward()
    optimizer.step()
    return [output.detach().cpu(), torch.rand(2), *(value.detach().cpu() for value in model.parameters())]

step()
bitrift.torch.save("out.h5", model, optimizer, random=True, step=1)
first, other = step(), step()
assert not torch.equal(first[0], other[0])
bitrift.torch.load_into("out.h5", model, optimizer, random=True)
assert all(torch.equal(one, again) for one, again in zip(first, step(), strict=True))
assert {value.device.index for value in model.parameters()} == {1}
print("held")
"""


def test_a_script_on_the_second_device_keeps_its_state(tmp_path: Path) -> None:
    folders = [ROOT / "tests/fake_device", BUILD / "python"]
    fake = {"BITRIFT_FAKE_DEVICE": str(DEVICE), "BITRIFT_FAKE_DEVICES": "2"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | fake | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr
