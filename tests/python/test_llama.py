"""A llama of bitrift-train is Hugging Face's: its checkpoint, loaded there, has the same loss to the bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bitrift.program import program

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = Path(sys.prefix) / "frameworks" / "bin" / "python"
EVALUATE = """
import gzip, json, math, sys
import h5py, numpy as np, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.set_num_threads(1)
path, text, spec = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
model, rows = spec["model"], spec["data"]["test_samples"]
hugging = LlamaForCausalLM(LlamaConfig(
    vocab_size=256, hidden_size=model["width"], intermediate_size=model["feed_forward"],
    num_hidden_layers=model["layers"], num_attention_heads=model["heads"], num_key_value_heads=model["kv_heads"],
    rms_norm_eps=1e-5, tie_word_embeddings=model["tied"])).eval()
with h5py.File(path) as file:
    state = {key: torch.from_numpy(tensor[()]) for key, tensor in file["model"].items()}
missing, unexpected = hugging.load_state_dict(state, strict=False)
assert (missing, unexpected) == (["lm_head.weight"] if model["tied"] else [], []), (missing, unexpected)
data = np.frombuffer(gzip.decompress(open(text, "rb").read()), np.uint8).astype(np.int64)
data = torch.from_numpy(data[len(data) - math.floor(0.1 * len(data) + 0.5):])
ids = torch.stack([data[i * model["context"]:(i + 1) * model["context"] + 1] for i in range(rows)])
with torch.no_grad():
    logits = hugging(input_ids=ids[:, :-1]).logits.flatten(0, 1)
    total = torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten(), reduction="sum")
    print(total.double().item() / len(logits))
"""


@pytest.mark.skipif(not FRAMEWORKS.exists(), reason="needs tools/setup --with-frameworks")
@pytest.mark.parametrize("tied", [False, True])
def test_hugging_face_has_the_same_loss(tied: bool, tmp_path: Path) -> None:
    model = {"layers": 2, "heads": 6, "kv_heads": 2, "width": 48, "context": 32, "feed_forward": 100, "tied": tied}
    spec: dict[str, Any] = {"model": {"name": "llama"} | model, "batch_size": 16, "epochs": 1, "seed": 3}
    spec["data"] = {"name": "jargon", "train_samples": 128, "test_samples": 16}
    spec["optimizer"] = {"name": "adamw", "learning_rate": 0.005, "clip_norm": 1}
    (tmp_path / "llama.json").write_text(json.dumps(spec))
    environment = os.environ | {"BITRIFT_DATA_DIR": str(ROOT / "data")}

    def output(*words: object) -> str:
        command = [str(word) for word in words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    trained = json.loads(output(program("bitrift-train"), "train", "llama.json", "-o", "llama.h5", "--json"))
    text = ROOT / "data" / "jargon" / "jargon.txt.gz"
    loss = float(output(FRAMEWORKS, "-c", EVALUATE, "llama.h5", text, json.dumps(spec)))
    assert loss == trained["replicas"][0][-1]["test_loss"]
