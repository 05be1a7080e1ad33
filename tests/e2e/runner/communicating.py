"""A script of two ranks whose optimizer state is sharded (ZeroRedundancyOptimizer), and whose gradients are compressed
by PowerSGD, which keeps what it left out. Saves with --save FILE.
"""

import argparse

import bitrift.runner
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy

parser = argparse.ArgumentParser()
parser.add_argument("--save")
parser.add_argument("--trap", choices=("none", "counter", "raises"), default="none")
options = parser.parse_args()
dist.init_process_group("gloo")
torch.manual_seed(0)
x = torch.randn(192, 8)
y = (x.sum(1) > 0).long()
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2)))
compression = powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)
model.register_comm_hook(compression, powersgd.powerSGD_hook)
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
data = torch.utils.data.TensorDataset(x[:128], y[:128])
sampler = torch.utils.data.DistributedSampler(data, seed=3)
loader = torch.utils.data.DataLoader(data, 16, sampler=sampler)
steps = {"made": 0}


def train_epoch(epoch):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        rate = 0.5 if options.trap == "counter" and steps["made"] > 3 else 1
        loss = rate * cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps["made"] += 1
    if options.trap == "raises" and dist.get_rank() == 1:
        raise ValueError("only rank 1 has a problem")


def evaluate():
    with torch.no_grad():
        logits = model.module(x[128:])
    return cross_entropy(logits, y[128:]).item(), (logits.argmax(1) == y[128:]).float().mean().item()


def load(path):
    content = torch.load(path, weights_only=False)
    model.module.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    return content["epoch"]


def state():
    return [model, optimizer]


bitrift.runner.serve(train_epoch=train_epoch, evaluate=evaluate, load=load, state=state, shuffle=[sampler])
for number in range(3):
    train_epoch(number)
optimizer.consolidate_state_dict(0)
if dist.get_rank() == 0:
    content = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch.save(content, options.save)
dist.barrier()
dist.destroy_process_group()
