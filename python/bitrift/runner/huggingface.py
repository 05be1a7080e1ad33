"""Campaigns and audits of trainings by a `transformers.Trainer`, without a loop of your own.

    import bitrift.runner.huggingface as bitrift_trainer

    trainer = transformers.Trainer(..., callbacks=[bitrift_trainer.SaveBase("base.h5", epoch=2)])
    bitrift_trainer.serve(trainer)
    trainer.train()

Run alone, the script trains as before, and the callback writes the base checkpoint after two epochs. In a campaign,
serve() answers its runs and never returns.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

import transformers

import bitrift.torch
from bitrift.runner import serving


class SaveBase(transformers.TrainerCallback):  # type: ignore[misc]
    """Writes the base checkpoint of a campaign at the end of an epoch: model, optimizer and scheduler."""

    def __init__(self, path: str | PathLike[str], *, epoch: int) -> None:
        """epoch: the number of completed epochs, at least 1. Later epochs are what a campaign repeats."""
        if epoch < 1:
            raise ValueError(f"epoch={epoch}: give at least 1")
        self._path, self._epoch = fspath(path), epoch

    def on_epoch_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Called by the Trainer."""
        if round(state.epoch) != self._epoch or not state.is_world_process_zero:
            return
        optimizer, scheduler = _raw(parts["optimizer"]), parts["lr_scheduler"]
        bitrift.torch.save(self._path, parts["model"], optimizer, scheduler=scheduler, epoch=self._epoch)


def serve(
    trainer: transformers.Trainer,
    *,
    loss: str = "eval_loss",
    accuracy: str = "eval_accuracy",
    better: Mapping[str, str] | None = None,
    threads: int = 1,
) -> None:
    """Answers the runs of a campaign or an audit with this Trainer; returns at once where there is none.

    Each epoch is a call of trainer.train() for one epoch, with the optimizer and the scheduler of the whole training:
    num_train_epochs or max_steps of the arguments decide on the schedule, as in an uninterrupted training. Nothing is
    logged, evaluated or saved in between. Batches come in the data order of the run, so `data_seed` has no effect.
    Call it after the Trainer is made and before train(). One process; callbacks that stop a training early are left
    out.

    loss, accuracy: keys of what trainer.evaluate() returns. The accuracy (0 to 1) may be missing: trials are then
    judged by the loss. better: other keys, with the direction that is better: {"eval_bleu": "higher"}. Trials are then
    judged by these, and by the accuracy if there is one.
    """
    if not serving.is_served():
        return
    _prepare(trainer)

    def train_epoch() -> float:
        # train() collects garbage first, which takes longer than a short epoch.
        gc.freeze()
        try:
            return float(trainer.train().training_loss)
        finally:
            gc.unfreeze()

    def evaluate() -> dict[str, float]:
        found = trainer.evaluate()
        if loss not in found and not better:
            raise KeyError(f"trainer.evaluate() returns no {loss}, but {', '.join(found)}: name its loss by loss=")
        own = serving.chosen(found, better or {}, "trainer.evaluate() returns")
        keys = {"test_loss": loss, "test_accuracy": accuracy}
        return {name: float(found[key]) for name, key in keys.items() if key in found and key not in own} | own

    serving.serve(
        model=trainer.model,
        optimizer=_raw(trainer.optimizer),
        scheduler=trainer.lr_scheduler,
        train_epoch=train_epoch,
        evaluate=evaluate,
        better=better,
        threads=threads,
    )


def _raw(optimizer: Any) -> Any:
    """The optimizer of PyTorch in that of accelerate."""
    return getattr(optimizer, "optimizer", optimizer)


def _prepare(trainer: Any) -> None:
    """Makes the optimizer and the scheduler of the whole training, and trainings of one epoch that say nothing."""
    args = trainer.args
    batches = len(trainer.get_train_dataloader())
    updates = max(math.ceil(batches / args.gradient_accumulation_steps), 1)
    total = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * updates)
    trainer.create_optimizer_and_scheduler(num_training_steps=total)
    trainer._created_lr_scheduler = False  # train() would make another
    quiet = {"save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no"}
    for name, value in quiet.items():
        setattr(args, name, type(getattr(args, name))(value))
    args.num_train_epochs, args.max_steps = 1, -1
    args.eval_on_start = args.load_best_model_at_end = False
    args.logging_nan_inf_filter = False  # it would hide losses that are not finite
    args.disable_tqdm = True
    # Without a seed, accelerate orders the batches by PyTorch's default generator, which follows the data order.
    args.data_seed = None
    if (config := getattr(trainer.accelerator, "dataloader_config", None)) is not None:
        config.data_seed = None
    kept = [one for one in trainer.callback_handler.callbacks if not _left_out(one)]
    trainer.callback_handler.callbacks = kept


def _left_out(callback: Any) -> bool:
    """Callbacks that print, report, save or stop."""
    kinds = (
        SaveBase,
        transformers.ProgressCallback,
        transformers.PrinterCallback,
        transformers.EarlyStoppingCallback,
    )
    return isinstance(callback, kinds) or type(callback).__module__.startswith("transformers.integrations")
