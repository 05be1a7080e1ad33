"""A training script with FSDP, which saves by torch.distributed.checkpoint, and nothing of bitrift but its call.

Each rank holds a part of every parameter. The first layer has 9 rows, so two ranks hold unequal parts of it. With
--save FOLDER, it trains and saves. With --alter SITE, it trains an epoch from base/ and prints how that ends; in the
third step, it flips a bit itself: bit 26 of element 5 of what rank 1 holds of the last layer's weight.
"""

import argparse
import os

import bitrift.runner
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--save")
parser.add_argument("--alter")
options = parser.parse_args()

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(1)
data = torch.randn(256, 6)
targets = (data @ torch.randn(6, 3)).argmax(1)
layers = [torch.nn.Linear(6, 9), torch.nn.LayerNorm(9), torch.nn.Tanh(), torch.nn.Linear(9, 8), torch.nn.Linear(8, 4)]
model = torch.nn.Sequential(*layers)
fully_shard(model[3], mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def flip(values: torch.Tensor) -> None:
    if dist.get_rank() == 1:
        values.to_local().view(-1).view(torch.int32)[5] ^= 1 << 26


def train_epoch() -> None:
    weight = model[4].weight
    for step, batch in enumerate(torch.randperm(192).split(32), 1):
        due = options.alter if step == 3 else None
        rows = batch[dist.get_rank() :: dist.get_world_size()]
        if due == "parameter":
            flip(weight.detach())
        optimizer.zero_grad()
        F.cross_entropy(model(data[rows]), targets[rows]).backward()
        if due == "weight_gradient":
            flip(weight.grad)
        before = weight.detach().clone()
        optimizer.step()
        if due == "update":
            added = weight.detach() - before
            flip(added)
            with torch.no_grad():
                part = (before + added).to_local().view(-1)[5]
                weight.to_local().view(-1)[5] = part if dist.get_rank() == 1 else weight.to_local().view(-1)[5]


@torch.no_grad()
def evaluate() -> tuple[float, float]:
    scores = model(data[192:])
    return F.cross_entropy(scores, targets[192:]).item(), (scores.argmax(1) == targets[192:]).float().mean().item()


def load(path: str) -> dict[str, int]:
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optim": moments, "epoch": 0}
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    return {"epoch": state["epoch"]}


def save(path: str, epoch: int) -> None:
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optim": moments, "epoch": epoch}, checkpoint_id=path)


if not options.save and not options.alter:
    kept = [model, optimizer]
    bitrift.runner.serve(load=load, save=save, state=lambda: kept, train_epoch=train_epoch, evaluate=evaluate)
if options.save:
    for _ in range(3):
        train_epoch()
    save(options.save, 3)
else:
    load("base")
    torch.manual_seed(int(os.environ["EPOCH_SEED"]))
    train_epoch()
    loss, accuracy = evaluate()
    if dist.get_rank() == 0:
        print(f"ends with {loss!r} {accuracy!r}")
dist.destroy_process_group()
