"""Right scripts, one for each way to train: optimizers, schedules, models and loops that other scripts do not have.

The environment variable WAY names the one to run. Each keeps everything that it trains with.
"""

import os
from collections.abc import Callable
from typing import Any

import bitrift.runner
import torch
from parts import samples
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import lr_scheduler as schedules
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

Model = nn.Module
Kept = dict[str, Any]
test_x, test_y = samples(5).tensors
loader = torch.utils.data.DataLoader(samples(4), batch_size=16, shuffle=True)


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 2))


def once_an_epoch(model: Model, optimizer: Any, scheduler: Any, **kept: Any) -> tuple[Callable[[], None], Kept]:
    def train_epoch() -> None:
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
        if scheduler is not None:
            scheduler.step()

    return train_epoch, {"optimizer": optimizer, "scheduler": scheduler} | kept


def every_step(model: Model, optimizer: Any, scheduler: Any) -> tuple[Callable[[], None], Kept]:
    def train_epoch() -> None:
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()

    return train_epoch, {"optimizer": optimizer, "scheduler": scheduler}


def sgd_steps(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    return once_an_epoch(model, optimizer, schedules.StepLR(optimizer, 1, 0.5))


def one_cycle(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    return every_step(model, optimizer, schedules.OneCycleLR(optimizer, 0.05, total_steps=100))


def cyclic(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, centered=True, momentum=0.9)
    return every_step(model, optimizer, schedules.CyclicLR(optimizer, 0.001, 0.01, step_size_up=4))


def restarts(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    return every_step(model, optimizer, schedules.CosineAnnealingWarmRestarts(optimizer, 5))


def warm_up(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.RAdam(model.parameters(), lr=0.01)
    first, then = schedules.LinearLR(optimizer, 0.1, 1.0, 4), schedules.CosineAnnealingLR(optimizer, 20)
    return every_step(model, optimizer, schedules.SequentialLR(optimizer, [first, then], [4]))


def chained(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.Adafactor(model.parameters(), lr=0.05)
    both = [schedules.ConstantLR(optimizer, 0.5, 3), schedules.ExponentialLR(optimizer, 0.9)]
    return once_an_epoch(model, optimizer, schedules.ChainedScheduler(both))


def rate_function(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    return once_an_epoch(model, optimizer, schedules.LambdaLR(optimizer, lambda epoch: 0.8**epoch))


def milestones(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.Rprop(model.parameters(), lr=0.01)
    return once_an_epoch(model, optimizer, schedules.MultiStepLR(optimizer, [1, 3]))


def polynomial(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.ASGD(model.parameters(), lr=0.05)
    return once_an_epoch(model, optimizer, schedules.PolynomialLR(optimizer, 6, 2.0))


def plateau(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
    scheduler = schedules.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
    train, kept = once_an_epoch(model, optimizer, None)

    def train_epoch() -> None:
        train()
        scheduler.step(evaluate(model)[0])

    return train_epoch, kept | {"scheduler": scheduler}


def closure(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=3)
    x, y = samples(4).tensors

    def train_epoch() -> None:
        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            value = cross_entropy(model(x), y)
            value.backward()
            return value

        optimizer.step(loss)

    return train_epoch, {"optimizer": optimizer}


def swa(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.Adamax(model.parameters(), lr=0.01)
    scheduler = SWALR(optimizer, swa_lr=0.005, anneal_epochs=3)
    average = AveragedModel(model)
    train, kept = once_an_epoch(model, optimizer, scheduler, ema=average)

    def train_epoch() -> None:
        train()
        average.update_parameters(model)
        update_bn(loader, average)

    return train_epoch, kept


def accumulation(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.Muon([one for one in model.parameters() if one.dim() == 2], lr=0.01)
    rest = torch.optim.Adam([one for one in model.parameters() if one.dim() != 2], lr=0.01)

    def train_epoch() -> None:
        for number, (x, y) in enumerate(loader):
            (cross_entropy(model(x), y) / 3).backward()
            if number % 3 == 2:
                optimizer.step()
                rest.step()
                optimizer.zero_grad()
                rest.zero_grad()

    return train_epoch, {"optimizer": [optimizer, rest]}


class Recurrent(nn.Module):
    """An LSTM over an embedding with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 4, sparse=True)
        self.rows = nn.LSTM(4, 6, batch_first=True)
        self.head = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, _ = self.rows(self.words((x * 2).long().clamp(-4, 3) + 4))
        return self.head(rows[:, -1])


def sparse(model: Any) -> tuple[Callable[[], None], Kept]:
    words = torch.optim.SparseAdam(model.words.parameters(), lr=0.01)
    dense = torch.optim.Adam([*model.rows.parameters(), *model.head.parameters()], lr=0.01)

    def train_epoch() -> None:
        for x, y in loader:
            model.zero_grad()
            cross_entropy(model(x), y).backward()
            words.step()
            dense.step()

    return train_epoch, {"optimizer": {"words": words, "dense": dense}}


def attention(model: Model) -> tuple[Callable[[], None], Kept]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.8, 0.95), weight_decay=0.01)
    scheduler = schedules.MultiplicativeLR(optimizer, lambda epoch: 0.95)
    return every_step(model, optimizer, scheduler)


def encoder() -> nn.Sequential:
    layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(6, 2))


def convolution() -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.PReLU(), nn.Flatten(), nn.LazyLinear(2)
    )


def normalized() -> nn.Sequential:
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 12)), nn.Tanh(), nn.Linear(12, 2))


def evaluate(model: Model) -> tuple[float, float]:
    model.eval()
    with torch.no_grad():
        logits = model(test_x)
    model.train()
    return cross_entropy(logits, test_y).item(), (logits.argmax(1) == test_y).float().mean().item()


WAYS: dict[str, tuple[Callable[[], Any], Callable[[Any], tuple[Callable[[], None], Kept]]]] = {
    "SGD, StepLR": (plain, sgd_steps),
    "AdamW, OneCycleLR": (convolution, one_cycle),
    "RMSprop, CyclicLR": (plain, cyclic),
    "Adagrad, CosineAnnealingWarmRestarts": (plain, restarts),
    "RAdam, SequentialLR": (normalized, warm_up),
    "Adafactor, ChainedScheduler": (plain, chained),
    "Adadelta, LambdaLR": (plain, rate_function),
    "Rprop, MultiStepLR": (plain, milestones),
    "ASGD, PolynomialLR": (convolution, polynomial),
    "NAdam, ReduceLROnPlateau": (plain, plateau),
    "LBFGS": (plain, closure),
    "Adamax, SWALR": (convolution, swa),
    "Muon and Adam": (plain, accumulation),
    "SparseAdam and Adam": (Recurrent, sparse),
    "Adam, MultiplicativeLR": (encoder, attention),
}


def main() -> None:
    make, train = WAYS[os.environ["WAY"]]
    torch.manual_seed(1)
    model = make()
    model(test_x)  # a lazy layer takes its shape
    train_epoch, kept = train(model)
    bitrift.runner.serve(model=model, **kept, random=True, train_epoch=train_epoch, evaluate=lambda: evaluate(model))


if __name__ == "__main__":
    main()
