"""Campaigns and audits of trainings by a `lightning.Trainer`, without a loop of your own.

    import bitrift.runner.lightning as bitrift_lightning

    trainer = lightning.Trainer(..., callbacks=[bitrift_lightning.SaveBase("base.h5", epoch=2)])
    bitrift_lightning.serve(trainer, module, train_loader, test_loader)
    trainer.fit(module, train_loader, test_loader)

Run alone, the script trains as before, and the callback writes the base checkpoint after two epochs. In a campaign,
serve() answers its runs and never returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import lightning
import torch
from lightning.pytorch import callbacks

import bitrift.torch
from bitrift.runner import serving


class SaveBase(lightning.Callback):  # type: ignore[misc]
    """Writes the base checkpoint of a campaign at the end of an epoch: module, optimizers and schedulers."""

    def __init__(self, path: str | PathLike[str], *, epoch: int) -> None:
        """epoch: the number of completed epochs, at least 1. Later epochs are what a campaign repeats."""
        if epoch < 1:
            raise ValueError(f"epoch={epoch}: give at least 1")
        self._path, self._epoch = fspath(path), epoch

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Called by the Trainer, after it has stepped schedulers that step once an epoch."""
        if trainer.current_epoch + 1 != self._epoch or not trainer.is_global_zero:
            return
        schedulers = _named([config.scheduler for config in trainer.lr_scheduler_configs])
        bitrift.torch.save(
            self._path, pl_module, _named(trainer.optimizers), scheduler=schedulers or None, epoch=self._epoch
        )


def serve(
    trainer: lightning.Trainer,
    module: lightning.LightningModule,
    train_dataloaders: Any = None,
    val_dataloaders: Any = None,
    *,
    datamodule: Any = None,
    loss: str = "",
    accuracy: str = "",
    better: Mapping[str, str] | None = None,
    shuffle: Sequence[Any] = (),
    threads: int = 1,
) -> None:
    """Answers the runs of a campaign or an audit with this Trainer; returns at once where there is none.

    Each epoch is a call of trainer.fit() for one epoch, with the optimizers and schedulers that configure_optimizers()
    returned once; it is called before the first fit, with module.trainer set. Between fits, nothing is logged,
    validated or saved. One process; callbacks that save, print, measure or stop a training early are left out.

    train_dataloaders, val_dataloaders, datamodule: as for fit(). loss, accuracy: keys that the validation logs; by
    default the first one that contains "loss", and the first that contains "acc". The accuracy (0 to 1) may be
    missing: trials are then judged by the loss. better: other keys, with the direction that is better:
    {"val_bleu": "higher"}. Trials are then judged by these, and by the accuracy if there is one. shuffle: as for
    bitrift.runner.serve().
    """
    if not serving.is_served():
        return
    module.trainer = trainer
    optimizers, schedulers = _configured(module)
    _silence(trainer)
    data = {"train_dataloaders": train_dataloaders, "datamodule": datamodule}
    validation = {"dataloaders": val_dataloaders, "datamodule": datamodule}

    def train_epoch(epoch: int) -> None:
        progress = trainer.fit_loop.epoch_progress
        for part in (progress.current, progress.total):
            part.ready = part.started = part.processed = part.completed = epoch
        trainer.fit_loop.max_epochs = epoch + 1
        trainer.should_stop = False
        trainer.limit_val_batches = 0  # fit() would validate, too
        trainer.fit(module, **data)

    def evaluate() -> dict[str, float]:
        trainer.limit_val_batches = limit
        results: list[Mapping[str, Any]] = trainer.validate(module, verbose=False, **validation)
        found = results[-1] if results else {}
        keys = {"test_loss": _key(found, loss, "loss"), "test_accuracy": _key(found, accuracy, "acc")}
        if keys["test_loss"] is None and not better:
            raise KeyError(f"the validation logs no loss, but {', '.join(found) or 'nothing'}: name it by loss=")
        metrics = {name: float(found[key]) for name, key in keys.items() if key is not None and key not in own}
        return metrics | serving.chosen(found, own, "the validation logs")

    limit, own = trainer.limit_val_batches, better or {}
    serving.serve(
        model=module,
        optimizer=optimizers,
        scheduler=schedulers or None,
        train_epoch=train_epoch,
        evaluate=evaluate,
        better=better,
        shuffle=shuffle,
        threads=threads,
    )


def _named(several: Sequence[Any]) -> Any:
    """As bitrift.torch.save() takes one or several."""
    return several[0] if len(several) == 1 else {str(number): one for number, one in enumerate(several)}


def _key(found: Mapping[str, Any], wanted: str, part: str) -> str | None:
    """The key of a metric; None where there is none."""
    if wanted:
        return wanted if wanted in found else None
    return next((name for name in found if part in name), None)


def _configured(module: Any) -> tuple[Any, Any]:
    """The optimizers and schedulers of the module, which it returns again from now on."""
    configured = module.configure_optimizers()
    module.configure_optimizers = lambda: configured
    optimizers: list[torch.optim.Optimizer] = []
    schedulers: list[Any] = []
    _collect(configured, optimizers, schedulers)
    if not optimizers:
        raise TypeError("configure_optimizers() returns no optimizer")
    return _named(optimizers), _named(schedulers) if schedulers else None


def _collect(found: Any, optimizers: list[torch.optim.Optimizer], schedulers: list[Any]) -> None:
    """Takes apart what configure_optimizers() may return."""
    if isinstance(found, torch.optim.Optimizer):
        optimizers.append(found)
    elif isinstance(found, Mapping):
        for key in ("optimizer", "lr_scheduler", "scheduler"):
            _collect(found.get(key), optimizers, schedulers)
    elif isinstance(found, (list, tuple)):
        for one in found:
            _collect(one, optimizers, schedulers)
    elif hasattr(found, "state_dict"):
        schedulers.append(found)


def _silence(trainer: Any) -> None:
    """Leaves out callbacks that save, print, measure or stop, and loggers."""
    kinds = (
        SaveBase,
        callbacks.Checkpoint,
        callbacks.ProgressBar,
        callbacks.EarlyStopping,
        callbacks.ModelSummary,
        callbacks.LearningRateMonitor,
        callbacks.DeviceStatsMonitor,
    )
    trainer.callbacks = [one for one in trainer.callbacks if not isinstance(one, kinds)]
    trainer.loggers = []
    trainer.num_sanity_val_steps = 0
