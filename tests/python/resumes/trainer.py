"""A script with a class: it saves with torch.save, draws with NumPy, and averages the weights by hand.

Run it as trainer.py:main.
"""

import copy
import random

import bitrift.runner
import numpy as np
import torch
from parts import MISTAKE, features, groups, samples
from torch import nn
from torch.nn.functional import cross_entropy


class Trainer:
    """What such programs have in common."""

    def __init__(self):
        self.noise = torch.Generator().manual_seed(2)
        self.order = np.random.default_rng(3)
        self.model = nn.Sequential(features(self.noise), nn.Linear(12, 2))
        self.critic = nn.Linear(2, 1)
        self.shadow = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        self.optimizer = torch.optim.RMSprop(groups(self.model), lr=3e-3, momentum=0.5)
        self.critic_optimizer = torch.optim.Adagrad(self.critic.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.2, 1.0, total_iters=40)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=5)
        self.x, self.y = samples(4).tensors
        self.test_x, self.test_y = samples(5).tensors

    def train_epoch(self, epoch):
        self.model.train()
        for rows in np.split(self.order.permutation(len(self.x)), 6):
            x, y = self.x[rows] * random.choice([0.9, 1.0, 1.1]), self.y[rows]
            logits = self.model(x)
            loss = cross_entropy(logits, y) + self.critic(logits.detach()).square().mean() / (2 + epoch)
            self.optimizer.zero_grad()
            self.critic_optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.step(self.critic_optimizer)
            self.scaler.update()
            self.scheduler.step()
            for name, value in self.model.named_parameters():
                self.shadow[name].lerp_(value.detach(), 0.2)
            yield loss.item()

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            logits = torch.func.functional_call(self.model, self.shadow, (self.test_x,))
        right = (logits.argmax(1) == self.test_y).float().mean()
        return {"test_loss": cross_entropy(logits, self.test_y), "test_accuracy": right}

    def state(self):
        return [
            self.model,
            self.critic,
            self.shadow,
            self.optimizer,
            self.critic_optimizer,
            self.scheduler,
            self.scaler,
        ]

    def parts(self):
        """The names of what torch.save() stores."""
        parts = {"model", "critic", "optimizer", "critic_optimizer", "scheduler", "scaler"}
        left_out = {"no scheduler": "scheduler", "scaler": "scaler", "optimizer": "critic_optimizer"}
        return sorted(parts - {left_out.get(MISTAKE)})

    def save(self, path, epoch):
        content = {name: getattr(self, name).state_dict() for name in self.parts()}
        content |= {"epoch": epoch, "shadow": self.shadow, "random": random.getstate()}
        content |= {"order": self.order.bit_generator.state, "noise": self.noise.get_state()}
        torch.save(content, path)

    def load(self, path):
        before = copy.deepcopy(dict(self.model.named_buffers()))
        content = torch.load(path, weights_only=False)
        for name in self.parts():
            getattr(self, name).load_state_dict(content[name])
        if MISTAKE != "average":
            for name, value in self.shadow.items():
                value.copy_(content["shadow"][name])
        if MISTAKE != "random state":
            random.setstate(content["random"])
        if MISTAKE != "sampler from the start":
            self.order.bit_generator.state = content["order"]
        if MISTAKE != "dropout generator":
            self.noise.set_state(content["noise"])
        if MISTAKE == "scheduler twice":
            for _ in range(6 * content["epoch"]):
                self.scheduler.step()
        if MISTAKE == "buffers":
            for name, value in self.model.named_buffers():
                value.copy_(before[name])
        if MISTAKE == "weight decay group":
            for group in self.optimizer.param_groups:
                group["weight_decay"] = 0.05
        return {"epoch": content["epoch"] + (MISTAKE == "epoch")}


def main():
    random.seed(1)
    torch.manual_seed(1)
    trainer = Trainer()
    bitrift.runner.serve(
        load=trainer.load,
        state=trainer.state,
        save=trainer.save,
        train_epoch=trainer.train_epoch,
        evaluate=trainer.evaluate,
    )
