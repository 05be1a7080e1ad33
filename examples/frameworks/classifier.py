"""A classifier with dropout and a cosine schedule, trained by Lightning."""

import bitrift.runner.lightning
import lightning
import torch
from torch.nn.functional import cross_entropy


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 2)
        )

    def training_step(self, batch, index):
        x, y = batch
        return cross_entropy(self.layers(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        logits = self.layers(x)
        self.log("val_loss", cross_entropy(logits, y))
        self.log("val_accuracy", (logits.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)]


lightning.seed_everything(1)
x = torch.randn(1280, 8)
data = torch.utils.data.TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
train, test = torch.utils.data.random_split(data, [1024, 256])
loaders = [torch.utils.data.DataLoader(train, batch_size=32, shuffle=True), torch.utils.data.DataLoader(test, 256)]
classifier = Classifier()
base = bitrift.runner.lightning.SaveBase("classifier.h5", epoch=5)
trainer = lightning.Trainer(max_epochs=8, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[base])
bitrift.runner.lightning.serve(trainer, classifier, *loaders)
trainer.fit(classifier, *loaders)
trainer.validate(classifier, loaders[1])
