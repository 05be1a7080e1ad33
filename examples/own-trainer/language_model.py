"""A training loop in the style of Hugging Face: a Trainer, batches as dicts, model(**batch).loss, AdamW and a schedule.

A small language model learns the next byte of the shipped text; nothing is downloaded. With transformers, the model
comes from there, and the rest stays the same.
"""

import gzip
import os
from pathlib import Path
from types import SimpleNamespace

import bitrift.runner
import bitrift.torch
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

DATA = Path(os.environ.get("BITRIFT_DATA_DIR", Path(__file__).resolve().parents[2] / "data"))
LENGTH, TOTAL_STEPS = 32, 200


class LanguageModel(nn.Module):
    """One block of a transformer over bytes."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.embed = nn.Embedding(128, width)
        self.position = nn.Embedding(LENGTH, width)
        self.block = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, 128)

    def forward(self, input_ids, labels=None):
        mask = nn.Transformer.generate_square_subsequent_mask(input_ids.shape[1])
        hidden = self.embed(input_ids) + self.position.weight
        logits = self.head(self.block(hidden, src_mask=mask, is_causal=True))
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1), labels.flatten())
        return SimpleNamespace(loss=loss, logits=logits)


class Trainer:
    """The loop that such programs have in common."""

    def __init__(self, model, train_data, test_data):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
        self.scheduler = LambdaLR(self.optimizer, lambda step: max(0.1, 1 - step / TOTAL_STEPS))
        self.train_loader = DataLoader(train_data, batch_size=32, shuffle=True)
        self.test_batch = next(iter(DataLoader(test_data, batch_size=len(test_data))))

    def train_epoch(self):
        self.model.train()
        for batch in self.train_loader:
            loss = self.model(**batch).loss
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            yield loss.item()

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            output = self.model(**self.test_batch)
        return {"perplexity": output.loss.double().exp()}

    def save(self, path, epoch):
        bitrift.torch.save(path, self.model, self.optimizer, scheduler=self.scheduler, epoch=epoch)


def read_text(first, count):
    text = gzip.decompress((DATA / "jargon" / "jargon.txt.gz").read_bytes())
    rows = [torch.tensor(list(text[i * LENGTH : (i + 1) * LENGTH + 1])) for i in range(first, first + count)]
    return [{"input_ids": row[:-1], "labels": row[1:]} for row in rows]


def main():
    torch.manual_seed(0)
    trainer = Trainer(LanguageModel(), read_text(0, 640), read_text(1000, 64))
    bitrift.runner.serve(
        model=trainer.model,
        optimizer=trainer.optimizer,
        scheduler=trainer.scheduler,
        train_epoch=trainer.train_epoch,
        evaluate=trainer.evaluate,
        better={"perplexity": "lower"},
    )
    for epoch in range(3):
        losses = list(trainer.train_epoch())
        print(epoch, sum(losses) / len(losses), float(trainer.evaluate()["perplexity"]))
    trainer.save("language-model.h5", epoch=3)


if __name__ == "__main__":
    main()
