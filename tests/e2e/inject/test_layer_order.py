"""The layers of a checkpoint stand in the order in which its model computes them, for every model."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import train_support
from inject_support import run_json

SMALL = {"width": "small"}
BLOCKS = {"layers": 12, "heads": 2, "width": 8, "context": 8}
MODELS: dict[str, dict] = {
    "lenet": {},
    "mlp": {"hidden": [8] * 12, "norm": "batch"},
    "resnet20": SMALL,
    "resnet18": SMALL,
    "resnet50": SMALL,
    "alexnet": SMALL,
    "vgg16": SMALL,
    "vgg16_bn": SMALL,
    "googlenet": SMALL,
    "gpt": BLOCKS,
    "bert": BLOCKS,
    "llama": BLOCKS,
}


def described(model: str, folder: Path) -> list[str]:
    """Keys of all tensors, layer by layer, as bitrift-train builds them."""
    data: dict = {"name": "digits", "resize": 64}
    if model in ("gpt", "bert", "llama"):
        data = {"name": "jargon"} | ({"mask_fraction": 0.15} if model == "bert" else {})
    changes = {"data": data, "epochs": 1}
    spec = train_support.write_spec(folder / "s.json", {"name": model} | MODELS[model], train_support.SGD, **changes)
    layers = train_support.run("describe", spec)["layers"]
    return [tensor["key"] for layer in layers for tensor in layer["tensors"]]


# Modules of Hugging Face's Gemma2ForCausalLM as forward hooks see them.
GEMMA = [
    "embed_tokens",
    "layers.0.input_layernorm",
    "layers.0.self_attn.q_proj",
    "layers.0.self_attn.k_proj",
    "layers.0.self_attn.v_proj",
    "layers.0.self_attn.o_proj",
    "layers.0.post_attention_layernorm",
    "layers.0.pre_feedforward_layernorm",
    "layers.0.mlp.gate_proj",
    "layers.0.mlp.up_proj",
    "layers.0.mlp.down_proj",
    "layers.0.post_feedforward_layernorm",
    "norm",
    "lm_head",
]


def test_names_of_gemma_have_the_order_of_its_modules(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "gemma.h5", "w") as file:
        for name in sorted(GEMMA):
            file[f"model.{name}.weight" if name != "lm_head" else "lm_head.weight"] = np.zeros(1, "f4")
    listed = run_json("ls", tmp_path / "gemma.h5")["layers"]["list"]
    assert [layer["name"].removeprefix("model.") for layer in listed] == GEMMA


@pytest.mark.parametrize("model", MODELS)
def test_natural_order_is_the_models(model: str, tmp_path: Path) -> None:
    keys = described(model, tmp_path)
    path = tmp_path / "model.h5"
    with h5py.File(path, "w") as file:
        file.attrs["schema"] = "bitrift/checkpoint/1"
        for key in sorted(keys):
            file[f"model/{key}"] = np.zeros(1, "f4")
    listed = run_json("ls", path)
    assert listed["layout"] == "bitrift"
    found = [layer["name"] for layer in listed["layers"]["list"]]
    expected = list(dict.fromkeys(key.rsplit(".", 1)[0] for key in keys))
    assert sorted(found) == sorted(expected)
    # Auxiliary heads hang on modules in the middle; they are listed before the last layer.
    assert [name for name in found if "aux" not in name] == [name for name in expected if "aux" not in name]
    assert json.dumps(found).find("aux") < json.dumps(found).find('"fc"') or model != "googlenet"
