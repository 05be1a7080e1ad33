"""A script of functions and globals: two optimizers, a schedule, an average, a scaler, and a seeded loader."""

from typing import Any

import bitrift.runner
import bitrift.torch
import torch
from parts import MISTAKE, features, groups, samples
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(1)
noise = torch.Generator().manual_seed(2)
order = torch.Generator().manual_seed(3)
body, head = features(noise), nn.Linear(12, 2)
model = nn.Sequential(body, head)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
body_optimizer = torch.optim.AdamW(groups(body), lr=1e-2)
head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(body_optimizer, 6)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)
loader = torch.utils.data.DataLoader(samples(4), batch_size=16, shuffle=True, generator=order)
test_x, test_y = samples(5).tensors


def train_epoch(epoch):
    model.train()
    for x, y in loader:
        x = x + 0.05 * (1 + epoch) * torch.randn_like(x)
        loss = cross_entropy(model(x), y)
        body_optimizer.zero_grad()
        head_optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(body_optimizer)
        scaler.step(head_optimizer)
        scaler.update()
        average.update_parameters(model)
    scheduler.step()
    return loss.item()


def evaluate():
    average.eval()
    with torch.no_grad():
        logits = average(test_x)
    return cross_entropy(logits, test_y).item(), (logits.argmax(1) == test_y).float().mean().item()


kept: dict[str, Any] = {
    "optimizer": {"body": body_optimizer, "head": head_optimizer},
    "scheduler": scheduler,
    "ema": average,
    "scaler": scaler,
    "sampler": {"order": order, "noise": noise},
    "random": True,
}
LEFT_OUT = {
    "no scheduler": "scheduler",
    "sampler from the start": "order",
    "random state": "random",
    "scaler": "scaler",
    "average": "ema",
    "dropout generator": "noise",
}
if MISTAKE in ("no scheduler", "random state", "scaler", "average"):
    del kept[LEFT_OUT[MISTAKE]]
if MISTAKE in ("sampler from the start", "dropout generator"):
    del kept["sampler"][LEFT_OUT[MISTAKE]]
if MISTAKE == "optimizer":
    kept["optimizer"] = {"body": body_optimizer}


def save(path, epoch):
    bitrift.torch.save(path, model, **kept, epoch=epoch)


def load(path):
    before = {name: value.clone() for name, value in model.named_buffers()}
    decays = [group["weight_decay"] for group in body_optimizer.param_groups]
    progress = bitrift.torch.load_into(path, model, **kept)
    if MISTAKE == "scheduler twice":
        for _ in range(int(progress["epoch"])):
            scheduler.step()
    if MISTAKE == "buffers":
        for name, value in model.named_buffers():
            value.copy_(before[name])
    if MISTAKE == "weight decay group":
        for group in body_optimizer.param_groups:
            group["weight_decay"] = max(decays)
    return {"epoch": progress["epoch"] + (MISTAKE == "epoch")}


def state():
    return [model, average, body_optimizer, head_optimizer, scheduler, scaler]


bitrift.runner.serve(load=load, state=state, save=save, train_epoch=train_epoch, evaluate=evaluate)
