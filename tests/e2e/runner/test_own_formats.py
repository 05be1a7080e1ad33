"""Campaigns whose base is a file in a script's own format, which the script loads as it always did."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import bitrift
import pytest
from campaign_support import CONTROLS, campaign, read_rows
from own_support import ROOT, OwnStudy

NO_READERS = CONTROLS | {"readers": False}
SERVE = "bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train_epoch, evaluate=evaluate)\n"
SAVE = 'bitrift.torch.save("digits.h5", model, optimizer, epoch=5)\n'
HEAD = "import bitrift.runner\n"


class Format(NamedTuple):
    """How a script saves and loads, and the tensors that faults strike."""

    base: str
    imports: str
    load: str
    save: str
    roles: tuple[str, ...] = ("weight",)
    state: str = "[model, optimizer]"


def block_of_page(part: str) -> str:
    page = (ROOT / "docs" / "own-trainer.md").read_text()
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if part in one)
    return block


def of_page() -> tuple[str, str]:
    """load() and the line that saves, as docs/own-trainer.md shows them."""
    block = block_of_page("checkpoint = torch.load")
    return block.split("\n\n\n")[0] + "\n", block.splitlines()[-1] + "\n"


FORMATS = {
    "dict": Format("digits.pt", "", *of_page(), ("weight", "exp_avg")),
    "scheduler and arguments": Format(
        "digits.ckpt",
        "import argparse\n",
        "scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 9])\n"
        "def load(path):\n"
        "    kept = torch.load(path, weights_only=False)\n"
        "    model.load_state_dict(kept['state_dict'])\n"
        "    optimizer.load_state_dict(kept['optimizer_states'][0])\n"
        "    scheduler.load_state_dict(kept['lr_schedulers'][0])\n"
        "    return {'epoch': kept['epoch']}\n",
        "torch.save({'epoch': 5, 'state_dict': model.state_dict(), 'optimizer_states': [optimizer.state_dict()], "
        "'lr_schedulers': [scheduler.state_dict()], 'args': argparse.Namespace(lr=1e-3, path='x')}, 'digits.ckpt')\n",
        ("weight", "exp_avg"),
        "[model, optimizer, scheduler]",
    ),
    "state_dict": Format(
        "pytorch_model.bin",
        "",
        "def load(path):\n    model.load_state_dict(torch.load(path))\n",
        "torch.save(model.state_dict(), 'pytorch_model.bin')\n",
    ),
    "module": Format(
        "whole.pth",
        "",
        "def load(path):\n    model.load_state_dict(torch.load(path, weights_only=False).state_dict())\n",
        "torch.save(model, 'whole.pth')\n",
    ),
    "safetensors": Format(
        "digits.safetensors",
        "from safetensors.torch import load_file, save_file\n",
        "def load(path):\n    model.load_state_dict(load_file(path))\n",
        "save_file(model.state_dict(), 'digits.safetensors')\n",
    ),
    "npz": Format(
        "digits.npz",
        "import numpy as np\n",
        "def load(path):\n"
        "    with np.load(path) as kept:\n"
        "        model.load_state_dict({name: torch.from_numpy(kept[name]) for name in kept.files})\n",
        "np.savez_compressed('digits.npz', **{name: value.numpy() for name, value in model.state_dict().items()})\n",
    ),
}
FORMATS["Keras-like"] = Format(
    "digits.weights.h5",
    "import h5py\n",
    "def load(path):\n"
    "    assert str(path).endswith('.weights.h5'), path\n"
    "    with h5py.File(path) as kept:\n"
    "        model.load_state_dict({name: torch.as_tensor(kept[name][()]) for name in kept})\n",
    "with h5py.File('digits.weights.h5', 'w') as file:\n"
    "    for name, value in model.state_dict().items():\n"
    "        file[name] = value.numpy()\n",
)
FORMATS["distributed"] = Format(
    "digits-dcp",
    "import torch.distributed.checkpoint as dcp\n"
    "from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict\n",
    block_of_page("dcp.load"),
    "weights, moments = get_state_dict(model, optimizer)\n"
    "dcp.save({'model': weights, 'optim': moments}, checkpoint_id='digits-dcp')\n",
    ("weight", "exp_avg"),
)
FORMATS["shards"] = Format(
    "checkpoint-5",
    "import json\nfrom pathlib import Path\nfrom safetensors.torch import load_file, save_file\n",
    "def load(path):\n"
    "    names = set(json.loads((Path(path) / 'model.safetensors.index.json').read_text())['weight_map'].values())\n"
    "    for name in sorted(names):\n"
    "        model.load_state_dict(load_file(Path(path) / name), strict=False)\n"
    "    optimizer.load_state_dict(torch.load(Path(path) / 'optimizer.pt'))\n",
    "out = Path('checkpoint-5')\n"
    "out.mkdir(exist_ok=True)\n"
    "state = model.state_dict()\n"
    "places = {name: f'model-{1 + i % 2:05}-of-00002.safetensors' for i, name in enumerate(state)}\n"
    "for place in set(places.values()):\n"
    "    save_file({name: state[name] for name in state if places[name] == place}, out / place)\n"
    "(out / 'model.safetensors.index.json').write_text(json.dumps({'metadata': {}, 'weight_map': places}))\n"
    "torch.save(optimizer.state_dict(), out / 'optimizer.pt')\n"
    "(out / 'trainer_state.json').write_text('{}')\n",
    ("weight", "exp_avg"),
)
FORMATS["DeepSpeed"] = Format(
    "deepspeed",
    "from pathlib import Path\n",
    "def load(path):\n"
    "    step = Path(path) / (Path(path) / 'latest').read_text()\n"
    "    model.load_state_dict(torch.load(step / 'mp_rank_00_model_states.pt')['module'])\n"
    "    kept = torch.load(step / 'zero_pp_rank_0_mp_rank_00_optim_states.pt')['optimizer_state_dict']\n"
    "    optimizer.load_state_dict(kept['base_optimizer_state'])\n",
    "step = Path('deepspeed/global_step5')\n"
    "step.mkdir(parents=True, exist_ok=True)\n"
    "(step.parent / 'latest').write_text(step.name)\n"
    "torch.save({'module': model.state_dict()}, step / 'mp_rank_00_model_states.pt')\n"
    "kept = {'optimizer_state_dict': {'base_optimizer_state': optimizer.state_dict()}}\n"
    "torch.save(kept, step / 'zero_pp_rank_0_mp_rank_00_optim_states.pt')\n",
    ("weight", "exp_avg"),
)
FIRST = ("dict", "safetensors", "distributed")


def contents(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of each file of a folder."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def study_of(place: Path, form: Format) -> OwnStudy:
    study = OwnStudy(place, base=form.base)
    study.replace(HEAD, form.imports + HEAD)
    study.replace(
        SERVE,
        f"{form.load}\n\nbitrift.runner.serve(load=load, state=lambda: {form.state}, train_epoch=train_epoch, "
        "evaluate=evaluate)\n",
    )
    study.replace(SAVE, form.save)
    study.spec["strata"] = {"roles": list(form.roles), "fields": ["exponent_msb"]}
    study.train_base()
    return study


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.thorough] * (one not in FIRST)) for one in FORMATS]
)
def test_a_script_keeps_its_own_format(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    study = study_of(tmp_path, form)
    done = study.start("out", "--workers", 2).finish()
    assert done.returncode == 0, done.stderr
    out, rows = study.place / "out", read_rows(study.place / "out", check_crc=True)
    extension = "".join(Path(form.base).suffixes)
    assert contents(out / f"base{extension}") == contents(study.place / form.base)
    trials = [row for row in rows.values() if row["kind"] == "trial"]
    assert len(trials) == 3 * len(form.roles) and all(row["landed"] for row in trials)
    readers = {row["id"]["stratum"] for row in rows.values() if row["id"]["stratum"].startswith("canary:reads-")}
    assert readers == {f"canary:reads-{role}" for role in form.roles}
    nan = rows["own/canary:nan/0"]["result"]
    assert nan["status"] == "nonfinite" or nan["nonfinite_state"]
    again = campaign("replay", out, "own/weight.exponent_msb/1", env=study.environment, cwd=study.place)
    assert again.returncode == 0, again.stderr + again.stdout
    assert bitrift.verify(out / f"base{extension}").sound


def test_a_part_that_the_script_does_not_load_is_left_out(tmp_path: Path) -> None:
    form = FORMATS["dict"]
    study = study_of(tmp_path, form)
    text = study.script.read_text().replace('"epoch": 5}', '"epoch": 5, "head": torch.nn.Linear(3, 3).state_dict()}')
    study.script.write_text(text)
    study.train_base()
    done = study.start("out", "--workers", 2, trials_per_stratum=1).finish()
    assert done.returncode == 0, done.stderr
    assert "head/weight" in done.stdout
    study.replace('    optimizer.load_state_dict(checkpoint["optimizer"])\n', "")
    done = study.start("other", "--workers", 1).finish()
    assert done.returncode == 1 and "does not read role exp_avg" in done.stderr, done.stderr


@pytest.mark.thorough
def test_a_killed_start_with_another_base_leaves_nothing_that_counts(tmp_path: Path) -> None:
    study = study_of(tmp_path, FORMATS["state_dict"])
    done = study.start("out", "--workers", 1, controls=NO_READERS, trials_per_stratum=1).finish()
    assert done.returncode == 0, done.stderr
    out, rows = study.place / "out", read_rows(study.place / "out")
    identity = json.loads((out / "campaign.json").read_text())
    del identity["bases"]
    shutil.rmtree(out)
    out.mkdir()
    (out / "campaign.json").write_text(json.dumps(identity))
    for name in ("base.h5", "base.bin"):
        (out / name).write_bytes(b"half of a file")
    done = study.start("out", "--workers", 1, controls=NO_READERS, trials_per_stratum=1).finish()
    assert done.returncode == 0, done.stderr
    assert read_rows(out) == rows and not (out / "base.h5").exists()


KERAS = """
import os

