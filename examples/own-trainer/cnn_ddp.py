"""The script of cnn.py on several processes: python -m torch.distributed.run --nproc-per-node 2 cnn_ddp.py.

Alone, `python cnn_ddp.py` is a run of one process.
"""

import os
import tempfile

import bitrift.runner
import bitrift.torch
import digits
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
meeting = "env://" if "RANK" in os.environ else f"file://{tempfile.mkdtemp()}/meeting"
torch.distributed.init_process_group("gloo", meeting, rank=rank, world_size=ranks)
torch.manual_seed(0)
layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)]
model = DistributedDataParallel(nn.Sequential(*layers))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
train_data = digits.read("train")
sampler: DistributedSampler = DistributedSampler(train_data)
train_loader = DataLoader(train_data, batch_size=32, sampler=sampler)
test_images, test_labels = digits.read("t10k").tensors


def train_epoch(epoch):
    sampler.set_epoch(epoch)
    model.train()
    for images, labels in train_loader:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()


def evaluate():
    model.eval()
    with torch.no_grad():
        logits = model(test_images)
    accuracy = (logits.argmax(1) == test_labels).float().mean()
    return cross_entropy(logits, test_labels), accuracy


bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train_epoch, evaluate=evaluate, shuffle=[sampler])
for epoch in range(5):
    train_epoch(epoch)
if rank == 0:
    print(*map(float, evaluate()))
    bitrift.torch.save("digits-ddp.h5", model.module, optimizer, epoch=5)
torch.distributed.destroy_process_group()
