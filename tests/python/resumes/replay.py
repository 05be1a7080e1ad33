"""A script that learns from a buffer of what it saw in earlier epochs, as reinforcement learning does."""

import bitrift.runner
import bitrift.torch
import numpy as np
import torch
from parts import MISTAKE


class Lazy:
    """Imports what it stands for when it is asked for anything, and cannot."""

    def __getattr__(self, name):
        raise ImportError(f"{name}: not installed")


class Buffer:
    def __init__(self, rows):
        self.rows = np.zeros((rows, 5), np.float32)
        self.count = np.int64(0)

    def add(self, row):
        self.rows[self.count % len(self.rows)] = row
        self.count = self.count + np.int64(1)

    def sample(self, rows):
        drawn = torch.randint(min(int(self.count), len(self.rows)), (rows,))
        return torch.from_numpy(self.rows[drawn.numpy()])


lazy = Lazy()
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
buffer = Buffer(64)
test_rows = torch.randn(32, 4)


def train_epoch():
    for _ in range(12):
        seen = torch.randn(4).numpy()
        buffer.add([*seen, seen.sum()])
        batch = buffer.sample(8)
        loss = (model(batch[:, :4])[:, 0] - batch[:, 4]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(test_rows)[:, 0] - test_rows.sum(1)).square().mean()


def save(path, epoch):
    bitrift.torch.save(path, model, optimizer, random=True, epoch=epoch, count=int(buffer.count))
    with open(f"{path}.rows", "wb") as file:
        np.save(file, buffer.rows)


def load(path):
    progress = bitrift.torch.load_into(path, model, optimizer, random=True)
    buffer.count = np.int64(progress["count"])
    if MISTAKE != "array":
        buffer.rows[:] = np.load(f"{path}.rows")
    return progress["epoch"]


bitrift.runner.serve(load=load, save=save, state=lambda: [model, optimizer], train_epoch=train_epoch, evaluate=evaluate)
