import bitrift.runner
import bitrift.torch
import digits
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
train_loader = DataLoader(digits.read("train"), batch_size=64, shuffle=True)
test_images, test_labels = digits.read("t10k").tensors


def train():
    model.train()
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    scheduler.step()


def evaluate():
    model.eval()
    with torch.no_grad():
        logits = model(test_images)
    test_loss = cross_entropy(logits, test_labels).item()
    accuracy = (logits.argmax(1) == test_labels).float().mean().item()
    return test_loss, accuracy


bitrift.runner.serve(model=model, optimizer=optimizer, scheduler=scheduler, train_epoch=train, evaluate=evaluate)
for epoch in range(5):
    train()
    print(epoch, *evaluate())
bitrift.torch.save("inline.h5", model, optimizer, scheduler=scheduler, epoch=5)
