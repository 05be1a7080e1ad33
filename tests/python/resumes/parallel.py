"""A script for several processes: DistributedDataParallel, and a DistributedSampler that follows the epoch."""

from typing import Any

import bitrift.runner
import bitrift.torch
import torch
from parts import MISTAKE, features, groups, samples
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, DistributedSampler

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(1)
noise = torch.Generator().manual_seed(2 + rank)
network = nn.Sequential(features(noise), nn.Linear(12, 2))
model = DistributedDataParallel(network, broadcast_buffers=False)
average = AveragedModel(network)
weights = torch.optim.Adam(groups(network[0]), lr=1e-2)
last = torch.optim.SGD(network[1].parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(weights, factor=0.5, patience=0, threshold=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
data = samples(4)
sampler: DistributedSampler = DistributedSampler(data, seed=3)
loader = DataLoader(data, batch_size=8, sampler=sampler)
test_x, test_y = samples(5).tensors


def train_epoch(epoch):
    if MISTAKE != "sampler from the start":
        sampler.set_epoch(epoch)
    model.train()
    for x, y in loader:
        loss = cross_entropy(model(x + 0.1 * torch.randn_like(x)), y)
        weights.zero_grad()
        last.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(weights)
        scaler.step(last)
        scaler.update()
    if MISTAKE == "sampler from the start":
        sampler.epoch += 1
    average.update_parameters(network)
    total = loss.detach().clone()
    torch.distributed.all_reduce(total)
    scheduler.step(total.item())


def evaluate():
    average.eval()
    with torch.no_grad():
        logits = average(test_x)
    return cross_entropy(logits, test_y), (logits.argmax(1) == test_y).float().mean()


kept: dict[str, Any] = {
    "optimizer": [weights, last],
    "scheduler": scheduler,
    "ema": average,
    "scaler": scaler,
    "sampler": noise,
    "random": True,
}
LEFT_OUT = {
    "no scheduler": "scheduler",
    "random state": "random",
    "scaler": "scaler",
    "average": "ema",
    "dropout generator": "sampler",
}
if MISTAKE in LEFT_OUT:
    del kept[LEFT_OUT[MISTAKE]]
if MISTAKE == "optimizer":
    kept["optimizer"] = [weights]


def save(path, epoch):
    # Generators and the buffers of BatchNorm differ from rank to rank.
    bitrift.torch.save(f"{path}.{rank}", model, **kept, epoch=epoch)


def load(path):
    if MISTAKE == "half of the ranks" and rank == 1:
        return {"epoch": 1}
    before = {name: value.clone() for name, value in network.named_buffers()}
    progress = bitrift.torch.load_into(f"{path}.{rank}", model, **kept)
    if MISTAKE == "scheduler twice":
        for _ in range(2):
            scheduler.step(1.0)
    if MISTAKE == "buffers":
        for name, value in network.named_buffers():
            value.copy_(before[name])
    if MISTAKE == "weight decay group":
        for group in weights.param_groups:
            group["weight_decay"] = 0.05
    return {"epoch": progress["epoch"] + (MISTAKE == "epoch")}


def state():
    return [model, average, weights, last, scheduler, scaler]


bitrift.runner.serve(load=load, state=state, save=save, train_epoch=train_epoch, evaluate=evaluate)
