"""Checkpoints as Transformers, its Trainer, Accelerate and Lightning write them, and their values as they load them.

python framework_files.py make FOLDER           FOLDER/KIND/checkpoint or FOLDER/KIND.ckpt, as small as they can be
python framework_files.py read KIND PATH OUT    OUT is an npz: each tensor's bytes, by the path that bitrift lists

Needs `tools/setup --with-frameworks`; nothing is downloaded.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

QUIET: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}


def flat(value: object, path: str = "") -> dict[str, np.ndarray]:
    if isinstance(value, torch.Tensor):
        return {path: value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().copy()}
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: dict[str, np.ndarray] = {}
    for key, one in items:
        found |= flat(one, f"{path}/{key}" if path else str(key))
    return found


def language_model() -> Any:
    import transformers

    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=40, bos_token_id=1, eos_token_id=2)
    return transformers.GPT2LMHeadModel(config)


# --- Transformers ---


def save_model(folder: Path) -> None:
    language_model().save_pretrained(folder)


def save_shards(folder: Path) -> None:
    language_model().save_pretrained(folder, max_shard_size="8KB")


def read_model(folder: Path) -> dict[str, np.ndarray]:
    import transformers

    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    state = {name: one for name, one in model.state_dict().items() if name != "lm_head.weight"}  # tied, stored once
    return flat(state)


def trainer(folder: Path, epochs: int) -> Any:
    import transformers

    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 8
    arguments = transformers.TrainingArguments(
        folder, num_train_epochs=epochs, save_strategy="epoch", report_to=[], use_cpu=True, disable_tqdm=True
    )
    return transformers.Trainer(language_model(), arguments, train_dataset=rows)


def save_trainer(folder: Path) -> None:
    trainer(folder.parent / "run", 1).train()
    (folder.parent / "run" / "checkpoint-1").rename(folder)


def read_trainer(folder: Path) -> dict[str, np.ndarray]:
    """As the Trainer resumes: model and optimizer, before another step."""
    resumed = trainer(folder.parent / "again", 1)
    resumed.create_optimizer_and_scheduler(num_training_steps=2)
    resumed._load_from_checkpoint(str(folder))
    resumed._load_optimizer_and_scheduler(str(folder))
    state = {name: one for name, one in resumed.model.state_dict().items() if name != "lm_head.weight"}
    return flat(state) | flat(resumed.optimizer.state_dict(), "optimizer")


# --- Accelerate ---


def accelerated() -> tuple[Any, nn.Module]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Linear(9, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.backward(model(torch.randn(5, 6)).square().mean())
    optimizer.step()
    return accelerator, model


def save_accelerate(folder: Path) -> None:
    accelerated()[0].save_state(str(folder))


def read_accelerate(folder: Path) -> dict[str, np.ndarray]:
    accelerator, model = accelerated()
    accelerator.load_state(str(folder))
    return flat(model.state_dict()) | flat(accelerator._optimizers[0].optimizer.state_dict(), "optimizer")


# --- Lightning ---


def lightning_module() -> Any:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))

        def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
            return self.net(batch).square().mean()

        def configure_optimizers(self) -> Any:
            adam = torch.optim.AdamW(self.parameters())
            return [adam], [torch.optim.lr_scheduler.StepLR(adam, 1)]

    return Module()


def fitted(epochs: int, resume: Path | None = None) -> Any:
    import lightning

    made = lightning.Trainer(max_epochs=epochs, accelerator="cpu", enable_checkpointing=False, **QUIET)
    rows: Any = torch.randn(8, 4)
    made.fit(lightning_module(), torch.utils.data.DataLoader(rows, batch_size=4), ckpt_path=resume, weights_only=False)
    return made


def save_lightning(path: Path) -> None:
    fitted(1).save_checkpoint(path)


def read_lightning(path: Path) -> dict[str, np.ndarray]:
    """As the trainer resumes, with nothing left to train."""
    made = fitted(1, path)
    state = flat(made.lightning_module.state_dict(), "state_dict")
    return state | flat(made.optimizers[0].state_dict(), "optimizer_states/0")


KINDS: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], dict[str, np.ndarray]]]] = {
    "transformers": ("checkpoint", save_model, read_model),
    "transformers shards": ("checkpoint", save_shards, read_model),
    "trainer": ("checkpoint", save_trainer, read_trainer),
    "accelerate": ("checkpoint", save_accelerate, read_accelerate),
    "lightning": ("c.ckpt", save_lightning, read_lightning),
}


def main(words: list[str]) -> None:
    warnings.simplefilter("ignore")
    if words[0] == "make":
        for kind, (name, save, _) in KINDS.items():
            place = Path(words[1]) / kind
            place.mkdir()
            torch.manual_seed(2)
            save(place / name)
    else:
        held: dict[str, Any] = KINDS[words[1]][2](Path(words[2]))
        np.savez(words[3], **held)


if __name__ == "__main__":
    main(sys.argv[1:])