os.environ["KERAS_BACKEND"] = "torch"
import bitrift.runner
import digits
import keras
import torch

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [keras.layers.Input((1, 8, 8)), keras.layers.Flatten(), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-3), loss)
model.optimizer.build(model.trainable_variables)
images, labels = (one.numpy() for one in digits.read("train").tensors)
test_images, test_labels = (one.numpy() for one in digits.read("t10k").tensors)


def train_epoch():
    order = torch.randperm(len(labels)).numpy()
    model.fit(images[order], labels[order], batch_size=64, shuffle=False, verbose=0)
    return {"steps": 23}


def evaluate():
    logits = torch.as_tensor(model.predict(test_images, batch_size=360, verbose=0))
    truth = torch.from_numpy(test_labels)
    return torch.nn.functional.cross_entropy(logits, truth), (logits.argmax(1) == truth).float().mean()


def load(path):
    kept = keras.models.load_model(path)
    for mine, theirs in zip(variables(), [*kept.variables, *kept.optimizer.variables], strict=True):
        mine.assign(theirs.value)


def variables():
    return [*model.variables, *model.optimizer.variables]


bitrift.runner.serve(
    load=load, state=lambda: {one.path: one.value.detach() for one in variables()},
    train_epoch=train_epoch, evaluate=evaluate,
)
for _ in range(3):
    train_epoch()
model.save("digits.keras")
"""


@pytest.mark.thorough
def test_a_model_of_keras_is_its_own_base(tmp_path: Path) -> None:
    study = OwnStudy(tmp_path, base="digits.keras")
    study.script.write_text(KERAS)
    study.spec["strata"] = {"roles": ["weight", "exp_avg"], "fields": ["exponent_msb"]}
    study.train_base()
    done = study.start("out", "--workers", 2).finish()
    assert done.returncode == 0, done.stderr
    rows = read_rows(tmp_path / "out", check_crc=True)
    trials = [row for row in rows.values() if row["kind"] == "trial"]
    assert len(trials) == 6 and all(row["landed"] for row in trials)
    assert {row["result"]["status"] for row in trials} <= {"done", "nonfinite"}
    assert (tmp_path / "out" / "base.keras").read_bytes() == (tmp_path / "digits.keras").read_bytes()
